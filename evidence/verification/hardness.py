"""How many stochastic gradients the methods need on hard instances as ε falls, beside what any method needs.

Every method has two numbers to tune, each over three values: its step size, in units of the instance's own length λ or
of 1/L, and η, or the variance that dynamic batches keep. Both are chosen by the median over seeds that are not
reported; the lower bound holds for every choice. Counts are read off at recorded steps, so they are up to a few per
cent too large.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from evidence.page import log_slope_weights
from evidence.verification.cases import Case
from evidence.verification.checks import Check, NotAbove, PartResult, Parts, checked, level_of_each, rounded
from evidence.verification.hard_instances import ChainOracle, GatedRunway, ZeroChain
from evidence.verification.settings import APART, Tuned, VerificationSettings
from gladstorm.comparison.scores import at, in_json, ratio
from gladstorm.core.statistics import mean_of
from gladstorm.methods import Method, nsgdm, nstorm, sgd
from gladstorm.methods.batches import GrowWithDistance
from gladstorm.problems.hard.zero_chain import LARGEST, progress
from gladstorm.simulation.record import Record
from gladstorm.simulation.simulate import run

ETAS: Final = (0.03, 0.1, 0.3)
SEEDS: Final = 16
TUNING_SEEDS: Final = 4
PATIENCE: Final = 6  # standard deviations of the wait for all links that single-sample methods are given
DYNAMIC_STEPS: Final = 4000
MULTIPLES: Final = (0.3, 1.0, 3.0)  # of λ: longer steps wait for the next link all the same, shorter ones take longer
DYNAMIC_MULTIPLES: Final = (100.0, 300.0, 1000.0)  # of 1/L
SIGMA2S: Final = (0.3, 1.0, 3.0)  # of (46 ε)²
FEWEST: Final = 3  # values of ε an exponent is fitted to
MEANING: Final = {
    "chain progress": "The coordinates of a zero-chain that a run has reached, divided by p times the samples drawn, "
    "are at most 1 on average for every method that stays in the span of what it was shown. A method that never keeps "
    "the chain waiting attains 1, so the claim is only that the interval does not lie above 1.",
}


@dataclass(frozen=True)
class Hard:
    """An instance for one ε, with the noise bound its oracle keeps."""

    name: str
    oracle: ChainOracle
    length: int  # T of the chain
    B: float
    G: float

    @property
    def needed(self) -> float:
        """(T − log 2)/(2p): with fewer samples a zero-respecting method is done with probability < 1/2."""
        return (self.length - math.log(2)) / (2 * float(self.oracle.p))

    def methods(self) -> dict[str, Tuned]:
        """NSGDM, NSTORM, and SGD whose batches keep the variance near (46 ε)²; each with steps enough."""
        f = self.oracle.objective
        links = self.length + 1  # each is waited for 1/p samples, give or take 1/p
        patient = 1000 + math.ceil((links + PATIENCE * math.sqrt(links)) / float(self.oracle.p))
        gammas = tuple(multiple * float(f.scale) for multiple in MULTIPLES)
        dynamic = tuple(multiple / float(f.L) for multiple in DYNAMIC_MULTIPLES)
        sigma2s = tuple(multiple * (2 * LARGEST * float(f.eps)) ** 2 for multiple in SIGMA2S)
        return {
            "NSGDM": Tuned(nsgdm, gammas, ETAS, patient),
            "NSTORM": Tuned(nstorm, gammas, ETAS, patient),
            "SGD, dynamic batch": Tuned(self._dynamic, dynamic, sigma2s, DYNAMIC_STEPS),
        }

    def _dynamic(self, gamma: Any, sigma2: Any) -> Method:
        return sgd(gamma, batch=GrowWithDistance(self.B, self.G, sigma2=sigma2))


def chain(eps: float, *, L: float = 1.0, gap: float = 1.0, G: float = 1.0) -> Hard:
    """Bounded variance: the zero-chain for ε."""
    objective = ZeroChain.of(L, gap, eps)
    return Hard("zero-chain", ChainOracle.with_variance(objective, G**2), np.size(objective.start), 0.0, G)


def runway(eps: float, *, L: float = 1.0, gap: float = 1.0, B: float = 0.2, G: float = 0.2) -> Hard:
    """BG-0 noise: the gated runway for ε, where nothing is noisy closer to x⁰ than R/2. What it needs grows like B²."""
    objective = GatedRunway.of(L, gap, eps)
    sigma2 = B**2 * float(objective.runway) ** 2 / 4 + G**2
    # Of the coordinates the first is the runway.
    return Hard("gated runway", ChainOracle.with_variance(objective, sigma2), np.size(objective.start) - 1, B, G)


STUDY: Final[tuple[tuple[Callable[[float], Hard], float], ...]] = (
    *((chain, eps) for eps in (0.0057, 0.004, 0.0028, 0.002, 0.0014, 0.001)),
    *((runway, eps) for eps in (0.003, 0.0025, 0.002, 0.0016)),
)
COMPARISONS: Final = 2 * len(STUDY)  # of NSTORM and of dynamic batches with NSGDM


def parts(_selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """How far a chain is seen, and every instance."""
    yield "chain progress", partial(checked, progress_checks, 40, settings)
    for instance, eps in STUDY:
        yield f"{instance.__name__}, ε = {eps}", partial(measure, instance(eps), settings.seed)


def measure(hard: Hard, first_seed: int) -> PartResult:
    """Measure the runs on one hard instance."""
    return PartResult(rows={"hard instances": rows(hard, first_seed)})


def rows(hard: Hard, first_seed: int) -> list[dict[str, Any]]:
    """Every method on one instance: SFO until ‖∇f‖ ≤ ε; the median is None if half of the runs do not arrive."""
    eps = float(hard.oracle.objective.eps)
    results: list[dict[str, Any]] = []
    counts: dict[str, np.ndarray] = {}
    for label, tuned in hard.methods().items():
        gamma, second = tuned.grid()
        tuning = range(first_seed + APART, first_seed + APART + TUNING_SEEDS)
        medians = np.median(_counts(hard, tuned, gamma, second, tuning), axis=1)
        best = int(np.argmin(medians))
        reported = range(first_seed, first_seed + SEEDS)
        counts[label] = _counts(hard, tuned, gamma[best : best + 1], second[best : best + 1], reported)[0]
        relative = in_json(ratio(counts[label], counts["NSGDM"], COMPARISONS))
        results.append(
            {"instance": hard.name, "eps": eps, "length": hard.length, "p": rounded(float(hard.oracle.p))}
            | {"B": hard.B, "G": hard.G, "method": label, "seeds": SEEDS, "needed": rounded(hard.needed)}
            | {"gamma": rounded(float(gamma[best])), "second": rounded(float(second[best]))}
            | {"sfo": rounded(float(np.median(counts[label]))), "tuning_seeds": TUNING_SEEDS}
            | {"tried": [[rounded(float(each)) for each in row] for row in medians.reshape(len(tuned.gammas), -1)]}
            | {"per_seed": [rounded(float(count)) for count in counts[label]]}
            | {"relative": [None if end is None else rounded(end) for end in relative.values()]}
        )
    return results


def _counts(hard: Hard, tuned: Tuned, gamma: np.ndarray, second: np.ndarray, seeds: range) -> np.ndarray:
    record = run(hard.oracle, tuned.made(gamma, second), steps=tuned.steps, seeds=seeds, progress=False)
    return sfo_until(record, float(hard.oracle.objective.eps))


def exponents(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Powers of 1/ε with which the SFO of each method and what is needed grow, where all runs arrive.

    Least squares on logarithms, seed by seed: instances share their noise and are not independent. Student's intervals
    over the seeds are all valid at the same time with probability 1 − `FAMILY`.
    """
    fitted = []
    for instance, method in dict.fromkeys((row["instance"], row["method"]) for row in results):
        own = [row for row in results if (row["instance"], row["method"]) == (instance, method)]
        done = [row for row in own if None not in row["per_seed"]]
        if len(done) >= FEWEST:
            weights = -log_slope_weights([row["eps"] for row in done])  # against log 1/ε
            slope = mean_of(weights @ np.log([row["per_seed"] for row in done]))
            needed = float(weights @ np.log([row["needed"] for row in done]))
            fitted.append((instance, method, len(done), slope, needed))
    level = level_of_each(len(fitted))
    return [
        {"instance": instance, "method": method, "accuracies": count}
        | {"measured": slope.value, "interval": slope.interval(level), "needed": needed}
        for instance, method, count, slope, needed in fitted
    ]


