"""Every method, growth, norm and decay: the package against a second implementation, written from the notes alone."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import from_the_notes as notes
from gladstorm import theory
from gladstorm.methods import from_plan
from gladstorm.theory import Decay, Norm, Problem, plan, uniform
from gladstorm.theory.batches import MomentumInBatches, StormInBatches
from gladstorm.theory.every_setting import run_at
from gladstorm.theory.sharper_bounds import (
    MomentumFeedback,
    MomentumLongStep,
    MomentumSmooth,
    StormFeedback,
    StormSmallConstants,
    StormSmooth,
)

KINDS: dict[tuple[str, bool], Any] = {
    ("nsgdm", True): MomentumSmooth,
    ("nsgdm", False): MomentumFeedback,
    ("nstorm", True): StormSmooth,
    ("nstorm", False): StormFeedback,
}
SECOND = {"nsgdm": notes.momentum, "nstorm": notes.storm}


def draw(rng: np.random.Generator, method: str, *, decay: bool | None = None) -> tuple[dict[str, Any], Problem]:
    """A random problem, as plain numbers and as ours."""
    alpha = float(rng.choice([0.0, 0.3, 0.5, 0.8, 1.0]))
    L0, L1, B, gap, tau = (10 ** rng.uniform(-1.5, 1.5, size=5)).tolist()
    p: dict[str, Any] = {"alpha": alpha, "L0": L0, "L1": L1, "L": L0, "B": B, "gap": gap}
    p |= {"G": float(rng.choice([0.0, 10 ** rng.uniform(-2, 1)])), "a": float(rng.choice([0, 0.5, 1, 1.7, 2, 3.1]))}
    p |= {"tau": tau, "kappa": 1 / tau + rng.uniform(), "nu": 1 + rng.uniform()}
    if rng.uniform() < 0.3:
        p |= {"tau": 1.0, "kappa": 1.0, "nu": 1.0}
    p |= {"lam": 0.0, "r0": 0.0, "theta": None}
    if decay or (decay is None and rng.uniform() < 0.5):
        lam = float(10 ** rng.uniform(-2, 1))
        inward = float(rng.uniform(0, 0.9)) if alpha or rng.uniform() < 0.5 else None
        p |= {"lam": lam, "r0": float(rng.choice([0.0, 0.5])) / lam, "theta": inward}
    if method == "sgd":
        p |= {"alpha": 0.0, "a": min(p["a"], 2.0), "tau": 1.0, "kappa": 1.0, "nu": 1.0, "lam": 0.0}
    weights = Decay(p["lam"], p["r0"], p["theta"]) if p["lam"] else None
    names = ("L0", "L1") if method == "nsgdm" or p["alpha"] else ("L",)
    given = {name: p[name] for name in ("alpha", "B", "G", "gap", *names)}
    norm = Norm("mine", p["tau"], p["kappa"], p["nu"])
    return p, Problem(**given, growth=p["a"], norm=norm, decay=weights)


@pytest.mark.parametrize("method", ["nsgdm", "nstorm"])
def test_a_bound_at_any_run_is_the_second_implementation_s(method: str) -> None:
    """100 problems for each method, and three runs of each: 600 numbers, with and without decay."""
    rng, finite = np.random.default_rng(1), 0
    for _ in range(100):
        p, problem = draw(rng, method)
        for _ in range(3):
            T, eta = int(10 ** rng.uniform(0.3, 9)), float(10 ** rng.uniform(-4, 0))
            gamma, s = float(10 ** rng.uniform(-6, -1)), float(10 ** rng.uniform(-2, 2))
            kind = KINDS[method, p["alpha"] == 0]
            bound = run_at(kind, problem, T, [math.log(gamma), math.log(eta), math.log(s)]).bound
            again = SECOND[method](p, gamma, eta, T, bound.initial_error, s)
            assert bound.guaranteed == pytest.approx(again, rel=1e-9)
            finite += again < math.inf
    assert finite > 150


@pytest.mark.parametrize("method", ["nsgdm", "nstorm"])
def test_a_plan_guarantees_what_the_second_implementation_says_of_its_schedule(method: str) -> None:
    """More than 80 problems for each; 40 of SGD, below, make 200."""
    rng = np.random.default_rng(2)
    settings, compared = set(), 0
    for _ in range(84):
        p, problem = draw(rng, method)
        if problem.of_paper:
            continue
        T = int(10 ** rng.uniform(2, 12))
        names = ("alpha", "L0", "L1", "L", "B", "G", "gap", "growth", "norm", "decay")
        given = {name: getattr(problem, name) for name in names}
        ready = plan(method, horizon=T, constants="norm", **given)
        statement: Any = ready.statement
        eta, gamma, n_init, _ = ready.schedule
        scale = statement.scale0 * T ** -float(statement.scale_exponent)
        again = SECOND[method](p, gamma, eta, T, p["tau"] * p["G"] / math.sqrt(n_init), scale)
        bound = statement.bound(T)
        assert again <= bound * (1 + 1e-9)  # N_init is rounded up in the schedule, not in the bound
        assert again == pytest.approx(bound, rel=1e-9 if n_init == 1 else 0.05)
        settings.add((p["alpha"], p["a"], p["tau"] == 1, bool(p["lam"])))
        compared += 1
    assert compared >= 80
    assert len(settings) > 40


def test_bounds_in_the_constants_of_a_class_hold_for_every_growth_and_norm() -> None:
    """N3 and N4, which contain S3 and S4."""
    rng, finite = np.random.default_rng(6), 0
    for _ in range(150):
        p, problem = draw(rng, "nstorm", decay=False)
        if p["alpha"] in (0, 1):
            continue
        T, eta, gamma = (
            int(10 ** rng.uniform(0.3, 9)),
            float(10 ** rng.uniform(-3, 0)),
            float(10 ** rng.uniform(-4, -1)),
        )
        for kind, again in ((MomentumLongStep, notes.momentum_long_step), (StormSmallConstants, notes.storm_powers)):
            bound, wanted = kind(problem, gamma, eta, 0.3, T), again(p, gamma, eta, T, 0.3)
            assert bound.guaranteed == pytest.approx(wanted, rel=1e-9)
            finite += wanted < math.inf
    assert finite > 100


def test_batches_inside_the_window_of_the_momentum_are_those_of_theorem_g() -> None:
    rng, finite = np.random.default_rng(7), 0
    for _ in range(150):
        batches = np.sort(rng.integers(1, 40, int(rng.integers(2, 50)))).tolist()
        N, eta, gamma = sum(batches), float(rng.uniform(0.01, 1)) / batches[-1], float(10 ** rng.uniform(-5, -1))
        given = {"mean_batch": sum(b * b for b in batches) / N, "largest_batch": batches[-1]}
        for method, kind, again in (
            ("nsgdm", MomentumInBatches, notes.momentum_batches),
            ("nstorm", StormInBatches, notes.storm_batches),
        ):
            p, problem = draw(rng, method, decay=False)
            if p["alpha"] not in (0, 1) or (method == "nstorm" and p["alpha"]):
                continue
            bound, wanted = kind(problem, gamma, eta, 0.3, N, **given), again(p, gamma, eta, batches, 0.3)
            assert bound.guaranteed == pytest.approx(wanted, rel=1e-9)
            assert replace(bound, eta=1.1 / batches[-1]).guaranteed == math.inf
            finite += wanted < math.inf
    assert finite > 60


@pytest.mark.parametrize("growth", [0.0, 1.0, 2.0])
def test_only_samples_count_for_momentum_in_runs_with_batches(growth: float) -> None:
    """On Σ log(1 + x²) with rare noise, 6,000 samples each; the bound holds and longer steps lose nothing, 4 σ."""
    rng, seeds, N, gamma, eta = np.random.default_rng(8), 200, 6000, 1e-3, 0.02
    start = np.full(3, 1.2)
    problem = Problem(alpha=0, L0=2.0, B=0.5, G=0.3, gap=float(np.sum(np.log1p(start**2))), growth=growth)
    measured = []
    for b in (1, 10, 50):
        x, v, norms = np.tile(start, (seeds, 1)), None, []
        for _ in range(N // b):
            gradient = 2 * x / (1 + x**2)
            size = 0.3 + 0.5 * np.linalg.norm(x - start, axis=1) ** (growth / 2)
            rare = (rng.binomial(b, 0.01, seeds) - rng.binomial(b, 0.01, seeds)) / (b * math.sqrt(0.02))
            direction = rng.normal(size=x.shape)
            noisy = gradient + (size * rare / np.linalg.norm(direction, axis=1))[:, None] * direction
            v = noisy if v is None else (1 - eta * b) * v + eta * b * noisy
            norms.append(np.linalg.norm(gradient, axis=1))
            x = x - gamma * b * v / np.maximum(np.linalg.norm(v, axis=1), 1e-300)[:, None]
        runs = np.mean(norms, axis=0)
        bound = MomentumInBatches(problem, gamma, eta, 0.3, N, mean_batch=b, largest_batch=b).bound
        assert runs.mean() + 4 * runs.std() / math.sqrt(seeds) <= bound
        measured.append(runs.mean())
    assert max(measured) <= 1.1 * min(measured)


def test_plain_sgd_satisfies_theorem_s_and_no_other_step_is_better() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        p, _ = draw(rng, "sgd")
        given = {"alpha": 0.0, "L0": p["L0"], "B": p["B"], "G": p["G"], "gap": p["gap"], "growth": p["a"]}
        T = int(10 ** rng.uniform(0, 4.5))
        ready = plan("sgd", horizon=T, **given)
        gamma, bound = ready.schedule.gamma, ready.statement.bound(T)
        v = bound**2 * (1 - p["L0"] * gamma / 2) * gamma * T / p["gap"] - 1
        assert notes.plain_holds(p, gamma, v, T)
        for _ in range(30):  # the sum is at most the integral, so another run may be better by little
            other, more = gamma * 10 ** rng.normal(scale=0.3), v * 10 ** rng.normal(scale=0.5)
            if notes.plain_holds(p, other, more, T) and T > 1000:
                assert notes.plain_bound(p, other, more, T) >= bound * (1 - 0.2)
        assert from_plan(ready).step.gamma == gamma  # type: ignore[attr-defined]


@pytest.mark.parametrize(("growth", "constant"), [(0, 2), (0.5, 2.152), (1, 2.25), (1.5, 2.319), (2, 64 / 27)])
def test_plain_sgd_has_the_constant_of_the_theorem(growth: float, constant: float) -> None:
    known = ((2 + growth) / (1 + growth)) ** (1 + growth)
    assert known == pytest.approx(constant, abs=1e-3)
    eps = 1e-9
    ready = plan("sgd", eps=eps, alpha=0, L0=3.0, B=0.5, G=0, gap=2.0, growth=growth)
    assert ready.horizon * eps ** (4 + growth) / (3 * 0.25 * 2 ** (1 + growth)) == pytest.approx(known, rel=2e-3)


@pytest.mark.parametrize("batch", ["sigma", "sigma2"])
@pytest.mark.parametrize("growth", [0.0, 1.0, 2.0])
def test_batches_of_plain_sgd_are_those_of_theorem_h(batch: str, growth: float) -> None:
    p = {"L0": 1.5, "B": 0.4, "G": 0.7, "gap": 3.0, "a": growth}
    for eps, excess in ((0.1, 1.0), (1e-3, 0.2), (1e-3, 5.0)):
        given: dict[str, Any] = {"alpha": 0.0, "L0": 1.5, "B": 0.4, "G": 0.7, "gap": 3.0, "growth": growth}
        ready = plan("sgd", eps=eps, batch=batch, excess=excess, **given)
        wanted = notes.plain_batches(p, eps, {"sigma": 1, "sigma2": 2}[batch], excess)
        answer = ready.as_dict()
        assert answer["horizon"] == wanted["T"]
        assert answer["bound"] <= eps
        assert answer["gamma"] == pytest.approx(wanted["gamma"], rel=1e-3)
        assert answer["sfo"] == pytest.approx(wanted["samples"], rel=3e-3)
        assert answer["largest_batch"] == pytest.approx(wanted["largest"], rel=3e-3, abs=1)
        curve = theory.trade_off(Problem(**given), eps, batch)
        steps, samples = curve.at(excess)
        assert steps == pytest.approx(wanted["T"], rel=1e-3, abs=1)
        assert samples + steps == pytest.approx(wanted["samples"], rel=3e-3)
        assert (steps / curve.steps - 1) * (samples / curve.samples - 1) == pytest.approx(1)


@pytest.mark.parametrize("method", ["nsgdm", "nstorm"])
@pytest.mark.parametrize("decay", [False, True])
def test_the_closed_forms_guarantee_their_accuracy_at_their_price(method: str, decay: bool) -> None:
    rng, worst, met = np.random.default_rng(4), 0.0, 0
    form = {"nsgdm": notes.uniform_momentum, "nstorm": notes.uniform_storm}[method]
    while met < 60:
        p, problem = draw(rng, method, decay=decay)
        if decay and p["theta"] is None:
            continue
        eps = float(10 ** rng.uniform(-6, 0))
        try:
            run = uniform(method, problem, eps)
        except ValueError as refusal:
            assert "8 times the noise" in str(refusal)  # noqa: PT017 - a law about both
            continue
        met += 1
        wanted = form(p, eps)
        assert (run.eta, run.gamma) == pytest.approx((wanted["eta"], wanted["gamma"]), rel=1e-12)
        assert run.n_init == wanted["N"]
        assert run.horizon == pytest.approx(wanted["T"], rel=1e-9)
        assert run.samples == pytest.approx(wanted["samples"], rel=1e-12)
        assert run.n_init + (1 if method == "nsgdm" else 2) * (run.horizon - 1) <= run.samples * (1 + 1e-12)
        b0 = p["tau"] * p["G"] / math.sqrt(run.n_init)
        bound = SECOND[method](p, run.gamma, run.eta, run.horizon, b0, run.scale)
        assert math.fsum(run.terms.values()) == pytest.approx(bound, rel=1e-9)
        assert run.source.startswith({"nsgdm": "A9: closed form; S", "nstorm": "B9: closed form; S"}[method])
        worst = max(worst, bound / eps)
    assert 0.4 < worst <= 1


def test_accuracy_say_what_they_need() -> None:
    problem = Problem(alpha=0, L0=1, B=1, G=1, gap=1)
    with pytest.raises(ValueError, match=r"uniform: eps must be at most .*, 8 times the noise; got eps=100\."):
        uniform("nsgdm", problem, 100.0)
    with pytest.raises(ValueError, match="uniform: method must be nsgdm or nstorm; got method='sgd'"):
        uniform("sgd", problem, 0.1)


@pytest.mark.parametrize(("method", "scale"), [("nsgdm", 512), ("nstorm", 216)])
def test_decay_makes_growing_noise_bounded_noise_of_its_radius(method: str, scale: float) -> None:
    """512 L0Δ τ²(G + BR^h)²/ε⁴ and 216 τ²ℓΔ(G + BR^h)/ε³, for Ψ."""
    lam, r0, a, tau = 0.5, 1.0, 1.0, 7.0
    given: dict[str, Any] = {"alpha": 0, "B": 1.5, "G": 0.3, "gap": 2.0, "growth": a, "norm": Norm("mine", tau)}
    given |= {"L0": 3.0, "L": 3.0, "decay": Decay(lam, r0), "constants": "norm"}
    T = 10**40
    ready = plan(method, horizon=T, **given)
    noise = 0.3 + 1.5 * (1 / lam + r0) ** (a / 2)
    bound = ready.statement.bound(T)
    cost = T * bound**4 / (2 * noise**2) if method == "nsgdm" else 2 * T * bound**3 / (2 * noise)
    assert cost / (3 * tau**2) == pytest.approx(scale, rel=2e-3)
    assert ready.as_dict()["measure"] == "EΨ(x̂)"
    assert float(ready.statement.rate) == pytest.approx(1 / 4 if method == "nsgdm" else 1 / 3)


def test_weak_decay_is_remarked_to_be_about_the_gradient_too() -> None:
    given: dict[str, Any] = {"alpha": 0, "L0": 1.0, "B": 0.1, "G": 1.0, "gap": 1.0, "horizon": 1000}
    assert "at most 2Ψ" in plan("nsgdm", decay=Decay(1e-6), **given).remarks[0]
    assert plan("nsgdm", decay=Decay(10.0), **given).remarks == ()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"growth": 3.0}, "growth must be at most 2: beyond, one rare sample"),
        ({"alpha": 0.5, "L1": 1.0}, "alpha must be 0"),
        ({"norm": "sign(3)", "constants": "norm"}, "norm must be euclid: its steps are not normalized"),
        ({"decay": Decay(1.0)}, "decay must be left out"),
        ({"gamma0": 1.0}, "gamma0 and eta0 must be left out"),
        ({"batch": "two"}, "batch must be one of one, sigma, sigma2"),
    ],
)
def test_what_plain_sgd_has_no_bound_for_is_refused_with_the_reason(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan("sgd", **({"alpha": 0.0, "L0": 1.0, "B": 1.0, "G": 1.0, "gap": 1.0, "horizon": 10} | changed))


@pytest.mark.parametrize("method", ["nsgdm", "nstorm"])
def test_a_batch_like_the_noise_is_refused_with_a_momentum_and_the_refusal_names_both_theorems(method: str) -> None:
    given: dict[str, Any] = {"alpha": 0.0, "L0": 1.0, "L": 1.0, "B": 1.0, "G": 1.0, "gap": 1.0, "horizon": 10}
    with pytest.raises(ValueError, match=r"Theorem H.*is about sgd.*b ≤ 1/η.*Theorem G\); got batch='sigma'"):
        plan(method, batch="sigma", **given)


def test_euclidean_constants_in_another_norm_are_converted_or_refused() -> None:
    given: dict[str, Any] = {"alpha": 0, "L0": 1.0, "L": 1.0, "B": 2.0, "G": 1.0, "gap": 1.0, "horizon": 100}
    with pytest.raises(ValueError, match=r"or 'euclid' to convert them: B and L by ρ = 3, L0 by ρ²"):
        plan("nsgdm", norm="sign(9)", **given)
    with pytest.raises(ValueError, match=r"constants must be 'norm', if they .*; got constants='euclid'"):
        plan("nsgdm", norm=Norm("mine", 2.0), constants="euclid", **given)
    for method, L0 in (("nsgdm", 9.0), ("nstorm", 3.0)):
        by_hand = {"L0": L0, "L": 3.0, "B": 2.0 * 3**0.5, "constants": "norm"}
        ready = plan(method, norm="sign(9)", constants="euclid", growth=1, **given)
        wanted = plan(method, norm="sign(9)", growth=1, **(given | by_hand))
        assert ready.statement.bound(100) == wanted.statement.bound(100)


def test_a_covariance_lowers_tau_in_the_noise_and_not_in_the_curvature() -> None:
    whole = Norm.from_text("spectral(4, 9)")
    narrow = whole.of_noise(1.0, 0.0, 0.0, 0.0)
    assert (narrow.tau, narrow.widest) == (1.0, 2.0)
    for method, level in (("nsgdm", "L0"), ("nstorm", "L")):
        given: dict[str, Any] = {"alpha": 0, "B": 1, "G": 1, "gap": 1, level: 1.0}
        terms = [
            KINDS[method, True](Problem(norm=norm, **given), 0.01, 0.1, 1.0, 100).terms() for norm in (whole, narrow)
        ]
        assert terms[0]["noise"] == pytest.approx(2 * terms[1]["noise"])
        assert terms[0]["curvature"] == terms[1]["curvature"]
    with pytest.raises(ValueError, match="norm: must be sign or spectral to know a covariance"):
        Norm().of_noise(1.0)


def test_batches_and_their_price() -> None:
    """A batch wrong by u costs at most (u + 1/u − 2)/4; where time counts, b = √(mB_c) is the best."""
    problem = Problem(alpha=0, L0=1, B=0.5, G=2.0, gap=1, growth=1.0)
    critical = theory.critical_batch(problem, 9.0, 0.1)
    assert critical == pytest.approx((2 + 0.5 * 3) ** 2 / 0.01)
    best = theory.batch_for_time(critical, 16.0)

    def time(batch: float) -> float:
        return (1 + critical / batch) * (16.0 + batch)

    assert all(time(best) <= time(best * factor) for factor in (0.5, 0.99, 1.01, 2.0))
    for factor in (0.5, 2.0, 4.0):
        paid = time(best * factor) / time(best)
        assert paid == pytest.approx(theory.price_of_wrong_batch(factor, best / critical))
        assert paid <= theory.price_of_wrong_batch(factor) <= 1 + (factor + 1 / factor - 2) / 4
    assert theory.batch_for_samples(critical, 0.3) == pytest.approx(0.3 * critical)
