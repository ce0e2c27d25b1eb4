"""Runs that spend a budget: how many steps it pays for, and decays that end with it. Nothing is simulated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gladstorm import BlumGladyshev, Method, nsgdm, nstorm, sgd
from gladstorm.comparison import budget
from gladstorm.comparison.budget import alike, setting, spend
from gladstorm.comparison.compare import methods_from
from gladstorm.methods import with_decay
from gladstorm.methods.averages import TailAverage
from gladstorm.methods.method import settings_of
from gladstorm.methods.schedules import LinearDecay
from gladstorm.methods.text import parse_method
from gladstorm.problems import objectives


@dataclass
class Spent:
    """What `spend` reads of a record: stochastic gradients spent by each setting and seed of each method."""

    steps: np.ndarray
    by_name: dict[str, np.ndarray]
    methods: Mapping[str, Method]

    @property
    def sfo(self) -> np.ndarray:
        return np.concatenate(list(self.by_name.values()))

    @property
    def diverged(self) -> np.ndarray:
        return np.full(self.sfo.shape[:2], -1)

    def __getitem__(self, name: str) -> "Spent":
        return Spent(self.steps, {name: self.by_name[name]}, self.methods)


class Simulator:
    """Runs with a price known beforehand: the stochastic gradients of k steps, by method, setting and seed."""

    def __init__(self, **prices: Any) -> None:
        self.prices, self.asked = prices, list[int]()

    def __call__(self, methods: Mapping[str, Method], *, steps: int, seeds: Sequence[int]) -> Any:
        self.asked.append(steps)
        k = np.arange(steps + 1)
        spent = {
            name: np.array(
                [[self.prices[name](k, row, seed) for seed in seeds] for row in range(settings_of(methods[name]))]
            )
            for name in methods
        }
        return Spent(k, spent, methods)


def horizons(method: Any) -> Any:
    return method.step.gamma.horizon


def test_at_a_fixed_price_the_runs_and_their_decay_end_with_the_last_step_the_budget_pays_for() -> None:
    simulate = Simulator(cheap=lambda k, *_: 1 + k, dear=lambda k, *_: 5 + 3 * k)
    methods = {"cheap": with_decay(sgd([0.1, 0.2])), "dear": with_decay(sgd(0.1))}
    found: Any = spend(simulate, methods, 1000, range(2))
    made = found["cheap"].methods
    assert simulate.asked == [50, 999]  # a pilot, then as many as the cheaper one needs
    assert horizons(made["cheap"]) == 999
    assert horizons(made["dear"]) == (1000 - 5) // 3


def test_where_the_price_grows_the_decay_ends_where_the_budget_does_for_each_setting() -> None:
    def price(k: np.ndarray, row: int, seed: int) -> np.ndarray:
        return np.rint(1 + k + (row + 1) * (1 + seed / 10) * k**2 / 100)  # dearer with every step

    simulate = Simulator(growing=price)
    found: Any = spend(simulate, {"growing": with_decay(sgd([0.1, 0.2]))}, 10_000, range(2))
    k = np.arange(2000)
    ends = [np.mean([np.sum(price(k, row, seed) <= 10_000) - 1 for seed in range(2)]) for row in range(2)]
    np.testing.assert_allclose(horizons(found["growing"].methods["growing"]), ends, rtol=0.011)
    assert found["growing"].sfo[..., -1].min() >= 10_000  # every run spends all of it
    assert found["growing"].steps[-1] < 1.25 * max(ends)


def test_settings_that_begin_with_more_end_sooner() -> None:
    simulate = Simulator(storm=lambda k, row, _: (1, 101)[row] + 2 * k)
    found: Any = spend(simulate, {"storm": with_decay(nstorm(0.1, 0.1, n_init=[1, 101]))}, 1001, range(2))
    assert horizons(found["storm"].methods["storm"]).tolist() == [500, 450]


def test_without_anything_that_lasts_as_long_as_the_run_a_second_look_is_not_needed() -> None:
    simulate = Simulator(plain=lambda k, *_: 1 + k + k // 10)
    found: Any = spend(simulate, {"plain": sgd(0.1)}, 1000, range(2))
    assert len(simulate.asked) == 2
    assert found["plain"].methods["plain"] == sgd(0.1)


def test_methods_of_one_price_run_together_and_one_with_an_average_of_the_run_alone() -> None:
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 0.5)
    tail = Method(sgd(0.1).estimator, sgd(0.1).step, average=TailAverage())
    groups = alike(oracle, {"SGD": sgd(0.1), "NSTORM": nstorm(0.1, 0.1), "tail": tail, "NSGDM": nsgdm(0.1, 0.1)})
    assert [list(group) for group in groups] == [["SGD", "NSGDM"], ["NSTORM"], ["tail"]]


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        ("sgd(gamma=1)", (1, 1)),
        ("nstorm(gamma=1,eta=0.1,n_init=9)", (9, 2)),
        ("sgd(gamma=1,batch=3)", (3, 3)),
        ("storm(eta=0.1)+plain(gamma=1)+fixed(size=3)", (3, 6)),
        ("spider(q=5)+plain(gamma=1)+large_on_refresh(large=fixed(size=7),small=fixed(size=2))", (7, 4)),
        ("spider(q=5)+plain(gamma=1)+large_on_refresh(large=fixed(size=3),small=fixed(size=2))", (3, 3)),  # afresh
        ("spider(q=5)+plain(gamma=1)+first_large(n_init=9)", (9, 1)),
    ],
)
def test_the_least_that_v1_may_cost_is_that_of_going_on_or_of_starting_afresh(
    text: str, prices: tuple[int, int]
) -> None:
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 0.5)
    assert budget._prices(oracle, parse_method(text)) == prices


def test_with_decay_every_tuned_method_has_its_settings_twice_and_a_fixed_one_is_left_alone() -> None:
    made: Any = methods_from(["sgd", "nsgdm(gamma=0.1,eta=0.5)"], [0.1, 0.2], {}, decay=True)
    gamma = made["sgd"].step.gamma
    assert list(zip(gamma.initial, gamma.power, strict=True)) == [(0.1, 0), (0.1, 1), (0.2, 0), (0.2, 1)]
    assert made["nsgdm(gamma=0.1,eta=0.5)"] == nsgdm(0.1, 0.5)
    assert setting(made["sgd"], 3) == with_decay(sgd(0.2))


def test_a_schedule_of_any_part_lasts_as_long_as_the_budget() -> None:
    method = nsgdm(0.1, LinearDecay(0.5))
    found: Any = spend(Simulator(one=lambda k, *_: 1 + k), {"one": method}, 101, range(1))
    made: Any = found["one"].methods["one"]
    assert made.estimator.eta.horizon == pytest.approx(100)


def test_runs_are_longer_by_a_margin_if_the_price_of_any_of_them_varies() -> None:
    steps, methods = np.arange(11), {"sgd": sgd(0.1)}
    same, growing = 2 * steps, steps**2
    for runs, longest in (([same, same], 20), ([same, growing], 23), ([growing, growing], 23)):
        record: Any = Spent(steps, {"sgd": np.array([runs])}, methods)
        assert budget._long_enough(record, np.full((1, 2), 20.0)) == longest
