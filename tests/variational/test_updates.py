"""One step of every update is the equation of its docstring; Newton's model is exact where it should be."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.methods.steps import untuned as per_coordinate
from gladstorm.variational.conclusion import largest_family, updates
from gladstorm.variational.families import FullRank, LowRank, MeanField
from gladstorm.variational.gaussians import Diagonal, FullRankUpdate, MeanFieldUpdate, NewtonUpdate, Triangular
from gladstorm.variational.low_rank import Factored, LowRankUpdate
from gladstorm.variational.programs import Draw, Update
from targets import correlated, gaussian

D = 3
MEAN, COVARIANCE = correlated(D, 10.0)
DENSITY = gaussian(MEAN, COVARIANCE)
TRIL = np.tril(np.random.default_rng(5).normal(size=(D, D)), -1) + np.diag([0.5, 1.0, 2.0])
KEY = jax.random.key(0)


def log_density(z: Any, _: Any) -> Any:
    return DENSITY(z)


def member(kind: Any) -> Any:
    rng = np.random.default_rng(1)
    shapes = {
        Diagonal: (np.array([0.5, 1.0, 2.0]),),
        Triangular: (TRIL,),
        Factored: (np.array([0.5, 1.0, 2.0]), rng.normal(size=(D, 2))),
    }
    return kind(jnp.arange(float(D)), *map(jnp.asarray, shapes[kind]))


def run(update: Update, q: Any, noises: Any, density: Any = log_density, steps: int = 50) -> tuple[Any, list[Any]]:
    """The state after a step for each ε, and all states on the way."""
    advance = jax.jit(partial(update.step, density))
    states = [update.begin(q, KEY)]
    for noise in noises:
        states.append(advance(states[-1], Draw(jnp.asarray(noise), jax.random.key_data(KEY)), float(steps))[0])
    return states[-1], states


@pytest.mark.parametrize("kind", [Diagonal, Triangular, Factored])
def test_densities_are_those_of_the_draws(kind: Any) -> None:
    q = member(kind)
    size = q.noise_size
    matrix = np.stack([q.place(jnp.eye(size)[i]) - q.place(jnp.zeros(size)) for i in range(size)], axis=1)
    covariance = np.asarray(matrix @ matrix.T, float)
    assert q.scale_tril() @ q.scale_tril().T == pytest.approx(covariance, abs=1e-5)
    assert q.sds == pytest.approx(np.sqrt(np.diagonal(covariance)), rel=1e-5)
    noise = np.random.default_rng(2).normal(size=(4, size))
    z = np.asarray(q.place(jnp.asarray(noise)), float)
    off = z - np.arange(D)
    expected = [-0.5 * (x @ np.linalg.solve(covariance, x) + np.linalg.slogdet(2 * np.pi * covariance)[1]) for x in off]
    assert np.asarray(q.log_density_at(jnp.asarray(noise))) == pytest.approx(np.array(expected), rel=1e-4)
    as_numpy = jax.tree.map(np.asarray, q)
    assert as_numpy.log_density_at(noise[0]) == pytest.approx(expected[0], rel=1e-4)
    assert np.asarray(q.log_density(jnp.asarray(z))) == pytest.approx(np.array(expected), rel=1e-3)
    if kind is Factored:
        slope = jax.grad(q.log_density)(jnp.asarray(z[0]))
        assert np.asarray(q.gradient(jnp.asarray(z[0]))) == pytest.approx(np.asarray(slope), rel=1e-3)


def test_the_family_grows_with_the_budget() -> None:
    assert largest_family(1, 10_000) == MeanField()
    assert largest_family(69, 10_000) == FullRank() != largest_family(70, 10_000)
    assert largest_family(3, 10) == LowRank(3)


@pytest.mark.parametrize("family", [MeanField(), LowRank(2), FullRank()])
@pytest.mark.parametrize("steps", [40, 1000, 10_000])
def test_updates_take_all_steps_of_a_run_and_newton_steps_need_enough_draws(family: Any, steps: int) -> None:
    some = updates(family, 20, steps)
    assert sum(number for _, number in some) == steps
    assert isinstance(some[0][0], MeanFieldUpdate)
    newton = [number for update, number in some if isinstance(update, NewtonUpdate)]
    assert len(newton) == (3 if steps / 15 >= 3 * 21 else 0)
    assert all(number >= 3 * 21 for number in newton)
    assert {update.least_z for update, _ in updates(family, 20, steps, 0.5)} == {0.5}


def test_path_gradients_have_no_noise_at_the_posterior_and_the_mean_of_the_elbo_s_slope_elsewhere() -> None:
    """∂ELBO/∂m = −P(m − μ) for a normal density of precision P, and the noise recorded of a step is σ²g²."""
    precision = np.linalg.inv(COVARIANCE)
    q = Diagonal(jnp.asarray(MEAN + 1.0), jnp.asarray(np.diagonal(precision) ** -0.5))
    noises = jax.random.normal(KEY, (4000, D))
    first = MeanFieldUpdate().begin(q, KEY)
    gain_at = jax.jit(
        jax.vmap(lambda noise: MeanFieldUpdate().step(log_density, first, Draw(noise, None), jnp.asarray(50.0))[1])
    )
    recorded = gain_at(noises)
    by_hand = np.asarray(-jax.vmap(jax.grad(DENSITY))(q.place(noises)) - noises / q.scale)
    expected = precision @ np.ones(D)
    error = by_hand.std(axis=0) / np.sqrt(len(noises))
    assert np.abs((by_hand.mean(axis=0) - expected) / error).max() < 4
    assert np.asarray(recorded.noise) == pytest.approx(np.sum((by_hand * np.asarray(q.scale)) ** 2, axis=1), rel=1e-3)
    exact = Triangular(jnp.asarray(MEAN), jnp.asarray(np.linalg.cholesky(COVARIANCE)))
    _, gain = FullRankUpdate().step(
        log_density, FullRankUpdate().begin(exact, KEY), Draw(noises[0], None), jnp.asarray(50.0)
    )
    assert float(gain.noise) < 1e-6


@pytest.mark.parametrize("update", [MeanFieldUpdate(), LowRankUpdate(rank=2)])
def test_a_location_never_goes_farther_than_along_the_natural_gradient(update: Any) -> None:
    """The first step goes half of δ, and |δ| ≤ σ²|g|: binding for narrow q far from the mode."""
    narrow = Diagonal(jnp.asarray(MEAN + 100.0), jnp.full(D, 1e-3))
    noise = jax.random.normal(KEY, (update.noise_size(update.begin(narrow, KEY)),))
    after, (before, _) = run(update, narrow, [noise])
    if isinstance(update, LowRankUpdate):
        factor = before.x[2:].T
        q: Any = Factored(before.x[0], jax.nn.softplus(before.x[1]), factor)
        z = q.place(noise)
        slope = -jax.grad(DENSITY)(z) + jax.grad(q.log_density)(z)
    else:
        q = Diagonal(before.x[0], jax.nn.softplus(before.x[1]))
        slope = -jax.grad(DENSITY)(q.place(noise)) - noise / q.scale
    gone = np.abs(np.asarray(after.x[0] - before.x[0]))
    longest = 0.5 * np.asarray(q.scale**2 * jnp.abs(slope))
    assert gone == pytest.approx(longest, rel=0.05, abs=2e-5)  # 100 is rounded to 4e-6


def test_a_width_never_grows_by_more_than_half_of_its_own_scale() -> None:
    """|Δs| ≤ ½σ/σ′ and δ is halved by the momentum: log σ moves by at most about a quarter, whatever the gradient."""
    q = Diagonal(jnp.zeros(D), jnp.array([1e-6, 1e-3, 1e-1]))
    for scale in (1e-9, 1e9):
        state, _ = run(MeanFieldUpdate(), q, [np.array([0.5, -3.0, 2.0])], lambda z, _, s=scale: -jnp.sum((z / s) ** 2))
        ratio = np.asarray(jax.nn.softplus(state.x[1]) / q.scale)
        assert (ratio < np.exp(0.26)).all()
        assert (ratio > np.exp(-0.3)).all()


def test_a_careful_start_begins_with_a_tenth_of_the_length_and_lets_it_grow_as_untuned_does() -> None:
    """Far from the mode x̄ runs ahead: then r of a usual start is how far it has come, and the other's is bounded."""
    far = Diagonal(jnp.full(D, 1e4), jnp.full(D, 1.0))
    noises, steps = np.random.default_rng(0).normal(size=(20, D)), 500
    lengths = {}
    for careful in (False, True):
        states = [MeanFieldUpdate().begin(far, KEY, careful)]
        advance = jax.jit(partial(MeanFieldUpdate().step, lambda z, _: -jnp.sum(jnp.abs(z))))
        for noise in noises:
            states.append(advance(states[-1], Draw(jnp.asarray(noise), None), float(steps))[0])
        lengths[careful] = np.array([np.asarray(state.journey.r) for state in states])
    assert lengths[True][0] == pytest.approx(lengths[False][0] / 10, rel=1e-5)
    assert lengths[True][0, 0] == pytest.approx(0.01 * (1 + 1e4), rel=1e-4)
    k = np.arange(len(noises))[:, None, None]
    most = 1 + 8 / np.sqrt(steps * (k + 1))
    assert (lengths[True][1:] / lengths[True][:-1] <= most * (1 + 1e-5)).all()
    assert (lengths[False][1:] >= lengths[False][:-1]).all()


