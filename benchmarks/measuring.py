"""Rows of the table, and how their figures are measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

REPETITIONS = 7


@dataclass
class Row:
    what: str
    figure: str
    goal: str
    holds: bool


def rounds(*jobs: Callable[[], float]) -> list[np.ndarray]:
    """What each job costs in every round. The jobs of a round follow each other: a busy machine slows all of them."""
    for job in jobs:
        job()
    return list(np.array([[job() for job in jobs] for _ in range(REPETITIONS)]).T)


def seconds(job: Callable[[], object]) -> float:
    begun = time.perf_counter()
    job()
    return time.perf_counter() - begun


def faster(what: str, other: np.ndarray, this: np.ndarray, goal: float) -> Row:
    ratio = np.median(other / this)
    return Row(what, f"{ratio:.1f} × faster", f"≥ {goal:g} ×", bool(ratio >= goal))


def slower(what: str, this: np.ndarray, other: np.ndarray, goal: float) -> Row:
    ratio = np.median(this / other)
    return Row(what, f"{ratio:.2f} ×", f"≤ {goal:g} ×", bool(ratio <= goal))
