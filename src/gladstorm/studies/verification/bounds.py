"""Trajectory means against the theorems: the bound, the sharper bounds, the rate, and how far a run may travel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from gladstorm import theory
from gladstorm.foundation.statistics import Mean, mean_of
from gladstorm.oracles import BlumGladyshev
from gladstorm.studies.verification.cases import Ladder
from gladstorm.studies.verification.checks import AtMost, Check, Within, log_slope, on_every_path

KINDS: Final = ("bound", "sharper bound", "wrapper bound")  # on E‖∇f(x̂)‖
MARGIN: Final = 0.05  # of a slope: what terms of lower order may still tilt it by at these horizons
ARRIVED: Final = 0.25  # of Δ left at the end of the fit's shortest run: beyond, it has not descended


def checks(ladder: Ladder, fit_from: int) -> Iterator[Check]:
    """Everything this module claims about one case."""
    case = ladder.case
    for T, record in ladder.records.items():
        measured = mean_of(record.mean_grad_norm[0, :, -1])
        for kind, bound in bounds_at(ladder, T).items():
            yield Check(case.regime, case.instance.name, kind, T, measured, AtMost(bound))
        gamma = ladder.statement.schedule(T).gamma
        reach = np.sqrt(record.drift2[0, :, 1:]) / (gamma * record.steps[1:])  # ‖x^k − x⁰‖/(kγ)
        yield Check(case.regime, case.instance.name, "trajectory", T, on_every_path(reach), AtMost(1.0))
        if case.smoothness == "smooth":
            yield Check(case.regime, case.instance.name, "travel", T, on_every_path(_travel(ladder, T)), AtMost(1.0))
    if descended(ladder, fit_from):
        rate = float(ladder.statement.rate)
        yield Check(case.regime, case.instance.name, "slope", 0, slope(ladder, fit_from), Within(-rate, MARGIN))


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


def _travel(ladder: Ladder, T: int) -> np.ndarray:
    """What K steps of length γ must have met on the way down, relative to what they met; at most 1 on every path.

    A step descends by at most γ‖∇f‖ + L0 γ²/2: Σ_{k<K} ‖∇f(x^k)‖ ≥ (f(x⁰) − f(x^K))/γ − K L0 γ/2.
    """
    record, gamma = ladder.records[T], ladder.statement.schedule(T).gamma
    L0 = ladder.oracle.objective.constants.L0  # type: ignore[union-attr]  # instances declare their constants
    met = T * record.mean_grad_norm[0, :, -1] - record.grad_norm[0, :, -1]
    needed = theory.travel_lower_bound(L0, gamma, T - 1, 1.0)  # affine in the descent
    at_rest = theory.travel_lower_bound(L0, gamma, T - 1, 0.0)
    descent = record.value[0, :, 0] - record.value[0, :, -1]
    return np.asarray((T - 1) * (at_rest + (needed - at_rest) * descent) / met)
