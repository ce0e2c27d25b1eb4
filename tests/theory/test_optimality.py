"""Upper against lower bounds: powers are computed, so a wrong one on either side shows."""

import math
from dataclasses import replace
from typing import Any

import pytest

from evidence.optimality.verdicts import ACCURACY, LOWER, best_cost, verdict, verdicts
from evidence.verification.rotated_runway import SQUASHED
from gladstorm.problems.hard.noisy_runway import QUIET
from gladstorm.theory import REGIMES, Norm, Problem, lower_bound, plan, smooth_lower_bound, theorem, uniform
from gladstorm.theory.table import ALPHAS, NOISES

PROBLEM = Problem(alpha=1, L0=1, L1=120, B=0.25, G=0, gap=1)


def test_in_every_regime_upper_and_lower_bound_agree_in_all_constants() -> None:
    found = {(each.method, each.smoothness, each.noise): each for each in verdicts()}
    assert len(found) == 18
    assert all(each.optimal for each in found.values())
    written = {setting: each.as_dict()["lower bound"] for setting, each in found.items()}
    assert written["nsgdm", "smooth", "bg0"] == "L0 B^2 Δ^3 ε^-6"
    assert written["nsgdm", "linear", "bounded"] == "L0 G^2 Δ ε^-4"
    assert written["nstorm", "smooth", "bg0"] == "min{L B Δ^2 ε^-4, L^2 Δ^2 ε^-4}"
    assert written["nstorm", "sublinear", "bg0"] == "L1 B^(1+α) Δ^(2+α) ε^-(4+α)"
    assert written["nstorm", "linear", "bg0"] == "L1 B^2 Δ^3 ε^-5"
    assert written["nstorm", "sublinear", "bounded"] == "L0 G Δ ε^-3 + L1 G^(1+α) Δ ε^-3"
    assert found["nsgdm", "smooth", "bg0"].factor == pytest.approx(432, rel=1e-3)  # by hand: 6.75 a⁶/(a − 1)³ at a = 2
    assert found["nsgdm", "smooth", "deterministic"].factor == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize(("method", "smoothness", "noise"), list(REGIMES))
def test_they_agree_whichever_constant_is_the_largest_or_the_smallest(method: str, smoothness: str, noise: str) -> None:
    """Not at B = L = 1 alone: there mean-square smooth samples of B > L look as if B were needed."""
    B, G = NOISES[noise]
    level = REGIMES[method, smoothness, noise].needs()[0]
    one: dict[str, Any] = {"alpha": ALPHAS[smoothness][0], "B": B, "G": G, "gap": 1e-3, level: 1.0}
    one |= {} if smoothness == "smooth" else {"L1": 1.0}
    ratios = []
    for name in [name for name in (level, "L1", "B", "G", "gap") if one.get(name)]:
        for factor in (1e-3, 1e3):
            problem = Problem(**(one | {name: factor * one[name]}))
            least = LOWER[method, noise][1](problem, ACCURACY)  # raises where the theorem does not hold
            ratios.append(best_cost(method, problem)[0] - math.log(least))
    assert max(ratios) - min(ratios) < math.log(400)  # a wrong power would be 10⁶, L/107 in place of B is 107


@pytest.mark.parametrize(
    ("wrong", "agree"),
    [
        (lambda p, eps: p.L1 * p.B**2 * p.gap**3 / eps**4, ("L1", "B", "Δ")),
        (lambda p, eps: p.L1 * p.B * p.gap**3 / eps**5, ("ε", "L1", "Δ")),
        (lambda p, eps: p.L0 * p.B**2 * p.gap**3 / eps**5, ("ε", "B", "Δ")),
        (lambda p, eps: eps**-5, ("ε",)),
    ],
)
def test_a_power_that_differs_is_told(wrong: Any, agree: tuple[str, ...]) -> None:
    found = verdict("nstorm", "linear", "bg0", "nobody", wrong)
    assert not found.optimal
    assert found.agree == agree
    assert found.as_dict()["agree in"] == ", ".join(agree)