def sfo_until(record: Record, eps: float) -> np.ndarray:
    """Stochastic gradients until ‖∇f(x^k)‖ ≤ eps at a recorded step, (label, seed); infinite where that never is."""
    reached = record.best_grad_norm <= eps
    first = np.argmax(reached, axis=-1)
    return np.where(reached.any(axis=-1), at(record.sfo, first), np.inf)


def progress_checks(length: int, settings: VerificationSettings) -> Iterator[Check]:
    """Check that a method reaches on average at most p coordinates of a chain for every sample it draws."""
    p, eps, steps = 0.02, 0.01, 500
    oracle = ChainOracle(ZeroChain(np.zeros(length), 1.0, eps), p)
    scale = float(oracle.objective.scale)
    methods = {"nsgdm": nsgdm(scale, 0.1), "nstorm": nstorm(scale, 0.1), "sgd": sgd(10.0)}
    for number, (name, method) in enumerate(methods.items()):
        # All of them wait for the same coins: with the same seeds they would be one number.
        record = settings.apart(number).simulate(oracle, method, steps + 1)
        reached = np.asarray(progress(record.last[0])) / (p * (steps + 1))
        yield Check(name, f"zero-chain of {length}", "chain progress", steps + 1, mean_of(reached), NotAbove(1.0))
