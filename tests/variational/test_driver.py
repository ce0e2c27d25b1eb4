"""What decides a fit's numbers and what does not: draws, chunks, blocks, stores, and programs that fits share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.jobs.tasks import Store
from gladstorm.variational import Fit, FullRank, MeanField, fit_logdensity, programs
from gladstorm.variational.conclusion import updates
from gladstorm.variational.driver import ALIKE, _grouped, gaussian_target, optimize, promising
from gladstorm.variational.gaussians import Diagonal, FullRankUpdate, MeanFieldUpdate, NewtonUpdate
from gladstorm.variational.low_rank import LowRankUpdate
from gladstorm.variational.programs import Draw, Traced, advance, look_draws, program, sample_noise, step_draws

SCALES = np.array([1.0, 100.0])


def density_at(center: float, scales: Any = SCALES) -> Any:
    values = jnp.asarray(scales)
    return lambda z: -0.5 * jnp.sum(((z - center) / values) ** 2)


def short(logp: Any = None, **settings: Any) -> Fit:
    given: dict[str, Any] = {"steps": 200, "starts": 2, "family": MeanField(), "progress": False} | settings
    return fit_logdensity(logp or density_at(5.0), 2, **given)


def traced(logp: Any = None) -> Traced:
    density = logp or density_at(5.0)
    return Traced(lambda z, _: density(z), np.zeros(2, np.float32), np.zeros(2, np.uint32))


def same(one: Fit, other: Fit) -> bool:
    return one.elbo == other.elbo and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("location", "scale_tril", "curve", "elbos")
    )


# Stores


def test_a_fit_that_was_interrupted_resumes_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = short()
    computed: list[Any] = []
    keep = Store.keep

    def counted(self: Any, *given: Any) -> None:
        if len(computed) == 5 and not resuming:
            raise KeyboardInterrupt
        computed.append(given)
        keep(self, *given)

    resuming = False
    monkeypatch.setattr(Store, "keep", counted)
    with pytest.raises(KeyboardInterrupt):
        short(store=tmp_path)
    resuming = True
    resumed = short(store=tmp_path)
    assert len(computed) == len(fit.steps)  # no block is computed twice
    again = short(store=tmp_path)
    assert len(computed) == len(fit.steps)
    assert same(resumed, fit)
    assert same(again, fit)


@pytest.mark.parametrize(
    "change", [{"logp": density_at(6.0)}, {"seed": 1}, {"steps": 201}, {"family": FullRank()}, {"start": np.ones(2)}]
)
def test_a_store_never_gives_the_blocks_of_another_fit(change: dict[str, Any], tmp_path: Path) -> None:
    first = short(store=tmp_path)
    other = short(store=tmp_path, **change)
    assert same(other, short(**change))
    assert not np.array_equal(other.location, first.location)


def test_a_damaged_block_is_computed_again(tmp_path: Path) -> None:
    fit = short(store=tmp_path)
    files = sorted(tmp_path.glob("**/*.parquet"))
    assert len(files) == len(fit.steps)
    files[3].write_bytes(files[4].read_bytes())  # whole, and another block's
    content = files[7].read_bytes()
    files[7].write_bytes(content[:300] + bytes([content[300] ^ 1]) + content[301:])
    assert same(short(store=tmp_path), fit)


# Draws


@pytest.mark.parametrize("starts", [1, 3])
def test_a_step_has_the_draws_of_its_number_however_many_are_drawn_together(
    starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    center = jnp.array([1.0, -1.0])
    noisy = lambda z, key: density_at(0.0)(z) + jax.random.normal(jax.random.wrap_key_data(key)) * z @ center  # noqa: E731
    density = Traced(noisy, np.zeros(2, np.float32), np.zeros(2, np.uint32))
    update, key = MeanFieldUpdate(), np.array([7, 1], np.uint32)
    begin = Diagonal(jnp.arange(2.0 * starts).reshape(starts, 2), jnp.ones((starts, 2)))
    states = jax.vmap(update.begin, (0, None))(begin, jax.random.key(0))
    ends = []
    for together in (programs.CHUNK, 4):
        monkeypatch.setattr(programs, "CHUNK", together)
        ends.append(advance(density, update, starts, states, None, key, 5, 10, 20))
    keys = jax.random.split(jax.random.wrap_key_data(jnp.asarray(key)), starts)
    step = jax.jit(partial(update.step, noisy))
    for start, start_key in enumerate(keys):
        state = jax.tree.map(lambda leaf, at=start: leaf[at], states)
        gains = []
        for k in range(5, 15):
            noise_key, data_key = jax.random.split(jax.random.fold_in(start_key, k))
            draw = Draw(jax.random.normal(noise_key, (2,)), jax.random.key_data(data_key))
            state, gain = step(state, draw, 20.0)
            gains.append(gain)
        by_hand = [*jax.tree.leaves(state), *(sum(each) for each in zip(*gains, strict=True))]
        for leaves in ends:
            for leaf, expected in zip(leaves, by_hand, strict=True):
                np.testing.assert_allclose(leaf[start], expected, rtol=2e-4, atol=1e-6)


def test_draws_of_steps_and_looks_are_normal_and_independent() -> None:
    key = np.array([0, 3], np.uint32)
    noise, keys = map(np.asarray, step_draws(500, 3, 4, key, 0))
    assert noise.shape == (500, 3, 4)
    assert np.abs(np.corrcoef(noise.reshape(500, 12).T) - np.eye(12)).max() < 0.25
    assert noise.mean() == pytest.approx(0, abs=0.06)
    assert noise.std() == pytest.approx(1, abs=0.05)
    assert len(np.unique(keys.reshape(-1, 2), axis=0)) == 1500
    assert not np.isin(np.asarray(look_draws(4, key)[0]), noise).any()
    later, _ = step_draws(10, 3, 4, key, 490)
    np.testing.assert_array_equal(later, noise[490:])


def test_the_first_draws_of_a_seed_do_not_depend_on_how_many_there_are() -> None:
    fit = short()
    many = fit.sample(700, seed=3)["z"]
    assert many.shape == (700, 2)
    np.testing.assert_array_equal(fit.sample(10, seed=3)["z"], many[:10])
    assert not np.array_equal(fit.sample(10, seed=4)["z"], many[:10])
    assert len(np.unique(sample_noise(700, 0, 2)[0])) == 1400


def test_the_same_seed_gives_the_same_bits_and_every_start_its_own_draws() -> None:
    assert same(short(seed=2), short(seed=2))
    together = short(start=np.zeros(2), starts=3)
    assert len(set(together.curve[:, -1].tolist())) == 3


# Programs


class Compiled:
    """Names of the programs that JAX compiles inside a with-block."""

    def __enter__(self) -> list[str]:
        self.names: list[str] = []
        jax.monitoring.register_event_duration_secs_listener(self._hear)
        return self.names

    def _hear(self, event: str, duration_secs: float, **about: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            self.names.append(str(about))

    def __exit__(self, *_: object) -> None:
        jax.monitoring.unregister_event_duration_listener(self._hear)


@pytest.mark.parametrize("family", [MeanField(), FullRank()])
def test_a_second_fit_of_one_structure_compiles_nothing_whatever_its_data_and_length(family: Any) -> None:
    short(density_at(1.0, [3.0, 4.0]), family=family, steps=300).sample(10)
    with Compiled() as names:
        fit = short(density_at(1.0, [30.0, 0.5]), family=family, steps=5000, seed=3)
        draws = fit.sample(10)["z"]
    assert names == []
    assert np.diagonal(fit.scale_tril) == pytest.approx([30.0, 0.5], rel=0.01)
    assert draws.shape == (10, 2)
    with Compiled() as names:
        short(lambda z: -jnp.sum(jnp.cosh(z)), family=family)
    assert names  # another structure


@pytest.mark.parametrize(
    "update", [MeanFieldUpdate(), LowRankUpdate(rank=1), FullRankUpdate(), NewtonUpdate(full=True)]
)
def test_an_update_is_compiled_once_in_a_run(update: Any) -> None:
    """A number of a weak type in the first state had each mean field compiled twice."""
    density, q = traced(lambda z: -0.5 * jnp.sum(z**2)), Diagonal(*np.ones((2, 3, 2), np.float32))
    optimize(gaussian_target(density), [(update, 40)], q, 0, progress=False)
    assert program(programs._chunk, update, density.structure, 3)._cache_size() == 1  # type: ignore[attr-defined]


# Candidates


@pytest.mark.parametrize(
    ("elbos", "on"),
    [
        ([-9.0, -90.0, -8.0, -91.0], [0, 2]),
        ([-9.0, -8.5, -8.0, -7.0], [0, 3]),  # alike: the best, and the others in order
        ([-9.0, -7.0 - 2 * ALIKE, -7.0, -8.0 - ALIKE], [0, 2]),
        ([np.nan, -9.0, -np.inf, -90.0], [1, 3]),
        ([np.nan, np.nan, -np.inf, np.inf], [0, 1]),
    ],
)
def test_the_best_candidates_go_on_and_of_those_alike_any(elbos: Any, on: Any) -> None:
    weights = np.array(elbos)[:, None] + np.array([-1.0, 1.0])
    assert promising(weights, 2).tolist() == on


def test_groups_of_candidates_have_keys_of_their_own_and_the_first_that_of_the_update() -> None:
    key = np.array([7, 2], np.uint32)
    rows, keys = _grouped(lambda key, x: (x, np.tile(key, (len(x), 1))), 2, key, np.arange(6.0))
    assert rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert (keys[:2] == key).all()
    assert len(np.unique(keys, axis=0)) == 3


def test_starts_are_the_best_of_four_times_as_many_unless_they_are_given() -> None:
    def logp(z: Any) -> Any:  # every second candidate begins in the basin that is 20 nats worse
        return jnp.logaddexp(20 - 8 * (z[0] - 1.5) ** 2, -8 * (z[0] + 1.5) ** 2) - 0.5 * z[1] ** 2

    fit, one = short(logp, starts=4, steps=400), short(logp, starts=1, steps=400)
    assert np.ptp(fit.elbos) < 0.05
    assert one.location == pytest.approx([1.5, 0], abs=0.05)
    given = short(logp, start=np.array([[1.5, 0.0], [-1.5, 0.0]]))
    assert given.elbos[0] - given.elbos[1] == pytest.approx(20, abs=0.1)


def test_what_a_function_reads_from_outside_is_never_stale() -> None:
    center = [2.0, np.array([1.0, 1.0])]

    def logp(z: Any) -> Any:
        return -0.5 * jnp.sum((z - center[0] - center[1]) ** 2)

    locations = []
    for center[0], center[1] in ((2.0, np.ones(2)), (-7.0, np.ones(2)), (-7.0, np.zeros(2))):
        locations.append(short(logp, steps=1000).location.mean())
    assert locations == pytest.approx([3.0, -6.0, -7.0], abs=0.1)


def test_functions_with_the_same_value_and_other_derivatives_share_nothing() -> None:
    def with_factor(factor: float) -> Any:
        @jax.custom_jvp
        def square(z: Any) -> Any:
            return jnp.sum(z**2)

        square.defjvp(lambda primals, tangents: (square(*primals), factor * jnp.sum(primals[0] * tangents[0])))
        return square

    example = np.zeros(3, np.float32)
    one, other = (Traced(with_factor(factor), example) for factor in (2.0, 3.0))
    assert one.structure != other.structure
    assert one.structure == Traced(with_factor(2.0), example).structure


def test_functions_that_close_over_arrays_without_use_share_nothing_with_those_that_do_not() -> None:
    """Text of XLA leaves out what is not used, and the program of one would get the arrays of the other."""
    unused, example = jnp.arange(4.0), np.ones(3, np.float32)
    for function in (lambda z: z * 2, lambda z: (jnp.sin(unused), z * 2)[1], lambda z: z * 2):
        np.testing.assert_array_equal(Traced(function, example).over(example[None]), [[2, 2, 2]])


def test_a_traced_function_is_evaluated_at_any_number_of_rows() -> None:
    weights = jnp.arange(3.0)
    function = Traced(lambda z, w: {"a": z @ weights, "b": w + z[0]}, np.zeros(3, np.float32), 0.0)
    z, w = np.random.default_rng(0).normal(size=(130, 3)).astype(np.float32), np.arange(130, dtype=np.float32)
    results = function.over(z, w)
    np.testing.assert_allclose(results["a"], z @ np.arange(3.0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results["b"], w + z[:, 0], rtol=1e-5)
    assert Traced(lambda z: z @ weights, z[0]).identity != Traced(lambda z: z @ (weights + 1), z[0]).identity
    number = Traced(lambda z: jnp.sqrt(z[0]) + z[1], z[0])
    at = np.array([[1.0, 0, 0], [0.0, 0, 0], [-1.0, 0, 0], [4.0, np.inf, 0]], np.float32)
    assert number.is_finite(at).tolist() == [True, False, False, False]  # at 0 the value is finite and its slope not


def test_programs_that_nobody_uses_are_dropped() -> None:
    assert program.cache_info().maxsize == 64


# Starts


def test_a_start_is_judged_at_draws_of_its_own_and_the_best_one_is_chosen() -> None:
    begin = Diagonal(np.array([[0.0, 0.0], [50.0, 50.0]], np.float32), np.full((2, 2), 0.1, np.float32))
    target = gaussian_target(traced(density_at(0.0, [1.0, 1.0])))
    starts = optimize(target, updates(MeanField(), 2, 20), begin, 0, progress=False)
    assert starts.best == 0
    assert starts.elbos.shape == (2, 1)
    weights = starts.compare(starts.member(0), 16)
    assert weights.shape == (1024,)
    q, draws = starts.member(0), starts.draws(starts.member(0), 16)
    by_hand = -0.5 * np.sum(q.place(draws.noise) ** 2, axis=1) - q.log_density_at(draws.noise)
    np.testing.assert_allclose(weights, by_hand, rtol=1e-4, atol=1e-4)


def test_a_run_that_is_not_stopped_counts_all_its_gradients() -> None:
    fit = fit_logdensity(lambda z: -jnp.sum(jnp.abs(z)), 2, steps=90, starts=3, family=MeanField(), progress=False)
    assert fit.gradients == 90 * 3 + 12 * 9  # nine more candidates took three blocks of four steps
    assert fit.steps[-1] == 90
    assert (np.diff(fit.steps) == fit.steps[0]).sum() >= len(fit.steps) - 2
    assert fit.curve.shape == fit.noise.shape == (3, len(fit.steps))
    assert fit.skipped.tolist() == [0, 0, 0]
