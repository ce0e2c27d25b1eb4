"""What a method is."""

from __future__ import annotations

from typing import Any

from gladstorm.batches import BatchRule, Fixed
from gladstorm.estimators import Estimator
from gladstorm.parts import part
from gladstorm.steps import Step


@part
class Method:
    """x^{k+1} = step(x^k, v^k); v^{k+1} = estimator at x^{k+1} with a batch of the rule's size."""

    estimator: Estimator
    step: Step
    batch: BatchRule = Fixed()


def rule(batch: Any) -> BatchRule:
    """A batch rule from a size or a rule."""
    made: BatchRule = batch if callable(batch) else Fixed(batch)
    return made
