"""The paper's two experiments: phase retrieval, α = 2/3, and the cubic on the line, α = 1/2."""

from collections.abc import Iterable

import numpy as np

from evidence.reproduction import claims as paper
from evidence.reproduction.experiment import Experiment, half_decades
from evidence.reproduction.results import COMPARED, NSGDM, NSTORM, SGD, SGD_DYNAMIC, STORM_DYNAMIC
from gladstorm.problems.objectives import PhaseRetrieval, Power


def _both_signals(seed: int, **small: int) -> tuple[np.ndarray, ...]:
    signal = PhaseRetrieval.signal(seed, **small)
    return signal, -signal


PHASE_RETRIEVAL = Experiment(
    name="phase-retrieval",
    title="Phase retrieval",
    about=lambda f: (
        f"f(x) = 1/(2m) Σ (y_r − (a_r·x)²)² with m = {len(f.y)} measurements in d = {f.start.size} dimensions, "
        "a ~ N(0, 0.1²), x* ~ N(0, I), x⁰ ~ N(5, I); f is in L*_sym(2/3). Every seed has its own A, x*, x⁰ and noise."
    ),
    instance=PhaseRetrieval.from_seed,
    minimisers=_both_signals,
    small={"m": 300, "dim": 10},
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
        *paper.lower_gradient_norm(
            "NSTORM reaches a lower gradient norm than NSGDM, "
            "consistent with the improved exponent of variance reduction"
        ),
        paper.grows_to_a_thousand("the dynamic-batching baselines require batch sizes growing to ∼10³"),
        *paper.drift_stabilises("‖xᵏ−x⁰‖² stabilizes for both normalized methods"),
        paper.single_sample_sgd_drifts("single-sample SGD drifts until the dynamic batch size compensates"),
        paper.batch_stays_one("NSGDM and NSTORM using a single fresh sample per iteration"),
    ),
    choices=(
        (
            "instances",
            "A, x* and x⁰ are drawn anew for every seed: the paper averages over seeds and does not say which.",
        ),
    ),
)

CUBIC = Experiment(
    name="cubic",
    title="Cubic polynomial",
    about=lambda _: (
        "f(x) = |x|³ on the line, x* = 0, x⁰ ~ N(5, 0.1); f is in L*_sym(1/2). Every seed has its own x⁰ and noise."
    ),
    instance=Power.from_seed,
    minimisers=lambda _: (np.zeros(1),),
    small={},
    G=0.5,
    gamma0={NSGDM: 1.0, NSTORM: 1.0},
    eta0=1.0,
    grids={
        SGD: half_decades(1e-5, 3e-1),
        SGD_DYNAMIC: half_decades(1e-5, 3e-1),
        STORM_DYNAMIC: half_decades(1e-5, 3e-1),
    },
    many_seeds=COMPARED,
    claims=(
        *paper.lower_gradient_norm(
            "NSTORM again reaches a lower gradient norm than NSGDM, reflecting the benefit of variance reduction"
        ),
        paper.grows_tenfold(
            "The dynamic batching baselines require batch sizes that grow by over an order of magnitude"
        ),
        paper.batch_stays_one("the normalized methods maintain batch size one throughout"),
    ),
    choices=(
        ("x⁰ ~ N(5, 0.1)", "0.1 is read as the variance: the paper writes N(0, 0.01) for a standard deviation of 0.1."),
    ),
)

EXPERIMENTS = {experiment.name: experiment for experiment in (PHASE_RETRIEVAL, CUBIC)}


def choose(names: Iterable[str]) -> list[Experiment]:
    """Experiments by name; all of them if none is named."""
    for name in names:
        if name not in EXPERIMENTS:
            raise ValueError(f"reproduction: experiments are {', '.join(EXPERIMENTS)}; got {name!r}.")
    return [experiment for name, experiment in EXPERIMENTS.items() if name in (set(names) or EXPERIMENTS)]
