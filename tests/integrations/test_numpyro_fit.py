"""`fit` on numpyro models, and its parts in a plain SVI."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gladstorm
from gladstorm.methods.steps import Untuned
from gladstorm.methods.steps.untuned import FIRST
from gladstorm.optax import averaged, untuned_per_coordinate

numpyro = pytest.importorskip("numpyro")
from numpyro import handlers  # noqa: E402
from numpyro.distributions import HalfNormal, ImproperUniform, Normal, Poisson, constraints  # noqa: E402
from numpyro.infer import Trace_ELBO  # noqa: E402
from numpyro.infer.autoguide import AutoDelta, AutoIAFNormal, AutoNormal  # noqa: E402

from gladstorm.numpyro import Flow, FullRank, MeanField, StickingELBO, fit  # noqa: E402

DATA = np.random.default_rng(0).normal(2.0, 1.0, 40)
EXACT_SD = (1 / 25 + len(DATA)) ** -0.5
EXACT_MEAN = EXACT_SD**2 * DATA.sum()


def model(data: Any, batch: int | None = None) -> None:
    z = numpyro.sample("z", Normal(0.0, 5.0))
    with numpyro.plate("all", len(data), subsample_size=batch) as some:
        numpyro.sample("data", Normal(z, 1.0), obs=data[some])
    numpyro.deterministic("doubled", 2 * z)


def guide(data: Any) -> None:
    scale = numpyro.param("scale", 0.5, constraint=constraints.positive)
    numpyro.sample("z", Normal(numpyro.param("mean", 0.3), scale))


@pytest.mark.parametrize("of", [None, AutoNormal, guide], ids=["by default", "autoguide", "function"])
def test_a_conjugate_posterior_is_found_by_every_kind_of_guide(of: Any) -> None:
    found = fit(model, DATA, steps=2000, starts=2, guide=of(model) if of is AutoNormal else of, progress=False)
    draws = found.sample(4000)
    assert draws["z"].mean() == pytest.approx(EXACT_MEAN, abs=0.08 * EXACT_SD)
    assert draws["z"].std() == pytest.approx(EXACT_SD, rel=0.04)
    assert draws["doubled"] == pytest.approx(2 * draws["z"])
    evidence = Normal(0.0, 1.0).log_prob(DATA - EXACT_MEAN).sum() + Normal(0.0, 5.0).log_prob(EXACT_MEAN)
    assert found.elbo == pytest.approx(float(evidence) + 0.5 * np.log(2 * np.pi * EXACT_SD**2), abs=0.01)
    assert found.warnings == ()
    if of is None:
        assert found.scale_tril.item() == pytest.approx(EXACT_SD, rel=0.005)
    else:
        with pytest.raises(AttributeError, match=r"a guide of your own has fit\.parameters"):
            _ = found.location


def test_subsampled_data_give_the_posterior_of_all_of_them_and_no_khat() -> None:
    found = fit(model, DATA, batch=10, steps=4000, starts=2, progress=False)
    assert found.location.item() == pytest.approx(EXACT_MEAN, abs=0.3 * EXACT_SD)
    assert found.scale_tril.item() == pytest.approx(EXACT_SD, rel=0.05)
    assert found.khat is None


def test_a_small_batch_of_many_rows_is_a_warning_that_says_what_to_take() -> None:
    found = fit(model, np.tile(DATA, 26), batch=999, steps=200, starts=1, progress=False)
    assert "Take subsample_size=1000 or more in the plate 'all'" in found.warnings[-1]


def with_locals(data: Any, batch: int | None = None) -> None:
    mu = numpyro.sample("mu", Normal(0.0, 5.0))
    with numpyro.plate("rows", len(data), subsample_size=batch) as rows:
        z = numpyro.sample("z", Normal(mu, 1.0))
        numpyro.sample("data", Normal(z, 0.5), obs=data[rows])


def test_local_variables_that_are_seldom_drawn_have_a_run_of_their_own() -> None:
    """Each is drawn in a fortieth of the steps. With one clock for all, deviations were half, means a deviation off."""
    data = np.random.default_rng(0).normal(3.0, 1.1, 200)
    found = fit(with_locals, data, 5, guide=AutoNormal(with_locals), steps=4000, starts=2, progress=False)
    loc, scale = (found.parameters[f"z_auto_{of}"] for of in ("loc", "scale"))
    assert loc == pytest.approx((found.parameters["mu_auto_loc"] + 4 * data) / 5, abs=0.15 * 5**-0.5)
    assert scale == pytest.approx(np.full(200, 5**-0.5), rel=0.1)
    assert found.elbo == pytest.approx(-300, abs=8)  # of all data, by subsamples


def hierarchy(group: Any, y: Any, batch: int | None) -> None:
    """Counts in 20 groups. The noise of a subsample hides the drift along spread × effect."""
    level, spread = numpyro.sample("level", Normal(0, 5)), numpyro.sample("spread", HalfNormal(1))
    effect = numpyro.sample("effect", Normal(0, 1).expand([20]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=batch) as rows:
        numpyro.sample("y", Poisson(jnp.exp(level + spread * effect[group[rows]])), obs=y[rows])


def test_a_hierarchy_of_subsampled_data_ends_where_all_data_do() -> None:
    rng = np.random.default_rng(3)
    group = rng.integers(0, 20, 1000)
    y = rng.poisson(np.exp(1 + 0.5 * rng.normal(size=20)[group])).astype(float)
    with jax.enable_x64(True):
        whole, part = (
            fit(hierarchy, group, y, batch, steps=8000, starts=2, guide=MeanField(), progress=False)
            for batch in (None, 50)
        )
    assert part.elbo == pytest.approx(whole.elbo, abs=1)
    assert part.elbo_error < 0.2
    assert np.diagonal(part.scale_tril)[-2:] == pytest.approx(np.diagonal(whole.scale_tril)[-2:], rel=0.15)
    with pytest.raises(ValueError, match=r"guide must be a Gaussian family for subsampled data; got Flow\(\)"):
        fit(hierarchy, group, y, 50, steps=100, guide=Flow(), progress=False)


def test_a_latent_variable_of_a_subsample_needs_a_guide() -> None:
    def local(data: Any) -> None:
        with numpyro.plate("all", len(data), subsample_size=4) as some:
            z = numpyro.sample("z", Normal(0.0, 1.0))
            numpyro.sample("data", Normal(z, 1.0), obs=data[some])

    with pytest.raises(ValueError, match=r"guide must be one of yours, such as AutoNormal\(model\), .* 'z' in 'all'"):
        fit(local, DATA, progress=False)
    with pytest.raises(TypeError, match="guide must be a family such as MeanField"):
        fit(model, DATA, guide="normal")


def chained(data: Any = None) -> None:
    """A guide whose second site depends on its first: the path through it must not be cut."""
    a, b = numpyro.param("a", 2.5), numpyro.param("b", 0.4, constraint=constraints.positive)
    x = numpyro.sample("x", Normal(a, b))
    numpyro.sample("y", HalfNormal(jnp.exp(0.5 * x)))


def two(data: Any = None) -> None:
    x = numpyro.sample("x", Normal(1.0, 2.0))
    numpyro.sample("y", HalfNormal(jnp.exp(0.3 * x)))


def gradients(elbo: Any, params: Any, of: Any, by: Any, keys: Any) -> dict[str, np.ndarray]:
    return jax.jit(jax.vmap(lambda key: jax.grad(lambda p: elbo.loss(key, p, of, by, jnp.asarray(DATA)))(params)))(keys)  # type: ignore[no-any-return]


def test_path_derivatives_have_the_mean_of_the_whole_gradient_through_sites_that_depend_on_each_other() -> None:
    params = {"a": jnp.asarray(2.5), "b": jnp.asarray(0.4)}
    keys = jax.random.split(jax.random.key(0), 20_000)
    path, whole = (gradients(elbo, params, two, chained, keys) for elbo in (StickingELBO(), Trace_ELBO()))
    for name in params:
        error = np.std(np.asarray(path[name]) - np.asarray(whole[name])) / np.sqrt(len(keys))
        assert np.mean(path[name]) == pytest.approx(np.mean(whole[name]), abs=4 * error)
        assert abs(np.mean(path[name])) > 10 * error  # or there would be nothing to compare
    few = StickingELBO(num_particles=5).loss(keys[0], params, two, chained)
    each = [StickingELBO().loss(key, params, two, chained) for key in jax.random.split(keys[0], 5)]
    assert float(few) == pytest.approx(float(np.mean(each)), rel=1e-5)


def test_path_derivatives_have_no_noise_at_the_posterior() -> None:
    params = {"mean": jnp.asarray(EXACT_MEAN), "scale": jnp.asarray(EXACT_SD)}
    keys = jax.random.split(jax.random.key(1), 100)
    path, whole = (gradients(elbo, params, model, guide, keys) for elbo in (StickingELBO(), Trace_ELBO()))
    for name in params:
        assert np.abs(path[name]).max() < 1e-3 * np.std(whole[name])


def test_every_coordinate_is_a_run_of_its_own_whatever_the_others_do() -> None:
    rng = np.random.default_rng(1)
    gradients, steps = rng.normal(1.0, 1.0, (30, 3)) * [1.0, 1e-6, 1e6], 30
    gradients[7] = np.nan
    optimizer = untuned_per_coordinate(steps)
    params = {"a": jnp.array([1.0, -2.0]), "b": jnp.array(3.0)}
    state = optimizer.init(params)
    update = jax.jit(optimizer.update, donate_argnums=1)
    for g in gradients:
        updates, state = update({"a": jnp.asarray(g[:2]), "b": jnp.asarray(g[2])}, state, params)
        params = jax.tree.map(jnp.add, params, updates)
    moved, average = (np.append(tree["a"], tree["b"]) for tree in (params, averaged(state, params)))
    step = Untuned(steps=steps, first=FIRST)
    move = jax.jit(lambda memory, x, g: step.move(memory, x, g, lambda _: jnp.zeros(())))
    for at, start in enumerate([1.0, -2.0, 3.0]):
        x = jnp.array(start)
        memory = step.init(x)
        for g in gradients[:, at]:
            x, memory = move(memory, x, jnp.asarray(g))
        assert (moved[at], average[at]) == pytest.approx((float(x), float(memory.average)), rel=1e-5)
        assert state.k == memory.k == 30
        assert state.skipped == memory.skipped == 1
    with pytest.raises(ValueError, match="untuned_per_coordinate: params must be given to update"):
        optimizer.update(params, state)


def test_a_model_with_constraints_has_draws_on_its_own_scale() -> None:
    def positive(data: Any) -> None:
        sigma = numpyro.sample("sigma", HalfNormal(10.0))
        numpyro.sample("data", Normal(2.0, sigma), obs=data)

    found = fit(positive, DATA, steps=2000, starts=2, guide=MeanField(), progress=False)
    draws = found.sample(2000)["sigma"]
    spread = np.sqrt(np.mean((DATA - 2) ** 2))
    assert (draws > 0).all()
    assert draws.mean() == pytest.approx(spread, rel=0.05)
    assert draws.std() == pytest.approx(spread / np.sqrt(2 * len(DATA)), rel=0.15)
    with handlers.seed(rng_seed=0):
        assert set(found.sample(3)) == {"sigma"}


@pytest.mark.parametrize("guide", [None, FullRank(), MeanField()])
def test_a_fit_is_made_by_ten_files_of_this_project(guide: Any) -> None:
    """Files whose functions are called, on the first fit of a structure, without those of an import."""
    data = np.append(DATA, np.ones(1 + [None, FullRank(), MeanField()].index(guide)))
    package = str(Path(gladstorm.__file__).parent)
    files: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        fit(model, data, steps=300, starts=2, guide=guide, progress=False)
    finally:
        sys.setprofile(None)
    names = {name.removeprefix(package) for name in files if name.startswith(package)}
    assert len(names) <= 10, sorted(names)


def test_a_model_that_cannot_be_fitted_is_refused_in_a_sentence() -> None:
    def observed(data: Any) -> None:
        numpyro.sample("data", Normal(0.0, 1.0), obs=data)

    def needy(data: Any, steps: int) -> None:
        z = numpyro.sample("z", Normal(0.0, 1.0).expand([steps]).to_event(1))
        numpyro.sample("data", Normal(z.sum(), 1.0), obs=data)

    def one_batch(data: Any) -> None:
        z = numpyro.sample("z", Normal(0.0, 1.0))
        with numpyro.plate("rows", 1000, subsample_size=len(data)):
            numpyro.sample("data", Normal(z, 1.0), obs=data)

    for given, words in (
        ({"model": observed}, "model must have a latent variable"),
        ({"model": one_batch}, r"draw the rows of its plate 'rows' from them, as in obs=data\[rows\]"),
        ({"model": model, "guide": AutoIAFNormal(model)}, "AutoIAFNormal knows it only at its own draws"),
        ({"model": observed, "guide": lambda data: None}, "guide must have parameters"),
    ):
        of: Any = given.pop("model")
        with pytest.raises(ValueError, match=words):
            fit(of, DATA, progress=False, **given)
    partly = fit(functools.partial(needy, steps=2), DATA, steps=200, starts=1, progress=False)
    assert partly.location.shape == (2,)


def test_a_flat_prior_without_data_is_doubted_and_does_not_crash() -> None:
    def flat() -> None:
        numpyro.sample("z", ImproperUniform(constraints.real, (), ()))
        numpyro.sample("x", Normal(0.0, 1.0))

    assert not fit(flat, steps=2000, starts=2, progress=False).converged


def test_a_point_has_no_khat() -> None:
    point = fit(model, DATA, guide=AutoDelta(model), steps=1000, starts=1, progress=False)
    assert point.khat is None
    assert point.sample(3)["z"] == pytest.approx(EXACT_MEAN, abs=0.1 * EXACT_SD)
    with pytest.raises(ValueError, match="must have finite importance weights"):
        point.resample()


def test_coordinates_are_sites_in_the_order_of_their_names_each_row_by_row() -> None:
    def several() -> None:
        numpyro.sample("b", Normal(jnp.array([[1.0, 2.0], [3.0, 4.0]]), 0.1).to_event(2))
        numpyro.sample("a", Normal(0.0, 0.1))

    found = fit(several, steps=1000, starts=1, progress=False)
    assert found.location == pytest.approx([0, 1, 2, 3, 4], abs=0.02)
    assert found.unravel(found.location)["b"] == pytest.approx(np.array([[1.0, 2], [3, 4]]), abs=0.02)
