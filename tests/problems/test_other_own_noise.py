"""Temporal differences, logistic posteriors, Poisson regression and sampled phase retrieval against brute force."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from gladstorm import run, sgd, theory
from gladstorm.core.extras import MissingExtraError
from gladstorm.problems import objectives, oracles
from gladstorm.problems.own_noise.poisson_regression import counted
from gladstorm.problems.own_noise.variational_gaussian import GaussianFamily
from gladstorm.problems.own_noise.variational_logistic import expected_loss
from gladstorm.problems.sampling import counts, uniforms_for
from two_points import DRAWS, Pair, at_two_points, require_same_law, stated

CHAIN = objectives.TemporalDifferences.from_seed(0, 5, dim=2)
POISSON = objectives.PoissonRegression.from_seed(0, 0.3, dim=2)
PHASE = objectives.SampledPhaseRetrieval.from_seed(0, dim=2)


def single(objective: Any, rng: Any, points: list[np.ndarray], draws: int) -> list[np.ndarray]:
    """One sample of each of many batches, by hand: its gradients at the points."""
    if objective is CHAIN:
        pairs = (CHAIN.stationary[:, None] * CHAIN.transitions).ravel()
        s, after = np.divmod(rng.choice(pairs.size, draws, p=pairs / pairs.sum()), 5)
        here, there = CHAIN.features[s], CHAIN.features[after]
        return [here * (here @ theta - CHAIN.rewards[s] - CHAIN.discount * there @ theta)[:, None] for theta in points]
    if objective is POISSON:
        a = 0.3 * rng.normal(size=(draws, 2))
        y = rng.poisson(np.exp(a @ POISSON.optimum))
        return [a * (np.exp(a @ x) - y)[:, None] for x in points]
    a = rng.normal(size=(draws, 2))
    y = (a @ PHASE.signal) ** 2 + PHASE.sigma * rng.normal(size=draws)
    return [2 * a * (((a @ x) ** 2 - y) * (a @ x))[:, None] for x in points]


def by_brute_force(objective: Any, x: np.ndarray, y: np.ndarray, b: int) -> Pair:
    rng = np.random.default_rng(b)
    at_x, at_y = np.sum([single(objective, rng, [x, y], DRAWS) for _ in range(b)], axis=0) / b
    return at_x, at_y


def oracle_of(objective: Any) -> Any:
    return oracles.named(objective.own_oracle, objective)


@pytest.mark.parametrize("b", [1, 7, 100])
@pytest.mark.parametrize("objective", [CHAIN, POISSON, PHASE], ids=lambda each: each.own_oracle)
def test_a_batch_has_the_law_of_brute_force_at_one_point_and_at_two(objective: Any, b: int) -> None:
    x, y = np.random.default_rng(1).normal(size=(2, 2))
    require_same_law(at_two_points(oracle_of(objective), x, y, b), by_brute_force(objective, x, y, b))


def test_counts_of_a_poisson_law_change_where_its_distribution_function_does() -> None:
    """On both sides of P(Y ≤ y): a hair below it is y, a hair above is y + 1. From 745 on, exp(−mean) is 0."""
    rows = []
    for mean in (1e-300, 1e-6, 0.01, 1.0, 7.3, 100.0, 675.0, 677.0, 750.0, 2e4):
        law = stats.poisson(mean)
        rows.append((mean, 0.5, law.ppf(0.5)))
        y = np.unique(law.ppf([1e-9, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9]).clip(0))
        for each in np.append(y, y[-1] + 1):
            hair = min(law.pmf(each), law.pmf(each + 1)) / 4
            if hair > 1e-14:  # what is rarer is rounding
                rows += [(mean, law.cdf(each) - hair, each), (mean, law.cdf(each) + hair, each + 1)]
    mean, uniform, wanted = np.array(rows).T
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(jax.vmap(counted))(uniform, mean))
    np.testing.assert_array_equal(found, wanted)


def test_the_variance_of_temporal_differences_is_within_one_percent_of_monte_carlo() -> None:
    points = list(np.random.default_rng(2).normal(size=(3, 2)))
    sampled = single(CHAIN, np.random.default_rng(3), points, 400_000)
    oracle = oracle_of(CHAIN)
    with jax.enable_x64(True):
        for x, each in zip(points, sampled, strict=True):
            point = oracle.at(jnp.asarray(x))
            measured = np.mean(np.sum((each - np.asarray(oracle.exact(point))) ** 2, axis=1))
            assert measured == pytest.approx(float(oracle.variance(point)), rel=0.01)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("name", ["poisson-regression", "sampled-phase-retrieval"])
def test_gradient_and_variance_are_those_of_a_quadrature_over_all_samples(name: str, dim: int) -> None:
    """Not Monte Carlo: with such tails, four million draws leave an error of 0.7 %."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(48)
    a = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    weight = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * dim, indexing="ij")), axis=0).ravel()
    objective = objectives.named(name, dim=dim)
    oracle = oracle_of(objective)
    for x in np.random.default_rng(2).normal(size=(3, dim)):
        if name == "poisson-regression":
            drawn, mean = 0.3 * a, np.exp(0.3 * a @ objective.optimum)
            factor, error, spread = np.ones(len(a)), np.exp(drawn @ x) - mean, mean  # of exp(a·x) − y given a
        else:
            drawn, factor = a, 2 * (a @ x)
            error, spread = (a @ x) ** 2 - (a @ objective.signal) ** 2, np.full(len(a), objective.sigma**2)
        gradient = (weight * factor * error) @ drawn
        second = weight @ (factor**2 * np.sum(drawn**2, axis=1) * (error**2 + spread))
        with jax.enable_x64(True):
            point = oracle.at(jnp.asarray(x))
            assert np.asarray(oracle.exact(point)) == pytest.approx(gradient, rel=1e-9)
            assert float(oracle.variance(point)) == pytest.approx(second - gradient @ gradient, rel=1e-9)


