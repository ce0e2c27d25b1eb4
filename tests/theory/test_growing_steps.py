"""S10, steps that grow: the bound by its definition, what it costs against a tuned run, and runs that stay below it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from gladstorm.theory import GrowingSteps, Problem
from gladstorm.theory.class_constants import in_linear_class
from gladstorm.theory.rules import OutOfRange
from gladstorm.theory.search import lowest
from gladstorm.theory.sharper_bounds import MomentumFeedback, MomentumSmooth

SMOOTH = Problem(alpha=0, L0=1.5, B=0.4, G=0.7, gap=3.0)
LINEAR = Problem(alpha=1, L0=1.5, L1=0.2, B=0.4, G=0.7, gap=3.0)
GROWING = GrowingSteps(SMOOTH, first=1e-3, ratio=100.0, steps=300)


def by_definition(growing: GrowingSteps, k: int) -> dict[str, Any]:
    """The theorem's formula, with sums over the steps, to 60 digits."""
    problem = growing.problem
    with mp.workdps(60):
        gamma = [mpf(growing.first) * mpf(growing.ratio) ** (mpf(i) / growing.steps) for i in range(growing.steps)]
        eta = (sum(gamma) ** 2 / sum(g**2 for g in gamma)) ** (-mpf(2) / 3)
        gamma = gamma[:k]
        S = sum(gamma)
        step = sum(g**2 for g in gamma) / S
        travelled = sum(g * sum(gamma[:i]) for i, g in enumerate(gamma)) / S
        reach = mpf(problem.L1 or 0) * gamma[-1]
        left = 1 - reach * mp.exp(reach) * (2 * (1 - eta) / eta + mpf(1) / 2)
        L0 = problem.L0 * mp.exp(reach)
        noise = 2 * mp.sqrt(eta / (2 - eta))
        terms = {
            "gap": problem.gap / S,
            "initial error": 2 * problem.G * sum(g * (1 - eta) ** i for i, g in enumerate(gamma)) / S,
            "drift": 2 * L0 * step * (1 - eta) / eta,
            "noise": noise * problem.G,
            "noise growth": noise * problem.B * travelled,
            "curvature": L0 * step / 2,
        }
        return {name: float(value / left) for name, value in terms.items()}


