"""The related work's estimators and steps: equal to the hand-unrolled ones, reducible, composable, priced, checked."""

import dataclasses
import itertools
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unrolled_family as by_hand
import unrolled_parameter_free as sizes
from gladstorm import BlumGladyshev, Method, nsgdm, part, run, sgd, sweep
from gladstorm.methods import (
    batches,
    d_adaptation,
    dog,
    dowg,
    estimators,
    momo,
    pasta,
    prodigy,
    schedule_free,
    untuned,
)
from gladstorm.methods.batches import (
    BatchRule,
    FastestBatch,
    FirstLarge,
    Fixed,
    GrowWithDistance,
    GrowWithNoise,
    LargeOnRefresh,
    LikeNoise,
    NestedLoops,
)
from gladstorm.methods.estimators import (
    ErrorFeedback,
    Estimator,
    Fresh,
    LaggedMars,
    Mars,
    Momentum,
    Page,
    Sarah,
    Snvrg,
    Spider,
    Storm,
    Svrg,
    Transported,
)
from gladstorm.methods.estimators.refreshing import SagaState
from gladstorm.methods.norms import Sign
from gladstorm.methods.schedules import CosineDecay, CubeRootDecay, LinearDecay, PowerDecay, SquareOf
from gladstorm.methods.steps import (
    Anchored,
    Clipped,
    FromOptax,
    GeneralizedSign,
    Normalized,
    Plain,
    Polyak,
    PowerNormalized,
    Step,
    ThreeWayClipped,
)
from gladstorm.methods.steps import registry as steps_registry
from gladstorm.problems import objectives
from gladstorm.problems.oracles import FiniteSum
from gladstorm.simulation import layout
from gladstorm.simulation.configurations import expand, name_methods
from whole_step import begun, whole_step

STEPS, SEED = 16, 11
B, G, GAMMA, ETA = 0.6, 0.9, 0.02, 0.15
OBJECTIVE = objectives.named("double-well", dim=3, start=1.0)
ORACLE = BlumGladyshev(OBJECTIVE, B, G)
START = np.asarray(OBJECTIVE.start)


def exact(x: np.ndarray) -> Any:
    with jax.enable_x64(True):
        return np.asarray(OBJECTIVE.grad(x))


def value(x: np.ndarray) -> float:
    with jax.enable_x64(True):
        return float(OBJECTIVE.value(x))


def plain(k: int, x: Any, v: Any) -> Any:
    return x - GAMMA * v


def normalized(k: int, x: Any, v: Any) -> Any:
    return x - GAMMA * v / np.linalg.norm(v)


def grown(distance2: float) -> int:
    return max(1, int(np.ceil((B**2 * distance2 + G**2) / 0.05)))


LARGE = LargeOnRefresh(GrowWithDistance(B, G, 0.05), Fixed(2))
ADAPTIVE = CubeRootDecay(0.1, 2.0)
ADAPTIVE_BY_HAND = by_hand.Storm(0.1, 2.0, 9.0)


def large(k: int, distance2: float, afresh: bool) -> int:
    return grown(distance2) if afresh else 2


def one(k: int, distance2: float, afresh: bool) -> int:
    return 1


def nested(k: int, distance2: float, afresh: bool) -> int:
    return 50 if k % 6 == 0 else 36 if k % 3 == 0 else 9


class Anchor:
    def __init__(self, weight: float, epoch: int) -> None:
        self.weight, self.epoch = weight, epoch

    def __call__(self, k: int, x: Any, v: Any) -> Any:
        if k % self.epoch == 0:
            self.a = x
        return self.weight * self.a + (1 - self.weight) * x - GAMMA * v


class Signs:
    def __init__(self, beta: float) -> None:
        self.beta, self.u = beta, 0.0

    def __call__(self, k: int, x: Any, v: Any) -> Any:
        self.u = self.beta * self.u + (1 - self.beta) * v**2
        return x - GAMMA * v / np.sqrt(self.u)


def clipped(k: int, x: Any, v: Any) -> Any:
    return x - min(GAMMA, 2.0 * GAMMA / np.linalg.norm(v)) * v


def three_ways(k: int, x: Any, v: Any) -> Any:
    n = float(np.linalg.norm(v))
    return x - GAMMA * min(1, 2.0 / n, 3.0 / n**2) * v


