"""How many iterates two schedules are guaranteed to need, and how many stochastic gradients methods take.

Every method has two numbers to tune, each over three to five values: its step size, in units of the problem's own
lengths, and η, or the size of its large batches. Both are chosen by the median over seeds that are not reported.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from scipy import stats

from evidence.page import log_slope_weights
from evidence.results import Part, gathered
from evidence.verification.checks import rounded
from evidence.verification.hardness import sfo_until
from gladstorm import theory
from gladstorm.jobs.provenance import versions
from gladstorm.jobs.tasks import HERE, Executor, Store, Task
from gladstorm.methods import Method, normalized_spider, nsgdm, nstorm, pasta, sgd
from gladstorm.methods.batches import GrowWithDistance
from gladstorm.problems.objectives import NoisyRunway
from gladstorm.problems.oracles import NoisyRunwayOracle
from gladstorm.simulation.simulate import run
from gladstorm.theory.search import first

FORMAT: Final = "gladstorm optimality 1"
PLANNED: Final = {"alpha": 0.5, "L0": 1.0, "L1": 1.0, "B": 1.0, "G": 1.0, "gap": 1.0}
ACCURACY: Final = 1e-7
VARIED: Final = ("L0", "L1", "B", "G", "gap")
FACTORS: Final = (0.01, 0.1, 1.0, 10.0, 100.0)
ALPHAS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
HARD: Final = {"L0": 1.0, "L1": 795.0, "B": 0.25, "gap": 1.0}  # 15 to 30 links; T is rounded, p is not
EPS: Final = tuple(0.0105 * 2 ** (-j / 4) for j in range(5))
HARD_ALPHAS: Final = (0.25, 0.5, 1.0)
FIRST_SEED, SEEDS = 2000, 12  # reported; none of them was seen while the grids were made
FIRST_TUNING_SEED, TUNING_SEEDS = 100_000, 3
PATIENCE: Final = 12  # times `needed` that a run may take while settings are tried, …
REPORTED: Final = 3  # … and so many times longer if it is reported
RESAMPLED: Final = 2000  # times, for intervals
QUANTILES: Final = (0.05, 0.5, 0.95)
ETAS: Final = (0.001, 0.004, 0.016, 0.064)
MULTIPLES: Final = (1.0, 3.0, 10.0, 30.0, 100.0)  # of λ
PLAIN_MULTIPLES: Final = (0.3, 1.0, 3.0)  # of λ/ε
SHARES: Final = (0.3, 1.0, 3.0, 10.0)  # of 1/p
VARIANCES: Final = (1.0, 3.0, 10.0, 30.0, 100.0)  # of (46 ε)²
PERIOD: Final = 10  # of SPIDER's large batches, each ten times a small one


def optimality(
    *, quick: bool, simulate: bool, store: str | os.PathLike[str] | None = None, executor: Executor = HERE
) -> dict[str, Any]:
    """Everything, JSON-ready: the two schedules, what the hard problem needs, and what methods took if asked for."""
    eps = 1e-3 if quick else ACCURACY
    varied: dict[str, tuple[float, ...]] = dict.fromkeys(VARIED, (1.0, 10.0) if quick else FACTORS)
    varied["alpha"] = ALPHAS[:: 6 if quick else 1]
    settings = [(name, value) for name, values in varied.items() for value in values]
    hard = [(alpha, each) for alpha in HARD_ALPHAS for each in EPS]
    different = list({tuple(sorted((PLANNED | {name: value}).items())): None for name, value in settings})
    tasks = [Task(str(dict(each)), [eps, each], partial(_planned, eps, dict(each))) for each in different]
    if simulate:
        for alpha, each in [(1.0, 0.0105)] if quick else hard:
            for method in list(METHODS)[: 1 if quick else None]:
                constants = HARD | {"alpha": alpha, "eps": each} | ({"L1": 100.0} if quick else {})
                name = f"{method}, α = {alpha:g}, ε = {each:.4g}"
                tasks.append(Task(name, [method, constants], partial(measured, method, constants)))
    finished = None if store is None else Store(store, Part, ".json")
    results = gathered("planning and measuring", tasks, finished, executor)
    horizons = {each: part.content for each, part in zip(different, results, strict=False)}
    plans = [
        {"varied": name, "value": value} | horizons[tuple(sorted((PLANNED | {name: value}).items()))]
        for name, value in settings
    ]
    runs = [part.content for part in results[len(different) :]]
    needed = [ideal(alpha, each) for alpha, each in hard]
    return {"eps": eps, "versions": versions(), "plans": plans, "needed": needed, "measured": runs}


def _planned(eps: float, constants: dict[str, Any]) -> Part:
    """The iterates that guarantee ε: by the paper's theorem for α, by the best of its theorems, and with S9."""
    own = theory.theorem("nstorm", theory.Problem(**constants))
    alone = first(lambda T: own.tune_gamma0(T).bound(T) <= eps)
    best = theory.plan("nstorm", eps=eps, eta0=1.0, **constants)
    ours = theory.plan("nstorm", eps=eps, **constants)
    horizons = {"Theorem 2(ii)": alone, "paper's best": best.horizon, "S9": ours.horizon}
    return Part({name: None if T is None else float(T) for name, T in horizons.items()})