def test_a_full_rank_step_is_as_bold_as_the_steps_that_are_left_allow() -> None:
    """Close to the posterior ‖δ₁‖ = 0.3γ|v| and ‖δ₂‖ = 0.3γ|vε|/√2/(1 + ε²), of which momentum takes half."""
    steps, noises = 50, np.random.default_rng(7).normal(size=(45, 1))
    with jax.enable_x64(True):
        density = gaussian(np.zeros(1), np.ones((1, 1)))
        start = Triangular(jnp.array([1e-4]), jnp.array([[1.0]]))
        _, states = run(FullRankUpdate(), start, noises, lambda z, _: density(z), steps)
    motion = np.zeros(2)
    for k, ((before, after), (noise,)) in enumerate(zip(pairwise(states), noises, strict=True)):
        loc, scale = float(before.q.loc[0]), float(before.q.tril[0, 0])
        v = scale * (loc + scale * noise) - noise
        motion = motion / 2 + 0.15 * (1 - k / steps) * np.array([v, v * noise / np.sqrt(2) / (1 + noise**2)])
        assert float(after.q.loc[0]) - loc == pytest.approx(-scale * motion[0], rel=1e-6)
        assert np.log(float(after.q.tril[0, 0]) / scale) == pytest.approx(-motion[1] / np.sqrt(2), rel=1e-5, abs=1e-14)


