"""Compiled programs of fits in the user's cache folder, by JAX's persistent cache, without touching its settings."""

from __future__ import annotations

import hashlib
import os
import platform
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

MONTH = 30 * 24 * 3600
LEAST = 0.03  # seconds of compiling that are worth a file


@contextmanager
def programs_on_disk() -> Iterator[None]:
    """Let JAX keep programs in a folder of ours inside a with-block, unless it keeps them elsewhere already."""
    settings = jax.config
    folder = None if settings.jax_compilation_cache_dir else _folder()  # type: ignore[attr-defined]  # added by JAX
    if folder is None:
        yield
        return
    before = settings.jax_persistent_cache_min_compile_time_secs  # type: ignore[attr-defined]
    with warnings.catch_warnings():  # a damaged file, or a full disk, costs a compilation and needs no word
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
        _keep_in(str(folder), LEAST)
        try:
            yield
        finally:
            _keep_in(None, before)


def _keep_in(folder: str | None, least: float) -> None:
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)
    compilation_cache.reset_cache()  # it remembers the folder of its first program


def _folder() -> Path | None:
    """Return a folder for this processor that is the user's own (loading a program runs it), or None."""
    with suppress(OSError, RuntimeError):  # no home is a RuntimeError
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = root / "gladstorm" / f"fits-{hashlib.sha256(_processor().encode()).hexdigest()[:16]}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if folder.is_symlink() or (hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077)):
            return None
        for program in folder.iterdir():
            if time.time() - program.stat().st_mtime > MONTH:
                program.unlink()
        return folder
    return None


def _processor() -> str:
    """Return what the machine code may use."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux only
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.is_file() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
