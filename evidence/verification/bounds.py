"""Trajectory means against the theorems: the bound, the sharper bounds, and the rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from evidence.verification.cases import Ladder
from evidence.verification.checks import AtMost, Check, Within, log_slope
from gladstorm import theory
from gladstorm.core.statistics import Mean, mean_of
from gladstorm.problems.oracles import BlumGladyshev

MARGIN: Final = 0.05  # of a slope: what terms of lower order may still tilt it by at these horizons
ARRIVED: Final = 0.25  # of Δ left at the end of the fit's shortest run: beyond, it has not descended


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
    statement, case = ladder.statement, ladder.case
    bounds = {"bound": statement.bound(T)}
    others = {"sharper bound": theory.sharper(statement, T)}
    if case.instance.wrapped and case.noise != "deterministic":
        wrapped = BlumGladyshev(ladder.oracle.objective, *case.instance.noise_of(case.noise))
        own = theory.problem_of(wrapped, alpha=case.instance.alpha)
        others["wrapper bound"] = theory.on_wrapper(statement, own, T)
    for kind, other in others.items():
        if other is not None and all(condition.holds for condition in other.conditions()):
            bounds[kind] = other.bound
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