def test_mean_field_and_variance_are_those_of_all_pairs_of_states() -> None:
    chain = objectives.named("temporal-differences:7,0.8", dim=6)
    oracle = oracle_of(chain)
    for theta in np.random.default_rng(5).normal(size=(3, 6)):
        mean, second = np.zeros(6), 0.0
        for s in range(7):
            for after in range(7):
                error = chain.features[s] @ theta - chain.rewards[s] - 0.8 * chain.features[after] @ theta
                chance, update = chain.stationary[s] * chain.transitions[s, after], chain.features[s] * error
                mean, second = mean + chance * update, second + chance * update @ update
        with jax.enable_x64(True):
            point = oracle.at(jnp.asarray(theta))
            assert np.asarray(oracle.exact(point)) == pytest.approx(mean, rel=1e-10)
            assert float(oracle.variance(point)) == pytest.approx(second - mean @ mean, rel=1e-10)


# Temporal differences: a mean field, and BG-0 around the point where the noise is least.


def test_the_noise_of_temporal_differences_is_least_at_its_anchor_and_bg0_is_attained() -> None:
    oracle = oracle_of(CHAIN)
    bg0 = oracle.bg0
    rng = np.random.default_rng(0)
    x = bg0.anchor + rng.normal(0, 5, (500, 2))
    with jax.enable_x64(True):
        variance: Any = jax.jit(jax.vmap(lambda x: oracle.variance(oracle.at(x))))
        there, least = np.asarray(variance(x)), float(variance(bg0.anchor[None])[0])
    allowed = bg0.B**2 * np.sum((x - bg0.anchor) ** 2, axis=1) + bg0.G**2
    assert least == pytest.approx(bg0.G**2)
    assert np.all(there <= allowed * (1 + 1e-12))
    assert np.max(there / allowed) > 0.99


def test_the_mean_field_vanishes_at_the_solution_and_is_no_gradient() -> None:
    oracle = oracle_of(CHAIN)
    with jax.enable_x64(True):
        assert np.asarray(oracle.at(CHAIN.solution).grad) == pytest.approx(0, abs=1e-14)
        turn = np.asarray(jax.jacobian(lambda x: oracle.at(x).grad)(jnp.zeros(2)))
    assert abs(turn[0, 1] - turn[1, 0]) > 1e-3
    with pytest.raises(ValueError, match="the theorems say nothing about TemporalDifferencesOracle: its direction"):
        theory.for_oracle(oracle, "nsgdm")


