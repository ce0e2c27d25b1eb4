"""A designed experiment on a model: is its noise growing, how smooth is it, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gladstorm.diagnosis import Probe, Probes, Report, spread
from gladstorm.diagnosis import diagnose as fit
from gladstorm.diagnosis.design import OWN_PATH, STEP, Place, check, places, random_direction
from gladstorm.torch.cutting import cut, size_of
from gladstorm.torch.layer_remarks import remarks_on, samples_for
from gladstorm.torch.normalized_step import norm_of
from gladstorm.torch.options import rounding_swallows
from gladstorm.torch.same_sample import remember
from gladstorm.torch.sampled_loss import LossOf, SampledLoss, refuse_sharded


def diagnose(
    loss_of: LossOf,
    model: torch.nn.Module,
    loader: Iterable[Any],
    budget: int = 200,
    *,
    checkpoint: Mapping[str, Tensor] | None = None,
    radius: float | None = None,
    groups: int = 4,
    seed: int = 0,
) -> Report:
    """Probe a loss around the model's parameters x⁰ and report on its noise and smoothness.

    A probe takes a mini-batch, cuts it into groups, and evaluates the gradients of all groups at a point x⁰ ± r u and,
    on the same samples, a step further out: r is 0, ¼, ½ or 1 times the radius, u the direction of the path for a third
    and random for the others. Parameters, buffers, gradients, modes and global random states are afterwards what they
    were, to the bit. Parameters that do not require gradients stay where they are.

    loss_of: the mean loss over the samples of a mini-batch, `loss_of(model, batch)`, unscaled: a factor of the loss
        enters the noise squared. Everything random in it is part of the noise. Tensors in the batch, in dicts and
        sequences too, are cut along their first dimension.
    model: the model, in the mode you train in. If `model.eval()` switches dropout off, it is not part of the noise.
    loader: gives mini-batches, over and over if it ends before the budget does.
    budget: how many mini-batches to look at; each is evaluated at two points.
    checkpoint: a state_dict of the model later in its training; the path leads from x⁰ to there.
    radius: how far from x⁰ to look. By default as far as the checkpoint or, without one, as far as x⁰ is from 0.
    groups: into how many groups a mini-batch is cut, at least 2.
    seed: the seed of the directions and the resamples.

    >>> data = torch.randn(256, 3, generator=torch.Generator().manual_seed(0))
    >>> loader = torch.utils.data.DataLoader(data, batch_size=16)
    >>> report = diagnose(lambda model, x: model(x).square().mean(), torch.nn.Linear(3, 1), loader, budget=16)
    >>> report.findings["power"].verdict
    'not identifiable'
    """
    check(budget, groups, radius)
    if not isinstance(model, torch.nn.Module):
        raise ValueError(
            f"diagnose: model must be a torch.nn.Module; got {type(model).__name__}. Call diagnose(loss_of, model, "
            "loader)."
        )
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module  # this process' data, without waiting for the others
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not named:
        raise ValueError("diagnose: some parameters of the model must require gradients; got a model with none.")
    refuse_sharded("diagnose", named.values())
    params = list(named.values())
    remarks = remarks_on(model)
    start = [p.detach().clone() for p in params]
    path, reach = _path(checkpoint, named)
    radius = radius or reach or norm_of(start).item()
    if not 0 < radius < math.inf:
        raise ValueError(f"diagnose: radius must be given where the parameters are 0 or not finite; got {radius}.")
    _require_precision(params, STEP * radius)
    design = places(budget, path is not None, np.random.default_rng(seed))
    put_back = remember([model], {p.device for p in params})
    measured = SampledLoss("diagnose", loss_of, model, params)
    rows: list[Probe] = []
    try:
        batches = _batches(loader, len(design), groups, samples_for(model))
        for step, (place, batch) in enumerate(zip(design, batches, strict=True)):
            direction = path if place.draw == OWN_PATH and path is not None else _random(params, seed, place.draw)
            measured.where = f", at distance {place.radius * radius:.3g} from the start"
            if step == 0:
                _require_mean(measured, batch, groups)
            rows.append(_probe(measured, step, place, batch, start, direction, radius, groups))
    finally:
        with torch.no_grad():
            for p, value in zip(params, start, strict=True):
                p.copy_(value)
        put_back()
    return fit(Probes.of(rows, remarks), seed=seed)


def _probe(
    measured: SampledLoss,
    step: int,
    place: Place,
    batch: Any,
    start: list[Tensor],
    direction: list[Tensor],
    radius: float,
    groups: int,
) -> Probe:
    moved = STEP * radius
    here, there = place.sign * place.radius * radius, place.sign * (place.radius * radius + moved)
    squares, changes = [], []
    total = change = [torch.zeros_like(u) for u in direction]
    for part in cut(batch, groups):
        _move(measured.params, start, direction, here)
        put_back = remember([measured.model], {p.device for p in measured.params})
        at_x = measured.gradients(part)
        _move(measured.params, start, direction, there)
        put_back()
        difference = [b - a for a, b in zip(at_x, measured.gradients(part), strict=True)]
        squares.append(norm_of(at_x).item() ** 2)
        changes.append(norm_of(difference).item() ** 2)
        total = [a + b for a, b in zip(total, at_x, strict=True)]
        change = [a + b for a, b in zip(change, difference, strict=True)]
    samples = size_of(batch) // groups
    noise, gradient2 = spread(squares, norm_of(total).item() ** 2, samples)
    of_change, mean_change2 = spread(changes, norm_of(change).item() ** 2, samples)
    ell2, L2 = (of_change + mean_change2) / moved**2, mean_change2 / moved**2
    at = place.radius * radius
    return Probe(step, place.pair, place.direction, at, groups, samples, noise, gradient2, moved, ell2, L2)


@torch.no_grad()
def _move(params: list[torch.nn.Parameter], start: list[Tensor], direction: list[Tensor], distance: float) -> None:
    """To x⁰ + distance · u, from x⁰: nothing accumulates."""
    for p, x, u in zip(params, start, direction, strict=True):
        p.copy_(x + distance * u)


def _path(checkpoint: Mapping[str, Tensor] | None, named: dict[str, torch.nn.Parameter]) -> tuple[Any, float]:
    """The direction from the parameters to the checkpoint's, a unit vector, and how far that is."""
    if checkpoint is None:
        return None, 0.0
    missing = [name for name, p in named.items() if name not in checkpoint or checkpoint[name].shape != p.shape]
    if missing:
        raise ValueError(f"diagnose: checkpoint must hold every parameter of the model; got none for {missing[0]!r}.")
    apart = [checkpoint[name].to(p.device, p.dtype) - p.detach() for name, p in named.items()]
    distance = norm_of(apart).item()
    if not 0 < distance < math.inf:
        raise ValueError(f"diagnose: checkpoint must be finite and elsewhere than the model; got one {distance} away.")
    return [a / distance for a in apart], distance


