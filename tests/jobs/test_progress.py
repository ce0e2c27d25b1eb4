"""Progress: nothing for short work, a bar on a terminal, plain lines elsewhere, never on standard output."""

from __future__ import annotations

import io
import sys

import pytest

from gladstorm.jobs import progress
from gladstorm.jobs.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])  # type: ignore[attr-defined]  # the module's own clock
    return now


def advance(bar: Progress, clock: list[float], *moments: tuple[float, float]) -> None:
    for clock[0], done in moments:
        bar(done)


def test_short_work_says_nothing(clock: list[float], capfd: pytest.CaptureFixture[str]) -> None:
    with Progress("simulating", 100) as bar:
        advance(bar, clock, (10.5, 10), (12.4, 90))
    assert capfd.readouterr() == ("", "")


def test_a_pipe_gets_a_line_now_and_then_at_the_pace_after_the_first_call(
    clock: list[float], capfd: pytest.CaptureFixture[str]
) -> None:
    with Progress("simulating", 100) as bar:
        advance(bar, clock, (10, 0), (12, 20), (13, 30), (28, 60), (30, 99))
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == ["simulating: 20 %, about 8 s left", "simulating: 60 %, about 12 s left"]


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress("simulating", 100) as bar:
        advance(bar, clock, (10, 10), (15, 50))
        bar._bar.refresh()
        assert "simulating" in screen.getvalue()
        assert "50%" in screen.getvalue()
    assert screen.getvalue().rstrip().endswith("\x1b[2K")


class Notebook:
    """IPython of a notebook, as far as progress knows it: what stands in the cell, and how often it has changed."""

    HTML = str

    def __init__(self, kernel: object) -> None:
        self.kernel, self.cell, self.changes = kernel, "", 0

    def get_ipython(self) -> Notebook:
        return self

    def display(self, content: str, *, display_id: bool) -> Notebook:
        assert display_id
        self.update(content)
        return self

    def update(self, content: str) -> None:
        self.cell, self.changes = content, self.changes + 1


def test_a_notebook_gets_a_bar_that_moves_and_is_gone_at_the_end(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    notebook = Notebook(kernel=object())
    for name in ("IPython", "IPython.display"):
        monkeypatch.setitem(sys.modules, name, notebook)  # not a module, but has its names
    with Progress("<simulating>", 100) as bar:
        advance(bar, clock, (10, 0), (11.9, 10))
        assert notebook.changes == 0  # short work shows nothing
        advance(bar, clock, (12, 20), (12.1, 21))
        shown = '<progress value="20" max="100"></progress> &lt;simulating&gt;: 20 %, about 8 s left'
        assert (notebook.cell, notebook.changes) == (shown, 1)
        advance(bar, clock, (15, 50))
        assert 'value="50"' in notebook.cell
    assert (notebook.cell, notebook.changes) == ("", 3)
    assert capfd.readouterr() == ("", "")


def test_ipython_in_a_terminal_is_no_notebook(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    terminal = Notebook(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", terminal)  # not a module, but has its names
    with Progress("simulating", 100) as bar:
        advance(bar, clock, (10, 0), (12, 20))
    assert capfd.readouterr().err == "simulating: 20 %, about 8 s left\n"
    assert terminal.changes == 0
