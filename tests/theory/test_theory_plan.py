"""Plans, oracles, conversions and the complexity table: the theory's edges."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gladstorm as gs
from gladstorm import theory
from gladstorm.core.constants import Bg0, Constants
from gladstorm.methods import from_plan, nsgdm, nstorm
from gladstorm.theory import Problem, for_oracle, plan, problem_of, theorem, weaken, wrapped

GOLDEN: dict[str, Any] = {"alpha": 0.5, "L0": 1.5, "L1": 0.25, "B": 0.4, "G": 0.7, "gap": 3.0}
FIELDS = ["method", "alpha", "noise", "horizon", "eta", "gamma", "n_init", "lambda", "conditions", "terms"]
FIELDS += ["bound", "bound_as_printed", "rate", "sfo", "source", "class", "growth", "norm", "tau"]
FIELDS += ["decay", "measure", "steps", "largest_batch"]


def test_a_plan_has_the_fields_of_the_contract_and_survives_json() -> None:
    ready = plan("nstorm", horizon=10_000, gamma0=0.09, eta0=0.8, **GOLDEN)
    fields = json.loads(json.dumps(ready.as_dict(), allow_nan=False))
    assert list(fields) == FIELDS
    assert (fields["method"], fields["noise"], fields["horizon"], fields["n_init"]) == ("nstorm", "bg0", 10_000, 4)
    assert fields["bound"] == pytest.approx(19.3336232585184, rel=1e-13)
    assert fields["sfo"] == 20_002
    assert fields["rate"] == 2 / 9
    assert fields["lambda"] == pytest.approx(0.1678903, rel=1e-6)
    assert "Theorem 2(ii)" in fields["source"]
    for term in fields["terms"]:
        assert list(term) == ["name", "coefficient", "exponent", "value"]
        assert term["value"] == pytest.approx(term["coefficient"] * 10_000 ** -term["exponent"], rel=1e-12)
    assert sum(term["value"] for term in fields["terms"]) == pytest.approx(fields["bound"], rel=1e-12)
    for condition in fields["conditions"]:
        assert list(condition) == ["statement", "left", "right", "holds"]
        assert condition["holds"] is True


@pytest.mark.parametrize("method", ["nsgdm", "nstorm"])
@pytest.mark.parametrize("alpha", [0, 2 / 3, 1])
@pytest.mark.parametrize(("B", "G"), [(0.4, 0.7), (0, 0.7), (0, 0)])
def test_every_regime_can_be_planned_either_way(method: str, alpha: float, B: float, G: float) -> None:
    constants: dict[str, Any] = {"alpha": alpha, "L0": 1.5, "L1": 0.25, "L": 2, "B": B, "G": G, "gap": 3}
    ready = plan(method, horizon=1000, **constants)
    fields = json.loads(json.dumps(ready.as_dict(), allow_nan=False))
    assert all(condition["holds"] for condition in fields["conditions"])
    eps = fields["bound"] * (1 + 1e-12)
    again = plan(method, eps=eps, **constants)
    assert again.horizon <= 1000
    assert again.as_dict()["bound"] <= eps


def test_exponents_are_fractions_where_alpha_is_a_ratio() -> None:
    ratio = theorem("nstorm", Problem(**GOLDEN | {"alpha": 2 / 3}), gamma0=0.1)
    assert ratio.rate == Fraction(3, 14)
    assert all(isinstance(power.exponent, Fraction) for power in ratio.powers)
    irrational = theorem("nstorm", Problem(**GOLDEN | {"alpha": math.pi / 4}), gamma0=0.1)
    assert irrational.rate == pytest.approx(1 / (4 + math.pi / 4))


def test_a_plan_makes_the_method_it_prescribes() -> None:
    ready = plan("nstorm", horizon=10_000, gamma0=0.09, eta0=0.8, **GOLDEN)
    eta, gamma, n_init, _ = ready.statement.schedule(10_000)
    assert from_plan(ready) == nstorm(gamma=gamma, eta=eta, n_init=n_init)
    ready = plan("nsgdm", horizon=10_000, gamma0=0.09, **GOLDEN)
    eta, gamma, _, _ = ready.statement.schedule(10_000)
    assert from_plan(ready) == nsgdm(gamma=gamma, eta=eta)


def test_a_violated_condition_is_reported_and_not_raised() -> None:
    ready = plan("nsgdm", horizon=100, gamma0=2.0, **GOLDEN | {"alpha": 1})
    assert [condition["holds"] for condition in ready.as_dict()["conditions"]] == [False]
    assert ready.statement.violations() == (
        "nsgdm: the theorem needs γ0 ≤ 1/(8 L1), but 2.0 > 0.5, 4 times too large; "
        "the largest admissible gamma0 is 0.5.",
    )


def test_what_is_given_and_not_used_is_remarked() -> None:
    ready = plan("nsgdm", horizon=100, eta0=0.8, **GOLDEN | {"alpha": 0})
    assert ready.statement.eta0 == 1
    assert ready.remarks == (
        "L1 is not used, as curvature does not grow with alpha = 0; got L1=0.25.",
        "eta0 is not used, as this schedule has none; got eta0=0.8.",
    )
    assert plan("nstorm", horizon=100, eta0=0.8, **GOLDEN).remarks == ()


def test_a_plan_takes_the_smallest_bound_over_the_classes_that_contain_the_problem() -> None:
    constants: dict[str, Any] = {"alpha": 0.9, "L0": 1.0, "L1": 0.01, "B": 0.5, "G": 1.0, "gap": 3.0}
    own = theorem("nsgdm", Problem(**constants), gamma0=0.01)
    same_run = plan("nsgdm", horizon=10_000, gamma0=0.01, **constants)
    assert own.bound(10_000) > 1e13
    assert same_run.statement.bound(10_000) < 130
    assert same_run.schedule[:3] == own.schedule(10_000)[:3]
    assert same_run.as_dict()["alpha"] == 0.9
    assert "Theorem 1(iii)" in same_run.as_dict()["source"]
    used = same_run.statement.problem
    assert f"L0 = {used.L0:.6g}, L1 = {used.L1:.6g}, a class that contains alpha = 0.9's" in repr(same_run)


@pytest.mark.parametrize("method", ["nsgdm", "nstorm"])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9, 0.99])
def test_the_class_of_a_plan_contains_the_one_asked_about(method: str, alpha: float) -> None:
    ready = plan(method, horizon=1000, alpha=alpha, L0=1.5, L1=3.0, B=0.4, G=0.7, gap=3)
    used = ready.statement.problem
    assert used.L0 is not None
    assert used.L1 is not None
    norms = np.geomspace(1e-9, 1e9, 1000)
    assert np.all(used.L0 + used.L1 * norms**used.alpha >= (1.5 + 3.0 * norms**alpha) * (1 - 1e-12))
    assert not ready.statement.violations()


def test_a_step_constant_that_was_given_is_never_read_by_another_schedule() -> None:
    constants: dict[str, Any] = {"alpha": 0.9, "L0": 1.0, "L1": 0.01, "B": 0.5, "G": 1.0, "gap": 3.0}
    ready = plan("nstorm", horizon=10_000, gamma0=0.01, **constants)  # whose exponents depend on α
    assert ready.statement.problem.alpha == 0.9
    assert plan("nstorm", horizon=10_000, **constants).statement.bound(10_000) < ready.statement.bound(10_000)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"eps": 0.1}, "plan: exactly one of horizon and eps must be given; got horizon=100, eps=0.1."),
    ({"horizon": None}, "plan: exactly one of horizon and eps must be given; got horizon=None, eps=None."),
    ({"horizon": 0}, "plan: horizon must be a whole number from 1 to 10^300; got horizon=0."),
    ({"horizon": 1.5}, "plan: horizon must be a whole number from 1 to 10^300; got horizon=1.5."),
    ({"horizon": 10**301}, f"plan: horizon must be a whole number from 1 to 10^300; got horizon={10**301}."),
    ({"horizon": True}, "plan: horizon must be a whole number from 1 to 10^300; got horizon=True."),
    ({"horizon": None, "eps": math.nan}, "plan: eps must be finite and > 0; got eps=nan."),
    ({"alpha": -0.1}, "problem: alpha must be in [0, 1]; got alpha=-0.1."),
    ({"alpha": math.nan}, "problem: alpha must be in [0, 1]; got alpha=nan."),
    ({"alpha": "0.5"}, "problem: alpha must be in [0, 1]; got alpha=0.5."),
    ({"L0": -1.0}, "problem: L0 must be finite and ≥ 0; got L0=-1.0."),
    ({"L1": math.inf}, "problem: L1 must be finite and ≥ 0; got L1=inf."),
    ({"G": math.nan}, "problem: G must be finite and ≥ 0; got G=nan."),
    ({"gap": 0.0}, "problem: gap must be finite and > 0; got gap=0.0."),
    ({"L0": None}, "nstorm: L0 must be given for alpha=0.5; got L0=None."),
    ({"L1": None}, "nstorm: L1 must be given for alpha=0.5; got L1=None."),
    ({"alpha": 0}, "nstorm: L must be given for alpha=0; got L=None. If the noise is added to f, it is √(L0² + B²)."),
    ({"gamma0": 0.0}, "nstorm: gamma0 must be finite and > 0; got gamma0=0.0."),
    ({"eta0": 1.5}, "plan: eta0 must be in (0, 1]; got eta0=1.5."),
    ({"excess": math.nan}, "plan: excess must be finite and > 0; got excess=nan."),
    ({"excess": 1e400}, "plan: excess must be finite and > 0; got excess=inf."),
]


@pytest.mark.parametrize(("change", "sentence"), BAD, ids=[sentence[:40] for _, sentence in BAD])
def test_bad_input_is_refused_with_one_sentence(change: dict[str, Any], sentence: str) -> None:
    arguments = {"method": "nstorm", "horizon": 100, **GOLDEN} | change
    with pytest.raises(ValueError, match=r".") as refusal:
        plan(arguments.pop("method"), **arguments)
    assert str(refusal.value) == sentence


def test_bad_input_elsewhere_is_refused_too() -> None:
    with pytest.raises(ValueError, match=r"plan: method must be one of nsgdm, nstorm, sgd; got method='adam'\."):
        plan("adam", horizon=10, **GOLDEN)
    with pytest.raises(ValueError, match=r"plan: excess must be finite and > 0; got excess=nan\."):
        theory.compare_plans(horizon=10, excess=math.nan, **GOLDEN)
    with pytest.raises(ValueError, match=r"nsgdm: L0 must be given for alpha=0; got L0=None\."):
        plan("nsgdm", horizon=10, alpha=0, L=1, B=0, G=0, gap=1)
    with pytest.raises(ValueError, match=r"nsgdm: eta0 must be 1 in a schedule that has no eta0; got eta0=0\.5\."):
        theorem("nsgdm", Problem(**GOLDEN), gamma0=0.1, eta0=0.5)
    with pytest.raises(ValueError, match=r"nsgdm: horizon must be a whole number"):
        theorem("nsgdm", Problem(**GOLDEN), gamma0=0.1).bound(0)
    statement = theorem("nsgdm", Problem(**GOLDEN), gamma0=0.1)
    with pytest.raises(ValueError, match=r"MomentumSublinear: eta must be in \(0, 1\]; got eta=2\."):
        replace(theory.master(statement, 10), eta=2)


EXTREME = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(-30, 30).map(lambda log: 10.0**log))
POSITIVE = EXTREME.filter(lambda value: value > 0)


@settings(max_examples=50)
@given(
    method=st.sampled_from(["nsgdm", "nstorm"]),
    alpha=st.sampled_from([0, 1e-300, 0.5, 0.97, 1 - 1e-9, 1 - 2**-53, 1]),
    constants=st.fixed_dictionaries(dict.fromkeys(("L0", "L1", "L", "B", "G"), EXTREME) | {"gap": POSITIVE}),
    eps=st.one_of(POSITIVE, st.sampled_from([1e-49, 1e-51])),
    gamma0=st.one_of(st.none(), POSITIVE),
)
@example("nsgdm", 1 - 1e-9, {"L0": 5e6, "L1": 0, "L": 0, "B": 1, "G": 9e16, "gap": 1}, 1e-20, 8.5e25)  # returned 10^300
@example("nsgdm", 1e-300, {"L0": 1, "L1": 0, "L": 0, "B": 1, "G": 1e25, "gap": 2e28}, 8e-28, 6e15)  # another's bound
@example("nsgdm", 0.9, {"L0": 0, "L1": 1, "L": 0, "B": 0, "G": 0.0144, "gap": 1}, 1e-3, None)
def test_a_plan_for_an_accuracy_guarantees_it_whatever_the_constants_or_says_that_it_cannot(
    method: str, alpha: float, constants: dict[str, Any], eps: float, gamma0: float | None
) -> None:
    """And no shorter run does, with the γ0 that was given, or for α = 0 and 1 with any."""
    try:
        ready = plan(method, eps=eps, alpha=alpha, gamma0=gamma0, **constants)
    except ValueError as refusal:
        assert re.fullmatch(r"(plan|nsgdm|nstorm): .* must .*; got .*\.", str(refusal))  # noqa: PT017 - a law about both
        return
    assert ready.statement.bound(ready.horizon) <= eps
    before = ready.horizon - 1
    if gamma0 is not None and before:
        assert ready.statement.bound(before) > eps
    if gamma0 is None and alpha in (0, 1):
        assert not ready.statement.violations()
        assert not before or plan(method, horizon=before, alpha=alpha, **constants).statement.bound(before) > eps


@pytest.mark.parametrize("method", ["nsgdm", "nstorm"])
@pytest.mark.parametrize(("B", "G"), [(0.4, 0.7), (1e-9, 1e-6), (0, 0.7), (0, 0)])
@pytest.mark.parametrize("level", [1.5, 1e-3])
def test_where_curvature_does_not_grow_every_alpha_is_one_problem_with_one_bound(
    method: str, B: float, G: float, level: float
) -> None:
    def bound(alpha: float, T: int, gamma0: float | None = None) -> float:
        ready = plan(method, horizon=T, alpha=alpha, L0=level, L1=0, L=level, B=B, G=G, gap=3, gamma0=gamma0)
        assert not ready.statement.violations()
        return ready.statement.bound(T)

    own = theorem(method, Problem(alpha=0, L0=level, L=level, B=B, G=G, gap=3))
    for T in (1, 10**6):
        smooth = bound(0, T)
        assert smooth <= own.tune_gamma0(T).bound(T) * (1 + 1e-15)
        for alpha in (1e-300, 0.3, 0.97, 1):
            assert bound(alpha, T) == smooth
            if method == "nsgdm":  # whose schedule is the same for every α, so that γ0 stands for the same run
                assert bound(alpha, T, 0.2) == bound(0, T, 0.2)


def test_a_theorem_whose_conditions_fail_is_not_taken_although_its_bound_is_smaller() -> None:
    for alpha in (0, 0.5, 1):  # one problem, as L1 = 0; with 0 < alpha < 1 the theorem asks for gamma0 <= 1
        ready = plan("nsgdm", horizon=1000, alpha=alpha, L0=1, L1=0, B=0.4, G=0.7, gap=3, gamma0=2.0)
        assert not ready.statement.violations()
        assert ready.statement.problem.smoothness != "sublinear"


def test_a_strict_condition_fails_where_both_sides_are_equal() -> None:
    assert theory.Condition("1 ≤ 1", 1.0, 1.0).holds
    assert not theory.Condition("1 < 1", 1.0, 1.0, strict=True).holds


@pytest.mark.parametrize("method", ["nsgdm", "nstorm"])
@pytest.mark.parametrize("alpha", [0, 0.9])
def test_a_plan_for_a_wider_class_never_promises_more(method: str, alpha: float) -> None:
    """If f is in a class it is in every wider one, so whatever is proved there holds for f."""
    f, T = Constants(L0=1.5, L1=2.0 if alpha else 0.0, alpha=alpha, f_inf=0.0), 1000
    noise: dict[str, Any] = {"B": 0.4, "G": 0.7, "gap": 3.0}
    own = plan(method, horizon=T, alpha=alpha, L0=f.L0, L1=f.L1, L=f.L0, **noise).statement.bound(T)
    for scale in (1e-3, 1.0, 1e3):
        wider = weaken(f, 1.0, scale=scale)
        assert plan(method, horizon=T, alpha=1, L0=wider.L0, L1=wider.L1, **noise).statement.bound(T) >= own
    constants: dict[str, Any] = {"L0": f.L0, "L1": f.L1, "L": f.L0, **noise}
    for name in ("L1", "gap") if alpha else constants:  # a class with a larger constant is wider
        larger = constants | {name: 2 * constants[name]}
        assert plan(method, horizon=T, alpha=alpha, **larger).statement.bound(T) >= own


# Oracles and conversions.


def oracle(B: float, G: float, name: str = "power:3") -> gs.BlumGladyshev:
    return gs.BlumGladyshev(gs.objectives.named(name, dim=2, start=0.8), B=B, G=G)


def test_nsgdm_on_an_oracle_reads_the_objectives_own_constants() -> None:
    statement = for_oracle(oracle(0.5, 1.0), "nsgdm", gamma0=0.1)
    gap = (2 * 0.8**2) ** 1.5
    wanted = Problem(alpha=0.5, L0=0.0, L1=2 * math.sqrt(3), B=0.5, G=1.0, gap=gap)
    assert statement.problem == replace(wanted, gap=statement.problem.gap)
    assert statement.problem.gap == pytest.approx(gap, rel=1e-15)
    assert "Theorem 1(ii)" in statement.source


def test_nstorm_on_an_oracle_reads_the_wrappers_constants() -> None:
    """(L0 + L1 m)² ≤ 2 L0² + 2 L1² m², an equality at L1 m = L0; below α = 1/2 a sample's moment may be half of f's."""
    bent = wrapped(Problem(alpha=0.9, L0=3, L1=0.5, B=4, G=1, gap=1))
    assert pytest.approx((math.sqrt(2 * 3**2 + 4**2), 0.5 * math.sqrt(2)), rel=1e-15) == (bent.L0, bent.L1)
    cubic = for_oracle(oracle(0.5, 1.0), "nstorm").problem
    assert pytest.approx((0.5, 2 * math.sqrt(6)), rel=1e-15) == (cubic.L0, cubic.L1)
    shallow = for_oracle(oracle(0.5, 1.0, "power:2.5"), "nstorm").problem
    assert pytest.approx((0.5, 2 * 1.5 * 2.5 ** (2 / 3)), rel=1e-12) == (shallow.L0, shallow.L1)
    smooth = for_oracle(oracle(1.5, 1.0, "cauchy"), "nstorm").problem
    assert pytest.approx(2.5, rel=1e-15) == smooth.L
    exact = for_oracle(oracle(0.0, 0.0), "nstorm").problem
    assert pytest.approx((0.0, 2 * math.sqrt(3)), rel=1e-15) == (exact.L0, exact.L1)


def test_at_alpha_1_the_wrapper_has_f_s_own_growth_of_curvature_and_costs_29_percent_less() -> None:
    """(L0 + L1 m)² + B² ≤ (√(L0² + B²) + L1 m)², with equality only at m = 0."""
    oracles = wrapped(Problem(alpha=1, L0=3, L1=0.5, B=4, G=1, gap=1))
    assert oracles.L0 == 5.0
    assert oracles.L1 == 0.5
    m = np.geomspace(1e-3, 1e3, 50)
    assert np.all((3 + 0.5 * m) ** 2 + 16 < (oracles.L0 + 0.5 * m) ** 2)
    one, before = (
        plan("nstorm", eps=0.1, alpha=1, L0=L0, L1=L1, B=1, G=1, gap=1).horizon
        for L0, L1 in ((math.sqrt(2), 1.0), (math.sqrt(3), math.sqrt(2)))
    )
    assert 1 - one / before == pytest.approx(0.29, abs=0.005)


def test_a_weaker_class_can_be_asked_for() -> None:
    statement = for_oracle(oracle(0.5, 1.0), "nsgdm", alpha=1)
    assert statement.smoothness == "linear"
    assert pytest.approx(math.sqrt(3), rel=1e-15) == statement.problem.L1


def test_an_objective_without_constants_is_refused() -> None:
    unknown = gs.objectives.from_function(lambda x: jnp.sum(x**2), start=[1.0])
    with pytest.raises(
        ValueError, match=r"for_oracle: objective must declare its constants; got objective=FromFunction"
    ):
        problem_of(gs.BlumGladyshev(unknown, B=1.0, G=1.0))


@settings(max_examples=60)
@given(
    alpha=st.floats(0.05, 1),
    known=st.floats(0, 1),
    scale=st.floats(0.1, 10),
    norm=st.floats(0, 1e3),
    L1=st.floats(0, 10),
)
def test_a_weaker_class_allows_at_least_the_same_curvature(
    alpha: float, known: float, scale: float, norm: float, L1: float
) -> None:
    known *= alpha
    constants = Constants(L0=1.0, L1=0.0 if known == 0 else L1, alpha=known, f_inf=0.0)
    weaker = weaken(constants, alpha, scale=scale)

    def curvature(class_of: Constants, gradient: float) -> float:
        return class_of.L0 + class_of.L1 * math.pow(gradient, class_of.alpha)

    assert weaker.alpha == alpha
    assert curvature(weaker, norm) >= curvature(constants, norm) * (1 - 1e-12)
    assert curvature(weaker, scale) == pytest.approx(curvature(constants, scale), rel=1e-12)


def test_a_stronger_class_is_not_claimed() -> None:
    with pytest.raises(ValueError, match=r"weaken: alpha must be ≥ 0\.5, the alpha that f declares; got alpha=0\.3\."):
        weaken(Constants(L0=0.0, L1=1.0, alpha=0.5, f_inf=0.0), 0.3)


@pytest.mark.parametrize("name", ["power:2.5", "power:3", "power:4", "double-well", "cosh"])
def test_the_wrapper_is_in_the_expected_class_with_its_constants(name: str) -> None:
    """E‖∇f(y; ξ) − ∇f(x; ξ)‖² ≤ ‖y − x‖² E(L0 + L1 max_θ ‖∇f(x_θ; ξ)‖^α)²: exact over ρ, sampled over u."""
    rng = np.random.default_rng(0)
    noisy = oracle(0.7, 0.3, name)
    problem = wrapped(problem_of(noisy))
    assert problem.L0 is not None
    assert problem.L1 is not None
    start = np.asarray(noisy.objective.start)
    u = rng.normal(0, math.sqrt(1 / 2), (64, 2))
    for _ in range(8):
        x, y = rng.normal(0, 2, (2, 2))
        segment = x + np.linspace(0, 1, 17)[:, None] * (y - x)
        exact = np.array([np.asarray(noisy.objective.grad(jnp.asarray(point))) for point in segment])
        length = np.linalg.norm(y - x)
        left = np.sum((exact[-1] - exact[0]) ** 2) + 0.7**2 * length**2
        samples = [exact[None] + 0.7 * rho * (segment - start)[None] + 0.3 * u[:, None] for rho in (-1, 1)]
        largest = np.linalg.norm(np.concatenate(samples), axis=-1).max(axis=1)
        right = length**2 * np.mean((problem.L0 + problem.L1 * largest**problem.alpha) ** 2)
        assert left <= right * (1 + 1e-6)


# The table, and what importing costs.


def test_the_table_holds_the_papers_claims() -> None:
    rows = [row for row in theory.rows() if row.work == "Upadhyay et al. 2026"]
    noises = ("BG-0", "bounded variance", "none")
    claims = {
        m: [[row.complexity for row in rows if (row.method, row.noise) == (m, n)] for n in noises]
        for m in ("NSGDM", "NSTORM")
    }
    assert claims["NSGDM"] == [["O(ε^-6)"] * 3, ["O(ε^-4)"] * 3, ["O(ε^-2)"] * 3]
    assert claims["NSTORM"] == [["O(ε^-4)", "O(ε^-(4+α))", "O(ε^-5)"], ["O(ε^-3)"] * 3, ["O(ε^-2)"] * 3]


def test_importing_the_theory_imports_no_heavy_package() -> None:
    heavy = "{'jax', 'numpy', 'scipy', 'pandas', 'rich', 'typer'}"
    use = "theory.plan('nstorm', eps=0.5, alpha=0, L=1, B=1, G=1, gap=1).as_dict(); theory.rows()"
    code = f"import sys; from gladstorm import theory; {use}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_regime_names_its_source() -> None:
    assert all("Corollary " in regime.source and "app_" not in regime.source for regime in theory.REGIMES.values())


# Noise that is smallest elsewhere than at x⁰.


def stream(sigma: float = 0.5) -> gs.oracles.StreamingLeastSquaresOracle:
    start, optimum, spectrum = np.array([3.0, 1.0]), np.array([0.0, -3.0]), np.array([2.0, 0.5])
    return gs.oracles.StreamingLeastSquaresOracle(gs.objectives.StreamingLeastSquares(start, optimum, spectrum, sigma))


def test_noise_anchored_at_the_solution_is_brought_to_the_start_by_the_triangle_inequality() -> None:
    own, problem = stream().bg0, problem_of(stream())
    assert pytest.approx(2 * 2.5 + 4) == own.B**2
    assert pytest.approx(0.25 * 2.5) == own.G**2
    assert pytest.approx((math.sqrt(2) * own.B, math.hypot(own.G, math.sqrt(2) * 5 * own.B))) == (problem.B, problem.G)
    assert problem.gap == pytest.approx((2 * 9 + 0.5 * 16) / 2)
    x = np.random.default_rng(0).normal(0, 10, (200, 2))
    allowed = problem.B**2 * np.sum((x - [3, 1]) ** 2, 1) + problem.G**2
    assert np.all(own.B**2 * np.sum((x - [0, -3]) ** 2, 1) + own.G**2 <= allowed)
    assert "smallest at x*, 5 from x⁰: around x⁰ B is 4.243 instead of 3" in theory.cost_of_moving(
        own, np.array([3.0, 1.0])
    )


def test_mean_square_smoothness_does_not_pay_for_the_anchor() -> None:
    smooth = for_oracle(stream(), "nstorm").problem
    assert pytest.approx(math.sqrt(2 * 2.5 + 2 * 4)) == smooth.L  # ℓ² = λ trΣ + 2λ²
    assert pytest.approx(math.sqrt(2) * 3) == smooth.B


@gs.part
class Turning(gs.BlumGladyshev):
    """Noise that changes by more than B‖y − x‖ from x to y."""

    @property
    def bg0(self) -> Bg0:
        return Bg0(float(self.B), float(self.G), np.asarray(self.objective.start), affine=False)


def test_the_theorems_refuse_noise_they_say_nothing_about() -> None:
    turning = Turning(gs.objectives.named("cauchy"), 0.5, 0.5)
    assert for_oracle(turning, "nsgdm").problem.B == 0.5
    with pytest.raises(ValueError, match=r"nstorm needs an oracle whose noise changes by at most .* Turning"):
        for_oracle(turning, "nstorm")
    with pytest.raises(ValueError, match="oracle must declare BG-0 constants; got oracle=FiniteSum with bg0=None"):
        for_oracle(gs.oracles.FiniteSum(gs.objectives.named("dro:5", dim=2)), "nsgdm")
    at_rest = replace(stream().objective, start=np.array([0.0, -3.0]))
    with pytest.raises(ValueError, match=r"or there is nothing to bound; got f\(x⁰\) − inf f = 0\."):
        for_oracle(gs.oracles.StreamingLeastSquaresOracle(at_rest), "nsgdm")
    indefinite = replace(stream().objective, spectrum=np.array([2.0, -1.0]))
    with pytest.raises(ValueError, match=r"spectrum must be finite and > 0; got spectrum=-1\.0"):
        for_oracle(gs.oracles.StreamingLeastSquaresOracle(indefinite), "nsgdm")


def test_a_plan_shows_in_a_notebook_what_it_prints_and_its_bound() -> None:
    made = theory.plan("nsgdm", horizon=100, gamma0=10.0, alpha=1, L0=1, L1=1, B=1, G=1, gap=1)
    table, _, picture = made._repr_html_().partition("<img ")
    title, *lines = repr(made).splitlines()
    assert table.startswith(f"<p>{title}</p><table>")
    assert table.count("<tr>") == 1 + len(lines)
    assert "<td>violated:</td>" in table
    assert 'src="data:image/png;base64,' in picture
    total, *_, asked = (np.asarray(line.get_data(), float).T for line in made.plot().axes[0].get_lines())
    assert total[0].tolist() == [1, made.statement.bound(1)]
    assert asked.tolist() == [[100, made.statement.bound(100)]]


def test_a_plan_whose_bound_is_infinite_for_short_runs_is_drawn_where_it_is_not() -> None:
    made = theory.plan("nstorm", horizon=10_000, alpha=1, L0=1.5, L1=0.25, B=0.4, G=0.7, gap=3)
    assert (made.statement.bound(1), made.statement.of_paper) == (math.inf, False)
    total, *terms, asked = made.plot().axes[0].get_lines()
    horizons, values = np.asarray(total.get_data(), float)
    assert 1 < horizons[0] < 10_000 < horizons[-1]
    assert np.isfinite(values).all()
    assert {line.get_label() for line in terms} == {term.name for term in made.statement.terms(10_000)}
    assert np.asarray(asked.get_data(), float).ravel().tolist() == [10_000, made.statement.bound(10_000)]