@pytest.mark.parametrize("b", [1, 3, 10_000])
def test_counts_of_outcomes_are_multinomial(b: int) -> None:
    p = np.array([0.5, 0.0, 0.2, 0.05, 0.25])
    with jax.enable_x64(True):
        uniforms = jax.random.uniform(jax.random.key(b), (4000, uniforms_for(5)))
        found = np.asarray(jax.jit(jax.vmap(lambda each: counts(each, jnp.asarray(b), jnp.asarray(p))))(uniforms))
    assert np.all(found.sum(axis=1) == b)
    assert not found[:, 1].any()
    assert found.mean(axis=0) == pytest.approx(b * p, abs=5 * np.sqrt(b / 4 / 4000))
    wanted = b * (np.diag(p) - np.outer(p, p))
    assert np.cov(found.T) == pytest.approx(wanted, abs=6 * b / np.sqrt(4000) * 0.25)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"features": [[1, 2], [2, 4], [3, 6]]}, "features must be linearly independent.* 2 columns of rank 1: leave"),
        ({"transitions": np.eye(3)}, "transitions must lead from every state to every other"),
        ({"transitions": np.ones((3, 3))}, "transitions must be rows of probabilities that add up to 1"),
        ({"discount": 1.0}, r"discount must be in \[0, 1\)"),
        ({"rewards": [1.0]}, "must have shapes"),
    ],
)
def test_a_chain_that_is_none_gets_one_sentence(change: Any, sentence: str) -> None:
    good: dict[str, Any] = {
        "transitions": np.full((3, 3), 1 / 3),
        "features": [[1, 0], [0, 1], [1, 1]],
        "rewards": [0, 1, 2],
        "discount": 0.5,
        "start": [0, 0],
    }
    objectives.TemporalDifferences.from_chain(**good)
    with pytest.raises(ValueError, match=sentence):
        objectives.TemporalDifferences.from_chain(**good | change)


# Outside the model.


@pytest.mark.parametrize(("objective", "power"), [(PHASE, 6), (POISSON, None)], ids=["phase", "poisson"])
def test_noise_outside_bg0_grows_faster_than_any_such_bound_and_the_theorems_refuse_it(
    objective: Any, power: int | None
) -> None:
    oracle = oracle_of(objective)
    direction = np.array([0.6, 0.8])
    variance = [stated(oracle, r * direction)[1] for r in (10.0, 20.0)]
    slope = np.log2(variance[1] / variance[0])
    assert slope == pytest.approx(power, abs=0.1) if power else slope > 20
    assert oracle.bg0 is None
    with pytest.raises(ValueError, match=r"the theorems say nothing about .*: its noise grows faster than B²"):
        theory.for_oracle(oracle, "nstorm")


# Logistic posteriors.


@pytest.mark.parametrize(("mean", "deviation"), [(0.3, 0.01), (-2.0, 1.0), (5.0, 10.0), (-30.0, 100.0), (40.0, 0.5)])
def test_the_expected_loss_is_exact_for_narrow_and_wide_normals(mean: float, deviation: float) -> None:
    grid = np.linspace(-12, 12, 200_001)
    exact = integrate.trapezoid(stats.norm.pdf(grid) * np.logaddexp(0, -mean - deviation * grid), grid)
    with jax.enable_x64(True):
        assert float(jax.jit(expected_loss)(jnp.array(mean), jnp.array(deviation))) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("word", ["full-rank", "mean-field"])