def test_full_rank_steps_do_not_depend_on_the_coordinates() -> None:
    """For z′ = Az + b with A lower triangular, the same ε lead to m′ = Am + b and L′ = AL."""
    a, b = np.array([[30.0, 0, 0], [2.0, 0.1, 0], [-1.0, 4.0, 2.0]]), np.array([5.0, -7.0, 1.0])
    moved = gaussian(a @ MEAN + b, a @ COVARIANCE @ a.T)
    noises = np.random.default_rng(3).normal(size=(12, D))
    with jax.enable_x64(True):
        here, _ = run(FullRankUpdate(), Triangular(jnp.zeros(D), jnp.asarray(TRIL)), noises)
        there, _ = run(
            FullRankUpdate(), Triangular(jnp.asarray(b), jnp.asarray(a @ TRIL)), noises, lambda z, _: moved(z)
        )
        assert np.asarray(there.q.tril) == pytest.approx(a @ np.asarray(here.q.tril), rel=1e-5)
        assert np.asarray(there.q.loc) == pytest.approx(a @ np.asarray(here.q.loc) + b, rel=1e-5)
        assert np.asarray(there.average.loc) == pytest.approx(a @ np.asarray(here.average.loc) + b, rel=1e-5)
    assert np.abs(np.asarray(here.q.tril) - TRIL).max() > 0.01
    assert (np.asarray(here.q.tril)[np.triu_indices(D, 1)] == 0).all()


