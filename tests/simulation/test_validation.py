"""What does not fit together is refused before it runs, in one sentence that says what would fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm import BlumGladyshev, Method, nsgdm, run, sgd, sweep
from gladstorm.core import rules
from gladstorm.core.parts import leaf, part
from gladstorm.core.rules import VECTOR
from gladstorm.methods.batches import Fixed
from gladstorm.methods.estimators import Estimator, Fresh
from gladstorm.methods.schedules import PowerDecay
from gladstorm.methods.steps import FromOptax, Plain, Step
from gladstorm.problems import objectives
from gladstorm.problems.oracles import FiniteSum, Point
from gladstorm.simulation import engine, simulate
from gladstorm.simulation.runs import Runs

GOOD = objectives.named("cauchy", dim=3, start=1.0)
ORACLE = BlumGladyshev(GOOD, 0.5, 1.0)


class Bare(Estimator):
    queries: ClassVar[int] = 1

    def update(self, state: Any, grad: Any, previous: Any, point: Any) -> Any:
        return grad(point)


class Inherited(Plain):
    """A dataclass by its base, but JAX does not know it."""


@dataclass(frozen=True)
class PlainDataclass(BlumGladyshev):  # type: ignore[misc]
    more: float = 1.0


@part
class Wide(Bare):
    """Its v does not have the shape of x."""

    def init(self, grad: Any, point: Any) -> Any:
        return jnp.concatenate([grad(point), grad(point)])


@part
class Forgetful(Bare):
    """What it remembers is another thing after an update."""

    def update(self, state: Any, grad: Any, previous: Any, point: Any) -> Any:
        return grad(point), grad(previous)

    def direction(self, state: Any) -> Any:
        return state[0] if isinstance(state, tuple) else state


@part
class Summing(Step):
    def move(self, memory: Any, x: Any, v: Any, f: Any) -> Any:
        return jnp.sum(x - v), memory


@part
class Half:
    def __call__(self, k: Any, distance2: Any, refresh: Any = False) -> Any:
        return jnp.asarray(0.5)


@part
class AtIsX(BlumGladyshev):
    def at(self, x: Any) -> Any:
        return x


@part
class AtIsAnObject(BlumGladyshev):
    def at(self, x: Any) -> Any:
        return object()


@part
class Scalar(BlumGladyshev):
    def grad(self, point: Point, sample: Any) -> Any:
        return point.grad[0]


@part
class Mine:
    start: Any = leaf(VECTOR)
    f_inf: ClassVar[None] = None
    constants: ClassVar[None] = None

    def value(self, x: Any) -> Any:
        return jnp.sum(x * x)

    def grad(self, x: Any) -> Any:
        return 2 * x


@part
class NoValue(Mine):
    def value(self, x: Any) -> Any:
        return None


@part
class VectorValue(Mine):
    def value(self, x: Any) -> Any:
        return x * x


@part
class ShortGradient(Mine):
    """One number, which would be added to every coordinate."""

    def grad(self, x: Any) -> Any:
        return jnp.sum(x)[None]


class Without(NamedTuple):
    start: Any


@part
class DuckTyped:
    """It has what the simulator calls, but not the contract's own answers to the rest."""

    objective: Any
    largest: ClassVar[None] = None
    draw, batch, grad = BlumGladyshev.draw, BlumGladyshev.batch, BlumGladyshev.grad
    at, exact = BlumGladyshev.at, BlumGladyshev.exact


def bg(objective: Any) -> Any:
    return BlumGladyshev(objective, 0.5, 1.0)


