"""`scale_batch`: an optimizer goes on with larger batches, and the training keeps its course."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from gladstorm.core.batch_scaling import (
    BatchScaling,
    averaging,
    for_momentum,
    for_normalized,
    for_squares,
    nesterov,
)
from gladstorm.core.rules import ABOVE_ZERO, POSITIVE
from gladstorm.torch.nsgdm import NSGDM

Group = dict[str, Any]
RATES = ("lr", "initial_lr", "max_lr", "min_lr")  # what torch's schedulers keep in a group
RATES_BY_GROUP = ("base_lrs", "max_lrs", "min_lrs")  # and what they keep themselves


def scale_batch(
    optimizer: torch.optim.Optimizer,
    factor: float,
    critical: float | None = None,
    *,
    scheduler: LRScheduler | None = None,
) -> None:
    """Change an optimizer for steps that average `factor` times as many samples, so that the training keeps its course.

    Learning rate, momenta, weight decay and state change together: a sample moves the parameters as far as before, and
    momenta remember as many samples as before. `docs/batch.md` derives the rule and compares it with the usual ones.

    Call it before a training whose batches are larger than those it was tuned with, or between two steps of one. A
    schedule goes on counting: step it `factor` times for each step, or make it for as many fewer steps.

    Args:
        optimizer: SGD, Adam, AdamW or Muon of torch, or NSGDM with one or more norms.
        factor: How many times larger batches become; below 1 they become smaller.
        critical: The critical batch size by the batch before, such as `NoiseProbe` measures. Without it, noise is taken
            to be all there is in a gradient, as it is where batches are far below the critical size.
        scheduler: The scheduler of the optimizer, if it has one by now: it keeps learning rates of its own. One that is
            made of others, as SequentialLR is, stands for them. A least rate that all groups share, as
            CosineAnnealingLR's, changes as the first group's does.

    Raises:
        ValueError: If there is no rule for the optimizer, or it has a scheduler that is not given.

    >>> x = torch.nn.Parameter(torch.zeros(2))
    >>> optimizer = torch.optim.AdamW([x], lr=1e-3, weight_decay=0.1)
    >>> scale_batch(optimizer, 4)
    >>> {name: optimizer.param_groups[0][name] for name in ("lr", "weight_decay")}
    {'lr': 0.002, 'weight_decay': 0.2}
    """
    ABOVE_ZERO.require("scale_batch", "factor", factor)
    B = math.inf if critical is None else critical
    POSITIVE.require("scale_batch", "critical", 1.0 if math.isinf(B) else B)
    rule = RULES.get(type(optimizer))
    if rule is None:
        names = ", ".join(kind.__name__ for kind in RULES)
        raise ValueError(
            f"scale_batch: optimizer must be one of {names}; got {type(optimizer).__name__}, for which there is no "
            "rule. docs/batch.md says how one is derived."
        )
    if scheduler is None and any("initial_lr" in group for group in optimizer.param_groups):
        raise ValueError(
            "scale_batch: scheduler must be given where the optimizer has one, which would set the old learning rates "
            "again; got scheduler=None."
        )
    lengths = [rule(optimizer, group, factor, B) for group in optimizer.param_groups]
    if scheduler is not None:
        _rescale_schedule(scheduler, lengths)


def _rescale_schedule(scheduler: LRScheduler, lengths: list[float]) -> None:
    """Multiply the learning rates that a scheduler keeps, or those of which SequentialLR and ChainedScheduler are."""
    rates: Group = vars(scheduler)
    for name in RATES_BY_GROUP:
        if name in rates:
            rates[name] = [lr * length for lr, length in zip(rates[name], lengths, strict=True)]
    _multiply(rates, ("eta_min",), lengths[0])  # which all groups share
    for part in rates.get("_schedulers", ()):
        _rescale_schedule(part, lengths)


def _momentum(optimizer: torch.optim.Optimizer, group: Group, factor: float, _critical: float) -> float:
    """SGD of torch, whose v ← βv + g is 1/(1 − β) times a mean of gradients."""
    before = group["momentum"]
    scaling = for_momentum(factor, before)
    (after,) = scaling.momenta
    group["momentum"] = after
    sum_by_mean = (1 - after) / (1 - before)
    for state in _states(optimizer, group):
        _multiply(state, ("momentum_buffer",), 1 / sum_by_mean)
    return _rescale(group, scaling.length * sum_by_mean)


def _squares(optimizer: torch.optim.Optimizer, group: Group, factor: float, critical: float) -> float:
    """Adam and AdamW of torch, which correct their means for the steps there were."""
    scaling = for_squares(factor, critical, *group["betas"])
    group["betas"] = scaling.momenta
    group["eps"] *= math.sqrt(scaling.squares)
    if group["decoupled_weight_decay"]:
        group["weight_decay"] *= scaling.decay
    for state in _states(optimizer, group):
        _multiply(state, ("exp_avg_sq", "max_exp_avg_sq"), scaling.squares)
        _multiply(state, ("step",), 1 / factor)
    return _rescale(group, scaling.length)


def _normalized(_optimizer: torch.optim.Optimizer, group: Group, factor: float, critical: float) -> float:
    """NSGDM and Muon: a mean of gradients that is normalized, in whatever norm."""
    share = nesterov if group.get("nesterov") else averaging
    scaling: BatchScaling = for_normalized(factor, critical, (group["momentum"],), share)
    (group["momentum"],) = scaling.momenta
    group["weight_decay"] *= scaling.decay
    return _rescale(group, scaling.length)


RULES: dict[type[torch.optim.Optimizer], Callable[[Any, Group, float, float], float]] = {
    torch.optim.SGD: _momentum,
    torch.optim.Adam: _squares,
    torch.optim.AdamW: _squares,
    NSGDM: _normalized,
}
if hasattr(torch.optim, "Muon"):  # from torch 2.9 on
    RULES[torch.optim.Muon] = _normalized


def _rescale(group: Group, length: float) -> float:
    """Multiply the learning rates that a group keeps, a tensor in place, and return the factor."""
    _multiply(group, RATES, length)
    return length


def _states(optimizer: torch.optim.Optimizer, group: Group) -> list[Group]:
    return [optimizer.state[p] for p in group["params"] if p in optimizer.state]


@torch.no_grad()
def _multiply(numbers: Group, names: tuple[str, ...], by: float) -> None:
    for name in names:
        value = numbers.get(name)
        if isinstance(value, Tensor):
            value.mul_(by)
        elif value is not None:
            numbers[name] = value * by
