"""Figures drawn by other processes while this one goes on.

Drawing takes seconds on one core, and so does preparing the next simulation.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

WORKERS = 2
SUFFIXES = (".png", ".pdf")


class Drawing:
    """The figures of some experiments; at the end of its with-block all are on disk."""

    def __init__(self) -> None:
        # Ctrl-C reaches every process of the terminal: the one that was asked for something answers it.
        ignoring = (signal.SIGINT, signal.SIG_IGN)
        self._workers = ProcessPoolExecutor(WORKERS, get_context("spawn"), signal.signal, ignoring)
        self._due: list[Future[None]] = []

    def add(self, summary: Mapping[str, Any], curves: Mapping[str, Any], folder: Path) -> None:
        """Draw all figures of one experiment into a folder."""
        for name in ("figure", "budget", "sensitivity"):
            self._due.append(self._workers.submit(draw, name, summary, curves, folder))

    def __enter__(self) -> Drawing:
        return self

    def __exit__(self, *failure: object) -> None:
        self._workers.shutdown(cancel_futures=failure != (None, None, None))
        if failure == (None, None, None):
            for figure in self._due:
                figure.result()  # raises what went wrong there


def draw(name: str, summary: Mapping[str, Any], curves: Mapping[str, Any], folder: Path) -> None:
    """One figure in every format."""
    from gladstorm import figures  # a second of imports that only the process that draws should pay

    if name == "sensitivity":
        figure = figures.sensitivity(summary)
    else:
        figure = figures.comparison(summary, curves, "main" if name == "figure" else name)
    for suffix in SUFFIXES:
        figures.save(figure, folder / f"{name}{suffix}")
