"""Phase retrieval: the paper's first experiment, α = 2/3."""

from __future__ import annotations

from functools import partial

import numpy as np

from evidence.reproduction.claims import (
    batch_stays_one,
    drift_stabilises,
    grows_to_a_thousand,
    lower_gradient_norm,
    single_sample_sgd_drifts,
)
from evidence.reproduction.compared_methods import NSGDM, NSTORM, SGD, SGD_DYNAMIC, STORM_DYNAMIC
from evidence.reproduction.experiment import Experiment, half_decades
from gladstorm.problems.objectives import PhaseRetrieval

_SMALL = {"m": 300, "dim": 10}


def _both_signs(signal: np.ndarray) -> tuple[np.ndarray, ...]:
    return signal, -signal


PHASE_RETRIEVAL = Experiment(
    name="phase-retrieval",
    title="Phase retrieval",
    about=lambda f: (
        f"f(x) = 1/(2m) Σ (y_r − (a_r·x)²)² with m = {len(f.y)} measurements in d = {f.start.size} dimensions, "
        "a ~ N(0, 0.1²), x* ~ N(0, I), x⁰ ~ N(5, I); f is in L*_sym(2/3). Every seed has its own A, x*, x⁰ and noise."
    ),
    instance=PhaseRetrieval.from_seed,
    minimisers=lambda seed: _both_signs(PhaseRetrieval.signal(seed)),
    small_instance=partial(PhaseRetrieval.from_seed, m=_SMALL["m"], dim=_SMALL["dim"]),
    small_minimisers=lambda seed: _both_signs(PhaseRetrieval.signal(seed, _SMALL["m"], dim=_SMALL["dim"])),
    G=1.0,
    gamma0={NSGDM: 10.0, NSTORM: 7.5},
    eta0=1.0,
    grids={
        SGD: half_decades(3e-5, 1.0),
        SGD_DYNAMIC: half_decades(3e-4, 10.0),
        STORM_DYNAMIC: half_decades(3e-4, 10.0),
    },
    many_seeds=(NSGDM, NSTORM, SGD),
    claims=(
        *lower_gradient_norm(
            "NSTORM reaches a lower gradient norm than NSGDM, "
            "consistent with the improved exponent of variance reduction"
        ),
        grows_to_a_thousand("the dynamic-batching baselines require batch sizes growing to ∼10³"),
        *drift_stabilises("‖xᵏ−x⁰‖² stabilizes for both normalized methods"),
        single_sample_sgd_drifts("single-sample SGD drifts until the dynamic batch size compensates"),
        batch_stays_one("NSGDM and NSTORM using a single fresh sample per iteration"),
    ),
    choices=(
        (
            "instances",
            "A, x* and x⁰ are drawn anew for every seed: the paper averages over seeds and does not say which.",
        ),
    ),
)
