"""S10: NSGDM with steps that grow, which knows no constant of the problem, against its bound."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from evidence.verification.cases import Case
from evidence.verification.checks import AtMost, Check, Parts, checked
from evidence.verification.settings import VerificationSettings
from gladstorm.core.statistics import mean_of
from gladstorm.methods import nsgdm
from gladstorm.methods.schedules import GeometricGrowth
from gladstorm.simulation.record import Record
from gladstorm.theory import GrowingSteps

FIRST: Final = 1e-5  # γ_0 and ϱ of every run, whatever the problem
RATIO: Final = 1e4
MEANING: Final = {
    "growing steps": "E‖∇f(x̂_k)‖ is at most the bound S10 at the k where that is smallest, for NSGDM with steps that "
    "grow from one fixed length to another. The measured number is an upper estimate: between two records each "
    "iterate has the weight of the last one.",
}


def parts(selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """NSGDM under BG-0 noise, for the classes that the theorem is about, where noise of exactly that size is added."""
    for case in selected:
        about = (case.method, case.noise) == ("nsgdm", "bg0") and case.smoothness in ("smooth", "linear")
        if about and case.instance.wrapped:
            yield f"growing steps, {case.regime}/{case.instance.name}", partial(checked, checks, case, settings)


def checks(case: Case, settings: VerificationSettings) -> Iterator[Check]:
    """A check at every horizon."""
    oracle = case.instance.oracle(case.method, case.noise, settings.wrapper)
    for T in settings.horizons:
        growing = GrowingSteps(case.statement.problem, FIRST, RATIO, T - 1)
        record = settings.simulate(oracle, nsgdm(GeometricGrowth(FIRST, RATIO), growing.eta), T)
        k, measured = along_the_way(record, growing)
        claim = AtMost(growing.bound(k))
        yield Check(case.regime, case.instance.name, "growing steps", T, mean_of(measured), claim)


def along_the_way(record: Record, growing: GrowingSteps) -> tuple[int, np.ndarray]:
    """k, next to the best one, and the mean of ‖∇f‖ over the first k iterates with weights γ_i at least, by seed."""
    steps = record.steps[record.steps < growing.steps]
    last = int(np.argmin(np.abs(steps + 1 - growing.best())))
    sums = record.mean_stationarity[0, :, : last + 1] * (steps[: last + 1] + 1)
    between = np.diff(sums, axis=1, prepend=0.0)  # of the iterates after one record up to the next
    k = int(steps[last]) + 1
    weights = FIRST * RATIO ** (steps[: last + 1] / growing.steps) / growing.length(k)
    return k, between @ weights