def halpern(k: int, x: Any, v: Any) -> Any:
    beta = 2 / (k + 2)
    return (1 - beta) * x + beta * START - v / (4.0 * (k + 2) ** 0.75)


def polyak(k: int, x: Any, v: Any) -> Any:
    return x - (value(x) + 1) / (np.sqrt(100) * (v @ v)) * v


def optax_adam(gamma: Any) -> Any:
    return optax.adam(gamma, b1=0.9, b2=0.99, eps=1e-3)


class Adam:
    def __init__(self) -> None:
        self.m = self.u = 0.0

    def __call__(self, k: int, x: Any, v: Any) -> Any:
        self.m, self.u = 0.9 * self.m + 0.1 * v, 0.99 * self.u + 0.01 * v**2
        m, u = self.m / (1 - 0.9 ** (k + 1)), self.u / (1 - 0.99 ** (k + 1))
        return x - GAMMA * m / (np.sqrt(u) + 1e-3)


Case = tuple[Method, Callable[[], by_hand.Recursion], Callable[[], Any], Any]
PLAIN, UNIT = Plain(GAMMA), Normalized(GAMMA)


def fresh() -> by_hand.Recursion:
    return by_hand.Spider(1)


CASES: dict[str, Case] = {
    "spider": (Method(Spider(7), UNIT, LARGE), lambda: by_hand.Spider(7), lambda: normalized, large),
    "spiderboost": (Method(Spider(5), PLAIN, LARGE), lambda: by_hand.Spider(5), lambda: plain, large),
    "sarah": (Method(Sarah(4), PLAIN, LARGE), lambda: by_hand.Sarah(4, 0.0), lambda: plain, large),
    "sarah+": (Method(Sarah(30, 0.5), PLAIN, LARGE), lambda: by_hand.Sarah(30, 0.5), lambda: plain, large),
    "svrg": (Method(Svrg(7), PLAIN, LARGE), lambda: by_hand.Svrg(7), lambda: plain, large),
    "page": (Method(Page(0.2), PLAIN, LARGE), lambda: by_hand.Page(0.2), lambda: plain, large),
    "normalized page": (Method(Page(0.2), UNIT, LARGE), lambda: by_hand.Page(0.2), lambda: normalized, large),
    "snvrg": (
        Method(Snvrg((2, 3)), PLAIN, NestedLoops(50, 1, (2, 3))),
        lambda: by_hand.Snvrg(2, 3),
        lambda: plain,
        nested,
    ),
    "mars": (Method(Mars(ETA, 0.4, 2.0), PLAIN), lambda: by_hand.Mars(1 - ETA, 0.4, 2.0), lambda: plain, one),
    "lagged mars": (
        Method(LaggedMars(ETA, 0.4, 2.0), PLAIN),
        lambda: by_hand.LaggedMars(1 - ETA, 0.4, 2.0),
        lambda: plain,
        one,
    ),
    "nigt": (Method(Transported(ETA), UNIT), lambda: by_hand.Transported(1 - ETA), lambda: normalized, one),
    "ef21": (
        Method(ErrorFeedback(ETA, 2, clients=3), UNIT),
        lambda: by_hand.ErrorFeedback(ETA, 2, 3),
        lambda: normalized,
        one,
    ),
    "adaptive storm": (
        Method(Storm(SquareOf(9.0, ADAPTIVE)), Plain(ADAPTIVE)),
        lambda: ADAPTIVE_BY_HAND,
        lambda: lambda k, x, v: x - ADAPTIVE_BY_HAND.pace() * v,
        one,
    ),
    "clipped": (Method(Fresh(), Clipped(GAMMA, 2.0)), fresh, lambda: clipped, one),
    "three ways": (Method(Fresh(), ThreeWayClipped(GAMMA, 2.0, 3.0)), fresh, lambda: three_ways, one),
    "power": (
        Method(Fresh(), PowerNormalized(GAMMA, 0.3)),
        fresh,
        lambda: lambda k, x, v: x - GAMMA * v / np.linalg.norm(v) ** 0.3,
        one,
    ),
    "sign": (Method(Fresh(), Normalized(GAMMA, Sign())), fresh, lambda: lambda k, x, v: x - GAMMA * np.sign(v), one),
    "generalized sign": (Method(Fresh(), GeneralizedSign(GAMMA, 0.9)), fresh, lambda: Signs(0.9), one),
    "anchored": (Method(Fresh(), Anchored(PLAIN, 0.1, 9)), fresh, lambda: Anchor(0.1, 9), one),
    "halpern": (
        Method(Fresh(), Anchored(Plain(PowerDecay(0.25, 0.75, shift=2.0)), PowerDecay(2.0, 1.0, shift=2.0))),
        fresh,
        lambda: halpern,
        one,
    ),
    "decay": (
        Method(Momentum(LinearDecay(ETA)), Plain(CosineDecay(GAMMA))),
        lambda: by_hand.Fading(ETA, STEPS),
        lambda: lambda k, x, v: x - GAMMA * (1 + np.cos(np.pi * k / STEPS)) / 2 * v,
        one,
    ),
    "polyak": (Method(Fresh(), Polyak(-1.0, 100)), fresh, lambda: polyak, one),
    "adam": (Method(Fresh(), FromOptax(GAMMA, optax_adam)), fresh, Adam, one),
    "dog": (dog(), fresh, sizes.Dog, one),
    "dowg": (dowg(), fresh, sizes.Dowg, one),
    "d-adaptation": (d_adaptation(), fresh, sizes.DAdaptation, one),
    "prodigy": (prodigy(), fresh, sizes.Prodigy, one),
    "schedule-free": (schedule_free(GAMMA), fresh, lambda: sizes.ScheduleFree(GAMMA), one),
    "untuned": (untuned(), fresh, lambda: sizes.Untuned(STEPS), one),
    "momo": (momo(0.01), fresh, lambda: sizes.Momo(0.01, value), one),
}


