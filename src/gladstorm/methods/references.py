"""One gradient per step, moved in other ways: clipping, powers of the norm, signs, and Optax's own as references."""

from __future__ import annotations

from typing import Any

from gladstorm.batches import BatchRule
from gladstorm.estimators import Fresh, Mars, Momentum
from gladstorm.methods.declaration import declared
from gladstorm.methods.method import Method, rule
from gladstorm.parts import Number
from gladstorm.steps import Clipped, FromOptax, GeneralizedSign, Plain, PowerNormalized


@declared(
    source="Zhang et al. 2019",
    sfo="K + 1",
    complexity="O(ε^-4)",
    assumptions="L*_H, noise bounded almost surely",
)
def clipped_sgd(gamma: Number, c: Number, *, batch: int | BatchRule = 1) -> Method:
    """x ← x − min{γ, cγ/‖g‖} g."""
    return Method(Fresh(), Clipped(gamma, c), rule(batch))


@declared(source="Chen et al. 2023", sfo="K + 1", complexity="O(ε^-2)", assumptions="L*_sym(α), no noise, β ≥ α")
def beta_ngd(gamma: Number, beta: Number, *, batch: int | BatchRule = 1) -> Method:
    """β-normalized gradient descent, x ← x − γ g/‖g‖^β; on an oracle with B = G = 0, g = ∇f."""
    return Method(Fresh(), PowerNormalized(gamma, beta), rule(batch))


@declared(source="Crawshaw et al. 2022", sfo="K + 1")
def generalized_signsgd(gamma: Number, eta: Number, *, beta2: Number = 0.999, batch: int | BatchRule = 1) -> Method:
    """m ← (1 − η) m + η g, u ← β₂ u + (1 − β₂) m², x ← x − γ m/√u. m begins with the first gradient, not with 0."""
    return Method(Momentum(eta), GeneralizedSign(gamma, beta2), rule(batch))


@declared(source="Yuan et al. 2025, exact form without preconditioner", sfo="1 + 2K")
def mars(gamma: Number, eta: Number, *, scale: Number = 0.025, batch: int | BatchRule = 1) -> Method:
    """MARS: STORM's correction scaled by `scale` and cut to unit length; x ← x − γ v."""
    return Method(Mars(eta, scale), Plain(gamma), rule(batch))


@declared(source="Kingma and Ba 2015, Optax's", sfo="K + 1")
def adam(gamma: Number, *, batch: int | BatchRule = 1) -> Method:
    """Adam with Optax's other defaults."""
    return Method(Fresh(), FromOptax(gamma, _adam), rule(batch))


@declared(source="Ivgi et al. 2023, Optax's", sfo="K + 1")
def dog(gamma: Number = 1.0, *, batch: int | BatchRule = 1) -> Method:
    """DoG, distance over gradients: γ multiplies the step size it finds, and 1 is its authors' choice."""
    return Method(Fresh(), FromOptax(gamma, _dog), rule(batch))


def _adam(rate: Number) -> Any:
    import optax  # not before it is used: a method can be named and listed without it

    return optax.adam(rate)


def _dog(rate: Number) -> Any:
    import optax.contrib

    return optax.contrib.dog(rate)
