"""An experiment of the paper: a problem, five methods, and what the paper says of the outcome. Data only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

import numpy as np

from evidence.reproduction.claims import Claim
from gladstorm.core.rules import COUNT, NON_NEGATIVE, POSITIVE, Rule
from gladstorm.problems.objectives import Objective

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
    claims: tuple[Claim, ...]
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