def test_a_gradient_that_is_not_finite_is_counted_and_does_no_harm() -> None:
    def broken(z: Any, _: Any) -> Any:
        return DENSITY(z) * jnp.where(z[0] > 1.0, jnp.nan, 1.0)

    cases: list[tuple[Any, Any]] = [
        (MeanFieldUpdate(), Diagonal(jnp.zeros(D), jnp.ones(D))),
        (LowRankUpdate(rank=1), Diagonal(jnp.zeros(D), jnp.ones(D))),
        (FullRankUpdate(), Triangular(jnp.zeros(D), jnp.eye(D))),
        (NewtonUpdate(), Triangular(jnp.zeros(D), jnp.eye(D))),
    ]
    for update, q in cases:
        state = update.begin(q, KEY)
        noise = jnp.zeros(update.noise_size(state))
        skipped = []
        for first in (0.3, 5.0, -0.2):
            state, gain = update.step(broken, state, Draw(noise.at[0].set(first), None), jnp.asarray(50.0))
            skipped.append(float(gain.skipped))
        assert skipped == [0, 1, 0]
        stacked = jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(update.candidates(stacked)[0]))


def newton(q: Any, draws: int, full: bool = False, density: Any = log_density) -> tuple[Any, ...]:
    update = NewtonUpdate(full=full)
    noises = np.random.default_rng(4).normal(size=(draws, q.noise_size))
    state, _ = run(update, q, noises, density)
    stacked = jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)
    return tuple(jax.tree.map(lambda leaf: leaf[0], each) for each in update.candidates(stacked))


def test_a_newton_step_is_exact_for_a_normal_density_after_a_few_draws() -> None:
    with jax.enable_x64(True):
        stays, whole, half, _ = newton(member(Triangular), 4 * D)
        assert stays.tril == pytest.approx(TRIL)
        assert whole.loc == pytest.approx(MEAN, rel=1e-3)
        assert whole.scale_tril() @ whole.scale_tril().T == pytest.approx(COVARIANCE, rel=1e-3)
        assert half.loc == pytest.approx((MEAN + np.arange(D)) / 2, rel=1e-3)
        _, diagonal, _, _ = newton(member(Diagonal), 4 * D)
        assert diagonal.scale == pytest.approx(np.diagonal(np.linalg.inv(COVARIANCE)) ** -0.5, rel=1e-3)
        assert diagonal.loc == pytest.approx(MEAN, rel=1e-3)
        _, widened, _, _ = newton(member(Diagonal), 4 * D, full=True)
        assert widened.tril @ widened.tril.T == pytest.approx(COVARIANCE, rel=1e-3)
        _, factored, _, _ = newton(member(Factored), 8 * D)
        assert factored.factor == pytest.approx(np.asarray(member(Factored).factor))
        assert factored.loc == pytest.approx(MEAN, rel=1e-3)


def test_a_newton_step_without_a_finite_gradient_offers_only_q() -> None:
    stays, *others = newton(member(Triangular), 5, density=lambda z, _: jnp.sum(z) * jnp.nan)
    assert stays.tril == pytest.approx(TRIL)
    assert others
    for other in others:
        assert not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(other))


def test_a_clock_hurries_while_steps_undo_each_other_unless_data_are_subsampled() -> None:
    steps = 100
    clocks = []
    for least_z in (0.0, per_coordinate.SUBSAMPLED):
        x = jnp.zeros(3)
        memory = per_coordinate.begin(x)
        move = jax.jit(partial(per_coordinate.move, steps, least_z=least_z))
        for k in range(steps):
            x, memory = move(memory, x, jnp.full(3, (-1.0) ** k))
        clocks.append(np.asarray(memory.clock))
    assert (clocks[0] > 2).all()
    np.testing.assert_allclose(clocks[1], 1, rtol=1e-5)
