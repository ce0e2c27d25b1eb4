"""`run` and `sweep`: a run does not depend on what runs beside it or how it is recorded, and no number recompiles."""

import dataclasses
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import evidence
import gladstorm
from gladstorm import BlumGladyshev, Method, Oracle, nsgdm, nstorm, run, sgd, storm, sweep
from gladstorm.core.parts import part
from gladstorm.jobs import interrupts
from gladstorm.methods.averages import TailAverage
from gladstorm.methods.batches import GrowWithDistance
from gladstorm.problems import objectives
from gladstorm.simulation import engine, layout, runs
from gladstorm.simulation.one_run import CURVES
from gladstorm.simulation.runs import record_times
from gladstorm.simulation.simulate import Interrupted
from unrolled import noise


def oracle(B: float = 0.5, G: float = 1.0, dim: int = 3) -> BlumGladyshev:
    return BlumGladyshev(objectives.named("cauchy", dim=dim, start=1.0), B, G)


def same(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(a.grad_norm, b.grad_norm)
    np.testing.assert_array_equal(a.last, b.last)


def test_the_cubic_without_noise_is_the_closed_form() -> None:
    cubic = BlumGladyshev(objectives.named("power:3", start=5.0), 0.0, 0.0)
    record = run(cubic, nsgdm(gamma=0.001, eta=1.0), steps=1000)
    x = 5 - 0.001 * record.steps
    np.testing.assert_allclose(record.grad_norm[0, 0], 3 * x**2, rtol=1e-12)
    np.testing.assert_allclose(record.value[0, 0], x**3, rtol=1e-12)
    np.testing.assert_allclose(
        record.mean_grad_norm[0, 0, -1], np.mean(3 * (5 - 0.001 * np.arange(1001)) ** 2), rtol=1e-12
    )


def test_thinning_changes_what_is_shown_and_nothing_else() -> None:
    fine, coarse = (run(oracle(), nstorm(0.01, 0.1), steps=3000, seeds=2, records=records) for records in (1500, 7))
    assert fine.steps.size == 3001
    assert coarse.steps.size < 16
    np.testing.assert_array_equal(coarse.last, fine.last)
    np.testing.assert_array_equal(coarse.sampled, fine.sampled)
    for name in ("grad_norm", "value", "sfo", "mean_grad_norm", "mean_error", "best_grad_norm"):
        np.testing.assert_array_equal(getattr(coarse, name), getattr(fine, name)[..., coarse.steps])
    np.testing.assert_allclose(coarse.mean_grad_norm[..., -1], fine.grad_norm.mean(axis=-1), rtol=1e-12)
    upto = np.arange(1, fine.steps.size + 1)
    for name in ("grad_norm", "error"):
        mean = np.cumsum(getattr(fine, name), axis=-1) / upto
        np.testing.assert_allclose(getattr(fine, f"mean_{name}"), mean, rtol=1e-10, err_msg=name)
    np.testing.assert_array_equal(fine.max_batch, np.maximum.accumulate(fine.batch, axis=-1))
    np.testing.assert_array_equal(coarse.best_grad_norm[..., -1], fine.grad_norm.min(axis=-1))


def noise_of(record_of: Any, seed: int) -> np.ndarray:
    """The noise a run of this seed sees: with Fresh estimates and B = 0, v − ∇f is G u."""
    record = record_of()
    row = record.seeds.tolist().index(seed)
    noise: np.ndarray = record.error[record.labels.index("probe"), row]
    return noise


def test_a_run_s_noise_does_not_depend_on_what_else_is_in_the_sweep() -> None:
    probe = sgd(0.01)
    source = oracle(B=0.0)
    sweeps: list[Any] = [
        lambda: sweep(source, {"probe": probe}, steps=100, seeds=[5]),
        lambda: sweep(source, {"probe": probe}, steps=100, seeds=[9, 5, 1]),
        lambda: sweep(
            source, {"other": sgd([0.1, 0.2]), "probe": probe, "NSTORM": nstorm(0.1, 0.1)}, steps=100, seeds=[5]
        ),
        lambda: sweep(source, {"probe": sgd(0.5)}, steps=100, seeds=range(6)),
    ]
    first, *others = (noise_of(each, 5) for each in sweeps)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-12)
    assert not np.allclose(noise_of(lambda: sweep(source, {"probe": probe}, steps=100, seeds=[6]), 6), first)


