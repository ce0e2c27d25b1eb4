"""What was measured: numbers only, as arrays, as a tidy table, and as one parquet file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gladstorm.files import load_table, save_table

FORMAT = "gladstorm record 1"


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """Runs of some configurations (labels) × seeds, recorded at some steps.

    Curves have the axes (label, seed, recorded step); the mean and best are over *all* steps up to the recorded one, so
    `mean_grad_norm[..., -1]` is E‖∇f(x̂)‖ of the uniformly drawn output, exactly. Numbers of a run that diverged are not
    finite from the step `diverged` on (−1: it did not), and it draws no more samples.
    """

    labels: tuple[str, ...]
    seeds: np.ndarray
    steps: np.ndarray  # the recorded k, from 0 to K
    grad_norm: np.ndarray  # ‖∇f(x^k)‖
    value: np.ndarray  # f(x^k)
    drift2: np.ndarray  # ‖x^k − x⁰‖²
    batch: np.ndarray  # samples v^k averages
    max_batch: np.ndarray  # the largest batch up to step k
    sfo: np.ndarray  # stochastic gradients evaluated so far
    error: np.ndarray  # ‖v^k − ∇f(x^k)‖
    mean_grad_norm: np.ndarray  # over x⁰..x^k
    mean_error: np.ndarray
    best_grad_norm: np.ndarray
    diverged: np.ndarray  # (label, seed)
    last: np.ndarray  # x^K: (label, seed, d)
    sampled: np.ndarray  # x̂: (label, seed, d)
    sampled_step: np.ndarray  # its step: (seed,)
    config: dict[str, Any]

    @property
    def gap(self) -> np.ndarray:
        """f(x^k) − inf f; not a number where the objective declares no infimum."""
        return np.asarray(
            self.value - self.config["f_inf"] if self.config["f_inf"] is not None else self.value * np.nan
        )

    def only(self, *labels: str) -> Record:
        """The runs of some labels, in the order given."""
        if missing := [label for label in labels if label not in self.labels]:
            raise ValueError(f"Record.only: labels must be among {list(self.labels)}; got {missing[0]!r}.")
        rows = [self.labels.index(label) for label in labels]
        arrays = {name: getattr(self, name)[rows] for name in (*CURVES, *PER_RUN)}
        config = self.config | {"methods": {label: self.config["methods"][label] for label in labels}}
        return dataclasses.replace(self, labels=labels, config=config, **arrays)

    def on_seeds(self, count: int) -> Record:
        """The runs of the first `count` seeds."""
        arrays = {name: getattr(self, name)[:, :count] for name in (*CURVES, *PER_RUN)}
        arrays |= {"seeds": self.seeds[:count], "sampled_step": self.sampled_step[:count]}
        return dataclasses.replace(self, config=self.config | {"seeds": arrays["seeds"].tolist()}, **arrays)

    def to_pandas(self) -> pd.DataFrame:
        """One row per label, seed and recorded step.

        The columns are the curves, `diverged`, and the iterates `last` (x^K) and `sampled` (x̂) in a run's last row.
        """
        index = pd.MultiIndex.from_product([self.labels, self.seeds, self.steps], names=["method", "seed", "step"])
        table = pd.DataFrame({name: getattr(self, name).ravel() for name in CURVES}, index=index).reset_index()
        table.insert(table.columns.get_loc("drift2"), "gap", self.gap.ravel())  # type: ignore[arg-type]  # one column
        size = self.steps.size
        table["diverged"] = np.repeat(self.diverged.ravel(), size)
        table["sampled_step"] = np.tile(np.repeat(self.sampled_step, size), len(self.labels))
        for name in ("last", "sampled"):
            iterates = np.full(len(table), None, dtype=object)
            dim = getattr(self, name).shape[-1]
            iterates[size - 1 :: size] = [list(x) for x in getattr(self, name).reshape(-1, dim)]
            table[name] = iterates
        return table

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as parquet, configuration and versions in its metadata; whole or not at all."""
        save_table(Path(path), self.to_pandas().drop(columns="gap"), FORMAT, {"config": self.config})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """Read what `save` wrote; a ValueError says when a file is damaged or not a record."""
        frame, metadata = load_table("Record.load", Path(path), FORMAT)
        try:
            return cls.from_pandas(frame, metadata["config"])
        except ValueError as problem:
            raise ValueError(f"Record.load: {path} is damaged: {problem}") from problem

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame, config: dict[str, Any]) -> Record:
        """The record whose `to_pandas` the frame is."""
        labels, seeds, steps = (frame[column].unique() for column in ("method", "seed", "step"))
        shape = (len(labels), len(seeds), len(steps))
        if len(frame) != np.prod(shape):
            raise ValueError(f"{len(frame)} rows are not {shape} runs and steps.")
        ends = frame.iloc[len(steps) - 1 :: len(steps)]
        return cls(
            labels=tuple(labels),
            seeds=np.asarray(seeds),
            steps=np.asarray(steps),
            **{name: frame[name].to_numpy().reshape(shape) for name in CURVES},
            diverged=ends["diverged"].to_numpy().reshape(shape[:2]),
            last=np.stack(ends["last"].to_list()).reshape(*shape[:2], -1),
            sampled=np.stack(ends["sampled"].to_list()).reshape(*shape[:2], -1),
            sampled_step=ends["sampled_step"].to_numpy()[: shape[1]],
            config=config,
        )

    @staticmethod
    def stacked(records: Sequence[Record]) -> Record:
        """Records of different labels on the same seeds and steps, as one."""
        arrays = {name: np.concatenate([getattr(each, name) for each in records]) for name in (*CURVES, *PER_RUN)}
        methods = {label: method for each in records for label, method in each.config["methods"].items()}
        labels = tuple(label for each in records for label in each.labels)
        return dataclasses.replace(records[0], labels=labels, config=records[0].config | {"methods": methods}, **arrays)

    @staticmethod
    def joined(records: Sequence[Record]) -> Record:
        """Records of the same labels and steps on different seeds, as one."""
        axes = dict.fromkeys((*CURVES, *PER_RUN), 1) | {"seeds": 0, "sampled_step": 0}
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(each, name) for each in records], axis) for name, axis in axes.items()
        }
        config = records[0].config | {"seeds": arrays["seeds"].tolist()}
        return dataclasses.replace(records[0], config=config, **arrays)


CURVES = (
    "grad_norm",
    "value",
    "drift2",
    "batch",
    "max_batch",
    "sfo",
    "error",
    "mean_grad_norm",
    "mean_error",
    "best_grad_norm",
)
PER_RUN = ("diverged", "last", "sampled")
