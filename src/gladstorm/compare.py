"""Methods on one problem at an equal budget of stochastic gradients, each tuned over equally many settings.

A setting is chosen on seeds of its own and reported on others. The score is the mean of ‖∇f‖ over the last tenth of the
iterates the budget paid for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from gladstorm.analysis import half_width
from gladstorm.compositions import spelled
from gladstorm.estimators import Estimator
from gladstorm.experiments.results import last_tenth, within
from gladstorm.files import save_table
from gladstorm.methods import Method
from gladstorm.oracles import Oracle
from gladstorm.parts import describe
from gladstorm.provenance import versions
from gladstorm.record import Record
from gladstorm.rules import COUNT
from gladstorm.simulate import sweep

FORMAT = "gladstorm comparison 1"
FIRST_TUNING_SEED = 1_000_000  # far from the seeds that are reported
PILOT = 20  # the share of the budget, one in so many, run first to see how many steps it pays for
MARGIN = 1.1  # on the steps of a method whose price per step varies
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Compared:
    """One method: every setting on the tuning seeds, and the best one on the reported seeds."""

    tuning: Record
    record: Record
    budget: int

    @property
    def at_edge(self) -> list[str]:
        """The numbers whose best value is the smallest or largest that was tried: a wider grid may do better."""
        settings = [_numbers(self.tuning.config["methods"][label]) for label in self.tuning.labels]
        tried = {name: {each[name] for each in settings} for name in settings[0]}
        best = settings[int(np.argmin(scores(self.tuning, self.budget)))]
        return [n for n, values in tried.items() if len(values) > 1 and best[n] in (min(values), max(values))]

    @property
    def ends(self) -> np.ndarray:
        """Per seed the index of the last recorded step within the budget."""
        ends: np.ndarray = within(self.record, self.budget)[0]
        return ends

    @property
    def last_tenth(self) -> np.ndarray:
        """The score of each reported seed."""
        values: np.ndarray = last_tenth(self.record, self.ends[None])[0]
        return values

    def as_dict(self) -> dict[str, Any]:
        """What is reported, JSON-ready."""
        record, ends = self.record, self.ends
        names = ("mean_grad_norm", "best_grad_norm", "drift2", "sfo", "max_batch")
        at_end = {name: getattr(record, name)[0][np.arange(ends.size), ends] for name in names}
        return {
            "label": record.labels[0],
            "method": record.config["methods"][record.labels[0]],
            "last_tenth": interval(self.last_tenth) | {"per_seed": _finite(self.last_tenth)},
            **{name: interval(at_end[name]) for name in names[:-1]},
            "steps": int(record.steps[ends].max()),
            "max_batch": int(at_end["max_batch"].max()),
            "diverged": int(np.sum(record.diverged[0] >= 0)),
            "settings": dict(zip(self.tuning.labels, _finite(scores(self.tuning, self.budget)), strict=True)),
            "at_edge": self.at_edge,
        }

    def curves(self) -> dict[str, Any]:
        """Means and standard deviations over seeds against stochastic gradients, up to the budget."""
        record, last = self.record, int(self.ends.min()) + 1
        named = {name: getattr(record, name)[0, :, :last] for name in ("grad_norm", "drift2", "max_batch")}
        spread = {name: {"mean": curve.mean(0), "std": curve.std(0)} for name, curve in named.items()}
        return {"sfo": record.sfo[0, :, :last].mean(0)} | spread


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a comparison; `found` has the methods that had finished."""

    def __init__(self, found: dict[str, Compared]) -> None:
        super().__init__()
        self.found = found


