"""Candidates for those who do not want to tune: nothing in them has to be chosen for a problem.

They came out of trials on development problems. docs/evidence/untuned says how they did on problems that were held out:
well in short runs, badly in some long ones. No rate is proved for them here, nor anywhere that we know of.
"""

from __future__ import annotations

from gladstorm.core.references import IVGI_2023, KESTEN_1958
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
    """x ← x − γ (1 − k/K) ℓ u, where `Steered` finds the length ℓ, and the factor 1 − k/K lets the steps end at 0.

    γ = 1 is the method. All that it has to know is the length of the run. It reports an average.
    """
    return with_decay(steered(gamma, batch=batch))


@declared(source=SOURCE, sfo="K + 1")
def steered(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """x ← x − γ ℓ u: `steered_landing` without its decay, for runs whose length is not known. It reports an average."""
    return Method(Fresh(), Steered(gamma), rule(batch), PolynomialAverage(4.0))
