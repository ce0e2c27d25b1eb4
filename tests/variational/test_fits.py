"""What a fit says about itself, keeps and repeats."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.jobs import interrupts
from gladstorm.jobs.store import Store
from gladstorm.methods.steps import per_coordinate
from gladstorm.variational import Fit, FullRank, MeanField, fit_logdensity, run
from gladstorm.variational.families import largest_family
from gladstorm.variational.gaussians import Diagonal, Factored, Triangular
from gladstorm.variational.judgement import judge, wider
from gladstorm.variational.psis import khat, khat_in_words
from gladstorm.variational.run import Block, Looks, Outcome
from gladstorm.variational.stages import MeanFieldStage

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


def test_a_fit_that_was_interrupted_resumes_to_the_same_bits(
    fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[Any] = []
    keep, calls = Store.keep, iter([None] * 5)

    def interrupted() -> None:
        if next(calls, "over"):
            raise KeyboardInterrupt

    def counted(self: Any, *given: Any) -> None:
        computed.append(given)
        keep(self, *given)

    monkeypatch.setattr(Store, "keep", counted)
    with monkeypatch.context() as patch:
        patch.setattr(interrupts, "check", interrupted)
        with pytest.raises(KeyboardInterrupt):
            short(store=tmp_path)
    begun = len(computed)
    resumed = short(store=tmp_path)
    blocks = len(computed)
    again = short(store=tmp_path)
    assert (begun, blocks, len(computed)) == (5, len(fit.steps), len(fit.steps))  # no block is computed twice
    for other in (resumed, again):
        assert other.elbo == fit.elbo
        for name in ("location", "scale_tril", "curve", "elbos"):
            assert np.array_equal(getattr(other, name), getattr(fit, name))
    assert not np.array_equal(short(seed=1).location, fit.location)


def test_a_saved_fit_is_the_same_when_it_is_loaded(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.parquet")
    loaded = Fit.load(tmp_path / "fit.parquet")
    assert repr(loaded) == repr(fit)
    assert str(loaded.summary()) == str(fit.summary())
    assert np.array_equal(loaded.sample(300)["b"], fit.sample(300)["b"])
    assert (loaded.config, loaded.warnings, loaded.gradients) == (fit.config, fit.warnings, fit.gradients)
    assert np.array_equal(loaded.scale_tril, fit.scale_tril)
    with pytest.raises(ValueError, match=r"sample: n must be at most 4000 and seed 0 .* got n=5000, seed=0"):
        loaded.sample(5000)
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


def test_arviz_is_named_where_it_is_missing(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "arviz", None)
    with pytest.raises(ImportError, match="pip install arviz"):
        fit.to_arviz()


def test_a_budget_that_is_too_short_is_a_warning() -> None:
    hard = fit_logdensity(
        lambda z: -0.5 * jnp.sum((z / 1e4) ** 2) - 0.5e-3 * z[0] ** 2, 30, steps=200, starts=2, progress=False,
        family=MeanField(), start=np.full(30, 3e4),
    )  # fmt: skip
    assert not hard.converged
    assert "The budget was too short" in hard.warnings[0]


def outcome(**changes: Any) -> Outcome:
    given = {
        "elbos": np.array([[-9.0, -9.0], [-9.5, -9.4]]),
        "gaps": np.zeros((2, 2)),
        "skipped": np.zeros(4, int),
        "steps": np.array([100]),
        "best": 0,
    }
    return SimpleNamespace(**given | changes)  # type: ignore[return-value]  # what a judgement reads of one


def _ended(*elbos: float) -> np.ndarray:
    return np.stack([np.array(elbos)] * 2, axis=1)


@pytest.mark.parametrize(
    ("changes", "weight", "words"),
    [
        ({}, -9.0, None),
        ({"elbos": np.array([[-9.4, -9.0], [-9.4, -9.4]])}, -9.0, "by about 0.4 nats"),
        ({"gaps": np.array([[0.0, 2.0], [0.0, 0.0]])}, -9.0, "by about 2 nats"),
        ({"elbos": np.array([[-9.0, -9.0], [-9.0, -11.0]])}, -9.0, "Too few starts came near the best one: 0 of 1"),
        ({"elbos": _ended(-9.0, -9.4, -30.0, -30.0)}, -9.0, "Too few starts came near the best one: 1 of 3"),
        ({"elbos": _ended(-9.0, -9.05, -30.0, -30.0)}, -9.0, None),  # two at the same optimum
        ({"elbos": _ended(-9.0, -9.4, -9.8, -30.0)}, -9.0, None),
        ({"skipped": np.array([3, 0])}, -9.0, "3 % of the gradients were not finite"),
        ({"skipped": np.array([0, 30])}, -9.0, None),  # another start's
        ({}, -np.inf, "not finite at some draws"),
        ({}, -1e7, "switch to double precision"),
    ],
)
def test_a_fit_is_doubted_for_a_reason(changes: Any, weight: float, words: str | None) -> None:
    said = judge(outcome(**changes), np.array([-9.0, weight]), 1e-7)
    assert [sentence for sentence in said if words is None or words not in sentence] == []
    assert len(said) == (words is not None)


def test_a_look_stops_where_little_is_left_and_not_before() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(1, 64))
    for c, stops in ((0.05, True), (50.0, False)):  # c/k nats below the limit: at most 10⁻⁴ left, or 0.1
        looks = Looks(1000)
        answers = [looks.nothing_left(k, base - c / k) for k in range(50, 1000, 50)]
        assert any(answers) == stops
        assert looks.gap == pytest.approx(c / 950, rel=1e-6)
    noisy = Looks(1000)
    assert not any(noisy.nothing_left(k, rng.normal(size=(1, 64))) for k in range(50, 1000, 50))


@pytest.mark.parametrize("starts", [1, 3])
def test_a_step_has_the_draws_of_its_number_however_many_are_drawn_together(
    starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "DRAWN", 4 * starts * 3)  # ε and a key: four steps at once, and two that are left
    stage = MeanFieldStage(20, lambda z, key: log_density(z) + jax.random.normal(key) * z[0])
    begin = Diagonal(jnp.arange(2.0 * starts).reshape(starts, 2), jnp.ones((starts, 2)))
    states = jax.vmap(stage.begin, (0, None))(begin, jax.random.key(0))
    found, elbo, noise = jax.jit(Block(stage, 10, starts))(states, np.array([7, 1], np.uint32), np.int32(5))
    keys = jax.random.split(jax.random.wrap_key_data(jnp.array([7, 1], jnp.uint32)), starts)
    for start, key in enumerate(keys):
        state = jax.tree.map(lambda leaf, at=start: leaf[at], states)
        gains = []
        for k in range(5, 15):
            state, gain = stage.advance(state, stage.draw(state, jax.random.fold_in(key, k)))
            gains.append(gain)
        np.testing.assert_allclose(found.x[start], state.x, rtol=1e-4)
        np.testing.assert_allclose(found.journey.average[start], state.journey.average, rtol=1e-4)
        assert float(elbo[start]) == pytest.approx(np.mean([gain.elbo for gain in gains]), rel=1e-4)
        assert float(noise[start]) == pytest.approx(np.mean([gain.noise for gain in gains]), rel=1e-4)


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


@pytest.mark.parametrize("of", [Diagonal, Triangular, Factored])
def test_densities_are_those_of_the_draws(of: Any) -> None:
    rng = np.random.default_rng(1)
    tril = np.tril(rng.normal(size=(3, 3)), -1) + np.diag([0.5, 1.0, 2.0])
    shapes = {
        Diagonal: (np.array([0.5, 1.0, 2.0]),),
        Triangular: (tril,),
        Factored: (np.ones(3), rng.normal(size=(3, 2))),
    }
    q = of(jnp.arange(3.0), *map(jnp.asarray, shapes[of]))
    size = q.noise(jax.random.key(0)).size
    matrix = np.stack([q.place(jnp.eye(size)[i]) - q.place(jnp.zeros(size)) for i in range(size)], axis=1)
    covariance = np.asarray(matrix @ matrix.T, float)
    assert q.scale_tril() @ q.scale_tril().T == pytest.approx(covariance, abs=1e-5)
    z = np.array([0.3, -1.0, 2.0])
    off = z - np.arange(3)
    expected = -0.5 * (off @ np.linalg.solve(covariance, off) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert float(q.log_density(jnp.asarray(z))) == pytest.approx(expected, rel=1e-4)


def test_khat_is_the_shape_of_the_tail_and_a_sentence_says_what_it_means() -> None:
    rng = np.random.default_rng(2)
    for shape in (0.3, 1.0):
        estimates = [khat(np.log(rng.pareto(1 / shape, 2000) + 1)) for _ in range(20)]
        assert np.mean(estimates) == pytest.approx(shape, abs=0.08)
    assert khat(np.concatenate([[100.0], np.zeros(999)])) == np.inf
    assert khat(np.zeros(1000)) == 0
    assert "close to the posterior" in khat_in_words(0.2)
    assert "probably too small" in khat_in_words(0.9)
    assert "subsampled" in khat_in_words(None)


def test_the_family_grows_with_the_budget() -> None:
    assert largest_family(1, 10_000) == MeanField()
    assert largest_family(69, 10_000) == FullRank() != largest_family(70, 10_000)


def test_what_cannot_be_fitted_is_refused_in_a_sentence() -> None:
    for settings, words in (
        ({"steps": 0}, "steps must be a whole number ≥ 1"),
        ({"names": ["a"]}, "names must be one for each of the 2 coordinates; got 1"),
        ({"transform": lambda z: {"z": z}}, "names must be left out where transform is given"),
        ({"start": np.zeros(3)}, r"start must have shape \(2,\) or \(2, 2\); got \(3,\)"),
        ({"start": np.full(2, np.nan)}, "must be finite where the run begins"),
    ):
        with pytest.raises(ValueError, match=words):
            short(**settings)
    with pytest.raises(
        TypeError, match=r"family must be MeanField\(\), FullRank\(\), LowRank\(rank\) or None; got 'normal'"
    ):
        short(family="normal")


def test_a_fit_that_is_nowhere_finite_is_doubted_in_sentences_alone() -> None:
    nothing, steps = np.full((2, 3), -np.inf), np.array([10])
    outcome = Outcome(
        (),
        nothing,
        np.zeros((2, 3)),
        nothing,
        nothing,
        steps,
        np.array([7, 7]),
        0,
        lambda *_: jnp.zeros(()),
        lambda *_: nothing,
    )
    said = " ".join(judge(outcome, np.array([np.nan]), 1e-16))
    assert "not finite at some draws" in said
    assert "70 % of the gradients were not finite" in said


NO_INTEGRAL: dict[str, Any] = {
    "flat": lambda z: -0.5 * z[0] ** 2,
    "flat along a diagonal": lambda z: -0.5 * (z[0] + z[1]) ** 2,
    "flat on one side": lambda z: -0.5 * z[0] ** 2 + jax.nn.log_sigmoid(z[1]),
    "growing": lambda z: -0.5 * z[0] ** 2 + z[1],
}


@pytest.mark.parametrize("family", [MeanField(), FullRank()], ids=["mean field", "full rank"])
@pytest.mark.parametrize("name", NO_INTEGRAL)
def test_a_density_without_an_integral_is_doubted_even_after_few_steps(name: str, family: Any) -> None:
    fit = fit_logdensity(NO_INTEGRAL[name], 2, steps=300, starts=1, family=family, progress=False)
    bounded = name == "flat along a diagonal" and family == MeanField()  # a mean field cannot become wide along it
    assert fit.converged == bounded


def test_a_gaussian_gains_by_widening_what_it_lacks_in_width() -> None:
    """q = N(0, s²) for a density N(0, 1), three times as wide: log 3 − 4s² nats."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(4096, 2))
    for tril, gain in ((np.diag([1.0, 0.1]), np.log(3) - 0.04), (np.eye(2), np.log(3) - 4.0)):
        z = noise @ tril.T
        weights = -0.5 * np.sum(z**2, axis=1) + 0.5 * np.sum(noise**2, axis=1)
        for q in (Triangular(jnp.zeros(2), jnp.asarray(tril)), Diagonal(jnp.zeros(2), jnp.diagonal(tril))):
            found = wider(weights, z, q, lambda z: -0.5 * np.sum(z**2, axis=1))
            assert found == pytest.approx(gain, abs=0.3)
            assert found <= gain + 0.05  # a lower bound