def test_a_product_that_one_side_lacks_is_told() -> None:
    def with_another(p: Problem, eps: float) -> float:
        return (p.constant("", "L1") + p.constant("", "L0") ** 2) * p.B**2 * p.gap**3 / eps**5

    one = verdict("nstorm", "linear", "bg0", "nobody", with_another)
    assert set(one.upper) < set(one.lower)
    assert not one.optimal


def test_the_lower_bound_is_that_of_the_instance_and_says_what_is_unreachable() -> None:
    least = lower_bound(PROBLEM, 1e-3)
    assert least.needed >= least.guaranteed > lower_bound(PROBLEM, 1e-3, rotated=True).guaranteed
    for evaluations in (10.0, 1e5, 1e20):
        eps = least.unreachable(evaluations)
        assert lower_bound(PROBLEM, eps).guaranteed >= evaluations * (1 - 1e-6)
        larger = lower_bound(PROBLEM, eps * (1 + 1e-6))
        assert larger.guaranteed < evaluations * (1 + 1e-6) or larger.eps > min(larger.limits().values())
    smooth = lower_bound(Problem(alpha=0, L=100, B=0.25, G=0, gap=1), 1e-3)
    assert smooth.curvature == 100
    assert smooth.dimension(1e6) > 1e7
    with pytest.raises(ValueError, match="lower_bound: B must be finite and > 0"):
        lower_bound(Problem(alpha=1, L0=1, L1=1, B=0, G=1, gap=1), 0.1)


def test_the_growth_of_noise_counts_as_far_as_mean_square_smooth_samples_allow_it() -> None:
    """E‖∇f(x; ξ) − ∇f(x⁰; ξ)‖² ≤ L²‖x − x⁰‖²: beyond B = L the plan, and beyond B = L/107 the lower bound, stay."""
    given: dict[str, Any] = {"alpha": 0, "L": 1.0, "G": 1.0, "gap": 1.0}
    at_L = plan("nstorm", eps=0.1, B=1.0, **given)
    assert at_L.horizon == pytest.approx(1.32e7, rel=1e-2)
    for B in (2.0, 10.0, 1e6):
        beyond = plan("nstorm", eps=0.1, B=B, **given)
        assert (beyond.horizon, beyond.schedule) == (at_L.horizon, at_L.schedule)
        assert beyond.problem.B == B
        assert "B = 1: noise of mean-square smooth samples grows no faster" in beyond.source
        for rotated, dense in ((False, 107), (True, 214)):
            least = lower_bound(Problem(B=B, **given), 1e-5, rotated=rotated)
            assert pytest.approx(1 / dense) == least.B
            assert least.length == 1
            assert all(least.eps <= largest for largest in least.limits().values())
    # Whatever α is called, where L1 = 0; not where curvature grows; and the paper's own row stays as it is printed.
    flat = plan("nstorm", eps=0.1, alpha=0.5, L0=1.0, L1=0.0, B=10.0, G=1.0, gap=1.0)
    assert flat.horizon <= at_L.horizon
    assert plan("nstorm", eps=0.1, alpha=1, L0=1.0, L1=0.1, B=10.0, G=1.0, gap=1.0).statement.problem.B == 10
    assert theorem("nstorm", Problem(B=10.0, **given)).tune_gamma0(10**8).bound(10**8) > 0.1


