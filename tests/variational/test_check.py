"""A check stays where the fit is the posterior, at its stated level, and drifts where it is not; programs on disk."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.simulation.devices import MONTH, programs_on_disk
from gladstorm.variational import MeanField, fit_logdensity
from gladstorm.variational.check import CHAINS, ChainCheck, check
from gladstorm.variational.gaussians import Diagonal, Triangular
from gladstorm.variational.programs import Traced, program
from targets import correlated, gaussian


def checked(q: Any, logp: Any, seed: int = 0) -> ChainCheck:
    density = Traced(lambda z, _: logp(z), np.zeros(len(q.loc), np.float32), np.zeros(2, np.uint32))
    return check(q, density, lambda rows: {"z": rows}, seed)


def standard(dim: int) -> Diagonal:
    return Diagonal(np.zeros(dim, np.float32), np.ones(dim, np.float32))


def test_chains_end_at_the_density_whatever_they_began_at() -> None:
    """From N(0, I) to N(1, ¼) in the first coordinate: one deviation away, half as wide."""
    result = checked(standard(3), lambda z: -0.5 * jnp.sum(((z - jnp.eye(3)[0]) * jnp.array([2.0, 1, 1])) ** 2))
    assert result.shift["z"] == pytest.approx([1, 0, 0], abs=4 / np.sqrt(CHAINS))
    assert result.spread["z"] == pytest.approx([0.5, 1, 1], rel=4 / np.sqrt(2 * CHAINS))
    assert 0.6 < result.acceptance < 0.95
    assert not result.steady
    assert "drifts away: after 25 transitions of HMC from 128 draws, the mean of z[0] is +" in repr(result)


def test_a_density_that_is_not_normal_is_left_as_it_is() -> None:
    """Logarithms of Gamma(3, 1) have mean ψ(3) = .9228 and variance ψ′(3) = .3949."""
    q = Diagonal(np.full(2, 0.9228, np.float32), np.full(2, np.sqrt(0.3949), np.float32))
    assert checked(q, lambda z: jnp.sum(3 * z - jnp.exp(z))).steady


def test_a_fit_that_is_the_posterior_is_doubted_in_at_most_one_of_a_hundred() -> None:
    mean, covariance = correlated(10, 100.0)
    q = Triangular(mean.astype(np.float32), np.linalg.cholesky(covariance).astype(np.float32))
    assert sum(not checked(q, gaussian(mean, covariance), seed).steady for seed in range(60)) <= 2


@pytest.mark.parametrize(
    ("loc", "scale"), [(0.6, 1.0), (-1.0, 1.0), (0.0, 0.6), (0.0, 1.8)], ids=["mean", "mean below", "narrow", "wide"]
)
def test_a_wrong_mean_or_deviation_is_seen(loc: float, scale: float) -> None:
    q = standard(5)._replace(
        loc=np.array([0, 0, loc, 0, 0], np.float32), scale=np.array([1, 1, scale, 1, 1], np.float32)
    )
    for seed in range(5):
        result = checked(q, lambda z: -0.5 * jnp.sum(z**2), seed)
        assert not result.steady
        assert "z[2]" in result.words


def test_a_check_of_a_fit_names_its_sites_and_says_when_it_cannot_tell() -> None:
    precision = jnp.asarray(np.linalg.inv([[1.0, 0.9], [0.9, 1.0]]))
    fit = fit_logdensity(lambda z: -0.5 * z @ precision @ z, 2, steps=1000, starts=1, family=MeanField(),
                         names=["a", "b"], progress=False)  # fmt: skip
    result = fit.check()
    assert not result.steady
    assert min(result.spread["a"], result.spread["b"]) > 1.5
    assert np.array_equal(fit.check(seed=0).shift["a"], result.shift["a"])
    assert not np.array_equal(fit.check(seed=1).shift["a"], result.shift["a"])
    stuck = checked(standard(2), lambda z: jnp.sum(z) * jnp.nan)
    assert "The chains did not move" in stuck.words
    assert not stuck.steady


# Programs on disk


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """JAX as users have it, without the cache of these tests, and an empty cache folder."""
    before = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("gladstorm.simulation.devices.LEAST", 0.0)
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


def fitted() -> None:
    program.cache_clear()
    jax.clear_caches()
    fit_logdensity(lambda z: -jnp.sum(jnp.cosh(z)), 3, steps=40, starts=2, family=MeanField(), progress=False)


def test_a_later_process_finds_all_programs_and_jax_is_left_as_it_was(no_cache: Path) -> None:
    events: list[str] = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
    try:
        least = jax.config.jax_persistent_cache_min_compile_time_secs  # type: ignore[attr-defined]
        fitted()
        (folder,) = (no_cache / "gladstorm").iterdir()
        assert folder.stat().st_mode & 0o077 == 0
        files = len(list(folder.iterdir()))
        assert files > 3
        assert "/jax/compilation_cache/cache_hits" not in events
        events.clear()
        fitted()  # this process has forgotten its programs
        asked = events.count("/jax/compilation_cache/compile_requests_use_cache")
        assert events.count("/jax/compilation_cache/cache_hits") == asked >= files
        jax.jit(lambda x: x * 7.1)(1.0)
        assert len(list(folder.iterdir())) == files  # other programs of the process are not kept
        assert jax.config.jax_compilation_cache_dir is None  # type: ignore[attr-defined]
        assert jax.config.jax_persistent_cache_min_compile_time_secs == least  # type: ignore[attr-defined]
    finally:
        jax.monitoring.clear_event_listeners()


def test_a_folder_that_others_may_write_to_or_a_cache_of_the_user_s_is_not_ours(no_cache: Path) -> None:
    fitted()
    (folder,) = (no_cache / "gladstorm").iterdir()
    old = folder / "old"
    old.write_bytes(b"")
    os.utime(old, (time.time() - 2 * MONTH,) * 2)
    with programs_on_disk():
        assert jax.config.jax_compilation_cache_dir == str(folder)  # type: ignore[attr-defined]
        assert not old.exists()
    folder.chmod(0o777)
    with programs_on_disk():
        assert jax.config.jax_compilation_cache_dir is None  # type: ignore[attr-defined]
    folder.chmod(0o700)
    jax.config.update("jax_compilation_cache_dir", str(no_cache / "theirs"))
    with programs_on_disk():
        assert jax.config.jax_compilation_cache_dir == str(no_cache / "theirs")  # type: ignore[attr-defined]
