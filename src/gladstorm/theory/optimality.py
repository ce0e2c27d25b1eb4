"""Which bounds are the best possible: upper and lower bounds of every regime, compared in ε and in every constant.

For small ε a number of stochastic gradients is a sum of products of powers, such as L1 B^(1+α) Δ^(2+α) ε^-(4+α). No
power is typed in: upper bounds are those of the best runs (`free_runs`), lower bounds are formulas, and the powers of
both are read off as derivatives of logarithms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from gladstorm.core.hardness import Hardness
from gladstorm.core.references import ARJEVANI_2023, CARMON_2020, FAZLA_2026
from gladstorm.theory.free_runs import best_run, kind_of, run_at
from gladstorm.theory.problem import POSITIVE, Problem
from gladstorm.theory.statement import REGIMES
from gladstorm.theory.table import ALPHAS, NOISE, NOISES, in_alpha

ACCURACY = 1e-44  # so small that only leading terms are left
APART = 1e5  # how much larger than the other L0 or L1 is, where both may lead
LETTERS = {"eps": "ε", "L0": "L0", "L1": "L1", "L": "L", "B": "B", "G": "G", "gap": "Δ"}
OURS = "this project"

Product = tuple[tuple[str, str], ...]  # letters with their powers, ε first
Count = Callable[[Problem, float], float]  # stochastic gradients, from a problem and ε


def _level(problem: Problem) -> float:
    return problem.constant("lower_bound", "L0" if problem.L is None else "L")


def lower_bound(problem: Problem, eps: float, *, rotated: bool = False) -> Hardness:
    """What every method needs for E‖∇f‖ ≤ ε under BG-0 noise, if samples are in E L*_sym(α) as NSTORM's theorems ask.

    Args:
        problem: The constants, those of the oracle; α = 0 is read as L1 = 0. G does not matter.
        eps: ε.
        rotated: For all methods (Theorem 1); otherwise for those that respect zeros (Theorem 2), as all here do.

    >>> least = lower_bound(Problem(alpha=1, L0=1, L1=120, B=0.25, G=0, gap=1), eps=1e-4)
    >>> f"{least.guaranteed:.3g}", all(least.eps <= largest for largest in least.limits().values())
    ('1.36e+11', True)
    """
    POSITIVE.require("lower_bound", "eps", eps)
    POSITIVE.require("lower_bound", "B", problem.B)
    alpha, L1 = (problem.alpha, problem.constant("lower_bound", "L1")) if problem.alpha else (1.0, 0.0)
    return Hardness(eps=eps, alpha=alpha, L0=_level(problem), L1=L1, B=problem.B, gap=problem.gap, rotated=rotated)


def _without_runway(problem: Problem, eps: float) -> float:
    L1 = problem.constant("lower_bound", "L1") if problem.alpha else 0.0
    grown = L1 * math.pow(problem.G / math.sqrt(2), problem.alpha)
    return (_level(problem) + grown) * problem.G * problem.gap / (1e6 * eps**3)


LOWER: dict[tuple[str, str], tuple[str, Count]] = {  # by method and noise; constant factors do not matter
    ("nsgdm", "bg0"): (
        f"{OURS} (Theorem 6); in ε also {FAZLA_2026}",
        lambda p, eps: _level(p) * p.B**2 * p.gap**3 / (3.4e9 * eps**6),
    ),
    ("nsgdm", "bounded"): (str(ARJEVANI_2023), lambda p, eps: _level(p) * p.gap * (p.G / eps**2) ** 2),
    ("nsgdm", "deterministic"): (str(CARMON_2020), lambda p, eps: _level(p) * p.gap / eps**2),
    ("nstorm", "bg0"): (
        f"{OURS} (Theorem 2); for α = 0 in ε also {FAZLA_2026}",
        lambda p, eps: lower_bound(p, eps).guaranteed,
    ),
    ("nstorm", "bounded"): (
        f"{ARJEVANI_2023}; for α > 0 {OURS} (Theorem 5, for methods that respect zeros)",
        _without_runway,
    ),
    ("nstorm", "deterministic"): (str(CARMON_2020), lambda p, eps: _level(p) * p.gap / eps**2),
}


@dataclass(frozen=True)
class Verdict:
    """One regime: what its method needs, what every method needs, and in which letters the two agree."""

    method: str
    smoothness: str
    noise: str
    upper: tuple[Product, ...]
    factor: float  # of the upper bound where the last of its products leads; at α = ½ for 0 < α < 1
    lower: tuple[Product, ...]
    source: str

    @property
    def agree(self) -> tuple[str, ...]:
        """The letters whose powers are the same in both, ε first."""

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
            "smoothness": REGIMES[self.method, self.smoothness, self.noise].classes[self.smoothness],
            "noise": NOISE[self.noise],
            "upper bound": f"{float(f'{self.factor:.2g}'):,.0f} · {_text(self.upper)}",
            "lower bound": _text(self.lower),
            "its source": self.source,
            "agree in": "ε and every constant" if self.optimal else ", ".join(self.agree),
        }


def verdicts() -> Iterator[Verdict]:
    """Every regime's verdict, by method, smoothness and noise."""
    for method, smoothness, noise in itertools.product(("nsgdm", "nstorm"), ALPHAS, NOISES):
        yield verdict(method, smoothness, noise, *LOWER[method, noise])


