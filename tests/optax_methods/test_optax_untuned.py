"""`untuned` as an Optax transformation obeys Optax's laws; its equations are compared in tests/torch/test_parity.py."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from jax.sharding import Mesh, PartitionSpec

import gladstorm as gs
import gladstorm.torch
from gladstorm.optax import averaged, by_layer, untuned
from optax_walks import gradient, mean_of, samples, walk

SAMPLES = samples(12)
X = jnp.array([1.0, -2.0])


TREE = {"a": X, "b": jnp.array([3.0])}
LABELS = {"a": "ours", "b": "other"}


FORMS = pytest.mark.parametrize("layers", [None, by_layer], ids=["found", "by layer"])
ONLY_A = {"a": True, "b": False}


@FORMS
@pytest.mark.parametrize(
    ("wrapped", "ours"),
    [
        (lambda one: optax.chain(optax.clip_by_global_norm(10.0), optax.masked(one(), True)), "ab"),
        (lambda one: optax.inject_hyperparams(one, static_args=("layers",))(), "ab"),
        (lambda one: optax.apply_if_finite(one(), 3), "ab"),
        (lambda one: optax.named_chain(("ours", one()), ("same", optax.scale(1.0))), "ab"),
        (lambda one: optax.MultiSteps(one(), 1).gradient_transformation(), "ab"),
        (lambda one: optax.flatten(one()), "ab"),
        (lambda one: optax.conditionally_mask(one(), lambda _: True), "ab"),
        (lambda one: optax.conditionally_transform(one(), lambda _: True), "ab"),
        (lambda one: optax.multi_transform({"ours": one(), "other": one()}, LABELS), "ab"),
        (lambda one: optax.multi_transform({"ours": one(), "other": optax.set_to_zero()}, LABELS), "a"),
        (lambda one: optax.multi_transform({"ours": one(), "other": optax.sgd(0.1)}, LABELS), "a"),
        (lambda one: optax.chain(optax.masked(one(), ONLY_A), optax.scale(1.0)), "a"),
        (lambda one: optax.selective_transform(one(), freeze_mask={"a": False, "b": True}), "a"),
    ],
    ids=[
        *("chain", "injected", "apply_if_finite", "named", "steps", "flat", "sometimes masked", "sometimes"),
        *("two labels", "frozen", "beside SGD", "masked", "selective"),
    ],
)
def test_the_average_is_found_in_any_state_and_is_the_parameter_where_no_untuned_leads(
    wrapped: Any, ours: str, layers: Any
) -> None:
    visited, states = walk(wrapped(partial(untuned, 12, layers=layers)), TREE, SAMPLES)
    average, mean = averaged(states[-1], visited[-1]), mean_of(visited, TREE)
    for name in TREE:
        expected = mean[name] if name in ours and layers is None else visited[-1][name]
        np.testing.assert_allclose(average[name], expected, rtol=1e-5)


def test_the_average_has_the_types_of_the_parameters() -> None:
    params = {"a": X.astype(jnp.bfloat16), "b": TREE["b"]}
    state = untuned(12).init(params)
    assert {name: average.dtype for name, average in averaged(state, params).items()} == {
        name: leaf.dtype for name, leaf in params.items()
    }


def test_a_state_of_something_else_and_another_tree_are_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"^averaged: state must be of untuned"):
        averaged(optax.sgd(0.1).init(X), X)
    for wrong in ({"a": X}, {"a": X, "c": X}, [X, X]):
        with pytest.raises(ValueError, match=r"^averaged: params must be a tree of arrays like the one that init"):
            averaged(untuned(12).init(TREE), wrong)


def test_a_schedule_multiplies_the_steps() -> None:
    twice, _ = walk(untuned(12, learning_rate=2.0), X, SAMPLES)
    scheduled, _ = walk(untuned(12, learning_rate=lambda k: jnp.where(k < 6, 2.0, 0.0)), X, SAMPLES)
    np.testing.assert_allclose(scheduled[:6], twice[:6], rtol=1e-6)
    assert scheduled[11].tolist() != twice[11].tolist()


def test_where_the_gradient_is_zero_nothing_decays() -> None:
    optimizer = untuned(12, weight_decay=0.5)
    visited, states = walk(optimizer, X, SAMPLES[:3])
    assert np.any(states[-1].motion)
    updates, state = optimizer.update(jnp.zeros(2), states[-1], visited[-1])
    assert updates.tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(state.motion, states[-1].motion)


@FORMS
def test_along_zero_nothing_moves_but_the_count_and_one_update_is_a_run(layers: Any) -> None:
    optimizer = untuned(12, layers=layers)
    updates, state = optimizer.update(jax.tree.map(jnp.zeros_like, TREE), optimizer.init(TREE), TREE)
    assert not any(leaf.any() for leaf in jax.tree.leaves(updates))
    assert int(optax.tree_utils.tree_get(state, "count" if layers else "k")) == 1
    (after,), _ = walk(untuned(1, layers=layers), TREE, SAMPLES[:1])
    for x, start in zip(jax.tree.leaves(after), jax.tree.leaves(TREE), strict=True):
        assert jnp.all(jnp.isfinite(x) & (x != start))


@FORMS
def test_the_order_of_leaves_changes_nothing(layers: Any) -> None:
    one, _ = walk(untuned(12, layers=layers), TREE, SAMPLES)
    other, _ = walk(untuned(12, layers=layers), {"c": TREE["a"], "b": TREE["b"]}, SAMPLES)
    np.testing.assert_allclose(other[-1]["c"], one[-1]["a"], rtol=1e-5)
    np.testing.assert_allclose(other[-1]["b"], one[-1]["b"], rtol=1e-5)


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


@FORMS
def test_a_learning_rate_of_adam_is_announced_with_what_it_does(layers: Any) -> None:
    with pytest.warns(UserWarning, match=r"^untuned: learning_rate .* is 1; got learning_rate=0\.001, .* 1,000 times"):
        untuned(12, learning_rate=1e-3, layers=layers)
    untuned(12, learning_rate=0.1, layers=layers)
    untuned(12, learning_rate=lambda k: 1e-3 * k, layers=layers)
