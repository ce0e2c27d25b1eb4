"""A designed experiment on a loss of a tree of parameters: is its noise growing, how smooth is it, and what to do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.diagnosis import Probe, Probes, Report
from gladstorm.diagnosis import diagnose as fit
from gladstorm.diagnosis.design import OWN_PATH, STEP, check, places, random_direction
from gladstorm.optax.spread import length, spread
from gladstorm.optax.trees import Tree


def diagnose(
    loss_fn: Callable[..., Array],
    params: Tree,
    batches: Iterable[Tree],
    budget: int = 200,
    *,
    checkpoint: Tree | None = None,
    radius: float | None = None,
    groups: int = 4,
    key: Array | None = None,
    seed: int = 0,
) -> Report:
    """Probe a loss around the parameters x⁰ and report on its noise and smoothness.

    A probe takes a mini-batch, cuts it into groups, and evaluates the gradients of all groups at a point x⁰ ± r u and,
    on the same samples, at a point a step further out. r is 0, ¼, ½ or 1 times the radius. u is the direction of the
    path for a third of the probes, and random for the others. A probe is one compiled program.

    loss_fn: `loss_fn(params, batch)` returns the mean loss over the samples of a mini-batch. Do not scale it: a factor
        enters the noise squared. With `key` it is `loss_fn(params, batch, key)`, and what it draws is part of the
        noise.
    params: x⁰, a tree of arrays.
    batches: mini-batches, as trees of arrays with the samples along the first dimension. They are used again if they
        end before the budget. Those of another size than the first, such as the last of an epoch, are left out.
    budget, checkpoint, radius, groups, seed: as in `gladstorm.torch.diagnose`; the checkpoint is a tree like params.

    >>> data = jax.random.normal(jax.random.key(0), (16, 8, 3))
    >>> report = diagnose(lambda x, batch: jnp.mean((batch @ x) ** 2), jnp.ones(3), data, budget=16)
    >>> report.findings["power"].verdict
    'not identifiable'
    """
    check(budget, groups, radius)
    _require_floats(params)
    path, reach = _path(checkpoint, params)
    radius = radius or reach or float(length(params))
    if not 0 < radius < math.inf:
        raise ValueError(f"diagnose: radius must be given where the parameters are 0 or not finite; got {radius}.")
    design = places(budget, path is not None, np.random.default_rng(seed))
    measured = jax.jit(partial(_measured, loss_fn, groups))
    rows = []
    for step, (place, batch) in enumerate(zip(design, _cut(batches, len(design), groups), strict=True)):
        direction = path if place.draw == OWN_PATH and path is not None else _random(params, seed, place.draw)
        distance, moved = place.radius * radius, STEP * radius
        points = [_moved(params, direction, place.sign * each) for each in (distance, distance + moved)]
        sample = None if key is None else jax.random.fold_in(key, step)
        loss, numbers = measured(*points, batch, sample)
        if not bool(jnp.isfinite(jnp.stack([loss, *numbers])).all()):
            raise ValueError(
                f"diagnose: losses and gradients must be finite; got a loss of {float(loss)}, at distance "
                f"{distance:.3g} from the start. Look less far, with radius=…, or start where the loss is finite."
            )
        if step == 0:
            _require_precision(points[0], points[1], moved)
            _require_mean(loss_fn, points[0], batch, sample, float(loss))
        noise, gradient2, of_change, change2 = map(float, numbers)
        ell2, L2 = (of_change + change2) / moved**2, change2 / moved**2
        samples = jax.tree.leaves(batch)[0].shape[1]
        where = (step, place.pair, place.direction, distance)
        rows.append(Probe(*where, groups, samples, noise, gradient2, moved, ell2, L2))
    if not any(row.noise or row.gradient2 for row in rows):
        raise ValueError("diagnose: the loss must depend on params; got gradients that are all 0.")
    return fit(Probes.of(rows), seed=seed)


def _measured(
    loss_fn: Callable[..., Array], groups: int, x: Tree, y: Tree, batch: Tree, key: Array | None
) -> tuple[Array, list[Array]]:
    """The mean loss at x; V and ‖∇f‖² there; and the same two of how the samples' gradients change from x to y."""

    def of_group(group: tuple[Array, Tree]) -> tuple[Array, Tree, Tree]:
        i, part = group
        drawn = () if key is None else (jax.random.fold_in(key, i),)
        loss, here = jax.value_and_grad(loss_fn)(x, part, *drawn)
        there = jax.grad(loss_fn)(y, part, *drawn)
        return loss, here, jax.tree.map(jnp.subtract, there, here)

    losses, here, change = jax.lax.map(of_group, (jnp.arange(groups), batch))
    samples = jax.tree.leaves(batch)[0].shape[1]
    return losses.mean(), [*spread(here, groups, samples), *spread(change, groups, samples)]