ONES = np.ones(3)
ORACLES: list[tuple[Any, str]] = [
    (None, "sweep: oracle must be of a class that inherits Oracle, .*BlumGladyshev.* got None"),
    (
        (ORACLE for _ in range(2)),
        "sweep: oracle must be of a class .* or a list with one for each seed; got <generator",
    ),
    (
        GOOD,
        r"sweep: oracle must be of a class that inherits Oracle, such as BlumGladyshev\(objective, B=",
    ),
    (objectives, "sweep: oracle must be of a class that inherits Oracle"),
    ([ORACLE, None], "sweep: oracle must be of a class that inherits Oracle"),
    (
        [ORACLE, bg(objectives.named("cauchy", dim=2))],
        r"of one structure.* oracle 0 is BlumGladyshev.*, oracle 1 is BlumGladyshev",
    ),
    ([ORACLE, bg(objectives.named("cosh", dim=3))], "oracles must be of one structure.* oracle 1 is .*Cosh"),
    ([bg(objectives.from_function(lambda x: x @ x, start=ONES)) for _ in range(2)], "define it once, outside"),
    (
        PlainDataclass(GOOD, 0.5, 1.0),
        "PlainDataclass: must be a part, with @gladstorm.part above its class",
    ),
    (bg(object()), "BlumGladyshev: objective must be a part, with @gladstorm.part .* got objective=<object"),
    (bg(None), "NoneType: an objective must have start, f_inf, value and grad; start is missing"),
    (bg(Without(ONES)), "Without: an objective must have start, f_inf, value and grad; f_inf is missing"),
    (bg(Mine(ONES * 1j)), "Mine: start must be a vector of finite numbers"),
    (bg(NoValue(ONES)), "NoValue: value must return one number; got None"),
    (bg(VectorValue(ONES)), r"VectorValue: value must return one number; got an array of shape \(3,\)"),
    (bg(ShortGradient(ONES)), r"ShortGradient: grad must be an array of shape \(3,\); got shape \(1,\)"),
    (AtIsX(GOOD, 0.5, 1.0), r"AtIsX: at must return a point with a field x, .*; got float64 of shape \(3,\)"),
    (AtIsAnObject(GOOD, 0.5, 1.0), "AtIsAnObject: at must return a point with a field x, .*; got object"),
    (
        FiniteSum(GOOD),
        "FiniteSum: the objective must be a mean of losses, such as dro or matrix-sensing or .*; got Cauchy",
    ),
    (
        BlumGladyshev(GOOD, [0.5, 0.5, 0.5], 1.0),
        r"BlumGladyshev: B must be one number, finite and ≥ 0; got B=\[0.5, 0.5",
    ),
    (
        BlumGladyshev(GOOD, PowerDecay(1.0, 0.5), 1.0),
        "BlumGladyshev: B must be one number, finite and ≥ 0; got B=Power",
    ),
    (bg(objectives.Cosh(ONES, growth=ONES)), r"Cosh: growth must be one number, finite and > 0; got growth=array"),
    (bg(objectives.Cauchy([1.0, 2.0])), r"Cauchy: start must be an array, np.array\(…\); got start=\[1.0, 2.0\]"),  # type: ignore[arg-type]
    ("cauchy", "sweep: oracle must be .* got 'cauchy'"),
    (DuckTyped(GOOD), "sweep: oracle must be of a class that inherits Oracle"),
    (Scalar(GOOD, 0.5, 1.0), r"Scalar: grad must be float64 of shape \(3,\); got float64 of shape \(\)"),
]


