"""Progress of long work: on standard error a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

T = TypeVar("T")

QUIET_SECONDS = 2.0  # work shorter than this shows nothing
LINE_SECONDS = 15.0  # between plain lines

_QUIET = ContextVar("_QUIET", default=False)
_CALLBACK: ContextVar[Callable[[float], None]] = ContextVar("_CALLBACK", default=lambda _done: None)
_NOTE = ContextVar("_NOTE", default="")


def quietly() -> AbstractContextManager[None]:
    """Show no progress and log nothing inside this with-block.

    >>> with quietly():
    ...     log("nobody reads this")
    """
    return within(_QUIET, True)


def log(sentence: str) -> None:
    """Say on standard error what is being done."""
    if not _QUIET.get():
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()


def on_progress(callback: Callable[[float], None]) -> AbstractContextManager[None]:
    """Call this function with what `report_progress` reports inside this with-block."""
    return within(_CALLBACK, callback)


def report_progress(done: float) -> None:
    """Report how much of the task at hand is done."""
    _CALLBACK.get()(done)


def annotate(note: str) -> None:
    """Add a few words to the progress that is shown from now on, such as what finished last."""
    _NOTE.set(note)


class Progress:
    """Progress of long work: a function of the amount that is done so far, in the unit of `total`."""

    def __init__(self, label: str, total: float) -> None:
        self.label, self.total = label, total
        self._first: tuple[float, float] | None = None  # when the first call came, and what was done by then
        self._said = 0.0
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
        self._task = self._bar.add_task(label, total=total)

    def __enter__(self) -> Progress:
        self._before = _NOTE.set("")
        return self

    def __call__(self, done: float) -> None:
        """Show that `done` of the total is done, if it is time to."""
        if _QUIET.get():
            return
        now = time.monotonic()
        note = f"; {_NOTE.get()}" if _NOTE.get() else ""
        self._bar.update(self._task, completed=done, description=self.label + note)
        if self._first is None:  # what came before it was compiling: the pace is what follows
            self._first, self._said = (now, done), now + QUIET_SECONDS - LINE_SECONDS
        begun, before = self._first
        if now - begun < QUIET_SECONDS:
            return
        if not self._bar.disable:
            self._bar.start()
        elif now - self._said >= LINE_SECONDS and done > before:
            self._said = now
            left = (now - begun) * (self.total - done) / (done - before)
            log(f"{self.label}: {100 * done / self.total:.0f} %, about {left:.0f} s left{note}")

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        _NOTE.reset(self._before)


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a variable this value inside a with-block, in its thread only.

    >>> depth = ContextVar("depth", default=0)
    >>> with within(depth, 1):
    ...     depth.get()
    1
    """
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)
