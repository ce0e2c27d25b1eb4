"""Files that are whole or absent, and tables that say what they are."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

_METADATA = b"gladstorm"


def save_table(path: Path, frame: pd.DataFrame, form: str, metadata: dict[str, Any]) -> None:
    """Write a parquet file with its form and metadata in the schema; whole or not at all."""
    text = json.dumps({**metadata, "format": form}, sort_keys=True, allow_nan=False)
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata({_METADATA: text.encode()})
    write_whole(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def load_table(owner: str, path: Path, form: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read what `save_table` wrote; a ValueError says when a file is damaged or of another form."""
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as problem:
        if isinstance(problem, FileNotFoundError | IsADirectoryError | PermissionError):
            raise
        raise ValueError(f"{owner}: {path} is damaged or not a parquet file ({problem}).") from problem
    metadata = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    if metadata.get("format") != form:
        raise ValueError(f"{owner}: {path} is not a {form!r} file; got {metadata.get('format')!r}.")
    return table.to_pandas(), metadata


def write_whole(path: Path, write: Callable[[str], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it: no reader ever sees half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(temporary)
        Path(temporary).chmod(0o666 & ~_umask())  # mkstemp's files are private, results are not
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """What the process takes from the permissions of new files; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
