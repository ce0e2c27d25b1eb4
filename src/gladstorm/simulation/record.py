"""What was measured: numbers only, as arrays, as a tidy table, and as one parquet file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import gladstorm
from gladstorm.core.rules import COUNT, STEPS
from gladstorm.core.screen import LINE, LINES, cut_to, html_table, shown
from gladstorm.core.statistics import mean_of
from gladstorm.problems.objectives.trees import cut
from gladstorm.simulation.configurations import Configuration

if TYPE_CHECKING:  # half a second that only tables and files should take
    import pandas as pd
    import pyarrow as pa
    import xarray as xr
    from matplotlib.figure import Figure

    from gladstorm.theory import Plan

FORMAT = "gladstorm record 3"


class Against(NamedTuple):
    """What was measured beside what a theorem guarantees."""

    measured: float  #: E‖∇f(x̂)‖, the mean over iterates and seeds
    low: float  #: the lower end of its 95 % interval over seeds; NaN with one seed
    high: float  #: the upper end; NaN with one seed
    bound: float  #: the theorem's bound on it
    ratio: float  #: measured / bound


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """What was measured: every configuration (a method with its numbers) on every seed, at the recorded steps.

    Curves are arrays with the axes (configuration, seed, recorded step). Means and minima are over all steps up to the
    recorded one, so `mean_grad_norm[..., -1]` is exactly E‖∇f(x̂)‖ for an output x̂ drawn uniformly from the iterates.
    A method reports its average x̄ if it has one, and x^k otherwise.

    A run diverges at the first step with a gradient that is not finite, or at the first recorded step with an f that is
    not. From then on its numbers are not finite, and it evaluates no more samples.
    """

    configurations: tuple[Configuration, ...]  #: the methods, each with its numbers
    seeds: np.ndarray  #: the seeds
    steps: np.ndarray  #: the recorded steps k, from 0 to K
    grad_norm: np.ndarray  #: ‖∇f(x^k)‖
    value: np.ndarray  #: f(x^k)
    drift2: np.ndarray  #: ‖x^k − x⁰‖²
    batch: np.ndarray  #: samples that v^k averages
    max_batch: np.ndarray  #: the largest batch up to step k
    sfo: np.ndarray  #: stochastic gradients evaluated up to step k
    error: np.ndarray  #: ‖v^k − ∇f(x^k)‖
    mean_grad_norm: np.ndarray  #: the mean of ‖∇f‖ over x⁰..x^k
    mean_error: np.ndarray  #: the mean of ‖v − ∇f‖ over the same steps
    best_grad_norm: np.ndarray  #: the smallest ‖∇f‖ among x⁰..x^k
    reported_grad_norm: np.ndarray  #: ‖∇f‖ at the point that the method reports at step k
    reported_value: np.ndarray  #: f at that point
    diverged: np.ndarray  #: the step at which a run diverged, or −1: (configuration, seed)
    reached: np.ndarray  #: the last recorded step of a run: K, less after an interrupt, −1 if not begun
    last: np.ndarray  #: x^K: (configuration, seed, d)
    sampled: np.ndarray  #: x̂, drawn uniformly from x⁰..x^K: (configuration, seed, d)
    reported: np.ndarray  #: the point reported at step K: (configuration, seed, d)
    sampled_step: np.ndarray  #: the step of x̂: (seed,)
    config: dict[str, Any]  #: what was run, as JSON-ready data

    def __len__(self) -> int:
        """How many configurations there are."""
        return len(self.configurations)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A name for each configuration, with the numbers that tell it from others of that name."""
        return tuple(each.label for each in self.configurations)

    @property
    def swept(self) -> list[str]:
        """The fields for which `sweep` was given lists of numbers, such as gamma."""
        return list(dict.fromkeys(field for each in self.configurations for field in each.swept))

    def numbers(self, field: str) -> np.ndarray:
        """The value of a field, such as `gamma`, in every configuration; NaN in those that have no such field."""
        known = dict.fromkeys(name for each in self.configurations for name in each.numbers)
        if field not in known:
            raise ValueError(f"Record: the field must be one of {', '.join(known)}; got {field!r}.")
        return np.array([each.numbers.get(field, np.nan) for each in self.configurations])

    def __getitem__(self, name: str) -> Record:
        """The runs of the method that had this name in `sweep`, or of one label."""
        rows = [row for row, each in enumerate(self.configurations) if name in (each.name, each.label)]
        if not rows:
            known = list(dict.fromkeys(each.name for each in self.configurations))
            raise ValueError(f"Record: the name must be one of {shown(known, 300)} or a label; got {name!r}.")
        return self.select(rows)

    def where(self, **numbers: float) -> Record:
        """The runs of the configurations that have exactly these numbers, as in `record.where(gamma=0.1)`."""
        held = np.full(len(self), True)
        for field, value in numbers.items():
            held &= self.numbers(field) == value
        if not held.any():
            raise ValueError(f"Record.where: some configuration must have these numbers; got {shown(numbers)}.")
        return self.select(np.flatnonzero(held).tolist())

    def select(self, rows: Sequence[int]) -> Record:
        """The runs of the configurations with these indices, in the order given."""
        chosen = tuple(self.configurations[row] for row in rows)
        arrays = {name: getattr(self, name)[list(rows)] for name in (*CURVES, *PER_RUN)}
        methods = {each.label: self.config["methods"][each.label] for each in chosen}
        return dataclasses.replace(self, configurations=chosen, config=self.config | {"methods": methods}, **arrays)

    def __repr__(self) -> str:
        """The last numbers of every configuration, as many as fit on a screen."""
        rows, more = self._table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
        return "\n".join([self._title(), *(cut_to(line, LINE) for line in lines), *more])

    def _repr_html_(self) -> str:
        rows, more = self._table()
        return html_table(self._title(), rows, more)

    def _title(self) -> str:
        counted = f"{_counted(len(self), 'configuration')} × {_counted(self.seeds.size, 'seed')}"
        return f"Record: {counted}, {self.steps.size:,} of steps 0..{self.steps[-1]:,} recorded, means over seeds"

    def _table(self) -> tuple[list[list[str]], list[str]]:
        """Headings and rows, and a line about what is left out."""
        most = LINES - 4
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = [
                [f"{self.sfo[row, :, -1].mean():,.6g}"]
                + [f"{getattr(self, name)[row, :, -1].mean():.4g}" for name in ENDS]
                + [str(int((self.diverged[row] >= 0).sum()))]
                for row in range(min(len(self), most))
            ]
        rows = [[cut_to(label, 40), *each] for label, each in zip(self.labels, numbers, strict=False)]
        more = [f"… and {len(self) - most:,} more: record[name] selects"] if len(self) > most else []
        return [
            ["", "stochastic gradients", *(words.format(self.field) for words in ENDS.values()), "diverged"],
            *rows,
        ], more

    def against(self, plan: Plan) -> Against:
        """Compare E‖∇f(x̂)‖, the mean over all iterates and seeds, with the bound of the plan that was run.

        Args:
            plan: What `run(oracle, plan)` was given.

        Returns:
            The measured mean with its 95 % interval over seeds, the bound, and their ratio.

        Raises:
            ValueError: If the record has several configurations, or another number of iterates than the plan.

        >>> from gladstorm import BlumGladyshev, objectives, run, theory
        >>> oracle = BlumGladyshev(objectives.named("quadratic", dim=2, start=1.0), B=0.1, G=0.1)
        >>> plan = theory.Plan(theory.for_oracle(oracle, "nsgdm"), horizon=101)
        >>> record = run(oracle, plan, seeds=8)
        >>> record.against(plan).ratio < 1
        True
        """
        if len(self) != 1:
            raise ValueError(
                f"Record.against: must be asked of one configuration, as record[label] selects; got {len(self)}."
            )
        if self.steps[-1] != plan.horizon - 1:
            raise ValueError(
                f"Record.against: plan must be for the record's {self.steps[-1] + 1:,} iterates; got a horizon of "
                f"{plan.horizon:,}."
            )
        norms, bound = self.mean_grad_norm[0, :, -1], plan.statement.bound(plan.horizon)
        low, high = mean_of(norms).interval() if norms.size > 1 else (np.nan, np.nan)
        return Against(float(norms.mean()), low, high, bound, float(norms.mean()) / bound)

    def plot(self) -> Figure:
        """Draw ‖∇f(x^k)‖ against stochastic gradients: for each configuration, mean ± standard deviation over seeds.

        A notebook shows the figure that is returned.
        """
        return gladstorm.plot(self)

    def tree(self, name: Literal["last", "sampled", "reported"] = "last") -> dict[str, np.ndarray]:
        """One point of every run, as the named arrays that x consists of, with the axes (configuration, seed, …).

        A plain vector has the name x. Names inside nested trees are joined by dots, as in layers.0.bias.
        """
        if name not in POINTS:
            raise ValueError(f"Record.tree: name must be one of {', '.join(POINTS)}; got {name!r}.")
        arrays = cut(getattr(self, name), [each["shape"] for each in self.config["x"]])
        return dict(zip([each["name"] for each in self.config["x"]], arrays, strict=True))

    @property
    def field(self) -> str:
        """What `grad_norm` is the norm of: ∇f, or the name of the oracle's direction if that is no gradient."""
        name: str = self.config.get("field", "∇f")
        return name

    @property
    def gap(self) -> np.ndarray:
        """f(x^k) − inf f; NaN if the objective does not declare inf f."""
        return np.asarray(
            self.value - self.config["f_inf"] if self.config["f_inf"] is not None else self.value * np.nan
        )

    def on_seeds(self, count: int) -> Record:
        """The runs of the first `count` seeds."""
        COUNT.require("Record.on_seeds", "count", count)
        arrays = {name: getattr(self, name)[:, :count] for name in (*CURVES, *PER_RUN)}
        arrays |= {"seeds": self.seeds[:count], "sampled_step": self.sampled_step[:count]}
        config = self.config | {"seeds": arrays["seeds"].tolist()} | _described(self._oracles()[:count])
        return dataclasses.replace(self, config=config, **arrays)

    def _oracles(self) -> list[Any]:
        """What is said of the oracle of each seed; nothing if `config` does not say it."""
        oracle = self.config.get("oracle", [])
        return oracle if isinstance(oracle, list) else [oracle] * self.seeds.size

    @property
    def partial(self) -> bool:
        """Whether an interrupt cut a run short; its curves are NaN after the step `reached`."""
        return bool((self.reached < self.steps[-1]).any())

    def finished(self) -> Record:
        """The configurations of which every run reached its last step: all of them, unless there was an interrupt."""
        return self.select(np.flatnonzero((self.reached == self.steps[-1]).all(axis=1)).tolist())

    def until(self, step: int) -> Record:
        """The same runs, with curves that end at this step, or at the last recorded step before it.

        A run that diverged later has not diverged yet. `last`, `sampled` and `reported` stay those of the whole run.
        """
        STEPS.require("Record.until", "step", step)
        steps = self.steps[self.steps <= step]
        arrays = {name: getattr(self, name)[..., : steps.size] for name in CURVES}
        arrays |= {"steps": steps, "reached": np.minimum(self.reached, steps[-1])}
        arrays["diverged"] = np.where(self.diverged <= steps[-1], self.diverged, -1)
        return dataclasses.replace(self, **arrays)

    def to_pandas(self) -> pd.DataFrame:
        """A table with one row per configuration, seed and recorded step.

        The columns are the method's name, each swept number, the curves, `diverged` and `reached`. The last row of a
        run also has the points `last` (x^K), `sampled` (x̂) and `reported` (x̄, or x^K).
        """
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        frame.insert(list(frame.columns).index("drift2"), "gap", self.gap.ravel())
        return frame

    def to_xarray(self) -> xr.Dataset:
        """Labelled arrays over (configuration, seed, step), the points over (configuration, seed, x).

        The coordinates of a configuration are its label, the method's name and each swept number. Needs xarray:
        pip install 'gladstorm[xarray]'.
        """
        try:
            import xarray as xr
        except ModuleNotFoundError as missing:
            raise ValueError(
                "Record.to_xarray: xarray must be installed; pip install 'gladstorm[xarray]'."
            ) from missing
        run = ("configuration", "seed")
        curves = {name: ((*run, "step"), getattr(self, name)) for name in (*CURVES, "gap")}
        marks = {name: (run, getattr(self, name)) for name in MARKS}
        points = {name: ((*run, "x"), getattr(self, name)) for name in POINTS}
        methods: dict[str, Any] = {"method": ("configuration", [each.name for each in self.configurations])}
        methods |= {field: ("configuration", self.numbers(field)) for field in self.swept}
        axes = {"configuration": list(self.labels), "seed": self.seeds, "step": self.steps}
        sampled = {"sampled_step": ("seed", self.sampled_step)}
        return xr.Dataset(curves | marks | points | sampled, axes | methods)

    def to_arrow(self) -> pa.Table:
        """The same table in Arrow's format, without `gap`, as it is written to files."""
        return self._rows(slice(None))

    def _rows(self, some: slice) -> pa.Table:
        """The rows of some configurations."""
        import pyarrow as pa

        size, seeds = self.steps.size, self.seeds.size
        names = np.array([each.name for each in self.configurations[some]])
        columns: dict[str, Any] = {"method": np.repeat(names, seeds * size)}
        columns |= {field: np.repeat(self.numbers(field)[some], seeds * size) for field in self.swept}
        columns |= {"seed": np.tile(np.repeat(self.seeds, size), names.size)}
        columns |= {"step": np.tile(self.steps, names.size * seeds)}
        columns |= {name: getattr(self, name)[some].ravel() for name in CURVES}
        columns |= {name: np.repeat(getattr(self, name)[some].ravel(), size) for name in MARKS}
        columns["sampled_step"] = np.tile(np.repeat(self.sampled_step, size), names.size)
        columns |= {name: _in_last_rows(getattr(self, name)[some], size) for name in POINTS}
        return pa.table(columns)

    def save(self, path: str | os.PathLike[str], *, key: str = "") -> None:
        """Write the table as a parquet file, with configuration and versions in its metadata; never half a file.

        Args:
            path: where to write it; a file that is there is replaced.
            key: under which a store finds it again; a file of one's own needs none.
        """
        from gladstorm.jobs.files import save_table

        few = max(1, ROWS_AT_ONCE // (self.seeds.size * self.steps.size))
        pieces = (self._rows(slice(first, first + few)) for first in range(0, len(self), few))
        save_table(Path(path), pieces, FORMAT, self.metadata(), key)

    def metadata(self) -> dict[str, Any]:
        """What `from_arrow` needs besides the table, as JSON-ready data."""
        return {"config": self.config, "configurations": [each.as_dict() for each in self.configurations]}

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, key: str = "") -> Record:
        """Read a file that `save` wrote.

        Args:
            path: the file.
            key: the one it must have been saved with, if any.

        Raises:
            ValueError: if the file is damaged, of another kind, or saved with another key.
        """
        from gladstorm.jobs.files import load_table

        table, metadata = load_table("Record.load", Path(path), FORMAT, key)
        try:
            return cls.from_arrow(table, metadata)
        except ValueError as problem:
            raise ValueError(f"Record.load: {path} is damaged: {problem}") from problem

    @classmethod
    def from_arrow(cls, table: pa.Table, metadata: dict[str, Any]) -> Record:
        """The record from which `to_arrow` and `metadata` made these two."""
        configurations = tuple(map(Configuration.from_dict, metadata["configurations"]))
        step = table["step"].to_numpy()
        size = int(np.argmax(step)) + 1  # steps increase within a run
        seeds = len(step) // max(1, size * len(configurations))
        shape = (len(configurations), seeds, size)
        if len(step) != np.prod(shape):
            raise ValueError(f"{len(step)} rows are not {shape} runs and steps.")
        ends = slice(size - 1, None, size)
        return cls(
            configurations=configurations,
            seeds=table["seed"].to_numpy()[ends][:seeds],
            steps=step[:size],
            **{name: table[name].to_numpy().reshape(shape) for name in CURVES},
            **{name: table[name].to_numpy()[ends].reshape(shape[:2]) for name in MARKS},
            **{name: _flat(table[name]).reshape(*shape[:2], -1) for name in POINTS},
            sampled_step=table["sampled_step"].to_numpy()[ends][:seeds],
            config=metadata["config"],
        )

    @staticmethod
    def stacked(records: Sequence[Record]) -> Record:
        """One record from several with different configurations and the same seeds and steps."""
        _require_same("Record.stacked", records, "seeds", "steps")
        arrays = {name: np.concatenate([getattr(each, name) for each in records]) for name in (*CURVES, *PER_RUN)}
        methods = {label: method for each in records for label, method in each.config["methods"].items()}
        configurations = tuple(each for record in records for each in record.configurations)
        if len(methods) < len(configurations):
            labels = shown([each.label for each in configurations])
            raise ValueError(f"Record.stacked: every configuration must have its own label; got {labels}.")
        config = records[0].config | {"methods": methods}
        return dataclasses.replace(records[0], configurations=configurations, config=config, **arrays)

    @staticmethod
    def joined(records: Sequence[Record]) -> Record:
        """One record from several with different seeds and the same configurations and steps."""
        _require_same("Record.joined", records, "labels", "steps")
        axes = dict.fromkeys((*CURVES, *PER_RUN), 1) | {"seeds": 0, "sampled_step": 0}
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(each, name) for each in records], axis) for name, axis in axes.items()
        }
        infima = {each.config["f_inf"] for each in records}
        config = records[0].config | {"seeds": arrays["seeds"].tolist()}
        config |= {"f_inf": infima.pop() if len(infima) == 1 else None}
        config |= _described([oracle for each in records for oracle in each._oracles()])
        return dataclasses.replace(records[0], config=config, **arrays)


