"""Compiled programs on disk: a later process neither traces nor compiles what an earlier one has run.

JAX has such a cache too, but finds a program by its lowered text, so that tracing and lowering, by then most of the
work, come first. Here a program is found by what it is made of. That is known of this package's own parts, whose source
names the folder; what a user's part does no name would tell, and programs with one are left to JAX.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pickle
import platform
import shutil
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import Any

import jax
import numpy as np
from jax.experimental.serialize_executable import deserialize_and_load, serialize

from gladstorm.engine import Grid
from gladstorm.files import write_whole
from gladstorm.provenance import code_version, digest, versions

_MONTH = 30 * 24 * 3600


@dataclass
class _Shelf:
    folder: Path | None = None  # none: nothing is kept
    loaded: dict[str, Any] = field(default_factory=dict)


_SHELF = _Shelf()


def remember() -> None:
    """Keep programs in the user's cache folder from now on, and drop those no process has asked for in a month.

    Not where JAX keeps its own (JAX_COMPILATION_CACHE_DIR): what it has loaded cannot be saved again. Not for other
    devices than CPUs: a folder is told by the processor it is for.
    """
    elsewhere = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]  # JAX adds its settings when imported
    if elsewhere or jax.default_backend() != "cpu":
        return
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gladstorm" / "programs"
    settings = {name: os.environ[name] for name in os.environ if name.startswith(("JAX_", "XLA_"))}
    made_for = [versions(), version("jaxlib"), code_version(), settings, _processor()]
    _SHELF.folder = root / digest(json.dumps(made_for, sort_keys=True).encode())
    with contextlib.suppress(OSError):  # a cache that cannot be used is none
        _SHELF.folder.mkdir(parents=True, exist_ok=True)
        os.utime(_SHELF.folder)
        for other in root.iterdir():
            if time.time() - other.stat().st_mtime > _MONTH:
                shutil.rmtree(other)


def call(function: Any, grid: Grid, *arguments: Any) -> Any:
    """`function(grid, *arguments)` for one of the engine's, by its kept program if it has or may have one."""
    if _SHELF.folder is None:
        return function(grid, *arguments)
    try:
        made_of = f"{function.__name__} {grid.mesh.size} {grid.cut} {grid.oracle_per_seed} {_told(arguments)}"
    except _NotOursError:
        return function(grid, *arguments)
    if made_of not in _SHELF.loaded:
        path = _SHELF.folder / digest(made_of.encode())
        _SHELF.loaded[made_of] = _read(path, grid, arguments) or _compiled(path, function, grid, arguments)
    return _SHELF.loaded[made_of](*arguments)


class _NotOursError(Exception):
    """A part whose source is not this package's."""


def _told(value: Any, *, fixed: bool = False) -> str:
    """What decides the program of an argument, in words: this package's classes and functions by name, arrays by shape.

    >>> from gladstorm.objectives import Power
    >>> _told(Power(start=np.ones(2), p=3.0))
    'gladstorm.objectives.power.Power(float64(2,), 3.0)'
    """
    if isinstance(value, np.ndarray | np.generic | jax.Array) and not fixed:
        return f"{value.dtype}{value.shape}"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    named = value if isinstance(value, type | FunctionType) else type(value)
    name = f"{named.__module__}.{named.__qualname__}"
    if not name.startswith(("gladstorm.", "builtins.tuple")) or "<" in name:  # <locals> or <lambda>
        raise _NotOursError
    if named is value:
        return name
    if isinstance(value, tuple):
        held = [_told(each, fixed=fixed) for each in value]
    elif dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        held = [_told(getattr(value, each.name), fixed=each.metadata.get("static", False)) for each in fields]
    else:
        raise _NotOursError
    return f"{name}({', '.join(held)})"


def _read(path: Path, grid: Grid, arguments: tuple[Any, ...]) -> Any:
    """The program in a file; None if there is none, or one that is damaged or that XLA will not load."""
    if not path.is_file():
        return None
    found, _, data = path.read_bytes().partition(b"\n")
    if found != digest(data).encode():
        return None
    executable, result = pickle.loads(data)  # the user's own file, as JAX's cache is
    structures = jax.tree.structure((arguments, {})), jax.tree.structure(result)
    try:
        return deserialize_and_load(executable, *structures, execution_devices=grid.mesh.devices.flatten().tolist())
    except jax.errors.JaxRuntimeError:  # machine code this machine lacks something for: compile
        return None


def _compiled(path: Path, function: Any, grid: Grid, arguments: tuple[Any, ...]) -> Any:
    program = function.lower(grid, *arguments).compile()
    executable, _, structure = serialize(program)
    result = jax.tree.unflatten(structure, [0] * structure.num_leaves)  # unlike its structure, it can be pickled
    data = pickle.dumps((executable, result))
    with contextlib.suppress(OSError):  # a full disk costs the next process some seconds, and this one nothing
        write_whole(path, lambda temporary: Path(temporary).write_bytes(digest(data).encode() + b"\n" + data))
    return program


def _processor() -> str:
    """What the machine code may use."""
    told = Path("/proc/cpuinfo")  # Linux only
    lines = told.read_text("utf-8").splitlines() if told.is_file() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
