"""SGD, momentum, STORM and other variance reduction: the paper's methods, by numbers or by theorem, and relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from gladstorm.core import references as cite
from gladstorm.core.parts import Numbers
from gladstorm.methods.batches import BatchSizes, FirstLarge, LargeOnRefresh, LikeNoise
from gladstorm.methods.estimators import (
    ErrorFeedback,
    Fresh,
    LaggedMars,
    Mars,
    Momentum,
    Page,
    Spider,
    Storm,
    Svrg,
    Transported,
)
from gladstorm.methods.method import Method, declared, rule
from gladstorm.methods.norms import Euclid, StepNorm
from gladstorm.methods.schedules import CubeRootDecay, PowerDecay, SquareOf, Tunable
from gladstorm.methods.steps import Normalized, Plain, ThreeWayClipped
from gladstorm.theory import Plan, for_schedule

EUCLID = Euclid()
_LOOPS = "large per q steps, else 2 small"
_COINS = "large with probability p, else 2 small"


@declared(
    f"{cite.CUTKOSKY_MEHTA_2020}; {cite.UPADHYAY_2026}, Theorem 1",
    "K + 1",
    "O(ε^-6)",
    "BG-0, L0-smooth; see docs/theory.md",
)
def nsgdm(gamma: Tunable, eta: Tunable, *, norm: StepNorm = EUCLID, batch: BatchSizes = 1) -> Method:
    """NSGDM, normalized SGD with momentum: x ← x − γ v/‖v‖, v ← (1 − η) v + η ∇f(x; ξ).

    K steps cost K + 1 stochastic gradients. Cutkosky and Mehta 2020; under BG-0 noise the paper's equation (2) and
    Theorem 1. In another norm x ← x − γ d(v): with `Spectral()` it is Muon without Nesterov's momentum, with `Sign()`
    sign descent with momentum.
    """
    return Method(Momentum(eta), Normalized(gamma, norm), rule(batch))


@declared(f"{cite.UPADHYAY_2026}, Theorem 2", "n_init + 2K", "O(ε^-4)", "BG-0, mean-square smooth; see docs/theory.md")
def nstorm(
    gamma: Tunable, eta: Tunable, *, n_init: Numbers = 1, norm: StepNorm = EUCLID, batch: BatchSizes = 1
) -> Method:
    """NSTORM, normalized STORM: x⁺ = x − γ v/‖v‖, v ← ∇f(x⁺; ξ) + (1 − η)(v − ∇f(x; ξ)).

    Every sample is evaluated at two points, and `n_init` samples form v⁰, so K steps cost n_init + 2K stochastic
    gradients. The paper's equation (3) and Theorem 2.
    """
    return Method(Storm(eta), Normalized(gamma, norm), FirstLarge(n_init, rule(batch)))


@declared(cite.ROBBINS_MONRO_1951, "K + 1")
def sgd(gamma: Tunable, *, batch: BatchSizes = 1) -> Method:
    """SGD: x ← x − γ ∇f(x; ξ). K steps cost K + 1 batches."""
    return Method(Fresh(), Plain(gamma), rule(batch))


@declared(f"{cite.CUTKOSKY_ORABONA_2019}, constant γ and η", "1 + 2K")
def storm(gamma: Tunable, eta: Tunable, *, batch: BatchSizes = 1) -> Method:
    """STORM (Cutkosky and Orabona 2019) with constant γ and η: v as in NSTORM, x ← x − γ v.

    K steps with batches b_0, …, b_K cost b_0 + 2 Σ_{k≥1} b_k stochastic gradients.
    """
    return Method(Storm(eta), Plain(gamma), rule(batch))


def from_plan(plan: Plan, **instead: Any) -> Method:
    """Make the method that a plan is about, with the numbers of its schedule; `instead` replaces some of them.

    A horizon of T iterates is `steps=T - 1` of `run`. A plan in another norm than Euclid's needs it, as in
    `from_plan(plan, norm=gs.norms.Spectral())`: the plan knows no more of it than τ.

    >>> from gladstorm import theory
    >>> plan = theory.plan("nstorm", horizon=100, alpha=0, L=1.0, B=0.1, G=0.5, gap=1.0, gamma0=0.5)
    >>> from_plan(plan, gamma=0.01).step
    Normalized(gamma=0.01, norm=Euclid())
    """
    problem = plan.problem
    if problem.decay is not None:
        raise ValueError(
            "from_plan: plan must be without decay; take γ, η and N_init from its schedule, and WeightDecay from "
            f"gladstorm.steps; got decay={problem.decay}."
        )
    if not problem.norm.euclidean and "norm" not in instead:
        raise ValueError(
            f"from_plan: norm must be given for a plan in another norm than Euclid's, {problem.norm.name}, as in "
            "from_plan(plan, norm=gladstorm.norms.Spectral()); got none."
        )
    make: Any = {"nsgdm": nsgdm, "nstorm": nstorm, "sgd": sgd}[plan.statement.method]
    settings: dict[str, Any] = {**plan.statement.settings(plan.horizon)}
    if (noise := settings.pop("noise", None)) is not None:
        settings["batch"] = LikeNoise(**noise)
    method: Method = make(**{**settings, **instead})
    return method


@declared(f"{cite.UPADHYAY_2026}, Theorem 1", "K + 1", "O(ε^-6)", "BG-0, any smoothness class of the paper")
def nsgdm_by_theory(gamma0: Numbers, horizon: int, B: float, G: float) -> Method:
    """NSGDM with γ and η as its theorem sets them for T = `horizon` iterates and noise (B, G), for any smoothness.

    >>> nsgdm_by_theory(10, 10_001, B=0.5, G=1).step.gamma.round(6).item()
    0.004641
    """
    return _of_gamma0(Plan(for_schedule("nsgdm", alpha=0, gamma0=1.0, B=float(B), G=float(G)), int(horizon)), gamma0)


@declared(f"{cite.UPADHYAY_2026}, Theorem 2", "n_init + 2K", "O(ε^-(4+α))", "BG-0, mean-square smooth of exponent α")
def nstorm_by_theory(gamma0: Numbers, horizon: int, B: float, G: float, *, alpha: float = 0.0) -> Method:
    """NSTORM with γ, η and n_init as its theorem sets them for T = `horizon` iterates, noise (B, G) and α.

    α = 0 stands for mean-square smoothness.

    >>> nstorm_by_theory(7.5, 10_001, B=0.5, G=1, alpha=2 / 3).batch.n_init
    4
    """
    statement = for_schedule("nstorm", alpha=float(alpha), gamma0=1.0, B=float(B), G=float(G))
    return _of_gamma0(Plan(statement, int(horizon)), gamma0)


def _of_gamma0(unit: Plan, gamma0: Numbers) -> Method:
    """The method of a plan with γ0 = 1 at other values of γ0, of which there may be many."""
    return from_plan(unit, gamma=np.multiply(gamma0, unit.statement.schedule(unit.horizon).gamma))


@declared(cite.HUBLER_2024, "K + 1", "Õ(ε^-4)", "bounded variance, (L0, L1)-smooth, no constant known")
def nsgdm_agnostic(gamma: Numbers, *, batch: BatchSizes = 1) -> Method:
    """NSGDM with γ_k = γ (k + 1)^{−3/4} and η_k = (k + 1)^{−1/2}, which need no horizon and no constants of f.

    No 1e-6 is added to ‖v‖.
    """
    return Method(Momentum(PowerDecay(1.0, 0.5)), Normalized(PowerDecay(gamma, 0.75)), rule(batch))


@declared(cite.CUTKOSKY_MEHTA_2020, "K + 1", "O(ε^-3.5)", "bounded variance, Lipschitz Hessian")
def nigt(gamma: Tunable, eta: Tunable, *, norm: StepNorm = EUCLID, batch: BatchSizes = 1) -> Method:
    """NIGT: NSGDM with gradients at an extrapolated point, x + (1 − η)/η (x − x⁻), where x⁻ is the iterate before x."""
    return Method(Transported(eta), Normalized(gamma, norm), rule(batch))


@declared(cite.KHIRIRAT_2025, "n (K + 1)", "O(ε^-4)", "bounded variance, (L0, L1)-smooth")
def ef21_sgdm(gamma: Tunable, eta: Tunable, k: Tunable, *, clients: int = 1, batch: BatchSizes = 1) -> Method:
    """‖EF21-SGDM‖: NSGDM with n clients, each of which sends only the k largest entries of what changed."""
    return Method(ErrorFeedback(eta, k, clients), Normalized(gamma), rule(batch))


@declared(cite.CUTKOSKY_ORABONA_2019, "1 + 2K", "Õ(ε^-3)", "bounded variance, every sample smooth and Lipschitz")
def adaptive_storm(gamma: Numbers, offset: Numbers, factor: Numbers, *, batch: BatchSizes = 1) -> Method:
    """STORM with γ_k = γ/(w + Σ_{i≤k} ‖∇f(x^i; ξ^i)‖²)^{1/3}, η_{k+1} = min(1, c γ_k²), w = `offset`, c = `factor`."""
    pace = CubeRootDecay(gamma, offset)
    return Method(Storm(SquareOf(factor, pace)), Plain(pace), rule(batch))


@declared(f"{cite.YUAN_2025}, exact form without preconditioner", "1 + 2K")
def mars(gamma: Tunable, eta: Tunable, *, scale: Tunable = 0.025, batch: BatchSizes = 1) -> Method:
    """MARS: x ← x − γ v, where v is that of STORM with its correction scaled by `scale` and cut to unit length."""
    return Method(Mars(eta, scale), Plain(gamma), rule(batch))


@declared(f"{cite.YUAN_2025}, approximate form without preconditioner and cut", "K + 1")
def nmars(
    gamma: Tunable, eta: Tunable, *, scale: Tunable = 0.025, norm: StepNorm = EUCLID, batch: BatchSizes = 1
) -> Method:
    """NMARS: NSGDM whose gradients g are corrected by the gradient before, g + s (1 − η)/η (g − g⁻), s = `scale`."""
    return Method(LaggedMars(eta, scale, np.inf), Normalized(gamma, norm), rule(batch))


@declared(f"{cite.FANG_2018}; {cite.CHEN_2023}", _LOOPS, "O(ε^-3)", "E L*_sym(α), variance not BG-0")
def normalized_spider(gamma: Tunable, q: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """Normalized SPIDER: x ← x − γ v/‖v‖, v by `Spider`."""
    return Method(Spider(q), Normalized(gamma), _batches(large, small))


@declared(cite.WANG_2019, _LOOPS)
def spiderboost(gamma: Tunable, q: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """SpiderBoost: x ← x − γ v, v by `Spider`."""
    return Method(Spider(q), Plain(gamma), _batches(large, small))


@declared(cite.REISIZADEH_2025, _LOOPS, "O(ε^-3)", "L*_asym, variance not BG-0")
def clipped_spider(
    gamma: Tunable, c0: Tunable, c1: Tunable, q: Tunable, large: BatchSizes, *, small: BatchSizes = 1
) -> Method:
    """Clipped SPIDER: x ← x − γ min{1, c₀/‖v‖, c₁/‖v‖²} v, v by `Spider`."""
    return Method(Spider(q), ThreeWayClipped(gamma, c0, c1), _batches(large, small))


@declared(cite.LI_2021, _COINS, "O(ε^-3)", "bounded variance, mean-square smooth")
def page(gamma: Tunable, p: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """PAGE: x ← x − γ v, v by `Page`."""
    return Method(Page(p), Plain(gamma), _batches(large, small))


@declared("composed here", _COINS)
def normalized_page(gamma: Tunable, p: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """Normalized PAGE: x ← x − γ v/‖v‖, v by `Page`."""
    return Method(Page(p), Normalized(gamma), _batches(large, small))


@declared(f"{cite.JOHNSON_ZHANG_2013}, on a stream", _LOOPS)
def svrg(gamma: Tunable, q: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """SVRG: x ← x − γ v, v by `Svrg`."""
    return Method(Svrg(q), Plain(gamma), _batches(large, small))


@declared("composed here", _LOOPS)
def normalized_svrg(gamma: Tunable, q: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """Normalized SVRG: x ← x − γ v/‖v‖, v by `Svrg`."""
    return Method(Svrg(q), Normalized(gamma), _batches(large, small))


def _batches(large: BatchSizes, small: BatchSizes) -> LargeOnRefresh:
    return LargeOnRefresh(rule(large), rule(small))
