"""Tasks in processes of this machine: the numbers of one process whatever is killed, and reached by nobody else."""

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pipe, connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import gladstorm as gs
from evidence.verification.checks import PartResult
from gladstorm.jobs import interrupts
from gladstorm.jobs.tasks import Task, results
from gladstorm.simulation import cluster, layout, processes, worker

ORACLE = gs.BlumGladyshev(gs.objectives.named("power:3", start=5.0), B=0.5, G=0.5)
SMALL = layout.Costs(task_seconds=1e-9, runs_at_once=1)  # tasks of one seed each


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    """What --workers 2 gives."""
    with cluster.open_executor(2, None) as executor:
        yield executor


def _numbered(number: int) -> PartResult:
    return PartResult(rows={"table": [{"number": number}]})


def test_processes_give_the_numbers_of_this_one(two: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MEASURED", SMALL)
    here, there = (gs.run(ORACLE, gs.sgd([0.01, 0.02]), steps=60, seeds=3, executor=each) for each in (None, two))
    for name in ("grad_norm", "value", "sfo", "last", "sampled", "diverged", "reached", "steps", "seeds"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name), err_msg=name)
    assert there.config == here.config


def _dies_in(pid: int) -> None:
    """End that process; in another one wait for it, so that each process has one task."""
    if os.getpid() == pid:
        os.kill(pid, signal.SIGKILL)
    for _ in range(600):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)


def test_a_process_that_dies_costs_its_task_and_another_one_takes_its_place(
    two: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "TRIES", 1)
    before = two.pids
    fatal: Any = partial(_dies_in, before[0])
    with pytest.raises(worker.TasksFailedError, match=r"all others are done; their errors .* is fatal\."):
        list(results([Task("fatal", 0, fatal)] * 2, None, two))
    assert "its process was killed by SIGKILL, as when the memory is full\n" in capsys.readouterr().err
    monkeypatch.undo()
    assert len(set(two.pids) & set(before)) == 1
    tasks = [Task(f"task {n}", n, partial(_numbered, n)) for n in range(4)]
    assert dict(results(tasks, None, two)) == {n: _numbered(n) for n in range(4)}


def test_what_a_part_prints_is_not_the_answer_of_the_command(two: Any) -> None:
    ((_, found),) = results([Task("task", 0, _where_it_prints)], None, two)
    assert found == PartResult(rows={"table": [{"on standard error": True}]})


def _where_it_prints() -> PartResult:
    return PartResult(rows={"table": [{"on standard error": sys.stdout is sys.stderr}]})


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-signal.SIGKILL, "was killed by SIGKILL, as when the memory is full"),
        (-signal.SIGSEGV, "was killed by SIGSEGV"),
    ],
)
def test_of_a_process_that_ended_its_exit_code_or_its_signal_is_said(code: int, said: str) -> None:
    class Process:
        pid: Any = None
        exitcode: Any = None

        def join(self, seconds: float | None = None) -> None:
            if seconds is not None:  # it is given time to end by itself
                self.exitcode = code

        def kill(self) -> None:
            self.exitcode = -signal.SIGKILL if self.exitcode is None else self.exitcode

    process = object.__new__(processes._Worker)
    its: Any = process
    its._process, (its.joined, theirs) = Process(), Pipe()
    theirs.close()
    assert process.end_and_say_why() == said
    assert its.joined.closed


