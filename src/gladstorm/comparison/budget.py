"""Runs that spend a budget of stochastic gradients: how many steps it pays for is seen on the way, per method.

What lasts as long as the run, such as a decay to zero, lasts as long as the budget: the steps of a method whose price
per step is fixed are known exactly; of one whose price varies they are foreseen from its own runs, setting by setting.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from gladstorm.methods import Method
from gladstorm.methods.method import is_list, settings_of
from gladstorm.methods.schedules import RunLength
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation.record import Record

PILOT = 20  # the share of the budget, one in so many, run first to see how many steps it pays for
LONGER_BY = 1.1  # on the steps of a method whose price per step varies
OFF = 0.01  # by how much the end of a decay may miss that of the budget, on average over seeds
ROUNDS = 4  # of runs in which it may be sought


def setting(method: Method, row: int) -> Method:
    """One entry of a method's arrays."""
    shape = (settings_of(method),)
    chosen: Method = jax.tree.map(
        lambda value: np.broadcast_to(np.asarray(value, np.float64), shape)[row], method, is_leaf=is_list
    )
    return chosen


def require_a_first_step(oracle: Oracle, methods: Mapping[str, Method], budget: int) -> None:
    """Raise a ValueError unless every setting can pay for x¹: with less, starts would be compared."""
    settings = {name: [setting(method, row) for row in range(settings_of(method))] for name, method in methods.items()}
    needed = {name: max(int(sum(_prices(oracle, method))) for method in listed) for name, listed in settings.items()}
    dearest = max(needed, key=lambda name: needed[name])
    if budget < needed[dearest]:
        raise ValueError(
            f"compare: budget must pay for the first step of every method, {needed[dearest]} stochastic gradients for "
            f"{dearest}; got budget={budget}."
        )


def alike(oracle: Oracle, methods: Mapping[str, Method]) -> list[dict[str, Method]]:
    """The methods in groups that take about as many steps, to be run together.

    One whose average depends on where the run ends is alone: its runs end with its budget.
    """
    groups: dict[Any, dict[str, Method]] = {}
    for name, method in methods.items():
        alone = method.average is not None and method.average.of_the_run
        key = name if alone else int(np.log2(_prices(oracle, setting(method, 0))[1]))
        groups.setdefault(key, {})[name] = method
    return list(groups.values())


def _prices(oracle: Oracle, method: Method) -> tuple[float, float]:
    """The stochastic gradients of v⁰, and the least that v¹ may cost."""
    estimator, largest = method.estimator, oracle.largest or np.inf
    with jax.enable_x64(True):
        sizes = [float(method.batch(k, 0.0, refresh)) for k, refresh in ((0, True), (1, True), (1, False))]
    first, afresh, onward = (min(size, largest) for size in sizes)
    onward *= estimator.queries
    least = min(afresh, onward) if estimator.starts_afresh else onward
    return first * estimator.samples, least * estimator.samples


def spend(
    simulate: Callable[..., Record], methods: Mapping[str, Method], budget: int, seeds: Sequence[int]
) -> dict[str, Record]:
    """Runs long enough for each to spend the budget. Another number of steps recompiles nothing.

    Where a method's price per step varies, its decay ends with the budget within 1 % on average over seeds, or as near
    as four rounds bring it.
    """
    steps, rounds = pilot(budget), 1
    horizons = {name: np.full(settings_of(method), float(steps)) for name, method in methods.items()}
    while True:
        lasting = {name: _lasting(method, horizons[name]) for name, method in methods.items()}
        record = simulate(lasting, steps=steps, seeds=seeds)
        ends = {name: steps_for(record[name], budget) for name in methods}
        enough = steps >= min(budget, max(int(last.max()) for last in ends.values()))  # a step costs at least one
        foreseen = {name: last.mean(axis=1) for name, last in ends.items()}
        off = max(np.max(np.abs(foreseen[name] / horizons[name] - 1)) * _lasts(methods[name]) for name in methods)
        if enough and (off <= OFF or rounds == ROUNDS):
            return {name: record[name] for name in methods}
        horizons, rounds = foreseen, rounds + enough
        steps = min(budget, max(_long_enough(record[name], ends[name]) for name in methods))


def pilot(budget: int) -> int:
    """The steps run first: of two the second has a price."""
    return max(2, -(-budget // PILOT))


def steps_for(record: Record, budget: int) -> np.ndarray:
    """Per run how many steps the budget pays for: counted if it was spent, else foreseen at the price so far.

    A run that diverged spends no more: the mean of the others stands for it.
    """
    sfo, steps = record.sfo.astype(float), record.steps
    price = (sfo[..., -1] - sfo[..., 1]) / (steps[-1] - steps[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        foreseen = steps[-1] + (budget - sfo[..., -1]) / price
    counted = [[np.interp(budget, run, steps) for run in runs] for runs in sfo]
    ends = np.floor(np.where(sfo[..., -1] >= budget, counted, foreseen) + 1e-9)
    ends = np.where(record.diverged >= 0, np.nan, ends)
    alive = np.isfinite(ends)
    mean = ends[alive].mean() if alive.any() else float(steps[-1])
    return np.maximum(1.0, np.where(alive, ends, mean))


def _long_enough(record: Record, ends: np.ndarray) -> int:
    """Steps that spend the budget in every run; with some more where the price so far is not that of all steps."""
    alive = record.diverged < 0
    prices = np.diff(record.sfo[alive][:, 1:], axis=-1) / np.diff(record.steps[1:])
    varies = prices.size > 0 and np.ptp(prices, axis=-1).max() > 0
    return int(np.ceil(LONGER_BY * ends.max()) + 1 if varies else ends.max())


def _lasting(method: Method, horizons: np.ndarray) -> Method:
    """The method with so many steps, one number for each of its settings, in place of the length of the run."""
    number = float(horizons[0]) if np.ptp(horizons) == 0 else horizons
    lasting: Method = jax.tree.map(lambda node: number if _is_length(node) else node, method, is_leaf=_is_length)
    return lasting


def _lasts(method: Method) -> bool:
    """Whether anything about a method depends on the length of the run."""
    return any(map(_is_length, jax.tree.leaves(method, is_leaf=_is_length)))


def _is_length(node: Any) -> bool:
    return isinstance(node, RunLength)
