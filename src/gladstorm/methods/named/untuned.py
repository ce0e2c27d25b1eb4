"""Candidates for those who do not want to tune: nothing in them has to be chosen for a problem.

They came out of trials on development problems. docs/untuned.md says how they did on problems that were held out: well
in short runs, badly in some long ones. No rate is proved for them here, nor anywhere that we know of.
"""

from __future__ import annotations

from gladstorm.foundation.references import IVGI_2023, KESTEN_1958
from gladstorm.methods.averages import PolynomialAverage
from gladstorm.methods.batches import BatchSizes
from gladstorm.methods.decay import with_decay
from gladstorm.methods.declaration import declared
from gladstorm.methods.estimators import Fresh
from gladstorm.methods.method import Method, rule
from gladstorm.methods.schedules import Tunable
from gladstorm.methods.steps import Steered

SOURCE = f"this project, after {KESTEN_1958} and {IVGI_2023}"


@declared(source=SOURCE, sfo="K + 1")
def steered_landing(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """x ← x − γ (1 − k/K) ℓ u: the length ℓ is the step's own (`Steered`), and ends at 0; an average is reported.

    γ = 1 is the method; the length of the run is all it is told.
    """
    return with_decay(steered(gamma, batch=batch))


@declared(source=SOURCE, sfo="K + 1")
def steered(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """x ← x − γ ℓ u: `steered_landing` without an end, for runs whose length nobody knows; an average is reported."""
    return Method(Fresh(), Steered(gamma), rule(batch), PolynomialAverage(4.0))
