"""Progress of long work on standard error: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

QUIET_SECONDS = 2.0  # work shorter than this shows nothing
LINE_SECONDS = 15.0  # between plain lines


class Progress:
    """Call it with the amount of work done so far, in the unit of `total`."""

    def __init__(self, label: str, total: float) -> None:
        self.label, self.total = label, total
        self._first: tuple[float, float] | None = None  # when the first call came, and what was done by then
        self._said = 0.0
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
        self._task = self._bar.add_task(label, total=total)

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: float) -> None:
        """Show that `done` of the total is done, if it is time to."""
        now = time.monotonic()
        self._bar.update(self._task, completed=done)
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
            sys.stderr.write(f"{self.label}: {100 * done / self.total:.0f} %, about {left:.0f} s left\n")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