@pytest.mark.parametrize("problem", [SMOOTH, LINEAR], ids=["smooth", "linear"])
@pytest.mark.parametrize(
    ("first", "ratio", "steps"), [(1e-5, 100.0, 60), (1e-7, 1e6, 40), (1e-4, 1.01, 7), (0.01, 9, 1)]
)
def test_every_term_is_that_of_the_definition(problem: Problem, first: float, ratio: float, steps: int) -> None:
    growing = GrowingSteps(problem, first, ratio, steps)
    for k in {1, 2, steps // 2, steps} - {0}:
        if k <= steps and growing.conditions(k)[0].holds:
            assert growing.terms(k) == pytest.approx(by_definition(growing, k), rel=1e-11)


def test_golden_values() -> None:
    """The best of all k in a run of a million steps, by sums over its steps in extended precision."""
    growing = GrowingSteps(SMOOTH, first=1e-6, ratio=1e6, steps=10**6)
    assert growing.best() == pytest.approx(330962, abs=20)  # the bound is flat there
    assert growing.eta == pytest.approx(3.6270917484201e-4, rel=1e-13)
    assert growing.length(330962) == pytest.approx(6.93252003984807, rel=1e-13)
    assert growing.mean_step(330962) == pytest.approx(4.88881449933930e-05, rel=1e-13)
    assert growing.bound(growing.best()) == pytest.approx(0.893771979194546, rel=1e-13)


def test_the_effective_number_of_steps_is_what_the_page_says() -> None:
    """(Σ γ)²/Σ γ², at least 1, at most k, growing with k; of the whole run 2K/log ϱ but for (ϱ − 1)/(ϱ + 1)."""
    for ratio in (1.001, 3.0, 1e4, 1e12):
        for steps in (1, 2, 17, 1000):
            growing = GrowingSteps(SMOOTH, 0.1, ratio, steps)
            worth = [growing.effective_steps(k) for k in range(1, steps + 1)]
            gamma = 0.1 * ratio ** (np.arange(steps) / steps)
            np.testing.assert_allclose(worth, np.cumsum(gamma) ** 2 / np.cumsum(gamma**2), rtol=1e-9)
            assert np.all(np.diff(worth) >= 0)
            assert worth[0] == pytest.approx(1)
            assert worth[-1] >= 2 * steps / math.log(ratio) * (ratio - 1) / (ratio + 1) * (1 - 1e-12)
            assert growing.eta == pytest.approx(worth[-1] ** (-2 / 3))
            np.testing.assert_allclose(growing.length(steps), gamma.sum(), rtol=1e-12)


@pytest.mark.parametrize(("problem", "kind"), [(SMOOTH, MomentumSmooth), (LINEAR, MomentumFeedback)])
def test_steps_that_hardly_grow_have_the_bound_of_one_length(problem: Problem, kind: Any) -> None:
    growing = GrowingSteps(problem, 1e-4, 1 + 1e-12, 500)
    assert growing.bound(500) == pytest.approx(kind(problem, 1e-4, growing.eta, problem.G, 500).bound, rel=1e-9)


def test_the_best_k_costs_no_more_than_the_overhead_over_the_run_of_any_one_gamma() -> None:
    """Searched over problems, runs and γ, far outside the range too; the search comes close to it."""
    rng, closest = np.random.default_rng(0), 0.0
    for _ in range(300):
        L0, B, G, gap, first = (float(10 ** rng.uniform(-3, 3)) for _ in range(5))
        problem = Problem(alpha=0, L0=L0, B=B, G=G * rng.integers(2), gap=gap)
        growing = GrowingSteps(problem, first * 1e-3, float(10 ** rng.uniform(0.01, 9)), int(10 ** rng.uniform(0, 6)))
        lowest_bound, worth = growing.bound(growing.best()), growing.effective_steps(growing.steps)
        for gamma in growing.first * 10 ** rng.uniform(-3, 12, 30):
            tuned = one_length(problem, float(gamma), growing.eta, worth)
            ratio = lowest_bound / (overhead(growing, float(gamma)) * tuned)
            assert ratio <= 1 + 1e-9
            closest = max(closest, ratio)
    assert closest > 0.95


def overhead(growing: GrowingSteps, gamma: float) -> float:
    """c(γ) of paper/proofs/upper_bounds.md: what the best k costs over S1 of T_K steps of length γ."""
    if gamma > (longest := growing.mean_step(growing.steps)):
        return gamma / longest
    start = growing.first / gamma
    return (1 + start) * (math.exp(growing.rate) + start / growing.effective_steps(growing.steps))


def one_length(problem: Problem, gamma: float, eta: float, T: float) -> float:
    """S1 for T steps of one length, T any real number ≥ 1."""
    forgotten = 1.0 if eta == 1 else -math.expm1(T * math.log1p(-eta))
    bent = problem.constant("nsgdm", "L0") * gamma
    return (
        problem.gap / (gamma * T)
        + 2 * problem.G * forgotten / (eta * T)
        + 2 * bent * (1 - eta) / eta
        + 2 * math.sqrt(eta / (2 - eta)) * (problem.G + problem.B * gamma * (T - 1) / 2)
        + bent / 2
    )


def test_the_bound_of_one_length_is_S1() -> None:
    assert one_length(SMOOTH, 0.01, 0.1, 50) == pytest.approx(MomentumSmooth(SMOOTH, 0.01, 0.1, 0.7, 50).bound)


@pytest.mark.parametrize(("L0", "B"), [(1.5, 0.4), (0.01, 3.0)])
def test_to_leading_order_the_bound_is_that_of_the_page(L0: float, B: float) -> None:
    """2 √(Δ (B/√2 + 2 L0)) T^(−1/6), and with the best η of the order (L0 B² Δ³/T)^(1/6)."""
    growing = GrowingSteps(replace(SMOOTH, L0=L0, B=B), first=1e-80, ratio=1e20, steps=10**80)
    T = growing.effective_steps(growing.steps)
    leading = 2 * math.sqrt(SMOOTH.gap * (B / math.sqrt(2) + 2 * L0)) * T ** (-1 / 6)
    assert growing.bound(growing.best()) / leading == pytest.approx(1, rel=1e-6)
    eta = (L0 / (B * T)) ** (2 / 3)

    def bound(way: float) -> float:
        return one_length(growing.problem, way / T, eta, T)

    ratio = bound(lowest(bound, 1.0, 1e30)) / (L0 * B**2 * SMOOTH.gap**3 / T) ** (1 / 6)
    assert ratio == pytest.approx(2 * math.sqrt(1 / math.sqrt(2) + 2), rel=1e-6)


# Runs of the method, by hand and in the simulator.


def waves(x: np.ndarray) -> np.ndarray:
    """Σ 1 − cos x_i, which is 1-smooth and not convex."""
    return np.asarray(np.sum(1 - np.cos(x), axis=-1))


PROBLEMS: dict[str, tuple[Any, Any, np.ndarray]] = {  # f, ∇f and x⁰
    "quadratic": (lambda x: np.sum(x**2, axis=-1) / 2, lambda x: x, np.full(3, 1.2)),
    "waves": (waves, np.sin, np.full(3, 2.0)),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(("first", "ratio"), [(1e-3, 100.0), (1e-2, 30.0)])
def test_every_inequality_of_the_proof_holds_in_runs(name: str, first: float, ratio: float) -> None:
    """Distance, descent, error of v, the bound for every k, and the point that is selected; 400 seeds, 4 σ."""
    value, gradient, start = PROBLEMS[name]
    rng, seeds, steps, B, G = np.random.default_rng(3), 400, 300, 0.5, 0.3
    problem = Problem(alpha=0, L0=1.0, B=B, G=G, gap=float(value(start)))
    growing = GrowingSteps(problem, first, ratio, steps)
    gamma, eta = first * ratio ** (np.arange(steps) / steps), growing.eta

    def oracle(x: np.ndarray) -> np.ndarray:
        """Rare noise of a variance of exactly B² r² + G²: two of a hundred samples have it all."""
        spread = np.sqrt(B**2 * np.sum((x - start) ** 2, axis=-1) + G**2)
        sign = rng.choice([-1.0, 0.0, 1.0], p=[0.01, 0.98, 0.01], size=seeds)
        direction = rng.normal(size=x.shape)
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        return np.asarray(gradient(x) + (spread * sign / math.sqrt(0.02))[:, None] * direction)

    x, kept = np.tile(start, (seeds, 1)), np.tile(start, (seeds, 1))
    v, norms, errors = oracle(x), [], []
    candidates, points = [], growing.select(6, 40).checkpoints
    for k in range(steps):
        errors.append(np.linalg.norm(v - gradient(x), axis=-1))
        norms.append(np.linalg.norm(gradient(x), axis=-1))
        here = rng.random(seeds) < gamma[k] / growing.length(k + 1)  # uniform along the way, with one point kept
        kept = np.where(here[:, None], x, kept)
        after = x - gamma[k] * v / np.linalg.norm(v, axis=-1, keepdims=True)
        descent = value(x) - value(after) - gamma[k] * (norms[k] - 2 * errors[k] - gamma[k] / 2)
        assert descent.min() >= -1e-12
        x = after
        assert np.linalg.norm(x - start, axis=-1).max() <= growing.length(k + 1) * (1 + 1e-12)
        v = (1 - eta) * v + eta * oracle(x)
        if k + 1 in points:
            candidates.append(kept)

    far = np.array([growing.length(k) for k in range(1, steps)])
    allowed = (1 - eta) ** np.arange(steps) * G + gamma * (1 - eta) / eta
    allowed += math.sqrt(eta / (2 - eta)) * (G + B * np.append(0.0, far))
    assert np.all(upper(np.array(errors)) <= allowed)
    for k in range(1, steps + 1):
        measured = gamma[:k] @ np.array(norms[:k]) / growing.length(k)
        assert upper(measured) <= growing.bound(k)
    drawn = np.array([np.linalg.norm(gradient(each), axis=-1) for each in candidates])
    assert np.all(upper(drawn) <= [growing.bound(k) for k in points])
    estimates = [np.linalg.norm(np.mean([oracle(each) for _ in range(40)], axis=0), axis=-1) for each in candidates]
    chosen = drawn[np.argmin(estimates, axis=0), np.arange(seeds)]
    assert upper(chosen) <= growing.select(6, 40).bound


def upper(values: np.ndarray) -> np.ndarray:
    """The mean over seeds and four of its standard errors."""
    return np.asarray(values.mean(axis=-1) + 4 * values.std(axis=-1) / math.sqrt(values.shape[-1]))


# Edges.


def test_selecting_costs_what_is_said_and_its_price_falls_with_the_batch() -> None:
    selection = GROWING.select(5, 100)
    assert selection.gradients == 300 + 5 * 100
    assert selection.checkpoints == (60, 120, 180, 240, 300)
    sigma = [math.sqrt(0.7**2 + (0.4 * GROWING.length(k)) ** 2) / 10 for k in selection.checkpoints]
    best = min(GROWING.bound(k) + s for k, s in zip(selection.checkpoints, sigma, strict=True))
    assert selection.bound == pytest.approx(best + math.sqrt(sum(s**2 for s in sigma)))
    at_best = min(GROWING.bound(k) for k in selection.checkpoints)
    assert GROWING.select(5, 10**16).bound == pytest.approx(at_best, rel=1e-6)
    assert GROWING.select(5.0, 100.0) == replace(GROWING, steps=300.0).select(5, 100) == selection  # type: ignore[arg-type]
    assert GROWING.select(7, 1).checkpoints == (43, 86, 129, 172, 215, 258, 300)


def test_where_curvature_feeds_back_too_much_nothing_is_guaranteed() -> None:
    growing = GrowingSteps(LINEAR, 1e-5, 1e6, 400)
    last = max(k for k in range(1, 401) if growing.conditions(k)[0].holds)
    assert last < 400
    growing.bound(last)
    with pytest.raises(OutOfRange, match="k must be small enough"):
        growing.bound(last + 1)
    assert growing.best() <= last
    assert growing.select(20, 10).bound < math.inf
    with pytest.raises(OutOfRange, match="the bound of the selection"):
        growing.select(1, 10)
    assert GrowingSteps(replace(LINEAR, L1=0.0), 1e-5, 1e6, 400).bound(400) == pytest.approx(
        GrowingSteps(SMOOTH, 1e-5, 1e6, 400).bound(400)
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"first": 0.0}, "first must be finite and > 0"),
        ({"first": math.nan}, "first must be finite and > 0"),
        ({"ratio": 1.0}, "ratio must be finite and > 1"),
        ({"ratio": math.inf}, "ratio must be finite and > 1"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"problem": Problem(alpha=0, B=1, G=1, gap=1)}, "L0 must be given"),
        ({"problem": Problem(alpha=1, L0=1, B=1, G=1, gap=1)}, "L1 must be given"),
    ],
)
def test_what_the_theorem_is_not_about_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(GROWING, **wrong)