@dataclasses.dataclass
class Visited:
    """What every step of a run left."""

    x: Any
    v: Any
    batch: list[int]
    sfo: list[int]


@cache
def visited(method: Method, steps: int = STEPS, noise: tuple[float, float] = (B, G)) -> Visited:
    """A run step by step."""
    oracle = BlumGladyshev(OBJECTIVE, *noise)
    states: list[Any] = []
    with jax.enable_x64(True):
        for k in range(steps + 1):
            later = whole_step(oracle, method, states[-1], SEED, k, steps) if k else begun(oracle, method, SEED, steps)
            states.append(later)
        v = [np.asarray(method.estimator.direction(state.estimate)) for state in states]
    return Visited(
        np.array([state.point.x for state in states]),
        np.array(v),
        [int(state.batch) for state in states],
        [int(state.sfo) for state in states],
    )


@pytest.mark.parametrize("case", CASES)
def test_every_step_is_that_of_the_recursion_by_hand(case: str) -> None:
    method, recursion, step, size = CASES[case]
    ours = visited(method)
    hand = by_hand.unrolled_family(recursion(), step(), exact, START, B, G, STEPS, SEED, size)
    np.testing.assert_allclose(ours.x, hand.x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.v, hand.v, rtol=1e-12, atol=1e-12)
    assert ours.batch == hand.batch
    assert ours.sfo == hand.sfo  # counted where the recursion by hand evaluates its samples


def test_methods_with_memories_coins_clients_and_schedules_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "CHEAP_BYTES", 0)
    anchored = Anchored(Plain(PowerDecay(0.25, 0.75, shift=2.0)), PowerDecay(2.0, 1.0, shift=2.0), 9)
    methods = [Method(Page(0.2), anchored, LARGE), Method(ErrorFeedback(ETA, 2, clients=3), Plain(ADAPTIVE))]
    record = sweep(ORACLE, methods, steps=STEPS, seeds=[SEED, 3])
    for row, method in enumerate(methods):
        ours = visited(method)
        np.testing.assert_allclose(record.last[row, 0], ours.x[-1], rtol=0, atol=1e-12)
        errors = np.linalg.norm(ours.v - [exact(x) for x in ours.x], axis=1)
        np.testing.assert_allclose(record.error[row, 0], errors, rtol=1e-10, atol=1e-12)
        assert record.batch[row, 0].tolist() == ours.batch
        assert record.sfo[row, 0].tolist() == ours.sfo


def test_schedule_free_reports_its_x() -> None:
    record = run(ORACLE, schedule_free(GAMMA), steps=STEPS, seeds=[SEED])
    step = sizes.ScheduleFree(GAMMA)
    by_hand.unrolled_family(fresh(), step, exact, START, B, G, STEPS, SEED, one)
    np.testing.assert_allclose(record.reported[0, 0], step.x, rtol=0, atol=1e-12)


