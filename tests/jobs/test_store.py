"""Jobs that are kept: found again by what decides them, damage said and mended, disks that fail, folders shared."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import gladstorm as gs
from evidence.results import Part
from evidence.verification import QUICK, verify
from evidence.verification.checks import AtMost, Check, PartResult
from gladstorm.core.statistics import Mean
from gladstorm.jobs import interrupts, provenance
from gladstorm.jobs.files import save_json
from gladstorm.jobs.progress import quietly
from gladstorm.jobs.provenance import versions
from gladstorm.jobs.tasks import HERE, Store, Task, results
from gladstorm.simulation import layout, runs, validation
from gladstorm.simulation.record import Record

CHECK = Check("regime", "instance", "bound", 10, Mean(1.25, 0.5, 30), AtMost(3.5))
RESULT = PartResult([CHECK], {"table": [{"B": 0.5}]})
ORACLE = gs.BlumGladyshev(gs.objectives.named("power:3", start=5.0), B=0.5, G=0.5)
METHODS = {"SGD": gs.sgd([0.01, 0.02]), "NSGDM": gs.nsgdm(0.01, 0.1)}
Said = Callable[..., tuple[int, str, str]]


def _refused(*_: object) -> Any:
    raise AssertionError("what is kept is not computed")


def _stored(folder: Path) -> "Store[PartResult]":
    return Store(folder, PartResult, ".json")


def _only(folder: Path) -> Path:
    (path,) = folder.glob("*/*/*.*")
    return path


# One result.


def test_a_result_is_found_by_its_identity_versions_and_source_and_by_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = {"a": 1, "b": {"c": 2, "d": 3}}
    assert _stored(tmp_path).recall(identity, lambda: RESULT) == RESULT
    assert _stored(tmp_path).recall({"b": {"d": 3, "c": 2}, "a": 1}, _refused) == RESULT
    for name, value in (("versions", lambda: versions() | {"jax": "0.0"}), ("source", lambda: "other")):
        with monkeypatch.context() as changed:
            changed.setattr(f"gladstorm.jobs.tasks.{name}", value)
            assert _stored(tmp_path).find(identity) is None
    with pytest.raises(AssertionError, match="not computed"):
        _stored(tmp_path).recall({"a": 2}, _refused)


def test_the_source_is_that_of_every_file_and_of_a_release_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "evidence" in provenance._FOLLOWED
    package = tmp_path / "src" / "package"
    package.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("")
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(package.parent)
    __import__("package")
    hashes = []
    for name, text in (("one.py", "1"), ("one.py", "2"), ("two.py", "2"), ("notes.txt", "")):
        (package / name).write_text(text)
        provenance.source_of.cache_clear()
        hashes.append(provenance.source_of("package"))
    assert len(set(hashes)) == 3
    assert hashes[2] == hashes[3]
    (tmp_path / "pyproject.toml").unlink()
    provenance.source_of.cache_clear()
    assert provenance.source_of("package") == f"release {gs.__version__}"
    del sys.modules["package"]
    provenance.source_of.cache_clear()


def _sealed_by_no_one(text: bytes) -> bytes:
    return json.dumps({"format": json.loads(text)["format"], "checks": [], "rows": {}}).encode()


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda text: text.replace(b"1.25", b"1.35"),
    lambda text: text[:-20],
    lambda _: b"",
    _sealed_by_no_one,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_is_named_removed_and_computed_again(
    damage: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = _stored(tmp_path)
    store.recall({}, lambda: RESULT)
    path = _only(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    with pytest.raises(AssertionError, match="not computed"):
        store.recall({}, _refused)
    assert not store.has({})
    said = capsys.readouterr().err
    assert f"PartResult.load: {path} " in said
    assert said.endswith("It is computed again.\n")
    assert said.count("\n") == 1
    assert store.recall({}, lambda: RESULT) == RESULT
    assert path.read_bytes() == whole
    path.write_bytes(damage(whole))
    with quietly():
        assert store.recall({}, lambda: RESULT) == RESULT
    save_json(path, "gladstorm verification part 0", {})  # of another form
    with quietly():
        assert store.recall({}, lambda: RESULT) == RESULT
    assert capsys.readouterr().err == ""


def _records() -> list[Record]:
    return [gs.run(ORACLE, gs.sgd(0.1), steps=3, seeds=[seed]) for seed in (0, 1)]


KINDS: dict[str, tuple[type[Any], str, Callable[[], list[Any]]]] = {
    "a verification's": (PartResult, ".json", lambda: [PartResult(rows={"table": [{"n": n}]}) for n in (0, 1)]),
    "a study's": (Part, ".json", lambda: [Part({"n": n}) for n in (0, 1)]),
    "a sweep's": (Record, ".parquet", _records),
}


def _swap(one: Path, other: Path) -> None:
    held = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(held)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("jax", ["0.0", None], ids=["of two versions", "of two tasks"])
def test_two_whole_files_that_changed_places_are_noticed(
    kind: str, jax: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    its_class, suffix, make = KINDS[kind]
    stores: list[tuple[Store[Any], str]] = []
    for result, other in zip(make(), (versions(), versions() | ({"jax": jax} if jax else {})), strict=True):
        monkeypatch.setattr("gladstorm.jobs.tasks.versions", lambda other=other: other)
        stores.append((Store(tmp_path, its_class, suffix), "task" if jax else f"task {len(stores)}"))
        stores[-1][0].keep(stores[-1][1], result)
        assert stores[-1][0].find(stores[-1][1]) is not None
    _swap(*tmp_path.glob(f"*/*/*{suffix}"))
    capsys.readouterr()
    assert [store.find(task) for store, task in stores] == [None, None]
    assert capsys.readouterr().err.count("is whole but holds another result than its name says") == 2


def test_what_stands_where_a_result_belongs_is_neither_followed_nor_removed(tmp_path: Path) -> None:
    store = _stored(tmp_path / "store")
    store.keep({}, RESULT)
    path, precious = _only(tmp_path / "store"), tmp_path / "precious"
    precious.write_text("precious")
    for put in (partial(path.symlink_to, precious), partial(path.symlink_to, tmp_path / "new"), path.mkdir):
        path.unlink()
        put()
        for use in (partial(store.keep, {}, RESULT), partial(store.find, {})):
            with pytest.raises(ValueError, match=r"store: a (file must be a regular|result must not be a link)"):
                use()
        assert path.is_symlink() or path.is_dir()
    assert precious.read_text() == "precious"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("given", [3, b"folder", True, ["folder"]])
def test_what_is_no_path_and_no_folder_is_refused(given: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"store: must be the path of a folder, or None to keep nothing; got "):
        gs.run(ORACLE, gs.sgd(0.1), steps=3, store=given)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"store: must be a folder that can be written to; got '.*file'"):
        _stored(tmp_path / "file")


# A job of tasks.


def _numbered(number: int) -> PartResult:
    return PartResult(rows={"table": [{"number": number}]})


ALL = {n: _numbered(n) for n in range(6)}


def _tasks(computed: list[int], meanwhile: Callable[[int], None] = lambda _: None) -> list[Task[PartResult]]:
    def compute(number: int) -> PartResult:
        computed.append(number)
        meanwhile(number)
        return _numbered(number)

    return [Task(f"task {n}", {"number": n}, partial(compute, n)) for n in range(6)]


@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_kept_is_not_computed_nor_given_to_an_executor(
    read_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    computed: list[int] = []
    for number, _ in results(_tasks(computed), _stored(tmp_path), HERE):
        assert computed == list(range(number + 1))  # one result is held at a time
        if number == 2:
            break  # a kill after the third
    if read_only:
        monkeypatch.setattr(PartResult, "save", _disk_says(30, "Read-only file system"))
        monkeypatch.setattr(Path, "unlink", _disk_says(30, "Read-only file system"))
        min(tmp_path.glob("*/*/*.json")).write_bytes(b"")
    again: list[int] = []
    pairs = list(results(_tasks(again), _stored(tmp_path)))
    assert dict(pairs) == ALL
    assert len(pairs) == len(ALL)
    assert len(again) == 3 + read_only
    assert capsys.readouterr().err.count("can no longer be kept") == read_only


def _disk_says(number: int, why: str) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, why)

    return refuse


def test_a_disk_that_fills_up_costs_the_keeping_and_not_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = _stored(tmp_path)
    monkeypatch.setattr(PartResult, "save", _disk_says(28, "No space left on device"))
    assert dict(results(_tasks([]), store)) == ALL
    assert capsys.readouterr().err.count("No space left on device") == 1


def test_what_another_process_finishes_meanwhile_is_read(tmp_path: Path) -> None:
    other = _stored(tmp_path)
    computed: list[int] = []

    def meanwhile(number: int) -> None:
        if number == 0:
            other.keep({"number": 3}, _numbered(3))

    assert dict(results(_tasks(computed, meanwhile), _stored(tmp_path))) == ALL
    assert computed == [0, 1, 2, 4, 5]


SHARED = """
import sys
from gladstorm.jobs.tasks import Store
from evidence.verification.checks import PartResult

