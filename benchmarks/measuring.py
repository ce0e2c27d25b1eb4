"""Rows of the table, and how their figures are measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

REPETITIONS = 5


@dataclass
class Row:
    what: str
    figure: str
    goal: str
    holds: bool


def medians(*jobs: Callable[[], float]) -> list[float]:
    """The median cost of each job; the jobs take turns so that a busy machine slows all of them."""
    for job in jobs:
        job()
    rounds = [[job() for job in jobs] for _ in range(REPETITIONS)]
    return [float(np.median(column)) for column in zip(*rounds, strict=True)]


def seconds(job: Callable[[], object]) -> float:
    begun = time.perf_counter()
    job()
    return time.perf_counter() - begun


def faster(what: str, other: float, this: float, goal: float) -> Row:
    return Row(what, f"{other / this:.1f} × faster", f"≥ {goal:g} ×", other / this >= goal)


def slower(what: str, this: float, other: float, goal: float) -> Row:
    return Row(what, f"{this / other:.2f} ×", f"≤ {goal:g} ×", this / other <= goal)
