"""The method with nothing to tune, as an Optax transformation."""

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import optax
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.core.parts import Array
from gladstorm.core.rules import warn_of_small_factor
from gladstorm.methods.norms import length
from gladstorm.methods.steps import Untuned
from gladstorm.methods.steps import untuned as per_coordinate
from gladstorm.methods.steps.untuned import UntunedState
from gladstorm.optax.nsgdm import NsgdmState, nsgdm
from gladstorm.optax.options import AxisName, NormOption, UpdateSchedule, at, require, require_axes
from gladstorm.optax.trees import Tree, cast_like, copy, drop_without_gradient, zero_estimate


def untuned(
    horizon: int | Array,
    *,
    learning_rate: float | Array | UpdateSchedule = 1.0,
    weight_decay: float | Array = 0.0,
    layers: NormOption | None = None,
    axis_name: AxisName | None = None,
) -> optax.GradientTransformationExtraArgs:
    """A method with nothing to tune: it finds the length of its updates, and when to shorten them.

    x ← x − m, where m is the mean of recent steps δ = learning_rate · r · horizon^(−0.4 τ) · u/√(dE). u is the gradient
    divided by its usual size, E the sum of u² for each coordinate, r how far the run has come, and τ a clock from 0 to
    about 1. `gladstorm.methods.steps.Untuned` has the equations; docs/evidence/untuned shows how well it works.

    The state is four trees like the parameters, two more than Adam's: x⁰, x̄, E and m. `averaged(state, params)` reads
    x̄, the average of late iterates, for evaluation. It counts the points that this transformation leads to: put it last
    in a chain. Nothing is remembered of a gradient that is not finite: it is counted in `state.skipped`, and the
    parameters go half the way back to x̄.

    Args:
        horizon: The number of updates of the run.
        learning_rate: A factor of δ. 1 is the method; below 0.1 you get a warning, as for a learning rate of Adam.
        weight_decay: λ ≥ 0; an update multiplies x by 1 − λ‖δ‖/√d, where ‖δ‖/√d is about how far a coordinate moves: so
            λ means what it means in adamw. `update` takes the parameters in any case.
        layers: For networks: the norm of each layer, `by_layer` or another of `nsgdm`'s. This is `nsgdm` with momentum
            0.9 and one length for all networks, which falls linearly: L = 0.02 · learning_rate · max{1 − k/horizon,
            1/(k + 1)}. Its state is one tree, and there is no average. λ is then that of `nsgdm`.
        axis_name: As in `nsgdm`.

    >>> from gladstorm.optax import averaged
    >>> optimizer = untuned(horizon=200)
    >>> params = jnp.array([3.0, 4.0])
    >>> state = optimizer.init(params)
    >>> for _ in range(200):
    ...     updates, state = optimizer.update(2 * params, state, params)
    ...     params = optax.apply_updates(params, updates)
    >>> bool(jnp.linalg.norm(averaged(state, params)) < 0.01)
    True
    """
    for name, value in (("horizon", horizon), ("learning_rate", learning_rate), ("weight_decay", weight_decay)):
        require("untuned", name, value)
    if isinstance(learning_rate, int | float):
        warn_of_small_factor("untuned", "learning_rate", learning_rate)
    if layers is not None:

        def length_of_step(k: Array) -> Any:
            return at(learning_rate, k) * equations.layer_length(k.astype(jnp.result_type(float)), horizon, jnp)

        return nsgdm(
            length_of_step, equations.LAYER_MOMENTUM, weight_decay=weight_decay, norm=layers, axis_name=axis_name
        )
    decays = not isinstance(weight_decay, int | float) or weight_decay > 0

    class Decayed(Untuned):
        axes = axis_name

        @override
        def _decayed(self, x: Any, step: Any) -> Any:
            typical = length(step, axis_name) / jnp.sqrt(self._dimension(x))
            return jax.tree.map(lambda x: x * (1 - weight_decay * typical), x) if decays else x

    def move(state: UntunedState, x: Tree, v: Tree) -> tuple[Tree, UntunedState]:
        require_axes("untuned", axis_name, x)
        return Decayed(at(learning_rate, state.k.astype(jnp.int32)), horizon).move(state, x, v, per_coordinate.no_value)

    return _transformation("untuned", Decayed().init, move)