def _random(params: list[torch.nn.Parameter], seed: int, draw: int) -> list[Tensor]:
    parts = random_direction([tuple(p.shape) for p in params], seed, draw)
    # the type before the device: some have no float64
    return [torch.as_tensor(part).to(p.dtype).to(p.device) for part, p in zip(parts, params, strict=True)]


def _batches(loader: Iterable[Any], count: int, groups: int, samples: int) -> Iterator[Any]:
    """So many mini-batches that can be cut into groups of so many samples, from as many passes as it takes."""
    found, skipped = 0, 0
    while found < count:
        before = found
        for batch in loader:
            if size_of(batch) < groups * samples:
                skipped += 1
                continue
            yield batch
            found += 1
            if found == count:
                return
        if found == before:
            raise ValueError(
                f"diagnose: loader must give mini-batches of at least {groups * samples} samples, "
                f"{'one' if samples == 1 else 'two, as BatchNorm needs,'} for each group; got {found} of {count} and "
                f"{skipped} that are smaller. Give a larger batch_size, fewer groups, or a loader that can be "
                "gone through again."
            )


def _require_precision(params: list[torch.nn.Parameter], moved: float) -> None:
    count = sum(p.numel() for p in params)
    for p in params:
        if p.numel() and rounding_swallows(moved / count**0.5, p.detach()):
            raise ValueError(
                f"diagnose: a probe must move entries by more than rounding does; got a step of {moved:.3g} for "
                f"parameters in {p.dtype}. Keep them in float32, or give a larger radius."
            )


def _require_mean(measured: SampledLoss, batch: Any, groups: int) -> None:
    """Refuse a sum over samples, whose noise would seem to be that of another batch size."""
    parts = cut(batch, groups)
    with torch.no_grad():
        whole = measured.loss(cut(batch, 1, groups * size_of(parts[0]))[0]).item()
        each = [measured.loss(part).item() for part in parts]
    if abs(whole - sum(each)) < 0.1 * abs(whole - sum(each) / groups):
        raise ValueError(
            "diagnose: loss_of must return the mean over the samples of a mini-batch; got their sum, "
            f"{whole:.4g} for all and {each[0]:.4g} for one of {groups} groups."
        )
