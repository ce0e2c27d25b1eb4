"""Ctrl-C and SIGTERM: everything ends, with one line and the signal's exit code, and nothing is left running."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gladstorm import Record
from gladstorm.jobs import interrupts

Said = Callable[..., tuple[int, str, str]]
TIMEOUT = 1200.0  # generous: no test is about time
STARTS_AGAIN = "Interrupted: nothing new is kept; the same command starts again.\n"
WORK = """
import hashlib, time
from gladstorm.jobs import interrupts

interrupts.PATIENCE = {}  # before anybody can interrupt
with interrupts.handle_signals():
    print("working", flush=True)
    {}
    print("done")
"""


@pytest.fixture(autouse=True)
def _children_hear_ctrl_c_even_if_the_tests_run_in_the_background() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def started(*command: str) -> "subprocess.Popen[str]":
    """A process in a group of its own."""
    pipe = subprocess.PIPE
    arguments = [sys.executable, *command]
    return subprocess.Popen(arguments, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Exit code and what it said, once neither it nor any process it started lives."""
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    return process.returncode, out, err


def working(work: str, patience: float = interrupts.PATIENCE) -> "subprocess.Popen[str]":
    process = started("-c", WORK.format(patience, work.replace("\n", "\n    ")))
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_work_that_asks_stops_in_order_and_keeps_what_it_has(number: int, code: int) -> None:
    process = working(
        "try:\n    while True: interrupts.check()\n"
        "finally:\n    time.sleep(2); interrupts.check(); print('kept'); interrupts.set_kept_message('a part is kept')",
        TIMEOUT,
    )
    process.send_signal(number)
    assert ended(process) == (code, "kept\n", "Interrupted: a part is kept.\n")


@pytest.mark.parametrize(
    "work",
    ["hashlib.pbkdf2_hmac('sha256', b'', b'', 2 * 10**9)", "while True: pass", "time.sleep(600)"],
    ids=["in C", "in Python", "in the system"],
)
def test_work_that_does_not_ask_is_ended(work: str) -> None:
    process = working(f"interrupts.set_kept_message('the parts are kept')\n{work}")
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "", "Interrupted: the parts are kept.\n")
    assert 0 < interrupts.PATIENCE < 2


def test_a_callback_that_swallows_exceptions_swallows_no_interrupt() -> None:
    swallow = "while True:\n    try:\n        time.sleep(0.001)\n    except BaseException: pass\n    interrupts.check()"
    process = working(swallow)
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "", STARTS_AGAIN)


def test_the_second_signal_ends_at_once_what_takes_its_time_to_stop() -> None:
    process = working(
        "try:\n    while True: interrupts.check()\nfinally:\n    print('keeping', flush=True); time.sleep(600)"
    )
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "keeping\n"
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (130, "", STARTS_AGAIN)


@pytest.mark.parametrize(
    ("number", "code", "end"),
    [(2, 130, "pass"), (2, 130, "sys.exit(0)"), (2, 130, "sys.exit(2)"), (2, 130, "1 / 0"), (15, 143, "1 / 0")],
)
def test_the_signal_decides_the_exit_code_whether_or_not_anybody_heard_it(number: int, code: int, end: str) -> None:
    process = working(
        "import sys\nwhile interrupts._State.received is None: time.sleep(0.001)\n"
        f"interrupts.set_kept_message('the file is written')\nprint('printed')\n{end}",
        TIMEOUT,
    )
    process.send_signal(number)
    code_of_it, out, err = ended(process)
    assert (code_of_it, err) == (code, "Interrupted: the file is written.\n")
    assert out.splitlines()[0] == "printed"


STREAMS = "simulate --objective cauchy --method sgd --gamma 0.1 --steps 5 --save x --json"


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "<&- 2>&-", ">&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_is_one_that_nobody_reads(closed: str) -> None:
    def run(redirected: str) -> tuple[int, str, bytes]:
        Path("x").unlink(missing_ok=True)
        command = f"{sys.executable} -m gladstorm {STREAMS} {redirected}"
        run = subprocess.run(command, shell=True, capture_output=True, text=True)
        return run.returncode, run.stdout, Path("x").read_bytes()

    assert run(closed) == run(closed.replace(">&-", ">/dev/null").replace("<&-", "</dev/null"))


