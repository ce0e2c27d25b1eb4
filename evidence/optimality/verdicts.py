"""Bounds that are the best possible: upper and lower bounds of every regime, compared in ε and in every constant.

For small ε a number of stochastic gradients is a sum of products of powers, such as L1 B^(1+α) Δ^(2+α) ε^-(4+α). No
power is typed in: upper bounds are those of the best runs (`every_setting`), lower bounds are formulas, and the powers
of both are read off as derivatives of logarithms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gladstorm.core.references import ARJEVANI_2023, CARMON_2020, FAZLA_2026
from gladstorm.theory.accuracy import lower_bound, smooth_lower_bound
from gladstorm.theory.every_setting import best_run, kind_of, run_at
from gladstorm.theory.problem import Problem
from gladstorm.theory.statement import REGIMES
from gladstorm.theory.table import ALPHAS, NOISE, NOISES, in_alpha

ACCURACY = 1e-44  # so small that only leading terms are left
APART = 1e5  # how much larger than the other one of two constants is, where both may lead
LETTERS = {"eps": "ε", "L0": "L0", "L1": "L1", "L": "L", "B": "B", "G": "G", "gap": "Δ"}
OURS = "this project"

Product = tuple[tuple[str, str], ...]  # letters with their powers, ε first
Count = Callable[[Problem, float], float]  # stochastic gradients, from a problem and ε


def _level(problem: Problem) -> float:
    return problem.constant("lower_bound", "L0" if problem.L is None else "L")


def _with_runway(problem: Problem, eps: float) -> float:
    least = lower_bound(problem, eps)
    least.require("verdict")
    return least.guaranteed


def _without_runway(problem: Problem, eps: float) -> float:
    L1 = problem.constant("lower_bound", "L1") if problem.alpha else 0.0
    grown = L1 * math.pow(problem.G / math.sqrt(2), problem.alpha)
    return (_level(problem) + grown) * problem.G * problem.gap / (1e6 * eps**3)


LOWER: dict[tuple[str, str], tuple[str, Count]] = {  # by method and noise; constant factors do not matter
    ("nsgdm", "bg0"): (
        f"{OURS} (Theorem 6); in ε also {FAZLA_2026}",
        lambda p, eps: smooth_lower_bound(p, eps).samples,
    ),
    ("nsgdm", "bounded"): (str(ARJEVANI_2023), lambda p, eps: _level(p) * p.gap * (p.G / eps**2) ** 2),
    ("nsgdm", "deterministic"): (str(CARMON_2020), lambda p, eps: _level(p) * p.gap / eps**2),
    ("nstorm", "bg0"): (
        f"{OURS} (Theorem 2); for α = 0 in ε also {FAZLA_2026}",
        _with_runway,
    ),
    ("nstorm", "bounded"): (
        f"{ARJEVANI_2023}; for α > 0 {OURS} (Theorem 5, for methods that respect zeros)",
        _without_runway,
    ),
    ("nstorm", "deterministic"): (str(CARMON_2020), lambda p, eps: _level(p) * p.gap / eps**2),
}


@dataclass(frozen=True)
class RegimeVerdict:
    """One regime: what its method needs, what every method needs, and in which letters the two agree."""

    method: str
    smoothness: str
    noise: str
    upper: tuple[Product, ...]
    factor: float  # of the upper bound where the last of its products leads; at α = ½ for 0 < α < 1
    lower: tuple[Product, ...]
    source: str
    smallest: bool  # whether the smallest of the products leads, not the largest

    @property
    def agree(self) -> tuple[str, ...]:
        """Letters whose powers are the same in both, ε first."""

        def powers(side: tuple[Product, ...], letter: str) -> set[str | None]:
            return {dict(each).get(letter) for each in side}

        both = {letter: (powers(self.upper, letter), powers(self.lower, letter)) for letter in LETTERS.values()}
        return tuple(letter for letter, (upper, lower) in both.items() if upper == lower != {None})

    @property
    def optimal(self) -> bool:
        """Whether they agree in everything."""
        return set(self.upper) == set(self.lower)

    def as_dict(self) -> dict[str, str]:
        """The row as JSON-ready data."""
        return {
            "method": self.method.upper(),
            "smoothness": REGIMES[self.method, self.smoothness, self.noise].kind.classes[self.smoothness],
            "noise": NOISE[self.noise],
            "upper bound": f"{float(f'{self.factor:.2g}'):,.0f} · {self._text(self.upper)}",
            "lower bound": self._text(self.lower),
            "its source": self.source,
            "agree in": "ε and every constant" if self.optimal else ", ".join(self.agree),
        }

    def _text(self, products: tuple[Product, ...]) -> str:
        powers = [[letter if power == "1" else f"{letter}^{power}" for letter, power in each] for each in products]
        texts = [" ".join([*each[1:], each[0]]) for each in powers]
        return f"min{{{', '.join(texts)}}}" if self.smallest and len(texts) > 1 else " + ".join(texts)


def verdicts() -> Iterator[RegimeVerdict]:
    """Compare both sides of every regime, by method, smoothness and noise."""
    for method, smoothness, noise in itertools.product(("nsgdm", "nstorm"), ALPHAS, NOISES):
        yield verdict(method, smoothness, noise, *LOWER[method, noise])


def verdict(method: str, smoothness: str, noise: str, source: str, least: Count) -> RegimeVerdict:
    """Compare the upper bound of one regime with the lower bound `least`, wherever another constant leads."""
    regime, (B, G) = REGIMES[method, smoothness, noise], NOISES[noise]
    level, smallest = regime.needs()[0], False
    corners: list[dict[str, float]] = [{}]
    if smoothness != "smooth":
        corners = [{"L1": APART}, {level: APART}]
    elif regime.kind.corrects_drift and noise == "bg0":  # samples of L allow noise that grows like L
        corners, smallest = [{level: APART}, {"B": APART}], True

    def problem(alpha: float, corner: dict[str, float]) -> Problem:
        L1 = {} if smoothness == "smooth" else {"L1": 1.0}
        given: dict[str, Any] = {"alpha": alpha, "B": B, "G": G, "gap": 1.0, level: 1.0} | L1 | corner
        return Problem(**given)

    def products(powers: Callable[[Problem], dict[str, float]]) -> tuple[Product, ...]:
        by_alpha = [{a: powers(problem(a, corner)) for a in ALPHAS[smoothness]} for corner in corners]
        return tuple(sorted({_product(each) for each in by_alpha}))

    alphas = ALPHAS[smoothness]
    log_N, powers = best_cost(method, problem(sum(alphas) / len(alphas), corners[0]))
    exact = {name: float(Fraction(power).limit_denominator(6)) for name, power in powers.items()}
    grown = exact["eps"] * math.log(ACCURACY) + sum(exact[name] * math.log(APART) for name in corners[0])
    upper = products(lambda each: best_cost(method, each)[1])
    lower = products(lambda each: powers_of(least, each))
    return RegimeVerdict(method, smoothness, noise, upper, math.exp(log_N - grown), lower, source, smallest)


def powers_of(count: Count, problem: Problem) -> dict[str, float]:
    """Read off the powers of ε and of each constant in a number of stochastic gradients."""
    return _derivatives(lambda p, log: math.log(count(p, math.exp(log))), problem, math.log(ACCURACY))


def best_cost(method: str, problem: Problem) -> tuple[float, dict[str, float]]:
    """Compute log N of the best run that guarantees ε, and its powers; by the envelope theorem, for a fixed run."""
    kind, log_T = kind_of(method, problem), -2 * math.log(ACCURACY)
    within_class = REGIMES[method, problem.smoothness, problem.noise].kind.within_class
    while True:
        run = best_run(method, within_class(problem), _whole(log_T))

        def log_bound(problem: Problem, log_T: float, logs: tuple[float, ...] = run.logs) -> float:
            return math.log(run_at(kind, within_class(problem), _whole(log_T), logs).bound.bound)

        slopes = _derivatives(log_bound, problem, log_T)
        slope, excess = slopes.pop("eps"), log_bound(problem, log_T) - math.log(ACCURACY)
        if abs(excess) < 1e-9:
            calls = REGIMES[method, problem.smoothness, problem.noise].calls_per_step
            return log_T + math.log(calls), {name: -each / slope for name, each in slopes.items()} | {"eps": 1 / slope}
        log_T -= excess / slope


def _derivatives(function: Callable[[Problem, float], float], problem: Problem, log: float) -> dict[str, float]:
    """Derivatives of log `function` in the log of each nonzero constant, and as "eps" in its second argument."""
    step = 1e-4

    def shifted(name: str, by: float) -> float:
        return function(replace(problem, **{name: getattr(problem, name) * math.exp(by)}), log)

    names = [name for name in LETTERS if name != "eps" and getattr(problem, name)]
    slopes = {name: (shifted(name, step) - shifted(name, -step)) / (2 * step) for name in names}
    return slopes | {"eps": (function(problem, log + step) - function(problem, log - step)) / (2 * step)}


def _whole(log_T: float) -> int:
    return max(1, math.floor(math.exp(min(log_T, 690.0))))


def _product(powers: dict[float, dict[str, float]]) -> Product:
    """Write powers at one or two values of α as texts, those that are not 0."""
    texts = {
        letter: in_alpha({alpha: each[name] for alpha, each in powers.items()})
        for name, letter in LETTERS.items()
        if name in powers[min(powers)]
    }
    return tuple((letter, power) for letter, power in texts.items() if power != "0")
