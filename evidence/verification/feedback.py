"""Noise that turns the faster the larger it is: whether the feedback of the gradient on STORM's noise is really there.

Under E L*_sym(α) a sample's curvature may grow with the sample's own gradient, L1‖∇f(x; ξ)‖^α, and under BG-0 noise
that is as large as (B γT)^α however small ∇f is. STORM adds up what its sample changes by from step to step, so its
error has a part of the order L1 (B γT)^α γ/√η beside √η B γT. `Winding` noise is the simplest that has this: it rotates
with the distance r from x⁰, by B r θ'(r) = L1 (B r)^α per unit of length.

On a plane nothing else is in the way: the run goes straight, and the error itself is measured. NSTORM's schedule for
the class makes both parts T^(−1/(4+α)). The schedule of the smooth class does not know of the feedback; under it the
predicted exponent is −(1 − α)/4, and if that shows, the feedback is there and the larger η is no accident.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from evidence.verification.cases import Case
from evidence.verification.checks import Check, PartResult, Parts, Within, log_slope, rounded
from evidence.verification.instances import Tilted
from evidence.verification.settings import VerificationSettings
from gladstorm.core.parts import Array, Number, leaf, part
from gladstorm.core.rules import POSITIVE
from gladstorm.problems.oracles import ExactBg0, Point
from gladstorm.theory import for_schedule

DIM: Final = 8  # the error of more dimensions scatters less
B: Final = 0.01  # so small that the part with √η B γT is small beside the feedback
L1: Final = 1.0
GAMMA0: Final = 1.0
MARGIN: Final = 0.05
BLOCKS: Final = 3  # of seeds
MEANING: Final = {
    "feedback exponent": "Where a sample's curvature grows with its noise, the slope of the mean of ‖v − ∇f‖ is within "
    f"{MARGIN} of that of L1 (B γT)^α γ/√η, with the schedule of the class and with that of the smooth class.",
}


@part
class Winding(ExactBg0):
    """∇f(x; ξ) = ∇f(x) + B r (u cos θ + u' sin θ), r = ‖x − x⁰‖, θ = L1 (B r)^α/(α B), u and u' ~ N(0, I/d).

    The variance is B² r². From x to y on a ray from x⁰ a sample changes by less than
    |y − x| √(B² + L1² (B r)^{2α}) in mean square, r the larger distance.
    """

    L1: Number = leaf(POSITIVE)
    alpha: Number = leaf(POSITIVE)

    @override
    def draw(self, key: Array) -> Array:
        """Normals for u and u'."""
        return jax.random.normal(key, (2, self.objective.start.size), jnp.result_type(float))

    @override
    def batch(self, noise: Array, size: Array) -> Array:
        """Means over b samples."""
        return noise / jnp.sqrt(self.objective.start.size * jnp.asarray(size, noise.dtype))

    @override
    def grad(self, point: Point, sample: Any) -> Array:
        """∇f(x) + B r (u cos θ + u' sin θ)."""
        r = jnp.linalg.norm(point.x - self.objective.start)
        turn = self.L1 * (self.B * r) ** self.alpha / (self.alpha * self.B)
        noise: Array = self.B * r * (sample[0] * jnp.cos(turn) + sample[1] * jnp.sin(turn))
        return point.grad + noise


@dataclass(frozen=True)
class FeedbackProblem:
    """NSTORM under winding noise of one α, with the schedule of that class or with that of the smooth one."""

    alpha: float
    scheduled: float  # α of the schedule
    regime: str = "nstorm/sublinear/bg0"

    @property
    def name(self) -> str:
        """The class and the schedule."""
        whose = "its own schedule" if self.scheduled else "the smooth class's schedule"
        return f"winding noise, α = {Fraction(self.alpha).limit_denominator(10)}, {whose}"

    @property
    def exponent(self) -> float:
        """The power of 1/T with which L1 (B γT)^α γ/√η falls."""
        schedule = for_schedule("nstorm", alpha=self.scheduled, gamma0=GAMMA0, B=B, G=0.0)
        travelled = 1 - float(schedule.gamma_exponent)
        return float(schedule.gamma_exponent) - float(schedule.eta_exponent) / 2 - self.alpha * travelled

    def errors(self, T: int, settings: VerificationSettings) -> np.ndarray:
        """The mean of ‖v − ∇f‖ over a run, seed by seed."""
        statement = for_schedule("nstorm", alpha=self.scheduled, gamma0=GAMMA0, B=B, G=0.0)
        oracle = Winding(Tilted(np.zeros(DIM)), B, 0.0, L1, self.alpha)
        return np.asarray(
            settings.simulate(oracle, settings.method(statement, T), T, blocks=BLOCKS).mean_error[0, :, -1]
        )


PROBLEMS: Final = tuple(FeedbackProblem(alpha, scheduled) for alpha in (1 / 2, 2 / 3) for scheduled in (alpha, 0.0))


def parts(_selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """A part for every problem of the study."""
    for problem in PROBLEMS:
        yield problem.name, partial(measure, problem, settings)


def measure(problem: FeedbackProblem, settings: VerificationSettings) -> PartResult:
    """The exponent with which the estimator's error falls, over the horizons that slopes are fitted to."""
    horizons = [T for T in settings.horizons if settings.fit_from <= T]
    errors = np.stack([problem.errors(T, settings) for T in horizons])
    claim = Within(-problem.exponent, MARGIN)
    check = Check(problem.regime, problem.name, "feedback exponent", 0, log_slope(horizons, errors), claim)
    row = {"instance": problem.name, "horizons": horizons, "errors": [rounded(float(each.mean())) for each in errors]}
    return PartResult([check], {"feedback": [row]})
