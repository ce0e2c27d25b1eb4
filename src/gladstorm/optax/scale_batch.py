"""`scale_batch`: the arguments of an optimizer for larger batches, with which the training keeps its course."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import optax

from gladstorm.core.batch_scaling import BatchScaling, for_momentum, for_normalized, for_squares, lion
from gladstorm.core.equations import Floats
from gladstorm.core.rules import ABOVE_ZERO, POSITIVE
from gladstorm.optax.nsgdm import nsgdm

Arguments = dict[str, Any]
Scaled = tuple[
    Any, Arguments, Arguments
]  # factor of the learning rate, other arguments, factors of fields of the state


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
    before = known_arguments("scale_batch", optimizer, arguments)
    length, others, _ = RULES[optimizer](before, factor, B, Floats)
    rate = before["learning_rate"]
    if not callable(rate):
        return {**arguments, "learning_rate": rate * length, **others}
    return {**arguments, "learning_rate": lambda k: length * rate(factor * (k + 0.5) - 0.5), **others}


def known_arguments(owner: str, optimizer: Callable[..., Any], arguments: Arguments) -> Arguments:
    """All arguments of an optimizer that has a rule, also those that were not given."""
    if optimizer not in RULES:
        raise ValueError(
            f"{owner}: optimizer must be optax.sgd, adam, adamw or lion, or gladstorm.optax.nsgdm, the function; got "
            f"{getattr(optimizer, '__name__', type(optimizer).__name__)}, for which there is no rule. docs/batch.md "
            "says how one is derived."
        )
    bound = inspect.signature(optimizer).bind(**arguments)
    bound.apply_defaults()
    if callable(bound.arguments.get("momentum")):
        raise ValueError(f"{owner}: momentum must be a number; got a schedule.")
    return bound.arguments


def _momentum(before: Arguments, factor: Any, _critical: Any, xp: Any) -> Scaled:
    """optax.sgd, whose v ← βv + g is 1/(1 − β) times a mean of gradients."""
    if before["momentum"] is None:
        return factor, {}, {}
    scaling = for_momentum(factor, before["momentum"], xp)
    (after,) = scaling.momenta
    sum_by_mean = (1 - after) / (1 - before["momentum"])
    return scaling.length * sum_by_mean, {"momentum": after}, {"trace": 1 / sum_by_mean}


def _squares(before: Arguments, factor: Any, critical: Any, xp: Any) -> Scaled:
    scaling = for_squares(factor, critical, before["b1"], before["b2"], xp)
    eps = {"eps": before["eps"] * xp.sqrt(scaling.squares)}
    in_state = {"nu": scaling.squares, "count": 1 / factor}
    return scaling.length, _with_decay(before, scaling, ("b1", "b2")) | eps, in_state


def _lion(before: Arguments, factor: Any, critical: Any, xp: Any) -> Scaled:
    scaling = for_normalized(factor, critical, (before["b1"], before["b2"]), lion, xp)
    return scaling.length, _with_decay(before, scaling, ("b1", "b2")), {}


def _normalized(before: Arguments, factor: Any, critical: Any, xp: Any) -> Scaled:
    scaling = for_normalized(factor, critical, (before["momentum"],), xp=xp)
    return scaling.length, _with_decay(before, scaling, ("momentum",)), {}


def _with_decay(before: Arguments, scaling: BatchScaling, names: tuple[str, ...]) -> Arguments:
    """Momenta by their names, and the weight decay of an optimizer that has one."""
    after: Arguments = dict(zip(names, scaling.momenta, strict=True))
    if "weight_decay" in before:
        after["weight_decay"] = before["weight_decay"] * scaling.decay
    return after


RULES: dict[Callable[..., Any], Callable[[Arguments, Any, Any, Any], Scaled]] = {
    optax.sgd: _momentum,
    optax.adam: _squares,
    optax.adamw: _squares,
    optax.lion: _lion,
    nsgdm: _normalized,
}
