"""Every case against its theorem: the bounds on ‖∇f‖, the rate, and the proofs' bound on the error of the estimate."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from evidence.verification import identities
from evidence.verification.cases import Case, Ladder
from evidence.verification.checks import AtMost, Check, PartResult, Parts, Within, log_slope, rounded
from evidence.verification.estimator_error import error_bound, error_feedback, error_level
from evidence.verification.settings import VerificationSettings
from gladstorm import theory
from gladstorm.core.statistics import Mean, mean_of
from gladstorm.problems.oracles import BlumGladyshev
from gladstorm.theory.master_bounds import of_run
from gladstorm.theory.sharper_bounds import StormOnWrapper

MARGIN: Final = 0.05  # of a slope: what terms of lower order may still tilt it by at these horizons
ARRIVED: Final = 0.25  # of Δ left at the end of the fit's shortest run: beyond, it has not descended

MEANING: Final = {
    "bound": "E‖∇f(x̂)‖ is at most the smallest bound that is known to hold for the run: the theorem's, corrected where "
    "the paper's is wrong, or a sharper one of this project. It is measured on some problems of the class: a bound "
    "that holds here may still fail elsewhere.",
    "slope": f"The slope of log E‖∇f(x̂)‖ against log T is within {MARGIN} of −rate. It cannot be steeper in the "
    "limit, because a normalized run that descends by Δ meets at least Δ/(γT) on average, and γT = γ0 T^rate. The "
    "bound says that it cannot be flatter. This says nothing about noise: without it the same γ gives the same slope.",
    "estimator error": "The mean error of the estimate, (1/T) Σ‖v^k − ∇f(x^k)‖, minus the proof's feedback times the "
    "mean of ‖∇f‖, is at most the proof's bound.",
}


def parts(selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """Parts of the verification: every case."""
    for case in selected:
        yield f"{case.regime}/{case.instance.name}", partial(verified, case, settings)


def verified(case: Case, settings: VerificationSettings) -> PartResult:
    """All checks of a case, and its row of the table."""
    ladder = Ladder.run(case, settings)
    made = [
        *checks(ladder, settings.fit_from),
        *error_checks(ladder),
        *identities.of_case(case, settings),
    ]
    return PartResult(made, {"cases": [_described(ladder, settings)]})


def checks(ladder: Ladder, fit_from: int) -> Iterator[Check]:
    """The smallest valid bound at every horizon, and the rate; what is below the smallest is below the others."""
    case = ladder.case
    for T, record in ladder.records.items():
        measured, smallest = mean_of(record.mean_grad_norm[0, :, -1]), min(bounds_at(ladder, T).values())
        yield Check(case.regime, case.instance.name, "bound", T, measured, AtMost(smallest))
    if descended(ladder, fit_from):
        rate = float(ladder.statement.rate)
        yield Check(case.regime, case.instance.name, "slope", 0, slope(ladder, fit_from), Within(-rate, MARGIN))


def tightness(ladder: Ladder) -> dict[str, list[float]]:
    """The measurement relative to each bound, at every horizon."""
    ratios: dict[str, list[float]] = {}
    for T, record in ladder.records.items():
        for kind, bound in bounds_at(ladder, T).items():
            ratios.setdefault(kind, []).append(float(record.mean_grad_norm[0, :, -1].mean() / bound))
    return ratios


def bounds_at(ladder: Ladder, T: int) -> dict[str, float]:
    """The theorem's bound, and the smaller ones that are valid for this run."""
    return {kind: bound for kind, (bound, _) in stated_at(ladder, T).items()}


def stated_at(ladder: Ladder, T: int) -> dict[str, tuple[float, str]]:
    """Every bound of the run with its source, by kind."""
    statement, case = ladder.statement, ladder.case
    bounds = {"bound": (statement.bound(T), statement.source)}
    others = {"sharper bound": theory.sharper(statement, T)}
    if case.instance.wrapped and case.noise != "deterministic":
        wrapped = BlumGladyshev(ladder.oracle.objective, *case.instance.noise_of(case.noise))
        own = theory.problem_of(wrapped, alpha=case.instance.alpha)
        if statement.method == StormOnWrapper.method:
            others["wrapper bound"] = of_run(StormOnWrapper, own, statement, T)
    for kind, other in others.items():
        if other is not None and all(condition.holds for condition in other.conditions()):
            bounds[kind] = other.bound, other.source
    return bounds


def descended(ladder: Ladder, fit_from: int) -> bool:
    """Whether the shortest run of the fit got home; a slope of runs that are still on their way is not a rate."""
    gap = ladder.records[_fitted(ladder, fit_from)[0]].gap[0, :, -1].mean()
    return bool(gap <= ARRIVED * ladder.statement.problem.gap)


def slope(ladder: Ladder, fit_from: int) -> Mean:
    """The slope of log E‖∇f(x̂)‖ against log T."""
    horizons = _fitted(ladder, fit_from)
    return log_slope(horizons, np.stack([ladder.records[T].mean_grad_norm[0, :, -1] for T in horizons]))


def _fitted(ladder: Ladder, fit_from: int) -> list[int]:
    return [T for T in ladder.records if fit_from <= T]


def error_checks(ladder: Ladder) -> Iterator[Check]:
    """The mean error at every horizon; nothing without noise, where v is the gradient whatever the theorems say."""
    case = ladder.case
    if case.noise == "deterministic":
        return
    for T, record in ladder.records.items():
        error, norm = record.mean_error[0, :, -1], record.mean_grad_norm[0, :, -1]
        bound = error_bound(ladder.statement, T)
        beyond = mean_of(error - error_feedback(bound) * norm)
        yield Check(case.regime, case.instance.name, "estimator error", T, beyond, AtMost(error_level(bound)))


def error_tightness(ladder: Ladder) -> list[float]:
    """The mean error relative to its bound, feedback included, at each horizon; nothing without noise."""
    if ladder.case.noise == "deterministic":
        return []
    ratios = []
    for T, record in ladder.records.items():
        bound = error_bound(ladder.statement, T)
        error, norm = record.mean_error[..., -1].mean(), record.mean_grad_norm[..., -1].mean()
        ratios.append(float(error / (error_level(bound) + error_feedback(bound) * norm)))
    return ratios


def _described(ladder: Ladder, settings: VerificationSettings) -> dict[str, Any]:
    """One row: the problem, and measured/bound at each horizon for every kind of bound."""
    case, statement = ladder.case, ladder.statement
    ratios = tightness(ladder) | {"estimator error": error_tightness(ladder)}
    shown = {kind: [rounded(ratio) for ratio in of_kind] for kind, of_kind in ratios.items() if of_kind}
    still = f"not testable: at T = {settings.fit_from} the runs have not descended to {ARRIVED:g} Δ"
    return {
        "regime": case.regime,
        "instance": case.instance.name,
        "convex": case.instance.convex,
        "source": statement.source,
        "sources": [source for _, source in stated_at(ladder, settings.horizons[-1]).values()],
        "B": rounded(statement.problem.B),
        "G": rounded(statement.problem.G),
        "gamma0": rounded(statement.gamma0),
        "gap": rounded(statement.problem.gap),
        "rate": float(statement.rate),
        "slope_remark": "" if descended(ladder, settings.fit_from) else still,
        "measured": [rounded(float(record.mean_grad_norm[0, :, -1].mean())) for record in ladder.records.values()],
        "tightness": shown,
    }
