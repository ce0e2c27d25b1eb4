"""`diagnose`: probes of a loss around a tree of parameters, in a designed experiment, and a short training."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import optax

from gladstorm.core.parts import Array
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
from gladstorm.methods.norms import Euclid, StepNorm
from gladstorm.optax.noise import cut_into_groups, group_gradients, length, spread
from gladstorm.optax.nsgdm import nsgdm
from gladstorm.optax.options import NormOption
from gladstorm.optax.options import check as check_norm
from gladstorm.optax.trees import Tree, step_norm


def diagnose(
    loss_fn: Callable[..., Array],
    params: Tree,
    batches: Iterable[Tree],
    budget: int = 200,
    *,
    checkpoint: Tree | None = None,
    radius: float | None = None,
    groups: int = 4,
    norm: NormOption = "global",
    key: Array | None = None,
    seed: int = 0,
) -> Report:
    """Probe a loss around the parameters x⁰ and report on its noise and smoothness.

    As `gladstorm.torch.diagnose`, whose docstring explains probes; each is one compiled program.

    Args:
        loss_fn: `loss_fn(params, batch)` returns the mean loss over the samples of a mini-batch, unscaled. With `key`
            it is `loss_fn(params, batch, key)`, and what it draws is part of the noise.
        params: x⁰, a tree of floating-point arrays.
        batches: Mini-batches, as trees of arrays with the samples along the first dimension, used again if they end
            before the budget. Those of another size than the first, such as the last of an epoch, are left out.
        budget: How many mini-batches to look at, at most; each is evaluated at two points.
        checkpoint: Parameters later in the training, a tree like params; the path leads from x⁰ to there.
        radius: How far from x⁰ to look. By default as far as the checkpoint or, without one, as far as it takes.
        groups: Into how many groups a mini-batch is cut, at least 2.
        norm: That of the optimizer's steps, as in `nsgdm` and `read_noise`: `by_layer`, or "global" for Euclid's.
        key: Given to `loss_fn`, another one for each probe and group.
        seed: The seed of the directions and the resamples.

    Returns:
        What the probes say about the noise, the smoothness and the method to use.

    >>> data = jax.random.normal(jax.random.key(0), (16, 8, 3))
    >>> report = diagnose(lambda x, batch: jnp.mean((batch @ x) ** 2), jnp.ones(3), data, budget=16)
    >>> report.findings["power"].verdict
    'not identifiable'
    """
    check(budget, groups, radius)
    check_norm("diagnose", norm, None)
    of = step_norm(norm)
    path, reach = _path(checkpoint, params, of)
    measured = jax.jit(partial(_measured, loss_fn, groups, of))
    cut = enumerate(_batches(batches, budget, groups))

    def take(place: Place, radius: float) -> Probe:
        step, batch = next(cut)
        direction = path if place.draw == OWN_PATH and path is not None else _random(params, seed, place.draw, of)
        distance, move = place.radius * radius, STEP * radius
        points = [_moved(params, direction, place.sign * r) for r in (distance, distance + move)]
        sample = None if key is None else jax.random.fold_in(key, step)
        loss, numbers = measured(*points, batch, sample)
        if not bool(jnp.isfinite(jnp.stack([loss, *numbers])).all()):
            raise NotFinite(
                f"diagnose: losses and gradients must be finite; got a loss of {float(loss)}, at distance "
                f"{distance:.3g} from the start. Look less far, with radius=…, or start where the loss is finite."
            )
        if step == 0:
            _require_precision(points[0], points[1], move, of)
            whole = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), batch)
            of_all = float(loss_fn(points[0], whole, *(() if sample is None else (sample,))))
            refuse_sum("loss_fn", of_all, float(loss), groups)
        noise, gradient2, of_change, change2 = map(float, numbers)
        ell2, L2 = (of_change + change2) / move**2, change2 / move**2
        samples = jax.tree.leaves(batch)[0].shape[1]
        where = (step, place.pair, place.direction, distance)
        return Probe(*where, groups, samples, noise, gradient2, move, ell2, L2)

    size = float(length(params, of))
    rows = take_probes(take, budget, path=path is not None, radius=radius or reach or None, size=size, seed=seed)
    if not any(row.noise or row.gradient2 for row in rows):
        raise ValueError("diagnose: the loss must depend on params; got gradients that are all 0.")
    return fit(Probes.of(rows) if isinstance(of, Euclid) else Probes.of(rows, (IN_LAYERS,), LAYERS), seed=seed)


def _measured(
    loss_fn: Callable[..., Array], groups: int, norm: StepNorm, x: Tree, y: Tree, batch: Tree, key: Array | None
) -> tuple[Array, list[Array]]:
    """The mean loss at x; V and ‖∇f‖² there; and the same two of how the samples' gradients change from x to y."""
    losses, here, there = group_gradients(loss_fn, (x, y), batch, key)
    change = jax.tree.map(jnp.subtract, there, here)
    samples = jax.tree.leaves(batch)[0].shape[1]
    return losses.mean(), [*spread(here, groups, samples, norm), *spread(change, groups, samples, norm)]


