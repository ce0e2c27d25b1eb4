"""Every objective: the gradient is the derivative, the constants hold, the seed decides everything."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.core.constants import Constants
from gladstorm.problems import objectives

SPECS: list[tuple[str, int | None]] = [
    ("power:2.5", 3),
    ("power:3", 1),
    ("power:3", 4),
    ("power:4", 2),
    ("quadratic:0,1,10", 3),
    ("quadratic", 2),
    ("cauchy", 3),
    ("double-well", 1),
    ("double-well", 3),
    ("cosh", 2),
    ("noisy-runway", None),  # its numbers decide
    ("cosh:0.5,3", 1),
    ("phase-retrieval:60", 4),
    ("dro:30", 4),
    ("matrix-sensing:20", 12),
    ("two-layer-network:20", 32),
    ("spectral-log", 9),
    ("spectral-cube:2", 6),
    ("spectral-cosh:3", 6),
    ("streaming-least-squares:0.5,10", 3),
    ("variational-gaussian:full-rank,4", 2),
    ("variational-gaussian:lower-triangular", 3),
    ("variational-gaussian:mean-field,4", 3),
]
LISTED = {spec.partition(":")[0] for spec, _ in SPECS}
SPECS += [(name, 3) for name in objectives.registry() if name not in LISTED]  # a new file is tested without more ado


@pytest.fixture(params=SPECS, ids=lambda spec: f"{spec[0]} d={spec[1]}")
def objective(request: Any) -> Any:
    spec, dim = request.param
    return objectives.named(spec, dim=dim, seed=3)


@jax.jit
def at(objective: Any, points: Any) -> Any:
    """f, its gradient and that of autodiff, at each point: one program where op by op would be twenty."""
    return [jax.vmap(each)(points) for each in (objective.value, objective.grad, jax.grad(objective.value))]


def test_the_gradient_is_the_derivative_of_the_value(objective: Any) -> None:
    points = np.random.default_rng(0).normal(0, 2, (50, objective.start.size))
    with jax.enable_x64(True):
        _, declared, derived = at(objective, points)
        np.testing.assert_allclose(declared, derived, rtol=1e-10, atol=1e-10)


def test_the_declared_constants_hold_at_random_pairs(objective: Any) -> None:
    if (c := objective.constants) is None:
        return
    rng = np.random.default_rng(1)
    dim, pairs = objective.start.size, 400
    x = rng.normal(0, 1, (pairs, dim)) * rng.lognormal(0, 1, (pairs, 1))
    y = x + rng.normal(0, 1, (pairs, dim)) * 10.0 ** rng.uniform(-4, 1, (pairs, 1))
    with jax.enable_x64(True):
        along = np.linspace(0, 1, 65)[:, None, None]
        segments = np.reshape(along * y + (1 - along) * x, (-1, dim))
        values, grads, _ = (np.asarray(each).reshape(65, pairs, -1) for each in at(objective, segments))
    largest = np.linalg.norm(grads, axis=-1).max(axis=0) ** c.alpha
    change, distance = np.linalg.norm(grads[-1] - grads[0], axis=-1), np.linalg.norm(y - x, axis=-1)
    assert np.all(change <= (c.L0 + c.L1 * largest) * distance * (1 + 1e-9) + 1e-12)
    assert np.all(values >= c.f_inf - 1e-12)


@jax.jit
def curved(objective: Any, points: Any) -> Any:
    """The Hessian of autodiff beside each point, where it exists, and the gradient at the point."""
    return jax.vmap(jax.hessian(objective.value))(points + 1e-12), jax.vmap(objective.grad)(points)


@pytest.mark.parametrize(
    ("spec", "dim", "looser"),
    [
        ("power:3", 1, 0.999),
        ("quadratic:0,1,10", 3, 0.8),
        ("cauchy", 1, 0.9),
        ("cosh", 1, 0.9),
        ("double-well", 1, 0.9),
    ],
)
def test_the_constants_are_not_much_larger_than_needed(spec: str, dim: int, looser: float) -> None:
    objective = objectives.named(spec, dim=dim)
    c = objective.constants
    x = np.concatenate([np.linspace(-4, 4, 2001)[:, None] * np.eye(dim)[i] for i in range(dim)])
    with jax.enable_x64(True):
        hessians, grads = map(np.asarray, curved(objective, x))
    curvatures, norms = np.linalg.norm(hessians, 2, axis=(1, 2)), np.linalg.norm(grads, axis=1)
    assert np.max(curvatures / (c.L0 + c.L1 * norms**c.alpha + 1e-300)) >= looser


def test_the_paper_s_phase_retrieval_has_the_paper_s_sizes_and_known_constants() -> None:
    instance = objectives.PhaseRetrieval.from_seed(0)
    assert instance.A.shape == (3000, 100)
    assert instance.A.std() == pytest.approx(0.1, rel=0.01)
    assert instance.start.mean() == pytest.approx(5, abs=0.4)
    c = instance.constants
    assert c is not None
    assert c.alpha == 2 / 3
    assert 12 < c.L0 < 24  # about 17 on average; it scales with ‖x*‖²
    assert pytest.approx(9.5, rel=0.1) == c.L1


def test_phase_retrieval_vanishes_at_the_signal_and_declares_nothing_without_full_rank() -> None:
    rng = np.random.default_rng(0)
    A, signal = rng.normal(size=(30, 5)), rng.normal(size=5)
    instance = objectives.PhaseRetrieval(A, A.T, (A @ signal) ** 2, np.ones(5))
    with jax.enable_x64(True):
        assert float(instance.value(jnp.asarray(signal))) == pytest.approx(0, abs=1e-25)
        assert np.linalg.norm(instance.grad(jnp.asarray(-signal))) == pytest.approx(0, abs=1e-12)
    assert objectives.PhaseRetrieval(A[:3], A[:3].T, np.ones(3), np.ones(5)).constants is None


def test_the_cubic_starts_with_variance_a_tenth() -> None:
    starts = np.array([objectives.Power.from_seed(seed).start[0] for seed in range(2000)])
    assert starts.mean() == pytest.approx(5, abs=0.03)
    assert starts.var() == pytest.approx(0.1, rel=0.15)


def test_the_seed_decides_the_instance(objective: Any) -> None:
    if isinstance(objective, objectives.NoisyRunway):
        pytest.skip("nothing of it is drawn")
    same, other = (type(objective).from_seed(seed, dim=objective.start.size) for seed in (3, 4))
    again = type(objective).from_seed(3, dim=objective.start.size)
    np.testing.assert_array_equal(same.start, again.start)
    drawn = [jax.tree.leaves(each) for each in (same, other)]
    assert not all(np.array_equal(a, b) for a, b in zip(*drawn, strict=True))


def test_a_user_s_function_becomes_an_objective() -> None:
    known = Constants(L0=12.0, L1=0.0, alpha=0.0, f_inf=-1.0)
    objective = objectives.from_function(lambda x: jnp.sum(x**2) - 1, start=2.0, constants=known)
    assert objective.start.tolist() == [2.0]
    assert objective.f_inf == -1.0
    assert objectives.from_function(jnp.sum, start=[1, 2]).f_inf is None


def test_mapped_over_many_points_the_measurements_of_each_stay_a_column() -> None:
    objective = objectives.PhaseRetrieval.from_seed(0, m=30, dim=4)
    program = jax.make_jaxpr(jax.vmap(objective.grad))(np.ones((8, 4)))
    moved = [step.invars[0].aval.shape for step in program.eqns if step.primitive.name == "transpose"]
    assert moved == [(4, 8)]  # the gradients; (30, 8) would be copied twice at every step
