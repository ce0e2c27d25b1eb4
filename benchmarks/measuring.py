"""Rows of the table, and how their figures are measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

REPETITIONS = 7


# What a figure is of. A share of the machine's peak is physics: the goal is the same code's on any machine. How much
# faster than NumPy it is depends on the kind of processor, and the goal is 0.8 of the figure stated for that kind.
PHYSICS, MACHINE = "share of peak", "of this kind of CPU"
TOLERATED = 0.8


@dataclass
class Row:
    what: str
    figure: str
    goal: str
    holds: bool
    of: str = ""  # PHYSICS, MACHINE, or neither: a ratio of like to like


@dataclass(frozen=True)
class Expected:
    """The figures stated for a kind of processor: measured on an AVX2 machine, asked for on an AVX-512 one."""

    kind: str
    share_of_gemm: float  # the goal itself
    plain: float  # W vs each NumPy loop
    careful: float
    batched: float
    main_job: float


AVX2 = Expected("AVX2", share_of_gemm=0.75, plain=53.6, careful=34.3, batched=1.6, main_job=29.8)
AVX512 = Expected("AVX-512", share_of_gemm=0.65, plain=60, careful=40, batched=1.7, main_job=40)


def expected() -> Expected:
    """Of the kind of processor this is, by what NumPy found on it."""
    configuration: Any = np.show_config(mode="dicts")
    found = configuration["SIMD Extensions"]["found"]
    return AVX512 if any("AVX512" in name or name == "X86_V4" for name in found) else AVX2


def rounds(*jobs: Callable[[], float], repetitions: int = REPETITIONS) -> list[np.ndarray]:
    """What each job costs in every round. The jobs of a round follow each other: a busy machine slows all of them."""
    for job in jobs:
        job()
    return list(np.array([[job() for job in jobs] for _ in range(repetitions)]).T)


def seconds(job: Callable[[], object]) -> float:
    begun = time.perf_counter()
    job()
    return time.perf_counter() - begun


def as_installed() -> dict[str, str]:
    """The environment of a process that keeps its bytecode, as an installed package has it, whatever is set here."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def faster(what: str, other: np.ndarray, this: np.ndarray, goal: float) -> Row:
    """How much faster this is than another way to write it, on this kind of processor."""
    ratio = np.median(other / this)
    return Row(what, f"{ratio:.1f} × faster", f"≥ {goal:.3g} ×", bool(ratio >= goal), MACHINE)


def slower(what: str, this: np.ndarray, other: np.ndarray, goal: float) -> Row:
    """How much longer this takes than the other, which runs on the same processor in the same way."""
    ratio = np.median(this / other)
    return Row(what, f"{ratio:.2f} ×", f"≤ {goal:g} ×", bool(ratio <= goal))


def share(what: str, rate: np.ndarray, peak: np.ndarray, goal: float) -> Row:
    """Share of the machine's peak, in Gflop/s. A share above 1 means that the peak was not found, and fails."""
    fraction = np.median(rate / peak)
    figure = f"{100 * fraction:.0f} % ({np.median(rate):.0f} of {np.median(peak):.0f} Gflop/s)"
    return Row(what, figure, f"≥ {100 * goal:.0f} %, ≤ 100 %", bool(goal <= fraction <= 1), PHYSICS)
