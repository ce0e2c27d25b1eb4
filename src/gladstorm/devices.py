"""JAX set up for simulating on a CPU."""

from __future__ import annotations

import os

import jax

# Loops that touch less than this many bytes become one kernel each. XLA's own limit of 1 kB leaves the dozen small
# kernels of a cheap objective's step to be launched one by one, which takes longer than what they compute.
ONE_KERNEL_BYTES = 4_000_000


def tune() -> None:
    """A device per core, so that `sweep` gives each core its own runs, and small loops compiled whole.

    Measured: 1.5 × faster on phase retrieval, 2 × on the cubic. JAX takes this only before its first computation,
    and a library must not decide it when imported: the command line and the benchmarks call this, and a script may.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jax.config.update("jax_num_cpu_devices", cores)
    flags = os.environ.get("XLA_FLAGS", "").split()
    for option in (
        f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={ONE_KERNEL_BYTES}",
        "--xla_cpu_multi_thread_eigen=false",  # every core has its own runs: none helps another
    ):
        if not any(flag.startswith(option.partition("=")[0]) for flag in flags):  # the user may have chosen otherwise
            flags.append(option)
    os.environ["XLA_FLAGS"] = " ".join(flags)
