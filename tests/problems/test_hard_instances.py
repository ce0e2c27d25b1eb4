"""Hard instances: their gradients, constants and oracles, and that nobody gets ahead of the chain."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from evidence.verification import adversary, hardness
from evidence.verification.hard_instances import (
    Blocks,
    BlocksOracle,
    ChainOracle,
    GatedRunway,
    SmoothRunway,
    ZeroChain,
)
from gladstorm import nsgdm, run
from gladstorm.core.parts import part
from gladstorm.methods.norms import Rows
from gladstorm.problems.hard.zero_chain import DEPTH, LARGEST, SMOOTHNESS, progress
from gladstorm.problems.objectives import NoisyRunway
from gladstorm.problems.oracles import NoisyRunwayOracle

LEVEL = 1e-6
CHAIN = ZeroChain(np.zeros(4), 1.0, 0.01)
RUNWAY = GatedRunway.of(L=1.0, gap=1.0, eps=2e-3)


def points(objective: Any, count: int, seed: int = 0) -> np.ndarray:
    """Points where something happens: coordinates of the chain at up to twice its scale, all along the runway."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (count, objective.start.size)) * float(objective.scale)
    if isinstance(objective, GatedRunway):
        x[:, 0] = rng.uniform(-0.2, 1.3, count) * float(objective.runway)
    return x


def reached(x: Any, beyond: float = 0.0) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(progress(jnp.asarray(x), beyond))


@jax.jit
def at(objective: Any, points: Any) -> Any:
    """f, its gradient, that of autodiff, and the Hessian."""
    functions = (objective.value, objective.grad, jax.grad(objective.value), jax.jacfwd(objective.grad))
    return [jax.vmap(each)(points) for each in functions]


@pytest.fixture(scope="module")
def measured() -> dict[Any, list[np.ndarray]]:
    with jax.enable_x64(True):
        return {type(each): [np.asarray(a) for a in at(each, points(each, 4000))] for each in (CHAIN, RUNWAY)}


@pytest.mark.parametrize("objective", [CHAIN, RUNWAY], ids=["chain", "runway"])
def test_the_gradient_is_that_of_the_value_and_the_curvature_is_at_most_L(objective: Any, measured: Any) -> None:
    _, by_hand, automatic, hessians = measured[type(objective)]
    np.testing.assert_allclose(by_hand, automatic, rtol=1e-9, atol=1e-12)
    assert np.abs(np.linalg.eigvalsh(hessians)).max() <= 1.0


def test_the_chain_has_the_properties_its_lower_bound_uses(measured: Any) -> None:
    x, (values, grads, *_) = points(CHAIN, 4000), measured[ZeroChain]
    grads = grads / (2 * CHAIN.eps)
    with jax.enable_x64(True):
        at_start = float(CHAIN.value(CHAIN.start))
    assert np.abs(grads).max() <= LARGEST
    assert at_start - values.min() <= CHAIN.L * CHAIN.scale**2 / SMOOTHNESS * DEPTH * 4
    assert CHAIN.constants.f_inf <= values.min()
    unfinished = reached(x / CHAIN.scale, 1.0) < 4
    assert np.linalg.norm(grads[unfinished], axis=1).min() > 1
    assert np.all(reached(grads) <= reached(x / CHAIN.scale, 0.5) + 1)


def test_nothing_is_stationary_before_the_end_of_the_runway(measured: Any) -> None:
    x, norms = points(RUNWAY, 4000), np.linalg.norm(measured[GatedRunway][1], axis=1)
    links = reached(x[:, 1:] / RUNWAY.scale, 1.0)
    unfinished = (x[:, 0] <= RUNWAY.runway) | (links < RUNWAY.start.size - 1)
    assert norms[unfinished].min() >= 2 * RUNWAY.eps * (1 - 1e-9)


