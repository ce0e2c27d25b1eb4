"""The problem of the matching lower bound: its gradients, its coins, what it refuses. tests/theory has its proof."""

import dataclasses
import json
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from evidence.verification.hard_instances import GatedRunway
from evidence.verification.rotated_runway import RotatedRunway
from gladstorm import theory
from gladstorm.core.hardness import Hardness
from gladstorm.problems import objectives, oracles
from gladstorm.problems.objectives import NoisyRunway

LEVEL = 1e-6
NUMBERS: dict[str, Any] = {"eps": 0.005, "alpha": 1.0, "L0": 1.0, "L1": 120.0, "B": 0.25, "gap": 1.0}
BENT: dict[str, Any] = {
    "eps": 0.015,
    "alpha": 0.5,
    "L0": 1.0,
    "L1": 240.0,
    "B": 1.0,
    "gap": 1.0,
}  # B > 0.35 L0: the carrier bends
PROBLEMS: list[Any] = [
    NoisyRunway.from_eps(**NUMBERS),
    NoisyRunway.from_eps(**BENT),
    RotatedRunway.from_eps(**NUMBERS, dim=7),
    NoisyRunway.from_eps(**(BENT | {"B": 2.0}), growth=1.0),  # as much noise at R/2
]
NAMES = ["plain", "bent", "rotated", "a = 1"]


def places(objective: Any, count: int, seed: int = 0) -> np.ndarray:
    """All along the runway; of the chain a first part is open, the next coordinate is anywhere, the rest is small."""
    rng = np.random.default_rng(seed)
    T = objective.numbers.length
    omega = rng.uniform(-0.2, 0.2, (count, T))
    for row, opened in zip(omega, rng.integers(0, T, count), strict=True):
        row[:opened] = rng.choice([-1, 1], opened) * rng.uniform(0.5, 1.5, opened)
        row[opened] = rng.uniform(-0.6, 0.6)
    y = rng.uniform(-0.2, 2.2, (count, 1)) * float(objective.runway)
    z = omega @ np.asarray(objective.frame).T if objective.rotated else omega
    return np.hstack([y, z * float(objective.scale)])


@jax.jit
def samples(oracle: Any, x: Any, keys: Any) -> Any:
    """A batch of three at each point: its gradient, that of its value, and the variance of one relative to BG-0's."""

    def one(x: Any, key: Any) -> Any:
        sample, point = oracle.batch(oracle.draw(key), jnp.asarray(3)), oracle.at(x)
        allowed = oracle.objective.B**2 * jnp.sum(x * x) ** (oracle.objective.growth / 2)
        derived = jax.grad(lambda x: oracle.value(x, sample))(x)
        return oracle.grad(point, sample), derived, oracle.variance(point) / allowed, jnp.any(point.hidden != 0)

    return jax.vmap(one)(x, keys)


@pytest.mark.parametrize("objective", PROBLEMS, ids=NAMES)
def test_a_sample_s_gradient_is_that_of_its_value_and_its_noise_is_bg_0(objective: Any) -> None:
    oracle = oracles.NoisyRunwayOracle(objective)
    with jax.enable_x64(True):
        found = samples(oracle, places(objective, 500), jax.random.split(jax.random.key(0), 500))
    declared, derived, used, hidden = (np.asarray(each) for each in found)
    np.testing.assert_allclose(declared, derived, rtol=1e-8, atol=1e-9 * np.abs(declared).max())
    assert used.max() <= 1
    assert 0.2 < hidden.mean() < 0.9  # or little has been tested


@pytest.mark.parametrize("objective", PROBLEMS, ids=NAMES)
@pytest.mark.parametrize("b", [1, 40])
def test_a_batch_is_its_counts_of_coins(objective: Any, b: int) -> None:
    oracle = oracles.NoisyRunwayOracle(objective)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(1), 20_000)
        drawn = jax.vmap(lambda key: oracle.batch(oracle.draw(key), jnp.asarray(b)))(keys)
    counts, signs = np.rint(np.asarray(drawn.shown) * b), np.rint((np.asarray(drawn.sign) * b + b) / 2)
    np.testing.assert_allclose(np.asarray(drawn.shown) * b, counts, atol=1e-9)
    p = float(oracle.p)
    for column, q in [*((each, p) for each in counts.T), (signs, 0.5)]:
        most = int(np.quantile(column, 0.99)) + 1
        observed = np.bincount(np.minimum(column, most).astype(int), minlength=most + 1)
        expected = stats.binom.pmf(np.arange(most), b, q)
        expected = len(column) * np.append(expected, 1 - expected.sum())
        keep = expected > 5
        statistic = np.sum((observed - expected)[keep] ** 2 / expected[keep])
        assert statistic <= stats.chi2.isf(LEVEL, max(1, keep.sum() - 1))
    correlations = np.corrcoef(np.column_stack([counts, signs]).T)[np.triu_indices(counts.shape[1] + 1, 1)]
    assert np.abs(correlations).max() <= stats.norm.isf(LEVEL / 20) / math.sqrt(len(keys))


