"""Objectives of matrices and noise that grows with the spectral distance: constants, laws, and singular values."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gladstorm as gs
from gladstorm.core.singular_values import singular_values, svd
from gladstorm.problems import objectives, oracles

SPECTRAL = ["spectral-log", "spectral-cube", "spectral-cosh"]


@pytest.fixture(autouse=True)
def _double() -> Any:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 4), (5, 5), (7, 4), (4, 7), (12, 12)])
@pytest.mark.parametrize("kind", ["full", "rank one", "badly scaled", "huge", "zero"])
def test_singular_values_are_those_of_lapack(shape: tuple[int, int], kind: str) -> None:
    A = np.random.default_rng(0).normal(size=shape)
    factors: dict[str, Any] = {"huge": 1e200, "zero": 0.0, "badly scaled": np.geomspace(1, 1e-9, shape[1])}
    A = np.outer(A[:, 0], A[0]) if kind == "rank one" else A * factors.get(kind, 1.0)
    u, sigma, vt = map(np.asarray, svd(jnp.asarray(A)))
    expected = np.linalg.svd(A, compute_uv=False)
    exact = {"rtol": 0, "atol": 1e-13 * expected[0]}
    np.testing.assert_allclose(np.sort(sigma)[::-1], expected, **exact)
    np.testing.assert_allclose((u * sigma) @ vt, A, **exact)
    real = sigma > 1e-12 * expected[0]
    for vectors in (u[:, real], vt[real].T):
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(real.sum()), atol=1e-11)


def test_singular_values_are_computed_for_many_and_say_where_a_matrix_is_not_finite() -> None:
    A = np.random.default_rng(1).normal(size=(6, 4, 3))
    both = np.sort(jax.vmap(singular_values)(jnp.asarray(A)))[:, ::-1]
    np.testing.assert_allclose(both, np.linalg.svd(A, compute_uv=False), rtol=1e-12)
    assert np.isnan(singular_values(jnp.full((2, 2), np.nan))).any()


@pytest.mark.parametrize("name", SPECTRAL)
@pytest.mark.parametrize("rows", [3, 2])
def test_constants_in_the_spectral_norm_hold_and_are_attained(name: str, rows: int) -> None:
    """Between random pairs of matrices, and between multiples of the identity."""
    objective: Any = objectives.named(f"{name}({rows})", dim=3 * rows)
    c, shape, rng = objective.spectral_constants, objective.shape, np.random.default_rng(0)
    identity = np.eye(*shape).ravel()
    segments = []
    for pair in range(400):
        size, step = rng.lognormal(0, 1), 10.0 ** rng.uniform(-3, 0.5)
        x, way = rng.normal(size=(2, shape[0] * shape[1])) if pair % 2 else (identity, identity)
        segments.append(size * x + np.linspace(0, 1, 17)[:, None] * step * way)
    along = np.array(segments)
    grads = np.asarray(jax.jit(jax.vmap(jax.vmap(objective.grad)))(along)).reshape(-1, 17, *shape)
    largest = np.linalg.norm(grads, "nuc", axis=(2, 3)).max(axis=1) ** c.alpha
    change = np.linalg.norm(grads[:, -1] - grads[:, 0], "nuc", axis=(1, 2))
    distance = np.linalg.norm((along[:, -1] - along[:, 0]).reshape(-1, *shape), 2, axis=(1, 2))
    ratios = change / ((c.L0 + c.L1 * largest) * distance)
    assert 0.85 < ratios.max() <= 1 + 1e-9


@pytest.mark.parametrize("shape", [(4, 3), (5,)])
def test_the_noise_grows_exactly_with_the_spectral_distance(shape: tuple[int, ...]) -> None:
    start = np.ones(shape)
    oracle = oracles.NormNoise(objectives.from_function(lambda X: jnp.sum(X**2), start), B=0.7, G=0.3)
    x = np.random.default_rng(0).normal(size=shape)
    far = np.linalg.norm((x - start).reshape(shape[0], -1), 2)
    _, (measured,) = oracles.measured_variance(oracle, x.reshape(1, -1), draws=20_000)
    assert measured == pytest.approx(0.49 * far**2 + 0.09, rel=0.02)  # five standard errors
    assert float(oracle.variance(oracle.at(jnp.asarray(x.ravel())))) == pytest.approx(0.49 * far**2 + 0.09)
    key = jax.random.split(jax.random.key(0), 4000)
    points = [oracle.at(jnp.asarray(place.ravel())) for place in (x, start + 2 * (x - start))]
    near, away = (
        jax.vmap(lambda key, p=p: oracle.grad(p, oracle.sample(key, p)) - oracle.exact(p))(key) for p in points
    )
    assert float(jnp.mean(jnp.sum((away - near) ** 2, 1))) == pytest.approx(0.49 * far**2, rel=0.05)


def test_a_rank_of_a_matrix_or_a_width_that_does_not_fit_is_refused_in_one_sentence() -> None:
    for text, sentence in [
        ("matrix-sensing(rank=3)", "MatrixSensing: dim must be a multiple of rank=3, .* got dim=40"),
        ("two-layer-network(hidden=7)", "TwoLayerNetwork: dim must be a multiple of hidden=7, .* got dim=96"),
        ("spectral-log(rows=7)", "rows must be a whole number that divides dim=25; got rows=7"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            objectives.named(text)


def test_matrix_sensing_is_solved_and_the_network_learns_by_layers_from_their_own_samples() -> None:
    """In the norms of layers, from fresh examples: the lab has problems in which that is the better step."""
    sensing, network = (oracles.FiniteSum(objectives.named(name)) for name in ("matrix-sensing", "two-layer-network"))
    for oracle, gamma, least in ((sensing, 0.1, 1e-4), (network, 0.03, 0.2)):
        method = gs.methods.with_decay(gs.nsgdm(gamma, 0.2, norm=gs.norms.Layers(), batch=16))
        record = gs.run(oracle, method, steps=600)
        assert record.value[0, 0, -1] < least * record.value[0, 0, 0]
