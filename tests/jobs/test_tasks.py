"""A long job as a list of tasks: what is kept is never computed, and several processes on one store share the work."""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from evidence.verification.checks import PartResult
from gladstorm.jobs import interrupts
from gladstorm.jobs.store import Store
from gladstorm.jobs.tasks import HERE, Task, results


def _stored(folder: Path) -> "Store[PartResult]":
    return Store(folder, PartResult, ".json")


def _found(number: int) -> PartResult:
    return PartResult(rows={"table": [{"number": number}]})


def _tasks(computed: list[int], meanwhile: Callable[[int], None] = lambda _: None) -> list[Task[PartResult]]:
    def compute(number: int) -> PartResult:
        computed.append(number)
        meanwhile(number)
        return _found(number)

    return [Task(f"task {n}", {"number": n}, partial(compute, n)) for n in range(6)]


def _all(tasks: list[Task[PartResult]], store: "Store[PartResult] | None" = None) -> dict[int, PartResult]:
    pairs = list(results(tasks, store))
    assert len(pairs) == len(dict(pairs))  # each once
    return dict(pairs)


EXPECTED = {n: _found(n) for n in range(6)}


def test_without_a_store_all_are_computed_in_order() -> None:
    computed: list[int] = []
    assert _all(_tasks(computed)) == EXPECTED
    assert computed == [0, 1, 2, 3, 4, 5]


def test_what_the_store_has_is_not_computed_and_not_given_to_the_executor(tmp_path: Path) -> None:
    computed: list[int] = []
    for number, _ in results(_tasks(computed), _stored(tmp_path)):
        if number == 2:
            break  # a kill after the third
    again: list[int] = []
    assert _all(_tasks(again), _stored(tmp_path)) == EXPECTED
    assert (computed, again) == ([0, 1, 2], [3, 4, 5])

    class NeverAsked:
        def compute(self, tasks: Iterator[object]) -> Iterator[object]:
            assert list(tasks) == []
            return iter(())

    assert dict(results(_tasks([]), _stored(tmp_path), NeverAsked())) == EXPECTED  # type: ignore[arg-type]  # a stand-in


def test_one_result_is_held_at_a_time(tmp_path: Path) -> None:
    computed: list[int] = []
    for number, _ in results(_tasks(computed), _stored(tmp_path), HERE):
        assert computed == list(range(number + 1))


def test_what_another_process_has_begun_is_left_to_it_and_what_it_finished_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = _stored(tmp_path), _stored(tmp_path)
    theirs = {0, 1}
    with pytest.MonkeyPatch.context() as as_other:
        as_other.setattr("os.getpid", lambda: 1)  # a process that lives
        for number in theirs:
            assert other.claim({"number": number})

    def meanwhile(number: int) -> None:
        if number == 3:
            other.keep({"number": 0}, _found(0))  # the other one finishes

    computed: list[int] = []
    assert _all(_tasks(computed, meanwhile), mine) == EXPECTED
    assert computed == [2, 3, 4, 5, 1]  # theirs last, and not the one that was there by then
    assert not list(tmp_path.rglob("*.claim"))


def test_a_claim_of_a_dead_process_goes_when_a_process_opens_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    living = {"number": 1}
    for pid, identity in {2**22 + 1: {"number": 0}, 1: living}.items():  # more than Linux gives; one that lives
        with pytest.MonkeyPatch.context() as as_other:
            as_other.setattr("os.getpid", lambda pid=pid: pid)
            assert _stored(tmp_path).claim(identity)
    monkeypatch.setattr("gladstorm.jobs.store._OPENED", set())  # as in the next process
    store = _stored(tmp_path)
    (left,) = tmp_path.rglob("*.claim")
    assert not store.has(living)
    assert left.exists()


@pytest.mark.parametrize("finished", range(6))
def test_a_job_that_ends_early_leaves_no_claim(finished: int, tmp_path: Path) -> None:
    def fail(number: int) -> None:
        if number == finished:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _all(_tasks([], fail), _stored(tmp_path))
    assert len(list(tmp_path.glob("*/*/*"))) == finished


def test_a_claim_of_another_on_what_is_finished_here_is_left_alone(tmp_path: Path) -> None:
    store = _stored(tmp_path)
    for number, _ in results(_tasks([]), store):
        assert store.has({"number": number})  # as another process would, between its look and its claim
    assert len(list(tmp_path.rglob("*.claim"))) == 6


def test_a_claim_of_a_dead_process_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.MonkeyPatch.context() as as_other:
        as_other.setattr("os.getpid", lambda: 2**22 + 1)  # more than Linux gives
        assert _stored(tmp_path).claim({"number": 0})
    assert _stored(tmp_path).claim({"number": 0})