def compare(
    oracle: Oracle,
    methods: Mapping[str, Method],
    *,
    budget: int,
    seeds: int = 10,
    tuning_seeds: int = 3,
    progress: bool = True,
) -> dict[str, Compared]:
    """Tune and run every method within `budget` stochastic gradients; an entry of a method's arrays is a setting.

    All methods have as many settings, or one: another number would be another chance to be lucky. Ctrl-C raises
    `Interrupted`, whose `found` holds the methods that had finished.

    >>> from gladstorm import BlumGladyshev, nsgdm, objectives
    >>> oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), B=0.1, G=0.1)
    >>> found = compare(oracle, {"NSGDM": nsgdm([1e-3, 1e-2], 0.1)}, budget=200, seeds=2)
    >>> found["NSGDM"].as_dict()["sfo"]["mean"]
    200.0
    """
    for name, count in (("budget", budget), ("seeds", seeds), ("tuning_seeds", tuning_seeds)):
        COUNT.require("compare", name, count)
    counts = {name: _settings(method) for name, method in methods.items()}
    if len({count for count in counts.values() if count > 1}) > 1:
        listed = ", ".join(f"{count} for {name}" for name, count in counts.items())
        raise ValueError(f"compare: every method must be tuned over as many settings, or be fixed; got {listed}.")
    groups: dict[int, dict[str, Method]] = {}
    for name, method in methods.items():
        groups.setdefault(int(np.log2(_price(_setting(method, 0)))), {})[name] = method
    found: dict[str, Compared] = {}
    apart = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + tuning_seeds)
    try:
        for group in groups.values():  # methods of about the same price take about as many steps: they run together
            if progress:
                sys.stderr.write(f"compare: {len(group)} of {len(methods)} methods, {', '.join(briefly(group))} …\n")
            tuning = _spending(oracle, group, budget, apart, progress)
            best = {name: int(np.argmin(scores(tuning[name], budget))) for name in group}
            chosen = {tuning[name].labels[row]: _setting(group[name], row) for name, row in best.items()}
            reported = _spending(oracle, chosen, budget, range(seeds), progress)
            runs = dict(zip(group, reported.values(), strict=True))
            found |= {name: Compared(tuning[name], runs[name], budget) for name in group}
    except KeyboardInterrupt as interrupt:
        raise Interrupted(found) from interrupt
    return {name: found[name] for name in methods}


def briefly(texts: Iterable[str]) -> list[str]:
    """The names in each method's text without the numbers, counted where they repeat.

    >>> briefly(["storm(eta=1e-3) + plain(gamma=power_decay(initial=1,exponent=0.5))", "sgd(gamma=1)", "sgd"])
    ['storm+plain', 'sgd', 'sgd #2']
    """
    brief: list[str] = []
    for text in texts:
        shorter, name = "", text
        while shorter != name:
            shorter, name = name, re.sub(r"\([^()]*\)|\s", "", name)
        count = 1 + sum(each.partition(" ")[0] == name for each in brief)
        brief.append(name if count == 1 else f"{name} #{count}")
    return brief


def scores(tuning: Record, budget: int) -> np.ndarray:
    """Per setting the mean over the tuning seeds; ∞ where a run has diverged."""
    values = last_tenth(tuning, within(tuning, budget)).mean(axis=-1)
    return np.where(np.isfinite(values), values, np.inf)


def _settings(method: Method) -> int:
    return max(np.size(number) for number in jax.tree.leaves(method, is_leaf=_is_list))


def _price(method: Method) -> float:
    """The least stochastic gradients the first step may cost."""
    estimator = method.estimator
    afresh, onward = (method.batch(np.int64(1), np.float64(0.0), refresh=each) for each in (True, False))
    starts_afresh = type(estimator).refreshes is not Estimator.refreshes
    price = onward * estimator.queries
    return float(min(afresh, price) if starts_afresh else price) * estimator.samples


def _setting(method: Method, row: int) -> Method:
    """One entry of a method's arrays."""
    count = _settings(method)

    def number(value: Any) -> Any:
        return np.broadcast_to(np.asarray(value, np.float64), (count,))[row]

    setting: Method = jax.tree.map(number, method, is_leaf=_is_list)
    return setting


def _is_list(node: Any) -> bool:
    return isinstance(node, list | tuple)


