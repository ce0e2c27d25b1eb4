"""The runs of one experiment: its stages, the five methods as the paper's figures name them, and the paper's score."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from gladstorm.comparison.scores import at, within
from gladstorm.jobs.files import load_table, save_table
from gladstorm.methods import Method, sgd, storm
from gladstorm.methods.batches import GrowWithDistance
from gladstorm.simulation.record import Record

RESULTS_FORMAT: Final = "gladstorm results 3"

MAIN: Final = "main"  # every method at its own step size: the paper's comparison, at equal iterations
EQUAL_STEP: Final = "equal step"  # NSGDM with NSTORM's step size
BUDGET: Final = "budget"  # methods scheduled or tuned for as many calls as NSGDM makes, where that changes them
TUNING: Final = "tuning"  # the grids
SENSITIVITY: Final = "sensitivity"  # the normalized methods at multiples of γ0

NSGDM: Final = "NSGDM"
NSTORM: Final = "NSTORM"
SGD: Final = "SGD"
SGD_DYNAMIC: Final = "SGD, dynamic batch"
STORM_DYNAMIC: Final = "STORM, dynamic batch"

STORM_ETA: Final = 0.1  # η of the tuned STORM, which the paper does not state

# The methods whose step size is searched for: step sizes, and the rule of batches that grow, to a method.
TUNED: Final[dict[str, Callable[[list[float], GrowWithDistance], Method]]] = {
    SGD: lambda gammas, _: sgd(gammas),
    SGD_DYNAMIC: lambda gammas, growing: sgd(gammas, batch=growing),
    STORM_DYNAMIC: lambda gammas, growing: storm(gammas, STORM_ETA, batch=growing),
}
NORMALIZED: Final = (NSGDM, NSTORM)
DYNAMIC: Final = (SGD_DYNAMIC, STORM_DYNAMIC)
COMPARED: Final = (*NORMALIZED, *TUNED)


@dataclass(frozen=True)
class Results:
    """Records by (stage, method), with a configuration for each step size."""

    config: dict[str, Any]
    records: dict[tuple[str, str], Record]

    def runs(self, stage: str, method: str, gamma: float | None = None) -> Record:
        """The runs of a method at one step size; without one, at all the stage has."""
        record = self.records[stage, method]
        return record if gamma is None else record.where(gamma=gamma)

    def step_sizes(self, stage: str, method: str) -> list[float]:
        """The step sizes of a stage, in the order they were run."""
        gammas: list[float] = self.records[stage, method].numbers("gamma").tolist()
        return gammas

    def at_budget(self, method: str) -> Record:
        """The runs of a method scheduled or tuned for the budget: its main ones if nothing changes for it."""
        return self.records[(BUDGET, method) if (BUDGET, method) in self.records else (MAIN, method)]

    def save(self, path: Path) -> None:
        """Write one long table, the configuration in its metadata; whole or not at all."""
        tables, inner = [], []
        for (stage, method), record in self.records.items():
            table = record.to_arrow().drop_columns("method")
            named = {"stage": stage, "method": method}
            for place, (column, word) in enumerate(named.items()):
                table = table.add_column(place, column, pa.repeat(word, len(table)))
            tables.append(table)
            inner.append({**named, **record.metadata(), "rows": len(table)})
        whole = pa.concat_tables(tables, promote_options="default")
        save_table(path, [whole], RESULTS_FORMAT, {"config": self.config, "records": inner})

    @classmethod
    def load(cls, path: Path, experiment: str = "") -> Self:
        """Read what `save` wrote; a ValueError says when a file is damaged, no results, or of another experiment."""
        table, metadata = load_table("Results.load", path, RESULTS_FORMAT)
        held = metadata["config"].get("experiment")
        if experiment and held != experiment:
            raise ValueError(f"Results.load: {path} must hold results of {experiment}; got those of {held}.")
        records, first = {}, 0
        for described in metadata["records"]:
            rows = table.slice(first, described["rows"])
            records[described["stage"], described["method"]] = Record.from_arrow(rows, described)
            first += described["rows"]
        return cls(metadata["config"], records)


def last_tenth(record: Record, ends: np.ndarray | None = None) -> np.ndarray:
    """The mean of ‖∇f‖ over the last tenth of the iterates, per run.

    It is exact: running means over all iterates are recorded. `ends` are indices into `record.steps`, one per run, of
    the last iterate that counts; without it that is the last.
    """
    if ends is None:
        ends = np.full(record.grad_norm.shape[:2], record.steps.size - 1)
    starts = np.searchsorted(record.steps, 0.9 * record.steps[ends])
    starts = np.minimum(starts, np.maximum(ends - 1, 0))
    sums = record.mean_grad_norm * (record.steps + 1)
    count = record.steps[ends] - record.steps[starts]
    with np.errstate(invalid="ignore", over="ignore"):
        mean = (at(sums, ends) - at(sums, starts)) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, mean, at(record.grad_norm, ends)))


def scores(record: Record, budget: int | None = None) -> np.ndarray:
    """Per configuration the mean of `last_tenth` over seeds, within a budget if there is one; ∞ if a run diverged."""
    values = last_tenth(record, None if budget is None else within(record, budget)).mean(axis=-1)
    return np.asarray(np.where(np.isfinite(values), values, np.inf))


def best(record: Record, budget: int | None = None) -> int:
    """The row of the best score."""
    return int(np.argmin(scores(record, budget)))
