"""What every step shares, and what the engine asks of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gladstorm.parts import Array


class Step:
    """One move of x along v, both pytrees of the same structure.

    A step that remembers nothing writes `__call__`; another one writes `init` and `move`.
    """

    def __call__(self, x: Any, v: Any) -> Any:
        """x^{k+1} from x^k and v^k."""
        raise NotImplementedError

    def init(self, x: Any) -> Any:  # noqa: ARG002 - shared signature
        """What is remembered at x⁰."""
        return ()

    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:  # noqa: ARG002 - shared
        """x^{k+1} and what is remembered then; f is there for the steps that look at its value."""
        return self(x, v), memory

    def fits(self, oracle: Any) -> None:
        """Raise a ValueError in one sentence if this oracle cannot serve."""