@pytest.mark.parametrize("terminal", [False, True])
def test_on_a_terminal_the_line_takes_the_place_of_the_progress_and_gives_the_cursor_back(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.isatty", lambda _: terminal)
    monkeypatch.setattr(interrupts._State, "message", interrupts.NOTHING_KEPT)
    interrupts._write_message()
    assert capfd.readouterr().err == ("\r\x1b[K\x1b[?25h" if terminal else "") + STARTS_AGAIN


AT_ONCE = """
import os, signal, time

def interrupted_then(number, handler, set_handler=signal.signal):
    before = set_handler(number, handler)
    if number == signal.SIGTERM:  # the last one that is set
        os.kill(os.getpid(), signal.SIGINT)
    return before

signal.signal = interrupted_then
from gladstorm.jobs import interrupts

end = time.monotonic() + 60
with interrupts.handle_signals():
    while time.monotonic() < end: interrupts.check()
"""


def test_a_signal_in_the_moment_in_which_listening_begins_is_not_lost() -> None:
    assert ended(started("-c", AT_ONCE)) == (130, "", STARTS_AGAIN)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = working("time.sleep(0.5)\ninterrupts.check()")
    process.send_signal(signal.SIGINT)
    assert ended(process) == (0, "done\n", "")


def test_outside_the_command_line_nothing_is_changed() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with interrupts.handle_signals(), interrupts.handle_signals():  # `__main__` and `cli.main` both listen
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
    interrupts.check()


# The commands.

SIMULATE = (
    "simulate --objective cauchy --dim 2 --method sgd --gamma 0.001 --seeds 2 --steps 1000000000 --save x".split()
)

# However slow the machine is: it stops in order.
PATIENT_COMMAND = f"""
from gladstorm.jobs import interrupts
interrupts.PATIENCE = {TIMEOUT}
from gladstorm.__main__ import main
main()
"""


def _stopped_in_a_simulation(out: str, line: str) -> None:
    """What a simulation says and keeps that was interrupted: a table and a record of the steps that were made."""
    step = re.fullmatch(
        r"Interrupted: no configuration had finished, step ([\d,]+) is shown; all 1 that had begun are in x; "
        r"the same command runs all\.",
        line,
    )
    assert step is not None
    assert "sgd" in out
    record = Record.load("x")
    assert set(record.reached.ravel()) == {int(step[1].replace(",", ""))}
    assert np.isfinite(record.grad_norm[..., record.steps <= record.reached.min()]).all()
    assert np.isnan(record.grad_norm[..., -1]).all()


LISTENS = re.compile(r"SigCgt:\s*[0-9a-f]*[4-7c-f][0-9a-f]{3}\b")  # SIGTERM, bit 14 of the signals with a handler
LOADS_JAX = re.compile(r"/jaxlib/")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells by /proc how far a process has come")
@pytest.mark.parametrize(("file", "what"), [("status", LISTENS), ("maps", LOADS_JAX)], ids=["at once", "loading JAX"])
@pytest.mark.parametrize("command", [["gladstorm", *SIMULATE], ["evidence", "tightness", "--out", "out"]])
def test_ctrl_c_during_start_up_is_one_line(command: list[str], file: str, what: re.Pattern[str]) -> None:
    process = started("-m", *command)
    while not what.search(Path(f"/proc/{process.pid}/{file}").read_text()):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert code == 130
    if out:  # a fast machine, or a slow signal: the simulation had begun
        _stopped_in_a_simulation(out, err.splitlines()[-1])
    else:
        assert (err.count("\n"), err[:13]) == (1, "Interrupted: ")


def test_ctrl_c_during_a_simulation_is_one_line_after_those_of_its_progress() -> None:
    process = started("-c", PATIENT_COMMAND, *SIMULATE)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("simulating: ")
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    *progress, line = err.splitlines()
    assert code == 130
    assert all(each.startswith("simulating: ") for each in progress)
    _stopped_in_a_simulation(out, line)


def test_ctrl_c_while_a_study_compiles_says_how_to_go_on() -> None:
    process = started("-m", "evidence", *"reproduction cubic --quick --steps 1000000000 --out out".split())
    assert process.stderr is not None
    assert "tuning" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert (code, out) == (130, "")
    said = "Interrupted: what had finished is in out/cache; the same command goes on from there."
    assert err.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "evidence verification --regime nsgdm/smooth/bg0",
            "Interrupted: what had finished is in out/verification/parts; the same command goes on from there.\n",
        ),
        (
            "evidence verification --out o",
            "Interrupted: what had finished is in o/parts; the same command goes on from there.\n",
        ),
        ("gladstorm simulate --objective cauchy --method sgd --gamma 1", STARTS_AGAIN),
        ("gladstorm compare --objective cauchy --method sgd --method nsgdm(eta=0.1)", STARTS_AGAIN),
    ],
)
def test_every_command_says_what_is_kept(
    gladstorm: Said, evidence: Said, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gladstorm.simulation.runs.Runs.__call__", interrupted)
    monkeypatch.setattr("evidence.verification.settings.run", interrupted)
    monkeypatch.setattr("evidence.verification.oracle_variance.checked", interrupted)
    program, *words = command.split()
    code, out, err = {"gladstorm": gladstorm, "evidence": evidence}[program](*words)
    progress = [line for line in err.splitlines(keepends=True) if not line.startswith("compare: ")]
    assert (code, out, progress) == (130, "", [said])
