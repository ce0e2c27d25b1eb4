"""NSGDM with steps that grow geometrically: it needs no constant of the problem, and this is what that costs.

x^{k+1} = x^k − γ_k v^k/‖v^k‖ with γ_k = γ_0 ϱ^(k/K) for k = 0..K−1. Its first k steps have the bound S1 of T_k steps of
one length: T_k = (Σ γ_i)²/Σ γ_i². A run of K steps that passes every length from γ_0 to ϱ γ_0 is therefore worth a
tuned one of about 2K/log ϱ steps. docs/proofs.md leads to the proof (S10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from gladstorm.theory.class_constants import best_linear_class
from gladstorm.theory.problem import PAPER_GROWTH, Problem
from gladstorm.theory.rules import HORIZON, POSITIVE, NumberRule, OutOfRange, in_range
from gladstorm.theory.search import lowest
from gladstorm.theory.statement import Condition

RATIO = NumberRule("finite and > 1", lambda v: 1 < v < math.inf)


class SelectedPoint(NamedTuple):
    """A point that is chosen by gradients at a few candidates: what is guaranteed of it, and at which price."""

    bound: float  # on E‖∇f‖ at the point
    gradients: int  # K of the run, and those at the candidates
    checkpoints: tuple[int, ...]  # candidate c is drawn from the iterates before checkpoint c


@dataclass(frozen=True)
class GrowingSteps:
    """S10: E‖∇f(x̂_k)‖ for every k from 1 to K at once, for L0-smooth f or f ∈ L*_sym(α), and η = T_K^(−2/3).

    For 0 < α < 1 it is the bound in the class α = 1 that contains the problem's, at the best scale for each k.
    x̂_k is one of x⁰..x^{k−1}, drawn with probability γ_i/Σ γ_i: uniformly along the way that k steps have gone.

    >>> run = GrowingSteps(Problem(alpha=0, L0=1, B=0.5, G=1, gap=3), first=1e-9, ratio=1e6, steps=10**6)
    >>> round(run.effective_steps(10**6)), round(run.length(run.best()), 1), round(run.bound(run.best()), 2)
    (144765, 8.2, 0.76)
    """

    problem: Problem
    first: float  #: γ_0 > 0, the length of the first step
    ratio: float  #: ϱ > 1: step k has the length γ_0 ϱ^(k/K)
    steps: int  #: K ≥ 1, of the whole run

    method: ClassVar[str] = "nsgdm"
    source: ClassVar[str] = "S10: NSGDM, growing steps"

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name in ("L0", "L1")[: 1 if self.problem.smoothness == "smooth" else 2]:
            self.problem.constant(self.method, name)
        POSITIVE.require(owner, "first", self.first)
        RATIO.require(owner, "ratio", self.ratio)
        HORIZON.require(owner, "steps", self.steps)

    @property
    def rate(self) -> float:
        """log q: a step is q = ϱ^(1/K) times as long as the one before."""
        return math.log(self.ratio) / float(self.steps)

    @property
    def eta(self) -> float:
        """η = T_K^(−2/3): the paper's schedule for as many steps as the run is worth."""
        return math.pow(self.effective_steps(self.steps), -2 / 3)

    def length(self, k: float) -> float:
        """S_k = Σ_{i<k} γ_i = γ_0 (q^k − 1)/(q − 1): no run is farther from x⁰ after k steps."""
        return self.first * (math.expm1(k * self.rate) / math.expm1(self.rate))

    def mean_step(self, k: float) -> float:
        """γ̄_k = Σ γ_i²/Σ γ_i = γ_0 (q^k + 1)/(q + 1), the mean length of a step along the way."""
        return self.first * (math.exp(k * self.rate) + 1) / (math.exp(self.rate) + 1)

    def effective_steps(self, k: float) -> float:
        """T_k = S_k/γ̄_k = tanh(k log q/2)/tanh(log q/2) ≤ k."""
        return math.tanh(k * self.rate / 2) / math.tanh(self.rate / 2)

    def within(self, k: float) -> GrowingSteps:
        """Restate the run in the class of α = 1 with the smallest bound at k; itself unless 0 < α < 1."""
        wider = best_linear_class(self.problem, lambda problem: replace(self, problem=problem)._bound_or_infinity(k))
        return self if wider is None else replace(self, problem=wider)

    def conditions(self, k: float) -> tuple[Condition, ...]:
        """c_k > 0 of S7 for the longest of k steps: something of the gradient is left. If f is smooth, all of it is."""
        if self.problem.smoothness == "sublinear":
            return self.within(k).conditions(k)
        reach, words = self._reach(k), "L1 γ e^(L1 γ) (2 (1 − η)/η + 1/2) < 1 for the longest of k steps"
        feedback = reach * math.exp(min(reach, 700.0)) * (2 * (1 - self.eta) / self.eta + 1 / 2)
        return (Condition(words, feedback, 1.0, strict=True),)

    def terms(self, k: float) -> dict[str, float]:
        """The bound on E‖∇f(x̂_k)‖, term by term. All but the initial error are S1's for T_k steps of length γ̄_k."""
        if self.problem.smoothness == "sublinear":
            return self.within(k).terms(k)
        owner, p, eta, S, step = type(self).__name__, self.problem, self.eta, self.length(k), self.mean_step(k)
        (condition,) = self.conditions(k)
        if not condition.holds:
            raise OutOfRange(f"{owner}: k must be small enough for the bound's condition; got k={k}.")
        scale, bent = 2 * math.sqrt(eta / (2 - eta)), p.constant(self.method, "L0") * math.exp(self._reach(k)) * step
        terms = {
            "gap": p.gap / S,
            "initial error": 2 * p.norm.tau * p.G * self._forgotten(k) * (self.first / S),
            "drift": 2 * bent * (1 - eta) / eta,
            "noise": scale * p.norm.tau * p.G,
            "noise growth": scale * p.norm.tau * self._noise_growth(S, step),
            "curvature": bent / 2,
        }
        return {
            name: in_range(owner, f"the term {name!r}", value / (1 - condition.left)) for name, value in terms.items()
        }

    def bound(self, k: float) -> float:
        """The right-hand side: an upper bound on E‖∇f(x̂_k)‖, and so on the smallest E‖∇f(x^i)‖ with i < k."""
        if not 1 <= k <= float(self.steps):
            raise ValueError(f"{type(self).__name__}: k must be from 1 to steps={self.steps}; got k={k}.")
        return math.fsum(self.terms(k).values())

    def best(self) -> int:
        """The k with the smallest bound. The method does not know it; `select` says what finding it costs."""
        valley = lowest(self._bound_or_infinity, 1.0, float(self.steps))
        return min((math.floor(valley), min(math.ceil(valley), int(self.steps))), key=self._bound_or_infinity)

    def select(self, candidates: int, batch: int) -> SelectedPoint:
        """Candidates x̂_k at evenly spaced k, a batch of new gradients at each, and the one with the shortest mean.

        E‖∇f‖ there is at most min_c (bound(k_c) + σ_c/√m) + √(Σ σ_c²/m) with σ_c² = G² + B² S_k², or with
        another growth σ_c = G + B S_k^(a/2), times τ.
        """
        owner = type(self).__name__
        HORIZON.require(owner, "candidates", candidates)
        HORIZON.require(owner, "batch", batch)
        if candidates > self.steps:
            raise ValueError(f"{owner}: candidates must be at most steps={self.steps}; got candidates={candidates}.")
        points = tuple(-(-c * int(self.steps) // int(candidates)) for c in range(1, int(candidates) + 1))
        p = self.problem
        grown = [p.B * math.pow(self.length(k), p.half_growth) for k in points]
        noise = [math.hypot(p.G, far) if p.growth == PAPER_GROWTH else p.G + far for far in grown]
        errors = [p.norm.tau * each / math.sqrt(batch) for each in noise]
        best = min(self._bound_or_infinity(k) + error for k, error in zip(points, errors, strict=True))
        bound = in_range(owner, "the bound of the selection", best + math.hypot(*errors))
        return SelectedPoint(bound, int(self.steps) + len(points) * int(batch), points)

    def _noise_growth(self, S: float, step: float) -> float:
        """B times the mean of S_i^h along the way: (S − γ̄)/2 for h = 1, at most S^h/(1 + h) for every h."""
        h = self.problem.half_growth
        return self.problem.B * ((S - step) / 2 if h == 1 else S**h / (1 + h))

    def _bound_or_infinity(self, k: float) -> float:
        try:
            return self.bound(k)
        except OutOfRange:
            return math.inf

    def _reach(self, k: float) -> float:
        """L1 γ_{k−1}; 0 if f is smooth."""
        L1 = self.problem.constant(self.method, "L1") if self.problem.alpha else 0.0
        return L1 * self.first * math.exp((k - 1) * self.rate)

    def _forgotten(self, k: float) -> float:
        """Σ_{i<k} (q (1 − η))^i: how much of v⁰'s error counts, in steps of length γ_0."""
        if self.eta >= 1:
            return 1.0
        power = self.rate + math.log1p(-self.eta)
        return k if power == 0 else math.expm1(k * power) / math.expm1(power)