@pytest.mark.parametrize("objective", [CHAIN, RUNWAY], ids=["chain", "runway"])
def test_the_oracle_is_unbiased_and_its_variance_is_within_the_bound(objective: Any) -> None:
    """Exactly: a batch of b has b + 1 outcomes. Of B²r²/4 + G², r the length of the runway, BG-0 follows everywhere."""
    B, G, b = 1.0, 1.0, 3
    far = float(getattr(objective, "runway", 0.0))
    sigma2 = B**2 * far**2 / 4 + G**2
    oracle = ChainOracle.with_variance(objective, sigma2)
    p, x = float(oracle.p), points(objective, 300, seed=1)
    x[0] = 0.0  # x⁰: on the chain the first coordinate is hidden

    @jax.jit
    def outcomes(x: Any) -> Any:
        """The noise of each outcome, the variance that is stated, and what is hidden."""

        def at(x: Any) -> Any:
            point = oracle.at(x)
            noise = jax.vmap(lambda share: oracle.grad(point, share) - oracle.exact(point))(jnp.arange(b + 1) / b)
            return noise, oracle.variance(point), jnp.where(point.hidden, point.grad, 0.0)

        return jax.vmap(at)(x)

    with jax.enable_x64(True):
        noise, variance, hidden = map(np.asarray, outcomes(x))
        uniform = (np.arange(100_000) + 0.5) / 100_000
        shares = np.asarray(jax.jit(jax.vmap(lambda u: oracle.batch(u, jnp.asarray(b))))(uniform))
    chances = stats.binom(b, p).pmf(np.arange(b + 1))
    np.testing.assert_allclose(np.bincount(np.rint(b * shares).astype(int), minlength=b + 1) / 1e5, chances, atol=2e-5)
    np.testing.assert_allclose(np.einsum("o,nod->nd", chances, noise), 0, atol=1e-12 * np.abs(noise).max())
    squared = np.einsum("o,nod,nod->n", chances, noise, noise)
    np.testing.assert_allclose(b * squared, variance, rtol=1e-9, atol=1e-20)
    assert np.all((hidden != 0).sum(axis=1) <= 1)  # so that the largest entry bounds the length
    assert np.all(variance <= sigma2 * (1 - p))
    assert np.all(variance <= B**2 * np.sum(x**2, axis=1) + G**2)
    # On a chain, something of what is allowed is there; on the runway only behind the gate.
    assert variance[0] > 0 if objective is CHAIN else np.all(variance[x[:, 0] <= far / 2] == 0)
    assert (variance > 0).any()
    assert p * sigma2 == pytest.approx((2 * LARGEST * float(objective.eps)) ** 2)


def test_nobody_gets_ahead_of_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = hardness.chain(0.004)
    assert hard.length == 8
    assert hard.oracle.p == pytest.approx((46 * 0.004) ** 2)
    assert hard.needed == pytest.approx((8 - np.log(2)) / (2 * hard.oracle.p))
    nstorm = hard.methods()["NSTORM"]
    monkeypatch.setattr(hardness.Hard, "methods", lambda _: {"NSGDM": nstorm})  # which all are compared with
    (row,) = hardness.rows(hard, 0)
    assert hard.needed <= row["sfo"] < np.inf  # a median: half of the runs at least are not done before

    p, few = 0.02, 100  # a sample is shown at two points, and counts once
    record = run(
        replace(hard.oracle, p=p), nstorm.made(*nstorm.grid()), steps=few, seeds=hardness.SEEDS, progress=False
    )
    links = reached(record.last)
    assert links.max() <= stats.binom.isf(LEVEL / links.size, few + 1, p)
    assert np.all(links.mean(axis=1) <= p * few + stats.norm.isf(LEVEL) * np.sqrt(p * few / hardness.SEEDS))
    assert links.mean() > 0.2  # they do move


def test_what_is_needed_grows_like_the_lower_bounds_as_the_accuracy_falls() -> None:
    for instance, power in ((hardness.chain, 4), (hardness.runway, 6)):
        far, farther = (instance(eps, L=100.0, gap=100.0).needed for eps in (0.01, 0.001))
        assert np.log10(farther / far) == pytest.approx(power, abs=0.1)


def test_exponents_are_those_of_the_counts_seed_by_seed_and_only_where_every_run_arrived() -> None:
    def row(method: str, eps: float, counts: list[float | None]) -> dict[str, Any]:
        return {"instance": "chain", "method": method, "eps": eps, "needed": eps**-4.0, "per_seed": counts}

    accuracies = (0.1, 0.05, 0.02, 0.01)
    rows = [row("noisy", eps, [3 * eps**-3.9, 2 * eps**-4.1]) for eps in accuracies]
    rows += [row("exact", eps, [eps**-5.0, 7 * eps**-5.0]) for eps in accuracies[:3]]
    rows += [row("exact", accuracies[3], [1.0, None])]
    rows += [row("late", eps, [1.0, None]) for eps in accuracies[:2]]
    rows += [row("late", eps, [1.0, 1.0]) for eps in accuracies[2:]]
    noisy, exact = hardness.exponents(rows)
    assert (noisy["method"], noisy["accuracies"], exact["method"], exact["accuracies"]) == ("noisy", 4, "exact", 3)
    assert (noisy["measured"], exact["measured"], exact["needed"]) == pytest.approx((4.0, 5.0, 4.0))
    assert exact["interval"] == pytest.approx((5.0, 5.0))
    half = stats.t.isf(0.01 / 2 / 2, 1) * 0.1  # two slopes, 3.9 and 4.1, have standard error 0.1; two intervals
    assert noisy["interval"] == pytest.approx((4 - half, 4 + half))


def test_an_accuracy_that_leaves_no_chain_and_a_noise_that_hides_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="ZeroChain: eps must be"):
        ZeroChain.of(L=1.0, gap=1.0, eps=0.1)
    with pytest.raises(ValueError, match="GatedRunway: eps must be"):
        GatedRunway.of(L=1.0, gap=1.0, eps=0.1)
    with pytest.raises(ValueError, match="ChainOracle: sigma2 must be"):
        ChainOracle.with_variance(CHAIN, 0.1)


# Noise of every growth, and other norms.

LATE: dict[str, Any] = {"eps": 1e-4, "alpha": 1.0, "L0": 1.0, "gap": 1.0}
SMOOTH: dict[str, Any] = {"eps": 0.0018, "alpha": 1.0, "L0": 1.0, "L1": 0.0, "B": 1.0, "gap": 1.0}


