"""Steps that remember more than x, or read the value of f: adaptive lengths, anchors, Optax's optimizers."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part, static
from gladstorm.core.rules import BELOW_ONE, COUNT, FINITE, NON_NEGATIVE, STEP_SIZE, UNIT_INTERVAL
from gladstorm.core.screen import shown
from gladstorm.methods.norms import length
from gladstorm.methods.steps.step import Step
from gladstorm.problems.oracles import Oracle

Transformation = Callable[[Array | float], Any] | str  # of a learning rate, or its name in Optax


@part
class GeneralizedSign(Step):
    """u ← β₂ u + (1 − β₂) v², x ← x − γ v/√u, coordinate by coordinate, starting with u = 0, and 0/0 = 0.

    Crawshaw et al. 2022; their code adds 1e-8 to √u. With β₂ = 0 it is a sign step.
    """

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0
    beta2: Number = leaf(BELOW_ONE, default=0.999)  #: β₂ in [0, 1)

    @override
    def init(self, x: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, x)

    @override
    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        u = jax.tree.map(lambda u, v: self.beta2 * u + (1 - self.beta2) * v**2, memory, v)
        return jax.tree.map(lambda x, v, u: x - self.gamma * v / jnp.where(u == 0, 1, jnp.sqrt(u)), x, v, u), u


@part
class Polyak(Step):
    """x^{k+1} = x^k − (f(x^k) − l)/(√T ‖v^k‖²) v^k, from the exact value of f (Takezawa et al. 2024).

    With T = 1 and l = inf f this is Polyak's own step. T is the horizon of the inexact form, whose l may be below inf
    f.
    """

    lower: Number = leaf(FINITE)  #: l, a lower bound of f
    horizon: Number = leaf(COUNT, default=1)  #: T ≥ 1

    @override
    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        size = length(v)
        scale = (f(x) - self.lower) / (jnp.sqrt(self.horizon) * jnp.where(size == 0, 1, size) ** 2)
        return jax.tree.map(lambda x, v: x - scale * v, x, v), memory


class Pulled(Step):
    """Another step, and a pull towards a point."""

    step: Step  # a field

    @override
    def with_step_size(self, change: Callable[[Any], Any]) -> Step:
        changed: Step = dataclasses.replace(cast("Any", self), step=self.step.with_step_size(change))
        return changed

    @override
    def incompatible(self, oracle: Oracle) -> str | None:
        return self.step.incompatible(oracle)


class Anchor(NamedTuple):
    """State of an anchored step: where the anchor lies, how old it is, and what the inner step remembers."""

    at: Any  # a
    age: Array
    inner: Any


@part
class Anchored(Pulled):
    """x^{k+1} = step(x^k, v^k) + β (a − x^k); the anchor a is the iterate at which the current epoch began.

    With a plain step and β = λγ this is x ← βa + (1 − β)x − γv, a step on f + λ/2 ‖x − a‖². Halpern's iteration is one
    epoch, so that a = x⁰, with a β that decreases.
    """

    step: Step  #: the step that is pulled
    weight: Number = leaf(UNIT_INTERVAL)  #: β in [0, 1], how strongly
    epoch: Number = leaf(COUNT, default=2**53 - 1)  #: steps from one anchor to the next; without it, x⁰ stays

    @override
    def init(self, x: Any) -> Anchor:
        return Anchor(x, jnp.zeros((), int), self.step.init(x))

    @override
    def move(self, memory: Anchor, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Anchor]:
        begins = memory.age % self.epoch == 0
        anchor = jax.tree.map(lambda x, a: jnp.where(begins, x, a), x, memory.at)
        after, inner = self.step.move(memory.inner, x, v, f)
        pulled = jax.tree.map(lambda after, a, x: after + self.weight * (a - x), after, anchor, x)
        return pulled, Anchor(anchor, memory.age + 1, inner)


class Centre(NamedTuple):
    """State of a step with weight decay: where its ball is centred, and what the inner step remembers."""

    at: Any  # c
    inner: Any


@part
class WeightDecay(Pulled):
    """x^{k+1} = step(x^k, v^k) − γλ (x^k − c): with a normalized step and γλ ≤ 1, no run leaves the ball ‖x − c‖ ≤ 1/λ.

    That is in the norm of the step. Theorems are then about Ψ(x) = ‖∇f(x)‖_* + λ⟨∇f(x), x − c⟩, which is 0 where no
    point of the ball is better to first order, and growing noise is bounded in the ball.
    """

    step: Step  #: the step that is pulled, with a step size γ
    lam: Number = leaf(NON_NEGATIVE)  #: λ ≥ 0
    centre: Number = leaf(UNIT_INTERVAL, default=0.0)  #: s in [0, 1], c = s x⁰: the origin, or with 1 the start

    @override
    def init(self, x: Any) -> Centre:
        return Centre(jax.tree.map(lambda x: self.centre * x, x), self.step.init(x))

    @override
    def move(self, memory: Centre, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Centre]:
        after, inner = self.step.move(memory.inner, x, v, f)
        share = cast("Any", self.step).gamma * self.lam
        return jax.tree.map(lambda after, x, c: after - share * (x - c), after, x, memory.at), Centre(memory.at, inner)

    @override
    def stationarity(self, memory: Centre, x: Any, gradient: Any) -> Array:
        size = self.step.stationarity(memory.inner, x, gradient)
        outwards = jax.tree.map(lambda g, x, c: jnp.sum(g * (x - c)), gradient, x, memory.at)
        return (length(gradient) if size is None else size) + self.lam * sum(jax.tree.leaves(outwards))

    @override
    def incompatible(self, oracle: Oracle) -> str | None:
        if not hasattr(self.step, "gamma"):
            return f"WeightDecay: step must have a step size, a field gamma; got {type(self.step).__name__}."
        return super().incompatible(oracle)


@part
class FromOptax(Step):
    """x^{k+1} = x^k + the update that an Optax optimizer makes from v^k; `make` is one such as `optax.adam`.

    An optimizer that needs the `value` of the loss gets f(x^k), exactly. Optax is imported when a run begins: a method
    can be named and listed without it.
    """

    gamma: Number = leaf(STEP_SIZE)  #: the learning rate, > 0
    make: Transformation = static()  #: a function of the learning rate, such as `optax.adam`, or its name, "adam"

    @override
    def init(self, x: Any) -> Any:
        return self._transformation().init(x)

    @override
    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        updates, memory = self._transformation().update(v, memory, x, value=f(x))
        return jax.tree.map(lambda x, u: x + u, x, updates), memory

    def _transformation(self) -> Any:
        import optax

        make = attrgetter(self.make)(optax) if isinstance(self.make, str) else self.make
        return optax.with_extra_args_support(make(self.gamma))

    @override
    def incompatible(self, oracle: Oracle) -> str | None:
        if importlib.util.find_spec("optax") is None:
            return "FromOptax: needs Optax, which is not installed; pip install 'gladstorm[optax]'."
        make: Any = self.make
        if not callable(make) and not isinstance(make, str):
            return (
                f"FromOptax: make must be a function of the learning rate, such as optax.adam; got {shown(self.make)}."
            )
        return None
