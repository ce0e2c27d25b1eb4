"""Arrays in a file, with a few words about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from gladstorm.jobs.files import load_table, save_table

_FORMAT = "gladstorm fit block 1"


@dataclass(frozen=True)
class Arrays:
    """Arrays of any types and shapes, and JSON-ready words about them."""

    values: tuple[np.ndarray, ...]
    about: dict[str, Any]

    def save(self, path: Path, /, *, key: str = "", form: str = _FORMAT) -> None:
        """Write the arrays to a file, whole or not at all."""
        columns = {
            "dtype": [str(value.dtype) for value in self.values],
            "shape": [list(value.shape) for value in self.values],
            "data": [value.tobytes() for value in self.values],
        }
        types = {"dtype": pa.string(), "shape": pa.list_(pa.int64()), "data": pa.large_binary()}
        table = pa.table({name: pa.array(column, types[name]) for name, column in columns.items()})
        save_table(path, [table], form, self.about, key)

    @classmethod
    def load(cls, path: Path, /, *, key: str = "", form: str = _FORMAT) -> Self:
        """Read the file that `save` wrote."""
        table, about = load_table("Fit", path, form, key)
        rows = table.to_pylist()
        arrays = (np.frombuffer(row["data"], row["dtype"]).reshape(row["shape"]).copy() for row in rows)
        return cls(tuple(arrays), about)