for number in range(100):
    store = Store(sys.argv[1], PartResult, ".json")
    rows = {"table": [{"number": number}] * 100}
    assert store.recall(number, lambda: PartResult(rows=rows)).rows == rows
"""


def test_processes_that_share_a_folder_disturb_no_result_of_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHARED, str(tmp_path)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[1] for process in processes] == ["", ""]
    assert [process.returncode for process in processes] == [0, 0]
    assert len(list(tmp_path.glob("*/*/*.json"))) == 100
    assert not list(tmp_path.glob("*/*/.*"))


def test_a_store_of_other_jobs_or_versions_only_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def of(job: str) -> list[Task[PartResult]]:
        return [Task(task.name, {"job": job}, task.compute) for task in _tasks([])[:1]]

    for job, lines, anew in (
        ("first", 0, False),
        ("second", 0, False),
        ("first", 0, True),
        ("third", 1, True),
        ("fourth", 0, False),
        ("of another version", 1, True),
    ):
        if anew:  # in one process nothing has changed between its jobs
            monkeypatch.setattr("gladstorm.jobs.tasks._OPENED", set())
        if "version" in job:
            monkeypatch.setattr("gladstorm.jobs.tasks.versions", lambda: {"jax": "0.3"})
        list(results(of(job), _stored(tmp_path)))
        said = capsys.readouterr().err
        assert said.count("holds results of other jobs, versions or source and none of this job") == lines
        assert said.count("\n") == lines
    assert len(list(tmp_path.glob("*/*/*.json"))) == 5


# A sweep.


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of one seed each."""
    monkeypatch.setattr(layout, "TASK_SECONDS", 1e-9)
    monkeypatch.setattr(layout, "RUNS", 1)


