"""The mean of ‖v^k − ∇f(x^k)‖ against the proofs' bound on it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gladstorm import theory
from gladstorm.theory import Statement
from gladstorm.verification.checks import AtMost, Check, mean_of
from gladstorm.verification.runs import Ladder

# A bound on ‖∇f‖ contains these terms because the descent inequality charges the error of v. See `error_bound`.
ERROR_TERMS = ("initial error", "drift", "difference", "noise")


@dataclass(frozen=True)
class ErrorBound:
    """(1/T) Σ_k E‖v^k − ∇f(x^k)‖ ≤ level + feedback · (1/T) Σ_k E‖∇f(x^k)‖."""

    level: float
    feedback: float


def error_bound(statement: Statement, T: int) -> ErrorBound:
    """The proofs' bound on the mean error, before it is absorbed.

    A step obeys f(x⁺) ≤ f(x) − γ‖∇f‖ + 2γ‖v − ∇f‖ + curvature, so each bound on ‖∇f‖ contains twice the error's, times
    what absorbing the feedback costs. What is absorbed is the growth of curvature with the gradient: Young's inequality
    leaves 1/8 of γ/η (NSGDM) and, at the largest weight λ, of 1 (NSTORM); for α = 1 the growth is linear as it is.
    """
    eta, gamma, *_ = statement.schedule(T)
    master, sharper = theory.master(statement, T), theory.sharper(statement, T)
    match statement.method, statement.smoothness:
        case _, "smooth" if sharper is not None:
            return ErrorBound(_charged(sharper.terms()) / 2, 0.0)
        case "nsgdm", "sublinear":
            return ErrorBound(_charged(master.terms()) / 4, gamma / (8 * eta))
        case "nsgdm", "linear":
            reach = statement.L1 * gamma
            return ErrorBound(_charged(master.terms()) / 4, reach * math.exp(reach) / eta)
        case "nstorm", "sublinear":
            return ErrorBound(_charged(master.terms()) / 8, 1 / 8)
        case "nstorm", "linear":
            growth = math.sqrt(2 * math.exp(3 / 4))
            return ErrorBound(_charged(master.terms()) / 8, 2 * growth * statement.L1 * gamma / eta)
    raise ValueError(f"error_bound: statement must be a stochastic regime; got {type(statement).__name__}.")


def _charged(terms: dict[str, float]) -> float:
    return math.fsum(value for name, value in terms.items() if name.startswith(ERROR_TERMS))


def checks(ladder: Ladder) -> Iterator[Check]:
    """The mean error at every horizon. Without noise v is the gradient, at any η of NSTORM and at NSGDM's η = 1."""
    case = ladder.case
    for T, record in ladder.records.items():
        error, norm = record.mean_error[0, :, -1], record.mean_grad_norm[0, :, -1]
        if case.noise == "deterministic":
            relative = error / norm
            yield Check(case.regime, case.instance.name, "estimator error", T, mean_of(relative), AtMost(1e-12))
            continue
        bound = error_bound(ladder.statement, T)
        beyond = mean_of(error - bound.feedback * norm)
        yield Check(case.regime, case.instance.name, "estimator error", T, beyond, AtMost(bound.level))


def tightness(ladder: Ladder) -> list[float]:
    """The mean error relative to its bound, feedback included, at each horizon; nothing without noise."""
    if ladder.case.noise == "deterministic":
        return []
    ratios = []
    for T, record in ladder.records.items():
        bound, error, norm = (
            error_bound(ladder.statement, T),
            record.mean_error[..., -1],
            record.mean_grad_norm[..., -1],
        )
        ratios.append(float(error.mean() / (bound.level + bound.feedback * norm.mean())))
    return ratios
