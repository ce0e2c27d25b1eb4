"""The empirical sentences of the paper's section 6, each with the test that decides it.

A claim is decided by a 95 % confidence interval over seeds, taken claim by claim: exact (Clopper and Pearson) for the
probability that one method beats another on the same seed, Student's for means. What the interval does not exclude is
not decided: *cannot tell*.

A new claim is a function here that makes a `Claim`, with `_mean_within` or `_pairwise` where these fit, and an entry in
the `claims` of an experiment.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from evidence.reproduction.results import (
    DYNAMIC,
    EQUAL_STEP,
    MAIN,
    NORMALIZED,
    NSGDM,
    NSTORM,
    SGD,
    TUNING,
    Results,
    last_tenth,
)
from gladstorm.comparison.scores import at, within
from gladstorm.core.statistics import mean_of, share_interval
from gladstorm.simulation.record import Record

HOLDS: Final = "holds"
FAILS: Final = "does not hold"
UNDECIDED: Final = "cannot tell"

STABLE_GROWTH: Final = 0.02  # of ‖x−x⁰‖² over the last tenth of a run; straight-line motion would grow by 0.23
WANDERING: Final = 0.1  # standard deviation of ‖x−x⁰‖² over the second half of a run, relative to its mean
ABOUT_A_THOUSAND: Final = (500, 2000)


@dataclass(frozen=True)
class Decision:
    """A verdict of the data on a claim."""

    verdict: str
    estimate: float | None
    ci: tuple[float, float] | None
    seeds: int
    detail: str


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, how it is read, and the test: results and a number of seeds to a decision."""

    id: str
    statement: str
    reading: str
    test: Callable[[Results, int], Decision]


Pair = tuple[np.ndarray, np.ndarray]  # of NSTORM and of NSGDM, seed by seed


def lower_gradient_norm(statement: str) -> tuple[Claim, ...]:
    """NSTORM ends below NSGDM: the sentence as a whole, then every way to read it."""
    ways: dict[str, tuple[str, str, Callable[[Results], Pair]]] = {
        "final": ("last iterate", "‖∇f(x^K)‖ of the last iterate, equal iterations", lambda r: _both(r, _end)),
        "last10": (
            "last tenth",
            "mean of ‖∇f‖ over the last tenth of the iterates, equal iterations",
            lambda r: _both(r, lambda record: last_tenth(record)[0]),
        ),
        "mean": (
            "all iterates",
            "mean of ‖∇f‖ over all iterates (the theorems' E‖∇f(x̂)‖), equal iterations",
            lambda r: _both(r, lambda record: record.mean_grad_norm[0, :, -1]),
        ),
        "equal-calls": (
            "equal gradients",
            "‖∇f‖ after as many stochastic gradients as NSGDM computes, the paper's schedules",
            lambda r: (_when_spent(r.runs(MAIN, NSTORM), r.config["budget"]), _end(r.runs(MAIN, NSGDM))),
        ),
        "equal-budget": (
            "equal budget",
            "the last iterate, NSTORM scheduled for NSGDM's number of stochastic gradients",
            lambda r: (_end(r.at_budget(NSTORM)), _end(r.runs(MAIN, NSGDM))),
        ),
        "equal-step": (
            "equal step size",
            "the last iterate, equal iterations, NSGDM given NSTORM's γ",
            lambda r: (_end(r.runs(MAIN, NSTORM)), _end(r.runs(EQUAL_STEP, NSGDM))),
        ),
    }
    readings = tuple(
        Claim(f"nstorm-below-nsgdm-{suffix}", statement, reading, _pairwise(pair))
        for suffix, (_, reading, pair) in ways.items()
    )

    def whole(results: Results, seeds: int) -> Decision:
        decisions = {
            name: claim.test(results, seeds) for (name, *_), claim in zip(ways.values(), readings, strict=True)
        }
        final = decisions["last iterate"]
        by_verdict = {
            verdict: [name for name, decision in decisions.items() if decision.verdict == verdict]
            for verdict in (HOLDS, FAILS, UNDECIDED)
        }
        words = "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in by_verdict.items() if names)
        decided = [verdict for verdict, names in by_verdict.items() if names]
        verdict = decided[0] if len(decided) == 1 else f"depends on the reading ({words})"
        return Decision(verdict, final.estimate, final.ci, final.seeds, f"Last iterate: {final.detail}")

    sentence = Claim("nstorm-below-nsgdm", statement, "all readings below taken together; numbers: last iterate", whole)
    return (sentence, *readings)