def ideal(alpha: float, eps: float) -> dict[str, Any]:
    """Compute what the problem for ε needs, and the law T + NB(T, p) of a method that waits for nothing but T coins."""
    numbers = NoisyRunway.from_eps(eps=eps, alpha=alpha, **HARD).numbers
    waited = stats.nbinom(numbers.length, numbers.p)
    law = {"mean": numbers.length / numbers.p, "quantiles": [float(waited.ppf(q)) + numbers.length for q in QUANTILES]}
    return {
        "alpha": alpha,
        "eps": eps,
        "links": numbers.length,
        "p": rounded(numbers.p),
        "needed": rounded(numbers.needed),
    } | {"ideal": law}


def _grid(first: Sequence[float], second: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    both = np.meshgrid(first, second, indexing="ij")
    return both[0].ravel(), both[1].ravel()


def _normalized(made: Callable[..., Method], calls: int) -> Callable[[Any], tuple[Any, ...]]:
    def tried(numbers: Any) -> tuple[Any, ...]:
        gamma, eta = _grid([each * numbers.scale for each in MULTIPLES], ETAS)
        return partial(made), gamma, eta, math.ceil(PATIENCE * numbers.needed / calls)

    return tried


def _spider(numbers: Any) -> tuple[Any, ...]:
    gamma, large = _grid([each * numbers.scale for each in MULTIPLES], [math.ceil(each / numbers.p) for each in SHARES])
    small = np.maximum(1, large // PERIOD)
    cost = large / PERIOD + 2 * small * (1 - 1 / PERIOD)  # stochastic gradients a step

    def made(gamma: Any, large: Any) -> Method:
        return normalized_spider(gamma, PERIOD, large, small=np.maximum(1, large // PERIOD))

    return made, gamma, large, math.ceil(PATIENCE * numbers.needed / cost.min())


def _dynamic(made: Callable[..., Method]) -> Callable[[Any], tuple[Any, ...]]:
    def tried(numbers: Any) -> tuple[Any, ...]:
        gamma, sigma2 = _grid(
            [each * numbers.scale / numbers.eps for each in PLAIN_MULTIPLES],
            [each * (46 * numbers.eps) ** 2 for each in VARIANCES],
        )
        steps = math.ceil(4 * numbers.runway / (PLAIN_MULTIPLES[0] * numbers.scale)) + 40 * numbers.length
        return partial(made, numbers.B), gamma, sigma2, steps

    return tried


def _with_dynamic_batches(B: float, gamma: Any, sigma2: Any) -> Method:
    return sgd(gamma, batch=GrowWithDistance(B, 0.0, sigma2=sigma2))


def _pasta(B: float, gamma: Any, sigma2: Any) -> Method:
    return pasta(gamma, B, 0.0, sigma2, p=0.1, small=8)


METHODS: Final[dict[str, Callable[[Any], tuple[Any, ...]]]] = {
    "NSTORM": _normalized(nstorm, 2),
    "NSGDM": _normalized(nsgdm, 1),
    "SPIDER": _spider,
    "SGD, dynamic batch": _dynamic(_with_dynamic_batches),
    "PASTA": _dynamic(_pasta),
}


def measured(method: str, constants: dict[str, float]) -> Part:
    """One method on one problem: stochastic gradients until ‖∇f‖ ≤ ε, of every seed; None if a run does not arrive."""
    oracle = NoisyRunwayOracle(NoisyRunway.from_eps(**constants))
    numbers = oracle.objective.numbers
    made, gamma, second, steps = METHODS[method](numbers)

    def counts(chosen: slice, seeds: range, steps: int) -> np.ndarray:
        record = run(
            oracle, made(gamma[chosen], second[chosen]), steps=steps, seeds=seeds, progress=False, records=1000
        )
        return sfo_until(record, constants["eps"])

    tuning = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + TUNING_SEEDS)
    best = int(np.argmin(np.median(counts(slice(None), tuning, steps), axis=1)))
    reported = counts(slice(best, best + 1), range(FIRST_SEED, FIRST_SEED + SEEDS), REPORTED * steps)[0]
    row = {"method": method, "alpha": constants["alpha"], "eps": constants["eps"], "needed": rounded(numbers.needed)}
    edge = any(each[best] in (each.min(), each.max()) for each in (gamma, second))
    tuned = {"gamma": rounded(float(gamma[best])), "second": rounded(float(second[best])), "edge": edge}
    return Part(row | tuned | {"per_seed": [rounded(float(each)) for each in reported]})


def counted(row: Mapping[str, Any]) -> list[float]:
    """The counts of a row, infinite where a run does not arrive."""
    return [math.inf if each is None else each for each in row["per_seed"]]


def exponents(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The power of 1/ε with which counts grow, for every α: of what is needed, of the ideal method, of each that ran.

    Of a method it is that of its median over seeds, where more than half of its runs arrive at every ε. The interval
    is the bootstrap's over seeds, the same ones at all ε: they share their noise.
    """
    fitted: list[dict[str, Any]] = []
    for alpha in dict.fromkeys(row["alpha"] for row in result["needed"]):
        own = [row for row in result["needed"] if row["alpha"] == alpha]
        weights = -log_slope_weights([row["eps"] for row in own])
        for name, counts in (("needed", [r["needed"] for r in own]), ("ideal", [r["ideal"]["mean"] for r in own])):
            exact: dict[str, Any] = {
                "exponent": float(weights @ np.log(counts)),
                "interval": None,
                "arrived": "",
                "times": [],
            }
            fitted.append({"alpha": alpha, "of": name} | exact)
        for method in METHODS:
            done = [row for row in result["measured"] if (row["alpha"], row["method"]) == (alpha, method)]
            if len(done) == len(own):
                fitted.append({"alpha": alpha, "of": method} | _measured_exponent(weights, done))
    return fitted


def _measured_exponent(weights: np.ndarray, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The exponent with its interval, how many runs arrived, and medians over the need; NaN if half do not arrive."""
    counts = np.array([counted(row) for row in rows])
    drawn = np.random.default_rng(0).integers(counts.shape[1], size=(RESAMPLED, counts.shape[1]))
    medians = np.median(counts, axis=1)
    again = np.log(np.median(counts[:, drawn], axis=2))
    arrived = np.isfinite(again).all(axis=0)
    slopes = weights @ np.where(arrived, again, 0.0)
    ends = (np.where(arrived, slopes, end) for end in (-math.inf, math.inf))  # one that is not known may be anything
    sides = [np.quantile(each, q, method="inverted_cdf") for each, q in zip(ends, (0.025, 0.975), strict=True)]
    return {
        "exponent": float(weights @ np.log(medians)) if np.isfinite(medians).all() else math.nan,
        "interval": [float(each) for each in sides],
        "arrived": f"{np.isfinite(counts).sum()} of {counts.size}",
        "times": [float(each) for each in medians / [row["needed"] for row in rows]],
    }
