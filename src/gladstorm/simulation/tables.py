"""A record as a table: Arrow's, which is also what files hold, and xarray's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gladstorm.simulation.one_run import CURVES

if TYPE_CHECKING:  # half a second that only tables and files should take
    import pyarrow as pa
    import xarray as xr

    from gladstorm.simulation.record import Record

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
    """The same table, not all of it at once."""
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
