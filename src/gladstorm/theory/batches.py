"""Batches: which size is worth its samples, what a wrong one costs, and the curve of steps against samples.

Most of it is about the critical batch B_c = σ(r)²/‖∇f‖²: a batch b takes 1 + B_c/b times the fewest steps
and 1 + b/B_c times the fewest samples. docs/proofs.md has the theorems G and H.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import NON_NEGATIVE, POSITIVE
from gladstorm.theory.sharper_bounds import MomentumFeedback
from gladstorm.theory.statement import Condition

BATCHES = {"one": 0, "sigma": 1, "sigma2": 2}  # the power q of the noise's deviation that a batch grows like


def critical_batch(problem: Problem, distance: float, gradient: float) -> float:
    """Critical batch τ²(G + B r^(a/2))²/‖∇f‖² at a distance from x⁰.

    Args:
        problem, distance: The constants of the noise, and r.
        gradient: The gradient's (dual) norm there.

    >>> critical_batch(Problem(alpha=0, L0=1, B=2, G=1, gap=1), distance=3, gradient=0.5)
    196.0
    """
    NON_NEGATIVE.require("critical_batch", "distance", distance)
    POSITIVE.require("critical_batch", "gradient", gradient)
    noise = problem.G + problem.B * math.pow(distance, problem.half_growth)
    return math.pow(problem.norm.tau * noise / gradient, 2)


def batch_for_time(critical: Any, worth: Any) -> Any:
    """Batch √(m B_c), the fastest where a step takes as long as m samples; it is so at every moment.

    >>> batch_for_time(critical=400, worth=4)
    40.0
    """
    return (worth * critical) ** 0.5  # of arrays, too


def batch_for_samples(critical: float, excess: float) -> float:
    """Batch x B_c, the largest that takes at most 1 + x times the fewest samples.

    >>> batch_for_samples(critical=400, excess=0.25)
    100.0
    """
    return excess * critical


def price_of_wrong_batch(factor: float, excess: float = 1.0) -> float:
    """Cost of a batch that is wrong by a factor u, over that of √(m B_c): 1 + y(u + 1/u − 2)/(1 + y)² with y = b/B_c.

    It is largest at y = 1. If B_c is wrong by a factor of 4, so is b by one of 2, and the price is 12.5 % at most.

    >>> price_of_wrong_batch(math.sqrt(4)), round(price_of_wrong_batch(math.sqrt(2)), 3)
    (1.125, 1.03)
    """
    POSITIVE.require("price_of_wrong_batch", "factor", factor)
    POSITIVE.require("price_of_wrong_batch", "excess", excess)
    return 1 + excess * (factor + 1 / factor - 2) / (1 + excess) ** 2


def mean_noise(problem: Problem, reach: float, power: int) -> float:
    """Mean of σ(D√t)^q over t in [0, 1] for q = 0, 1 or 2, σ(r) = G + B r^h: along a run that gets as far as D."""
    h, G = problem.half_growth, problem.G
    grown = problem.B * math.pow(reach, h)
    if power == 0:
        return 1.0
    if power == 1:
        return G + grown / (1 + h / 2)
    return G * G + 2 * G * grown / (1 + h / 2) + grown * grown / (1 + h)


@dataclass(frozen=True)
class Hyperbola:
    """Steps against samples, (S/S0 − 1)(N/N0 − 1) = 1: what all batches of one shape can reach.

    >>> Hyperbola(steps=100.0, samples=1000.0).at(1.0)
    (200.0, 2000.0)
    """

    steps: float  #: S0, the fewest steps, of infinite batches
    samples: float  #: N0, the fewest samples, of single ones

    def at(self, excess: float) -> tuple[float, float]:
        """Steps and samples where 1 + x times the fewest samples are taken, and so 1 + 1/x times the fewest steps."""
        POSITIVE.require("Hyperbola", "excess", excess)
        return self.steps * (1 + 1 / excess), self.samples * (1 + excess)


def trade_off(problem: Problem, eps: float, batch: str = "sigma") -> Hyperbola:
    """Steps against samples of plain SGD for E‖∇f(x̂)‖² ≤ ε², with batches like a power of the noise (Theorem H).

    A batch like σ is the best one, and one like σ² is as good as a constant one. Rounding to whole samples is left out.

    Args:
        problem, eps: The constants, those of f, and ε.
        batch: "sigma" or "sigma2".

    >>> problem = Problem(alpha=0, L0=1, B=1, G=0, gap=1)
    >>> grows, constant = (trade_off(problem, 1e-9, batch).samples for batch in ("sigma", "sigma2"))
    >>> round(constant / grows, 3)
    1.125
    """
    POSITIVE.require("trade_off", "eps", eps)
    if batch not in ("sigma", "sigma2"):
        raise ValueError(f"trade_off: batch must be sigma or sigma2; got batch={batch!r}.")
    L, D, q = problem.constant("sgd", "L0"), problem.gap, BATCHES[batch]
    reach, fewest = 2 * D / eps + math.sqrt(2 * D / L), 2 * L * D / eps**2
    means = mean_noise(problem, reach, q) * mean_noise(problem, reach, 2 - q)
    return Hyperbola(fewest, fewest * means / eps**2)


@dataclass(frozen=True)
class MomentumInBatches(MomentumFeedback):
    """NSGDM with batches b_0 ≤ b_1 ≤ … fixed before the run: T = Σ b_k counts samples, γ_k = γ b_k and η_k = η b_k ≤ 1.

    x̂ = x^k with probability b_k/T. Relative to single samples the drift falls and the noise grows by √2 at most, while
    the steps may be as few as ηT: only samples count.
    """

    mean_batch: float = 1.0  #: β = Σ b_k²/T
    largest_batch: float = 1.0  #: the last batch

    source = "G: NSGDM, batches"

    def conditions(self) -> tuple[Condition, ...]:
        """Weights η_k are at most 1; there is no bound with decay."""
        still = Condition("no decay", float(self.problem.decay is not None), 0.0)
        return (*super().conditions(), Condition("η b ≤ 1", self.eta * self.largest_batch, 1.0), still)

    @property
    def stride(self) -> float:
        """How many times γ a step may be long: the largest batch."""
        return self.largest_batch

    @property
    def feedback(self) -> float:
        """L1 γ e^{L1 γ b} (2/η + b/2)."""
        return self.growing * self.bent * (2 / self.eta + self.largest_batch / 2) if self.growing else 0.0

    def _stated(self) -> dict[str, float]:
        p, N, bent = self.problem, float(self.horizon), self.constant("L0") * self.bent
        scale = 2 * p.norm.tau * math.sqrt(self.eta / (2 - self.eta * self.largest_batch))
        terms = {
            "gap": p.gap / (self.gamma * N),
            "initial error": 2 * self.initial_error * min(1.0, 1 / (self.eta * N)),
            "drift": 2 * bent * (1 / self.eta - self.mean_batch),
            "noise": scale * p.G,
            "noise growth": scale * p.B * (self.gamma * N) ** p.half_growth / (1 + p.half_growth),
            "curvature": bent * self.mean_batch / 2,
        }
        return self._per_gradient_left(terms)


class StormInBatches(MomentumInBatches):
    """NSTORM with such batches and mean-square smooth samples; it takes 2T stochastic gradients."""

    method = "nstorm"
    source = "G: NSTORM, batches"

    def _stated(self) -> dict[str, float]:
        p, N, L = self.problem, float(self.horizon), self.constant("L")
        difference = 2 * p.norm.tau / math.sqrt(self.eta * (2 - self.eta * self.largest_batch))
        grown = p.B * (self.gamma * N) ** p.half_growth / (1 + p.half_growth)
        return {
            "gap": p.gap / (self.gamma * N),
            "initial error": 2 * self.initial_error * min(1.0, 1 / (self.eta * N)),
            "difference": difference * p.norm.nu * L * self.gamma,
            "noise": difference * self.eta * p.G,
            "noise growth": difference * self.eta * min(grown, p.norm.nu * L * self.gamma * N / 2),
            "curvature": p.norm.widest * L * self.gamma * self.mean_batch / 2,
        }