def _bytes(record: gs.Record) -> bytes:
    record.save(Path("record"))
    return Path("record").read_bytes()


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("looks", [10, 14, 19])
def test_an_interrupted_sweep_resumes_to_the_bytes_of_an_uninterrupted_one(
    looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild = {**METHODS, "wild": gs.sgd(1e3)}  # with numbers that are not finite
    whole, asked = gs.sweep(ORACLE, wild, steps=50, seeds=3), iter(range(10**6))

    def check() -> None:
        if next(asked) == looks + 2:  # it looks once for each of twelve tasks in the store
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as during:
        during.setattr(interrupts, "check", check)
        with pytest.raises(gs.Interrupted):
            gs.sweep(ORACLE, wild, steps=50, seeds=3, store=tmp_path)
    assert len(list(tmp_path.glob("*/*/*.parquet"))) < 12
    assert _bytes(gs.sweep(ORACLE, wild, steps=50, seeds=3, store=tmp_path)) == _bytes(whole)
    monkeypatch.setattr(runs.Runs, "__call__", _refused)
    assert _bytes(gs.sweep(ORACLE, wild, steps=50, seeds=3, store=tmp_path)) == _bytes(whole)


def test_names_of_methods_decide_nothing_and_every_number_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"steps": 20, "seeds": 2, "store": tmp_path}
    gs.sweep(ORACLE, METHODS, **asked)
    monkeypatch.setattr(runs.Runs, "__call__", _refused)
    assert gs.sweep(ORACLE, {"a": METHODS["SGD"], "b": METHODS["NSGDM"]}, **asked).labels[-1] == "b"
    other = gs.BlumGladyshev(ORACLE.objective, B=0.5, G=0.6)
    changes: list[tuple[Any, Any, dict[str, Any]]] = [
        (ORACLE, METHODS, {"steps": 21}),
        (ORACLE, METHODS, {"seeds": 3}),
        (ORACLE, METHODS, {"records": 9}),
    ]
    for oracle, methods, change in [*changes, (other, METHODS, {}), (ORACLE, [gs.nsgdm(0.01, 0.11)], {})]:
        with pytest.raises(AssertionError, match="not computed"):
            gs.sweep(oracle, methods, **asked | change)


