"""What a fit says about itself and keeps, and what cannot be fitted."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.variational import Fit, MeanField, fit_logdensity

SCALES = jnp.array([1.0, 100.0])


def log_density(z: Any) -> Any:
    return -0.5 * jnp.sum(((z - 5) / SCALES) ** 2)


def short(**settings: Any) -> Fit:
    given: dict[str, Any] = {
        "steps": 200,
        "starts": 2,
        "family": MeanField(),
        "progress": False,
        "names": ["a", "b"],
    } | settings
    return fit_logdensity(log_density, 2, **given)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return short()


def test_a_saved_fit_is_the_same_when_it_is_loaded(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.parquet")
    loaded = Fit.load(tmp_path / "fit.parquet")
    assert repr(loaded) == repr(fit)
    assert str(loaded.summary()) == str(fit.summary())
    for n, seed in ((300, 0), (5000, 7)):
        assert loaded.sample(n, seed)["b"] == pytest.approx(fit.sample(n, seed)["b"], rel=1e-6)
    assert loaded.resample(10)["b"] == pytest.approx(fit.resample(10)["b"], rel=1e-6)
    assert (loaded.config, loaded.warnings, loaded.gradients) == (fit.config, fit.warnings, fit.gradients)
    assert np.array_equal(loaded.scale_tril, fit.scale_tril)
    assert (loaded.khat, loaded.efficiency) == (fit.khat, fit.efficiency)
    loaded.save(tmp_path / "again.parquet")
    assert str(Fit.load(tmp_path / "again.parquet").summary()) == str(fit.summary())
    with pytest.raises(ValueError, match="check: the fit must be a Gaussian of all data"):
        loaded.check()
    broken = (tmp_path / "fit.parquet").read_bytes()
    (tmp_path / "fit.parquet").write_bytes(broken[:200] + b"x" + broken[201:])
    with pytest.raises(ValueError, match="was changed or damaged"):
        Fit.load(tmp_path / "fit.parquet")


def test_draws_and_their_summary_have_the_moments_of_q(fit: Fit) -> None:
    draws = fit.sample(4000)
    sds = np.diagonal(fit.scale_tril)
    for at, name in enumerate("ab"):
        assert draws[name].mean() == pytest.approx(fit.location[at], abs=4 * sds[at] / np.sqrt(4000))
        assert draws[name].std() == pytest.approx(sds[at], rel=0.05)
    row = fit.summary(prob=0.9)["b"]
    assert row["95.0%"] - row["5.0%"] == pytest.approx(2 * 1.645 * sds[1], rel=0.1)
    assert list(row) == ["mean", "std", "median", "5.0%", "95.0%"]
    assert "Warning" not in fit._repr_html_()
    assert len(fit.plot().axes) == 2


def test_a_transform_gives_draws_another_scale_and_another_shape() -> None:
    fit = short(names=None, transform=lambda z: {"sum": z.sum(), "outer": jnp.outer(z, jnp.exp(z / 100))})
    draws, plain = fit.sample(20), short(names=None).sample(20)["z"]
    assert draws["sum"] == pytest.approx(plain.sum(axis=1), rel=1e-5)
    assert draws["outer"] == pytest.approx(plain[:, :, None] * np.exp(plain / 100)[:, None], rel=1e-4)


def test_arviz_is_named_where_it_is_missing(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "arviz", None)
    with pytest.raises(ImportError, match="pip install arviz"):
        fit.to_arviz()


def test_what_cannot_be_fitted_is_refused_in_a_sentence() -> None:
    for settings, words in (
        ({"steps": 0}, "steps must be a whole number ≥ 1"),
        ({"starts": 0}, "starts must be a whole number ≥ 1"),
        ({"names": ["a"]}, "names must be one for each of the 2 coordinates; got 1"),
        ({"transform": lambda z: {"z": z}}, "names must be left out where transform is given"),
        ({"start": np.zeros(3)}, r"start must have shape \(2,\) or \(2, 2\); got \(3,\)"),
        ({"start": np.full(2, np.nan)}, "must be finite where the run begins"),
        ({"store": 7}, "store: must be the path of a folder"),
    ):
        with pytest.raises(ValueError, match=words):
            short(**settings)
    with pytest.raises(
        TypeError, match=r"family must be MeanField\(\), FullRank\(\), LowRank\(rank\), Flow\(\) or None; got 'normal'"
    ):
        short(family="normal")


def test_a_start_is_the_first_random_point_with_a_finite_gradient() -> None:
    """A density that exists in a corner of a sixteenth of ± 2 only: every start begins there."""
    fit = fit_logdensity(
        lambda z: -0.5 * jnp.sum((z - 1.5) ** 2) + jnp.where((z > 1).all(), 0.0, jnp.nan) * z.sum(),
        2,
        steps=1,
        starts=3,
        family=MeanField(),
        progress=False,
    )
    assert (fit.location > 0.9).all()


def test_a_pickled_fit_is_the_same() -> None:
    fit = short()
    other = pickle.loads(pickle.dumps(fit))
    assert repr(other) == repr(fit)
    assert other.sample(5000, seed=3)["b"] == pytest.approx(fit.sample(5000, seed=3)["b"], rel=1e-6)
    assert np.array_equal(other.scale_tril, fit.scale_tril)


def test_another_process_draws_from_a_file_without_the_model_and_in_the_precision_of_the_fit(tmp_path: Path) -> None:
    with jax.enable_x64(True):
        fit = short(names=None, transform=lambda z: {"sum": z.sum(), "exp": jnp.exp(z / 100)})
        fit.save(tmp_path / "fit.parquet")
        (tmp_path / "fit.pickle").write_bytes(pickle.dumps(fit))
    code = (
        "import pickle, pathlib, numpy as np; from gladstorm.variational import Fit; "
        f"folder = pathlib.Path({str(tmp_path)!r}); loaded = Fit.load(folder / 'fit.parquet'); "
        "other = pickle.loads((folder / 'fit.pickle').read_bytes()); "
        "[np.save(folder / name, each.sample(4500, 3)['sum']) for name, each in (('a', loaded), ('b', other))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    expected = fit.sample(4500, 3)["sum"]
    assert expected.dtype == np.float64
    for name in "ab":
        assert np.load(tmp_path / f"{name}.npy") == pytest.approx(expected, rel=1e-12)


def test_a_fit_that_is_not_finite_is_saved_too(tmp_path: Path) -> None:
    fit = fit_logdensity(
        lambda z: jnp.where(jnp.abs(z[0]) < 1, 0.0, -jnp.inf), 1, steps=20, starts=1, start=np.zeros(1), progress=False
    )
    assert (fit.khat, fit.converged) == (np.inf, False)
    fit.save(tmp_path / "fit.parquet")
    loaded = Fit.load(tmp_path / "fit.parquet")
    assert (loaded.khat, loaded.warnings) == (np.inf, fit.warnings)


def test_coordinates_are_split_into_sites_in_their_order(fit: Fit) -> None:
    assert {name: value.item() for name, value in fit.unravel(fit.location).items()} == {
        "a": fit.location[0],
        "b": fit.location[1],
    }
    rows = short(names=None).unravel(np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(rows["z"], np.arange(6.0).reshape(3, 2))
    np.testing.assert_allclose(fit.mass_matrix(), fit.scale_tril @ fit.scale_tril.T)


def test_draws_by_importance_have_the_moments_of_the_density_where_q_has_not() -> None:
    """A mean field of a correlation of 0.5 has deviations of √¾ in place of 1."""
    precision = jnp.asarray(np.linalg.inv([[1.0, 0.5], [0.5, 1.0]]))
    fit = fit_logdensity(
        lambda z: -0.5 * z @ precision @ z, 2, steps=2000, starts=1, family=MeanField(), progress=False
    )
    assert fit.sample(4000)["z"].std(axis=0) == pytest.approx([0.866, 0.866], rel=0.03)
    draws = fit.resample(4000, seed=1)["z"]
    assert draws.std(axis=0) == pytest.approx([1.0, 1.0], rel=0.05)
    assert np.corrcoef(draws.T)[0, 1] == pytest.approx(0.5, abs=0.05)
    assert fit.efficiency is not None
    assert 0.5 < fit.efficiency < 0.9
    assert fit.log_weights is not None
    assert fit.elbo_error == pytest.approx(fit.log_weights.std() / np.sqrt(1024), rel=0.15)
    assert fit.elbo == pytest.approx(fit.log_weights.mean(), abs=4 * fit.elbo_error)
    assert not np.array_equal(fit.resample(10, seed=2)["z"], draws[:10])
