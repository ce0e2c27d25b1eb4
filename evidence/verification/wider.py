"""Rows beyond the paper's: every growth a of the noise, steps by signs and spectral steps, weight decay, and plain SGD.

Every run has the schedule of `theory.plan` for its horizon, exact noise of growth a in the norm of its step, and a unit
step that is exact. What is measured is ‖∇f‖_*, and Ψ under decay: where curvature grows, weights decay towards the
minimiser of a convex f, there Ψ ≥ ‖∇f‖_*, and the bound holds for both.

NSTORM needs samples that change by at most ℓ‖y − x‖, which noise of B r^(a/2) does not near x⁰ if a < 2. It has
min{B r^(a/2), B r}, which is as large from r = 1 on.
"""

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from evidence.verification import growing_steps
from evidence.verification.cases import Case
from evidence.verification.checks import AtMost, Check, PartResult, Parts, rounded
from evidence.verification.oracle_variance import Law
from evidence.verification.settings import VerificationSettings
from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part
from gladstorm.core.rules import VECTOR
from gladstorm.core.statistics import mean_of
from gladstorm.methods import Method, from_plan, nsgdm, nstorm
from gladstorm.methods.norms import Euclid, Sign, Spectral, StepNorm
from gladstorm.methods.schedules import GeometricGrowth
from gladstorm.methods.steps import WeightDecay
from gladstorm.problems.objectives import Cauchy, Cosh, Power, SpectralCosh, SpectralCube, SpectralLog
from gladstorm.problems.oracles import NormNoise
from gladstorm.problems.oracles.blum_gladyshev import FarPoint
from gladstorm.theory import REGIMES, Decay, GrowingSteps, Plan, plan, uniform
from gladstorm.theory.batches import MomentumInBatches, StormInBatches

GROWTHS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
HORIZONS: Final = (100, 1000, 5000)
B, G = 0.5, 0.5
SIDE: Final = 3  # of the matrices; vectors have SIDE + 1 entries
LAMBDA: Final = 0.5  # of weight decay around x⁰: no run gets farther than 2 from it. Around the minimiser, half of it
BATCH: Final = 8  # samples of a step, at most, where steps have batches
ALPHAS: Final = (0.0, 0.5, 1.0)
REGIME: Final = "every growth and norm"
LAWS: Final = (0.5, 3.0)  # a of the laws of noise that are checked
MEANING: Final = {
    "wider bound": "E‖∇f(x̂)‖_*, or EΨ(x̂) under weight decay, is at most the bound of the plan, for noise that grows "
    "like r^a in the norm of the step. It is measured on one problem for each norm and α."
}


@part
class Enveloped(NormNoise):
    """∇f(x; ξ) = ∇f(x) + B min{r, r^(a/2)} W + G u: a sample changes by at most B‖y − x‖ beside ∇f."""

    @override
    def grown(self, point: FarPoint) -> Array:
        return jnp.minimum(point.distance, NormNoise.grown(self, point))


def euclidean(start: float, dim: int) -> dict[float, tuple[Any, Constants]]:
    """Functions of vectors by α, with the constants that they declare."""
    x = np.full(dim, start)
    return {each.constants.alpha: (each, each.constants) for each in (Cauchy(x), Power(x, 3.0), Cosh(x))}


@part
class CubedEntries:
    """f(x) = Σ_i |x_i|³: in the norm of signs α = ½ and L1 = 2√(3d), as Σ √|∂_i f| ≤ √d ‖∇f‖_1^½."""

    start: Data = leaf(VECTOR)  # x⁰
    f_inf: ClassVar[float] = 0.0

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
        return jnp.sum(jnp.abs(x) ** 3)

    def grad(self, x: Array) -> Array:
        """Gradient ∇f(x)."""
        return 3 * jnp.abs(x) * x

    @property
    def constants(self) -> Constants:
        """Constants from ‖·‖_∞ to ‖·‖_1."""
        return Constants(L0=0.0, L1=2 * (3 * np.size(self.start)) ** 0.5, alpha=0.5, f_inf=0.0)