def test_neighbouring_seeds_and_steps_have_independent_standard_normal_noise() -> None:
    draws = np.array([[noise(seed, step, dim=2) for step in range(60)] for seed in range(60)])
    assert stats.kstest(draws.ravel(), "norm").pvalue > 1e-6
    for one, other in [(draws[1:], draws[:-1]), (draws[:, 1:], draws[:, :-1]), (draws[..., 1:], draws[..., :-1])]:
        correlation = np.corrcoef(one.ravel(), other.ravel())[0, 1]
        assert abs(correlation) < stats.norm.isf(0.5e-6) / np.sqrt(one.size)


def test_a_sweep_is_a_stack_of_runs() -> None:
    gammas, etas = [0.01, 0.02, 0.04], [0.5, 0.1, 0.9]
    together = sweep(oracle(), {"NSGDM": nsgdm(gammas, etas), "SGD": sgd(0.01)}, steps=120, seeds=[2, 7])
    assert together.labels[0] == "NSGDM (eta=0.5, gamma=0.01)"
    assert together.labels[3] == "SGD"
    for row, (gamma, eta) in enumerate(zip(gammas, etas, strict=True)):
        alone = run(oracle(), nsgdm(gamma, eta), steps=120, seeds=[2, 7])
        np.testing.assert_allclose(together.grad_norm[row], alone.grad_norm[0], rtol=1e-12)


def test_each_seed_may_have_its_own_instance() -> None:
    instances = [BlumGladyshev(objectives.PhaseRetrieval.from_seed(seed, 40, dim=3), 0.5, 1.0) for seed in range(3)]
    together = sweep(instances, {"NSTORM": nstorm([0.01, 0.02], 0.1)}, steps=60, seeds=[4, 5, 6])
    for row, instance in enumerate(instances):
        alone = sweep(instance, {"NSTORM": nstorm([0.01, 0.02], 0.1)}, steps=60, seeds=[4 + row])
        np.testing.assert_allclose(together.grad_norm[:, row], alone.grad_norm[:, 0], rtol=1e-9)
    assert len(together.config["oracle"]) == 3


def test_no_number_retraces_anything() -> None:
    traces = 0

    def counted(x: Any) -> Any:
        nonlocal traces
        traces += 1
        return jnp.sum(jnp.log1p(x * x))

    objective = objectives.from_function(counted, start=np.ones(3))

    def go(gamma: float = 0.1, eta: float = 0.1, n_init: int = 1, B: float = 1.0, G: float = 1.0, **rest: Any) -> None:
        rule = GrowWithDistance(rest.get("B", B), G, rest.get("sigma2", 1.0), rest.get("cap", 100))
        methods = [nstorm(gamma, eta, n_init=n_init, batch=rule), nsgdm(gamma, eta, batch=rest.get("batch", 1))]
        sweep(BlumGladyshev(objective, B, G), methods, steps=rest.get("steps", 300), seeds=rest.get("seeds", [0, 1]))

    go()
    before = traces
    assert before > 0
    for change in (
        {"gamma": 0.2},
        {"gamma": np.float32(0.5)},
        {"gamma": 1},
        {"eta": 0.9},
        {"n_init": 50},
        {"B": 3.0},
        {"B": 0},
        {"G": 0.0},
        {"sigma2": 0.01},
        {"cap": 7},
        {"batch": 1000},
        {"seeds": [8, 9]},
        {"steps": 1234},
        {"steps": 1},
    ):
        go(**change)
        assert traces == before, change