@part
class DenseSmooth(SmoothRunway):
    """A chain that is four times too dense."""

    @property
    def scale(self) -> Any:
        return super().scale / 4


def largest(claim: Any, objective: Any) -> float:
    return adversary.worst(claim, NoisyRunwayOracle(objective))


@pytest.mark.parametrize("growth", [0.0, 1.0])
def test_no_point_violates_a_claim_of_the_runway_under_noise_of_a_smaller_growth(growth: float) -> None:
    less = 1 - growth / 2
    f = NoisyRunway.from_eps(**LATE, L1=1.6 * 2**less, B=0.3 * 625**less, growth=growth)  # as many links as for a = 2
    assert f.links == 3
    assert 0.49 < largest(adversary.variance, f) <= 1
    assert 0.005 < largest(adversary.close_pairs, f) <= 1
    assert 0.9 < largest(adversary.stationarity, f) <= 1
    assert 0.5 < largest(adversary.depth, f) <= 1


@pytest.mark.parametrize("growth", [0.0, 2.0, 3.0])
def test_no_point_violates_a_claim_of_the_rotated_smooth_runway(growth: float) -> None:
    f = SmoothRunway.from_eps(**SMOOTH, growth=growth, dim=6)
    assert f.links == 3
    assert f.numbers.needed >= f.numbers.guaranteed
    assert 0.02 < largest(adversary.variance, f) <= 1
    assert 0.5 < largest(adversary.smoothness, f) <= 1
    assert 0.9 < largest(adversary.stationarity, f) <= 1
    assert 0.5 < largest(adversary.depth, f) <= 1
    with pytest.raises(ValueError, match="SmoothRunway: eps must satisfy ε² ≤ L0Δ/97700"):
        SmoothRunway.from_eps(**(SMOOTH | {"eps": 0.1}), growth=growth, dim=6)


def test_the_search_finds_a_smooth_runway_whose_chain_is_too_dense() -> None:
    right = SmoothRunway.from_eps(**SMOOTH, growth=1.0, dim=6)
    dense: Any = DenseSmooth(*(getattr(right, name) for name in ("start", *SMOOTH, "frame")), growth=1.0)
    assert largest(adversary.smoothness, dense) > 1


@pytest.mark.parametrize("growth", [1.0, 2.0])
def test_blocks_are_as_smooth_and_as_noisy_as_one_instance_in_the_norm_of_rows(growth: float) -> None:
    """L from max_i ‖x_i‖ to Σ_i ‖∇_i f‖, E‖n‖² ≤ B² max_i ‖x_i‖^a, and Σ_i ‖∇_i f‖ ≥ 2ε; r times the samples."""
    rows, L, gap, eps, B = 3, 1.0, 1.0, 2e-3, 0.2
    f: Any = Blocks.of(rows, GatedRunway.of, L=L, gap=gap, eps=eps)
    far, one = float(f.single.runway), GatedRunway.of(L=L, gap=gap, eps=eps)
    assert far == pytest.approx(float(one.runway))
    assert f.single.start.size == one.start.size
    noise = B**2 * (far / 2) ** growth
    single = ChainOracle.with_variance(f.single, noise / rows)
    oracle: Any = BlocksOracle(f, single)
    assert 1 / single.p == pytest.approx(rows / ChainOracle.with_variance(one, noise).p)
    x = np.concatenate([points(f.single, 300, seed)[:, None] for seed in range(rows)], axis=1).reshape(300, -1)

    @jax.jit
    def at_points(x: Any) -> Any:
        key = jax.random.key(0)
        hessian = jax.vmap(jax.jacfwd(f.grad))(x)
        shown = jax.vmap(lambda place: oracle.grad(oracle.at(place), oracle.sample(key, oracle.at(place))))(x)
        return jax.vmap(f.grad)(x), hessian, jax.vmap(lambda each: oracle.variance(oracle.at(each)))(x), shown

    with jax.enable_x64(True):
        grads, hessians, variance, shown = map(np.asarray, at_points(jnp.asarray(x)))
    by_row = np.linalg.norm(grads.reshape(300, rows, -1), axis=2).sum(axis=1)
    length = np.linalg.norm(x.reshape(300, rows, -1), axis=2).max(axis=1)
    assert 0 < (variance / (B**2 * length**growth)).max() <= 1
    assert rows * np.abs(np.linalg.eigvalsh(hessians)).max() <= L
    links = reached(x.reshape(300, rows, -1)[:, :, 1:] / f.single.scale, 1.0)
    unfinished = np.all((x.reshape(300, rows, -1)[:, :, 0] <= far) | (links < one.start.size - 1), axis=1)
    assert by_row[unfinished].min() >= 2 * eps * (1 - 1e-9)
    assert shown.shape == grads.shape
    assert np.any(shown != grads)
    record = run(oracle, nsgdm(float(f.single.scale), 0.1, norm=Rows()), steps=20)
    assert record.stationarity[0, 0, 0] == pytest.approx(2 * eps)