def _end(record: Record) -> np.ndarray:
    return np.asarray(record.grad_norm[0, :, -1])


def _when_spent(record: Record, budget: int) -> np.ndarray:
    return np.asarray(at(record.grad_norm, within(record, budget))[0])


def _both(results: Results, measured: Callable[[Record], np.ndarray]) -> Pair:
    return measured(results.runs(MAIN, NSTORM)), measured(results.runs(MAIN, NSGDM))


def _pairwise(pair: Callable[[Results], Pair]) -> Callable[[Results, int], Decision]:
    def test(results: Results, seeds: int) -> Decision:
        storm, momentum = (values[:seeds] for values in pair(results))
        wins, n = int(np.sum(storm < momentum)), storm.size
        low, high = share_interval(wins, n)
        verdict = HOLDS if low > 0.5 else FAILS if high < 0.5 else UNDECIDED
        detail = (
            f"NSTORM is below NSGDM on {wins} of {n} seeds; mean {_short(storm)} against {_short(momentum)}, the "
            f"difference seed by seed {_difference(storm - momentum)}. The estimate is the probability that it is "
            "below; to hold, the interval must lie above 1/2."
        )
        return Decision(verdict, wins / n, (low, high), n, detail)

    return test


def drift_stabilises(statement: str) -> tuple[Claim, ...]:
    """‖x^k − x⁰‖² stops growing, for each normalized method."""

    def growth(method: str) -> Callable[[Results, int], Decision]:
        def test(results: Results, seeds: int) -> Decision:
            record = results.runs(MAIN, method)
            before = np.searchsorted(record.steps, 0.9 * record.steps[-1])
            values = (record.drift2[0, :, -1] / record.drift2[0, :, before] - 1)[:seeds]
            words = "relative growth of ‖x−x⁰‖² over the last tenth; 0.23 is motion in a straight line"
            return _mean_within(values, -np.inf, STABLE_GROWTH, words)

        return test

    reading = f"‖x−x⁰‖² grows by less than {STABLE_GROWTH:.0%} over the last tenth of the run"
    return tuple(
        Claim(f"drift-stabilises-{method.lower()}", statement, f"{method}: {reading}", growth(method))
        for method in NORMALIZED
    )


def single_sample_sgd_drifts(statement: str) -> Claim:
    """SGD with single samples wanders, at the tuned step size and along its grid."""

    def wandering(record: Record) -> np.ndarray:
        second_half = record.drift2[..., np.searchsorted(record.steps, record.steps[-1] / 2) :]
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(second_half.std(axis=-1) / second_half.mean(axis=-1))

    def test(results: Results, seeds: int) -> Decision:
        words = "standard deviation of ‖x−x⁰‖² over the second half of a run, relative to its mean"
        tuned = _mean_within(wandering(results.runs(MAIN, SGD))[0, :seeds], WANDERING, np.inf, words)
        along = np.nan_to_num(wandering(results.runs(TUNING, SGD)), nan=np.inf).mean(axis=-1)
        picked = results.config["step_sizes"][SGD]
        # Below the tuned step size a run is still on its way: what varies there is its progress.
        wild = [
            gamma
            for gamma, spread in zip(results.step_sizes(TUNING, SGD), along, strict=True)
            if gamma > picked and spread > WANDERING
        ]
        grid = ", ".join(f"{gamma:g}" for gamma in sorted(wild)) or "none"
        verdict = tuned.verdict
        if wild and verdict == FAILS:
            verdict = f"depends on the step size (from γ = {min(wild):g} on, not at the tuned {picked:g})"
        detail = f"{tuned.detail} Larger step sizes of the grid at which it is above {WANDERING}: {grid}."
        return Decision(verdict, tuned.estimate, tuned.ci, tuned.seeds, detail)

    reading = f"at its tuned step size ‖x−x⁰‖² varies by more than {WANDERING:.0%} over the second half of the run"
    return Claim("single-sample-sgd-drifts", statement, reading, test)


