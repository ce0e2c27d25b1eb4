"""Models of flax and equinox: trained as by hand, resumed to the same bits, by layer, and averaged."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gladstorm.optax import averaged, by_layer, nsgdm, nstorm, untuned
from optax_walks import assert_close, mean_of

nnx = pytest.importorskip("flax.nnx")
eqx = pytest.importorskip("equinox")

LR = 0.1
BOTH = pytest.mark.parametrize("factory", [nsgdm, nstorm], ids=["nsgdm", "nstorm"])
INPUTS = jnp.arange(12.0).reshape(4, 3) / 10


def by_hand(optimizer: Any, params: Any, loss: Any, steps: int) -> Any:
    """A plain loop of Optax."""
    state = optimizer.init(params)
    for _ in range(steps):
        updates, state = optimizer.update(jax.grad(loss)(params), state, params, grad_fn=jax.grad(loss))
        params = optax.apply_updates(params, updates)
    return params


def assert_same_bits(tree: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, tree, other)


@BOTH
def test_a_flax_nnx_model_is_trained_as_by_hand_and_resumes_to_the_same_bits(factory: Any) -> None:

    def made() -> Any:
        model = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
        return model, nnx.Optimizer(model, factory(LR), wrt=nnx.Param)

    graph, start, rest = nnx.split(made()[0], nnx.Param, ...)

    def loss(params: Any) -> Any:
        return jnp.mean((nnx.merge(graph, params, rest)(INPUTS) - 1) ** 2)

    def train(model: Any, optimizer: Any, steps: int) -> Any:
        for _ in range(steps):
            params = nnx.state(model, nnx.Param)
            optimizer.update(model, jax.grad(loss)(params), grad_fn=jax.grad(loss))
        return nnx.state(model, nnx.Param)

    model, optimizer = made()
    half = train(model, optimizer, 10)
    saved = jax.tree.map(np.asarray, (half, nnx.state(optimizer)))  # as any checkpoint keeps them
    trained = train(model, optimizer, 10)
    assert loss(trained) < loss(start) / 2
    assert_close(nnx.to_pure_dict(trained), nnx.to_pure_dict(by_hand(factory(LR), start, loss, 20)))

    other, its = made()
    for kept, into in zip(saved, (other, its), strict=True):
        nnx.update(into, jax.tree.map(jnp.asarray, kept))
    assert_same_bits(nnx.to_pure_dict(train(other, its, 10)), nnx.to_pure_dict(trained))


@BOTH
def test_an_equinox_model_is_trained_as_by_hand_and_resumes_to_the_same_bits(factory: Any, tmp_path: Any) -> None:
    optimizer = factory(LR)

    def made() -> Any:
        model = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))
        return model, optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    start, static = eqx.partition(made()[0], eqx.is_inexact_array)

    def loss(params: Any) -> Any:
        return jnp.mean((jax.vmap(eqx.combine(params, static))(INPUTS) - 1) ** 2)

    @eqx.filter_jit  # type: ignore[untyped-decorator]  # equinox has none where it is not installed
    def step(model: Any, state: Any) -> Any:
        params = eqx.filter(model, eqx.is_inexact_array)
        updates, state = optimizer.update(jax.grad(loss)(params), state, model, grad_fn=jax.grad(loss))
        return eqx.apply_updates(model, updates), state

    def train(both: Any, steps: int) -> Any:
        for _ in range(steps):
            both = step(*both)
        return both

    half = train(made(), 10)
    eqx.tree_serialise_leaves(tmp_path / "checkpoint", half)
    trained, state = train(half, 10)
    params = eqx.filter(trained, eqx.is_inexact_array)
    assert loss(params) < loss(start) / 2
    assert_close(params, by_hand(optimizer, start, loss, 20))
    resumed = train(eqx.tree_deserialise_leaves(tmp_path / "checkpoint", made()), 10)
    assert_same_bits(eqx.filter(resumed, eqx.is_array), eqx.filter((trained, state), eqx.is_array))


def test_a_model_of_flax_takes_spectral_steps() -> None:
    linear = nnx.Linear(3, 6, rngs=nnx.Rngs(0))
    before = np.array(linear.kernel[...])
    optimizer = nnx.Optimizer(linear, nsgdm(LR, norm=by_layer), wrt=nnx.Param)
    optimizer.update(linear, nnx.grad(lambda model: jnp.sum(model(jnp.eye(3)) ** 2))(linear))
    size = np.linalg.norm(np.array(linear.kernel[...]) - before, 2) / LR
    assert 0.68 * 2**0.5 < size < 1.21 * 2**0.5  # √(outputs/inputs)
    np.testing.assert_allclose(np.abs(linear.bias[...]), np.where(linear.bias[...] == 0, 0, LR / 4), rtol=1e-5)


def test_a_model_of_equinox_takes_spectral_steps() -> None:
    layer = eqx.nn.Linear(3, 6, key=jax.random.key(0))
    ours = nsgdm(LR, norm=partial(by_layer, inputs_first=False))
    grads = eqx.filter_grad(lambda model: jnp.sum(jax.vmap(model)(jnp.eye(3)) ** 2))(layer)
    updates, _ = ours.update(grads, ours.init(eqx.filter(layer, eqx.is_inexact_array)), layer)
    assert 0.68 * 2**0.5 < np.linalg.norm(updates.weight, 2) / LR < 1.21 * 2**0.5


def test_the_average_of_a_whole_equinox_model_is_a_model() -> None:
    model = eqx.nn.MLP(2, 1, 3, 1, key=jax.random.key(0))  # with functions among its leaves
    optimizer = untuned(5)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    for _ in range(3):
        grads = eqx.filter_grad(lambda model: jnp.sum(jax.vmap(model)(jnp.eye(2)) ** 2))(model)
        updates, state = optimizer.update(grads, state, model)
        model = eqx.apply_updates(model, updates)
    average = averaged(state, model)
    assert average.activation is model.activation
    np.testing.assert_allclose(average.layers[0].weight, state.average.layers[0].weight)
    assert np.isfinite(jax.vmap(average)(jnp.eye(2))).all()


def test_the_average_of_an_nnx_model_is_a_state_of_it() -> None:
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.chain(optax.clip(9.0), untuned(5)), wrt=nnx.Param)
    visited, start = [], np.array(model.kernel[...])
    for _ in range(3):
        optimizer.update(model, nnx.grad(lambda model: jnp.sum(model(jnp.eye(3)) ** 2))(model))
        visited.append(np.array(model.kernel[...]))
    average = averaged(nnx.as_pure(optimizer.opt_state), nnx.as_pure(nnx.state(model, nnx.Param)))
    np.testing.assert_allclose(average["kernel"], mean_of(visited, start), rtol=1e-5)
    nnx.update(model, average)
    np.testing.assert_allclose(model.kernel[...], average["kernel"])