def test_samples_of_a_logistic_posterior_average_to_its_gradient_within_what_bg0_allows(word: str) -> None:
    oracle = oracle_of(objectives.named(f"variational-logistic:{word},1,20", dim=2))
    bg0 = oracle.bg0
    x, y = oracle.objective.start + np.random.default_rng(0).normal(size=(2, oracle.objective.start.size))
    at_x, at_y = at_two_points(oracle, x, y, 1)
    means = [stated(oracle, each)[0] for each in (x, y)]
    for sampled, mean in zip((at_x, at_y), means, strict=True):
        error = sampled.std(axis=0) / np.sqrt(DRAWS)
        assert np.all(np.abs(sampled.mean(axis=0) - mean) < 5 * error)
    noise = at_x - means[0]
    assert np.mean(np.sum(noise**2, axis=1)) <= bg0.B**2 * np.sum((x - bg0.anchor) ** 2) + bg0.G**2
    assert np.mean(np.sum((at_y - means[1] - noise) ** 2, axis=1)) <= bg0.B**2 * np.sum((x - y) ** 2)


def test_the_mode_of_a_posterior_is_where_its_energy_is_least_for_separable_data_too() -> None:
    separable = np.array([[1.0], [2.0], [-1.0]]), np.array([1, 1, 0])
    family = GaussianFamily("mean-field", 1)
    made = objectives.VariationalLogistic.from_data(*separable, np.ones(2), family, prior=1e-3)
    z = float(made.mode[0])
    signed = np.array([1.0, 2.0, 1.0])
    assert 1e-3 * z == pytest.approx(np.sum(signed / (1 + np.exp(signed * z))), rel=1e-9)
    assert np.isfinite(run(oracles.VariationalLogisticOracle(made), sgd(0.1), steps=5).value).all()
    with pytest.raises(ValueError, match="VariationalLogistic: prior must be finite and > 0; got prior="):
        objectives.VariationalLogistic.from_data(*separable, np.ones(2), family, prior=0.0)
    with pytest.raises(ValueError, match="labels must be a 0 or a 1 for each row"):
        objectives.VariationalLogistic.from_data(separable[0], np.array([1, 2, 3]), np.ones(2), family)
    with pytest.raises(ValueError, match=r"must have a number other than 0, .* only zeros in row 1: leave it out"):
        objectives.VariationalLogistic.from_data(np.array([[1.0], [0.0]]), np.array([1, 0]), np.ones(2), family)
    with pytest.raises(ValueError, match="dim must be ≤ 31, as the data; got dim=32"):
        objectives.named("variational-logistic", dim=32)


def test_a_posterior_that_is_all_prior_attains_the_bounds_that_its_constants_come_from() -> None:
    """By quadrature over u and w: where U/n is M‖z‖²/2, each term of E‖(r, r uᵀ)‖² is as large as Domke's bound."""
    d, M, family = 2, 0.25, GaussianFamily("full-rank", 2)
    features, labels = np.full((4, d), 1e-9), np.array([0, 1, 0, 1])
    quadratic = objectives.VariationalLogistic.from_data(features, labels, np.ones(family.size), family, prior=1.0)
    assert quadratic.largest_curvature == pytest.approx(M)
    oracle: Any = oracles.VariationalLogisticOracle(quadratic)
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)  # exact: the squares are of degree 4
    grid = np.stack(np.meshgrid(*[nodes] * 2 * d, indexing="ij"), axis=-1).reshape(-1, 2, 1, d)
    weight = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * 2 * d, indexing="ij")), axis=0).ravel()

    @jax.jit
    def energies(x: Any) -> Any:
        """The energy's gradient at z, for every u and w, and its mean."""
        point = oracle.at(x)
        sampled = jax.vmap(lambda uw: oracle.gradient(point, uw))(grid)
        return sampled - point.entropy, point.grad - point.entropy

    def second_moment(x: np.ndarray) -> float:
        with jax.enable_x64(True):
            sampled, mean = map(np.asarray, energies(x))
        assert weight @ sampled == pytest.approx(mean, abs=1e-9)
        return float(weight @ np.sum(sampled**2, axis=1))

    bg0, floor = oracle.bg0, float(quadratic.floor)
    wider = np.append(np.zeros(d), np.random.default_rng(0).normal(size=d * d))
    at_anchor = second_moment(bg0.anchor)
    growth = (second_moment(bg0.anchor + wider) - at_anchor) / np.sum(wider**2)
    assert (at_anchor, growth) == pytest.approx((M**2 * d * (d + 1) * floor**2, M**2 * (d + 3)), rel=1e-6)
    assert (at_anchor, growth) == pytest.approx((bg0.G**2, bg0.B**2), rel=1e-6)