def _spending(
    oracle: Oracle, methods: Mapping[str, Method], budget: int, seeds: Sequence[int], progress: bool
) -> dict[str, Record]:
    """Runs long enough for each to spend the budget. Another number of steps recompiles nothing."""
    most, steps = budget, min(-(-budget // PILOT), budget)  # a step costs at least one
    while True:
        record = sweep(oracle, methods, steps=steps, seeds=seeds, progress=progress)
        spent = np.where(record.diverged >= 0, np.inf, record.sfo[..., -1])
        if spent.min() >= budget or steps >= most:
            break
        steps = min(most, _steps_for(record, budget))
    ends = np.cumsum([_settings(method) for method in methods.values()])
    labels = (record.labels[end - _settings(method) : end] for end, method in zip(ends, methods.values(), strict=True))
    return {name: record.only(*own) for name, own in zip(methods, labels, strict=True)}


def _steps_for(record: Record, budget: int) -> int:
    """How many steps the budget pays for in every run, at the price of a step so far."""
    alive = record.diverged < 0
    sfo, steps = record.sfo[alive], int(record.steps[-1])
    prices = np.diff(sfo[:, 1:], axis=-1) / np.diff(record.steps[1:])
    needed = np.ceil(steps + np.maximum(budget - sfo[:, -1], 0) / prices.mean(axis=-1))
    varying = np.ptp(prices, axis=-1) > 0
    return int(np.where(varying, np.ceil(MARGIN * needed) + 1, needed).max())


def interval(values: np.ndarray, comparisons: int = 1) -> dict[str, Any]:
    """The mean over seeds with Student's interval, as JSON-ready data; None where a seed's number is not finite.

    With several comparisons the intervals hold together with 95 % (Bonferroni).

    >>> interval(np.array([1.0, 3.0]))["mean"]
    2.0
    """
    values = np.asarray(values, float)
    if not np.all(np.isfinite(values)):
        return {"mean": None, "low": None, "high": None}
    half = half_width(values, 1 - (1 - CONFIDENCE) / comparisons) if values.size > 1 else 0.0
    mean = float(values.mean())
    return {"mean": mean, "low": mean - half, "high": mean + half}


def ratio(scores: np.ndarray, reference: np.ndarray, comparisons: int = 1) -> dict[str, Any]:
    """The geometric mean of scores/reference, seed by seed on the same noise, with its interval: below 1 is better.

    >>> ratio(np.array([1.0, 2.0]), np.array([2.0, 4.0]))["mean"]
    0.5
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = interval(np.log(scores) - np.log(reference), comparisons)
    return {name: None if value is None else float(np.exp(value)) for name, value in logs.items()}


def against_first(found: Mapping[str, Compared]) -> dict[str, dict[str, Any]]:
    """Every other method's scores relative to those of the first, their number accounted for."""
    first, *others = found
    return {name: ratio(found[name].last_tenth, found[first].last_tenth, comparisons=len(others)) for name in others}


def save(found: Mapping[str, Compared], path: Path, config: Mapping[str, Any]) -> None:
    """Every recorded step of every run, tuning included, as one parquet file with its configuration."""
    frames = [
        record.to_pandas().drop(columns=["gap", "last", "sampled"]).assign(compared=name, stage=stage)
        for name, each in found.items()
        for stage, record in (("tuning", each.tuning), ("reported", each.record))
    ]
    save_table(path, pd.concat(frames, ignore_index=True), FORMAT, {"config": dict(config)})


def methods_from(texts: Sequence[str], gammas: Sequence[float], given: Mapping[str, Any]) -> dict[str, Method]:
    """The methods of some texts; those that leave γ out get all of `gammas`, and others of `given` what they need."""
    if repeated := [text for text in texts if texts.count(text) > 1]:
        raise ValueError(f"compare: every method must be given once; got {repeated[0]!r} {len(repeated)} times.")
    return {text: spelled(text, {**given, "gamma": list(gammas)}) for text in texts}


def configured(oracle: Oracle, found: Mapping[str, Compared], budget: int) -> dict[str, Any]:
    """What was compared, JSON-ready."""
    return {
        "oracle": describe(oracle),
        "budget": budget,
        "seeds": next((each.record.seeds.tolist() for each in found.values()), []),
        "tuning_seeds": next((each.tuning.seeds.tolist() for each in found.values()), []),
        "versions": versions(),
    }


def _numbers(described: Any, path: str = "") -> dict[str, float]:
    """Every number of a described method by its path.

    >>> _numbers({"type": "Method", "step": {"type": "Plain", "gamma": 0.5}})
    {'step.gamma': 0.5}
    """
    if isinstance(described, Mapping):
        inner = (_numbers(value, f"{path}.{name}" if path else name) for name, value in described.items())
        return {name: number for each in inner for name, number in each.items()}
    return {path: described} if isinstance(described, int | float) else {}


def _finite(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