@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupt_stops_a_job_before_its_next_task_be_it_computed_or_read(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept:
        _all(_tasks([]), _stored(tmp_path))
    monkeypatch.setattr(interrupts._State, "stopping", False)
    monkeypatch.setattr(interrupts._State, "received", None)
    computed: list[int] = []
    job = results(_tasks(computed), _stored(tmp_path) if kept else None)
    assert next(job) == (0, EXPECTED[0])
    monkeypatch.setattr(interrupts._State, "received", 2)
    with pytest.raises(KeyboardInterrupt):
        next(job)
    assert computed == ([] if kept else [0])


def test_a_claim_of_this_process_is_no_reason_to_wait(tmp_path: Path) -> None:
    for _ in range(2):
        assert _stored(tmp_path).claim({"number": 0})


def test_a_claim_of_another_machine_holds_for_a_day(tmp_path: Path) -> None:
    store = _stored(tmp_path)
    assert store.has({"number": 0})
    (claim,) = tmp_path.rglob("*.claim")
    for hours, free in ((0, False), (23, False), (25, True)):
        claim.write_text("01234567 1")
        os.utime(claim, (time.time() - hours * 3600,) * 2)
        assert store.has({"number": 0}) is free


def test_a_store_of_other_versions_is_named_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr("gladstorm.jobs.store.versions", lambda: {"gladstorm": "0.0.9", "jax": "0.9.9"})
        _all(_tasks([]), _stored(tmp_path))
    monkeypatch.setattr("gladstorm.jobs.store._OPENED", set())
    computed: list[int] = []
    assert _all(_tasks(computed), _stored(tmp_path)) == EXPECTED
    assert computed == [0, 1, 2, 3, 4, 5]
    said = capsys.readouterr().err
    assert "also holds results made with gladstorm 0.0.9, jax 0.9.9" in said
    assert len(list(tmp_path.glob("*/made-with.json"))) == 2


def test_a_disk_that_fills_up_costs_the_keeping_and_not_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    store = _stored(tmp_path)
    monkeypatch.setattr(PartResult, "save", full)
    assert _all(_tasks([]), store) == EXPECTED
    assert capsys.readouterr().err.count("No space left on device") == 1


def test_a_disk_that_becomes_read_only_costs_the_keeping_and_not_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    store = _stored(tmp_path)
    assert _all(_tasks([])[:3], store) == {n: _found(n) for n in range(3)}
    damaged = min(tmp_path.glob("*/*/*.json"))
    damaged.write_bytes(b"")
    for writes in ("unlink", "write_text"):  # the claims of a job, and what it removes
        monkeypatch.setattr(Path, writes, refused)
    monkeypatch.setattr(PartResult, "save", refused)
    computed: list[int] = []
    assert _all(_tasks(computed), store) == EXPECTED
    assert len(computed) == 4
    assert capsys.readouterr().err.count("Read-only file system") == 1


def test_a_store_with_results_of_other_jobs_only_says_so_once_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def later(name: str) -> list[Task[PartResult]]:
        return [Task(task.name, {"job": name}, task.compute) for task in _tasks([])[:1]]

    _all(later("first"), _stored(tmp_path))
    _all(later("second"), _stored(tmp_path))  # of one process: nothing has changed between runs
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("gladstorm.jobs.store._OPENED", set())  # as in the next process
    _all(later("first"), _stored(tmp_path))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("gladstorm.jobs.store._OPENED", set())
    store = _stored(tmp_path)
    _all(later("third"), store)
    _all(later("fourth"), store)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert (
        f"{tmp_path} holds results of other jobs and none of this one, whose problem, methods, seeds or steps" in said
    )
    assert len(list(tmp_path.glob("*/*/*.json"))) == 4


def test_a_store_that_has_part_of_a_job_does_not_say_it_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = _stored(tmp_path)
    _all(_tasks([])[:2], store)
    for damaged in (False, True):  # the rest is missing; what is there is damaged, and is said to be
        monkeypatch.setattr("gladstorm.jobs.store._OPENED", set())
        for path in tmp_path.glob("*/*/*.json") if damaged else ():
            path.write_bytes(b"")
        assert _all(_tasks([])[: 2 if damaged else 6], _stored(tmp_path)).keys() == set(range(2 if damaged else 6))
        said = capsys.readouterr().err
        assert "none of this one" not in said
        assert said.count("It is computed again") == 2 * damaged


def test_a_store_where_a_file_stands_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"store: must be a folder that can be written to; got '.*file'"):
        _stored(tmp_path / "file")
