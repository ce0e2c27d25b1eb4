"""Bounds for curvature that grows like the gradient, α = 1, whatever of it feeds back being kept as it is.

The paper absorbs the feedback at the largest γ it admits; at smaller ones that is too much. docs/proofs.md has the
proofs.
"""

from __future__ import annotations

import math

from gladstorm.theory.master_bounds import Bound
from gladstorm.theory.terms import Condition


class MomentumFeedback(Bound):
    """NSGDM, f ∈ L*_sym(1): what the drift feeds on the gradient is brought to the left as it is, and leaves c of it.

    At L1 = 0 it is S1, at η = 1 without noise S6. The paper's bound asks for γ² T/η ≤ 1/(64 L1²), this one for c > 0.
    """

    method = "nsgdm"
    source = "S7: NSGDM, L*_sym(1)"

    @property
    def feedback(self) -> float:
        """1 − c = L1 γ e^{L1 γ} (2 (1 − η)/η + 1/2)."""
        return _reach(self) * (2 * (1 - self.eta) / self.eta + 1 / 2)

    def conditions(self) -> tuple[Condition, ...]:
        """Something of the gradient must be left."""
        return (Condition("L1 γ e^(L1 γ) (2 (1 − η)/η + 1/2) < 1", self.feedback, 1.0, strict=True),)

    def _stated(self) -> dict[str, float]:
        D, B, G, gamma, eta = self.problem.gap, self.problem.B, self.problem.G, self.gamma, self.eta
        curvature = self.constant("L0") * math.exp(self.constant("L1") * gamma)
        scale = 2 * math.sqrt(eta / (2 - eta))
        terms = {
            "gap": D / (gamma * float(self.horizon)),
            "initial error": forgotten_error(self),
            "drift": 2 * curvature * gamma * (1 - eta) / eta,
            "noise": scale * G,
            "noise growth": scale * B * gamma * self.updates / 2,
            "curvature": curvature * gamma / 2,
        }
        return _with_what_is_left(self, self.feedback, terms)


class StormFeedback(Bound):
    """NSTORM, E L*_sym(1): the same for the noise of the difference. c is not rounded down to 1/4, nor e^{L1 γ} up."""

    method = "nstorm"
    source = "S8: NSTORM, E L*_sym(1)"

    @property
    def feedback(self) -> float:
        """1 − c = L1 γ e^{L1 γ} (2/η + 1/2)."""
        return _reach(self) * (2 / self.eta + 1 / 2)

    def conditions(self) -> tuple[Condition, ...]:
        """Something of the gradient must be left."""
        return (Condition("L1 γ e^(L1 γ) (2/η + 1/2) < 1", self.feedback, 1.0, strict=True),)

    def _stated(self) -> dict[str, float]:
        D, B, G, gamma, eta = self.problem.gap, self.problem.B, self.problem.G, self.gamma, self.eta
        scale, reach = 2 / math.sqrt(eta * (2 - eta)), _reach(self)
        curvature = self.constant("L0") * math.exp(self.constant("L1") * gamma)
        grown, before = B * gamma * self.updates / 2, B * gamma * max(0.0, self.updates - 1) / 2
        terms = {
            "gap": D / (gamma * float(self.horizon)),
            "initial error": forgotten_error(self),
            "difference": scale * curvature * gamma,
            "difference, noise": scale * reach * G,
            "difference, noise growth": scale * reach * before,
            "noise": scale * eta * G,
            "noise growth": scale * eta * before,
            "curvature": curvature * gamma / 2,
            "curvature, noise": reach / 2 * G,
            "curvature, noise growth": reach / 2 * grown,
        }
        return _with_what_is_left(self, self.feedback, terms)


def forgotten_error(run: Bound) -> float:
    """2 b0 (1 − (1 − η)^T)/(η T): v⁰ is forgotten geometrically."""
    T = float(run.horizon)
    forgotten = 1.0 if run.eta == 1 else -math.expm1(T * math.log1p(-run.eta))
    return 2 * run.initial_error * forgotten / (run.eta * T)


def _reach(run: Bound) -> float:
    # L1 γ e^{L1 γ}: how much of ‖∇f(x)‖ the gradient may change by over one step, beside L0 γ e^{L1 γ}.
    reach = run.constant("L1") * run.gamma
    return reach * math.exp(reach) if reach < 700 else math.inf  # where doubles end


def _with_what_is_left(run: Bound, feedback: float, terms: dict[str, float]) -> dict[str, float]:
    left = 1 - feedback
    if left <= 0:
        owner = type(run).__name__
        raise ValueError(f"{owner}: gamma must be small enough for the bound's condition; got gamma={run.gamma}.")
    return {name: value / left for name, value in terms.items()}
