"""Laws of the mean error of v that a proof allows."""

import math

import pytest

from evidence.verification.estimator_error import error_feedback, error_level
from gladstorm.theory import Problem
from gladstorm.theory.class_constants import symmetric
from gladstorm.theory.master_bounds import Bound, MomentumLinear, MomentumSublinear, StormLinear, StormSublinear
from gladstorm.theory.sharper_bounds import StormSmooth

STORM = 16 * math.sqrt(2 * math.exp(0.75)) * 0.5  # 16 √(2e^(3/4)) L1


def test_what_the_error_of_momentum_feeds_back_is_what_youngs_inequality_left_of_the_drift() -> None:
    """K1 u^α ≤ w u + R̃ with the smallest R̃: (C̃ − K0 − K2) is that R̃ exactly if w is the feedback in units of γ/η."""
    alpha, gamma, eta = 0.5, 0.01, 0.1
    bound = MomentumSublinear(Problem(alpha=alpha, L0=1.5, L1=0.25, B=0, G=1, gap=1), gamma, eta, 1.0, 100)
    k = symmetric(1.5, 0.25, alpha)
    w = error_feedback(bound) * eta / gamma
    u = (alpha * k.gradient / w) ** (1 / (1 - alpha))  # where K1 u^α − w u is largest
    assert k.gradient * u**alpha - w * u == pytest.approx(k.drift - k.base - k.distance, rel=1e-12)


@pytest.mark.parametrize("kind", [MomentumLinear, MomentumSublinear, StormSublinear, StormLinear])
def test_without_curvature_every_proof_bounds_the_error_of_v_by_what_is_left_of_v0_and_an_average_of_noise(
    kind: type[Bound],
) -> None:
    alpha = 0.5 if kind in (MomentumSublinear, StormSublinear) else 1.0
    B, G, gamma, eta, b0, T = 0.4, 0.7, 0.01, 0.1, 0.5, 1000
    run = kind(Problem(alpha=alpha, L0=0, L1=0, B=B, G=G, gap=3), gamma, eta, b0, T)
    distance = gamma * (T - 1) / 2 if run.method == "nsgdm" else gamma * T
    assert error_level(run) == pytest.approx(b0 / (eta * T) + math.sqrt(eta) * (G + B * distance), rel=1e-12)


def test_the_sharper_proof_for_nstorm_bounds_the_error_of_v_by_geometric_sums() -> None:
    L, B, G, gamma, eta, b0, T = 1.0, 0.4, 0.7, 0.01, 0.1, 0.5, 1000
    run = StormSmooth(Problem(alpha=0, L=L, B=B, G=G, gap=3), gamma, eta, b0, T)
    forgotten = sum((1 - eta) ** k for k in range(T)) / T
    added = (L * gamma + eta * (G + B * gamma * (T - 2) / 2)) / math.sqrt(eta * (2 - eta))
    assert error_level(run) == pytest.approx(b0 * forgotten + added, rel=1e-12)


def test_at_the_edge_of_a_theorem_the_error_of_v_feeds_on_an_eighth_of_the_gradient() -> None:
    """Twice that is the quarter which the proofs for 0 < α < 1, and for NSTORM at α = 1, bring to the left."""
    eta, L1 = 0.25, 0.5
    for kind, alpha, gamma in (
        (MomentumSublinear, 0.5, eta),
        (StormSublinear, 0.5, 0.01),
        (StormLinear, 1.0, eta / STORM),
    ):
        edge = kind(Problem(alpha=alpha, L0=1, L1=L1, B=1, G=1, gap=1), gamma, eta, 1.0, 100)
        assert error_feedback(edge) == pytest.approx(1 / 8, rel=1e-12)
    gamma = 0.1
    linear = MomentumLinear(Problem(alpha=1, L0=1, L1=L1, B=1, G=1, gap=1), gamma, eta, 1.0, 100)
    assert error_feedback(linear) == pytest.approx(L1 * gamma * math.exp(L1 * gamma) / eta, rel=1e-12)
