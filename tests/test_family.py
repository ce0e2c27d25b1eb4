"""The related work's estimators and steps: equal to the hand-unrolled ones, reducible, composable, priced, checked."""

import dataclasses
import itertools
from collections.abc import Callable
from functools import cache
from typing import Any, get_type_hints

import jax
import numpy as np
import optax
import pytest

import unrolled_family as by_hand
from gladstorm import (
    BlumGladyshev,
    GrowWithDistance,
    Method,
    estimators,
    nsgdm,
    nstorm,
    objectives,
    pasta,
    run,
    sgd,
    storm,
    sweep,
)
from gladstorm.batches import BatchRule, FirstLarge, Fixed, LargeOnRefresh, NestedLoops
from gladstorm.estimators import (
    ErrorFeedback,
    Fresh,
    LooplessSvrg,
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
from gladstorm.finite_sums import FiniteSum
from gladstorm.schedules import CubeRootDecay, PowerDecay, SquareOf
from gladstorm.simulate import _configurations
from gladstorm.steps import (
    Anchored,
    Clipped,
    FromOptax,
    GeneralizedSign,
    Normalized,
    Plain,
    Polyak,
    PowerNormalized,
    Sign,
    Step,
    ThreeWayClipped,
)
from gladstorm.steps import registry as steps_registry
from whole_step import begun, whole_step

STEPS, SEED = 16, 11
B, G, GAMMA, ETA = 0.6, 0.9, 0.02, 0.15
OBJECTIVE = objectives.named("double-well", dim=3, start=1.0)
ORACLE = BlumGladyshev(OBJECTIVE, B, G)
START = np.asarray(OBJECTIVE.start)


def exact(x: np.ndarray) -> Any:
    with jax.enable_x64(True):
        return np.asarray(OBJECTIVE.grad(x))


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
    with jax.enable_x64(True):
        value = float(OBJECTIVE.value(x))
    return x - (value + 1) / (np.sqrt(100) * (v @ v)) * v


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
    "loopless": (Method(LooplessSvrg(0.2), PLAIN, LARGE), lambda: by_hand.LooplessSvrg(0.2), lambda: plain, large),
    "page": (Method(Page(0.2), PLAIN, LARGE), lambda: by_hand.Page(0.2), lambda: plain, large),
    "normalized page": (Method(Page(0.2), UNIT, LARGE), lambda: by_hand.Page(0.2), lambda: normalized, large),
    "snvrg": (
        Method(Snvrg((2, 3)), PLAIN, NestedLoops(50, 1, (2, 3))),
        lambda: by_hand.Snvrg(2, 3),
        lambda: plain,
        nested,
    ),
    "mars": (Method(Mars(ETA, 0.4, 2.0), PLAIN), lambda: by_hand.Mars(1 - ETA, 0.4, 2.0), lambda: plain, one),
    "approximate mars": (
        Method(estimators.ApproximateMars(ETA, 0.4, 2.0), PLAIN),
        lambda: by_hand.ApproximateMars(1 - ETA, 0.4, 2.0),
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
    "sign": (Method(Fresh(), Sign(GAMMA)), fresh, lambda: lambda k, x, v: x - GAMMA * np.sign(v), one),
    "generalized sign": (Method(Fresh(), GeneralizedSign(GAMMA, 0.9)), fresh, lambda: Signs(0.9), one),
    "anchored": (Method(Fresh(), Anchored(PLAIN, 0.1, 9)), fresh, lambda: Anchor(0.1, 9), one),
    "halpern": (
        Method(Fresh(), Anchored(Plain(PowerDecay(0.25, 0.75, shift=2.0)), PowerDecay(2.0, 1.0, shift=2.0))),
        fresh,
        lambda: halpern,
        one,
    ),
    "polyak": (Method(Fresh(), Polyak(-1.0, 100)), fresh, lambda: polyak, one),
    "adam": (Method(Fresh(), FromOptax(GAMMA, optax_adam)), fresh, Adam, one),
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
            states.append(whole_step(oracle, method, states[-1], SEED, k) if k else begun(oracle, method, SEED))
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
    monkeypatch.setattr("gladstorm.layout.CHEAP_BYTES", 0)
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


FRESH = sgd(GAMMA)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Method(Page(1.0), PLAIN, LARGE), sgd(GAMMA, batch=GrowWithDistance(B, G, 0.05))),
        (pasta(GAMMA, B, G, 0.05), sgd(GAMMA, batch=GrowWithDistance(B, G, 0.05))),
        (Method(Storm(1.0), PLAIN), FRESH),
        (Method(Spider(1), PLAIN), FRESH),
        (Method(ErrorFeedback(ETA, 3), UNIT), nsgdm(GAMMA, ETA)),
        (Method(Fresh(), PowerNormalized(GAMMA, 1.0)), Method(Fresh(), UNIT)),
        (Method(Fresh(), PowerNormalized(GAMMA, 0.0)), FRESH),
        (Method(Fresh(), Anchored(PLAIN, 0.0, 7)), FRESH),
        (Method(Sarah(6), PLAIN, LARGE), Method(Spider(7), PLAIN, LARGE)),
        (Method(Svrg(1), PLAIN), FRESH),
        (Method(Fresh(), GeneralizedSign(GAMMA, 0.0)), Method(Fresh(), Sign(GAMMA))),
        (Method(Momentum(PowerDecay(ETA, 0.0)), Normalized(PowerDecay(GAMMA, 0.0))), nsgdm(GAMMA, ETA)),
    ],
    ids=lambda method: type(method.estimator).__name__ + "+" + type(method.step).__name__,
)
def test_what_reduces_to_another_method_is_that_method(one: Method, other: Method) -> None:
    np.testing.assert_array_equal(visited(one, 10).x, visited(other, 10).x)


