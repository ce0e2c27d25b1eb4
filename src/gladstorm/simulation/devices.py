"""Settings of JAX for fast simulations on a CPU."""

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

# Loops that touch less than this many bytes become one kernel each. XLA's own limit of 1 kB leaves the dozen small
# kernels of a cheap objective's step to be launched one by one, which takes longer than what they compute.
ONE_KERNEL_BYTES = 4_000_000
OPTIONS = (
    f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={ONE_KERNEL_BYTES}",
    "--xla_cpu_multi_thread_eigen=false",  # every core has its own runs: none helps another
)
FEWEST = 2  # devices, also of one core: so many cut runs alike, and their numbers agree to the last bit
MONTH = 30 * 24 * 3600  # how long a program stays on disk
LEAST = 0.03  # seconds of compiling that are worth a file
WARNING = "Error (reading|writing) persistent compilation cache"  # a damaged file, a full disk: it is compiled again


def tune(cores: int | None = None) -> None:
    """Make JAX use every core: a device per core, two at least, so that `sweep` gives each its own runs; faster loops.

    We measured runs 1.5 times as fast on phase retrieval and twice as fast on the cubic. Call it once, before JAX
    computes anything. The command line calls it; in a script you have to, since importing a library should not change
    JAX's settings. Flags of your own in XLA_FLAGS stay as they are; a file of flags is not added to.

    `cores` is the number of devices, by default the number of cores that this process may use, or two if that is one.
    """
    if cores is None:
        cores = max(FEWEST, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        jax.config.update("jax_num_cpu_devices", cores)
    except RuntimeError:
        raise RuntimeError("devices: tune must be called before JAX computes anything; it already has.") from None
    given = os.environ.get("XLA_FLAGS", "").strip()
    if not given or given.startswith("--"):  # anything else XLA takes for the name of a file
        added = (option for option in OPTIONS if option.partition("=")[0] not in given)
        os.environ["XLA_FLAGS"] = " ".join([*given.split(), *added])


def keep_programs() -> None:
    """Let JAX keep programs in a folder of ours from now on, unless it keeps them elsewhere already."""
    folder = None if jax.config.jax_compilation_cache_dir else _folder()  # type: ignore[attr-defined]  # added by JAX
    if folder is not None:
        warnings.filterwarnings("ignore", WARNING)
        _keep_in(str(folder), LEAST)


@contextmanager
def programs_on_disk() -> Iterator[None]:
    """Let JAX keep programs there inside a with-block, and leave its settings as they were."""
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs  # type: ignore[attr-defined]  # added by JAX
    with warnings.catch_warnings():
        keep_programs()
        try:
            yield
        finally:
            _keep_in(*before)


def _keep_in(folder: str | None, least: float) -> None:
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)
    compilation_cache.reset_cache()  # it remembers the folder of its first program


def _folder() -> Path | None:
    """Return a folder for this processor that is the user's own (loading a program runs it), or None."""
    with suppress(OSError, RuntimeError):  # no home is a RuntimeError
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = root / "gladstorm" / f"programs-{hashlib.sha256(_processor().encode()).hexdigest()[:16]}"
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
