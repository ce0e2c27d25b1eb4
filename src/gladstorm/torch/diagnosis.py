"""`diagnose`: probes of a loss around a model's parameters, in a designed experiment, and a short training."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from gladstorm.core.rules import COUNT
from gladstorm.diagnosis import Probe, Probes, Report
from gladstorm.diagnosis import diagnose as fit
from gladstorm.diagnosis.design import (
    HELD,
    OWN_PATH,
    STEP,
    NotFinite,
    Place,
    check,
    random_direction,
    refuse_sum,
    take_probes,
    usable_batches,
)
from gladstorm.diagnosis.probes import IN_LAYERS, LAYERS
from gladstorm.torch.batch_gradients import (
    LossOf,
    SampledLoss,
    layer_notes,
    min_group_size,
    refuse_sharded,
    size_of,
    split,
)
from gladstorm.torch.nsgdm import NSGDM
from gladstorm.torch.options import rounding_swallows
from gladstorm.torch.random_state import save_random_state
from gladstorm.torch.step_norms import LayerNorms, Norms, WholeNorm, norm_for


def diagnose(
    loss_of: LossOf,
    model: torch.nn.Module,
    loader: Iterable[Any],
    budget: int = 200,
    *,
    checkpoint: Mapping[str, Tensor] | None = None,
    radius: float | None = None,
    groups: int = 4,
    norms: Norms | None = None,
    seed: int = 0,
) -> Report:
    """Probe a loss around the model's parameters x⁰ and report on its noise and smoothness.

    A probe takes a mini-batch, cuts it into groups, and evaluates the gradients of all groups at a point x⁰ ± r u and,
    on the same samples, a step further out. With a checkpoint or a radius, r is 0, ¼, ½ or 1 times the radius, and u
    the direction of the path for a third and random for the others. Without, it looks further and further out until it
    can tell whether the noise grows. It says on standard error how many gradients that takes at most. Parameters,
    buffers, gradients, modes and global random states are afterwards what they were, to the bit. Parameters that do not
    require gradients stay where they are.

    Args:
        loss_of: The mean loss over the samples of a mini-batch, `loss_of(model, batch)`, unscaled: a factor of the loss
            enters the noise squared. Everything random in it is part of the noise. Tensors in the batch, in dicts and
            sequences too, are cut along their first dimension.
        model: The model, in the mode you train in. If `model.eval()` switches dropout off, it is not part of the noise.
        loader: Gives mini-batches, over and over if it ends before the budget does.
        budget: How many mini-batches to look at, at most; each is evaluated at two points.
        checkpoint: A state_dict of the model later in its training; the path leads from x⁰ to there.
        radius: How far from x⁰ to look. By default as far as the checkpoint or, without one, as far as it takes.
        groups: Into how many groups a mini-batch is cut, at least 2.
        norms: A function that makes parameter groups of the model, such as `by_layer`: distances are then in the norm
            in which that optimizer's steps have length 1, gradients and noise in its dual (`LayerNorms`). Parameters
            that it leaves out stay where they are: give one layer's group to diagnose that layer.
        seed: The seed of the directions and the resamples.

    Returns:
        What the probes say about the noise, the smoothness and the method to use.

    >>> data = torch.randn(256, 3, generator=torch.Generator().manual_seed(0))
    >>> loader = torch.utils.data.DataLoader(data, batch_size=16)
    >>> report = diagnose(lambda model, x: model(x).square().mean(), torch.nn.Linear(3, 1), loader, budget=16)
    >>> report.findings["power"].verdict
    'not identifiable'
    """
    check(budget, groups, radius)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module  # this process' data, without waiting for the others
    norm = norm_for(model, norms, "diagnose")
    params, notes = norm.params, layer_notes(model)
    if not params:
        raise ValueError("diagnose: some parameters of the model must require gradients; got a model with none.")
    refuse_sharded("diagnose", params, "Diagnose the model before it is sharded.")
    start = [p.detach().clone() for p in params]
    names: dict[Tensor, str] = {p: name for name, p in model.named_parameters()}
    path, reach = _path(checkpoint, {names[p]: p for p in params}, norm)
    restore = save_random_state([model], {p.device for p in params})
    measured = SampledLoss("diagnose", loss_of, model, params)
    smallest = groups * min_group_size(model)
    needs = f"at least {smallest} samples, {'one' if smallest == groups else 'two, as BatchNorm needs,'} for each group"
    batches = enumerate(usable_batches(loader, budget, lambda batch: size_of(batch) >= smallest, needs))

    def take(place: Place, radius: float) -> Probe:
        _require_precision(params, STEP * radius)
        step, batch = next(batches)
        direction = path if place.draw == OWN_PATH and path is not None else _random(norm, seed, place.draw)
        measured.where = f", at distance {place.radius * radius:.3g} from the start"
        if step == 0:
            with torch.no_grad():
                whole = measured.loss(split(batch, 1, size_of(batch) // groups * groups)[0]).item()
                mean = sum(measured.loss(part).item() for part in split(batch, groups)) / groups
            refuse_sum("loss_of", whole, mean, groups)
        return _probe(measured, norm, step, place, batch, start, direction, radius, groups)

    try:
        rows = take_probes(
            take, budget, path=path is not None, radius=radius or reach or None, size=norm.length(start), seed=seed
        )
    finally:
        with torch.no_grad():
            for p, value in zip(params, start, strict=True):
                p.copy_(value)
        restore()
    table = Probes.of(rows, notes) if norms is None else Probes.of(rows, (*notes, IN_LAYERS), LAYERS)
    return fit(table, seed=seed)


def _probe(
    measured: SampledLoss,
    norm: WholeNorm | LayerNorms,
    step: int,
    place: Place,
    batch: Any,
    start: list[Tensor],
    direction: list[Tensor],
    radius: float,
    groups: int,
) -> Probe:
    stride = STEP * radius
    here, there = place.sign * place.radius * radius, place.sign * (place.radius * radius + stride)
    gradients, changes = [], []
    for part in split(batch, groups):
        _move(measured.params, start, direction, here)
        restore = save_random_state([measured.model], {p.device for p in measured.params})
        at_x, _ = measured.gradients(part)
        _move(measured.params, start, direction, there)
        restore()
        changes.append([b - a for a, b in zip(at_x, measured.gradients(part)[0], strict=True)])
        gradients.append(at_x)
    samples = size_of(batch) // groups
    numbers = *norm.measure(gradients, samples), *norm.measure(changes, samples)
    if not all(map(math.isfinite, numbers)):
        raise NotFinite(f"diagnose: squares of gradients must be finite; got some that are not{measured.where}.")
    noise, gradient2, of_change, mean_change2 = numbers
    ell2, L2 = (of_change + mean_change2) / stride**2, mean_change2 / stride**2
    at = place.radius * radius
    return Probe(step, place.pair, place.direction, at, groups, samples, noise, gradient2, stride, ell2, L2)


@torch.no_grad()
def _move(params: list[Tensor], start: list[Tensor], direction: list[Tensor], distance: float) -> None:
    """Set the parameters to x⁰ + distance · u, from x⁰: nothing accumulates."""
    for p, x, u in zip(params, start, direction, strict=True):
        p.copy_(x + distance * u)


def _path(
    checkpoint: Mapping[str, Tensor] | None, named: dict[str, Tensor], norm: WholeNorm | LayerNorms
) -> tuple[Any, float]:
    """The direction from the parameters to the checkpoint's, a unit vector, and how far that is."""
    if checkpoint is None:
        return None, 0.0
    missing = [name for name, p in named.items() if name not in checkpoint or checkpoint[name].shape != p.shape]
    if missing:
        raise ValueError(f"diagnose: checkpoint must hold every parameter of the model; got none for {missing[0]!r}.")
    apart = [checkpoint[name].to(p.device, p.dtype) - p.detach() for name, p in named.items()]
    distance = norm.length(apart)
    if not 0 < distance < math.inf:
        raise ValueError(f"diagnose: checkpoint must be finite and elsewhere than the model; got one {distance} away.")
    return [a / distance for a in apart], distance