def test_mars_without_clipping_is_storm_but_for_rounding() -> None:
    # (1 − η) v + η (g + (1 − η)/η (g − g⁻)) and g + (1 − η)(v − g⁻) are equal, but not as operations on floats.
    mars, exact_storm = visited(Method(Mars(ETA, 1.0, np.inf), PLAIN), 10).x, visited(storm(GAMMA, ETA), 10).x
    np.testing.assert_allclose(mars, exact_storm, rtol=0, atol=1e-15)


def test_with_exact_gradients_the_normalized_methods_agree_step_by_step() -> None:
    methods = [Method(Fresh(), PowerNormalized(GAMMA, 1.0)), nsgdm(GAMMA, 1.0), nstorm(GAMMA, ETA)]
    first, *others = [visited(method, 15, noise=(0.0, 0.0)) for method in methods]
    for other in others:
        np.testing.assert_allclose(other.x, first.x, rtol=0, atol=1e-14)


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


RULES: list[BatchRule] = [Fixed(2), FirstLarge(5), GrowWithDistance(B, G, 0.1), LARGE, NestedLoops(9)]


@pytest.mark.parametrize("name", estimators.registry())
def test_every_estimator_runs_with_every_step_and_every_batch_rule(name: str) -> None:
    estimator = example(estimators.registry()[name])
    oracle = finite() if name == "saga" else ORACLE
    moves: list[Any] = [example(step) for step in steps_registry().values()]
    with jax.enable_x64(True):
        for rule in RULES:
            state = begun(oracle, Method(estimator, PLAIN, rule), 0)
            for step in moves:
                own = state._replace(memory=step.init(state.point.x))
                after = whole_step(oracle, Method(estimator, step, rule), own, 0, 1)
                assert np.all(np.isfinite(after.point.x)), (step, rule)
                assert int(after.sfo) > int(state.sfo)


TWO: Any = [1, 2]  # a list where one number belongs


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (Method(estimators.Saga(), PLAIN), r"Saga: the oracle must be a FiniteSum, .* got BlumGladyshev\."),
        (Method(Spider(0), PLAIN), r"Spider: q must be a whole number ≥ 1; got q=0\."),
        (Method(Page(0.0), PLAIN), r"Page: p must be in \(0, 1\]; got p=0\.0\."),
        (Method(Page(1.5), PLAIN), r"Page: p must be in \(0, 1\]; got p=1\.5\."),
        (Method(ErrorFeedback(0.1, 4), PLAIN), r"ErrorFeedback: k must be at most the dimension, 3; got k=4\."),
        (
            Method(ErrorFeedback(0.1, 1, clients=TWO), PLAIN),
            r"ErrorFeedback: clients must be one number.* got \[1, 2\]",
        ),
        (Method(Snvrg((2, 0)), PLAIN), r"Snvrg: loops must be a whole number ≥ 1; got loops=0\."),
        (Method(Fresh(), Anchored(PLAIN, 1.5)), r"Anchored: weight must be in \[0, 1\]; got weight=1\.5\."),
        (Method(Momentum(PowerDecay(3.0, 0.5)), PLAIN), r"Momentum: eta must be in \(0, 1\]; got eta=3\.0\."),
        (Method(Fresh(), Plain(PowerDecay(-1.0, 0.5))), r"PowerDecay: initial must be finite and > 0; got initial=-1"),
    ],
)
def test_a_bad_composition_gets_one_clear_sentence(method: Method, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        run(ORACLE, method, steps=1)
    assert "\n" not in str(error.value)


def test_a_schedule_is_swept_like_any_number() -> None:
    labels = _configurations([Method(Fresh(), Plain(PowerDecay([0.1, 0.2], 0.5)))])
    assert list(labels) == ["fresh+plain (gamma.initial=0.1)", "fresh+plain (gamma.initial=0.2)"]


@cache
def finite() -> Any:
    return FiniteSum(objectives.named("phase-retrieval:20", dim=3, start=1.0))


def test_no_two_parts_have_equal_structures() -> None:
    kinds = [*estimators.registry().values(), *steps_registry().values()]
    for one, other in itertools.combinations(kinds, 2):
        structures: list[Any] = [jax.tree.structure(example(cls)) for cls in (one, other)]
        assert structures[0] != structures[1], (one, other)