def test_a_task_that_raises_is_tried_three_times_and_its_traceback_is_told(
    two: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [Task("good", 0, PartResult), Task("bad", 1, partial(_raise, tmp_path / "tries"))]
    with pytest.raises(worker.TasksFailedError, match="The first is bad"):
        list(results(tasks, None, two))
    assert (tmp_path / "tries").read_text() == "xxx"
    said = capsys.readouterr().err
    assert "ZeroDivisionError: on purpose" in said
    assert "in _raise" in said


def _raise(tries: Path) -> PartResult:
    with tries.open("a") as file:
        file.write("x")
    raise ZeroDivisionError("on purpose")


def test_a_job_that_is_given_up_leaves_nothing_to_the_next(two: Any) -> None:
    tasks = [Task(f"task {n}", n, partial(_numbered, n)) for n in range(8)]
    first = results(tasks, None, two)
    next(first)
    first.close()  # type: ignore[attr-defined]  # a generator
    assert dict(results(tasks, None, two)) == {n: _numbered(n) for n in range(8)}


def test_what_cannot_be_sent_is_named(two: Any) -> None:
    task = Task("SGD, seeds 0–9", 0, lambda: PartResult())
    with pytest.raises(ValueError, match=r"must be picklable, and SGD, seeds 0–9 is not .*a module that the workers"):
        list(results([task], None, two))


AS_ANOTHER_USER = """
import json, os, socket, sys

pids, addresses = json.loads(sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
reached = []
for pid in pids:
    own = f"/proc/{pid}"
    for what in (lambda: os.listdir(f"{own}/fd"), lambda: open(f"{own}/mem", "rb"), lambda: os.kill(pid, 0)):
        try:
            what()
            reached.append(pid)
        except PermissionError:
            pass
for address in addresses:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        socket.socket(family).connect(tuple(address) if isinstance(address, list) else address)
        reached.append(address)
    except OSError:
        pass
print(json.dumps(reached))
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_this_machine_can_connect_to_nothing(two: Any) -> None:
    psutil = pytest.importorskip("psutil")
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = {
        connection.laddr
        for process in family[1:]
        for kind in ("inet", "unix")
        for connection in process.net_connections(kind)
        if connection.laddr and (kind == "unix" or connection.status == psutil.CONN_LISTEN)
    }
    assert not listening
    told = json.dumps([[process.pid for process in family], list(listening)])
    script = [sys.executable, "-c", AS_ANOTHER_USER, told]
    assert json.loads(subprocess.run(script, capture_output=True, check=True, text=True).stdout) == []


def test_processes_that_die_while_they_start_end_the_job_with_the_cause(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONHOME", "nowhere")  # no Python starts
    with (
        pytest.raises(
            ChildProcessError, match=r"must live to compute; 3 in a row died while they started.*exit code 1"
        ),
        cluster.open_executor(1, None) as executor,
    ):
        list(results([Task("task", 0, PartResult)], None, executor))


class Scripted(processes._Worker):
    """A worker that dies as its script says, without a process: before it is ready, at its n-th task, or never."""

    script: list[int] = []

    def __init__(self) -> None:
        self.joined, self._theirs = Pipe()
        self.is_ready, self.attempt = False, None
        self._lives = self.script.pop() if self.script else 10**9
        if self._lives < 0:
            self._theirs.close()
        else:
            self._theirs.send((None, ""))

    @override
    def begin(self, attempt: Any) -> None:
        self.attempt, self._lives = attempt, self._lives - 1
        if self._lives < 0:
            self._theirs.close()
        else:
            self._theirs.send((pickle.loads(worker.pack(attempt.task, pickle.dumps)[0])(), ""))

    @override
    def end(self) -> None:
        self.joined.close()

    @override
    def end_and_say_why(self) -> str:
        return "was killed by SIGKILL"


@pytest.mark.parametrize("kills", range(1, 11))
def test_with_any_pattern_of_kills_the_job_ends_right_or_with_a_sentence(
    kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(range(500))
    monkeypatch.setattr(interrupts, "check", lambda: next(looks))  # who waits for ever is stopped
    monkeypatch.setattr(processes, "_Worker", Scripted)
    tasks = [Task(f"task {n}", n, partial(_numbered, n)) for n in range(6)]
    chance, ended = random.Random(kills), set()
    for count in (1, 2, 4):
        for _ in range(5):
            looks = iter(range(500))
            Scripted.script = [chance.choice([-1, 0, 0, 1, 2]) for _ in range(kills)]
            found: list[tuple[int, PartResult]] = []
            sentence = ""
            try:
                with processes.Processes(count) as executor:
                    found.extend(results(tasks, None, executor))
            except (worker.TasksFailedError, ChildProcessError) as problem:
                sentence = str(problem)
            assert len(dict(found)) == len(found)  # each once
            assert dict(found) == {number: _numbered(number) for number, _ in found}
            if "tasks failed 3 times each, and all others are done" in sentence:
                assert len(found) + int(sentence.split()[1]) == len(tasks)
            elif sentence:
                assert "3 in a row died while they started, the last was killed by SIGKILL" in sentence
            else:
                assert len(found) == len(tasks)
            assert not sentence or kills >= min(worker.TRIES, processes.DEATHS)
            ended.add(bool(sentence))
    assert False in ended


def test_deaths_are_in_a_row_only_if_no_process_became_ready_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_Worker", Scripted)
    wait = connection.wait

    def in_order(joined: Any, seconds: float) -> list[Any]:
        return sorted(wait(joined, seconds), key=list(joined).index)

    monkeypatch.setattr(connection, "wait", in_order)
    tasks = [Task(f"task {n}", n, partial(_numbered, n)) for n in range(2)]
    lives, dies = 10**9, -1
    Scripted.script = [dies, lives, dies, dies]  # from its end: two die, one of those after them is ready, one dies
    with processes.Processes(2) as executor:
        assert dict(results(tasks, None, executor)) == {n: _numbered(n) for n in range(2)}
    assert not Scripted.script
    Scripted.script = [dies, dies, dies]
    with (
        pytest.raises(ChildProcessError, match="3 in a row died while they started"),
        processes.Processes(2) as executor,
    ):
        list(results(tasks, None, executor))


def test_a_result_of_a_job_that_was_given_up_is_none_of_the_next_job_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_Worker", Scripted)
    Scripted.script = []
    given_up, following = ([Task("task", n, partial(_numbered, first + n)) for n in range(4)] for first in (0, 100))
    with processes.Processes(2) as executor:
        next(job := executor.compute(enumerate(given_up)))
        job.close()  # type: ignore[attr-defined]  # a generator
        found = list(executor.compute(enumerate(following)))
    assert sorted(number for number, _ in found) == [0, 1, 2, 3]
    assert dict(found) == {n: _numbered(100 + n) for n in range(4)}
