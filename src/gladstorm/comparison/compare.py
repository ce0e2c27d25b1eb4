"""Methods on one problem at an equal budget of stochastic gradients, each tuned over equally many settings.

A setting is chosen on seeds of its own and reported on others. The score is ‖∇f‖ where a method says the solution is
when the budget is spent: at its last iterate, or at its average if it has one. f there is told beside it: a small ‖∇f‖
can be found at the wrong stationary point.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gladstorm.comparison.budget import alike, pilot, require_a_first_step, setting, spend
from gladstorm.comparison.intervals import interval, per_seed, ratio
from gladstorm.comparison.scores import at, at_edge, failed, reported, reported_scores, within
from gladstorm.core.calls import Defaults
from gladstorm.core.parts import describe
from gladstorm.core.rules import COUNT
from gladstorm.core.screen import LINE, cut_to, html_table, shown
from gladstorm.core.statistics import finite_list
from gladstorm.jobs.files import save_table
from gladstorm.jobs.progress import remark
from gladstorm.jobs.provenance import versions
from gladstorm.methods import Method, with_decay
from gladstorm.methods.method import settings_of
from gladstorm.methods.text import parse_method
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation.cluster import executor_of
from gladstorm.simulation.fitting import fit_method, fit_oracles, require_fit, require_memory
from gladstorm.simulation.record import POINTS, Record
from gladstorm.simulation.runs import Recording
from gladstorm.simulation.simulate import sweep

FORMAT = "gladstorm comparison 3"
FIRST_TUNING_SEED = 1_000_000  # far from the seeds that are reported
MARKS = {"*": "a tuned number is at the edge of its grid", "↑": "f ended above f(x⁰)"}  # of what `warnings` says more
NO_SCALES = ("power", "horizon")  # numbers of a decay: to have one or not is no scale that could be wider


@dataclass(frozen=True)
class Compared:
    """What `compare` found for one method: all settings on the tuning seeds, and the best one on the reported seeds."""

    tuning: Record
    record: Record
    budget: int

    @property
    def at_edge(self) -> list[str]:
        """The tuned numbers whose best value is the smallest or largest one tried: a wider grid may do better."""
        scales = [field for field in self.tuning.swept if field.rpartition(".")[2] not in NO_SCALES]
        return [field for field in scales if at_edge(self._chosen(field), self.tuning.numbers(field))]

    @property
    def tuned(self) -> str:
        """The values that tuning chose, as a text for a legend."""
        return ", ".join(f"{field}={self._chosen(field):.3g}" for field in self.tuning.swept)

    def _chosen(self, field: str) -> float:
        return float(self.tuning.numbers(field)[int(np.argmin(self.settings))])

    @property
    def settings(self) -> np.ndarray:
        """The score of every setting: its mean over the tuning seeds, ∞ if one diverged. Smaller is better."""
        return reported_scores(self.tuning, self.budget)

    @property
    def ends(self) -> np.ndarray:
        """For each seed, the index of the last recorded step within the budget."""
        ends: np.ndarray = within(self.record, self.budget)[0]
        return ends

    @property
    def grad_norm(self) -> np.ndarray:
        """The score of each reported seed: ‖∇f‖ at the point that the method reports when the budget is spent."""
        values: np.ndarray = reported(self.record, self.budget)[0]
        return values

    @property
    def value(self) -> np.ndarray:
        """f at the same point."""
        return at(self.record.reported_value[0], self.ends)

    @property
    def gap(self) -> np.ndarray | None:
        """f − inf f at the same point; None if the objective does not declare inf f."""
        infimum = self.record.config["f_inf"]
        return None if infimum is None else self.value - infimum

    @property
    def diverged(self) -> int:
        """On how many reported seeds the run diverged within the budget. Every mean over seeds is then not finite."""
        return int(np.sum(failed(self.record, self.ends[None])))

    @property
    def above_start(self) -> int:
        """On how many reported seeds f ended above f(x⁰), or the run diverged."""
        return int(np.sum(~(self.value <= self.record.value[0, :, 0])))

    @property
    def ascends(self) -> bool:
        """Whether f ended above f(x⁰) on most reported seeds: a small ‖∇f‖ that is no solution."""
        return 2 * self.above_start > self.record.seeds.size

    @property
    def marks(self) -> str:
        """Those of `MARKS` that apply, for tables and legends."""
        return "".join(mark for mark, holds in zip(MARKS, (self.at_edge, self.ascends), strict=True) if holds)

    @property
    def warnings(self) -> list[str]:
        """Why the choice of tuning, or its ‖∇f‖, may not be what it looks like; a sentence for each reason."""
        found = []
        if not np.isfinite(self.settings).any():
            found.append("every setting diverged on a tuning seed, so that none was better than the others.")
        for field in self.at_edge:
            side = "smallest" if self._chosen(field) == self.tuning.numbers(field).min() else "largest"
            found.append(f"{field}={self._chosen(field):.3g} is the {side} value tried; a wider grid may do better.")
        if self.ascends:
            seeds = f"{self.above_start} of {self.record.seeds.size} seeds"
            found.append(f"f ended above f(x⁰), or the run diverged, on {seeds}; a small ‖∇f‖ there is no solution.")
        return found

    def as_dict(self) -> dict[str, Any]:
        """All that is reported about the method, as JSON-ready data."""
        record, ends = self.record, self.ends
        names = ("mean_grad_norm", "best_grad_norm", "drift2", "sfo", "max_batch")
        at_end = {name: at(getattr(record, name)[0], ends) for name in names}
        return {
            "label": record.labels[0],
            "method": record.config["methods"][record.labels[0]],
            "grad_norm": per_seed(self.grad_norm),
            "value": per_seed(self.value),
            "gap": None if self.gap is None else per_seed(self.gap),
            **{name: interval(at_end[name]) for name in names[:-1]},
            "steps": int(record.steps[ends].max()),
            "max_batch": int(at_end["max_batch"].max()),
            "diverged": self.diverged,
            "settings": dict(zip(self.tuning.labels, finite_list(self.settings), strict=True)),
            "at_edge": self.at_edge,
            "above_start": self.above_start,
            "warnings": self.warnings,
        }

    def curves(self) -> dict[str, Any]:
        """Means and standard deviations over seeds, as functions of stochastic gradients up to the budget."""
        record, last = self.record, int(self.ends.min()) + 1
        named = {name: getattr(record, name)[0, :, :last] for name in ("grad_norm", "drift2", "max_batch")}
        spread = {name: {"mean": curve.mean(0), "std": curve.std(0)} for name, curve in named.items()}
        return {"sfo": record.sfo[0, :, :last].mean(0)} | spread

    def __repr__(self) -> str:
        return cut_to(f"Compared({', '.join(f'{name} = {value}' for name, value in self._facts().items())})", LINE)

    def _repr_html_(self) -> str:
        return html_table(
            "Compared: means over the reported seeds", [list(self._facts()), list(self._facts().values())]
        )

    def _facts(self) -> dict[str, str]:
        """What people ask for first, in words."""
        with np.errstate(invalid="ignore", over="ignore"):
            means = {f"‖{self.record.field}‖": f"{self.grad_norm.mean():.4g}", "f": f"{self.value.mean():.4g}"}
        edge = f" ({' and '.join(self.at_edge)} at the edge of its grid)" if self.at_edge else ""
        return {
            **means,
            "diverged": f"{self.diverged} of {self.record.seeds.size} seeds",
            "tuned": (self.tuned or "nothing") + edge,
            "budget": f"{self.budget:,} stochastic gradients",
        }


class ComparisonInterrupted(KeyboardInterrupt):
    """Ctrl-C during a comparison. `found` holds the methods that had finished."""

    def __init__(self, found: dict[str, Compared]) -> None:
        super().__init__()
        self.found = found


def compare(
    oracle: Oracle | Callable[[int], Oracle],
    methods: Mapping[str, Method],
    *,
    budget: int,
    seeds: int = 10,
    tuning_seeds: int = 3,
    progress: bool = True,
    store: str | os.PathLike[str] | None = None,
    executor: Any = None,
) -> dict[str, Compared]:
    """Tune every method, then run it on new seeds, all within the same budget of stochastic gradients.

    oracle: where stochastic gradients come from, or a function from a seed to it, so that every seed has its own start.
        With one start for all, steps of a fixed length may be lucky on every seed.
    methods: a dict of methods by name. Lists among a method's numbers are its settings; the best one is reported. All
        methods must have equally many settings, or just one, so that none has more chances to be lucky.
    budget: the number of stochastic gradients that each run may evaluate. A decay ends with the budget;
        `with_decay(method, [0, 1])` tries every setting without and with a linear decay.
    seeds: how many seeds are reported.
    tuning_seeds: how many other seeds choose the setting.
    progress, store, executor: as in `sweep`.

    Ctrl-C raises `ComparisonInterrupted`, whose `found` holds the methods that had finished.

    >>> from gladstorm import BlumGladyshev, nsgdm, objectives
    >>> def problem(seed):
    ...     return BlumGladyshev(objectives.named("power:3", seed=seed), B=0.1, G=0.1)
    >>> found = compare(problem, {"NSGDM": nsgdm([1e-3, 1e-2], 0.1)}, budget=200, seeds=2)
    >>> found["NSGDM"].as_dict()["sfo"]["mean"]
    200.0
    """
    for name, count in (("budget", budget), ("seeds", seeds), ("tuning_seeds", tuning_seeds)):
        COUNT.whole("compare", name, count)
    if not isinstance(methods, Mapping) or not all(isinstance(each, Method) for each in methods.values() or [None]):
        raise ValueError(f"compare: methods must be Method objects such as nsgdm(...) by name; got {shown(methods)}.")
    instances = fit_oracles([_of_seed(oracle, 0)], 1)
    methods = {name: fit_method(method) for name, method in methods.items()}
    require_fit(instances.first, (setting(method, 0) for method in methods.values()))
    counts = {name: settings_of(method) for name, method in methods.items()}
    if len({count for count in counts.values() if count > 1}) > 1:
        listed = ", ".join(f"{count} for {name}" for name, count in counts.items())
        raise ValueError(f"compare: all methods must have equally many settings, or just one; got {listed}.")
    require_a_first_step(instances.first, methods, budget)
    kept, times = tuning_seeds * sum(counts.values()) + seeds * len(methods), Recording(pilot(budget)).most
    require_memory(instances, kept, 1, times, times)
    found: dict[str, Compared] = {}
    apart = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + tuning_seeds)
    simulate = partial(sweep, progress=progress, store=store, executor=executor_of(executor))
    tune, report = (partial(simulate, _of_seeds(oracle, each)) for each in (apart, range(seeds)))
    try:
        for group in alike(instances.first, methods):
            if progress:
                remark(f"compare: {len(group)} of {len(methods)} methods, {', '.join(briefly(group))} …")
            tuning = spend(tune, group, budget, apart)
            rows = {name: int(np.argmin(reported_scores(tuning[name], budget))) for name in group}
            chosen = {tuning[name].labels[row]: setting(group[name], row) for name, row in rows.items()}
            runs = dict(zip(group, spend(report, chosen, budget, range(seeds)).values(), strict=True))
            found |= {name: Compared(tuning[name], runs[name], budget) for name in group}
    except KeyboardInterrupt as interrupt:
        raise ComparisonInterrupted(found) from interrupt
    return {name: found[name] for name in methods}


def _of_seed(oracle: Oracle | Callable[[int], Oracle], seed: int) -> Oracle:
    return oracle(seed) if callable(oracle) else oracle


def _of_seeds(oracle: Oracle | Callable[[int], Oracle], seeds: Sequence[int]) -> Oracle | list[Oracle]:
    return [oracle(seed) for seed in seeds] if callable(oracle) else oracle


def briefly(texts: Iterable[str]) -> list[str]:
    """The names in each method's text without the numbers; what repeats is told apart by what it alone is given.

    >>> briefly(["storm(eta=1e-3) + plain(gamma=power_decay(initial=1,exponent=0.5))", "sgd(gamma=1)", "sgd"])
    ['storm+plain', 'sgd (gamma=1)', 'sgd']
    """
    texts = [re.sub(r"\s", "", text) for text in texts]
    names = [_without_arguments(text) for text in texts]
    given = [_arguments(text) for text in texts]
    brief = []
    for text, name, own in zip(texts, names, given, strict=True):
        same = [other for each, other in zip(names, given, strict=True) if each == name]
        alone = [argument for argument in own if sum(argument in other for other in same) == 1]
        apart = f"{name} ({', '.join(alone)})" if alone else text
        brief.append(name if len(same) == 1 else apart)
    return brief


def _without_arguments(text: str) -> str:
    shorter = re.sub(r"\([^()]*\)", "", text)
    return text if shorter == text else _without_arguments(shorter)


def _arguments(text: str) -> list[str]:
    """What stands between the outermost parentheses of all parts, cut at the outermost commas."""
    depth, found = 0, [""]
    for character in text:
        depth -= character in ")]"
        if (depth == 1 and character == ",") or (depth == 0 and character in "()"):
            found.append("")
        elif depth:
            found[-1] += character
        depth += character in "(["
    return [each for each in found if each]


def against_first(found: Mapping[str, Compared]) -> dict[str, dict[str, Any]]:
    """Every other method relative to the first, in ‖∇f‖ and, where it is known, in f − inf f.

    For each of the two, all intervals are valid at the same time.
    """
    first, *others = found.values()

    def relative(one: np.ndarray | None, other: np.ndarray | None) -> dict[str, Any] | None:
        return None if one is None or other is None else ratio(one, other, comparisons=len(others))

    return {
        name: {"grad_norm": relative(each.grad_norm, first.grad_norm), "gap": relative(each.gap, first.gap)}
        for name, each in zip(list(found)[1:], others, strict=True)
    }


def save(found: Mapping[str, Compared], path: Path, config: Mapping[str, Any]) -> None:
    """Every recorded step of every run, tuning included, as one parquet file with its configuration."""
    tables = [
        record.to_arrow()
        .drop_columns(list(POINTS))
        .append_column("compared", pa.repeat(name, record.grad_norm.size))
        .append_column("stage", pa.repeat(stage, record.grad_norm.size))
        for name, each in found.items()
        for stage, record in (("tuning", each.tuning), ("reported", each.record))
    ]
    save_table(path, [pa.concat_tables(tables, promote_options="default")], FORMAT, {"config": dict(config)})


def methods_from(
    texts: Sequence[str], gammas: Sequence[float], given: Mapping[str, Any], *, decay: bool = False
) -> dict[str, Method]:
    """The methods of some texts; those that leave γ out get all of `gammas`, and others of `given` what they need.

    With `decay` each that has several settings has all of them twice: as they are, and with γ decaying linearly to 0.
    """
    if repeated := [text for text in texts if texts.count(text) > 1]:
        raise ValueError(f"compare: every method must be given once; got {repeated[0]!r} {len(repeated)} times.")
    given = given if isinstance(given, Defaults) else Defaults(given)
    given["gamma"] = list(gammas)
    methods = {text: parse_method(text, given) for text in texts}
    return {
        text: with_decay(method, [0, 1]) if decay and settings_of(method) > 1 else method
        for text, method in methods.items()
    }


def configured(oracle: Oracle | Callable[[int], Oracle], found: Mapping[str, Compared], budget: int) -> dict[str, Any]:
    """What was compared, JSON-ready; of an oracle for each seed, that of seed 0."""
    return {
        "oracle": describe(_of_seed(oracle, 0)),
        "starts": "one for each seed" if callable(oracle) else "one for all seeds",
        "budget": budget,
        "seeds": next((each.record.seeds.tolist() for each in found.values()), []),
        "tuning_seeds": next((each.tuning.seeds.tolist() for each in found.values()), []),
        "versions": versions(),
    }
