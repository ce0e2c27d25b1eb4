"""Rows beyond the paper's: every growth a of the noise, steps by signs and spectral steps, weight decay, and plain SGD.

Every run has the schedule of `theory.plan` for its horizon, exact noise of growth a in the norm of its step, and a unit
step that is exact. What is measured is ‖∇f‖_*, and Ψ under decay.

NSTORM needs samples that change by at most ℓ‖y − x‖, which noise of B r^(a/2) does not near x⁰ if a < 2. It has
min{B r^(a/2), B r}, which is as large from r = 1 on.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from evidence.verification import oracle_variance
from evidence.verification.cases import Case
from evidence.verification.checks import AtMost, Check, PartResult, Parts, checked, rounded
from evidence.verification.settings import VerificationSettings
from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, part
from gladstorm.core.statistics import mean_of
from gladstorm.methods import Method, from_plan, nsgdm, nstorm
from gladstorm.methods.norms import Euclid, Sign, Spectral, StepNorm
from gladstorm.methods.steps import WeightDecay
from gladstorm.problems.objectives import Cauchy, Cosh, Power, SpectralCosh, SpectralCube, SpectralLog
from gladstorm.problems.oracles import NormNoise
from gladstorm.problems.oracles.blum_gladyshev import FarPoint
from gladstorm.theory import REGIMES, Decay, Plan, plan

GROWTHS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
HORIZONS: Final = (100, 1000, 5000)
B, G = 0.5, 0.5
SIDE: Final = 3  # of the matrices; vectors have SIDE + 1 entries
LAMBDA: Final = 0.5  # of weight decay around x⁰: no run gets farther than 2 from it
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


def by_entries(start: float, dim: int) -> dict[float, tuple[Any, Constants]]:
    """Functions that are sums over entries, with constants from ‖·‖_∞ to ‖·‖_1: L0 is d times as large."""
    every = euclidean(start, dim)
    return {alpha: (f, replace(c, L0=dim * c.L0)) for alpha, (f, c) in every.items() if alpha != 1 / 2}


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
    """A row: a method in a norm, on the problem of one α, with or without weight decay."""

    method: str
    norm: str
    alpha: float
    decays: bool = False

    @property
    def name(self) -> str:
        """The row of the table in words."""
        return f"{self.method.upper()}, {self.norm}, α = {self.alpha:g}" + (", weight decay" if self.decays else "")

    @property
    def growths(self) -> tuple[float, ...]:
        """Growths of the noise that its theorem is about."""
        return GROWTHS if self.method == "nsgdm" else tuple(a for a in GROWTHS if a <= 2)

    def oracle(self, growth: float) -> NormNoise:
        """The problem under exact noise."""
        step, problems = NORMS[self.norm]
        kind = Enveloped if self.method == "nstorm" else NormNoise
        return kind(problems[self.alpha][0], B, G, norm=step, growth=growth)

    def plan(self, growth: float, T: int) -> Plan:
        """The schedule and the bound; for NSTORM from constants of samples, which are in the class of f with those.

        E‖∇f(y; ξ) − ∇f(x; ξ)‖² = ‖∇f(y) − ∇f(x)‖² + B² ‖y − x‖² at most, and ‖∇f‖_* ≤ τ E‖∇f(x; ξ)‖ in the class.
        """
        f, c = NORMS[self.norm][1][self.alpha]
        with jax.enable_x64(True):
            value = float(f.value(jnp.asarray(f.start)))
        L0, L1 = c.L0, c.L1
        if self.method == "nstorm":
            L0, L1 = float(np.hypot(L0, B)), L1 * NORMS[self.norm][0].in_theory(_like(f)).tau ** self.alpha
        smooth = {"L": L0} if self.method == "nstorm" and self.alpha == 0 else {"L0": L0, "L1": L1 or None}
        given: dict[str, Any] = {**smooth, "B": B, "G": G, "gap": value - c.f_inf, "growth": growth}
        decay = Decay(LAMBDA) if self.decays else None
        return plan(self.method, horizon=T, alpha=self.alpha, norm=self.norm, constants="norm", decay=decay, **given)

    def made(self, planned: Plan) -> Method:
        """The planned method, its weights decaying towards x⁰."""
        step = NORMS[self.norm][0]
        if not self.decays:
            return from_plan(planned) if self.method == "sgd" else from_plan(planned, norm=step)
        eta, gamma, n_init, _ = planned.schedule
        free = nsgdm(gamma, eta, norm=step) if self.method == "nsgdm" else nstorm(gamma, eta, n_init=n_init, norm=step)
        return Method(free.estimator, WeightDecay(free.step, LAMBDA, centre=1.0), free.batch)


def _like(f: Any) -> Any:
    tree = getattr(f, "tree", None)
    return f.start if tree is None else tree.unflatten(f.start)


ROWS: Final = (
    *(Wider(method, norm, a) for method in ("nsgdm", "nstorm") for norm, (_, by) in NORMS.items() for a in by),
    *(Wider(method, norm, 0.0, decays=True) for method in ("nsgdm", "nstorm") for norm in NORMS),
    Wider("sgd", "euclid", 0.0),
)


def parts(selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """Every row, and the laws of the noise, where all regimes of the paper are checked."""
    if len({case.regime for case in selected}) < len(REGIMES):
        return
    for row in ROWS:
        yield f"wider/{row.name}", partial(measure, row, settings)
    yield "wider/laws", partial(checked, laws, settings)


def measure(row: Wider, settings: VerificationSettings) -> PartResult:
    """Check the bound at every growth and horizon; report the shares of it at the longest horizon."""
    checks: list[Check] = []
    shares: dict[str, float | None] = {f"a = {growth:g}": None for growth in GROWTHS}
    horizons = [T for T in HORIZONS if max(settings.horizons) >= T]
    for growth, T in itertools.product(row.growths, horizons):
        planned = row.plan(growth, T)
        record = settings.simulate(row.oracle(growth), row.made(planned), T)
        measured, bound = mean_of(record.mean_stationarity[0, :, -1]), planned.statement.bound(T)
        checks.append(Check(REGIME, f"{row.name}, a = {growth:g}", "wider bound", T, measured, AtMost(bound)))
        shares[f"a = {growth:g}"] = rounded(measured.value / bound)
    return PartResult(checks, {"wider": [{"row": row.name, "T": horizons[-1], **shares}]})


def laws(settings: VerificationSettings) -> Iterator[Check]:
    """Noise in every norm, where x − x⁰ has equal entries: of one row of a matrix ‖·‖_op is the Euclidean norm."""
    for norm, growth in ((norm, growth) for norm in NORMS for growth in LAWS):
        oracle = Wider("nsgdm", norm, 0.0).oracle(growth)
        shrunk = oracle.objective.start.size**-0.5 if norm.startswith("sign") else 1.0

        def variance(x: np.ndarray, *, oracle: Any = oracle, shrunk: float = shrunk, growth: float = growth) -> float:
            return float(B**2 * (shrunk * np.linalg.norm(x - oracle.objective.start)) ** growth + G**2)

        steepest = B * max(1.0, growth / 2 * 1.1 ** (growth / 2 - 1))
        law = oracle_variance.Law(f"noise in {norm}, a = {growth:g}", oracle, steepest, variance)
        yield from oracle_variance.checks(law, settings)
