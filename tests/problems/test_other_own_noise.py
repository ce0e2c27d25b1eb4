"""Temporal differences, logistic posteriors, Poisson regression and sampled phase retrieval against brute force."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gladstorm import theory
from gladstorm.problems import objectives, oracles
from gladstorm.problems.own_noise.poisson_regression import counted
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
    ("text", "sentence"),
    [
        ("temporal-differences:2", r"states must be at least dim=3, or θ\* is not unique; got 2"),
        ("temporal-differences:4,1", r"discount must be in \[0, 1\)"),
    ],
)
def test_a_chain_without_a_solution_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        objectives.named(text)


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
