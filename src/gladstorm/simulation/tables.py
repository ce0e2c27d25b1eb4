"""A record as a table, Arrow's, which files hold too, and xarray's; and in short, on a screen and beside a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gladstorm.core.estimate import Estimate
from gladstorm.core.screen import LINE, LINES, cut_to
from gladstorm.core.statistics import over_seeds
from gladstorm.simulation.one_run import CURVES

if TYPE_CHECKING:  # half a second that only tables and files should take
    import pyarrow as pa
    import xarray as xr

    from gladstorm.simulation.record import Record
    from gladstorm.theory import Plan

MARKS = ("diverged", "reached")  # a number for each run
POINTS = ("last", "sampled", "reported")  # a vector for each run
PATH = ("x1", "x2")  # the columns of a path
ROWS_AT_ONCE = 250_000  # of a table that is written: all of them at once would take gigabytes


def to_arrow(record: Record, some: slice) -> pa.Table:
    """The rows of some configurations."""
    import pyarrow as pa

    size, seeds = record.steps.size, record.seeds.size
    names = np.array([configuration.name for configuration in record.configurations[some]])
    columns: dict[str, Any] = {"method": np.repeat(names, seeds * size)}
    columns |= {field: np.repeat(record.numbers(field)[some], seeds * size) for field in record.swept}
    columns |= {"seed": np.tile(np.repeat(record.seeds, size), names.size)}
    columns |= {"step": np.tile(record.steps, names.size * seeds)}
    columns |= {name: getattr(record, name)[some].ravel() for name in CURVES}
    columns |= {name: record.path[some, :, :, k].ravel() for k, name in enumerate(PATH[: record.path.shape[-1]])}
    columns |= {name: np.repeat(getattr(record, name)[some].ravel(), size) for name in MARKS}
    columns["sampled_step"] = np.tile(np.repeat(record.sampled_step, size), names.size)
    columns |= {name: _in_last_rows(getattr(record, name)[some], size) for name in POINTS}
    return pa.table(columns)


def in_pieces(record: Record) -> Iterator[pa.Table]:
    """The table of a record in pieces: not all of it at once."""
    few = max(1, ROWS_AT_ONCE // (record.seeds.size * record.steps.size))
    return (to_arrow(record, slice(first, first + few)) for first in range(0, len(record), few))


def from_arrow(table: pa.Table, configurations: int) -> dict[str, np.ndarray]:
    """The arrays of the record from which `to_arrow` made the table."""
    step = table["step"].to_numpy()
    size = int(np.argmax(step)) + 1  # steps increase within a run
    seeds = len(step) // max(1, size * configurations)
    shape = (configurations, seeds, size)
    if len(step) != np.prod(shape):
        raise ValueError(f"{len(step)} rows are not {shape} runs and steps.")
    ends = slice(size - 1, None, size)
    path = (table[name].to_numpy().reshape(*shape, 1) for name in PATH if name in table.column_names)
    return {
        "seeds": table["seed"].to_numpy()[ends][:seeds],
        "steps": step[:size],
        **{name: table[name].to_numpy().reshape(shape) for name in CURVES},
        "path": np.concatenate([np.empty((*shape, 0)), *path], axis=-1),
        **{name: table[name].to_numpy()[ends].reshape(shape[:2]) for name in MARKS},
        **{name: table[name].combine_chunks().flatten().to_numpy().reshape(*shape[:2], -1) for name in POINTS},
        "sampled_step": table["sampled_step"].to_numpy()[ends][:seeds],
    }


def to_xarray(record: Record) -> xr.Dataset:
    """Labelled arrays over (configuration, seed, step), the points over (configuration, seed, x)."""
    try:
        import xarray as xr
    except ModuleNotFoundError as missing:
        raise ValueError("Record.to_xarray: xarray must be installed; pip install 'gladstorm[xarray]'.") from missing
    run = ("configuration", "seed")
    curves = {name: ((*run, "step"), getattr(record, name)) for name in (*CURVES, "gap")}
    curves |= {name: ((*run, "step"), record.path[..., k]) for k, name in enumerate(PATH[: record.path.shape[-1]])}
    marks = {name: (run, getattr(record, name)) for name in MARKS}
    points = {name: ((*run, "x"), getattr(record, name)) for name in POINTS}
    names = [configuration.name for configuration in record.configurations]
    methods: dict[str, Any] = {"method": ("configuration", names)}
    methods |= {field: ("configuration", record.numbers(field)) for field in record.swept}
    axes = {"configuration": list(record.labels), "seed": record.seeds, "step": record.steps}
    sampled = {"sampled_step": ("seed", record.sampled_step)}
    return xr.Dataset(curves | marks | points | sampled, axes | methods)


def _in_last_rows(iterates: np.ndarray, size: int) -> pa.Array:
    """A column with each run's iterate as a list in the last of its `size` rows, and nothing in the others."""
    import pyarrow as pa

    flat = iterates.reshape(-1, iterates.shape[-1])
    is_last = np.arange(1, flat.shape[0] * size + 1) % size == 0
    offsets = np.concatenate([[0], np.cumsum(np.where(is_last, flat.shape[1], 0))])
    return pa.LargeListArray.from_arrays(offsets, flat.ravel(), mask=pa.array(~is_last))