def _require_same(owner: str, records: Sequence[Record], *names: str) -> None:
    """Refuse records that cannot be put together."""
    for name in names:
        first, *others = (getattr(each, name) for each in records)
        if differs := [other for other in others if not np.array_equal(first, other)]:
            raise ValueError(f"{owner}: the records must have the same {name}; got {shown([first, differs[0]])}.")


def _described(oracles: list[Any]) -> dict[str, Any]:
    """What `config` says of the oracles of some seeds: one that they share is said once."""
    if not oracles:
        return {}
    return {"oracle": oracles[0] if all(each == oracles[0] for each in oracles) else oracles}


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


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
    "reported_grad_norm",
    "reported_value",
)
ENDS = {"grad_norm": "‖{}‖ at the end", "mean_grad_norm": "mean ‖{}‖", "best_grad_norm": "best ‖{}‖"}
MARKS = ("diverged", "reached")
POINTS = ("last", "sampled", "reported")
PER_RUN = (*MARKS, *POINTS)
ROWS_AT_ONCE = 250_000  # of a table that is written: all of them at once would take gigabytes


def _in_last_rows(iterates: np.ndarray, size: int) -> pa.Array:
    """A column with each run's iterate as a list in the last of its `size` rows, and nothing in the others."""
    import pyarrow as pa

    flat = iterates.reshape(-1, iterates.shape[-1])
    is_last = np.arange(1, flat.shape[0] * size + 1) % size == 0
    offsets = np.concatenate([[0], np.cumsum(np.where(is_last, flat.shape[1], 0))])
    return pa.LargeListArray.from_arrays(offsets, flat.ravel(), mask=pa.array(~is_last))


def _flat(lists: pa.ChunkedArray) -> np.ndarray:
    """The numbers of all lists of a column, one after the other."""
    numbers: np.ndarray = lists.combine_chunks().flatten().to_numpy()
    return numbers
