"""The results of a comparison for one method: scores, marks, warnings, curves; and files of several methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gladstorm.comparison.scores import (
    at,
    at_edge,
    failed,
    in_json,
    interval,
    positive_interval,
    ratio,
    reported,
    reported_scores,
    within,
)
from gladstorm.core.estimate import Estimate
from gladstorm.core.screen import LINE, cut_to, html_picture, html_table
from gladstorm.core.statistics import finite_list
from gladstorm.jobs.files import save_table
from gladstorm.simulation.configurations import argument
from gladstorm.simulation.record import Record
from gladstorm.simulation.tables import POINTS

COMPARISON_FORMAT = "gladstorm comparison 3"
MARKS = {"*": "a tuned number is at the edge of its grid", "↑": "f ended above f(x⁰)"}  # of what `warnings` says more
NO_SCALES = ("power", "horizon")  # numbers of a decay: to have one or not is no scale that could be wider


@dataclass(frozen=True)
class Relative:
    """Scores of a method divided by those of another, seed by seed: below 1 is better; no gap without inf f."""

    grad_norm: Estimate
    gap: Estimate | None

    def as_dict(self) -> dict[str, Any]:
        """Return the ratios with the names that the JSON of a comparison has."""
        return {"grad_norm": in_json(self.grad_norm), "gap": None if self.gap is None else in_json(self.gap)}


@dataclass(frozen=True)
class Compared:
    """One method in a comparison: all settings on the tuning seeds, and the best one on the reported seeds."""

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
        return np.asarray(within(self.record, self.budget)[0])

    @property
    def grad_norm(self) -> np.ndarray:
        """The score of each reported seed: ‖∇f‖ at the point that the method reports when the budget is spent."""
        return np.asarray(reported(self.record, self.budget)[0])

    @property
    def value(self) -> np.ndarray:
        """f of each reported seed at the point that the method reports when the budget is spent."""
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
        """The marks of `MARKS` that apply, for tables and legends."""
        return "".join(mark for mark, holds in zip(MARKS, (self.at_edge, self.ascends), strict=True) if holds)

    @property
    def warnings(self) -> list[str]:
        """Why the choice of tuning, or its ‖∇f‖, may not be what it looks like; a sentence for each reason."""
        reasons = []
        if not np.isfinite(self.settings).any():
            reasons.append("every setting diverged on a tuning seed, so that none was better than the others.")
        for field in self.at_edge:
            side = "smallest" if self._chosen(field) == self.tuning.numbers(field).min() else "largest"
            chosen = f"{argument(field)}={self._chosen(field):.3g}"
            reasons.append(f"{chosen} is the {side} value tried; a wider grid may do better.")
        if self.ascends:
            seeds = f"{self.above_start} of {self.record.seeds.size} seeds"
            reasons.append(f"f ended above f(x⁰), or the run diverged, on {seeds}; a small ‖∇f‖ there is no solution.")
        return reasons

    @property
    def as_tuned(self) -> Record:
        """The reported runs under the name that the method has in `tuning`, with the tuned numbers as swept ones."""
        setting = self.tuning.configurations[0]
        chosen = replace(self.record.configurations[0], name=setting.name, swept=setting.swept)
        return replace(self.record, configurations=(chosen,))

    @property
    def text(self) -> str:
        """The method's text with the values that tuning chose."""
        return self.as_tuned.configurations[0].text

    def runs(self) -> list[tuple[dict[str, str], Record]]:
        """Return the runs that a page shows: the reported ones, and all that were tried."""
        return [
            ({"runs": "on the reported seeds, as tuned"}, self.as_tuned),
            ({"runs": "on the tuning seeds, every setting"}, self.tuning),
        ]

    def relative_to(self, other: Compared, comparisons: int = 1) -> Relative:
        """Return the ratios to another method in ‖∇f‖ and in f − inf f, each with its interval.

        Args:
            other: the method it is divided by, on the same seeds.
            comparisons: how many intervals are to be valid at the same time.
        """
        gap = None if self.gap is None or other.gap is None else ratio(self.gap, other.gap, comparisons)
        return Relative(ratio(self.grad_norm, other.grad_norm, comparisons), gap)

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The means over the reported seeds, where the budget is spent, each with its interval."""
        record, gap = self.record, self.gap
        scores = {"grad_norm": positive_interval(self.grad_norm), "value": interval(self.value)}
        scores |= {} if gap is None else {"gap": positive_interval(gap)}
        names = ("mean_grad_norm", "best_grad_norm", "drift2", "sfo")
        return scores | {name: positive_interval(at(getattr(record, name)[0], self.ends)) for name in names}

    @property
    def steps(self) -> int:
        """The most steps that the budget paid for on a reported seed."""
        return int(self.record.steps[self.ends].max())

    @property
    def max_batch(self) -> int:
        """The largest batch within the budget, over the reported seeds."""
        return int(at(self.record.max_batch[0], self.ends).max())

    def as_dict(self) -> dict[str, Any]:
        """All that is reported about the method, as JSON-ready data."""
        per_seed = {"grad_norm": self.grad_norm, "value": self.value, "gap": self.gap}
        estimates: dict[str, Any] = {"gap": None} | {name: in_json(each) for name, each in self.estimates.items()}
        for name, values in per_seed.items():
            if values is not None:
                estimates[name]["per_seed"] = finite_list(values)
        return {
            "label": self.record.labels[0],
            "method": self.record.config["methods"][self.record.labels[0]],
            **{name: estimates.pop(name) for name in per_seed},
            **estimates,
            "steps": self.steps,
            "max_batch": self.max_batch,
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
        facts = self._facts()
        table = html_table("Compared: means over the reported seeds", [list(facts), list(facts.values())])
        return table + html_picture(self.record.plot, f"‖{self.record.field}‖ against stochastic gradients")

    def _facts(self) -> dict[str, str]:
        with np.errstate(invalid="ignore", over="ignore"):
            means = {f"‖{self.record.field}‖": f"{self.grad_norm.mean():.4g}", "f": f"{self.value.mean():.4g}"}
        edge = f" ({' and '.join(self.at_edge)} at the edge of its grid)" if self.at_edge else ""
        return {
            **means,
            "diverged": f"{self.diverged} of {self.record.seeds.size} seeds",
            "tuned": (self.tuned or "nothing") + edge,
            "budget": f"{self.budget:,} stochastic gradients",
        }


def against_first(results: Mapping[str, Compared]) -> dict[str, Relative]:
    """Return every other method relative to the first, in ‖∇f‖ and, where it is known, in f − inf f.

    For each of the two, all intervals are valid at the same time.
    """
    first, *others = results
    return {name: results[name].relative_to(results[first], len(others)) for name in others}


def save(results: Mapping[str, Compared], path: Path, config: Mapping[str, Any]) -> None:
    """Every recorded step of every run, tuning included, as one parquet file with its configuration."""
    tables = [
        record.to_arrow()
        .drop_columns(list(POINTS))
        .append_column("compared", pa.repeat(name, record.grad_norm.size))
        .append_column("stage", pa.repeat(stage, record.grad_norm.size))
        for name, result in results.items()
        for stage, record in (("tuning", result.tuning), ("reported", result.record))
    ]
    save_table(path, [pa.concat_tables(tables, promote_options="default")], COMPARISON_FORMAT, {"config": dict(config)})