@jax.jit
def _value(objective: Any, x: Any) -> Any:
    return objective.value(x)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("word", ["full-rank", "mean-field"])
def test_the_value_of_a_logistic_posterior_is_that_of_a_quadrature_over_all_weights(word: str, dim: int) -> None:
    """Features may be linearly dependent, as the last two columns are: the prior still makes the posterior proper."""
    rng = np.random.default_rng(dim)
    features, labels = rng.normal(size=(12, dim)), rng.integers(0, 2, 12)
    features[:, -1] = 2 * features[:, -2]
    family = GaussianFamily(word, dim)
    posterior = objectives.VariationalLogistic.from_data(features, labels, np.ones(family.size), family, prior=0.5)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    normal = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    weight = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * dim, indexing="ij")), axis=0).ravel()
    for x in rng.normal(size=(3, family.size)):
        C = x[dim:].reshape(dim, dim) if word == "full-rank" else np.diag(x[dim:])
        covariance = C @ C.T + float(posterior.floor) ** 2 * np.eye(dim)
        z = x[:dim] + normal @ np.linalg.cholesky(covariance).T
        signed = (2 * labels - 1)[:, None] * features
        energy = weight @ (np.logaddexp(0, -z @ signed.T).sum(axis=1) + 0.25 * np.sum(z**2, axis=1))
        with jax.enable_x64(True):
            value = float(_value(posterior, x))
        # Gauss–Hermite leaves an error of 1e-6.
        assert value == pytest.approx((energy - np.linalg.slogdet(covariance)[1] / 2) / 12, rel=1e-5)


@pytest.mark.parametrize("b", [1, 7, 100])
def test_a_batch_of_a_logistic_posterior_has_the_law_of_brute_force_at_one_point_and_at_two(b: int) -> None:
    oracle = oracle_of(objectives.named("variational-logistic:mean-field,1,5", dim=2))
    objective, rng = oracle.objective, np.random.default_rng(b)
    x, y = np.random.default_rng(1).normal(size=(2, 4))
    sums = np.zeros((2, DRAWS, 4))
    for _ in range(b):
        u, w = rng.normal(size=(2, DRAWS, 2))
        for total, point in zip(sums, (x, y), strict=True):
            z = point[:2] + point[2:] * u + float(objective.floor) * w
            r = (z - (1 / (1 + np.exp(z @ objective.examples.T))) @ objective.examples) / 5
            entropy = -point[2:] / (point[2:] ** 2 + float(objective.floor) ** 2) / 5
            total += np.concatenate([r, r * u + entropy], axis=1)
    require_same_law(at_two_points(oracle, x, y, b), (sums[0] / b, sums[1] / b))


def test_without_scikit_learn_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError, match=r"^variational-logistic needs .*: pip install 'gladstorm\[data\]'$"):
        objectives.named("variational-logistic")


# On the command line.


def test_an_objective_brings_its_own_oracle_and_a_mean_field_is_called_one(gladstorm: Any) -> None:
    command = "simulate --objective temporal-differences:4 --dim 2 --method sgd(gamma=0.1) --steps 5 --seeds 2".split()
    code, out, err = gladstorm(*command)
    assert code == 0, err
    assert "temporal-differences" in out
    assert "‖mean field‖" in out
    assert "∇f" not in out
    code, out, _ = gladstorm(*command, "--json")
    config = json.loads(out)["config"]
    assert (config["field"], config["oracle_text"], config["oracle"]["type"]) == (
        "mean field",
        "temporal-differences",
        "TemporalDifferencesOracle",
    )
    code, out, _ = gladstorm(*command, "--oracle", "blum-gladyshev", "--json")
    assert (code, json.loads(out)["config"]["field"]) == (0, "∇f")  # of how far the values are from the solution