@pytest.mark.parametrize("growth", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])
@pytest.mark.parametrize("rotated", [False, True])
def test_for_every_growth_both_sides_have_the_same_powers(growth: float, rotated: bool) -> None:
    """Theorem 7: the hard problem has its links where noise is as large as B r^(a/2) allows, and B9's and S's order."""
    h, alpha = growth / 2, 0.5
    given: dict[str, Any] = {"B": 0.3, "G": 0.0, "gap": 2.0, "growth": growth}
    small, smaller = 1e-9, 1e-12
    L1 = 0.0 if growth > 2 else 5.0
    for eps in (small, smaller):
        least = lower_bound(Problem(alpha=alpha, L0=1.0, L1=L1, **given), eps, rotated=rotated)
        assert least.needed >= least.guaranteed
        assert all(least.conditions().values())
        assert all(eps <= largest for largest in least.limits().values())
        level = min(0.3 * (2 / (16 * eps)) ** h, 2.0 / (16 * (214 if rotated else 107) * eps)) if not L1 else None
        noise = level or 0.3 * (2 / (16 * eps)) ** h
        assert (2 if L1 else 1) * least.felt * least.runway / 2 == pytest.approx((2 if L1 else 1) * noise)
        assert least.guaranteed == pytest.approx(
            16 * least.curvature * noise * 2.0 / (2e9 if rotated else 1.2e8) / eps**3
        )
        one = smooth_lower_bound(Problem(alpha=0, L0=1.0, **given), eps, rotated=rotated)
        wanted = 2.0 * (0.3 * (2 / (16 * eps)) ** h) ** 2 / ((4.2e11 if rotated else 3.4e9) / 256 * eps**4)
        assert one.samples == pytest.approx(wanted)
        assert one.largest_eps >= eps
        if growth <= 2:  # an upper bound is above
            assert 2 * 2.0 * (0.3 * (2 * 2.0 / eps) ** h) ** 2 / eps**4 > one.samples
            assert uniform("nstorm", Problem(alpha=alpha, L0=1.0, L1=L1, **given), eps).samples > least.guaranteed


def test_blocks_multiply_what_is_needed_by_their_number() -> None:
    """Theorem 10."""
    norm = Norm.from_text("spectral(64, 32)")
    for growth in (1.0, 2.0):
        f = Problem(alpha=0, L0=200.0, L=200.0, B=0.3, G=0, gap=2.0, growth=growth)
        in_norm = replace(f, norm=norm)
        alone, both = lower_bound(f, 1e-6), lower_bound(in_norm, 1e-6, blocks=32)
        assert both.runway == pytest.approx(alone.runway)
        assert both.length == alone.length
        assert both.guaranteed == pytest.approx(32 * alone.guaranteed)
        one, many = smooth_lower_bound(f, 1e-6), smooth_lower_bound(in_norm, 1e-6, blocks=32)
        assert many.samples == pytest.approx(32 * one.samples)
        assert many.rounds == pytest.approx(one.rounds)
    with pytest.raises(ValueError, match="blocks must be given in another norm than euclid"):
        lower_bound(in_norm, 0.1)
    with pytest.raises(ValueError, match="growth must be at most 2 where curvature grows"):
        lower_bound(Problem(alpha=1, L0=1, L1=1, B=1, G=0, gap=1, growth=3), 0.1)


@pytest.mark.parametrize("evaluations", [10.0, 1e12])
def test_the_dimension_is_that_of_lemma_9(evaluations: float) -> None:
    """d − T ≥ 2 (P/a)² log(16 (N + 1) T), and hardly more."""
    least = lower_bound(PROBLEM, 1e-4, rotated=True)
    T = least.length
    asked = 2 * (SQUASHED * math.sqrt(T) / QUIET) ** 2 * math.log(16 * (evaluations + 1) * T)
    assert asked <= least.dimension(evaluations) - 1 - T <= 1.01 * asked


@pytest.mark.parametrize(("rotated", "per_link"), [(False, 48), (True, 96)])
def test_what_the_theorem_says_in_closed_form_is_needed_however_the_chain_is_rounded(
    rotated: bool, per_link: int
) -> None:
    """T = ⌊0.45 X/(48 B)⌋, or 96: nearly two links of which one is lost are the worst case."""
    worst = []
    for links in (1.0001, 1.5, 1.9999, 2.0001, 2.9999, 40.5):
        least = lower_bound(Problem(alpha=0, L=links * per_link / 0.45, B=1, G=0, gap=1), 1e-3, rotated=rotated)
        assert least.length == int(links)
        worst.append(least.needed / least.guaranteed)
    assert 1 <= min(worst) == worst[2] < 1.1
