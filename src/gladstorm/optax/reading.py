"""The noise of a training in JAX: a pure function beside the update, and the table of what it gave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.diagnosis import Probe, Probes
from gladstorm.optax.spread import length, spread
from gladstorm.optax.trees import Tree


class Reading(NamedTuple):
    """What the groups of a mini-batch tell at one point.

    It has `distance` ‖x − x⁰‖, `noise`, the variance of one sample's gradient, `gradient2`, an unbiased estimate of
    ‖∇f(x)‖², and the number of `groups` and of `samples` in a group.
    """

    distance: Array  # ‖x − x⁰‖
    noise: Array  # the variance of one sample's gradient
    gradient2: Array  # ‖∇f(x)‖², without bias
    groups: Array
    samples: Array  # in a group


def read_noise(
    loss_fn: Callable[..., Array],
    params: Tree,
    start: Tree,
    batch: Tree,
    *,
    groups: int = 2,
    key: Array | None = None,
) -> Reading:
    """Measure the noise at the current parameters: cut a mini-batch into groups and compare their gradients.

    It costs one more gradient of the mini-batch and keeps no state. Call it in the training step, for instance at every
    20th step with `jax.lax.cond`. The arguments are those of `diagnose`; `start` is x⁰, where the training began.

    >>> x, start = jnp.ones(3), jnp.zeros(3)
    >>> reading = read_noise(lambda x, batch: jnp.mean(batch @ x), x, start, jnp.eye(4, 3))
    >>> float(reading.noise), float(reading.distance)  # g_A = (½, ½, 0), g_B = (0, 0, ½): ‖g_A − g_B‖² = ¾
    (0.75, 1.7320507764816284)
    """
    size = jax.tree.leaves(batch)[0].shape[0]
    if groups < 2 or size < groups:
        raise ValueError(
            f"read_noise: a mini-batch must have a sample for each of two groups or more; got {size} samples and "
            f"groups={groups}."
        )
    n = size // groups
    parts = jax.tree.map(lambda a: jnp.asarray(a[: groups * n]).reshape(groups, n, *a.shape[1:]), batch)

    def of_group(group: tuple[Array, Tree]) -> Tree:
        i, part = group
        drawn = () if key is None else (jax.random.fold_in(key, i),)
        return jax.grad(loss_fn)(params, part, *drawn)

    noise, gradient2 = spread(jax.lax.map(of_group, (jnp.arange(groups), parts)), groups, n)
    distance = length(jax.tree.map(jnp.subtract, params, start))
    return Reading(distance, noise, gradient2, jnp.asarray(groups), jnp.asarray(n))


def probes_of(readings: Reading | Sequence[Reading], steps: Iterable[int]) -> Probes:
    """Make the table of probes from readings: a list with one for each step, or stacked as `jax.lax.scan` returns them.

    >>> reading = Reading(*map(jnp.asarray, (0.0, 2.0, 1.0, 2, 16)))
    >>> probes_of([reading, reading._replace(distance=jnp.asarray(0.5))], steps=[0, 20]).direction.tolist()
    ['start', 'path']
    """
    listed: Iterable[Any] = readings if isinstance(readings, Reading) else map(np.stack, zip(*readings, strict=True))
    columns = zip(steps, *(np.asarray(column).tolist() for column in listed), strict=True)
    nothing = (np.nan, np.nan, np.nan)  # one point: no smoothness
    return Probes.of(
        Probe(int(step), int(step), "path" if r else "start", r, int(m), int(n), V, g2, *nothing)
        for step, r, V, g2, m, n in columns
    )
