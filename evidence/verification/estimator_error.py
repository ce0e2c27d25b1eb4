"""The mean of ‖v^k − ∇f(x^k)‖ against the proofs' bound on it."""

from __future__ import annotations

from collections.abc import Iterator

from evidence.verification.cases import Ladder
from evidence.verification.checks import AtMost, Check
from gladstorm import theory
from gladstorm.core.statistics import mean_of
from gladstorm.theory import Statement
from gladstorm.theory.master_bounds import Bound


def error_bound(statement: Statement, T: int) -> Bound:
    """The bound whose proof bounds the mean error: (1/T) Σ E‖v − ∇f‖ ≤ level + feedback · (1/T) Σ E‖∇f‖.

    For smooth f nothing is absorbed, and the sharper bound's proof is the sharper one here too.
    """
    sharper = theory.sharper(statement, T) if statement.smoothness == "smooth" else None
    return sharper or theory.master(statement, T)


def checks(ladder: Ladder) -> Iterator[Check]:
    """The mean error at every horizon; nothing without noise, where v is the gradient whatever the theorems say."""
    case = ladder.case
    if case.noise == "deterministic":
        return
    for T, record in ladder.records.items():
        error, norm = record.mean_error[0, :, -1], record.mean_grad_norm[0, :, -1]
        bound = error_bound(ladder.statement, T)
        beyond = mean_of(error - bound.error_feedback * norm)
        yield Check(case.regime, case.instance.name, "estimator error", T, beyond, AtMost(bound.error_level))


def tightness(ladder: Ladder) -> list[float]:
    """The mean error relative to its bound, feedback included, at each horizon; nothing without noise."""
    if ladder.case.noise == "deterministic":
        return []
    ratios = []
    for T, record in ladder.records.items():
        bound = error_bound(ladder.statement, T)
        error, norm = record.mean_error[..., -1].mean(), record.mean_grad_norm[..., -1].mean()
        ratios.append(float(error / (bound.error_level + bound.error_feedback * norm)))
    return ratios
