"""Problems on which noise alone sets the gradient norm: whether the slowest noise terms of the bounds are really there.

On the instances of `instances.py` Δ/(γT) dominates, so their slopes say nothing about noise. Here Δ = 0: f = L0 x²/2 is
started at its minimiser, and `Skewed` noise carries the iterate away from it. Rare samples keep the mean at 0 and, with
a probability q = `RARE`·η, are absent from most of the windows of 1/η steps an estimate remembers; the method only sees
the sign of v, and without them the average of the noise is −√q times its scale, √(RARE η) max(G, B|x|). Under BG-0
noise that is a force *away* from x⁰ which grows like the restoring one, L0 |x|.

L0 is such that the restoring force is half of the other at a distance of γT. So nothing stops the iterate before γT
does, and there ‖∇f‖ = L0 γT = ½ √(RARE η) max(G, B γT): a constant times the noise term √η max(G, B γT), which is
T^(−rate) under every schedule. The terms with Δ, L0 and L1 can be as small as one likes beside it. A bound has to hold
for every L0: if the measurement falls like the term, no proof can make the term smaller in T.

With noise of growth a the same holds for max(G, B|x|^(a/2)), and the noise term is √η B (γT)^(a/2). For NSTORM a sample
then changes by at most B‖y − x‖ beside ∇f, as its theorem asks: noise is no larger than B|x|. Where a > 2, a quadratic
would hold the iterate near x⁰, where such noise is small, and its slope is that of nothing. A `Bowl` pulls like
|x|^(a/2), so that half of the push is left at every distance.

A quadratic is in the class of every α and L1, so this reaches NSTORM's T^(−1/(4+α)) as well: its term with √η B γT.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Final

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from evidence.verification.cases import Case
from evidence.verification.checks import AtMost, Check, PartResult, Parts, Within, log_slope, rounded
from evidence.verification.settings import VerificationSettings
from gladstorm.core.parts import Array, Data, Number, leaf, part
from gladstorm.core.rules import AT_LEAST_ONE, POSITIVE, VECTOR
from gladstorm.core.statistics import mean_of
from gladstorm.problems.objectives import Quadratic
from gladstorm.problems.oracles import Skewed
from gladstorm.theory import Problem, Statement, for_schedule, for_wrapper
from gladstorm.theory.every_setting import free_run

RARE: Final = 0.01  # q/η. The less rare, the more often a run is turned back, and the later the exponents are exact
MARGIN: Final = 0.05  # closer to the term's exponent than to any other noise term's
GAMMA0: Final = 1.0
NO_GAP: Final = 1e-12  # Δ is 0; the theorems ask for a positive number
L1: Final = 0.02  # any would do; at α = 1 this one admits γ0 = 1
MEANING: Final = {
    "noise exponent": "Where Δ = 0 and noise alone moves the iterate, the slope is within "
    f"{MARGIN} of that of the bound's slowest noise term. The exponents of the other terms are further "
    "away. It is not equality, and says nothing about the term's constant.",
}


@part
class SkewedEnvelope(Skewed):
    """Skewed noise of B min{r, r^(a/2)}, r the distance from x⁰."""

    @override
    def away(self, x: Array) -> Array:
        r = jnp.linalg.norm(x - self.objective.start)
        return jnp.where(r < 1, x - self.objective.start, Skewed.away(self, x))


@part
class Bowl:
    """∇f(x) = c min{‖x‖, R}^(p − 1) x, p ≥ 1: flat at its minimum if p > 1, and c p R^(p − 1)-smooth everywhere."""

    start: Data = leaf(VECTOR)  # x⁰
    slope: Number = leaf(POSITIVE)  # c
    reach: Number = leaf(POSITIVE)  # R
    power: Number = leaf(AT_LEAST_ONE)  # p
    f_inf: ClassVar[float] = 0.0
    constants: ClassVar[None] = None

    def value(self, x: Array) -> Array:
        """Value f(x), the integral of the pull along a ray."""
        r, p = jnp.linalg.norm(x), self.power
        near, beyond = jnp.minimum(r, self.reach), jnp.maximum(r - self.reach, 0.0)
        linear = self.reach ** (p - 1) * (self.reach * beyond + beyond**2 / 2)
        return self.slope * (near ** (p + 1) / (p + 1) + linear)

    def grad(self, x: Array) -> Array:
        """Gradient ∇f(x)."""
        r = jnp.minimum(jnp.linalg.norm(x), self.reach)
        return self.slope * jnp.where(r > 0, r, 1.0) ** (self.power - 1) * x


@dataclass(frozen=True)
class NoiseProblem:
    """A family of quadratics, or of bowls if a > 2, one for each T, as members of the class of α."""

    method: str
    alpha: float
    B: float
    G: float
    growth: float = 2.0  # a

    @property
    def regime(self) -> str:
        """The regime as `--regime` names it."""
        return self._for_schedule().regime

    @property
    def name(self) -> str:
        """The term it is made for, and the class."""
        alpha = Fraction(self.alpha).limit_denominator(10)
        grown = "" if self.growth == 2 else f", a = {self.growth:g}"
        return f"{self.term!r} alone, α = {alpha}{grown}"

    @property
    def term(self) -> str:
        """The name of the noise term that falls most slowly."""
        return "noise growth" if self.B else "noise"

    def statement(self, T: int) -> Statement:
        """The statement; the oracle's constants are those of the wrapper with the same B, for α = 0 or ≥ ½."""
        return self._stated(self.L0(T), NO_GAP)

    def oracle(self, T: int) -> Skewed:
        """The problem for T iterates."""
        eta, gamma, *_ = self._for_schedule().schedule(T)
        f: Any = Quadratic(np.zeros(1), np.array([self.L0(T)]))
        if self.power > 1:
            f = Bowl(np.zeros(1), self.L0(T) / self.power / (gamma * T) ** (self.power - 1), gamma * T, self.power)
        q = RARE * eta
        kind = SkewedEnvelope if self.method == "nstorm" and self.growth < 2 else Skewed
        return kind(f, self.B, self.G, q, growth=self.growth)

    def L0(self, T: int) -> float:
        """The curvature at a distance of γT, where f pulls back half as strongly as the noise pushes."""
        eta, gamma, *_ = self._for_schedule().schedule(T)
        reach = gamma * T
        pull = math.sqrt(RARE * eta) / 2 * max(self.B * reach ** (self.growth / 2 - 1), self.G / reach)
        return float(self.power * pull)

    @property
    def power(self) -> float:
        """p: the pull grows like |x|^p."""
        return max(1.0, self.growth / 2)

    def _for_schedule(self) -> Statement:
        if self.growth == 2:
            return for_schedule(self.method, alpha=self.alpha, gamma0=GAMMA0, G=self.G, B=self.B)
        return self._stated(1.0, 1.0)

    def _stated(self, L0: float, gap: float) -> Statement:
        problem = Problem(alpha=self.alpha, L0=L0, L1=L1 if self.alpha else None, B=self.B, G=self.G, gap=gap)
        if self.growth == 2:
            return for_wrapper(self.method, problem, gamma0=GAMMA0)
        return free_run(self.method, replace(problem, L=math.hypot(L0, self.B), growth=self.growth))


