"""The paper's methods and its baselines."""

from __future__ import annotations

from gladstorm.core.parts import Numbers
from gladstorm.core.references import CUTKOSKY_MEHTA_2020, CUTKOSKY_ORABONA_2019, ROBBINS_MONRO_1951, THIS_PAPER
from gladstorm.methods.batches import BatchSizes, FirstLarge
from gladstorm.methods.declaration import declared
from gladstorm.methods.estimators import Fresh, Momentum, Storm
from gladstorm.methods.method import Method, rule
from gladstorm.methods.schedules import Tunable
from gladstorm.methods.steps import Normalized, Plain


@declared(
    source=f"{CUTKOSKY_MEHTA_2020}; {THIS_PAPER}, Theorem 1",
    sfo="K + 1",
    complexity="O(ε^-6)",
    assumptions="BG-0, L0-smooth; see docs/theory.md",
)
def nsgdm(gamma: Tunable, eta: Tunable, *, batch: BatchSizes = 1) -> Method:
    """NSGDM, normalized SGD with momentum: x ← x − γ v/‖v‖, v ← (1 − η) v + η ∇f(x; ξ).

    K steps cost K + 1 stochastic gradients. Cutkosky and Mehta 2020; under BG-0 noise the paper's equation (2) and
    Theorem 1.
    """
    return Method(Momentum(eta), Normalized(gamma), rule(batch))


@declared(
    source=f"{THIS_PAPER}, Theorem 2",
    sfo="n_init + 2K",
    complexity="O(ε^-4)",
    assumptions="BG-0, mean-square smooth; see docs/theory.md",
)
def nstorm(gamma: Tunable, eta: Tunable, *, n_init: Numbers = 1, batch: BatchSizes = 1) -> Method:
    """NSTORM, normalized STORM: x⁺ = x − γ v/‖v‖, v ← ∇f(x⁺; ξ) + (1 − η)(v − ∇f(x; ξ)).

    Every sample is evaluated at two points, and `n_init` samples form v⁰, so K steps cost n_init + 2K stochastic
    gradients. The paper's equation (3) and Theorem 2.
    """
    return Method(Storm(eta), Normalized(gamma), FirstLarge(n_init, rule(batch)))


@declared(source=str(ROBBINS_MONRO_1951), sfo="K + 1")
def sgd(gamma: Tunable, *, batch: BatchSizes = 1) -> Method:
    """SGD: x ← x − γ ∇f(x; ξ). K steps cost K + 1 batches."""
    return Method(Fresh(), Plain(gamma), rule(batch))


@declared(source=f"{CUTKOSKY_ORABONA_2019}, constant γ and η", sfo="1 + 2K")
def storm(gamma: Tunable, eta: Tunable, *, batch: BatchSizes = 1) -> Method:
    """STORM (Cutkosky and Orabona 2019) with constant γ and η: v as in NSTORM, x ← x − γ v.

    K steps with batches b_0, …, b_K cost b_0 + 2 Σ_{k≥1} b_k stochastic gradients.
    """
    return Method(Storm(eta), Plain(gamma), rule(batch))