def _moved(params: Tree, direction: Tree, distance: float) -> Tree:
    return jax.tree.map(lambda x, u: x + jnp.asarray(distance, x.dtype) * u, params, direction)


def _random(params: Tree, seed: int, draw: int) -> Tree:
    leaves, structure = jax.tree.flatten(params)
    parts = random_direction([leaf.shape for leaf in leaves], seed, draw)
    return jax.tree.unflatten(structure, [jnp.asarray(u, leaf.dtype) for u, leaf in zip(parts, leaves, strict=True)])


def _path(checkpoint: Tree | None, params: Tree) -> tuple[Tree | None, float]:
    """The direction from the parameters to the checkpoint, a unit vector, and how far that is."""
    if checkpoint is None:
        return None, 0.0
    if jax.tree.map(jnp.shape, checkpoint) != jax.tree.map(jnp.shape, params):
        raise ValueError("diagnose: checkpoint must be a tree of the same shapes as params; got another.")
    apart = jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype) - b, checkpoint, params)
    distance = float(length(apart))
    if not 0 < distance < math.inf:
        raise ValueError(f"diagnose: checkpoint must be finite and differ from params; got one {distance} away.")
    return jax.tree.map(lambda a: a / jnp.asarray(distance, a.dtype), apart), distance


def _cut(batches: Iterable[Tree], count: int, groups: int) -> Iterator[Tree]:
    """So many mini-batches of the size of the first, each leaf as (groups, samples, …) without what is left over."""
    found, size = 0, None
    for _ in itertools.count():
        before = found
        for batch in batches:
            rows = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(batch)}
            if len(rows) != 1 or () in rows:
                raise ValueError(
                    "diagnose: every leaf of a mini-batch must have its samples along its first dimension."
                )
            ((own,),) = rows
            size = size or own
            if own != size or own < groups:
                continue
            n = own // groups
            yield jax.tree.map(lambda a, n=n: jnp.asarray(a[: groups * n]).reshape(groups, n, *a.shape[1:]), batch)
            found += 1
            if found == count:
                return
        if found == before:
            raise ValueError(
                f"diagnose: batches must give mini-batches of at least {groups} samples, one for each group; got "
                f"{found} of {count}. Give larger ones, fewer groups, or batches that can be read again."
            )


def _require_precision(x: Tree, y: Tree, moved: float) -> None:
    apart = float(length(jax.tree.map(jnp.subtract, y, x)))
    if abs(apart - moved) > 0.1 * moved:
        raise ValueError(
            f"diagnose: a probe must move params by more than rounding does; got a step of {apart:.3g} instead of "
            f"{moved:.3g}. Keep params in float32, or give a larger radius."
        )


def _require_mean(loss_fn: Callable[..., Array], x: Tree, batch: Tree, key: Array | None, mean: float) -> None:
    """Refuse a sum over samples, whose noise would seem to be that of another batch size."""
    groups = jax.tree.leaves(batch)[0].shape[0]
    whole = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), batch)
    loss = float(loss_fn(x, whole, *(() if key is None else (key,))))
    if abs(loss - groups * mean) < 0.1 * abs(loss - mean):
        raise ValueError(
            "diagnose: loss_fn must return the mean over the samples of a mini-batch; got their sum, "
            f"{loss:.4g} for all and {mean:.4g} for one of {groups} groups."
        )


def _require_floats(params: Tree) -> None:
    leaves = jax.tree.leaves(params)
    if not leaves:
        raise ValueError("diagnose: params must hold at least one array; got none.")
    for leaf in leaves:
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.inexact):
            raise ValueError(
                f"diagnose: params must hold floating-point numbers only; got {jnp.result_type(leaf)}. Leave what is "
                "not trained out of params and put it into loss_fn."
            )
