"""`steered` as an Optax transformation obeys Optax's laws; its equations are compared in tests/torch/test_parity.py."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gladstorm.optax import SteeredState, averaged, steered

PARAMS = {"real": jnp.arange(6.0).reshape(2, 3), "complex": jnp.array([1 + 2j, -3j]), "half": jnp.ones(3, jnp.bfloat16)}
SAMPLES = jnp.asarray(np.random.default_rng(0).normal(size=12), jnp.float32)


def gradient(params: Any, sample: Any) -> Any:
    return jax.tree.map(lambda p: (p * (1 + sample) + jnp.sin(3 * p) + sample).astype(p.dtype), params)


def walk(optimizer: Any, params: Any, samples: Any = SAMPLES, state: Any = None) -> tuple[list[Any], Any]:
    """The parameters after every call, and the last state."""
    visited, state = [], optimizer.init(params) if state is None else state

    @partial(jax.jit, donate_argnums=(1,))
    def call(params: Any, state: Any, sample: Any) -> Any:
        updates, state = optimizer.update(gradient(params, sample), state, params)
        return optax.apply_updates(params, updates), state

    for sample in samples:
        params, state = call(params, state, sample)
        visited.append(params)
    return visited, state


def test_a_second_call_does_not_trace_again() -> None:
    optimizer = steered(12)
    traces: list[None] = []

    @jax.jit
    def call(params: Any, state: Any) -> Any:
        traces.append(None)
        updates, state = optimizer.update(gradient(params, 1.0), state, params)
        return optax.apply_updates(params, updates), state

    params, state = PARAMS, optimizer.init(PARAMS)
    for _ in range(3):
        params, state = call(params, state)
    assert len(traces) == 1


def test_dtypes_and_structure_are_kept_and_the_state_has_single_precision_at_least() -> None:
    visited, state = walk(steered(12, average=True), PARAMS)
    assert jax.tree.map(jnp.result_type, visited[-1]) == jax.tree.map(jnp.result_type, PARAMS)
    assert jax.tree.map(jnp.result_type, averaged(state, visited[-1])) == jax.tree.map(jnp.result_type, PARAMS)
    for tree in (state.average, state.course.m):
        assert tree["half"].dtype == jnp.float32
    assert state.course.start["half"].dtype == jnp.bfloat16
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(visited))


def test_complex_parameters_move_as_their_real_and_imaginary_parts() -> None:
    optimizer = steered()
    given = np.random.default_rng(1).normal(size=(20, 2, 2)) @ [[1.0], [1.0j]]
    z: Any = jnp.array([1.0 + 2j, -1j])
    xy: Any = jnp.stack([z.real, z.imag])
    states = optimizer.init(z), optimizer.init(xy)
    for g in jnp.asarray(given[..., 0], jnp.complex64):
        moved, first = optimizer.update(g, states[0], z)
        pair, second = optimizer.update(jnp.stack([g.real, g.imag]), states[1], xy)
        z, xy, states = z + moved, xy + pair, (first, second)
    np.testing.assert_allclose(jnp.stack([z.real, z.imag]), xy, rtol=1e-4)


def test_a_run_resumed_from_its_saved_state_gives_the_same_bits_and_average() -> None:
    optimizer, params = steered(12, average=True), jnp.array([1.0, -2.0])
    whole, last = walk(optimizer, params)
    half, state = walk(optimizer, params, SAMPLES[:5])
    rest, again = walk(optimizer, half[-1], SAMPLES[5:], jax.tree.map(np.array, state))
    assert [p.tolist() for p in half + rest] == [p.tolist() for p in whole]
    assert averaged(again, rest[-1]).tolist() == averaged(last, whole[-1]).tolist()


def test_the_average_is_found_in_any_state_and_counts_what_was_really_visited() -> None:
    chain = optax.chain(optax.clip_by_global_norm(10.0), optax.masked(steered(average=True), True), optax.scale(0.5))
    params = jnp.array([1.0, -2.0])
    visited, state = walk(chain, params)
    mean = np.array(params, np.float64)
    for k, x in enumerate(visited, start=1):
        mean = mean + 5 / (k + 5) * (np.array(x) - mean)
    np.testing.assert_allclose(averaged(state, visited[-1]), mean, rtol=1e-5)
    with pytest.raises(ValueError, match=r"^averaged: state must hold a SteeredState"):
        averaged(optax.sgd(0.1).init(params), params)


def test_without_an_average_there_is_one_tree_less_and_the_same_steps() -> None:
    params = jnp.array([1.0, -2.0])
    visited, state = walk(steered(12), params)
    assert [x.tolist() for x in visited] == [x.tolist() for x in walk(steered(12, average=True), params)[0]]
    assert len([leaf for leaf in jax.tree.leaves(state) if leaf.shape == params.shape]) == 2
    with pytest.raises(ValueError, match=r"^averaged: state must be of steered\(average=True\)"):
        averaged(state, visited[-1])


def test_a_gradient_that_is_not_finite_moves_nothing_and_is_not_remembered() -> None:
    optimizer, params = steered(), jnp.array([1.0, -2.0])
    _, state = walk(optimizer, params, SAMPLES[:3])
    updates, later = optimizer.update(jnp.array([jnp.nan, 1.0]), state, params)
    assert updates.tolist() == [0, 0]
    assert jax.tree.map(np.ndarray.tolist, jax.tree.map(np.array, later.course)) == jax.tree.map(
        np.ndarray.tolist, jax.tree.map(np.array, state.course)
    )


def test_past_the_horizon_nothing_moves_and_a_schedule_multiplies() -> None:
    visited, _ = walk(steered(5), jnp.array([1.0, -2.0]), SAMPLES[:7])
    assert visited[4].tolist() == visited[6].tolist()
    assert visited[4].tolist() != visited[3].tolist()
    scheduled, _ = walk(steered(learning_rate=lambda k: 1 - k / 5), jnp.array([1.0, -2.0]), SAMPLES[:5])
    np.testing.assert_allclose(scheduled, visited[:5], rtol=1e-6)


def test_init_takes_shapes_for_arrays() -> None:
    shapes = jax.eval_shape(lambda: PARAMS)
    assert jax.tree.map(jax.typeof, steered().init(shapes)) == jax.tree.map(jax.typeof, steered().init(PARAMS))


def test_state_lies_where_the_parameters_lie() -> None:
    sharding = NamedSharding(Mesh(np.array(jax.devices()[:2]), ("d",)), PartitionSpec("d"))
    params = jax.device_put(jnp.arange(8.0), sharding)
    visited, state = walk(steered(12, average=True), params)
    assert isinstance(state, SteeredState)
    for tree in (steered(average=True).init(params), state):
        leaves = [leaf for leaf in jax.tree.leaves(tree) if leaf.shape == params.shape]
        assert len(leaves) == 3
        assert all(leaf.sharding.is_equivalent_to(sharding, 1) for leaf in leaves)
    np.testing.assert_allclose(visited[-1], walk(steered(12), jnp.arange(8.0))[0][-1], rtol=1e-5)


def test_inside_shard_map_the_lengths_are_those_of_the_whole_if_the_axis_is_named() -> None:
    mesh, cut = Mesh(np.array(jax.devices()[:2]), ("d",)), PartitionSpec("d")

    def after_two(optimizer: Any, params: Any) -> Any:
        state = optimizer.init(params)
        for sample in (0.5, -3.0, 0.1):
            updates, state = optimizer.update(gradient(params, sample), state, params)
            params = optax.apply_updates(params, updates)
        return params

    start = jnp.arange(1.0, 9.0)
    spread = jax.shard_map(partial(after_two, steered(axis_name="d")), mesh=mesh, in_specs=cut, out_specs=cut)
    np.testing.assert_allclose(jax.jit(spread)(start), after_two(steered(), start), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"horizon": 0}, "horizon must be a whole number ≥ 1; got horizon=0"),
        ({"learning_rate": -1.0}, "learning_rate must be a schedule or a number"),
    ],
)
def test_a_wrong_number_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^steered: {sentence}"):
        steered(**options)
    with pytest.raises(ValueError, match=r"^steered: params must be given to update; got params=None\."):
        steered().update(jnp.ones(2), steered().init(jnp.ones(2)))