FRESH = sgd(GAMMA)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Method(Page(1.0), PLAIN, LARGE), sgd(GAMMA, batch=GrowWithDistance(B, G, 0.05))),
        (pasta(GAMMA, B, G, 0.05), sgd(GAMMA, batch=GrowWithDistance(B, G, 0.05))),
        (Method(Storm(1.0), PLAIN), FRESH),
        (Method(Momentum(1.0), PLAIN), FRESH),
        (Method(Spider(1), PLAIN), FRESH),
        (Method(ErrorFeedback(ETA, 3), UNIT), nsgdm(GAMMA, ETA)),
        (Method(Fresh(), PowerNormalized(GAMMA, 1.0)), Method(Fresh(), UNIT)),
        (Method(Fresh(), PowerNormalized(GAMMA, 0.0)), FRESH),
        (Method(Fresh(), Anchored(PLAIN, 0.0, 7)), FRESH),
        (Method(Sarah(6), PLAIN, LARGE), Method(Spider(7), PLAIN, LARGE)),
        (Method(Svrg(1), PLAIN), FRESH),
        (Method(Fresh(), GeneralizedSign(GAMMA, 0.0)), Method(Fresh(), Normalized(GAMMA, Sign()))),
        (Method(Momentum(PowerDecay(ETA, 0.0)), Normalized(PowerDecay(GAMMA, 0.0))), nsgdm(GAMMA, ETA)),
    ],
    ids=lambda method: type(method.estimator).__name__ + "+" + type(method.step).__name__,
)
def test_what_reduces_to_another_method_is_that_method(one: Method, other: Method) -> None:
    np.testing.assert_array_equal(visited(one, 10).x, visited(other, 10).x)


def test_mars_without_clipping_has_the_recursion_of_storm() -> None:
    # (1 − η) v + η (g + (1 − η)/η (g − g⁻)) and g + (1 − η)(v − g⁻) are equal, but not as operations on floats.
    v, old, new = np.random.default_rng(0).normal(size=(3, 4))
    mars, exact_storm = (each.update(v, np.sin, old, new) for each in (Mars(ETA, 1.0, np.inf), Storm(ETA)))
    np.testing.assert_allclose(mars, exact_storm, rtol=1e-6)  # in single precision, as no run turns on double


def test_the_batches_of_nested_loops_are_those_of_their_level() -> None:
    # a = 3, T = (2, 3): level 1 has a² (T₁T₂)², level 2 a T₂²; level r is renewed where all loops below it have ended
    sizes = [int(NestedLoops(50, 3, (2, 3))(k, 0.0)) for k in range(7)]
    assert sizes == [50, 3 * 9, 3 * 9, 9 * 36, 3 * 9, 3 * 9, 50]


def test_saga_remembers_every_example_of_its_batch_however_small_its_share() -> None:
    weights, gradients = np.array([0.2, 0.0, 0.8]), np.arange(6.0).reshape(3, 2) + 1
    grad = SimpleNamespace(sample=weights, oracle=SimpleNamespace(examples=lambda _: gradients))
    table = np.full((3, 2), -1.0)
    state = estimators.Saga().update(SagaState(jnp.zeros(2), jnp.asarray(table)), grad, None, None)
    np.testing.assert_allclose(state.v, weights @ (gradients + 1) - 1, rtol=1e-6)
    np.testing.assert_array_equal(state.gradients, [gradients[0], table[1], gradients[2]])


def example(cls: Any) -> Any:
    """A part with numbers its rules allow, whatever part it is."""
    values: dict[str, Any] = {}
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            continue
        if rule := field.metadata.get("rule"):
            values[field.name] = next(number for number in (0.5, 2) if rule.holds(np.asarray(number)))
        else:
            values[field.name] = {Step: PLAIN, BatchRule: Fixed(3)}.get(hints[field.name], optax.adam)
    return cls(**values)


RULES: list[BatchRule] = [
    Fixed(2),
    FirstLarge(5),
    GrowWithDistance(B, G, 0.1),
    LikeNoise(2, 1, B, G),
    LARGE,
    NestedLoops(9),
    GrowWithNoise(2),
    FastestBatch(),
]


def test_every_batch_rule_is_composed() -> None:
    assert {type(rule) for rule in RULES} == set(batches.registry().values())


