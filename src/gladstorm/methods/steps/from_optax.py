"""Any Optax transformation as a step, fed v in place of the gradient."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import jax
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part, static
from gladstorm.core.rules import STEP_SIZE
from gladstorm.core.screen import shown
from gladstorm.methods.steps.step import Step
from gladstorm.problems.oracles import Oracle

Transformation = Callable[[Array | float], Any]  # Optax's, of a learning rate: nothing here imports Optax


@part
class FromOptax(Step):
    """x^{k+1} = x^k + the update that an Optax optimizer makes from v^k; `make` is one such as `optax.adam`.

    An optimizer that needs the `value` of the loss gets f(x^k), exactly.
    """

    gamma: Number = leaf(STEP_SIZE)  #: the learning rate, > 0
    make: Transformation = static()  #: a function of the learning rate, such as `optax.adam`

    @override
    def init(self, x: Any) -> Any:
        """Optax's state."""
        return self.make(self.gamma).init(x)

    @override
    def move(self, memory: Any, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Any]:
        import optax

        transformation = optax.with_extra_args_support(self.make(self.gamma))
        updates, memory = transformation.update(v, memory, x, value=f(x))
        return jax.tree.map(lambda x, u: x + u, x, updates), memory

    @override
    def misfit(self, oracle: Oracle) -> str | None:
        """Optax must be installed, and `make` a function."""
        if importlib.util.find_spec("optax") is None:
            return "FromOptax: needs Optax, which is not installed; pip install 'gladstorm[optax]'."
        if not callable(self.make):
            return (
                f"FromOptax: make must be a function of the learning rate, such as optax.adam; got {shown(self.make)}."
            )
        return None
