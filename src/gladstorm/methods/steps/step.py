"""The base class of steps, and those that are functions of x and v: plain, normalized in any norm, clipped."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import NEVER_ZERO, STEP_SIZE, UNIT_INTERVAL
from gladstorm.methods.norms import Euclid, StepNorm, length, unit
from gladstorm.problems.oracles import Oracle


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