SCALE = 1.0


def _own(captured: Any) -> gs.BlumGladyshev:
    objective = gs.objectives.from_function(lambda x: SCALE * jnp.sum((x - captured) ** 2), np.ones(3))
    return gs.BlumGladyshev(objective, B=0.5, G=1.0)


def test_what_a_users_function_does_decides_and_its_name_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed(oracle: gs.BlumGladyshev) -> str | None:
        (traced,) = validation.require_compatible(oracle, [gs.sgd(0.1)]).values()
        return validation.fingerprint(traced)

    first = hashed(_own(np.zeros(3)))
    assert first == hashed(_own(np.zeros(3))) is not None
    assert hashed(_own(np.array([0.0, 0.0, 1e-9]))) != first  # an array it captures
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0)
    assert hashed(_own(np.zeros(3))) != first  # a global it reads
    assert hashed(ORACLE) is None  # this package's parts are known by source and numbers


def test_a_part_of_verify_is_found_by_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["evidence.verification.bounds.verified", "evidence.verification.identities.checked"]
    for part in parts:
        monkeypatch.setattr(part, lambda *_: RESULT)
    regime = ("nstorm/smooth/deterministic",)
    first = verify(QUICK, regime, tmp_path)
    for part in parts:
        monkeypatch.setattr(part, _refused)
    assert verify(QUICK, regime, tmp_path).as_dict() == first.as_dict()
    with pytest.raises(AssertionError, match="not computed"):
        verify(replace(QUICK, seed=1), regime, tmp_path)


def test_compare_killed_half_way_and_resumed_prints_the_same_table(gladstorm: Said, tmp_path: Path) -> None:
    problem = "--objective power:3 --start 4.7 --B 0.5 --G 0.5 --budget 400 --seeds 3 --grid 1e-3,1e-1,3 --quiet"
    command = ["compare", *problem.split(), *"--method nstorm(eta=0.01) --method sgd --method nsgdm(eta=0.1)".split()]
    _, table, _ = gladstorm(*command)
    resumable = [sys.executable, "-m", "gladstorm", *command, "--store", str(tmp_path)]
    process = subprocess.Popen(resumable, stdout=-1, stderr=-1)
    while process.poll() is None and not list(tmp_path.glob("*/*/*.parquet")):
        time.sleep(0.001)
    process.kill()
    process.communicate()
    assert gladstorm(*command, "--store", str(tmp_path)) == (0, table, "")
