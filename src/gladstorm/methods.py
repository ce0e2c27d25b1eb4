"""A method is an estimator, a step and a batch rule. The paper's methods are named compositions."""

from __future__ import annotations

from gladstorm.batches import BatchRule, FirstLarge, Fixed
from gladstorm.estimators import Estimator, Fresh, Momentum, Storm
from gladstorm.parts import Number, part
from gladstorm.steps import Normalized, Plain, Step


@part
class Method:
    """x^{k+1} = step(x^k, v^k); v^{k+1} = estimator at x^{k+1} with a batch of the rule's size."""

    estimator: Estimator
    step: Step
    batch: BatchRule = Fixed()


def nsgdm(gamma: Number, eta: Number, *, batch: int | BatchRule = 1) -> Method:
    """NSGDM, normalized SGD with momentum: x ← x − γ v/‖v‖, v ← (1 − η) v + η ∇f(x; ξ). SFO: K + 1.

    Cutkosky and Mehta 2020; under BG-0 noise the paper's equation (2) and Theorem 1.
    """
    return Method(Momentum(eta), Normalized(gamma), _rule(batch))


def nstorm(gamma: Number, eta: Number, *, n_init: Number = 1, batch: int | BatchRule = 1) -> Method:
    """NSTORM, normalized STORM: x ← x − γ v/‖v‖, v ← ∇f(x⁺; ξ) + (1 − η)(v − ∇f(x; ξ)). SFO: n_init + 2K.

    The paper's equation (3) and Theorem 2; `n_init` samples form v⁰.
    """
    return Method(Storm(eta), Normalized(gamma), FirstLarge(n_init, _rule(batch)))


def sgd(gamma: Number, *, batch: int | BatchRule = 1) -> Method:
    """SGD: x ← x − γ ∇f(x; ξ). SFO: the sum of the batch sizes, K + 1 with single samples."""
    return Method(Fresh(), Plain(gamma), _rule(batch))


def storm(gamma: Number, eta: Number, *, batch: int | BatchRule = 1) -> Method:
    """STORM (Cutkosky and Orabona 2019) with constant γ and η: v as in NSTORM, x ← x − γ v. SFO: b₀ + 2 Σ b_k."""
    return Method(Storm(eta), Plain(gamma), _rule(batch))


def _rule(batch: int | BatchRule) -> BatchRule:
    return batch if callable(batch) else Fixed(batch)
