"""`untuned` as an Optax transformation obeys Optax's laws; its equations are compared in tests/torch/test_parity.py."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import gladstorm as gs
import gladstorm.torch
from gladstorm.optax import averaged, untuned

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
        params, state = jax.block_until_ready(call(params, state, sample))  # or XLA hangs: see test_optax.py
        visited.append(params)
    return visited, state


def test_a_second_call_does_not_trace_again() -> None:
    optimizer = untuned(12)
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
    visited, state = walk(untuned(12), PARAMS)
    assert jax.tree.map(jnp.result_type, visited[-1]) == jax.tree.map(jnp.result_type, PARAMS)
    assert jax.tree.map(jnp.result_type, averaged(state, visited[-1])) == jax.tree.map(jnp.result_type, PARAMS)
    for tree in (state.average, state.motion, state.squares):
        assert tree["half"].dtype == jnp.float32
    assert state.start["half"].dtype == jnp.bfloat16
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(visited))


def test_a_run_resumed_from_its_saved_state_gives_the_same_bits_and_average() -> None:
    optimizer, params = untuned(12), jnp.array([1.0, -2.0])
    whole, last = walk(optimizer, params)
    half, state = walk(optimizer, params, SAMPLES[:5])
    rest, again = walk(optimizer, half[-1], SAMPLES[5:], jax.tree.map(np.array, state))
    assert [p.tolist() for p in half + rest] == [p.tolist() for p in whole]
    assert averaged(again, rest[-1]).tolist() == averaged(last, whole[-1]).tolist()


def test_the_average_is_found_in_any_state() -> None:
    chain = optax.chain(optax.clip_by_global_norm(10.0), optax.masked(untuned(12), True))
    params = jnp.array([1.0, -2.0])
    visited, state = walk(chain, params)
    mean = np.array(params, np.float64)
    for k, x in enumerate(visited, start=1):
        mean = mean + 7 / (k + 7) * (np.array(x) - mean)
    np.testing.assert_allclose(averaged(state, visited[-1]), mean, rtol=1e-5)
    with pytest.raises(ValueError, match=r"^averaged: state must be of untuned"):
        averaged(optax.sgd(0.1).init(params), params)


def test_a_schedule_multiplies_the_steps() -> None:
    params = jnp.array([1.0, -2.0])
    twice, _ = walk(untuned(12, learning_rate=2.0), params)
    scheduled, _ = walk(untuned(12, learning_rate=lambda k: jnp.where(k < 6, 2.0, 0.0)), params)
    np.testing.assert_allclose(scheduled[:6], twice[:6], rtol=1e-6)
    assert scheduled[11].tolist() != twice[11].tolist()


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_weight_decay_is_that_of_torch_and_without_it_the_step_is_the_simulator_s(decay: float) -> None:
    x = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = gladstorm.torch.Untuned([x], horizon=12, weight_decay=decay)
    with jax.enable_x64(True):
        step, journey, here = gs.methods.steps.Untuned(steps=12.0), None, jnp.array([1.0, -2.0])
        journey = step.init(here)
        params = here
        ours = untuned(12, weight_decay=decay)
        state = ours.init(params)
        for sample in np.asarray(SAMPLES, np.float64):
            updates, state = ours.update(gradient(params, sample), state, params)
            params = optax.apply_updates(params, updates)
            x.grad = torch.from_numpy(np.array(gradient(jnp.asarray(x.detach().numpy()), sample)))
            optimizer.step()
            np.testing.assert_allclose(params, x.detach().numpy(), rtol=0, atol=1e-14)
            here, journey = step.move(journey, here, gradient(here, sample), jnp.sum)
            assert (params.tolist() == here.tolist()) == (decay == 0)
    assert np.linalg.norm(params) < np.linalg.norm(here) or decay == 0


def test_init_takes_shapes_for_arrays() -> None:
    shapes = jax.eval_shape(lambda: PARAMS)
    assert jax.tree.map(jax.typeof, untuned(12).init(shapes)) == jax.tree.map(jax.typeof, untuned(12).init(PARAMS))


def test_state_lies_where_the_parameters_lie() -> None:
    sharding = NamedSharding(Mesh(np.array(jax.devices()[:2]), ("d",)), PartitionSpec("d"))
    params = jax.device_put(jnp.arange(8.0), sharding)
    visited, state = walk(untuned(12), params)
    for tree in (untuned(12).init(params), state):
        leaves = [leaf for leaf in jax.tree.leaves(tree) if leaf.shape == params.shape]
        assert len(leaves) == 4
        assert all(leaf.sharding.is_equivalent_to(sharding, 1) for leaf in leaves)
    np.testing.assert_allclose(visited[-1], walk(untuned(12), jnp.arange(8.0))[0][-1], rtol=1e-5)


def test_inside_shard_map_the_lengths_are_those_of_the_whole_if_the_axis_is_named() -> None:
    mesh, cut = Mesh(np.array(jax.devices()[:2]), ("d",)), PartitionSpec("d")

    def after_two(optimizer: Any, params: Any) -> Any:
        state = optimizer.init(params)
        for sample in (0.5, -3.0, 0.1):
            updates, state = optimizer.update(gradient(params, sample), state, params)
            params = optax.apply_updates(params, updates)
        return params

    start = jnp.arange(1.0, 9.0)
    spread = jax.shard_map(partial(after_two, untuned(12, axis_name="d")), mesh=mesh, in_specs=cut, out_specs=cut)
    np.testing.assert_allclose(jax.jit(spread)(start), after_two(untuned(12), start), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"horizon": 0}, "horizon must be a whole number ≥ 1; got horizon=0"),
        ({"learning_rate": -1.0}, "learning_rate must be a schedule or a number"),
        ({"weight_decay": -1.0}, "weight_decay must be a number, finite and ≥ 0"),
    ],
)
def test_a_wrong_number_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^untuned: {sentence}"):
        untuned(**{"horizon": 12, **options})
    with pytest.raises(ValueError, match=r"^untuned: params must be given to update; got params=None\."):
        untuned(12).update(jnp.ones(2), untuned(12).init(jnp.ones(2)))