def by_entries(start: float, dim: int) -> dict[float, tuple[Any, Constants]]:
    """Functions that are sums over entries, with constants from ‖·‖_∞ to ‖·‖_1: L0 is d times as large."""
    cubes = CubedEntries(np.full(dim, start))
    every = {alpha: (f, replace(c, L0=dim * c.L0)) for alpha, (f, c) in euclidean(start, dim).items()}
    return every | {0.5: (cubes, cubes.constants)}


def of_matrices(start: float, side: int) -> dict[float, tuple[Any, Constants]]:
    """Functions of singular values, from a multiple of the identity."""
    x = start * np.eye(side).ravel()
    every = (SpectralLog(x, side), SpectralCube(x, side), SpectralCosh(x, side))
    return {each.constants.alpha: (each, each.spectral_constants) for each in every}


NORMS: Final[dict[str, tuple[StepNorm, dict[float, tuple[Any, Constants]]]]] = {
    "euclid": (Euclid(), euclidean(1.5, SIDE + 1)),
    f"sign({SIDE + 1})": (Sign(), by_entries(1.5, SIDE + 1)),
    f"spectral({SIDE}, {SIDE})": (Spectral(), of_matrices(1.5, SIDE)),
}


@dataclass(frozen=True)
class Wider:
    """A row: a method in a norm, on the problem of one α, with or without weight decay, as `plan` schedules it."""

    method: str
    norm: str
    alpha: float
    decays: bool = False
    batch: str = "one"

    @property
    def name(self) -> str:
        """The row of the table in words."""
        words = f"{self.method.upper()}, {self.norm}, α = {self.alpha:g}" + (", weight decay" if self.decays else "")
        return words + ("" if self.batch == "one" else f", batches like {self.batch}")

    @property
    def growths(self) -> tuple[float, ...]:
        """Growths of the noise that its theorem is about."""
        return GROWTHS if self.method == "nsgdm" else tuple(a for a in GROWTHS if a <= 2)

    @property
    def step(self) -> StepNorm:
        """The norm in which steps have length 1."""
        return NORMS[self.norm][0]

    @property
    def decay(self) -> Decay | None:
        """Decay towards x⁰; or, where curvature grows, towards the minimiser of f, which is convex: so ϑ = 0."""
        if not self.decays:
            return None
        f = NORMS[self.norm][1][self.alpha][0]
        return Decay(LAMBDA) if self.alpha == 0 else Decay(LAMBDA / 2, float(self.step.length(read(f, f.start))), 0.0)

    def oracle(self, growth: float) -> NormNoise:
        """The problem under exact noise."""
        kind = Enveloped if self.method == "nstorm" else NormNoise
        return kind(NORMS[self.norm][1][self.alpha][0], B, G, norm=self.step, growth=growth)

    def plan(self, growth: float, T: int) -> Plan:
        """The schedule and the bound; for NSTORM from constants of samples, which are in the class of f with those.

        E‖∇f(y; ξ) − ∇f(x; ξ)‖² = ‖∇f(y) − ∇f(x)‖² + B² ‖y − x‖² at most, and ‖∇f‖_* ≤ τ E‖∇f(x; ξ)‖ in the class.
        """
        f, c = NORMS[self.norm][1][self.alpha]
        with jax.enable_x64(True):
            value = float(f.value(jnp.asarray(f.start)))
        L0, L1 = c.L0, c.L1
        if self.method == "nstorm":
            L0, L1 = float(np.hypot(L0, B)), L1 * self.step.in_theory(read(f, f.start)).tau ** self.alpha
        smooth = {"L": L0} if self.method == "nstorm" and self.alpha == 0 else {"L0": L0, "L1": L1 or None}
        given: dict[str, Any] = {**smooth, "B": B, "G": G, "gap": value - c.f_inf, "growth": growth}
        given |= {"norm": self.norm, "constants": "norm", "decay": self.decay, "batch": self.batch}
        return plan(self.method, horizon=T, alpha=self.alpha, **given)

    def made(self, planned: Plan) -> Method:
        """The planned method, with decay if the row has it."""
        if self.decay is None:
            return from_plan(planned) if self.method == "sgd" else from_plan(planned, norm=self.step)
        eta, gamma, n_init, _ = planned.schedule
        return self.with_numbers(gamma, eta, n_init)

    def with_numbers(self, gamma: float, eta: float, n_init: int, batch: int = 1) -> Method:
        """The method with these numbers, in the norm and with the decay of the row."""
        given: dict[str, Any] = {"norm": self.step, "batch": batch}
        free = nsgdm(gamma, eta, **given) if self.method == "nsgdm" else nstorm(gamma, eta, n_init=n_init, **given)
        if self.decay is None:
            return free
        centre = 0.0 if self.alpha else 1.0  # c = x⁰ in units of x⁰
        return Method(free.estimator, WeightDecay(free.step, self.decay.rate, centre=centre), free.batch)

    def measured(self, growth: float, T: int, settings: VerificationSettings) -> "Measured":
        """The row at one growth, for T iterates or for as many stochastic gradients."""
        planned = self.plan(growth, T)
        record = settings.simulate(self.oracle(growth), self.made(planned), T)
        return Measured(record.mean_stationarity[0, :, -1], planned.statement.bound(T), planned.statement.source)


