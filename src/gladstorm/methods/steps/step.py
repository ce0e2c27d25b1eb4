"""What every step shares, and what the engine asks of it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

from typing_extensions import override

from gladstorm.core.parts import Array
from gladstorm.problems.oracles import Oracle


class Step(ABC):
    """How x moves along v; both are pytrees of the same structure.

    A step that needs x and v only inherits `Memoryless` and writes `__call__`. One that remembers something, or needs
    the value of f, inherits `Step` and writes `move`, and `init` for what it remembers at x⁰.
    """

    def init(self, _x: Any, /) -> Any:
        """What the step remembers at x⁰."""
        return ()

    @abstractmethod
    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        """x^{k+1}, and what the step remembers next. `f` is for steps that need the value of the objective."""

    def with_step_size(self, change: Callable[[Any], Any]) -> Step:
        """The same step with the step size `change(γ)` in place of γ."""
        if not hasattr(self, "gamma"):
            raise ValueError(f"{type(self).__name__}: the step must have a step size, a field gamma; it has none.")
        changed: Step = dataclasses.replace(cast("Any", self), gamma=change(self.gamma))
        return changed

    def misfit(self, _oracle: Oracle, /) -> str | None:
        """None if the step works with this oracle; otherwise a sentence that says why not."""
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
        """The function, and nothing to remember."""
        return self(x, v), memory
