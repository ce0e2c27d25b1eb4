"""How x moves along v: functions of x and v, and steps that remember more, or pull x towards a point."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.extras import needing_extras
from gladstorm.core.parts import Array, Number, leaf, part, static
from gladstorm.core.rules import BELOW_ONE, COUNT, FINITE, NEVER_ZERO, NON_NEGATIVE, STEP_SIZE, UNIT_INTERVAL
from gladstorm.core.screen import shown
from gladstorm.methods.norms import Euclid, StepNorm, length, unit
from gladstorm.problems.oracles import Oracle

Transformation = Callable[[Array | float], Any] | str  # of a learning rate, or its name in Optax


class Step(ABC):
    """How x moves along v; both are pytrees of the same structure.

    A step that needs x and v only inherits `Memoryless` and writes `__call__`. One that remembers something, or needs
    the value of f, inherits `Step` and writes `move`, and `init` for what it remembers at x⁰.
    """

    def init(self, _x: Any, /) -> Any:
        """Return what the step remembers at x⁰."""
        return ()

    @abstractmethod
    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        """Move x along v, to x^{k+1}.

        Args:
            memory: What the step remembers: at first what `init` returned.
            x: x^k.
            v: v^k, the direction.
            f: The objective's value at a point, for steps that need it.

        Returns:
            x^{k+1}, and what the step remembers next.
        """

    def with_step_size(self, change: Callable[[Any], Any]) -> Step:
        """Return the step with the step size `change(γ)` in place of γ."""
        if not hasattr(self, "gamma"):
            raise ValueError(f"{type(self).__name__}: the step must have a step size, a field gamma; it has none.")
        changed: Step = dataclasses.replace(cast("Any", self), gamma=change(self.gamma))
        return changed

    def stationarity(self, _memory: Any, _x: Any, _gradient: Any, /) -> Array | None:
        """How far x is from stationary, as theorems about this step measure it; None for ‖∇f(x)‖."""
        return None

    def incompatible(self, _oracle: Oracle, /) -> str | None:
        """Say why the step does not work with this oracle; None if it does."""
        return None


class Memoryless(Step):
    """A step that needs x and v only: a function of them, `__call__`. Its step size is a field `gamma`.

    >>> import gladstorm as gs
    >>> @gs.part
    ... class Half(gs.steps.Memoryless):
    ...     gamma: gs.Number = gs.leaf(gs.rules.POSITIVE)
    ...
    ...     def __call__(self, x, v):
    ...         return x - self.gamma / 2 * v
    >>> gs.methods.with_decay(gs.Method(gs.estimators.Fresh(), Half([0.1, 0.2]))).step.gamma.initial
    [0.1, 0.2]
    """

    @abstractmethod
    def __call__(self, x: Any, v: Any) -> Any:
        """x^{k+1} from x^k and v^k."""

    @override
    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        return self(x, v), memory


@part
class Plain(Memoryless):
    """x^{k+1} = x^k − γ v^k."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        return jax.tree.map(lambda x, v: x - self.gamma * v, x, v)


@part
class Normalized(Memoryless):
    """x^{k+1} = x^k − γ d(v^k), d(v) the unit step of a norm: v/‖v‖ in Euclid's, over all of v; d(0) = 0."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0
    norm: StepNorm = Euclid()  #: the norm in which the step has length γ

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        return jax.tree.map(lambda x, u: x - self.gamma * u, x, self.norm.unit(v))

    @override
    def stationarity(self, memory: Any, x: Any, gradient: Any) -> Array | None:
        return None if isinstance(self.norm, Euclid) else self.norm.dual(gradient)


@part
class PowerNormalized(Memoryless):
    """x^{k+1} = x^k − γ v^k/‖v^k‖^β: β = 0 is a plain step, β = 1 a normalized one (Chen et al. 2023)."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0
    beta: Number = leaf(UNIT_INTERVAL)  #: β in [0, 1]

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        scale = self.gamma * length(v) ** (1 - self.beta)
        return jax.tree.map(lambda x, u: x - scale * u, x, unit(v))


@part
class Clipped(Memoryless):
    """x^{k+1} = x^k − γ min{1, c/‖v^k‖} v^k (Zhang et al. 2019)."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0
    c: Number = leaf(NEVER_ZERO)  #: the length of v, > 0, above which it is cut

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        scale = self.gamma * equations.cut(length(v), self.c, jnp)
        return jax.tree.map(lambda x, v: x - scale * v, x, v)


@part
class ThreeWayClipped(Memoryless):
    """x^{k+1} = x^k − γ min{1, c₀/‖v^k‖, c₁/‖v^k‖²} v^k (Reisizadeh et al. 2025)."""

    gamma: Number = leaf(STEP_SIZE)  #: step size γ > 0
    c0: Number = leaf(NEVER_ZERO)  #: > 0
    c1: Number = leaf(NEVER_ZERO)  #: > 0

    @override
    def __call__(self, x: Any, v: Any) -> Any:
        size = length(v)
        scale = self.gamma * jnp.minimum(1, jnp.minimum(self.c0 / size, self.c1 / size**2))
        return jax.tree.map(lambda x, v: x - scale * v, x, v)


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
        with needing_extras("FromOptax"):
            import optax

        make = attrgetter(self.make)(optax) if isinstance(self.make, str) else self.make
        return optax.with_extra_args_support(make(self.gamma))

    @override
    def incompatible(self, oracle: Oracle) -> str | None:
        make: Any = self.make
        if callable(make) or isinstance(make, str):
            return None
        return f"FromOptax: make must be a function of the learning rate, such as optax.adam; got {shown(self.make)}."
