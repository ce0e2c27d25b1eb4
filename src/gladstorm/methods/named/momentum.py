"""Momentum with other schedules, transports and compressors; STORM that adapts; MARS, which scales its correction."""

from __future__ import annotations

import numpy as np

from gladstorm.core.parts import Numbers
from gladstorm.core.references import CUTKOSKY_MEHTA_2020, CUTKOSKY_ORABONA_2019, HUBLER_2024, KHIRIRAT_2025, YUAN_2025
from gladstorm.methods.batches import BatchSizes
from gladstorm.methods.declaration import declared
from gladstorm.methods.estimators import ErrorFeedback, Mars, Momentum, Storm, Transported
from gladstorm.methods.method import Method, rule
from gladstorm.methods.named.paper import nsgdm
from gladstorm.methods.schedules import CubeRootDecay, PowerDecay, SquareOf, Tunable
from gladstorm.methods.steps import Normalized, Plain


@declared(
    source=f"{CUTKOSKY_MEHTA_2020}, its schedule as commonly given",
    sfo="K + 1",
    complexity="O(ε^-4)",
    assumptions="bounded variance σ², L-smooth",
)
def nsgdm_for_horizon(horizon: Numbers, gap: Numbers, L: Numbers, sigma: Numbers, *, batch: BatchSizes = 1) -> Method:
    """NSGDM with η = min{√(ΔL)/(σ√T), 1} and γ = √(Δη/(TL)), for T = `horizon` steps and Δ = `gap`."""
    eta = np.minimum(np.sqrt(np.divide(np.multiply(gap, L), horizon)) / sigma, 1.0)
    return nsgdm(np.sqrt(gap * eta / np.multiply(horizon, L)), eta, batch=batch)


@declared(
    source=str(HUBLER_2024),
    sfo="K + 1",
    complexity="Õ(ε^-4)",
    assumptions="bounded variance, (L0, L1)-smooth, no constant known",
)
def nsgdm_agnostic(gamma: Numbers, *, batch: BatchSizes = 1) -> Method:
    """NSGDM with γ_k = γ (k + 1)^{−3/4} and η_k = (k + 1)^{−1/2}, which need no horizon and no constants of f.

    No 1e-6 is added to ‖v‖.
    """
    return Method(Momentum(PowerDecay(1.0, 0.5)), Normalized(PowerDecay(gamma, 0.75)), rule(batch))


@declared(
    source=str(CUTKOSKY_MEHTA_2020),
    sfo="K + 1",
    complexity="O(ε^-3.5)",
    assumptions="bounded variance, Lipschitz Hessian",
)
def nigt(gamma: Tunable, eta: Tunable, *, batch: BatchSizes = 1) -> Method:
    """NIGT: NSGDM with gradients at an extrapolated point, x + (1 − η)/η (x − x⁻), where x⁻ is the iterate before x."""
    return Method(Transported(eta), Normalized(gamma), rule(batch))


@declared(
    source=str(KHIRIRAT_2025), sfo="n (K + 1)", complexity="O(ε^-4)", assumptions="bounded variance, (L0, L1)-smooth"
)
def ef21_sgdm(gamma: Tunable, eta: Tunable, k: Tunable, *, clients: int = 1, batch: BatchSizes = 1) -> Method:
    """‖EF21-SGDM‖: NSGDM with n clients, each of which sends only the k largest entries of what changed."""
    return Method(ErrorFeedback(eta, k, clients), Normalized(gamma), rule(batch))


@declared(
    source=str(CUTKOSKY_ORABONA_2019),
    sfo="1 + 2K",
    complexity="Õ(ε^-3)",
    assumptions="bounded variance, every sample smooth and Lipschitz",
)
def adaptive_storm(gamma: Numbers, offset: Numbers, factor: Numbers, *, batch: BatchSizes = 1) -> Method:
    """STORM with γ_k = γ/(w + Σ_{i≤k} ‖∇f(x^i; ξ^i)‖²)^{1/3}, η_{k+1} = min(1, c γ_k²), w = `offset`, c = `factor`."""
    pace = CubeRootDecay(gamma, offset)
    return Method(Storm(SquareOf(factor, pace)), Plain(pace), rule(batch))


@declared(
    source=f"{CUTKOSKY_ORABONA_2019}, its theorem",
    sfo="1 + 2K",
    complexity="Õ(ε^-3)",
    assumptions="bounded variance, every sample smooth and Lipschitz",
)
def storm_by_theory(lipschitz: Numbers, L: Numbers, *, b: Numbers = 1.0, batch: BatchSizes = 1) -> Method:
    """`adaptive_storm` with γ = b g^{2/3}/L, w = g² max((4b)³, 2, (28b + 1/(7b²))³/64), c = L² (28 + 1/(7b³)), b > 0.

    These are the numbers of STORM's theorem, for samples that are all g-Lipschitz (`lipschitz`) and L-smooth. They give
    γ_k ≤ 1/(4L) and η ≤ 1.
    """
    L, b = np.asarray(L), np.asarray(b)
    scale = b * np.power(lipschitz, 2 / 3) / L
    bends = np.maximum(np.maximum(np.power(4 * b, 3), 2.0), np.power(28 * b + 1 / (7 * np.square(b)), 3) / 64)
    return adaptive_storm(scale, np.square(lipschitz) * bends, np.square(L) * (28 + 1 / (7 * b**3)), batch=batch)


@declared(source=f"{YUAN_2025}, exact form without preconditioner", sfo="1 + 2K")
def mars(gamma: Tunable, eta: Tunable, *, scale: Tunable = 0.025, batch: BatchSizes = 1) -> Method:
    """MARS: x ← x − γ v, where v is that of STORM with its correction scaled by `scale` and cut to unit length."""
    return Method(Mars(eta, scale), Plain(gamma), rule(batch))