def test_without_noise_it_is_the_gated_runway_of_another_density() -> None:
    f = NoisyRunway.from_eps(**NUMBERS)
    L = 608 * NUMBERS["eps"] / float(f.scale)  # at which the chain of the gated runway is as dense
    other = GatedRunway(f.start, L, NUMBERS["gap"], NUMBERS["eps"])
    x = places(f, 100)
    x[:, 0] = np.minimum(x[:, 0], float(f.runway))  # behind it one levels off sooner
    with jax.enable_x64(True):
        ours, theirs = (np.asarray(jax.vmap(each.value)(jnp.asarray(x))) for each in (f, other))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"eps": 0.5}, r"\(E1\) ε² ≤ BΔ/2100; got eps=0.5: the largest eps that does is 0.01091\."),
        ({"L1": 20.0}, r"\(E2\) X = .* ≥ 107 B; got eps=0.005: the largest eps that does is 0.004221\."),
        ({"L1": 0.0}, r"\(E2\) .*: no eps does\."),
        ({"B": 2.0, "L1": 500.0, "L0": 1e-3}, r"\(E4\) .*: the largest eps that does is 0.0006905\."),
        ({"eps": 0.0}, "eps must be finite and > 0; got eps=0.0"),
        ({"growth": 2.5}, "growth must be from 0 to 2; got growth=2.5"),
        ({"alpha": 1.5}, r"alpha must be in \(0, 1\]; got alpha=1.5"),
    ],
)
def test_a_refusal_names_the_condition_and_the_largest_eps(given: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^NoisyRunway: .*{sentence}"):
        NoisyRunway.from_eps(**(NUMBERS | given))


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (NoisyRunway, NUMBERS),
        (NoisyRunway, BENT),
        (NoisyRunway, NUMBERS | {"L1": 20.0, "alpha": 0.3}),
        (NoisyRunway, BENT | {"L0": 1e-3, "L1": 2.0}),
        (NoisyRunway, BENT | {"growth": 0.5}),
        (RotatedRunway, NUMBERS),
        (RotatedRunway, NUMBERS | {"L0": 1e-4, "B": 3e-5}),  # (E3) decides
    ],
)
def test_the_largest_eps_is_accepted_and_a_larger_one_is_not(kind: Any, given: dict[str, float]) -> None:
    numbers = kind(np.zeros(2), **given, **({"frame": np.eye(1)} if kind is RotatedRunway else {})).numbers
    largest = min(numbers.limits().values())
    kind.from_eps(**(given | {"eps": largest * (1 - 1e-9)}), **WIDE.get(kind, {}))
    with pytest.raises(ValueError, match="the largest eps that does is"):
        kind.from_eps(**(given | {"eps": largest * (1 + 1e-9)}), **WIDE.get(kind, {}))


WIDE: dict[Any, dict[str, int]] = {RotatedRunway: {"dim": 500}}  # the longest chain has 409 links


def test_the_command_line_runs_it_and_the_theorems_know_its_class(gladstorm: Any) -> None:
    command = ["simulate", "--objective", "noisy-runway(eps=0.004)", "--method", "nstorm(gamma=0.5, eta=0.1)"]
    code, out, err = gladstorm(*command, "--steps", "5", "--seeds", "2", "--json")
    assert code == 0, err
    config = json.loads(out)["config"]
    assert (config["oracle_text"], config["oracle"]["type"], config["dim"]) == ("noisy-runway", "NoisyRunwayOracle", 7)
    oracle = oracles.named("noisy-runway", objectives.named("noisy-runway(alpha=0.5, L1=200)"))
    statement = theory.for_oracle(oracle, "nstorm", gamma0=1e-3)
    assert (statement.regime, statement.L1, statement.problem.B, statement.problem.gap) == (
        "nstorm/sublinear/bg0",
        200,
        0.25,
        1.0,
    )
    assert theory.for_oracle(oracle, "nstorm", alpha=1.0, gamma0=1e-3).regime == "nstorm/linear/bg0"
    assert theory.for_oracle(oracle, "nsgdm", gamma0=1e-3).regime == "nsgdm/smooth/bg0"


def test_it_begins_at_zero() -> None:
    moved = objectives.named("noisy-runway", start=1.0)
    with pytest.raises(ValueError, match="NoisyRunway: start must be 0, where the runway begins"):
        oracles.named("noisy-runway", moved)
    with pytest.raises(ValueError, match="RotatedRunway: dim must be > 2, the length of the chain; got dim=2"):
        RotatedRunway.from_eps(**NUMBERS, dim=2)


def test_at_the_largest_eps_of_e3_the_confinement_takes_all_the_curvature_that_it_may() -> None:
    """0.8 ε/λ ≤ 0.45 L0, with 0.78 for 0.78125."""
    numbers = Hardness(**(NUMBERS | {"L0": 1e-4, "B": 3e-5}), rotated=True)
    largest = numbers.limits()["(E3) ε² X ≤ 0.78 L0 BΔ"]
    assert 0.445e-4 <= 0.8 * largest / dataclasses.replace(numbers, eps=largest).scale <= 0.45e-4
