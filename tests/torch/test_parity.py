"""One recursion, four times: torch, Optax, the simulator and NumPy by hand visit the same points on the same noise."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

import gladstorm as gs
import gladstorm.optax
from optimizers import OPTAX, TORCH, optax_optimizer
from optimizers import UNTUNED as UNTUNED_KINDS
from unrolled import Batch, noise, unrolled
from unrolled_family import LaggedMars, Transported
from unrolled_parameter_free import Untuned
from whole_step import begun, whole_step

STEPS, SEED, N_INIT = 200, 11, 7
B, G, GAMMA, ETA = 0.6, 0.9, 0.03, 0.15
OBJECTIVE = gs.objectives.named("double-well", dim=5, start=1.0)
METHODS = {
    "nsgdm": gs.nsgdm(GAMMA, ETA),
    "nstorm": gs.nstorm(GAMMA, ETA, n_init=N_INIT),
    "untuned": gs.untuned(),
    "nmars": gs.methods.nmars(GAMMA, ETA, scale=0.4),
    "nigt": gs.methods.nigt(GAMMA, ETA),
}  # in the simulator, by the names that Optax has for them and, in capitals or not, torch
RECURSIONS: dict[str, Callable[[], Any]] = {
    "nmars": lambda: LaggedMars(1 - ETA, 0.4, np.inf),
    "nigt": lambda: Transported(1 - ETA),
}
UNTUNED = [kind.__name__.lower() for kind in UNTUNED_KINDS]
START = np.asarray(OBJECTIVE.start)
CUT = 2  # the libraries hold x as two tensors, so that the norm over both is put to the test

Vector = np.ndarray
AVERAGES: dict[tuple[str, str], Vector] = {}  # of the iterates of untuned methods, as the two libraries report them


def exact(x: Vector) -> Vector:
    with jax.enable_x64(True):
        return np.asarray(OBJECTIVE.grad(x))


def size(name: str, k: int) -> int:
    return N_INIT if name == "nstorm" and k == 0 else 1


@cache
def sample(name: str, k: int) -> Batch:
    """ξ^k, which can be evaluated anywhere."""
    return Batch(noise(SEED, k, START.size), size(name, k), exact, START, B, G)


def by_hand(name: str) -> list[Vector]:
    def batch_size(k: int, distance2: float) -> int:
        return size(name, k)

    visited: list[Vector] = [START]
    if name in UNTUNED:
        step = Untuned(STEPS)
        for k in range(STEPS):
            visited.append(step(k, visited[-1], sample(name, k)(visited[-1])))
        return visited
    if name in RECURSIONS:
        v: Any = RECURSIONS[name]()
        for k in range(STEPS):
            xi = sample(name, k)
            direction = v.first(xi, START) if k == 0 else v.then(xi, visited[-2], visited[-1])
            visited.append(visited[-1] - GAMMA * direction / np.linalg.norm(direction))
        return visited
    return unrolled(name, exact, START, B, G, STEPS, SEED, gamma=GAMMA, eta=ETA, size=batch_size).x


def by_simulator(name: str) -> list[Vector]:
    oracle, method = gs.BlumGladyshev(OBJECTIVE, B, G), METHODS[name]
    with jax.enable_x64(True):
        state = begun(oracle, method, SEED, STEPS)
        step = jax.jit(whole_step)
        visited = [np.asarray(state.point.x)]
        for k in range(1, STEPS + 1):
            state = step(oracle, method, state, SEED, k, STEPS)
            visited.append(np.asarray(state.point.x))
    return visited


def by_optax(name: str) -> list[Vector]:
    options: dict[str, Any] = {"horizon": STEPS} if name in UNTUNED else {"momentum": 1 - ETA}
    options |= {"scale": 0.4} if name == "nmars" else {}
    optimizer = optax_optimizer(name, GAMMA, **options)

    def grads(params: list[jax.Array], xi: Batch) -> list[jax.Array]:
        return [jnp.asarray(part) for part in np.split(xi(np.concatenate(params)), [CUT])]

    update = jax.jit(optimizer.update)
    with jax.enable_x64(True):
        params = [jnp.asarray(part) for part in np.split(START, [CUT])]
        state = optimizer.init(params)
        visited = [START]
        for k in range(STEPS):
            xi = sample(name, k)
            stale = {"prev_grads": grads(state.previous, xi)} if name == "nstorm" else {}
            updates, state = update(grads(params, xi), state, params, **stale)
            params = optax.apply_updates(params, updates)
            visited.append(np.concatenate(state.iterate if name == "nigt" else params))
        if name in UNTUNED:
            AVERAGES["optax", name] = np.concatenate(gladstorm.optax.averaged(state, params))
    return visited


def by_torch(name: str) -> list[Vector]:
    params = [torch.nn.Parameter(torch.from_numpy(part.copy())) for part in np.split(START, [CUT])]

    def x() -> Vector:
        return np.concatenate([p.detach().numpy() for p in params])

    def closure(k: int) -> Callable[[], float]:
        def evaluate() -> float:
            loss = torch.cat(list(params)) @ torch.from_numpy(sample(name, k)(x()))
            loss.backward()  # its gradient is the sample's
            return loss.item()

        return evaluate

    kind = next(kind for kind in TORCH if kind.__name__.lower() == name)
    untuned = {"horizon": STEPS}
    options = {"lr": GAMMA, "momentum": 1 - ETA} | ({"correction": 0.4} if name == "nmars" else {})
    optimizer = kind(params, **untuned if name in UNTUNED else options)
    if kind.needs_closure:
        optimizer.initialize([closure(0)])
    visited = [START]
    for k in range(STEPS):
        optimizer.zero_grad()
        optimizer.step(closure(k + kind.needs_closure))
        with optimizer.at_iterate() if name == "nigt" else nullcontext():
            visited.append(x())
    if name in UNTUNED:
        with optimizer.averaged():
            AVERAGES["torch", name] = x()
    return visited


ARMS = {"hand": by_hand, "simulator": by_simulator, "optax": by_optax, "torch": by_torch}


@cache
def iterates(arm: str, name: str) -> Vector:
    """x⁰..x^K as rows."""
    rows = np.array(ARMS[arm](name))
    assert rows.dtype == np.float64
    assert rows.shape == (STEPS + 1, START.size)
    return rows


def test_every_optimizer_of_torch_and_optax_is_here() -> None:
    assert {kind.__name__.lower() for kind in TORCH} == set(METHODS)
    assert set(OPTAX) == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("arm", ["simulator", "optax", "torch"])
def test_every_iterate_is_that_of_the_recursion_by_hand(arm: str, name: str) -> None:
    np.testing.assert_allclose(iterates(arm, name), iterates("hand", name), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in UNTUNED])
@pytest.mark.parametrize("arm", ARMS)
def test_every_step_is_as_long_as_the_learning_rate(arm: str, name: str) -> None:
    lengths = np.linalg.norm(np.diff(iterates(arm, name), axis=0), axis=1)
    np.testing.assert_allclose(lengths, GAMMA, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", list(METHODS))
def test_a_run_of_the_simulator_ends_where_its_transitions_lead(name: str) -> None:
    record = gs.run(gs.BlumGladyshev(OBJECTIVE, B, G), METHODS[name], steps=STEPS, seeds=[SEED])
    np.testing.assert_allclose(record.last[0, 0], iterates("simulator", name)[-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", UNTUNED)
@pytest.mark.parametrize("arm", ["optax", "torch"])
def test_the_average_is_the_one_a_run_of_the_simulator_reports(arm: str, name: str) -> None:
    record = gs.run(gs.BlumGladyshev(OBJECTIVE, B, G), METHODS[name], steps=STEPS, seeds=[SEED])
    last = iterates(arm, name)[-1]
    np.testing.assert_allclose(AVERAGES[arm, name], record.reported[0, 0], rtol=0, atol=1e-12)
    assert np.linalg.norm(AVERAGES[arm, name] - last) > 1e-3


def test_another_recursion_would_be_told_apart_by_far() -> None:
    for one, other in combinations(("nsgdm", "nstorm", "nmars", "nigt"), 2):
        assert np.linalg.norm(iterates("hand", one) - iterates("hand", other), axis=1)[2:].min() > 1e-6
