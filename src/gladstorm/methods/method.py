"""What a method is."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from gladstorm.core.parts import part
from gladstorm.methods.averages import Average
from gladstorm.methods.batches import BatchRule, BatchSizes, Fixed
from gladstorm.methods.estimators import Estimator
from gladstorm.methods.steps import Step


@part
class Method:
    """An estimator, a step and a batch rule: x^{k+1} = step(x^k, v^k), then the estimator forms v^{k+1} at x^{k+1}.

    A whole number in place of the batch rule is that batch size at every step. An average changes what a method
    reports, and not how it moves.
    """

    estimator: Estimator  #: forms the direction v
    step: Step  #: moves x along v
    batch: BatchRule = Fixed()  #: samples per step: a rule or a number
    average: Average | None = None  #: what is reported in place of the last iterate; None for the last iterate


def rule(batch: BatchSizes) -> BatchRule:
    """A batch rule from a size or a rule."""
    return batch if isinstance(batch, BatchRule) else Fixed(batch)


def settings_of(method: Method) -> int:
    """How many settings a method's arrays stand for."""
    return max((np.size(number) for number in jax.tree.leaves(method, is_leaf=is_list)), default=1)


def is_list(node: Any) -> bool:
    """Whether these are the numbers of several settings."""
    return isinstance(node, list | tuple)