def test_the_best_k_is_the_best_of_all_k_and_has_a_bound_wherever_one_has() -> None:
    """A rounded minimiser may lie past the last k at which the condition holds."""
    rng, edges = np.random.default_rng(0), 0
    past: dict[str, Any] = {"alpha": 1, "L0": 0.0689, "L1": 0.01972, "B": 0.0578, "G": 0.333, "gap": 12.26}
    cases = [GrowingSteps(Problem(**past), 0.00909, 6.6e7, 4)]
    for _ in range(60):
        L0, L1, B, G, gap = (10 ** rng.uniform(-2, 1, size=5)).tolist()
        problem = Problem(alpha=1, L0=L0, L1=L1, B=B, G=G, gap=gap)
        cases.append(
            GrowingSteps(problem, 10 ** rng.uniform(-4, -2), 10 ** rng.uniform(1, 8), int(rng.integers(2, 40)))
        )
    for growing in cases:
        allowed = [k for k in range(1, growing.steps + 1) if growing.conditions(k)[0].holds]
        edges += 0 < len(allowed) < growing.steps
        if allowed:
            assert growing.bound(growing.best()) == pytest.approx(min(map(growing.bound, allowed)), rel=1e-9)
    assert edges > 10


@pytest.mark.parametrize("alpha", [0.3, 0.8])
def test_between_0_and_1_it_is_the_bound_of_the_best_class_of_alpha_1(alpha: float) -> None:
    problem = Problem(alpha=alpha, L0=1.5, L1=0.2, B=0.4, G=0.7, gap=3.0)
    growing = GrowingSteps(problem, 1e-5, 1e5, 1000)
    k = growing.best()
    scales = [float(scale) for scale in np.geomspace(0.3, 30, 81)]
    wider = [replace(growing, problem=in_linear_class(problem, scale)) for scale in scales]
    at_scales = [each.bound(k) for each in wider if each.conditions(k)[0].holds]
    assert growing.bound(k) == pytest.approx(min(at_scales), rel=1e-3)
    assert growing.bound(k) <= min(at_scales)
    assert growing.bound(k) == math.fsum(growing.terms(k).values())
    assert growing.conditions(k)[0].holds
    smooth, linear = (replace(growing, problem=replace(problem, alpha=edge)) for edge in (0, 1))
    assert smooth.bound(k) < growing.bound(k)
    nearly = replace(growing, problem=replace(problem, alpha=1 - 1e-9))
    assert nearly.bound(k) == pytest.approx(linear.bound(k), rel=1e-6)


def test_other_arguments_are_checked() -> None:
    assert len(GROWING.select(300, 1).checkpoints) == 300
    with pytest.raises(ValueError, match="candidates must be"):
        GROWING.select(301, 1)
    with pytest.raises(ValueError, match="batch must be"):
        GROWING.select(3, 0)
