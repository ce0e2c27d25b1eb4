"""The noise of gradients: measured in a training step by a pure function, and made a table of probes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.diagnosis import Probe, Probes
from gladstorm.diagnosis.probes import IN_LAYERS, LAYERS
from gladstorm.methods.norms import Euclid, StepNorm
from gladstorm.optax.options import NormOption, check
from gladstorm.optax.trees import Tree, step_norm


class Reading(NamedTuple):
    """Noise that the gradients of the groups of a mini-batch show at one point.

    Attributes:
        distance: ‖x − x⁰‖.
        noise: The variance of one sample's gradient.
        gradient2: An unbiased estimate of ‖∇f(x)‖²; in norms of layers as far as groups agree.
        groups: The number of groups.
        samples: The number of samples in a group.
        first: ‖g‖ of the first half of the groups, for the bias of clipping; not a number if they have no halves.
        second: ‖g‖ of the second half.
        in_layers: Whether all this is in norms of layers, and in their duals.
    """

    distance: Array
    noise: Array
    gradient2: Array
    groups: Array
    samples: Array
    first: Array | float = np.nan
    second: Array | float = np.nan
    in_layers: Array | bool = False


def read_noise(
    loss_fn: Callable[..., Array],
    params: Tree,
    start: Tree,
    batch: Tree,
    *,
    groups: int = 2,
    norm: NormOption = "global",
    key: Array | None = None,
) -> Reading:
    """Measure the noise at the current parameters: cut a mini-batch into groups and compare their gradients.

    It costs one more gradient of the mini-batch and keeps no state. Call it in the training step, for instance at every
    20th step with `jax.lax.cond`.

    Args:
        loss_fn: `loss_fn(params, batch)`, or `loss_fn(params, batch, key)`, as in `diagnose`.
        params: The current parameters x.
        start: x⁰, where the training began.
        batch: A tree of arrays with the samples along the first dimension.
        groups: Into how many groups the mini-batch is cut, at least 2.
        norm: That of the optimizer's steps, as in `nsgdm`: distances are measured in it, noise and gradients in its
            dual, by the unit steps that the optimizer takes, as `gladstorm.torch.NoiseProbe` does.
        key: Given to `loss_fn`, another one for each group.

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
    check("read_noise", norm, None)
    of, parts = step_norm(norm), cut_into_groups(batch, groups)
    (gradients,) = group_gradients(loss_fn, (params,), parts, key)[1:]
    noise, gradient2 = spread(gradients, groups, size // groups, of)
    distance = length(jax.tree.map(jnp.subtract, params, start), of)
    reading = Reading(distance, noise, gradient2, jnp.asarray(groups), jnp.asarray(size // groups))
    if not isinstance(of, Euclid):
        return reading._replace(in_layers=jnp.asarray(True))
    if groups % 2:
        return reading
    halves = jax.tree.map(lambda g: g.reshape(2, groups // 2, *g.shape[1:]).mean(axis=1), gradients)
    first, second = jax.vmap(lambda half: length(half, of))(halves)
    return reading._replace(first=first, second=second)


def probes_of(readings: Reading | Sequence[Reading], steps: Iterable[int]) -> Probes:
    """Make a table of probes from readings.

    Args:
        readings: A list with one for each step, or stacked as `jax.lax.scan` returns them.
        steps: The numbers of the steps at which they were taken.

    >>> reading = Reading(*map(jnp.asarray, (0.0, 2.0, 1.0, 2, 16)))
    >>> probes_of([reading, reading._replace(distance=jnp.asarray(0.5))], steps=[0, 20]).direction.tolist()
    ['start', 'path']
    """
    listed: Iterable[Any] = readings if isinstance(readings, Reading) else map(np.stack, zip(*readings, strict=True))
    *numbers, in_layers = np.broadcast_arrays(*listed)
    columns = zip(steps, *(column.tolist() for column in numbers), strict=True)
    nothing = (np.nan, np.nan, np.nan)  # one point: no smoothness
    rows = [
        Probe(int(step), int(step), "path" if r else "start", r, int(m), int(n), V, g2, *nothing, *halves)
        for step, r, V, g2, m, n, *halves in columns
    ]
    return Probes.of(rows, (IN_LAYERS,), LAYERS) if in_layers.any() else Probes.of(rows)


def cut_into_groups(batch: Tree, groups: int) -> Tree:
    """Each leaf as (groups, samples, …), without what is left over."""

    def cut(leaf: Array) -> Array:
        n = leaf.shape[0] // groups
        return jnp.asarray(leaf[: groups * n]).reshape(groups, n, *leaf.shape[1:])

    return jax.tree.map(cut, batch)


def group_gradients(
    loss_fn: Callable[..., Array], points: tuple[Tree, ...], parts: Tree, key: Array | None
) -> tuple[Array, *tuple[Tree, ...]]:
    """The loss of every group at the first point, and its gradient at each point with the same random numbers."""

    def of_group(group: tuple[Array, Tree]) -> tuple[Array, *tuple[Tree, ...]]:
        i, part = group
        drawn = () if key is None else (jax.random.fold_in(key, i),)
        first, *others = points
        loss, gradient = jax.value_and_grad(loss_fn)(first, part, *drawn)
        return loss, gradient, *(jax.grad(loss_fn)(point, part, *drawn) for point in others)

    return jax.lax.map(of_group, (jnp.arange(jax.tree.leaves(parts)[0].shape[0]), parts))  # type: ignore[no-any-return]


def spread(gradients: Tree, groups: int, samples: int, norm: StepNorm) -> tuple[Array, Array]:
    """n Σ‖g_i − ḡ‖²/(m − 1) and ‖ḡ‖² − that/(mn): as `gladstorm.diagnosis.spread`, without its subtraction.

    In norms of layers the first is in the dual, and the second is how far groups agree: the square, with its sign, of
    the mean of ⟨d(Σ_{j≠i} g_j), g_i⟩ over i.
    """
    mean = jax.tree.map(lambda g: g.mean(axis=0), gradients)
    away = jax.tree.map(lambda g, m: g - m, gradients, mean)
    if isinstance(norm, Euclid):
        noise = samples * squares(away) / (groups - 1)
        return noise, squares(mean) - noise / (groups * samples)

    def along(vs: Tree, gs: Tree) -> Array:
        """⟨d(v), g⟩ of every group."""
        lengths: Array = jax.lax.map(lambda pair: inner(norm.unit(pair[0]), pair[1]), (vs, gs))
        return lengths

    agreement = along(jax.tree.map(lambda g, m: groups * m - g, gradients, mean), gradients).mean()
    return samples * jnp.sum(along(away, away) ** 2) / (groups - 1), agreement * jnp.abs(agreement)


def inner(one: Tree, other: Tree) -> Array:
    """The sum of all products of entries, in the widest type there is."""
    wide = jnp.result_type(float)
    products = jax.tree.map(lambda a, b: jnp.sum(jnp.real(a * jnp.conj(b)).astype(wide)), one, other)
    return jnp.asarray(sum(jax.tree.leaves(products)))


def squares(tree: Tree) -> Array:
    """The sum of all entries' squares, in the widest type there is."""
    wide = jax.tree.map(lambda leaf: jnp.sum(jnp.square(jnp.abs(leaf).astype(jnp.result_type(float)))), tree)
    return jnp.asarray(sum(jax.tree.leaves(wide)))


def length(tree: Tree, norm: StepNorm) -> Array:
    """The length in a norm; the Euclidean one by squares."""
    return jnp.sqrt(squares(tree)) if isinstance(norm, Euclid) else norm.length(tree)