@part
class Told(BlumGladyshev):
    """Without noise, but a sample adds x − the point where it was drawn."""

    def drawn_at(self, point: Any, sample: Any) -> Any:
        return point.x

    def grad(self, point: Any, sample: Any) -> Any:
        return point.grad + point.x - sample


def test_a_sample_is_told_the_newest_point_and_evaluated_at_the_one_before_too() -> None:
    gamma, eta = 0.1, 0.4
    told = Told(objectives.Quadratic(np.array([1.0, -2.0]), np.array([1.0, 3.0])), 0.0, 0.0)
    record = run(told, storm(gamma, eta, batch=3), steps=4)
    curvature, x = np.array([1.0, 3.0]), np.array([1.0, -2.0])
    v = curvature * x
    for _ in range(4):
        before, x = x, x - gamma * v
        v = curvature * x + (1 - eta) * (v - (curvature * before + before - x))
    np.testing.assert_allclose(record.last[0, 0], x, rtol=1e-12)


@part
class Counting(Oracle):
    """A BG-0 oracle that counts evaluations: every gradient adds its batch size to a host-side tally."""

    inner: BlumGladyshev
    tally: ClassVar[list[int]] = []

    @property
    def objective(self) -> Any:  # type: ignore[override]  # a field of other oracles
        return self.inner.objective

    def draw(self, key: Any) -> Any:
        return self.inner.draw(key)

    def batch(self, noise: Any, size: Any) -> Any:
        return self.inner.batch(noise, size), size

    def at(self, x: Any) -> Any:
        return self.inner.at(x)

    def grad(self, point: Any, sample: Any) -> Any:
        jax.debug.callback(lambda size: self.tally.append(int(size)), sample[1])
        return self.inner.grad(point, sample[0])

    def exact(self, point: Any) -> Any:
        return self.inner.exact(point)


