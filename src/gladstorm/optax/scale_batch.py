"""`scale_batch`: the arguments of an optimizer for larger batches, with which the training keeps its course."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import optax

from gladstorm.core.batch_scaling import BatchScaling, for_momentum, for_normalized, for_squares, lion
from gladstorm.core.rules import ABOVE_ZERO, POSITIVE
from gladstorm.optax.nsgdm import nsgdm

Arguments = dict[str, Any]


def scale_batch(
    optimizer: Callable[..., Any], factor: float, critical: float | None = None, /, **arguments: Any
) -> Arguments:
    """Return an optimizer's arguments for steps that average `factor` times as many samples.

    Learning rate, momenta and decoupled weight decay change together, as `gladstorm.torch.scale_batch` changes them in
    place. A schedule becomes one of the fewer steps, read in the middle of the samples of each. The state of an
    optimizer that has made steps is not part of it: begin with the larger batch.

    Args:
        optimizer: optax.sgd, adam, adamw, lion, or `gladstorm.optax.nsgdm`.
        factor: How many times larger batches are than those that the arguments are for.
        critical: The critical batch size by the batch before. Without it, noise is taken to be all there is in a
            gradient.
        **arguments: The arguments of the optimizer for the batches before.

    Raises:
        ValueError: If there is no rule for the optimizer.

    >>> scale_batch(optax.adamw, 4, learning_rate=1e-3, weight_decay=0.1)["learning_rate"]
    0.002
    >>> optimizer = optax.sgd(**scale_batch(optax.sgd, 4, learning_rate=0.1, momentum=0.9))
    """
    ABOVE_ZERO.require("scale_batch", "factor", factor)
    B = math.inf if critical is None else critical
    POSITIVE.require("scale_batch", "critical", 1.0 if math.isinf(B) else B)
    if optimizer not in RULES:
        raise ValueError(
            "scale_batch: optimizer must be optax.sgd, adam, adamw or lion, or gladstorm.optax.nsgdm; got "
            f"{getattr(optimizer, '__name__', optimizer)}, for which there is no rule. docs/batch.md says how "
            "one is derived."
        )
    bound = inspect.signature(optimizer).bind(**arguments)
    bound.apply_defaults()
    before = bound.arguments
    length, others = RULES[optimizer](before, factor, B)
    rate = before["learning_rate"]
    if not callable(rate):
        return {**arguments, "learning_rate": rate * length, **others}
    return {**arguments, "learning_rate": lambda k: length * rate(factor * (k + 0.5) - 0.5), **others}


def _momentum(before: Arguments, factor: float, _critical: float) -> tuple[float, Arguments]:
    """optax.sgd, whose v ← βv + g is 1/(1 − β) times a mean of gradients."""
    if before["momentum"] is None:
        return factor, {}
    scaling = for_momentum(factor, before["momentum"])
    (after,) = scaling.momenta
    return scaling.length * (1 - after) / (1 - before["momentum"]), {"momentum": after}


def _squares(before: Arguments, factor: float, critical: float) -> tuple[float, Arguments]:
    scaling = for_squares(factor, critical, before["b1"], before["b2"])
    eps = {"eps": before["eps"] * math.sqrt(scaling.squares)}
    return scaling.length, _with_decay(before, scaling, ("b1", "b2")) | eps


def _lion(before: Arguments, factor: float, critical: float) -> tuple[float, Arguments]:
    scaling = for_normalized(factor, critical, (before["b1"], before["b2"]), lion)
    return scaling.length, _with_decay(before, scaling, ("b1", "b2"))


def _normalized(before: Arguments, factor: float, critical: float) -> tuple[float, Arguments]:
    scaling = for_normalized(factor, critical, (before["momentum"],))
    return scaling.length, _with_decay(before, scaling, ("momentum",))


def _with_decay(before: Arguments, scaling: BatchScaling, names: tuple[str, ...]) -> Arguments:
    """Momenta by their names, and the weight decay of an optimizer that has one."""
    after: Arguments = dict(zip(names, scaling.momenta, strict=True))
    if "weight_decay" in before:
        after["weight_decay"] = before["weight_decay"] * scaling.decay
    return after


RULES: dict[Callable[..., Any], Callable[[Arguments, float, float], tuple[float, Arguments]]] = {
    optax.sgd: _momentum,
    optax.adam: _squares,
    optax.adamw: _squares,
    optax.lion: _lion,
    nsgdm: _normalized,
}
