"""Batches that grow in JAX: torch's decisions and parameters, what the training keeps, nothing compiled again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from jax.sharding import PartitionSpec

import gladstorm.torch
from gladstorm.core.batch_control import FEWEST_LOOKS
from gladstorm.optax import AutoBatchState, auto_batch, nsgdm, read_batch

MICRO, BUDGET = 2, 3200
CALLS = BUDGET // MICRO
KINDS: dict[str, tuple[Callable[..., Any], dict[str, Any], Callable[..., Any]]] = {
    "SGD": (optax.sgd, {"learning_rate": 0.005, "momentum": 0.9}, torch.optim.SGD),
    "AdamW": (optax.adamw, {"learning_rate": 0.02, "weight_decay": 0.1}, torch.optim.AdamW),
    "NSGDM": (nsgdm, {"learning_rate": 0.02, "weight_decay": 0.1}, gladstorm.torch.NSGDM),
}
ALL = pytest.mark.parametrize("kind", KINDS)
START = {"a": [1.0, 2.0, 3.0], "b": [[1.0, -1.0]]}


def gradients(dtype: Any = jnp.float32, scale: float = 1.0) -> Any:
    """Of a slope in noise: steps agree, whatever the noise."""
    noise = np.random.default_rng(0).normal(size=(CALLS, 5))
    rows = scale * (1 + 7 * noise)
    return {"a": jnp.asarray(rows[:, :3], dtype), "b": jnp.asarray(rows[:, 3:].reshape(-1, 1, 2), dtype)}


def made(kind: str, **options: Any) -> Any:
    optimizer, arguments, _ = KINDS[kind]
    return auto_batch(optimizer, **{"budget": BUDGET, "micro": MICRO, **arguments, **options})


def walk(optimizer: Any, given: Any, params: Any = None, state: Any = None) -> tuple[Any, Any, list[int]]:
    """The parameters, the state, and m after every step of a scanned training."""
    params = {name: jnp.asarray(x, given["a"].dtype) for name, x in START.items()} if params is None else params
    state = optimizer.init(params) if state is None else state

    def call(carry: Any, grads: Any) -> Any:
        params, state = carry
        updates, after = optimizer.update(grads, state, params)
        made = (after.steps > state.steps) * after.control.factor if isinstance(after, AutoBatchState) else ()
        return (optax.apply_updates(params, updates), after), made

    (params, state), made = jax.jit(partial(jax.lax.scan, call))((params, state), given)
    return params, state, [m for m in np.asarray(made).tolist() if m]


@ALL
def test_decisions_and_parameters_are_those_of_torch(kind: str) -> None:
    _, arguments, torch_optimizer = KINDS[kind]
    names = {"learning_rate": "lr"}
    scheduled = {**arguments, "learning_rate": lambda k: arguments["learning_rate"] * (1 - k * 4 / BUDGET)}
    with jax.enable_x64(True):
        given = gradients(jnp.float64)
        params, state, factors = walk(made(kind, **scheduled), given)
        read = read_batch(state)
    model = {name: torch.nn.Parameter(torch.tensor(x, dtype=torch.float64)) for name, x in START.items()}
    momentum = {} if kind == "AdamW" else {"momentum": 0.9}
    options = {names.get(name, name): value for name, value in arguments.items()}
    optimizer = torch_optimizer(list(model.values()), **{**momentum, **options})
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1 - k * 4 / BUDGET)
    taken: list[dict[str, Any]] = []
    auto = gladstorm.torch.AutoBatch(optimizer, budget=BUDGET, micro=MICRO, on_reading=taken.append)
    for k in range(CALLS):
        slopes = (torch.tensor(np.asarray(given[name][k])) for name in model)
        loss = torch.stack([(p * slope).sum() for p, slope in zip(model.values(), slopes, strict=True)]).sum()
        (loss * auto.share).backward()
        if auto.due():
            auto.step(schedule)
    assert factors == [each["batch/size"] // (2 * MICRO) for each in taken]
    assert max(factors) >= 4
    assert read.pop("batch/reason") == taken[-1].pop("batch/reason")
    assert read == pytest.approx(taken[-1], rel=1e-9)
    for name, p in model.items():
        np.testing.assert_allclose(params[name], p.detach().numpy(), rtol=1e-9)


@ALL
@pytest.mark.parametrize("scheduled", [False, True])
def test_while_nothing_grows_the_training_has_the_bits_of_multi_steps(kind: str, scheduled: bool) -> None:
    optimizer, arguments, _ = KINDS[kind]
    if scheduled:
        arguments = {**arguments, "learning_rate": lambda k: 0.02 / (k + 1)}
    given = gradients()
    plain, _, _ = walk(optax.MultiSteps(optimizer(**arguments), 2), given)
    for options in ({"largest": 1}, {"dry_run": True}):
        params, state, factors = walk(auto_batch(optimizer, budget=BUDGET, micro=MICRO, **arguments, **options), given)
        assert jax.tree.map(jnp.array_equal, params, plain) == dict.fromkeys(START, True)
        assert (state.steps, state.control.progress) == (CALLS // 2, CALLS // 2)
    assert max(factors) > 1  # the dry run says what it would have done


@ALL
def test_in_noise_batches_grow_every_sample_is_counted_and_nothing_is_compiled_again(kind: str) -> None:
    optimizer, given, traces = made(kind), gradients(), []
    params = {name: jnp.asarray(x) for name, x in START.items()}

    @jax.jit
    def call(params: Any, state: Any, grads: Any) -> Any:
        traces.append(1)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    state, seen, sizes = optimizer.init(params), 0, []
    for k in range(CALLS):
        before = params
        params, state = call(params, state, jax.tree.map(lambda rows, k=k: rows[k], given))
        seen += 1
        moved = any(not np.array_equal(params[name], before[name]) for name in START)
        assert moved == (state.micro == 0)
        if moved:
            sizes.append(seen * MICRO)
            seen = 0
    read = read_batch(state)
    assert sizes[:FEWEST_LOOKS] == [2 * MICRO] * FEWEST_LOOKS
    assert max(sizes) >= 4 * MICRO
    assert sum(sizes) == int(state.control.progress) * 2 * MICRO  # what is left is less than a step
    assert read["batch/steps_saved"] == sum(sizes) // (2 * MICRO) - len(sizes) > 0
    assert len(traces) == 1


@ALL
def test_a_training_goes_on_to_the_bit_from_its_state(kind: str) -> None:
    given = gradients()
    whole, end, factors = walk(made(kind), given)
    assert max(factors) > 1
    cut = CALLS // 2 + 1  # inside a step
    half, middle, _ = walk(made(kind), jax.tree.map(lambda rows: rows[:cut], given))
    assert middle.micro > 0
    assert middle.control.factor > 1
    kept = jax.tree.map(np.array, middle)
    rest, after, _ = walk(made(kind), jax.tree.map(lambda rows: rows[cut:], given), half, kept)
    for one, other in zip(jax.tree.leaves((rest, after)), jax.tree.leaves((whole, end)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_unit_of_a_loss_decides_nothing_and_what_comes_before_the_optimizer_sees_mean_gradients() -> None:
    _, _, factors = walk(made("NSGDM"), gradients())
    for scale in (1e-5, 1e5):
        assert walk(made("NSGDM"), gradients(scale=scale))[2] == factors
    clipped, _, same = walk(made("NSGDM", before=optax.clip_by_global_norm(1e-3)), gradients())
    assert same == factors
    assert not np.array_equal(clipped["a"], walk(made("NSGDM"), gradients())[0]["a"])


def test_half_precision_shapes_and_a_gradient_that_is_not_finite() -> None:
    given = gradients(jnp.bfloat16)
    params, _, factors = walk(made("AdamW"), given)
    assert params["a"].dtype == jnp.bfloat16
    assert max(factors) > 1
    optimizer, x = made("SGD"), jnp.ones(2)
    state = optimizer.init(x)
    assert jax.tree.map(jnp.shape, jax.eval_shape(optimizer.init, x)) == jax.tree.map(jnp.shape, state)
    for grads in (x, jnp.nan * x):
        _, state = optimizer.update(grads, state, x)
    assert (state.steps, state.control.looks, bool(state.followed)) == (1, 0, False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"optimizer": optax.adagrad}, "optimizer must be optax.sgd, .*, the function; got adagrad, for which there"),
        ({"optimizer": optax.sgd(0.1)}, "optimizer must be .*; got GradientTransformation"),
        ({"optimizer": nsgdm, "momentum": lambda k: 0.9}, "momentum must be a number; got a schedule"),
        ({"micro": 0}, "micro must be a whole number ≥ 1; got micro=0"),
        ({"accumulate": 1}, "accumulate must be at least 2, .* got accumulate=1. Halve"),
        ({"largest": 6}, "largest must be a power of two; got largest=6"),
        ({"pace": "fast"}, "pace must be 'safe' for SGD"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], words: str) -> None:
    given = {"optimizer": optax.sgd, "budget": BUDGET, "micro": MICRO, "learning_rate": 0.1, **options}
    with pytest.raises(ValueError, match=f"^auto_batch: {words}"):
        auto_batch(given.pop("optimizer"), **given)


def test_parts_of_gradients_and_other_states_are_refused() -> None:
    optimizer, x = made("SGD"), jnp.ones(2)
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec("d")
    with pytest.raises(ValueError, match=r"^auto_batch: gradients must be the same .* got some along d\."):
        jax.shard_map(
            lambda g, x: optimizer.update(g, optimizer.init(x), x)[0], mesh=mesh, in_specs=spec, out_specs=spec
        )(x, x)
    with pytest.raises(ValueError, match=r"^read_batch: state must be of auto_batch"):
        read_batch(optax.sgd(0.1).init(x))
