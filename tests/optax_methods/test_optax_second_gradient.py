"""The Optax transformations among others: chains, masks, clipping, devices, decay, and models with functions."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, PartitionSpec

from gladstorm.optax import nsgdm, nstorm
from optax_walks import assert_close, length
from optimizers import OPTAX, optax_optimizer

LR = 0.1
BOTH = pytest.mark.parametrize("factory", [nsgdm, nstorm], ids=["nsgdm", "nstorm"])
PARAMS = {"a": jnp.array([3.0, -4.0]), "b": jnp.array([1.0])}
SAMPLES = (0.3, -0.1, 0.6, 0.2)


def gradient(params: Any, sample: Any) -> Any:
    """Coupled: each entry's gradient depends on all of them."""
    total = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(params))
    return jax.tree.map(lambda p: p * (1 + sample) + 0.1 * total + sample, params)


def trained(optimizer: Any, params: Any = PARAMS) -> Any:
    """Parameters after four updates with both gradients."""
    state, previous = optimizer.init(params), params
    for sample in SAMPLES:
        updates, state = optimizer.update(
            gradient(params, sample), state, params, prev_grads=gradient(previous, sample)
        )
        previous, params = params, optax.apply_updates(params, updates)
    return params


# Clipping


def test_gradients_changed_before_nstorm_or_of_another_sample_are_refused_or_under_jit_become_nan() -> None:
    alone, honest = nstorm(LR), gradient(PARAMS, 0.1)
    for optimizer, grads in (
        (alone, jax.tree.map(lambda g: g / 5, honest)),
        (alone, gradient(PARAMS, 0.7)),
        (optax.chain(optax.clip_by_global_norm(1.0), alone), honest),
        (optax.named_chain(("clip", optax.clip(1.0)), ("nstorm", alone)), honest),
    ):
        update = partial(optimizer.update, grad_fn=partial(gradient, sample=0.1))
        with pytest.raises(ValueError, match="nstorm: grads must be what grad_fn returns at params; got others at the"):
            update(grads, optimizer.init(PARAMS), PARAMS)
        updates, _ = jax.jit(update)(grads, optimizer.init(PARAMS), PARAMS)
        assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(updates))
    compiled = jax.jit(partial(alone.update, grad_fn=partial(gradient, sample=0.1)))
    updates, state = compiled(jax.tree.map(lambda g: g * 1.01, honest), alone.init(PARAMS), PARAMS)  # rounding
    assert length(updates) == pytest.approx(LR)
    updates, _ = compiled(gradient(PARAMS, 0.9), state, PARAMS)  # later gradients are of two points: nothing to see
    assert length(updates) == pytest.approx(LR)


def test_multi_steps_around_nstorm_gives_nan_and_no_wrong_step() -> None:
    wrapped, params = optax.MultiSteps(nstorm(LR), 2), PARAMS
    state = wrapped.init(params)
    for sample in SAMPLES[:2]:
        grad_fn = partial(gradient, sample=sample)
        updates, state = wrapped.update(grad_fn(params), state, params, grad_fn=grad_fn)
    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(updates))


def test_max_grad_norm_clips_the_gradients_of_both_points_each_by_its_own_factor() -> None:
    limit, momentum = 5.0, 0.8

    def clipped(params: Any, sample: float) -> np.ndarray:
        g = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient(params, sample))])
        return np.asarray(g * min(1, limit / np.linalg.norm(g)))

    def tree(x: np.ndarray) -> Any:
        return {"a": jnp.asarray(x[:2]), "b": jnp.asarray(x[2:])}

    x = previous = np.array([3.0, -4.0, 1.0])
    v = clipped(tree(x), SAMPLES[0])
    for sample in SAMPLES[1:]:
        previous, x = x, x - LR * v / np.linalg.norm(v)
        v = clipped(tree(x), sample) + momentum * (v - clipped(tree(previous), sample))
    x = x - LR * v / np.linalg.norm(v)
    assert_close(trained(nstorm(LR, momentum, max_grad_norm=limit)), tree(x))
    sizes = [length(gradient(tree(x), sample)) for sample in SAMPLES]
    assert min(sizes) < limit < max(sizes)


# Masks


def test_under_a_mask_nstorm_takes_prev_grads_of_all_parameters_and_moves_its_own() -> None:
    labels = {"a": "ours", "b": "still"}
    both = optax.multi_transform({"ours": nstorm(LR), "still": optax.set_to_zero()}, labels)
    masked = optax.chain(
        optax.masked(nstorm(LR), {"a": True, "b": False}), optax.masked(optax.set_to_zero(), {"a": False, "b": True})
    )
    for optimizer in (both, masked):
        found = trained(optimizer)
        params, previous = PARAMS, PARAMS
        alone = nstorm(LR)
        state = alone.init(PARAMS["a"])
        for sample in SAMPLES:
            now, before = (gradient(at, sample)["a"] for at in (params, previous))
            updates, state = alone.update(now, state, params["a"], prev_grads=before)
            previous, params = params, {**params, "a": params["a"] + updates}
        assert_close(found, params)


@BOTH
def test_multi_transform_gives_each_label_a_norm_of_its_own(factory: Any) -> None:
    optimizer = optax.multi_transform({"x": factory(LR), "y": factory(2 * LR)}, {"a": "x", "b": "y"})
    updates, _ = optimizer.update(gradient(PARAMS, 0.1), optimizer.init(PARAMS), PARAMS)
    assert [length(updates[name]) for name in "ab"] == pytest.approx([LR, 2 * LR])