@pytest.mark.parametrize(
    "method",
    [
        nsgdm(0.1, 0.1, batch=3),
        nstorm(0.1, 0.1, n_init=5),
        storm(0.1, 0.1, batch=GrowWithDistance(1.0, 1.0, 0.1)),
        sgd(0.1, batch=GrowWithDistance(1.0, 1.0, 0.1)),
    ],
    ids=["nsgdm", "nstorm", "storm", "sgd"],
)
def test_the_sfo_count_is_what_a_counting_oracle_counts(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    # The runs a sweep is padded with would be counted, too.
    monkeypatch.setattr(layout, "MULTIPLES", {})
    Counting.tally.clear()
    record = run(Counting(oracle()), method, steps=20)
    jax.effects_barrier()
    assert sum(Counting.tally) == record.sfo[0, 0, -1]


def test_a_diverging_run_is_marked_and_its_neighbours_keep_every_bit() -> None:
    quartic = BlumGladyshev(objectives.named("phase-retrieval:40", dim=3, start=1.0), 5.0, 1.0)
    gammas = [1e-4, 3e-4, 1e3, 1e-3]
    wild = sweep(quartic, {"SGD": sgd(gammas)}, steps=400, seeds=3)
    tame = sweep(quartic, {"SGD": sgd([1e-4, 3e-4, 2e-4, 1e-3])}, steps=400, seeds=3)
    neighbours = [0, 1, 3]
    np.testing.assert_array_equal(wild.grad_norm[neighbours], tame.grad_norm[neighbours])
    np.testing.assert_array_equal(wild.last[neighbours], tame.last[neighbours])
    assert np.all(wild.diverged[neighbours] == -1)
    assert np.all(tame.diverged == -1)
    step = wild.diverged[2]
    assert np.all((step > 0) & (step < 400))
    assert np.all(wild.sfo[2, :, -1] == step)  # x⁰..x^{step−1} were sampled, then no more
    for row in range(3):
        before = wild.steps < step[row]
        assert np.all(np.isfinite(wild.grad_norm[2, row, before]))
        assert not np.any(np.isfinite(wild.grad_norm[2, row, ~before] + wild.error[2, row, ~before]))
        assert np.isnan(wild.best_grad_norm[2, row, -1])


@pytest.mark.parametrize("spec", ["cauchy", "phase-retrieval:5"])  # ∇f goes to 0 far out, or to ∞
def test_from_where_a_run_has_diverged_on_it_has_no_finite_number(spec: str) -> None:
    far = BlumGladyshev(objectives.named(spec, dim=2, start=2.0), 0.5, 1.0)
    methods = {"SGD": sgd([1e-3, 10.0]), "averaged": dataclasses.replace(sgd([1e-3, 10.0]), average=TailAverage())}
    record = sweep(far, methods, steps=299, seeds=2, records=40)
    assert (record.diverged >= 0).tolist() == [[False] * 2, [True] * 2] * 2
    counted = ("batch", "max_batch", "sfo")
    gone = (record.diverged[..., None] >= 0) & (record.steps >= record.diverged[..., None])
    for name in (name for name in CURVES if name not in counted):
        assert not np.isfinite(getattr(record, name)[gone]).any(), name
    assert np.isfinite(record.grad_norm[~gone] + record.value[~gone]).all()
    ends = np.repeat(record.diverged[..., None], record.steps.size, axis=-1)
    assert np.all(record.sfo[gone] <= ends[gone])  # x⁰..x^{step−1} were sampled, then no more


@pytest.mark.parametrize("gamma", [1e4, 1e110])  # after some steps, or at once
def test_the_step_at_which_a_run_diverges_draws_nothing_however_far_it_is(gamma: float) -> None:
    far = BlumGladyshev(objectives.named("phase-retrieval:5", dim=2, start=2.0), 0.5, 1.0)
    grown = sgd(gamma, batch=GrowWithDistance(0.5, 1.0, 0.1, cap=2**50))
    record = run(far, grown, steps=9, seeds=2)
    assert np.all((record.diverged > 0) & (record.diverged < 9))
    gone = record.steps >= record.diverged[..., None]
    assert np.all((record.batch == 0) == gone)
    np.testing.assert_array_equal(record.max_batch, np.maximum.accumulate(record.batch, axis=-1))
    np.testing.assert_array_equal(record.sfo, np.cumsum(record.batch, axis=-1))


def test_a_start_without_gradient_or_noise_stays() -> None:
    flat = BlumGladyshev(objectives.named("power:3", dim=2, start=0.0), 0.0, 0.0)
    record = sweep(flat, [nsgdm(0.1, 0.5), nstorm(0.1, 0.5), sgd(0.1)], steps=20)
    assert np.all(record.last == 0)
    assert np.all(record.grad_norm == 0)
    assert np.all(record.diverged == -1)


def test_the_uniform_output_is_uniform_and_the_same_for_every_method() -> None:
    record = sweep(oracle(), {"a": sgd(0.01), "b": sgd(0.02)}, steps=9, seeds=3000)
    counts = np.bincount(record.sampled_step, minlength=10)
    assert counts.size == 10
    assert np.abs(counts - 300).max() < 5 * np.sqrt(300)


def test_the_uniform_output_is_the_iterate_of_its_step() -> None:
    record = sweep(oracle(), {"a": nsgdm([0.01, 0.02], 0.1)}, steps=9, seeds=8)
    assert len(set(record.sampled_step)) > 3
    for step in range(10):
        chosen = record.sampled_step == step
        there = sweep(oracle(), {"a": nsgdm([0.01, 0.02], 0.1)}, steps=step, seeds=8).last
        np.testing.assert_array_equal(record.sampled[:, chosen], there[:, chosen])


def test_float64_inside_whatever_outside() -> None:
    assert jnp.zeros(1).dtype == np.float32
    record = run(oracle(), sgd(0.01), steps=5)
    assert record.grad_norm.dtype == record.last.dtype == np.float64
    assert record.sfo.dtype == np.int64
    assert jnp.zeros(1).dtype == np.float32


def test_huge_batches_are_counted_exactly() -> None:
    record = run(oracle(), nstorm(0.01, 0.1, n_init=10**12 + 1, batch=10**12 + 1), steps=3)
    assert record.sfo[0, 0, -1] == 7 * (10**12 + 1)


def _interrupted_at(look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C when the simulation looks for one for the `look`-th time: before a task, and every 256 steps or so."""
    looks = iter(range(1, 10**6))

    def check() -> None:
        if next(looks) == look:
            raise KeyboardInterrupt

    monkeypatch.setattr(runs, "CALL_SECONDS", 0.0)  # calls of the program stay short
    monkeypatch.setattr(interrupts, "check", check)


def test_ctrl_c_keeps_every_run_up_to_its_last_record_time(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = {"SGD": sgd([0.01, 0.02]), "NSGDM": nsgdm(0.01, 0.1)}
    whole = sweep(oracle(), methods, steps=8000, seeds=2)
    stride = engine.block_size(whole.last.shape[-1])
    _interrupted_at(4, monkeypatch)  # the task, steps 0, stride, 2 stride
    with pytest.raises(Interrupted) as interrupted:
        sweep(oracle(), methods, steps=8000, seeds=2)
    record = interrupted.value.record
    assert record is not None
    assert len(whole.finished()) == len(whole)
    assert record.labels == ("SGD (gamma=0.01)", "SGD (gamma=0.02)")
    recorded = whole.steps <= 2 * stride
    assert set(record.reached.ravel()) == {whole.steps[recorded][-1]}
    np.testing.assert_array_equal(record.grad_norm[..., recorded], whole["SGD"].grad_norm[..., recorded])
    np.testing.assert_array_equal(record.sfo[..., recorded], whole["SGD"].sfo[..., recorded])
    assert np.isnan(record.grad_norm[..., ~recorded]).all()
    assert len(record.finished()) == 0


def test_ctrl_c_before_any_step_has_no_record_and_after_a_method_has_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    _interrupted_at(1, monkeypatch)
    with pytest.raises(Interrupted) as interrupted:
        run(oracle(), sgd(0.1), steps=10)
    assert interrupted.value.record is None
    _interrupted_at(3, monkeypatch)
    with pytest.raises(Interrupted) as interrupted:
        sweep(oracle(), {"SGD": sgd(0.1), "NSGDM": nsgdm(0.1, 0.1)}, steps=10, seeds=2)
    assert interrupted.value.record is not None
    assert interrupted.value.record.labels == ("SGD",)
    assert len(interrupted.value.record.finished()) == 1


@pytest.mark.parametrize(("steps", "records"), [(0, 5), (1, 5), (10, 5), (11, 5), (1000, 5), (10**7, 100), (123, 1)])
def test_record_times_have_both_ends_increase_and_fit(steps: int, records: int) -> None:
    times = record_times(steps, records)
    assert (times[0], times[-1]) == (0, steps)
    assert np.all(np.diff(times) > 0)
    assert times.size <= 2 * records + 1


@pytest.mark.parametrize("own", [False, True])
def test_runs_cut_into_pieces_are_the_runs(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    oracles = [oracle(B=0.1 * i) for i in range(7)] if own else oracle()
    whole = sweep(oracles, [nsgdm([0.01, 0.02], 0.1)], steps=30, seeds=range(7))
    monkeypatch.setattr(layout, "RUNS", 6)  # pieces of 3, the last one filled up
    pieces = sweep(oracles, [nsgdm([0.01, 0.02], 0.1)], steps=30, seeds=range(7))
    for name in ("grad_norm", "sfo", "last", "sampled", "sampled_step", "diverged"):
        np.testing.assert_allclose(getattr(pieces, name), getattr(whole, name), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("own", [False, True])
def test_methods_that_share_a_program_run_as_alone(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    oracles = [oracle(B=0.1 * i) for i in range(3)] if own else oracle()
    methods = {
        "NSGDM": nsgdm([0.01, 0.02, 0.05], 0.1),
        "STORM": storm(0.01, 0.2, batch=GrowWithDistance(0.1, 1.0, 0.5)),
        "SGD": sgd([0.1, 0.2]),
    }
    alone = sweep(oracles, methods, steps=30, seeds=3)
    monkeypatch.setattr(layout, "CHEAP_BYTES", 0)
    monkeypatch.setattr(layout, "COLUMNS", 4)  # not all fit in one
    shared = sweep(oracles, methods, steps=30, seeds=3)
    assert shared.labels == alone.labels
    for name in ("grad_norm", "sfo", "max_batch", "mean_error", "last", "sampled", "sampled_step", "diverged"):
        np.testing.assert_allclose(getattr(shared, name), getattr(alone, name), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("names", [(1, "1"), (None, "None"), (True, "True"), (("a",), "('a',)")])
def test_methods_whose_names_are_equal_as_text_are_refused_and_others_are_all_run(names: tuple[Any, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"sweep: names of methods must differ as text, or one is lost; got \["
    ) as error:
        sweep(oracle(), dict.fromkeys(names, sgd(0.1)), steps=1)
    assert "\n" not in str(error.value)
    assert sweep(oracle(), {names[0]: sgd(0.1), "other": sgd(0.2)}, steps=1).labels == (str(names[0]), "other")


def files_called(work: Callable[[], object]) -> tuple[set[str], set[str]]:
    """Files of this project whose functions are called, those of an import not counted: outside of, and in, a sweep."""
    outside, inside = set[str](), set[str]()
    sweeps = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal sweeps
        code = frame.f_code
        if event == "call" and code is sweep.__code__:
            sweeps += 1
        if event == "call" and code.co_name != "<module>":
            (inside if sweeps else outside).add(code.co_filename)
        if event == "return" and code is sweep.__code__:
            sweeps -= 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    trees = tuple(f"{Path(package.__path__[0])}/" for package in (gladstorm, evidence))
    named = ({file for file in files if file.startswith(trees)} for files in (outside, inside))
    return next(named), next(named)


def test_a_sweep_walks_through_eighteen_files_of_the_package() -> None:
    """Those of the problem's and the method's own equations included, once a program of that shape is compiled."""
    methods, source = [nsgdm([0.01, 0.02], 0.1)], oracle()
    sweep(source, methods, steps=200, seeds=3)
    _, files = files_called(lambda: sweep(source, methods, steps=200, seeds=3))
    assert len(files) <= 18, sorted(files)


@pytest.mark.parametrize(
    ("name", "options"), [("natural", {}), ("reproduction", {"experiments": ["cubic"], "steps": 60})]
)
def test_a_study_adds_at_most_twenty_five_files_to_those_that_its_sweeps_walk(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Count the files that a study's command calls, from its arguments to its results in a file, on its second run.

    A study's own walk is what it adds to `sweep → Record`: files called outside of every sweep that no sweep of it
    walks, 15 of `natural` and 19 of `reproduction`. Its problems, methods and theorems are among them. The whole walk
    has those of the sweeps too: 34 and 44. Neither has the command line, which is the same for all studies, or the
    page, which is drawn from the results. `tightness`, not run here, adds 29: 15 are theorems and their search.
    """
    command = importlib.import_module(f"evidence.{name}.command").command
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    command(out=tmp_path / "first", quick=True, **options)
    outside, inside = files_called(lambda: command(out=tmp_path / "second", quick=True, **options))
    assert len(outside - inside) <= 25, sorted(outside - inside)
    assert len(outside | inside) <= 45, sorted(outside | inside)
