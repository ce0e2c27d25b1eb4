"""The problem on which three of the paper's printed bounds are false; docs/errata.md says why and where it is from."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from evidence.verification.cases import Case
from evidence.verification.checks import Between, Check, PartResult, Parts, rounded
from evidence.verification.settings import VerificationSettings
from gladstorm.core.statistics import mean_of
from gladstorm.problems.objectives import Quadratic
from gladstorm.problems.oracles import Skewed
from gladstorm.theory import Problem, for_schedule, theorem

ALPHAS: Final = (0.0, 0.5, 1.0)
REGIMES: Final = {for_schedule("nsgdm", alpha=alpha, gamma0=1.0, G=1.0, B=0.0).regime for alpha in ALPHAS}
REGIME: Final = "nsgdm/*/bounded"  # one run for the three
INSTANCE: Final = "skewed quadratic, d = 1"
MEANING: Final = {
    "printed bound is false": "The counterexample of docs/errata.md exceeds three bounds as the paper prints them, and "
    "none of them as corrected.",
}


def parts(selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """The one part of the study, where a regime is asked for that it is about."""
    if REGIMES & {case.regime for case in selected}:
        yield "printed", partial(measure, settings)


def measure(settings: VerificationSettings) -> PartResult:
    """One run exceeds all that is printed, and nothing that is right: L0 = 10 T^(−1/4), G = T^(1/4)/0.366, γ0 = 1.

    The gap is 0 and L1 may be 0: the theorems ask for positive numbers, and get tiny ones.
    """
    T = settings.counterexample
    L0, G = 10 * T**-0.25, T**0.25 / 0.366
    statements = [
        theorem("nsgdm", Problem(alpha=alpha, L0=L0, L1=1e-9, B=0, G=G, gap=1e-12), gamma0=1.0) for alpha in ALPHAS
    ]
    smooth = statements[0]
    oracle = Skewed(Quadratic(np.zeros(1), np.array([L0])), 0.0, G, q=0.185 * smooth.schedule(T).eta)
    measured = mean_of(settings.simulate(oracle, settings.method(smooth, T), T).mean_grad_norm[0, :, -1])
    claim = Between(max(each.bound_as_printed(T) for each in statements), min(each.bound(T) for each in statements))
    rows = [
        {"regime": each.regime, "printed": rounded(each.bound_as_printed(T)), "corrected": rounded(each.bound(T))}
        for each in statements
    ]
    check = Check(REGIME, INSTANCE, "printed bound is false", T, measured, claim)
    return PartResult([check], {"printed bounds": rows})
