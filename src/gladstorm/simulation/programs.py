"""Compiled programs on disk: a later process neither traces nor compiles what an earlier one has run.

JAX has such a cache too, but finds a program by its lowered text, so that tracing and lowering, by then most of the
work, come first: with it, a second run of README's `simulate` takes 1.46 times as long (JAX 0.10.2, CPU time, medians
in turns). Here a program is found by what it is made of. That is known of this package's own parts, whose source names
the folder; what a user's part does no name would tell, and programs with one are left to JAX.

Loading a program runs what is in its file. So only files are read that nobody but the user can have written: the folder
and the file are the user's own, and closed to everybody else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pickle
import platform
import shutil
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

import jax
import numpy as np
from jax.experimental.serialize_executable import deserialize_and_load, serialize

from gladstorm.jobs.files import write_whole
from gladstorm.jobs.provenance import digest, is_followed, source_digest, versions
from gladstorm.simulation.engine import Grid

_MONTH = 30 * 24 * 3600
_MOST_LOADED = 64  # programs a process holds: each takes megabytes, and a sweep of many shapes needs each of them once


@dataclass
class _Cache:
    folder: Path | None = None  # none: nothing is kept
    loaded: dict[str, Any] = field(default_factory=dict)


_CACHE = _Cache()


def enable_program_cache() -> None:
    """Keep programs in the user's cache folder from now on, and drop those no process has asked for in a month.

    Not where JAX keeps its own (JAX_COMPILATION_CACHE_DIR): what it has loaded cannot be saved again. Not for other
    devices than CPUs: a folder is named by the processor it is for. Not in a folder that others can write to.
    """
    elsewhere = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]  # JAX adds its settings when imported
    if elsewhere or jax.default_backend() != "cpu":
        return
    flags = {name: os.environ[name] for name in os.environ if name.startswith("XLA_")}
    installed = [version(name) if find_spec(name) else None for name in ("jaxlib", "optax")]  # methods may use Optax
    made_for = [versions(), *installed, source_digest(), flags, _processor()]
    with contextlib.suppress(OSError, RuntimeError):  # a cache that cannot be used is none; no home is a RuntimeError
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gladstorm" / "programs"
        folder = root / digest(json.dumps(made_for, sort_keys=True).encode())
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(folder)
        _CACHE.folder = folder if _private(folder) else None
        for other in root.iterdir():
            if time.time() - other.stat().st_mtime > _MONTH:
                shutil.rmtree(other)


def call(function: Any, grid: Grid, *arguments: Any) -> Any:
    """`function(grid, *arguments)` for one of the engine's, by its kept program if it has or may have one."""
    if _CACHE.folder is None:
        return function(grid, *arguments)
    try:
        lies = f"{grid.mesh.size} {grid.cut} {grid.oracle_per_seed}"
        # JAX's settings as they are now; what a with-block sets is seen only by asking for the attribute.
        settings = [(name, getattr(jax.config, name, chosen)) for name, chosen in sorted(jax.config.values.items())]
        made_of = f"{function.__name__} {lies} {_name(arguments)} {settings}"
    except _UnknownSourceError:
        return function(grid, *arguments)
    path = _CACHE.folder / digest(made_of.encode())
    program = _CACHE.loaded.pop(made_of, None)
    program = program or _read(path, made_of, grid, arguments) or _compiled(path, made_of, function, grid, arguments)
    _CACHE.loaded[made_of] = program  # the last used is last
    for oldest in list(_CACHE.loaded)[:-_MOST_LOADED]:
        del _CACHE.loaded[oldest]
    return program(*arguments)


class _UnknownSourceError(Exception):
    """A part whose source is not this package's."""


def _name(value: Any, *, fixed: bool = False) -> str:
    """What decides the program of an argument, in words: this package's classes and functions by name, arrays by shape.

    >>> from gladstorm.problems.objectives import Power
    >>> _name(Power(start=np.ones(2), p=3.0))
    'gladstorm.problems.objectives.elementary.Power(float64(2,), 3.0)'
    """
    if isinstance(value, np.ndarray | np.generic | jax.Array) and not fixed:
        return f"{value.dtype}{value.shape}"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    named = value if isinstance(value, type | FunctionType) else type(value)
    name = f"{named.__module__}.{named.__qualname__}"
    # Under its name stands another, or nothing, if the name is not all there is to a class or function.
    under_name: Any = sys.modules.get(named.__module__)
    for part in named.__qualname__.split("."):
        under_name = getattr(under_name, part, None)
    if not (is_followed(name) or name == "builtins.tuple") or under_name is not named:
        raise _UnknownSourceError
    if named is value:
        return name
    if isinstance(value, tuple):
        held = [_name(entry, fixed=fixed) for entry in value]
    elif dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        held = [_name(getattr(value, field.name), fixed=field.metadata.get("static", False)) for field in fields]
    else:
        raise _UnknownSourceError
    return f"{name}({', '.join(held)})"


def _read(path: Path, made_of: str, grid: Grid, arguments: tuple[Any, ...]) -> Any:
    """The program in a file; None if there is none, or one not the user's, damaged, of others, or XLA cannot run it."""
    try:
        written, _, data = path.read_bytes().partition(b"\n") if _private(path) else (b"", b"", b"")
    except OSError:  # a cache that cannot be read is none
        return None
    if written != _seal(made_of, data):
        return None
    executable, result = pickle.loads(data)  # the user's own file
    structures = jax.tree.structure((arguments, {})), jax.tree.structure(result)
    try:
        devices = grid.mesh.devices.flatten().tolist()
        program = deserialize_and_load(executable, *structures, execution_devices=devices)
        jax.block_until_ready(program(*arguments))  # some are found incomplete only when they run
    except jax.errors.JaxRuntimeError:  # machine code this machine lacks something for: compile
        return None
    return program


def _compiled(path: Path, made_of: str, function: Any, grid: Grid, arguments: tuple[Any, ...]) -> Any:
    program = function.lower(grid, *arguments).compile()
    executable, _, structure = serialize(program)
    result = jax.tree.unflatten(structure, [0] * structure.num_leaves)  # unlike its structure, it can be pickled
    data = pickle.dumps((executable, result))
    with contextlib.suppress(OSError):  # a full disk costs the next process some seconds, and this one nothing
        path.unlink(missing_ok=True)  # whose permissions the new file would have
        write_whole(path, lambda temporary: _write_private(Path(temporary), _seal(made_of, data) + b"\n" + data))
    return program


def _seal(made_of: str, data: bytes) -> bytes:
    """A digest of a file's bytes and of what they are the program of: no other file is taken for it."""
    return digest(made_of.encode() + b"\n" + data).encode()


def _write_private(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(data)


def _private(path: Path) -> bool:
    """Whether it is the user's own and closed to everybody else; where there are no such users, yes."""
    if not hasattr(os, "getuid"):
        return True
    status = path.lstat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o077


def _processor() -> str:
    """What the machine code may use."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux only
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.is_file() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
