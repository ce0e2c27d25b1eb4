"""Methods that move x in other ways: clipped, by powers of the norm, by signs, pulled towards an anchor, untuned.

Of those that find their own step size, γ multiplies it, and γ = 1 is the authors' choice. Most are Optax's, with its
other defaults. Some report an average, as their authors do.
"""

from __future__ import annotations

import numpy as np

from gladstorm.core import references as cite
from gladstorm.core.equations import AVERAGED
from gladstorm.core.parts import Numbers
from gladstorm.methods.averages import PolynomialAverage, ScheduleFreeAverage
from gladstorm.methods.batches import BatchSizes, GrowWithDistance, LargeOnRefresh
from gladstorm.methods.estimators import Fresh, Momentum, Page
from gladstorm.methods.method import Method, declared, rule
from gladstorm.methods.schedules import PowerDecay, Tunable
from gladstorm.methods.steps import (
    Anchored,
    Clipped,
    FromOptax,
    GeneralizedSign,
    Plain,
    PowerNormalized,
    Untuned,
)

ONE_EPOCH = 2**53 - 1


@declared(cite.ZHANG_2019, "K + 1", "O(ε^-4)", "L*_H, noise bounded almost surely")
def clipped_sgd(gamma: Tunable, c: Tunable, *, batch: BatchSizes = 1) -> Method:
    """Clipped SGD: x ← x − min{γ, cγ/‖g‖} g."""
    return Method(Fresh(), Clipped(gamma, c), rule(batch))


@declared(cite.CHEN_2023, "K + 1", "O(ε^-2)", "L*_sym(α), no noise, β ≥ α")
def beta_ngd(gamma: Tunable, beta: Tunable, *, batch: BatchSizes = 1) -> Method:
    """β-normalized gradient descent, x ← x − γ g/‖g‖^β; g is ∇f if the oracle has B = G = 0."""
    return Method(Fresh(), PowerNormalized(gamma, beta), rule(batch))


@declared(cite.CRAWSHAW_2022, "K + 1")
def generalized_signsgd(gamma: Tunable, eta: Tunable, *, beta2: Tunable = 0.999, batch: BatchSizes = 1) -> Method:
    """Generalized SignSGD: m ← (1 − η) m + η g, u ← β₂ u + (1 − β₂) m², x ← x − γ m/√u; at first m = g."""
    return Method(Momentum(eta), GeneralizedSign(gamma, beta2), rule(batch))


@declared(f"{cite.KINGMA_BA_2015}, Optax's", "K + 1")
def adam(gamma: Tunable, *, batch: BatchSizes = 1) -> Method:
    """Adam with learning rate γ, and Optax's defaults for all other numbers."""
    return Method(Fresh(), FromOptax(gamma, "adam"), rule(batch))


@declared(
    f"{cite.FAZLA_2026}, reconstructed: only its abstract was available",
    "N with probability p, else 2 small",
    "O(ε^-6); O(ε^-4) if mean-square smooth",
    "BG-0, L0-smooth, B and G known",
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
    f"{cite.HALPERN_1967}; {cite.KIM_ALACAOGLU_2026}, for gradients",
    "K + 1",
    "O(ε^-4), last iterate",
    "BG-0, convex and smooth",
)
def stochastic_halpern(gamma: Numbers, *, a: Numbers = 2.0, batch: BatchSizes = 1) -> Method:
    """x ← (1 − β_k) x + β_k x⁰ − γ_k g, β_k = a/(k + a), γ_k = γ/(k + a)^{3/4}; in theory γ = (L² + 2B²)^{−1/2}."""
    return Method(Fresh(), Anchored(Plain(PowerDecay(gamma, 0.75, shift=a)), PowerDecay(a, 1.0, shift=a)), rule(batch))


@declared(f"{cite.IVGI_2023}, Optax's", "K + 1")
def dog(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """DoG, distance over gradients: x ← x − γ r g/√(Σ‖g‖²), r the largest distance so far. It reports an average."""
    return Method(Fresh(), FromOptax(gamma, "contrib.dog"), rule(batch), PolynomialAverage())


@declared(f"{cite.KHALED_2023}, Optax's", "K + 1")
def dowg(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """DoWG, distance over weighted gradients: x ← x − γ r² g/√(Σ r²‖g‖²), r as in DoG. It reports an average."""
    return Method(Fresh(), FromOptax(gamma, "contrib.dowg"), rule(batch), PolynomialAverage())


@declared(f"{cite.DEFAZIO_MISHCHENKO_2023}, with Adam, Optax's", "K + 1")
def d_adaptation(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """D-Adaptation: Adam with a step size from a lower bound on the distance to the solution, found during the run."""
    return Method(Fresh(), FromOptax(gamma, "contrib.dadapt_adamw"), rule(batch))


@declared(f"{cite.MISHCHENKO_DEFAZIO_2024}, Optax's", "K + 1")
def prodigy(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """Prodigy: D-Adaptation that weights late gradients more, and so finds its step size sooner."""
    return Method(Fresh(), FromOptax(gamma, "contrib.prodigy"), rule(batch))


@declared(f"{cite.DEFAZIO_2024}, Optax's", "K + 1")
def schedule_free(gamma: Tunable, *, batch: BatchSizes = 1) -> Method:
    """Schedule-Free SGD: z ← z − γ ∇f(y; ξ), x ← (1 − 1/k) x + z/k, y = z/10 + 9x/10; it iterates y and reports x.

    Its step size has to be tuned; it needs no decay.
    """
    return Method(Fresh(), FromOptax(gamma, "contrib.schedule_free_sgd"), rule(batch), ScheduleFreeAverage())


@declared(f"{cite.SCHAIPP_2024}, Optax's, from the exact value of f", "K + 1")
def momo(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """MoMo: momentum with Polyak's step size, from a model of f with f ≥ 0; the step size is at most γ."""
    return Method(Fresh(), FromOptax(gamma, "contrib.momo"), rule(batch))


@declared(f"this project, after {cite.IVGI_2023}", "K + 1")
def untuned(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """x ← x − γ r K^{−aτ} p, smoothed: `Untuned` finds the length r, and a clock τ that says how far to shorten it.

    γ = 1 is the method. All that it has to know is the length K of the run. It reports an average.
    """
    return Method(Fresh(), Untuned(gamma), rule(batch), PolynomialAverage(AVERAGED))
