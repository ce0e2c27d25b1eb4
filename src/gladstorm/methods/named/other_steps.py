"""One gradient per step, x moved in other ways: clipping, powers of the norm, signs, and Optax's Adam."""

from __future__ import annotations

from typing import Any

from gladstorm.core.parts import Array
from gladstorm.core.references import CHEN_2023, CRAWSHAW_2022, KINGMA_BA_2015, ZHANG_2019
from gladstorm.methods.batches import BatchSizes
from gladstorm.methods.decay import with_decay
from gladstorm.methods.declaration import declared
from gladstorm.methods.estimators import Fresh, Momentum
from gladstorm.methods.method import Method, rule
from gladstorm.methods.schedules import Tunable
from gladstorm.methods.steps import Clipped, FromOptax, GeneralizedSign, PowerNormalized


@declared(source=str(ZHANG_2019), sfo="K + 1", complexity="O(ε^-4)", assumptions="L*_H, noise bounded almost surely")
def clipped_sgd(gamma: Tunable, c: Tunable, *, batch: BatchSizes = 1) -> Method:
    """Clipped SGD: x ← x − min{γ, cγ/‖g‖} g."""
    return Method(Fresh(), Clipped(gamma, c), rule(batch))


@declared(source=f"{ZHANG_2019}, with a decay", sfo="K + 1")
def decaying_clipped_sgd(gamma: Tunable, c: Tunable, *, batch: BatchSizes = 1) -> Method:
    """Clipped SGD with a linear decay: x ← x − min{γ_k, cγ_k/‖g‖} g, γ_k = γ (1 − k/K)."""
    return with_decay(clipped_sgd(gamma, c, batch=batch))


@declared(source=str(CHEN_2023), sfo="K + 1", complexity="O(ε^-2)", assumptions="L*_sym(α), no noise, β ≥ α")
def beta_ngd(gamma: Tunable, beta: Tunable, *, batch: BatchSizes = 1) -> Method:
    """β-normalized gradient descent, x ← x − γ g/‖g‖^β; g is ∇f if the oracle has B = G = 0."""
    return Method(Fresh(), PowerNormalized(gamma, beta), rule(batch))


@declared(source=str(CRAWSHAW_2022), sfo="K + 1")
def generalized_signsgd(gamma: Tunable, eta: Tunable, *, beta2: Tunable = 0.999, batch: BatchSizes = 1) -> Method:
    """Generalized SignSGD: m ← (1 − η) m + η g, u ← β₂ u + (1 − β₂) m², x ← x − γ m/√u; at first m = g."""
    return Method(Momentum(eta), GeneralizedSign(gamma, beta2), rule(batch))


@declared(source=f"{KINGMA_BA_2015}, Optax's", sfo="K + 1")
def adam(gamma: Tunable, *, batch: BatchSizes = 1) -> Method:
    """Adam with learning rate γ, and Optax's defaults for all other numbers."""
    return Method(Fresh(), FromOptax(gamma, _adam), rule(batch))


def _adam(rate: Array | float) -> Any:
    import optax  # not before it is used: a method can be named and listed without it

    return optax.adam(rate)
