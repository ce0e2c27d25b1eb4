"""Methods that are pulled towards an anchor: PASTA, stochastic Halpern, and fixed-point averaging."""

from __future__ import annotations

import numpy as np

from gladstorm.core.parts import Numbers
from gladstorm.core.references import FAZLA_2026, HALPERN_1967, KIM_ALACAOGLU_2026, KRASNOSELSKII_1955, MANN_1953
from gladstorm.methods.batches import BatchSizes, FirstLarge, GrowWithDistance, LargeOnRefresh
from gladstorm.methods.declaration import declared
from gladstorm.methods.estimators import Fresh, Page, Storm
from gladstorm.methods.method import Method, rule
from gladstorm.methods.schedules import PowerDecay, Tunable
from gladstorm.methods.steps import Anchored, Normalized, Plain

ONE_EPOCH = 2**53 - 1


@declared(
    source=f"{FAZLA_2026}, reconstructed: only its abstract was available",
    sfo="N with probability p, else 2 small",
    complexity="O(ε^-6); O(ε^-4) if mean-square smooth",
    assumptions="BG-0, L0-smooth, B and G known",
)
def pasta(
    gamma: Numbers,
    B: Numbers,
    G: Numbers,
    sigma2: Numbers,
    *,
    lam: Numbers = 0.0,
    epoch: Tunable = ONE_EPOCH,
    p: Tunable = 1.0,
    small: BatchSizes = 1,
) -> Method:
    """PASTA: x ← βa + (1 − β)x − γv, β = λγ; v is that of PAGE, with refresh batches N = ⌈(B²‖x − x⁰‖² + G²)/σ²⌉.

    The anchor a is where the last `epoch` steps began, or x⁰ if `epoch` is not given. p = 1 and λ = 0 is SGD with a
    dynamic batch.
    """
    batch = LargeOnRefresh(GrowWithDistance(B, G, sigma2), rule(small))
    return Method(Page(p), Anchored(Plain(gamma), np.multiply(lam, gamma), epoch), batch)


@declared(
    source=f"{HALPERN_1967}; {KIM_ALACAOGLU_2026}, for gradients",
    sfo="K + 1",
    complexity="O(ε^-4), last iterate",
    assumptions="BG-0, convex and smooth",
)
def stochastic_halpern(gamma: Numbers, *, a: Numbers = 2.0, batch: BatchSizes = 1) -> Method:
    """x ← (1 − β_k) x + β_k x⁰ − γ_k g, β_k = a/(k + a), γ_k = γ/(k + a)^{3/4}; in theory γ = (L² + 2B²)^{−1/2}."""
    return Method(Fresh(), Anchored(Plain(PowerDecay(gamma, 0.75, shift=a)), PowerDecay(a, 1.0, shift=a)), rule(batch))


@declared(source=f"{KRASNOSELSKII_1955}, {MANN_1953}", sfo="K + 1")
def krasnoselskii_mann(gamma: Numbers, *, weight: Numbers = 0.5, batch: BatchSizes = 1) -> Method:
    """x ← (1 − a) x + a (x − γ g), a = `weight`: averaged gradient steps, the same as SGD with step size aγ."""
    return Method(Fresh(), Plain(np.multiply(weight, gamma)), rule(batch))


@declared(source="composed here", sfo="n_init + 2K")
def anchored_nstorm(
    gamma: Tunable, eta: Tunable, weight: Tunable, *, epoch: Tunable = ONE_EPOCH, n_init: Numbers = 1
) -> Method:
    """NSTORM with a pull towards the point a where its epoch began: x ← x − γ v/‖v‖ + β (a − x), β = `weight`."""
    return Method(Storm(eta), Anchored(Normalized(gamma), weight, epoch), FirstLarge(n_init))