PROBLEMS: Final = (
    NoiseProblem("nsgdm", 0, B=0.0, G=1.0),
    NoiseProblem("nsgdm", 0, B=1.0, G=0.01),
    NoiseProblem("nstorm", 0, B=0.0, G=1.0),
    NoiseProblem("nstorm", 0, B=1.0, G=0.01),
    NoiseProblem("nstorm", 1 / 2, B=1.0, G=0.01),
    NoiseProblem("nstorm", 2 / 3, B=1.0, G=0.01),
    NoiseProblem("nstorm", 1, B=1.0, G=0.01),
    *(NoiseProblem("nsgdm", 0, B=1.0, G=0.01, growth=a) for a in (0.5, 1.0, 1.5, 3.0)),
    *(NoiseProblem("nstorm", 0, B=1.0, G=0.01, growth=a) for a in (0.5, 1.0, 1.5)),
)


def parts(selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """Every problem of a regime that is asked for."""
    names = {case.regime for case in selected}
    for problem in PROBLEMS:
        if problem.regime in names:
            yield f"noise/{problem.regime}/{problem.name}", partial(measure, problem, settings)


def measure(problem: NoiseProblem, settings: VerificationSettings) -> PartResult:
    """Check the bound at every horizon and the measurement's slope against the noise term's exponent; report its share.

    The ladder is its own: a line is cheap, and exponents are exact for large T only.
    """
    checks, values = [], []
    for T in settings.noise_horizons:
        statement = problem.statement(T)
        oracle, method = problem.oracle(T), settings.method(statement, T)
        values.append(settings.simulate(oracle, method, T, blocks=settings.noise_blocks).mean_grad_norm[0, :, -1])
        bound = AtMost(statement.bound(T))
        checks.append(Check(problem.regime, problem.name, "bound", T, mean_of(values[-1]), bound))
    term = next(term for term in statement.terms(T) if term.name == problem.term)
    slope = log_slope(settings.noise_horizons, np.stack(values))
    claim = Within(-float(term.exponent), MARGIN)
    checks.append(Check(problem.regime, problem.name, "noise exponent", 0, slope, claim))
    row: dict[str, Any] = {
        "regime": problem.regime,
        "instance": problem.name,
        "exponent": rounded(float(term.exponent)),
        "T": T,
        "measured": rounded(float(values[-1].mean())),
        "term": rounded(term.value),
    }
    return PartResult(checks, {"noise": [row]})
