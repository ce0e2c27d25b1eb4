"""One gradient that is not finite costs every Optax transformation one update, which it counts, as in torch."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from jax.sharding import Mesh, PartitionSpec

import gladstorm.torch
import optax_walks
from gladstorm.optax import averaged, nsgdm, nstorm
from optimizers import OPTAX, OPTAX_FORMS, optax_optimizer
from optimizers import UNTUNED as torch_untuned

LR, DECAY, BAD_AT = 0.05, 0.1, 3
PARAMS = {"a": jnp.array([1.0, -2.0, 0.5]), "b": jnp.array([[3.0], [1.0]])}
SAMPLES = np.random.default_rng(5).normal(size=8).astype(np.float32)
OPTIMIZERS = {
    "nsgdm": nsgdm(LR, 0.7, weight_decay=DECAY),
    "nsgdm, tensor": nsgdm(LR, 0.7, weight_decay=DECAY, norm="tensor"),
    "nstorm": nstorm(LR, 0.7, weight_decay=DECAY),
    "nstorm, tensor": nstorm(LR, 0.7, weight_decay=DECAY, norm="tensor"),
    "nstorm, clipped": nstorm(LR, 0.7, max_grad_norm=2.0),
}
ALL = pytest.mark.parametrize("name", OPTIMIZERS)


def gradient(params: Any, sample: Any) -> Any:
    """Of a sample (s, bad): bad is added to one entry, so that 0 is no harm and NaN or ∞ is."""
    s, bad = sample
    grads = optax_walks.gradient(params, s)
    return grads | {"a": grads["a"].at[1].add(bad)}


at_once = jax.jit(gradient)


def samples(count: int, bad: float = 0.0, at: int = -1) -> list[tuple[float, float]]:
    return [(float(s), bad if k == at else 0.0) for k, s in enumerate(SAMPLES[:count])]


def walk(optimizer: Any, given: Sequence[Any], params: Any = PARAMS, jit: bool = True) -> tuple[list[Any], list[Any]]:
    return optax_walks.walk(optimizer, params, given, at=gradient, jit=jit)


assert_close = partial(optax_walks.assert_close, atol=1e-5)


@pytest.mark.parametrize(("bad", "jit"), [(np.nan, True), (-np.inf, True), (np.nan, False)])
@ALL
def test_an_update_that_is_not_finite_moves_nothing_is_counted_and_leaves_a_finite_state(
    name: str, bad: float, jit: bool
) -> None:
    visited, states = walk(OPTIMIZERS[name], samples(6, bad, BAD_AT), jit=jit)
    before, after = visited[BAD_AT - 1], visited[BAD_AT]
    assert before["a"].tolist() == after["a"].tolist()  # not even by weight decay
    assert (before["b"].tolist() == after["b"].tolist()) == ("tensor" not in name)
    assert [int(state.skipped) for state in states] == [0] * BAD_AT + [1] * (6 - BAD_AT)
    assert [int(state.count) for state in states] == [1, 2, 3, 4, 5, 6]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((visited, states)))
    assert all(visited[k]["a"].tolist() != visited[k + 1]["a"].tolist() for k in range(BAD_AT, 5))


@pytest.mark.parametrize("name", ["nsgdm", "nsgdm, tensor", "nstorm", "nstorm, tensor", "nstorm, clipped"])
def test_the_next_gradient_starts_a_new_estimate(name: str) -> None:
    given = samples(7, np.nan, BAD_AT)
    visited, _ = walk(OPTIMIZERS[name], given)
    fresh, _ = walk(OPTIMIZERS[name], given[BAD_AT + 1 :], visited[BAD_AT])
    for one, other in zip(visited[BAD_AT + 1 :], fresh, strict=True):
        assert_close(one["a"], other["a"])
    if "tensor" in name:  # the leaf whose gradients were all finite goes on as if nothing had been
        assert_close([x["b"] for x in visited], [x["b"] for x in walk(OPTIMIZERS[name], samples(7))[0]])
    else:
        assert_close(visited[BAD_AT + 1 :], fresh)


def test_nstorm_also_loses_an_update_whose_gradient_at_the_previous_point_is_not_finite() -> None:
    optimizer = nstorm(LR)
    state = optimizer.init(PARAMS)
    grads = gradient(PARAMS, (0.1, 0.0))
    _, state = optimizer.update(grads, state, PARAMS)
    updates, state = optimizer.update(grads, state, PARAMS, prev_grads=gradient(PARAMS, (0.1, np.nan)))
    assert not any(leaf.any() for leaf in jax.tree.leaves(updates))
    assert int(state.skipped) == 1


def test_one_bad_micro_batch_costs_nstorm_the_update_it_belongs_to_and_n_init_is_not_repeated() -> None:
    optimizer = nstorm(LR, 0.7, every_k=2, n_init=2)
    visited, states = walk(optimizer, samples(8, np.nan, at=4))
    assert [int(state.count) for state in states] == [0, 0, 0, 1, 1, 2, 2, 3]
    assert [int(state.skipped) for state in states] == [0, 0, 0, 0, 0, 1, 1, 1]
    assert_close(visited[5], visited[3], atol=0)
    fresh, _ = walk(nstorm(LR, 0.7, every_k=2), samples(8)[6:], visited[5])
    assert_close(visited[7], fresh[-1])


@pytest.mark.parametrize("name", OPTAX_FORMS)
def test_the_count_is_read_in_any_state_by_its_name(name: str) -> None:
    chain = optax.chain(optax_optimizer(name, LR), optax.scale(0.5))
    _, states = walk(chain, samples(4, np.nan, 2))
    assert [int(optax.tree_utils.tree_get(state, "skipped")) for state in states] == [0, 0, 1, 1]


@pytest.mark.parametrize("name", OPTAX)
def test_what_one_device_finds_not_finite_no_device_follows_and_separate_models_are_separate(name: str) -> None:
    mesh, cut = Mesh(np.array(jax.devices()[:2]), ("d",)), PartitionSpec("d")

    def updates_of(axis_name: Any, grads: Any, params: Any) -> Any:
        optimizer = optax_optimizer(name, LR, axis_name=axis_name)

        def call(state: Any, grads: Any) -> Any:
            updates, state = optimizer.update(grads, state, params, prev_grads=grads)
            return state, updates

        return jax.lax.scan(call, optimizer.init(params), grads)[1]  # which wants states of one type

    grads = jnp.ones((2, 8)).at[1, 7].set(jnp.nan)  # in the part of the second device, at the second update
    for axis_name, still in (("d", [0] * 8), ((), [1] * 4 + [0] * 4)):
        spread = jax.shard_map(
            partial(updates_of, axis_name), mesh=mesh, in_specs=(PartitionSpec(None, "d"), cut), out_specs=cut
        )
        moved = np.asarray(jax.jit(spread)(grads, jnp.arange(1.0, 9.0))).reshape(2, 2, 4).swapaxes(0, 1).reshape(2, 8)
        assert moved[0].all()
        # half the way to an average with ⅞ of it, and to x from 10 γ ahead of where it was
        skipped = {"untuned": 7 / 16, "nigt": 0.1}.get(name, 0.0) * moved[0]
        assert (~np.isclose(moved[1], skipped, rtol=1e-4)).tolist() == [bool(each) for each in still]


# The same in torch


def by_torch(make: Callable[[Any], Any], given: Sequence[Any]) -> tuple[list[Any], list[int], Any]:
    """The parameters and `skipped` after every step, and the optimizer."""
    params = {name: torch.nn.Parameter(torch.from_numpy(np.array(leaf))) for name, leaf in PARAMS.items()}
    optimizer = make(list(params.values()))
    visited, skipped = [], []
    for sample in given:

        def closure(sample: Any = sample) -> float:
            optimizer.zero_grad()
            at = at_once({name: jnp.asarray(p.detach().numpy()) for name, p in params.items()}, sample)
            for name, p in params.items():
                p.grad = torch.from_numpy(np.array(at[name]))
            return 0.0

        optimizer.step(closure)
        visited.append({name: jnp.array(p.detach().numpy()) for name, p in params.items()})
        skipped.append(optimizer.skipped)
    return visited, skipped, optimizer


@pytest.mark.parametrize("norm", ["global", "tensor"])
def test_nsgdm_and_nstorm_skip_and_count_the_steps_that_torch_s_skip_and_count(norm: str) -> None:
    given = samples(8, np.nan, BAD_AT)
    options: dict[str, Any] = {"weight_decay": DECAY, "norm": norm}
    visited, states = walk(nsgdm(LR, 0.7, **options), given)
    theirs, skipped, _ = by_torch(lambda params: gladstorm.torch.NSGDM(params, LR, 0.7, **options), given)
    assert_close(visited, theirs)
    assert [int(state.skipped) for state in states] == skipped
    visited, states = walk(nstorm(LR, 0.7, **options), given)
    theirs, skipped, _ = by_torch(lambda params: gladstorm.torch.NSTORM(params, LR, 0.7, **options), given)
    assert_close(visited[:-1], theirs[1:])  # a step of torch's begins with the move, ours ends with it
    assert [int(state.skipped) for state in states][:-1] == skipped[1:]


@pytest.mark.parametrize("kind", torch_untuned)
def test_an_untuned_optimizer_skips_counts_and_averages_as_torch_s_does_while_the_horizon_goes_on(kind: Any) -> None:
    given = samples(8, np.inf, BAD_AT)
    visited, states = walk(OPTAX[kind.__name__.lower()](8), given)
    theirs, skipped, optimizer = by_torch(lambda params: kind(params, horizon=8), given)
    assert_close(visited, theirs)
    assert [int(state.skipped) for state in states] == skipped
    with optimizer.averaged():
        mean = [p.detach().numpy().copy() for group in optimizer.param_groups for p in group["params"]]
    ours = averaged(states[-1], visited[-1])
    assert_close([ours["a"], ours["b"]], mean)
