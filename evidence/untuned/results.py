"""The results of the untuned method's judgement: a dataclass for each problem and budget, kept as one JSON file."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evidence.untuned.rivals import OURS, TUNED
from gladstorm.core.estimate import Estimate

DRAWS = 2000  # of the bootstrap


@dataclass(frozen=True)
class EndScores:
    """‖∇f‖ and the loss of a method at the end of each seed's run; None where it diverged."""

    norm: list[float | None]
    loss: list[float | None]


@dataclass(frozen=True)
class JudgedCase:
    """One problem at one budget: the scores of all methods, and the settings that tuning chose."""

    problem: str
    family: str
    budget: int  # stochastic gradients of a run
    seeds: int
    f_inf: float
    settings: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    scores: dict[str, EndScores] = field(default_factory=dict)

    def by_seed(self, name: str, score: str = "norm") -> np.ndarray:
        """The scores of a method, a tuned one with the setting that was chosen by f; infinite if diverged."""
        values = np.array(getattr(self.scores[f"{name}, by loss" if name in TUNED else name], score), float)
        return np.where(np.isfinite(values), values, np.inf) - (self.f_inf if score == "loss" else 0.0)

    def mean(self, name: str, score: str = "norm") -> float:
        """The mean over seeds."""
        return float(self.by_seed(name, score).mean())

    @property
    def best(self) -> str:
        """The tuned family that did best in f."""
        return min(TUNED, key=lambda name: self.mean(name, "loss"))

    def ratio(self, score: str = "norm", *, ours: str = OURS, to: str | None = None) -> float:
        """Ours divided by the best tuned rival's, or by another method's."""
        return self.mean(ours, score) / self.mean(to or self.best, score)

    def interval(self, score: str = "norm") -> Estimate:
        """The ratio with its 95 % bootstrap interval, over seeds that both methods share."""
        ours, rival = self.by_seed(OURS, score), self.by_seed(self.best, score)
        drawn = np.random.default_rng(0).integers(ours.size, size=(DRAWS, ours.size))
        low, high = np.quantile(ours[drawn].mean(axis=1) / rival[drawn].mean(axis=1), [0.025, 0.975])
        return Estimate(self.ratio(score), float(low), float(high))

    @property
    def diverged(self) -> int:
        """How many of our runs did."""
        return int((~np.isfinite(self.by_seed(OURS))).sum())