def _random(norm: WholeNorm | LayerNorms, seed: int, draw: int) -> list[Tensor]:
    """A random direction of length 1: in norms of layers, a unit step along one, of length 1 in each."""
    parts = random_direction([tuple(p.shape) for p in norm.params], seed, draw)
    # the type before the device: some have no float64
    drawn = [torch.as_tensor(part).to(p.dtype).to(p.device) for part, p in zip(parts, norm.params, strict=True)]
    return norm.unit(drawn) if isinstance(norm, LayerNorms) else drawn


def _require_precision(params: list[Tensor], stride: float) -> None:
    count = sum(p.numel() for p in params)
    for p in params:
        if p.numel() and rounding_swallows(stride / count**0.5, p.detach()):
            raise ValueError(
                f"diagnose: a probe must move entries by more than rounding does; got a step of {stride:.3g} for "
                f"parameters in {p.dtype}. Keep them in float32, or give a larger radius."
            )


def trial(
    loss_of: LossOf, model: torch.nn.Module, loader: Iterable[Any], steps: int = 100, norms: Norms | None = None
) -> Callable[[float], tuple[float, float]]:
    """Make a short training with NSGDM into a function of its learning rate, to be given to `report.recommend`.

    Called with a learning rate, it trains a copy of the model and returns the mean loss over the first eight
    mini-batches before and after. The model and global random states stay as they are.

    Args:
        loss_of: The mean loss over the samples of a mini-batch, `loss_of(model, batch)`.
        model: The model, with the parameters to begin with.
        loader: Mini-batches; gone through again if they end before the steps.
        steps: How many steps to make.
        norms: A function that makes parameter groups of the model, such as `by_layer`.

    >>> data = torch.randn(50, 16, 3, generator=torch.Generator().manual_seed(0))
    >>> before, after = trial(lambda model, x: model(x).square().mean(), torch.nn.Linear(3, 1), data)(0.01)
    >>> after < before
    True
    """
    steps = COUNT.whole("trial", "steps", steps)

    def train(lr: float) -> tuple[float, float]:
        restore = save_random_state([model], {p.device for p in model.parameters()})
        try:
            trained = copy.deepcopy(model)
            batches = list(usable_batches(loader, steps, lambda _: True, "samples", "trial"))

            def loss() -> float:
                with torch.no_grad():
                    losses = [loss_of(trained, batch) for batch in batches[:HELD]]
                return float(torch.stack(losses).mean())

            params: Any = (p for p in trained.parameters() if p.requires_grad) if norms is None else norms(trained)
            before, optimizer = loss(), NSGDM(params, lr=lr)
            for batch in batches:
                optimizer.zero_grad()
                loss_of(trained, batch).backward()
                optimizer.step()
            return before, loss()
        finally:
            restore()

    return train
