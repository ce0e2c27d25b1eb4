"""The paper's two experiments: phase retrieval, α = 2/3, and the cubic on the line, α = 1/2. Data only.

An experiment is a problem, five methods, and what the paper says of the outcome.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

import numpy as np

from evidence.reproduction import claims as paper
from evidence.reproduction.results import COMPARED, NSGDM, NSTORM, SGD, SGD_DYNAMIC, STORM_DYNAMIC
from gladstorm.core.rules import COUNT, NON_NEGATIVE, POSITIVE, Rule
from gladstorm.problems.objectives import Objective, PhaseRetrieval, Power

PAPER_SEEDS: Final = 3
TUNING_SEEDS: Final = (1000, 1001, 1002, 1003)  # disjoint from the reported ones, which are 0, 1, …

_GRID = Rule(
    "at least two step sizes, increasing", lambda v: v.ndim == 1 and v.size > 1 and bool(np.all(np.diff(v) > 0))
)
_SEEDS = Rule(
    f"a whole number from 1 to {TUNING_SEEDS[0]}", lambda v: (v >= 1) & (v <= TUNING_SEEDS[0]) & (v == np.floor(v))
)


@dataclass(frozen=True)
class Experiment:
    """One of the paper's two: everything it states, and what it leaves open as choices with reasons."""

    name: str
    title: str
    about: Callable[[Any], str]  # of the instance that was run
    instance: Callable[..., Objective]  # of a seed
    minimisers: Callable[..., tuple[np.ndarray, ...]]  # of the instance of a seed
    small: Mapping[str, int]  # what makes both those of a small instance
    G: float
    gamma0: Mapping[str, float]  # γ0 of the normalized methods
    eta0: float
    grids: Mapping[str, tuple[float, ...]]  # step sizes of the tuned methods
    many_seeds: tuple[str, ...]  # methods cheap enough to run on every seed of the verdicts; the others run on three
    claims: tuple[paper.Claim, ...]
    choices: tuple[tuple[str, str], ...]  # what the paper leaves open besides `ReproductionSettings`: what, and why so

    def sized(self, *, quick: bool) -> Self:
        """The experiment as it is, or on its small instances."""
        if not quick:
            return self
        instance, minimisers = partial(self.instance, **self.small), partial(self.minimisers, **self.small)
        return replace(self, instance=instance, minimisers=minimisers)


@dataclass(frozen=True)
class ReproductionSettings:
    """The numbers that a user may change."""

    B: float = 0.5
    sigma2: float | None = None  # σ² of the dynamic batches; G² if not given
    seeds: int = 100  # of the verdicts; the figure shows the first three
    steps: int = 10_000  # K; the paper's T is K + 1
    grid: tuple[float, ...] | None = None  # instead of every tuned method's own
    quick: bool = False  # small instances: every path in seconds, no evidence

    def check(self) -> None:
        """Raise a ValueError for the first number that is out of range."""
        NON_NEGATIVE.require("reproduction", "B", self.B)
        _SEEDS.require("reproduction", "seeds", self.seeds)
        COUNT.require("reproduction", "steps", self.steps)
        if self.steps < 20:
            raise ValueError(
                f"reproduction: steps must be at least 20, the last tenth is averaged; got steps={self.steps}."
            )
        if self.sigma2 is not None:
            POSITIVE.require("reproduction", "sigma2", self.sigma2)
        if self.grid is not None:
            POSITIVE.require("reproduction", "grid", self.grid)
            _GRID.require("reproduction", "grid", self.grid)


QUICK: Final = ReproductionSettings(seeds=3, steps=400, quick=True)


def half_decades(low: float, high: float) -> tuple[float, ...]:
    """1, 3, 10, 30, … times a power of ten, from low to high.

    >>> half_decades(1e-3, 0.1)
    (0.001, 0.003, 0.01, 0.03, 0.1)
    """
    digits = [factor * 10.0**e for e in range(-12, 6) for factor in (1, 3)]
    return tuple(float(f"{d:.0e}") for d in digits if low * 0.99 < d < high * 1.01)


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