def untuned_per_coordinate(horizon: int | Array) -> optax.GradientTransformationExtraArgs:
    """`untuned` for every number by itself, each with its own length and clock: for coordinates of different scales.

    This is what variational inference needs, where the location of a coordinate may have to move by thousands and its
    log scale by one. For networks `untuned` is better. `averaged(state, params)` reads the average here too.

    Args:
        horizon: The number of updates of the run.

    >>> optimizer = untuned_per_coordinate(horizon=300)
    >>> params = jnp.array([3.0, 4000.0])
    >>> state = optimizer.init(params)
    >>> for _ in range(300):
    ...     updates, state = optimizer.update(params * jnp.array([1.0, 1e-6]), state, params)
    ...     params = optax.apply_updates(params, updates)
    >>> bool(jnp.abs(averaged(state, params) / jnp.array([3.0, 4000.0])).max() < 0.01)
    True
    """
    require("untuned_per_coordinate", "horizon", horizon)

    return _transformation("untuned_per_coordinate", per_coordinate.begin, partial(per_coordinate.move, horizon))


def _transformation(
    owner: str,
    begin: Callable[[Tree], UntunedState],
    move: Callable[[UntunedState, Tree, Tree], tuple[Tree, UntunedState]],
) -> optax.GradientTransformationExtraArgs:
    """The transformation of a step, whose state is in float32 at least."""

    def init(params: Tree) -> UntunedState:
        start = jax.tree.map(copy, params)
        begun = begin(cast_like(start, zero_estimate(params)))._replace(start=start)
        return UntunedState(*jax.tree.map(copy, tuple(begun)))  # copies: a state may be donated

    def update(updates: Tree, state: UntunedState, params: Tree = None, **_: Any) -> tuple[Tree, UntunedState]:
        if params is None:
            raise ValueError(f"{owner}: params must be given to update; got params=None.")
        params = drop_without_gradient(params, updates)
        x, v = cast_like(params, state.motion), cast_like(updates, state.motion)
        after, new_state = move(state, x, v)
        return cast_like(jax.tree.map(jnp.subtract, after, x), params), cast_like(new_state, state)

    return optax.GradientTransformationExtraArgs(init, update)


def averaged(state: Any, params: Tree) -> Tree:
    """The average x̄ of late iterates; parameters that no `untuned` leads, or one by layer, stay as they are.

    Args:
        state: That of `untuned` or `untuned_per_coordinate`, or of a chain or any transformation around them:
            `optax.masked`, `optax.multi_transform`, `optax.flatten` too. Of a flax model
            `nnx.as_pure(optimizer.opt_state)`.
        params: The parameters, whose dtypes the average takes. A whole equinox model will do; of a flax model
            `nnx.as_pure(nnx.state(model, nnx.Param))`.
    """
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, UntunedState | NsgdmState))
    averages = [_like(params, node.average) for node in nodes if isinstance(node, UntunedState)]
    if not averages and not any(isinstance(node, NsgdmState) for node in nodes):  # by layer it is an nsgdm
        raise ValueError("averaged: state must be of untuned, or of a transformation around it; got another.")

    def latest(leaf: Any, *candidates: Any) -> Any:
        own = [array for array in candidates if array is not None and not isinstance(array, optax.MaskedNode)]
        return jnp.asarray(own[0], jnp.result_type(leaf)) if own else leaf

    try:
        return jax.tree.map(latest, params, *averages)
    except (ValueError, TypeError):
        raise ValueError(
            "averaged: params must be a tree of arrays like the one that init of the transformation got; got another. "
            "Of a flax model, give nnx.as_pure(optimizer.opt_state) and nnx.as_pure(nnx.state(model, nnx.Param))."
        ) from None


def _like(params: Tree, average: Tree) -> Tree:
    """The average as a tree like the parameters where `optax.flatten` has made one vector of it."""
    if not isinstance(average, jax.Array):
        return average
    leaves, structure = jax.tree.flatten(params)
    sizes = [jnp.size(leaf) for leaf in leaves]
    if average.shape != (sum(sizes),):
        return average
    parts = jnp.split(average, list(accumulate(sizes))[:-1])
    return jax.tree.unflatten(structure, [part.reshape(jnp.shape(x)) for part, x in zip(parts, leaves, strict=True)])