def verdict(method: str, smoothness: str, noise: str, source: str, least: Count) -> Verdict:
    """The verdict on one regime, with the lower bound `least`."""
    B, G = NOISES[noise]
    level = REGIMES[method, smoothness, noise].needs()[0]
    corners = [(1.0, APART), (APART, 1.0)] if smoothness != "smooth" else [(1.0, 0.0)]

    def problem(alpha: float, corner: tuple[float, float]) -> Problem:
        return Problem(alpha=alpha, B=B, G=G, gap=1.0, **{level: corner[0], "L1": corner[1]})

    def products(powers: Callable[[Problem], dict[str, float]]) -> tuple[Product, ...]:
        by_alpha = {corner: {a: powers(problem(a, corner)) for a in ALPHAS[smoothness]} for corner in corners}
        return tuple(sorted({_product(each) for each in by_alpha.values()}))

    alphas = ALPHAS[smoothness]
    log_N, powers = _best(method, problem(sum(alphas) / len(alphas), corners[0]))
    exact = {name: float(Fraction(power).limit_denominator(6)) for name, power in powers.items()}
    grown = exact["eps"] * math.log(ACCURACY) + exact.get("L1", 0.0) * math.log(APART)
    upper = products(lambda each: _best(method, each)[1])
    lower = products(
        lambda each: _derivatives(lambda p, log: math.log(least(p, math.exp(log))), each, math.log(ACCURACY))
    )
    return Verdict(method, smoothness, noise, upper, math.exp(log_N - grown), lower, source)


def _best(method: str, problem: Problem) -> tuple[float, dict[str, float]]:
    """log N of the best run that guarantees ε, and its powers; by the envelope theorem, the run staying as it is."""
    kind, log_T = kind_of(method, problem), -2 * math.log(ACCURACY)
    while True:
        run = best_run(method, problem, _whole(log_T))

        def log_bound(problem: Problem, log_T: float, logs: tuple[float, ...] = run.logs) -> float:
            return math.log(run_at(kind, problem, _whole(log_T), logs).bound.bound)

        found = _derivatives(log_bound, problem, log_T)
        slope, excess = found.pop("eps"), log_bound(problem, log_T) - math.log(ACCURACY)
        if abs(excess) < 1e-9:
            calls = REGIMES[method, problem.smoothness, problem.noise].calls_per_step
            return log_T + math.log(calls), {name: -each / slope for name, each in found.items()} | {"eps": 1 / slope}
        log_T -= excess / slope


def _derivatives(function: Callable[[Problem, float], float], problem: Problem, log: float) -> dict[str, float]:
    """Of a logarithm: in the logarithm of each constant that is not 0, and as "eps" in its second argument."""
    step = 1e-4

    def moved(name: str, by: float) -> float:
        return function(replace(problem, **{name: getattr(problem, name) * math.exp(by)}), log)

    names = [name for name in LETTERS if name != "eps" and getattr(problem, name)]
    found = {name: (moved(name, step) - moved(name, -step)) / (2 * step) for name in names}
    return found | {"eps": (function(problem, log + step) - function(problem, log - step)) / (2 * step)}


def _whole(log_T: float) -> int:
    return max(1, math.floor(math.exp(min(log_T, 690.0))))


def _product(powers: dict[float, dict[str, float]]) -> Product:
    """Powers at one or two values of α as texts, those that are not 0."""
    texts = {
        letter: in_alpha({alpha: each[name] for alpha, each in powers.items()})
        for name, letter in LETTERS.items()
        if name in powers[min(powers)]
    }
    return tuple((letter, power) for letter, power in texts.items() if power != "0")


def _text(products: tuple[Product, ...]) -> str:
    written = [[letter if power == "1" else f"{letter}^{power}" for letter, power in each] for each in products]
    return " + ".join(" ".join([*each[1:], each[0]]) for each in written)