# Decay, norms, devices


@BOTH
def test_weight_decay_takes_its_part_of_the_parameters_and_never_enters_the_estimate(factory: Any) -> None:
    decayed, plain = factory(LR, weight_decay=0.03), factory(LR)
    grads = gradient(PARAMS, 0.1)
    (updates, state), (bare, same) = (each.update(grads, each.init(PARAMS), PARAMS) for each in (decayed, plain))
    assert_close(updates, jax.tree.map(lambda u, p: u - LR * 0.03 * p, bare, PARAMS))
    assert_close(state.estimate, same.estimate, atol=0)
    scheduled = factory(lambda count: LR, weight_decay=jnp.asarray(0.03))
    assert_close(scheduled.update(grads, scheduled.init(PARAMS), PARAMS)[0], updates)
    with pytest.raises(ValueError, match="params must be given to update"):
        decayed.update(grads, decayed.init(PARAMS))
    with pytest.raises(ValueError, match=r"weight_decay must be a number, finite and ≥ 0; got weight_decay=-1\.0"):
        factory(LR, weight_decay=-1.0)


@BOTH
def test_norm_tensor_gives_each_leaf_the_length_of_the_learning_rate(factory: Any) -> None:
    optimizer = factory(LR, norm="tensor")
    updates, _ = optimizer.update(gradient(PARAMS, 0.1), optimizer.init(PARAMS), PARAMS)
    assert [length(updates[name]) for name in "ab"] == pytest.approx([LR, LR])
    with pytest.raises(ValueError, match=r"norm must be one of global, tensor, .*; got norm='group'\."):
        factory(LR, norm="group")


@BOTH
@pytest.mark.parametrize("size", [1.0, 1e30])
def test_inside_shard_map_the_norm_is_that_of_the_whole_if_the_axis_is_named(factory: Any, size: float) -> None:
    options = {"max_grad_norm": 1.0} if factory is nstorm and size == 1 else {}
    optimizer = factory(LR, axis_name="d", **options)
    mesh, cut = Mesh(np.array(jax.devices()[:2]), ("d",)), PartitionSpec("d")
    grads = jnp.arange(1.0, 9.0) * size

    def step(grads: Any) -> Any:
        params = jnp.zeros_like(grads)
        updates, state = optimizer.update(grads, optimizer.init(params), params, prev_grads=grads)
        return updates, state.estimate

    updates, v = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=cut, out_specs=(cut, cut), check_vma=False))(grads)
    assert_close(updates, -LR * grads / size / np.linalg.norm(grads / size))
    if options:
        assert length(v) == pytest.approx(1.0)


@pytest.mark.parametrize("name", OPTAX)
def test_inside_shard_map_parts_that_nobody_named_are_refused_and_whole_ones_are_not(name: str) -> None:
    mesh, cut, whole = Mesh(np.array(jax.devices()[:2]), ("d",)), PartitionSpec("d"), PartitionSpec()

    def length_of_update(axis_name: Any, *specs: Any) -> float:
        optimizer = OPTAX[name](learning_rate=LR, axis_name=axis_name)

        def step(grads: Any) -> Any:
            params = jax.tree.map(jnp.zeros_like, grads)
            return optimizer.update(grads, optimizer.init(params), params, prev_grads=grads)[0]

        grads = tuple(jnp.arange(1.0, 9.0) for _ in specs)
        return length(jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(specs,), out_specs=specs))(grads))

    assert length_of_update("d", cut) == pytest.approx(length_of_update(None, whole))
    alone = length_of_update((), cut)  # each of two devices makes a step of its own
    assert alone == pytest.approx(2**0.5 * length_of_update("d", cut))
    with pytest.raises(
        ValueError, match=r"axis_name must name the axes .* got None for d\. Where devices train models"
    ):
        length_of_update(None, cut)


# Libraries


@pytest.mark.parametrize(
    "optimizer",
    [
        *(optax.adamw(LR), nsgdm(LR, norm="tensor")),
        *(optax_optimizer(name, LR, average=True, weight_decay=0.01) for name in OPTAX),
    ],
    ids=["adamw", "nsgdm, tensor", *OPTAX],
)
def test_a_whole_model_whose_functions_have_no_gradient_is_as_good_as_its_arrays(optimizer: Any) -> None:
    """As `eqx.filter_grad` and `eqx.filter` make them: grads and states have None where params have no array."""
    others = {"activation": jnp.tanh, "size": 3, "table": np.arange(3), "deeper": {"name": "mlp"}}
    nothing = {"activation": None, "size": None, "table": None, "deeper": None}
    params = PARAMS | nothing
    state = whole_state = optax.with_extra_args_support(optimizer).init(params)
    for sample in SAMPLES:
        grads = gradient(PARAMS, sample) | nothing
        update = partial(optax.with_extra_args_support(optimizer).update, grads, prev_grads=grads)
        updates, state = update(state, params)
        same, whole_state = update(whole_state, params | others)
        assert str(jax.tree.structure((same, whole_state))) == str(jax.tree.structure((updates, state)))
        assert_close((same, whole_state), (updates, state), atol=0)
        params = optax.apply_updates(params, updates)
    assert length(updates) > 0