SUMMARIZED = {"mean_grad_norm": "mean_grad_norm", "final_grad_norm": "grad_norm"}
SUMMARIZED |= {name: name for name in ("best_grad_norm", "reported_grad_norm", "reported_value", "drift2")}
ENDS = {"grad_norm": "last ‖{}‖", "mean_grad_norm": "mean ‖{}‖", "best_grad_norm": "best ‖{}‖"}


def summary(record: Record) -> dict[str, dict[str, Any]]:
    """Per label what the paper talks about, JSON-ready: over seeds the mean, the standard deviation and every value.

    Numbers that are not finite become None, and so does a mean over seeds of which one diverged.
    """
    answer: dict[str, dict[str, Any]] = {}
    for row, label in enumerate(record.labels):
        sfo, diverged = record.sfo[row, :, -1], record.diverged[row]
        answer[label] = {name: over_seeds(getattr(record, curve)[row, :, -1]) for name, curve in SUMMARIZED.items()}
        answer[label] |= {
            "sfo": int(sfo[0]) if np.all(sfo == sfo[0]) else float(sfo.mean()),
            "max_batch": int(record.max_batch[row].max()),
            "diverged": int(np.sum(diverged >= 0)),
            "diverged_at": [int(step) if step >= 0 else None for step in diverged],
        }
    return answer


def as_text(record: Record) -> str:
    """The title and the table, cut to the lines and the width of a screen."""
    rows, more = table(record)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    return "\n".join([title(record), *(cut_to(line, LINE) for line in lines), *more])


def title(record: Record) -> str:
    """How many runs and steps there are."""
    counts = {"configuration": len(record), "seed": record.seeds.size}
    runs = " × ".join(f"{number:,} {noun}" + "s" * (number != 1) for noun, number in counts.items())
    return f"Record: {runs}, {record.steps.size:,} of steps 0..{record.steps[-1]:,} recorded, means over seeds"


def table(record: Record) -> tuple[list[list[str]], list[str]]:
    """Headings and rows of a record in short, and a line about what is left out."""
    most = LINES - 4
    rows = [["", "gradients", *(words.format(record.field) for words in ENDS.values()), "diverged"]]
    with np.errstate(invalid="ignore", over="ignore"):
        for row, label in enumerate(record.labels[:most]):
            ends = [f"{getattr(record, name)[row, :, -1].mean():.4g}" for name in ENDS]
            diverged = str(int((record.diverged[row] >= 0).sum()))
            rows.append([cut_to(label, 40), f"{record.sfo[row, :, -1].mean():,.6g}", *ends, diverged])
    return rows, [f"… and {len(record) - most:,} more: record[name] selects"] if len(record) > most else []


class Against(NamedTuple):
    """A measured E‖∇f(x̂)‖ beside the bound that a theorem guarantees."""

    measured: float  #: E‖∇f(x̂)‖, the mean over iterates and seeds
    low: float  #: the lower end of its 95 % interval over seeds; NaN with one seed
    high: float  #: the upper end; NaN with one seed
    bound: float  #: the theorem's bound on it
    ratio: float  #: measured / bound


def against(record: Record, plan: Plan) -> Against:
    """E‖∇f(x̂)‖ of one configuration beside the bound of the plan that was run."""
    if len(record) != 1:
        raise ValueError(
            f"Record.against: must be asked of one configuration, as record[label] selects; got {len(record)}."
        )
    if record.steps[-1] != plan.horizon - 1:
        raise ValueError(
            f"Record.against: plan must be for the record's {record.steps[-1] + 1:,} iterates; got a horizon of "
            f"{plan.horizon:,}."
        )
    norms, bound = record.mean_stationarity[0, :, -1], plan.statement.bound(plan.horizon)
    mean, measured = Estimate.of_mean(norms), float(norms.mean())
    low, high = (np.nan if end is None else end for end in (mean.low, mean.high))
    return Against(measured, low, high, bound, measured / bound)
