"""Laws of all norms on trees: the unit step is the gradient of the dual norm; travel, decay, bounds of whole runs."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gladstorm as gs
from gladstorm import norms
from gladstorm.methods.norms import (
    Columns,
    Euclid,
    Layers,
    NewtonSchulz,
    PerLayer,
    Rows,
    Scaled,
    Sign,
    Spectral,
    Stacked,
    StepNorm,
)
from gladstorm.methods.steps import Normalized, WeightDecay
from gladstorm.methods.text import parse_method
from gladstorm.problems.oracles import ExactBg0


@gs.part
class ByName(PerLayer):
    """Signs for b, three times as long, and rows for all else."""

    def choose(self, name: str, tensor: Any) -> StepNorm:
        return Scaled(Sign(), 3.0) if name == "layer.b" else Rows()


EXACT: list[StepNorm] = [
    Euclid(),
    Sign(),
    Spectral(),
    Spectral(leading=-1, inputs_first=True),
    Rows(),
    Rows(leading=-1, inputs_first=True),
    Columns(),
    Scaled(Spectral(), 0.3),
    Stacked(Euclid()),
    Stacked(Scaled(Spectral(), 2.0)),
    Layers(),
    Layers(Scaled(Rows(), 0.5), Euclid()),
    ByName(),
]
EVERY = [*EXACT, NewtonSchulz(), Layers(NewtonSchulz())]


def tree(seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return {"layer": {"W": rng.normal(size=(4, 3)), "b": rng.normal(size=3)}, "kernel": rng.normal(size=(2, 3, 2))}


def inner(v: Any, d: Any) -> float:
    return float(sum(np.vdot(a, b) for a, b in zip(jax.tree.leaves(v), jax.tree.leaves(d), strict=True)))


def flat(x: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(x)])


@pytest.fixture(autouse=True)
def _double() -> Any:
    with jax.enable_x64(True):
        yield


def test_every_norm_of_the_command_line_obeys_the_laws() -> None:
    assert set(norms.registry().values()) <= {type(norm) for norm in EVERY}


@pytest.mark.parametrize("norm", EXACT, ids=str)
def test_the_unit_step_is_the_gradient_of_the_dual_norm_and_attains_it(norm: StepNorm) -> None:
    v, x = tree(), tree(1)
    unit, dual = norm.unit(v), float(norm.dual(v))
    np.testing.assert_allclose(flat(unit), flat(jax.grad(norm.dual)(v)), rtol=0, atol=1e-9)
    assert inner(v, unit) == pytest.approx(dual, rel=1e-12)
    assert float(norm.length(unit)) == pytest.approx(1, rel=1e-12)
    assert float(norm.agreement(v)) == pytest.approx(1, rel=1e-12)
    peak = jax.grad(norm.length)(x)  # and the dual of the dual is the norm
    assert inner(peak, x) == pytest.approx(float(norm.length(x)), rel=1e-9)
    assert float(norm.dual(peak)) == pytest.approx(1, rel=1e-9)
    assert inner(v, x) < dual * float(norm.length(x))


@pytest.mark.parametrize("norm", EVERY, ids=str)
def test_the_scale_does_not_matter_and_nothing_moves_along_zero(norm: StepNorm) -> None:
    v = tree()
    for scale in (1e-150, 1e150):
        scaled = norm.unit(jax.tree.map(partial(np.multiply, scale), v))
        np.testing.assert_allclose(flat(scaled), flat(norm.unit(v)), rtol=1e-9, atol=1e-12)
    nothing = jax.tree.map(np.zeros_like, v)
    assert not flat(norm.unit(nothing)).any()
    assert float(norm.agreement(nothing)) == 1


@pytest.mark.parametrize("norm", EXACT, ids=str)
def test_theory_is_told_the_price_of_noise(norm: StepNorm) -> None:
    """τ = ρ, the largest ‖d‖_2 in the unit ball, which a generic unit step has; κ = sup ‖v‖_2/‖v‖_*."""
    known = norm.in_theory(tree())
    assert np.linalg.norm(flat(norm.unit(tree()))) == pytest.approx(known.tau, rel=1e-9)
    one = jax.tree.map(np.zeros_like, tree())
    shares = []
    for leaf in jax.tree.leaves(one):  # in one entry alone all norms but for their weights agree
        leaf.flat[0] = 1.0
        shares.append(1 / float(norm.dual(one)))
        leaf.flat[0] = 0.0
    assert max(shares) == pytest.approx(known.kappa, rel=1e-9)


def test_newton_schulz_says_how_well_it_agrees() -> None:
    v = tree()
    agreement, size = float(NewtonSchulz().agreement(v)), float(Spectral().length(NewtonSchulz().unit(v)))
    assert 0.68 < agreement < 1
    assert agreement == pytest.approx(inner(v, NewtonSchulz().unit(v)) / float(Spectral().dual(v)))
    assert 1 < size < 1.21


def test_a_singular_matrix_keeps_its_zeros() -> None:
    v = np.zeros((4, 4))
    v[:2, 1:3] = [[1.0, 2.0], [2.0, 4.0]]  # of rank one
    unit = np.asarray(Spectral().unit(v))
    np.testing.assert_allclose(unit, v / 5, atol=1e-12)


LINEAR = gs.objectives.from_function(
    lambda x: jnp.sum(x["W"] * jnp.arange(1.0, 13.0, dtype=x["W"].dtype).reshape(4, 3)) - jnp.sum(x["b"]),
    {"W": np.ones((4, 3)), "b": np.zeros(2)},
)


@pytest.mark.parametrize("norm", EXACT[:11], ids=str)
def test_a_run_travels_gamma_a_step_and_decay_is_a_radius(norm: StepNorm) -> None:
    """f is linear: every step goes the same way, and with decay to the point of the ball where Ψ = 0."""
    tree_of, start = LINEAR.tree, np.asarray(LINEAR.start)
    assert tree_of is not None
    gradient = tree_of.unflatten(LINEAR.grad(jnp.asarray(start)))
    oracle, dual = gs.BlumGladyshev(LINEAR, B=0.0, G=0.0), float(norm.dual(gradient))
    far = gs.run(oracle, gs.nsgdm(0.25, 0.5, norm=norm), steps=8)
    assert float(norm.length(tree_of.unflatten(jnp.asarray(far.last[0, 0] - start)))) == pytest.approx(2.0, rel=1e-12)
    np.testing.assert_allclose(far.mean_stationarity, dual, rtol=1e-12)
    for centre in (0.0, 1.0):
        step = WeightDecay(Normalized(0.5, norm), lam=0.4, centre=centre)
        held = gs.run(oracle, gs.Method(gs.estimators.Fresh(), step), steps=200)
        place = tree_of.unflatten(jnp.asarray(held.last[0, 0] - centre * start))
        assert float(norm.length(place)) == pytest.approx(2.5, rel=1e-9)
        assert held.stationarity[0, 0, -1] == pytest.approx(0, abs=1e-9 * dual)
        psi = dual + 0.4 * inner(gradient, tree_of.unflatten(jnp.asarray(start))) * (1 - centre)
        assert held.stationarity[0, 0, 0] == pytest.approx(psi, rel=1e-12)
        np.testing.assert_allclose(held.mean_stationarity[0, 0], np.cumsum(held.stationarity) / np.arange(1, 202))


def test_euclid_s_record_is_as_before_and_others_say_the_dual_norm() -> None:
    oracle = gs.oracles.NormNoise(gs.objectives.named("spectral-cosh(rows=2)", dim=6), B=0.5, G=0.5)
    methods = {"euclid": gs.nsgdm(0.05, 0.3), "spectral": gs.nsgdm(0.05, 0.3, norm=Spectral()), "sgd": gs.sgd(0.05)}
    record = gs.sweep(oracle, methods, steps=6, seeds=2)
    for name in ("euclid", "sgd"):
        np.testing.assert_array_equal(record[name].stationarity, record[name].grad_norm)
        np.testing.assert_array_equal(record[name].mean_stationarity, record[name].mean_grad_norm)
    ends = [np.asarray(oracle.objective.grad(x)).reshape(2, 3) for x in record["spectral"].last[0]]
    np.testing.assert_allclose(record["spectral"].stationarity[0, :, -1], [np.linalg.norm(g, "nuc") for g in ends])


def n1(norm: Any, L0: float, gap: float, G: float, gamma: float, eta: float, T: int, tau: Any = None) -> Any:
    """The bound (N1) on the mean of ‖∇f‖_* for NSGDM and noise of bounded variance, from one sample on."""
    tau = norm.tau if tau is None else tau
    forgotten = (1 - (1 - eta) ** T) / (eta * T)
    drift = 2 * L0 * gamma * (1 - eta) / eta + L0 * gamma / 2
    return gap / (gamma * T) + 2 * tau * G * forgotten + drift + 2 * (eta / (2 - eta)) ** 0.5 * tau * G


@gs.part
class SkewedDiagonal(ExactBg0):
    """Rare large noise on the diagonal of a square matrix, of variance G² in all."""

    def draw(self, key: Any) -> Any:
        return jax.random.bernoulli(key, 0.3, (round(self.objective.start.size**0.5),))

    def batch(self, noise: Any, size: Any) -> Any:
        return jnp.where(noise, (0.7 / 0.3) ** 0.5, -((0.3 / 0.7) ** 0.5)) / noise.size**0.5

    def grad(self, point: Any, sample: Any) -> Any:
        return point.grad + self.G * jnp.ravel(jnp.diag(sample))


SIDE, GAMMA = 16, 0.002


def square(start: np.ndarray) -> Any:
    return gs.objectives.from_function(lambda X: jnp.sum(X**2) / 2, start)


@pytest.mark.parametrize(("norm", "L0"), [(Spectral(), SIDE), (Sign(), SIDE**2), (Rows(), SIDE)], ids=str)
def test_the_bound_holds_in_every_norm_and_not_without_the_price_of_noise(norm: StepNorm, L0: float) -> None:
    oracle: Any = SkewedDiagonal(square(np.zeros((SIDE, SIDE))), B=0.0, G=1.0)
    record = gs.run(oracle, gs.nsgdm(GAMMA, 1.0, norm=norm), steps=999, seeds=2)
    measured, known = record.mean_stationarity[0, :, -1].mean(), norm.in_theory(np.zeros((SIDE, SIDE)))
    assert measured < n1(known, L0, 0.0, 1.0, GAMMA, 1.0, 1000)
    assert measured > n1(known, SIDE, 0.0, 1.0, GAMMA, 1.0, 1000, tau=1.0)  # what a Euclidean bound would say
    assert record.mean_grad_norm[0, :, -1].mean() < 0.5 * measured


def test_without_noise_a_spectral_run_attains_the_bound_in_the_nuclear_norm() -> None:
    """From γI/2 it jumps between two points, with ‖∇f‖_* = L0 γ/2."""
    objective = square(0.05 * np.eye(SIDE))
    record = gs.run(gs.BlumGladyshev(objective, B=0.0, G=0.0), gs.nsgdm(0.1, 1.0, norm=Spectral()), steps=999)
    bound = n1(Spectral().in_theory(np.eye(SIDE)), SIDE, SIDE * 0.05**2 / 2, 0.0, 0.1, 1.0, 1000)
    assert 0.999 < record.mean_stationarity[0, 0, -1] / bound <= 1


def test_a_plan_in_a_norm_needs_it_and_is_compared_in_its_dual() -> None:
    objective: Any = gs.objectives.named("spectral-log", dim=9)
    oracle, c = gs.oracles.NormNoise(objective, B=0.2, G=0.2), objective.spectral_constants
    gap = float(objective.value(jnp.asarray(objective.start)))
    numbers = {"alpha": 0, "L0": c.L0, "B": 0.2, "G": 0.2, "gap": gap, "horizon": 100, "constants": "norm"}
    plan = gs.theory.plan("nsgdm", norm=Spectral().text(np.zeros((3, 3))), **numbers)
    with pytest.raises(ValueError, match=r"from_plan: norm must be given .* spectral\(3, 3\)"):
        gs.run(oracle, plan)
    record = gs.run(oracle, gs.from_plan(plan, norm=Spectral()), steps=99, seeds=4)
    against = record.against(plan)
    assert against.measured == record.mean_stationarity[0, :, -1].mean()
    assert record.mean_grad_norm[0, :, -1].mean() < against.measured < against.bound


def test_norms_and_decay_are_written_as_other_parts_are_and_their_numbers_are_swept() -> None:
    text = "nsgdm(gamma=.1, eta=.2, norm=layers(matrix=scaled(spectral, [1, 2]), vector=sign))+weight-decay(lam=.5)"
    step: Any = parse_method(text).step
    assert (step.lam, step.step.norm.vector) == (0.5, Sign())
    np.testing.assert_array_equal(step.step.norm.matrix.weight, [1, 2])
    oracle = gs.BlumGladyshev(gs.objectives.named("two-layer-network", dim=24), B=0.1, G=0.1)
    record = gs.sweep(oracle, {"ours": parse_method(text)}, steps=2)
    assert record.labels == ("ours (step.norm.matrix.weight=1)", "ours (step.norm.matrix.weight=2)")
    parts = parse_method("momentum(eta=.2)+normalized(gamma=.1, norm=newton-schulz(steps=3))+weight_decay(lam=.5)")
    assert parts.step == WeightDecay(Normalized(0.1, NewtonSchulz(steps=3)), 0.5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nsgdm(gamma=1, eta=1, norm=3)", "norm of nsgdm must be one of columns, euclid, .*; got '3'"),
        ("nsgdm(gamma=1, eta=1, norm=nuclear)", "norm of nsgdm must be one of columns, .*; got 'nuclear'"),
        ("fresh+weight_decay(lam=1)", "weight_decay needs step"),
        ("nsgdm(gamma=1, eta=1, norm=scaled(sign, 0))", "Scaled: weight must be finite and > 0; got weight=0"),
        ("fresh+polyak(lower=0)+weight_decay(lam=1)", "WeightDecay: step must have a step size, .* got Polyak"),
    ],
)
def test_a_bad_norm_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        gs.run(gs.BlumGladyshev(LINEAR, B=0.0, G=0.0), parse_method(text), steps=1)


def test_no_two_norms_have_equal_structures() -> None:
    structures = [jax.tree.structure(dataclasses.replace(norm)) for norm in EVERY]  # type: ignore[type-var]
    assert len({str(structure) for structure in structures}) == len(EVERY)
