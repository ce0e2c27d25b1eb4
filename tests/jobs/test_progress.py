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
