"""`Record`: the measurements of a sweep as arrays. `tables.py` has them as tables and files, and in short."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gladstorm.core.rules import COUNT, STEPS
from gladstorm.core.screen import html_picture, html_table, shown
from gladstorm.problems.functions import cut
from gladstorm.simulation import tables
from gladstorm.simulation.configurations import Configuration
from gladstorm.simulation.one_run import CURVES, Snapshot
from gladstorm.simulation.tables import MARKS, POINTS

if TYPE_CHECKING:  # half a second that only tables and files should take
    import pandas as pd
    import pyarrow as pa
    import xarray as xr
    from matplotlib.figure import Figure

    from gladstorm.problems.oracle import Oracle
    from gladstorm.theory import Plan

FORMAT = "gladstorm record 4"
ARRAYS = (*CURVES, "path", *MARKS, *POINTS)  # over (configuration, seed, …)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Record(Snapshot[np.ndarray]):
    """Measurements of every configuration (a method with its numbers) on every seed, at the recorded steps.

    Curves are arrays with the axes (configuration, seed, recorded step). Means and minima are over all steps up to the
    recorded one, so `mean_grad_norm[..., -1]` is exactly E‖∇f(x̂)‖ for an output x̂ drawn uniformly from the iterates.
    `stationarity` is what theorems about the method's step bound: ‖∇f‖, in the dual norm if the step has another norm.
    A method reports its average x̄ if it has one, and x^k otherwise.

    A run diverges at the first step with a gradient that is not finite, or at the first recorded step with an f that is
    not. From then on its numbers are not finite, and it evaluates no more samples.
    """

    configurations: tuple[Configuration, ...]  #: the methods, each with its numbers
    seeds: np.ndarray  #: the seeds
    steps: np.ndarray  #: the recorded steps k, from 0 to K
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

    @property
    def field(self) -> str:
        """Name of the vector that `grad_norm` is the norm of: ∇f, or the oracle's direction if that is no gradient."""
        name: str = self.config.get("field", "∇f")
        return name

    @property
    def gap(self) -> np.ndarray:
        """f(x^k) − inf f; NaN if the objective does not declare inf f."""
        f_inf = self.config["f_inf"]
        return np.asarray(self.value - f_inf if f_inf is not None else self.value * np.nan)

    def numbers(self, field: str) -> np.ndarray:
        """The value of a field, such as `gamma`, in every configuration; NaN in those that have no such field.

        Raises:
            ValueError: If no configuration has the field.
        """
        fields = dict.fromkeys(name for each in self.configurations for name in each.numbers)
        if field not in fields:
            raise ValueError(f"Record: the field must be one of {', '.join(fields)}; got {field!r}.")
        return np.array([each.numbers.get(field, np.nan) for each in self.configurations])

    def __getitem__(self, name: str) -> Record:
        """The runs of the method that had this name in `sweep`, or of one label."""
        rows = [row for row, each in enumerate(self.configurations) if name in (each.name, each.label)]
        if not rows:
            names = list(dict.fromkeys(each.name for each in self.configurations))
            raise ValueError(f"Record: the name must be one of {shown(names, 300)} or a label; got {name!r}.")
        return self.select(rows)

    def where(self, **numbers: float) -> Record:
        """The runs of the configurations that have exactly these numbers, as in `record.where(gamma=0.1)`.

        Raises:
            ValueError: If no configuration has them.
        """
        matches = np.full(len(self), True)
        for field, value in numbers.items():
            matches &= self.numbers(field) == value
        if not matches.any():
            raise ValueError(f"Record.where: some configuration must have these numbers; got {shown(numbers)}.")
        return self.select(np.flatnonzero(matches).tolist())

    def select(self, rows: Sequence[int]) -> Record:
        """The runs of the configurations with these indices, in the order given."""
        chosen = tuple(self.configurations[row] for row in rows)
        arrays = {name: getattr(self, name)[list(rows)] for name in ARRAYS}
        methods = {each.label: self.config["methods"][each.label] for each in chosen}
        return dataclasses.replace(self, configurations=chosen, config=self.config | {"methods": methods}, **arrays)

    def on_seeds(self, count: int) -> Record:
        """The runs of the first `count` seeds."""
        COUNT.require("Record.on_seeds", "count", count)
        arrays = {name: getattr(self, name)[:, :count] for name in ARRAYS}
        arrays |= {"seeds": self.seeds[:count], "sampled_step": self.sampled_step[:count]}
        config = self.config | {"seeds": arrays["seeds"].tolist()} | _described(self._oracles()[:count])
        return dataclasses.replace(self, config=config, **arrays)

    def finished(self) -> Record:
        """The configurations of which every run reached its last step: all of them, unless there was an interrupt."""
        return self.select(np.flatnonzero((self.reached == self.steps[-1]).all(axis=1)).tolist())

    def until(self, step: int) -> Record:
        """The runs with curves that end at this step, or at the last recorded step before it.

        A run that diverged later has not diverged yet. `last`, `sampled` and `reported` stay those of the whole run.
        """
        STEPS.require("Record.until", "step", step)
        steps = self.steps[self.steps <= step]
        arrays = {name: getattr(self, name)[:, :, : steps.size] for name in (*CURVES, "path")}
        arrays |= {"steps": steps, "reached": np.minimum(self.reached, steps[-1])}
        arrays["diverged"] = np.where(self.diverged <= steps[-1], self.diverged, -1)
        return dataclasses.replace(self, **arrays)

    def __repr__(self) -> str:
        """The last numbers of every configuration, as many as fit on a screen."""
        return tables.as_text(self)

    def _repr_html_(self) -> str:
        about = f"‖{self.field}‖ against stochastic gradients"
        return html_table(tables.title(self), *tables.table(self)) + html_picture(self.plot, about)

    def against(self, plan: Plan) -> tables.Against:
        """Compare the mean of ‖∇f‖, or ‖∇f‖_*, over all iterates and seeds with the bound of the plan that was run.

        Args:
            plan: What `run(oracle, plan)` was given.

        Raises:
            ValueError: If the record has several configurations, or another number of iterates than the plan.

        >>> from gladstorm import BlumGladyshev, objectives, run, theory
        >>> oracle = BlumGladyshev(objectives.named("quadratic", dim=2, start=1.0), B=0.1, G=0.1)
        >>> plan = theory.Plan(theory.for_oracle(oracle, "nsgdm"), horizon=101)
        >>> record = run(oracle, plan, seeds=8)
        >>> record.against(plan).ratio < 1
        True
        """
        return tables.against(self, plan)

    def plot(self) -> Figure:
        """Draw ‖∇f(x^k)‖ against stochastic gradients: for each configuration, mean ± standard deviation over seeds.

        A notebook shows the figure that is returned.

        Raises:
            ValueError: If matplotlib is not installed.
        """
        from gladstorm.plotting.figures import gradient_norms  # matplotlib takes a second, and may be missing

        return gradient_norms(self)

    def explore(
        self, path: str | os.PathLike[str], *, title: str = "", oracle: Oracle | None = None, plan: Plan | None = None
    ) -> None:
        """Write one HTML file that needs no network: every swept number is a slider, and all charts follow it.

        Args:
            path: The file to write, such as page.html; one that is there is replaced.
            title: The heading; what was run if left out.
            oracle: The one that was run. Where x is one or two numbers, the page then draws the path on the contours
                of f, and the noise along it.
            plan: What `run(oracle, plan)` was given: the page then draws the theorem's bound and the distance γT.

        Raises:
            MissingExtraError: If Vega, of the extra [page], is not installed.
        """
        from gladstorm.plotting.explore import explore

        explore(self, path, title=title, oracle=oracle, plan=plan)

    def tree(self, name: Literal["last", "sampled", "reported"] = "last") -> dict[str, np.ndarray]:
        """One point of every run, as the named arrays that x consists of, with the axes (configuration, seed, …).

        A plain vector has the name x. Names inside nested trees are joined by dots, as in layers.0.bias.
        """
        if name not in POINTS:
            raise ValueError(f"Record.tree: name must be one of {', '.join(POINTS)}; got {name!r}.")
        arrays = cut(getattr(self, name), [x["shape"] for x in self.config["x"]])
        return dict(zip([x["name"] for x in self.config["x"]], arrays, strict=True))

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
        return tables.to_xarray(self)

    def to_arrow(self) -> pa.Table:
        """The table of `to_pandas` in Arrow's format, without `gap`, as it is written to files."""
        return tables.to_arrow(self, slice(None))

    def save(self, path: str | os.PathLike[str], *, key: str = "") -> None:
        """Write the table as a parquet file, with configuration and versions in its metadata; never half a file.

        Args:
            path: Where to write it; a file that is there is replaced.
            key: Under which a store finds it again; a file of one's own needs none.
        """
        from gladstorm.jobs.files import save_table

        save_table(Path(path), tables.in_pieces(self), FORMAT, self.metadata(), key)

    def metadata(self) -> dict[str, Any]:
        """JSON-ready data that `from_arrow` needs besides the table."""
        return {"config": self.config, "configurations": [each.as_dict() for each in self.configurations]}

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, key: str = "") -> Record:
        """Read a file that `save` wrote.

        Args:
            path: The file.
            key: The one it must have been saved with, if any.

        Raises:
            ValueError: If the file is damaged, of another kind, or saved with another key.
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
        arrays = tables.from_arrow(table, len(configurations))
        return cls(configurations=configurations, config=metadata["config"], **arrays)

    @staticmethod
    def joined(records: Sequence[Record]) -> Record:
        """One record from several with different seeds and the same configurations and steps.

        Raises:
            ValueError: If configurations or steps differ.
        """
        for name in ("labels", "steps"):
            first, *others = (getattr(record, name) for record in records)
            if differs := [other for other in others if not np.array_equal(first, other)]:
                given = shown([first, differs[0]])
                raise ValueError(f"Record.joined: the records must have the same {name}; got {given}.")
        axes = dict.fromkeys(ARRAYS, 1) | {"seeds": 0, "sampled_step": 0}
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(record, name) for record in records], axis) for name, axis in axes.items()
        }
        infima = {record.config["f_inf"] for record in records}
        f_inf = infima.pop() if len(infima) == 1 else None
        config = records[0].config | {"seeds": arrays["seeds"].tolist(), "f_inf": f_inf}
        config |= _described([oracle for record in records for oracle in record._oracles()])
        return dataclasses.replace(records[0], config=config, **arrays)

    def _oracles(self) -> list[Any]:
        """Descriptions of the oracles of all seeds; none if `config` has none."""
        oracle = self.config.get("oracle", [])
        return oracle if isinstance(oracle, list) else [oracle] * self.seeds.size


def _described(oracles: list[Any]) -> dict[str, Any]:
    """The oracles of some seeds as `config` describes them: one that they share is described once."""
    if not oracles:
        return {}
    return {"oracle": oracles[0] if all(oracle == oracles[0] for oracle in oracles) else oracles}