@pytest.mark.parametrize(("oracle", "sentence"), ORACLES, ids=range(len(ORACLES)))
def test_an_oracle_is_refused(oracle: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        run(oracle, sgd(0.1), steps=5, seeds=2)
    assert "\n" not in str(error.value)


METHODS: list[tuple[Any, str]] = [
    (
        Method(Bare(), Plain(0.1)),
        "Method: estimator must be a part, with @gladstorm.part above its class",
    ),
    (
        Method(Fresh(), Inherited(0.1)),
        "Inherited: must be a part, with @gladstorm.part above its class",
    ),
    (Method(3, Plain(0.1)), "Method: estimator must be of a class that inherits Estimator, with @part above it; got 3"),  # type: ignore[arg-type]
    (Method(Fresh, Plain(0.1)), "Method: estimator must be of a class that inherits Estimator"),  # type: ignore[arg-type]
    (Method(Fresh(), Fresh()), r"Method: step must be of a class that inherits Step, .*; got Fresh\(\)"),  # type: ignore[arg-type]
    (sgd(gamma=Fixed(3)), r"Plain: gamma must be finite and > 0, as a number or a schedule; got gamma=Fixed\(size=3\)"),  # type: ignore[arg-type]
    (Method(Fresh(), Plain(0.1), Fixed(PowerDecay(1.0, 0.5))), "Fixed: size must be a whole number ≥ 1 at every step"),
    (Method(Fresh(), Plain(0.1), 0), "Fixed: size must be a whole number ≥ 1; got size=0"),  # type: ignore[arg-type]
    (Method(Fresh(), Plain(0.1), Half()), "Half: a batch rule must return one whole number; got float64"),
    (Method(Wide(), Plain(0.1)), r"Wide: direction must be float64 of shape \(3,\); got float64 of shape \(6,\)"),
    (Method(Forgetful(), Plain(0.1)), r"Forgetful: update must be float64 of shape \(3,\); got tuple of"),
    (
        Method(Fresh(), FromOptax(0.1, 1)),  # type: ignore[arg-type]
        r"FromOptax: make must be a function of the learning rate, such as optax.adam; got 1",
    ),
    (Method(Fresh(), Summing()), r"Summing: move must be float64 of shape \(3,\); got float64 of shape \(\)"),
]


@pytest.mark.parametrize(("method", "sentence"), METHODS, ids=range(len(METHODS)))
def test_a_method_is_refused(method: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        run(ORACLE, method, steps=5)
    assert "\n" not in str(error.value)


def test_a_batch_size_is_a_batch_rule() -> None:
    by_number = run(ORACLE, Method(Fresh(), Plain(0.1), 3), steps=5)  # type: ignore[arg-type]  # documented
    by_rule = run(ORACLE, Method(Fresh(), Plain(0.1), Fixed(3)), steps=5)
    assert by_number.sfo[0, 0, -1] == 18
    np.testing.assert_array_equal(by_number.last, by_rule.last)
    assert by_number.config["methods"] == by_rule.config["methods"]


@pytest.mark.parametrize("seeds", [np.array([2.0, 3.0]), jnp.array([2, 3])])
def test_whole_numbers_may_be_floats_and_lists_any_arrays(seeds: Any) -> None:
    record = run(ORACLE, sgd(0.1), steps=5.0, seeds=seeds)  # type: ignore[arg-type]  # the point
    assert record.seeds.tolist() == record.config["seeds"] == [2, 3]
    assert record.config["steps"] == 5


@pytest.mark.parametrize("methods", [sgd(0.1), 3, None])
def test_methods_are_a_list_or_a_dict(methods: Any) -> None:
    with pytest.raises(ValueError, match="sweep: methods must be a list of methods, or a dict of them by name"):
        sweep(ORACLE, methods, steps=5)


def test_where_f_stops_being_finite_a_run_has_diverged_although_its_gradients_are() -> None:
    # f = ln x₀ is not a number left of 0, and its gradient is; the second coordinate has no part in it.
    logarithm = objectives.from_function(lambda x: jnp.log(x[0]) + 0 * x[1], start=[0.45, 1.0])
    exact = BlumGladyshev(logarithm, 0.0, 0.0)
    record = sweep(exact, {"normalized": nsgdm(0.1, 1.0), "short": nsgdm(0.01, 1.0)}, steps=9, seeds=2)
    assert record.diverged.tolist() == [[5, 5], [-1, -1]]
    lost = record["normalized"]
    assert np.isfinite(lost.value[..., :5]).all()
    for curve in (lost.value, lost.grad_norm, lost.mean_grad_norm, lost.best_grad_norm, lost.drift2):
        assert np.isnan(curve[..., 5:]).all()
    assert lost.sfo[0, 0].tolist() == [1, 2, 3, 4, 5, 5, 5, 5, 5, 5]
    assert lost.batch[0, 0].tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert lost.max_batch[0, 0, -1] == 1
    assert np.isfinite(record["short"].value).all()
    assert record["short"].sfo[0, 0, -1] == 10


GIGABYTE = 10**9


@pytest.mark.parametrize(
    ("spec", "dim", "sentence"),
    [
        (
            "phase-retrieval",
            10**7,
            r"PhaseRetrieval: .* it would take 480 GB, and 1 GB are free: choose",
        ),
        ("dro", 10**6, "Dro: .* it would take 16 GB, and 1 GB are free: choose a smaller dim or n"),
        ("power", 10**15, "objective: .* it would take 96 PB, and 1 GB are free: choose a smaller dim"),
    ],
)
def test_an_instance_that_would_not_fit_is_not_drawn(
    spec: str, dim: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "free_memory", lambda: GIGABYTE)
    monkeypatch.setattr(np.random, "default_rng", lambda _: pytest.fail("drawn"))
    with pytest.raises(ValueError, match=sentence):
        objectives.named(spec, dim=dim)


def test_cheap_things_are_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np.random, "default_rng", lambda _: pytest.fail("drawn"))
    monkeypatch.setattr(rules, "free_memory", lambda: 0)  # the same on a machine with little memory
    with pytest.raises(ValueError, match="objective: start must be a vector of finite numbers"):
        objectives.named("power", dim=10**6, start=float("nan"))


def test_a_sweep_that_would_not_fit_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "free_memory", lambda: GIGABYTE)
    monkeypatch.setattr(Runs, "__call__", lambda _: pytest.fail("begun"))
    ending = r"must fit in memory; it would take [\d.]+ .B, and 1 GB are free: ask for fewer records, configurations"
    with pytest.raises(ValueError, match=rf"sweep: 1 × x of dimension 3, recorded at 200,000,001 steps, {ending}"):
        run(ORACLE, sgd(0.1), steps=10**9, records=10**8)
    with pytest.raises(ValueError, match=rf"sweep: 1,000 × x of dimension 3, recorded at 20,001 steps, {ending}"):
        run(ORACLE, sgd(np.linspace(0.1, 0.2, 1000)), steps=10**6, records=10**4)
    monkeypatch.setattr(simulate, "expand", lambda *_: pytest.fail("expanded"))
    with pytest.raises(ValueError, match=rf"sweep: 2,000,000 × x of dimension 3, recorded at 201 steps, {ending}"):
        run(ORACLE, sgd(np.linspace(0.1, 0.2, 10**6)), steps=10**6, seeds=2)
    with pytest.raises(ValueError, match=rf"sweep: 4,294,967,296 × x of dimension 3, recorded at 3 steps, {ending}"):
        run(ORACLE, sgd(0.1), steps=2, seeds=2**32)


def test_where_the_memory_is_not_known_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(rules, "MEMINFO", tmp_path / "absent")
    assert rules.free_memory() is None
    rules.require_free_memory("anything", "it", 10**30, "take less")


def test_programs_of_many_shapes_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_PROGRAMS", 2)
    cached: Any = engine.advance
    for dim in (3, 4, 5):  # more than two of them
        run(bg(objectives.named("cauchy", dim=dim)), sgd(0.1), steps=2)
        assert cached._cache_size() <= 2
    before = cached._cache_size()
    monkeypatch.setattr(engine, "MOST_PROGRAMS", before + 1)
    run(bg(objectives.named("cauchy", dim=5)), sgd(0.2), steps=3)
    assert cached._cache_size() == before  # the last one was kept