class Measured(NamedTuple):
    """A measurement seed by seed, its bound, and the bound's source."""

    values: np.ndarray
    bound: float
    source: str


class InBatches(Wider):
    """Theorem G: batches of b in the window of the momentum, γ and η b times as large, and as many samples."""

    @property
    @override
    def name(self) -> str:
        return f"{super().name}, batches of {BATCH} or 1/η"

    @override
    def measured(self, growth: float, T: int, settings: VerificationSettings) -> Measured:
        planned = self.plan(growth, T)
        eta, gamma, n_init, _ = planned.schedule
        b = min(BATCH, int(1 / eta))
        kind = MomentumInBatches if self.method == "nsgdm" else StormInBatches
        error = planned.problem.norm.tau * G / (b if self.method == "nsgdm" else n_init) ** 0.5
        bound = kind(planned.problem, gamma, eta, error, T // b * b, mean_batch=b, largest_batch=b)
        method = self.with_numbers(gamma * b, eta * b, n_init, b)
        record = settings.simulate(self.oracle(growth), method, T // b)
        return Measured(record.mean_stationarity[0, :, -1], bound.guaranteed, bound.source)


class ClosedForm(Wider):
    """A9 and B9: numbers in closed form for an accuracy, the smallest on a grid for T iterates, or the quickest."""

    @property
    @override
    def name(self) -> str:
        return f"{super().name}, closed form"

    @override
    def measured(self, growth: float, T: int, settings: VerificationSettings) -> Measured:
        problem, runs = self.plan(growth, T).problem, []
        for eps in 2.0 ** np.arange(6, -6, -1 / 8):
            with contextlib.suppress(ValueError):  # more than 8 times the noise
                runs.append((float(eps), uniform(self.method, problem, float(eps))))
        eps, run = min(runs, key=lambda each: (max(each[1].horizon, T), each[0]))
        record = settings.simulate(
            self.oracle(growth), self.with_numbers(run.gamma, run.eta, run.n_init), max(2, run.horizon)
        )
        return Measured(record.mean_stationarity[0, :, -1], eps, run.source)


class Growing(Wider):
    """S10: steps that grow from one length to another, whatever the problem."""

    @property
    @override
    def name(self) -> str:
        return f"{super().name}, growing steps"

    @override
    def measured(self, growth: float, T: int, settings: VerificationSettings) -> Measured:
        run = GrowingSteps(self.plan(growth, T).problem, growing_steps.FIRST, growing_steps.RATIO, T - 1)
        method = nsgdm(GeometricGrowth(run.first, run.ratio), run.eta, norm=self.step)
        k, values = growing_steps.along_the_way(settings.simulate(self.oracle(growth), method, T), run)
        return Measured(values, run.bound(k), run.source)


def read(f: Any, x: Any) -> Any:
    """A point as the objective's matrix, if it is about one."""
    tree = getattr(f, "tree", None)
    return x if tree is None else tree.unflatten(x)


NSGDM_AND_NSTORM: Final = ("nsgdm", "nstorm")
EUCLID, SIGN, SPECTRAL = NORMS
ROWS: Final = (
    *(
        Wider(method, norm, a, d)
        for d in (False, True)
        for method in NSGDM_AND_NSTORM
        for norm in NORMS
        for a in ALPHAS
    ),
    *(Wider("sgd", EUCLID, 0.0, batch=batch) for batch in ("one", "sigma", "sigma2")),
    *(InBatches(method, norm, 0.0) for method in NSGDM_AND_NSTORM for norm in NORMS),
    InBatches("nsgdm", EUCLID, 1.0),
    *(ClosedForm(method, EUCLID, a) for method in NSGDM_AND_NSTORM for a in ALPHAS),
    *(ClosedForm(method, SIGN, 0.5) for method in NSGDM_AND_NSTORM),
    *(ClosedForm(method, SPECTRAL, 1.0, decays=True) for method in NSGDM_AND_NSTORM),
    *(Growing("nsgdm", norm, a) for norm, a in ((EUCLID, 0.0), (SIGN, 0.5), (SPECTRAL, 1.0))),
)


def parts(selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """Every row, in --quick every third, where all regimes of the paper are checked."""
    if len({case.regime for case in selected}) < len(REGIMES):
        return
    for row in ROWS if settings.studies else ROWS[::3]:
        yield f"wider/{row.name}", partial(measure, row, settings)


def measure(row: Wider, settings: VerificationSettings) -> PartResult:
    """Check the bound at every growth and horizon; report the shares of it at the longest horizon."""
    checks: list[Check] = []
    shares: dict[str, float | None] = {f"a = {growth:g}": None for growth in GROWTHS}
    sources: list[str] = []
    horizons = [T for T in HORIZONS if max(settings.horizons) >= 10 * T]
    for growth, T in itertools.product(row.growths, horizons):
        values, bound, source = row.measured(growth, T, settings)
        measured = mean_of(values)
        sources.append(source.partition("(")[0].partition(":")[0].strip())
        checks.append(Check(REGIME, f"{row.name}, a = {growth:g}", "wider bound", T, measured, AtMost(bound)))
        shares[f"a = {growth:g}"] = rounded(measured.value / bound)
    described = {"row": row.name, "T": horizons[-1], "source": ", ".join(dict.fromkeys(sources))}
    return PartResult(checks, {"wider": [described | shares]})


def laws() -> dict[str, Law]:
    """Noise in every norm, where x − x⁰ has equal entries: of one row of a matrix ‖·‖_op is the Euclidean norm."""
    result = {}
    for norm, growth in ((norm, growth) for norm in NORMS for growth in LAWS):
        oracle = Wider("nsgdm", norm, 0.0).oracle(growth)
        shrunk = oracle.objective.start.size**-0.5 if norm.startswith("sign") else 1.0
        steepest, name = B * max(1.0, growth / 2 * 1.1 ** (growth / 2 - 1)), f"noise in {norm}, a = {growth:g}"
        result[name] = Law(
            name, oracle, steepest, partial(_variance, np.asarray(oracle.objective.start), shrunk, growth)
        )
    return result


def _variance(start: np.ndarray, shrunk: float, growth: float, x: np.ndarray) -> float:
    """B² ‖x − x⁰‖^a + G², in a norm that is so many times the Euclidean one there."""
    return float(B**2 * (shrunk * np.linalg.norm(x - start)) ** growth + G**2)
