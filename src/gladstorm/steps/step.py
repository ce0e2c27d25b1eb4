"""What every step shares, and what the engine asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from gladstorm.parts import Array


class Step(ABC):
    """One move of x along v, both pytrees of the same structure."""

    def init(self, x: Any) -> Any:  # noqa: ARG002 - shared signature
        """What is remembered at x⁰."""
        return ()

    @abstractmethod
    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        """x^{k+1} and what is remembered then; f is there for the steps that look at its value."""

    def misfit(self, oracle: Any) -> str | None:  # noqa: ARG002 - shared signature
        """Why this oracle cannot serve, in one sentence, or None."""
        return None


class Memoryless(Step):
    """A step that needs x and v only: a function of them."""

    @abstractmethod
    def __call__(self, x: Any, v: Any) -> Any:
        """x^{k+1} from x^k and v^k."""

    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:  # noqa: ARG002 - shared
        """The function, and nothing to remember."""
        return self(x, v), memory