def grows_to_a_thousand(statement: str) -> Claim:
    """Dynamic batches of the order of 10³."""
    low, high = ABOUT_A_THOUSAND

    def test(results: Results, seeds: int) -> Decision:
        largest = np.maximum(*(results.runs(MAIN, method).max_batch[0, :, -1][:seeds] for method in DYNAMIC))
        words = "largest batch of either baseline; B and σ², our choices, set it: N ≈ B²‖x−x⁰‖²/σ²"
        return _mean_within(largest.astype(float), low, high, words)

    return Claim("dynamic-batches-grow-to-1000", statement, f"the largest batch is between {low} and {high}", test)


def grows_tenfold(statement: str) -> Claim:
    """Dynamic batches that grow by over an order of magnitude."""

    def test(results: Results, seeds: int) -> Decision:
        records = [results.runs(MAIN, method) for method in DYNAMIC]
        ratios = [(record.max_batch[0, :, -1] / record.batch[0, :, 0])[:seeds] for record in records]
        words = "largest batch relative to the first, the smaller of both baselines; B and σ² are our choices"
        return _mean_within(np.minimum(*ratios), 10, np.inf, words)

    return Claim("dynamic-batches-grow-tenfold", statement, "the largest batch is over 10 times the first", test)


def batch_stays_one(statement: str) -> Claim:
    """The normalized methods use one sample per step."""

    def test(results: Results, seeds: int) -> Decision:
        records = [results.runs(MAIN, method) for method in NORMALIZED]
        largest = max(int(record.batch[0, :seeds, 1:].max()) for record in records)
        n = min(seeds, records[0].seeds.size)
        first = int(records[1].batch[0, 0, 0])
        detail = f"Largest batch after the first estimate: {largest}. NSTORM's first estimate averages {first} samples."
        return Decision(HOLDS if largest == 1 else FAILS, float(largest), None, n, detail)

    return Claim("normalized-methods-keep-batch-one", statement, "every batch after the first estimate is 1", test)


def _mean_within(values: np.ndarray, low: float, high: float, what: str) -> Decision:
    """Whether the mean over seeds lies between two numbers, by Student's interval."""
    n, mean = values.size, float(values.mean())
    detail = f"Mean over {n} seeds of the {what}."
    if not np.isfinite(values).all():
        return Decision(UNDECIDED, None, None, n, f"{detail} Some runs diverged.")
    if n == 1:
        return Decision(UNDECIDED, mean, None, n, detail)
    ci = mean_of(values).interval()
    inside, beyond = low < ci[0] and ci[1] < high, ci[1] < low or ci[0] > high
    return Decision(HOLDS if inside else FAILS if beyond else UNDECIDED, mean, ci, n, detail)


def _difference(paired: np.ndarray) -> str:
    """The mean of a paired difference with its interval: wins and means need not say the same."""
    if paired.size == 1 or not np.isfinite(paired).all():
        return "without interval"
    mean = mean_of(paired)
    return "{:.3g} ({:.3g} to {:.3g})".format(mean.value, *mean.interval())


def _short(values: Any) -> str:
    return f"{np.mean(values):.3g} ± {np.std(values, ddof=1) if np.size(values) > 1 else 0:.2g}"
