"""Any step, pulled towards an anchor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import COUNT, UNIT_INTERVAL
from gladstorm.methods.steps.step import Step
from gladstorm.problems.oracles import Oracle


class Anchor(NamedTuple):
    """Where the anchor lies, how old it is, and what the inner step remembers."""

    at: Any  # a
    age: Array
    inner: Any


@part
class Anchored(Step):
    """x^{k+1} = step(x^k, v^k) + β (a − x^k); the anchor a is the iterate at which the current epoch began.

    With a plain step and β = λγ this is x ← βa + (1 − β)x − γv, a step on f + λ/2 ‖x − a‖². Halpern's iteration is one
    epoch, so that a = x⁰, with a β that decreases.
    """

    step: Step  #: the step that is pulled
    weight: Number = leaf(UNIT_INTERVAL)  #: β in [0, 1], how strongly
    epoch: Number = leaf(COUNT, default=2**53 - 1)  #: steps from one anchor to the next; without it, x⁰ stays

    @override
    def init(self, x: Any) -> Anchor:
        """a = x⁰."""
        return Anchor(x, jnp.zeros((), int), self.step.init(x))

    @override
    def move(self, memory: Anchor, x: Any, v: Any, f: Callable[[Any], Array]) -> tuple[Any, Anchor]:
        begins = memory.age % self.epoch == 0
        anchor = jax.tree.map(lambda x, a: jnp.where(begins, x, a), x, memory.at)
        moved, inner = self.step.move(memory.inner, x, v, f)
        pulled = jax.tree.map(lambda moved, a, x: moved + self.weight * (a - x), moved, anchor, x)
        return pulled, Anchor(anchor, memory.age + 1, inner)

    @override
    def with_step_size(self, change: Callable[[Any], Any]) -> Anchored:
        """Change the step size of the inner step; the pull towards the anchor stays the same."""
        return dataclasses.replace(self, step=self.step.with_step_size(change))

    @override
    def misfit(self, oracle: Oracle) -> str | None:
        """What the inner step says."""
        return self.step.misfit(oracle)
