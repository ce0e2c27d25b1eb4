"""Schedules: their values by hand, to the end of a run whatever its length, and rules that hold at every step."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm import BlumGladyshev, Method, nsgdm, part, run, sgd, sweep
from gladstorm.methods import pasta, with_decay
from gladstorm.methods.estimators import Fresh, Momentum, Spider, Transported
from gladstorm.methods.schedules import (
    Clock,
    CosineDecay,
    CubeRootDecay,
    GeometricGrowth,
    LinearDecay,
    PowerDecay,
    RunLength,
    Schedule,
    SquareOf,
    resolved,
)
from gladstorm.methods.steps import Clipped, Plain, Polyak
from gladstorm.methods.text import parse_method
from gladstorm.problems import objectives
from gladstorm.simulation import engine

K = 8


@part
class Rising(Schedule):
    """k/K: it begins with 0."""

    def at(self, clock: Clock) -> Any:
        return jnp.asarray(clock.k / jnp.maximum(clock.horizon, 1))


def values(schedule: Any, horizon: int = K, steps: int = K) -> list[float]:
    with jax.enable_x64(True):
        return [float(resolved(schedule, Clock(k, 3.0, horizon))) for k in range(steps + 1)]


@pytest.mark.parametrize(
    ("schedule", "by_hand"),
    [
        (LinearDecay(0.4), lambda k: 0.4 * (1 - k / 8)),
        (LinearDecay(0.4, power=2.0), lambda k: 0.4 * (1 - k / 8) ** 2),
        (LinearDecay(0.4, power=0.0), lambda k: 0.4),
        (LinearDecay(0.4, horizon=5), lambda k: 0.4 * max(0.0, 1 - k / 5)),
        (LinearDecay(0.4, horizon=np.inf), lambda k: 0.4),
        (CosineDecay(0.4), lambda k: 0.2 * (1 + np.cos(np.pi * k / 8))),
        (CosineDecay(0.4, horizon=4), lambda k: 0.2 * (1 + np.cos(np.pi * min(k, 4) / 4))),
        (GeometricGrowth(0.4, 81.0), lambda k: 0.4 * 3 ** (k / 2)),
        (GeometricGrowth(0.4, 81.0, horizon=4), lambda k: 0.4 * 3 ** min(k, 4)),
        (LinearDecay(PowerDecay(0.4, 1.0)), lambda k: 0.4 / (k + 1) * (1 - k / 8)),
        (LinearDecay(PowerDecay(0.4, 0.5)), lambda k: 0.4 * (1 - k / 8) / np.sqrt(k + 1)),
        (LinearDecay(CubeRootDecay(0.4, 5.0)), lambda k: 0.4 / 2 * (1 - k / 8)),
        (SquareOf(2.0, CosineDecay(0.4)), lambda k: 2 * 0.04 * (1 + np.cos(np.pi * k / 8)) ** 2),
        (PowerDecay(RunLength(), 1.0), lambda k: 8 / (k + 1)),
    ],
    ids=lambda given: "" if callable(given) else repr(given),
)
def test_a_schedule_has_the_value_of_its_formula_at_every_step(schedule: Any, by_hand: Any) -> None:
    np.testing.assert_allclose(values(schedule), [by_hand(k) for k in range(K + 1)], rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("decay", [LinearDecay, CosineDecay])
def test_a_decay_is_zero_at_the_end_exactly_and_stays_there(decay: Any) -> None:
    assert values(decay(0.3), horizon=7, steps=9)[7:] == [0.0, 0.0, 0.0]
    assert values(decay(0.3), horizon=0, steps=0) == [0.3]  # a run of no steps has a first number all the same


ORACLE = BlumGladyshev(objectives.named("quadratic", dim=2, start=1.0), 0.0, 0.0)  # ∇f(x) = x


def test_a_decay_without_a_horizon_ends_with_the_run_and_the_run_s_length_recompiles_nothing() -> None:
    method = sgd(LinearDecay([0.5, 0.2]))
    run(ORACLE, method, steps=3)
    advanced: Any = engine.advance
    compiled = advanced._cache_size()
    for steps in (4, 9):
        by_hand = [np.prod([1 - c * (1 - k / steps) for k in range(steps)]) for c in (0.5, 0.2)]
        record = run(ORACLE, method, steps=steps)
        np.testing.assert_allclose(record.last[:, 0, 0], by_hand, rtol=1e-14)
    given = run(ORACLE, sgd(LinearDecay([0.5, 0.2], horizon=[9, 18])), steps=9)
    np.testing.assert_allclose(given.last[0], record.last[0], rtol=1e-14)
    np.testing.assert_allclose(given.last[1, 0, 0], np.prod([1 - 0.2 * (1 - k / 18) for k in range(9)]), rtol=1e-14)
    assert advanced._cache_size() == compiled + 1  # with a horizon of its own it is another structure


def test_every_setting_is_tried_with_and_without_decay_in_one_method() -> None:
    both = with_decay(sgd([0.5, 0.2]), [0, 1])
    record = sweep(ORACLE, {"both": both, "without": sgd([0.5, 0.2]), "with": with_decay(sgd([0.5, 0.2]))}, steps=6)
    assert record.labels[:4] == tuple(f"both (gamma.initial={c}, gamma.power={p})" for c in (0.5, 0.2) for p in (0, 1))
    np.testing.assert_allclose(record["both"].last[0::2], record["without"].last, rtol=1e-14)
    np.testing.assert_allclose(record["both"].last[1::2], record["with"].last, rtol=1e-14)


def test_the_decay_is_that_of_the_step_size_and_of_nothing_else() -> None:
    decayed: Any = with_decay(pasta(0.1, B=1, G=1, sigma2=1, lam=0.5), horizon=100)
    assert decayed.step.step.gamma == LinearDecay(0.1, 100)
    assert decayed.step.weight == pytest.approx(0.05)
    assert with_decay(nsgdm(PowerDecay(0.1, 0.5), 0.2)).estimator == Momentum(0.2)
    with pytest.raises(ValueError, match=r"Polyak: the step must have a step size, a field gamma; it has none\."):
        with_decay(Method(Fresh(), Polyak(0.0)))


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("sgd(gamma=linear(initial=0.1))", sgd(LinearDecay(0.1))),
        ("sgd(gamma=linear(initial=[0.1,0.3],power=[0,1]))", with_decay(sgd([0.1, 0.3]), [0, 1])),
        ("sgd(gamma=cosine(initial=0.1,horizon=50))", sgd(CosineDecay(0.1, 50))),
        ("sgd(gamma=linear(initial=cosine(initial=0.1)))", sgd(LinearDecay(CosineDecay(0.1)))),
    ],
)
def test_a_schedule_is_written_as_text_and_its_lists_are_tuned(text: str, method: Method) -> None:
    compared = jax.tree.map(np.array_equal, parse_method(text), method)  # an error if they differ in structure
    assert all(jax.tree.leaves(compared))


def test_a_step_size_or_share_may_begin_or_end_at_zero() -> None:
    for method in (
        Method(Momentum(LinearDecay(0.5)), Plain(CosineDecay(0.1))),
        Method(Fresh(), Plain(Rising())),
        Method(Fresh(), Clipped(LinearDecay(Rising()), 1.0)),
    ):
        assert np.isfinite(run(ORACLE, method, steps=3).last).all()


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (sgd(LinearDecay(0.0)), r"LinearDecay: initial must be finite and > 0; got initial=0\.0\."),
        (sgd(LinearDecay(0.1, horizon=0)), r"LinearDecay: horizon must be > 0; got horizon=0\."),
        (sgd(LinearDecay([0.1, 0.2], [1, 2, 3])), r"LinearDecay: lists must have one length; got .* \(3,\)"),
        (
            Method(Transported(LinearDecay(0.5)), Plain(0.1)),
            r"Transported: eta must be in \(0, 1\] at every step; got eta=0\.0\.",
        ),
        (
            Method(Momentum(GeometricGrowth(0.1, 15.0, 10)), Plain(0.1)),  # too large only at the end
            r"Momentum: eta must be in \(0, 1\] at every step; got eta=1\.5\.",
        ),
        (
            Method(Spider(GeometricGrowth(1.0, 4.0)), Plain(0.1)),  # from 1 to 4, and not whole between
            r"Spider: q must be a whole number ≥ 1 at every step; got q=3\.12",
        ),
    ],
)
def test_a_schedule_that_breaks_a_rule_at_some_step_gets_one_clear_sentence(method: Method, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        run(ORACLE, method, steps=1)
    assert "\n" not in str(error.value)