@pytest.mark.parametrize("name", estimators.registry())
def test_every_estimator_runs_with_every_step_and_every_batch_rule(name: str) -> None:
    """Each step with one rule, and each rule with several steps: neither sees the other."""
    estimator = example(estimators.registry()[name])
    oracle = finite() if name == "saga" else ORACLE
    moves: list[Any] = [example(step) for step in steps_registry().values()]
    assert len(moves) >= len(RULES)
    with jax.enable_x64(True):
        begins = [begun(oracle, Method(estimator, PLAIN, rule), 0) for rule in RULES]
        for step, (rule, state) in zip(moves, itertools.cycle(zip(RULES, begins, strict=True))):
            own = state._replace(memory=step.init(state.point.x), stationarity_sum=jnp.zeros(()))
            after = whole_step(oracle, Method(estimator, step, rule), own, 0, 1)
            assert np.all(np.isfinite(after.point.x)), (step, rule)
            assert int(after.sfo) > int(state.sfo)


TWO: Any = [1, 2]  # a list where one number belongs


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (Method(estimators.Saga(), PLAIN), r"Saga: the oracle must be a FiniteSum, .* got BlumGladyshev\."),
        (Method(Spider(0), PLAIN), r"Spider: q must be a whole number ≥ 1; got q=0\."),
        (Method(Page(1.5), PLAIN), r"Page: p must be in \(0, 1\]; got p=1\.5\."),
        (Method(ErrorFeedback(0.1, 4), PLAIN), r"ErrorFeedback: k must be at most the dimension, 3; got k=4\."),
        (
            Method(ErrorFeedback(0.1, 1, clients=TWO), PLAIN),
            r"ErrorFeedback: clients must be one number.* got clients=\[1, 2\]",
        ),
        (Method(Snvrg((2, 0)), PLAIN), r"Snvrg: loops must be a whole number ≥ 1; got loops=0\."),
        (Method(Fresh(), Plain(PowerDecay(-1.0, 0.5))), r"PowerDecay: initial must be finite and > 0; got initial=-1"),
    ],
)
def test_a_bad_composition_gets_one_clear_sentence(method: Method, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        run(ORACLE, method, steps=1)
    assert "\n" not in str(error.value)


def test_a_schedule_is_swept_like_any_number() -> None:
    expanded = expand(name_methods([Method(Fresh(), Plain(PowerDecay([0.1, 0.2], 0.5)))]))
    assert [each.configuration.label for each in expanded] == [
        "fresh+plain (gamma.initial=0.1)",
        "fresh+plain (gamma.initial=0.2)",
    ]


@cache
def finite() -> Any:
    return FiniteSum(objectives.named("phase-retrieval:20", dim=3, start=1.0))


def test_no_two_parts_have_equal_structures() -> None:
    kinds = [*estimators.registry().values(), *steps_registry().values()]
    for one, other in itertools.combinations(kinds, 2):
        structures: list[Any] = [jax.tree.structure(example(cls)) for cls in (one, other)]
        assert structures[0] != structures[1], (one, other)


# Facts


@part
class Coin(Estimator):
    """Starts afresh by a coin, and says so in `refreshes` only."""

    queries: ClassVar[int] = 0

    def update(self, state: Any, grad: Any, previous: Any, point: Any) -> Any:
        return state

    def refreshes(self, _state: Any, _k: Any, coin: Any) -> Any:
        return coin < 0.5


def test_an_estimator_that_starts_afresh_has_to_say_nothing_but_when() -> None:
    afresh = [name for name in estimators.registry() if example(estimators.registry()[name]).starts_afresh]
    assert afresh == ["page", "sarah", "snvrg", "spider", "svrg"]
    mine, page = (run(ORACLE, Method(each, PLAIN), steps=STEPS, seeds=[SEED]).sfo[0, 0] for each in (Coin(), Page(0.5)))
    coins = np.diff(mine)
    assert 0 < coins.sum() < STEPS
    np.testing.assert_array_equal(np.diff(page), np.where(coins, 1, 2))


def test_the_types_of_numbers_mean_something() -> None:
    """For mypy, which refuses a `type: ignore` that ignores nothing."""
    assert Normalized([0.1, 0.2]).gamma == [0.1, 0.2]
    assert Normalized("fast").gamma == "fast"  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        _ = Normalized(0.1).gamma.shape  # type: ignore[union-attr]
