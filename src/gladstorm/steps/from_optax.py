"""Any Optax transformation as a step, fed v in place of the gradient."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import jax

from gladstorm.parts import Array, Number, leaf, part, static
from gladstorm.rules import POSITIVE
from gladstorm.steps.step import Step


@part
class FromOptax(Step):
    """x^{k+1} = x^k + the update Optax makes of v^k; `make` is a function of the learning rate like `optax.adam`."""

    gamma: Number = leaf(POSITIVE)  # the learning rate
    make: Callable[[Number], Any] = static()

    def init(self, x: Any) -> Any:
        """What Optax remembers."""
        return self.make(self.gamma).init(x)

    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:  # noqa: ARG002 - shared
        """See the class."""
        updates, memory = self.make(self.gamma).update(v, memory, x)
        return jax.tree.map(lambda x, u: x + u, x, updates), memory

    def misfit(self, oracle: Any) -> str | None:  # noqa: ARG002 - shared signature
        """Optax must be installed."""
        if importlib.util.find_spec("optax") is not None:
            return None
        return "FromOptax: needs Optax, which is not installed; pip install 'gladstorm[optax]'."
