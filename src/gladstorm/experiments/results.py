"""The runs of one experiment, stage by stage, as one parquet file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from gladstorm.files import load_table, save_table
from gladstorm.record import Record

FORMAT: Final = "gladstorm results 1"

MAIN: Final = "main"  # every method at its own step size: the paper's comparison, at equal iterations
EQUAL_STEP: Final = "equal step"  # NSGDM with NSTORM's step size
BUDGET: Final = "budget"  # methods scheduled or tuned for as many calls as NSGDM makes, where that changes them
TUNING: Final = "tuning"  # the grids
SENSITIVITY: Final = "sensitivity"  # the normalized methods at multiples of γ0


@dataclass(frozen=True)
class Results:
    """Records by (stage, method); a record's labels are its step sizes."""

    config: dict[str, Any]
    records: dict[tuple[str, str], Record]

    def runs(self, stage: str, method: str, gamma: float | None = None) -> Record:
        """The runs of a method at one step size; without one, at all the stage has."""
        record = self.records[stage, method]
        return record if gamma is None else record.only(label(gamma))

    def step_sizes(self, stage: str, method: str) -> list[float]:
        """The step sizes of a stage, in the order they were run."""
        return [float(each) for each in self.records[stage, method].labels]

    def at_budget(self, method: str) -> Record:
        """The runs of a method scheduled or tuned for the budget: its main ones if nothing changes for it."""
        return self.records[(BUDGET, method) if (BUDGET, method) in self.records else (MAIN, method)]

    def save(self, path: Path) -> None:
        """Write one long table, the configuration in its metadata; whole or not at all."""
        frames = [
            record.to_pandas()
            .rename(columns={"method": "gamma"})
            .assign(stage=stage, method=method)
            .astype({"gamma": float})
            for (stage, method), record in self.records.items()
        ]
        frame = pd.concat(frames, ignore_index=True).drop(columns="gap")
        first = ["stage", "method", "gamma"]
        inner = [{"stage": s, "method": m, "config": record.config} for (s, m), record in self.records.items()]
        columns = first + [column for column in frame if column not in first]
        save_table(path, frame[columns], FORMAT, {"config": self.config, "records": inner})

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read what `save` wrote; a ValueError says when a file is damaged or not results."""
        frame, metadata = load_table("Results.load", path, FORMAT)
        runs = frame.groupby(["stage", "method"], sort=False)
        records = {}
        for each in metadata["records"]:
            key = (each["stage"], each["method"])
            records[key] = Record.from_pandas(_labelled(runs.get_group(key)), each["config"])
        return cls(metadata["config"], records)


def _labelled(part: pd.DataFrame) -> pd.DataFrame:
    return part.assign(method=[label(gamma) for gamma in part["gamma"]])


def label(gamma: float) -> str:
    """A step size as a record's label: every digit of it."""
    return repr(float(gamma))


def last_tenth(record: Record, ends: np.ndarray | None = None) -> np.ndarray:
    """The mean of ‖∇f‖ over the last tenth of the iterates, per label and seed.

    It is exact: running means over all iterates are recorded. `ends` are indices into `record.steps`, one per label
    and seed, of the last iterate that counts; without it that is the last.
    """
    if ends is None:
        ends = np.full(record.grad_norm.shape[:2], record.steps.size - 1)
    starts = np.searchsorted(record.steps, 0.9 * record.steps[ends])
    starts = np.minimum(starts, np.maximum(ends - 1, 0))
    sums = record.mean_grad_norm * (record.steps + 1)

    def at(curve: np.ndarray, index: np.ndarray) -> np.ndarray:
        return np.take_along_axis(curve, index[..., None], axis=-1)[..., 0]

    count = record.steps[ends] - record.steps[starts]
    with np.errstate(invalid="ignore", over="ignore"):
        mean = (at(sums, ends) - at(sums, starts)) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, mean, at(record.grad_norm, ends)))


def within(record: Record, sfo: int) -> np.ndarray:
    """Per label and seed the index of the last recorded step that had spent at most `sfo` calls."""
    return np.asarray(np.maximum((record.sfo <= sfo).sum(axis=-1) - 1, 0))