def _moved(params: Tree, direction: Tree, distance: float) -> Tree:
    return jax.tree.map(lambda x, u: x + jnp.asarray(distance, x.dtype) * u, params, direction)


def _random(params: Tree, seed: int, draw: int, norm: StepNorm) -> Tree:
    """A random direction of length 1: in norms of layers, a unit step along one."""
    leaves, structure = jax.tree.flatten(params)
    parts = random_direction([leaf.shape for leaf in leaves], seed, draw)
    drawn = jax.tree.unflatten(structure, [jnp.asarray(u, leaf.dtype) for u, leaf in zip(parts, leaves, strict=True)])
    if isinstance(norm, Euclid):
        return drawn
    unit = norm.unit(drawn)
    longest = norm.length(unit)  # not 1 where it is by Newton–Schulz
    return jax.tree.map(lambda u: u / longest.astype(u.dtype), unit)


def _path(checkpoint: Tree | None, params: Tree, norm: StepNorm) -> tuple[Tree | None, float]:
    """The direction from the parameters to the checkpoint, a unit vector, and how far that is."""
    if checkpoint is None:
        return None, 0.0
    if jax.tree.map(jnp.shape, checkpoint) != jax.tree.map(jnp.shape, params):
        raise ValueError("diagnose: checkpoint must be a tree of the same shapes as params; got another.")
    apart = jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype) - b, checkpoint, params)
    distance = float(length(apart, norm))
    if not 0 < distance < math.inf:
        raise ValueError(f"diagnose: checkpoint must be finite and differ from params; got one {distance} away.")
    return jax.tree.map(lambda a: a / jnp.asarray(distance, a.dtype), apart), distance


def _batches(batches: Iterable[Tree], count: int, groups: int) -> Iterator[Tree]:
    """Yield so many mini-batches of the size of the first, cut into groups."""
    first: int | None = None

    def usable(batch: Tree) -> bool:
        nonlocal first
        size = len(jax.tree.leaves(batch)[0])
        first = first or size
        return groups <= first == size

    needs = f"at least {groups} samples, one for each group"
    return (cut_into_groups(batch, groups) for batch in usable_batches(batches, count, usable, needs))


def _require_precision(x: Tree, y: Tree, move: float, norm: StepNorm) -> None:
    apart = float(length(jax.tree.map(jnp.subtract, y, x), norm))
    if abs(apart - move) > 0.1 * move:
        raise ValueError(
            f"diagnose: a probe must move params by more than rounding does; got a step of {apart:.3g} instead of "
            f"{move:.3g}. Keep params in float32, or give a larger radius."
        )


def trial(
    loss_fn: Callable[[Tree, Tree], Array],
    params: Tree,
    batches: Iterable[Tree],
    steps: int = 100,
    norm: NormOption = "global",
) -> Callable[[float], tuple[float, float]]:
    """Make a short training with nsgdm into a function of its learning rate, to be given to `report.recommend`.

    Called with a learning rate, it trains and returns the mean loss over the first eight mini-batches before and after.

    Args:
        loss_fn: The mean loss over the samples of a mini-batch, `loss_fn(params, batch)`.
        params: The parameters to begin with.
        batches: Mini-batches; gone through again if they end before the steps.
        steps: How many steps to make.
        norm: As in `nsgdm`.

    >>> data = jax.random.normal(jax.random.key(0), (50, 16, 3))
    >>> before, after = trial(lambda x, batch: jnp.mean((batch @ x) ** 2), jnp.ones(3), data)(0.01)
    >>> after < before
    True
    """
    steps = COUNT.whole("trial", "steps", steps)

    def train(learning_rate: float) -> tuple[float, float]:
        optimizer, x = nsgdm(learning_rate, norm=norm), params
        taken, state = list(usable_batches(batches, steps, lambda _: True, "samples", "trial")), optimizer.init(params)

        @jax.jit
        def step(x: Tree, state: Tree, batch: Tree) -> tuple[Tree, Tree]:
            updates, state = optimizer.update(jax.grad(loss_fn)(x, batch), state, x)
            return optax.apply_updates(x, updates), state

        def loss(x: Tree) -> float:
            return float(jnp.mean(jnp.stack([loss_fn(x, batch) for batch in taken[:HELD]])))

        before = loss(x)
        for batch in taken:
            x, state = step(x, state, batch)
        return before, loss(x)

    return train
