"""The store of finished parts: found again, damage said and mended, shared by processes."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gladstorm as gs
from evidence.parts import Part
from evidence.verification import QUICK, verify
from evidence.verification.checks import AtMost, Check, PartResult
from gladstorm.core.statistics import Mean
from gladstorm.jobs.files import save_json
from gladstorm.jobs.progress import quietly
from gladstorm.jobs.provenance import versions
from gladstorm.jobs.store import Store
from gladstorm.simulation.record import Record

CHECK = Check("regime", "instance", "bound", 10, Mean(1.25, 0.5, 30), AtMost(3.5))
FOUND = PartResult([CHECK], {"table": [{"B": 0.5}]})


def _refused(*_: object) -> PartResult:
    raise AssertionError("what is kept is not computed")


def _stored(folder: Path) -> "Store[PartResult]":
    return Store(folder, PartResult, ".json")


def _kept(folder: Path) -> Path:
    """The only file of a result in a store."""
    (path,) = folder.glob("*/*/*.*")
    return path


def test_a_finished_part_is_not_computed_again_and_another_identity_is_another_part(tmp_path: Path) -> None:
    assert _stored(tmp_path / "new").recall({"a": 1}, lambda: FOUND) == FOUND
    assert _stored(tmp_path / "new").recall({"a": 1}, _refused) == FOUND
    with pytest.raises(AssertionError, match="not computed"):
        _stored(tmp_path / "new").recall({"a": 2}, _refused)


def test_a_part_of_other_versions_or_of_other_code_is_another_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stored(tmp_path).recall({}, lambda: FOUND)
    with pytest.raises(AssertionError, match="not computed"):
        Store(tmp_path, PartResult, ".json").recall({}, _refused)
    monkeypatch.setattr("gladstorm.jobs.store.versions", lambda: versions() | {"jax": "0.0"})
    with pytest.raises(AssertionError, match="not computed"):
        _stored(tmp_path).recall({}, _refused)


def test_a_part_of_verify_is_found_by_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["evidence.verification.bounds.verified", "evidence.verification.identities.checked"]
    for part in parts:
        monkeypatch.setattr(part, lambda *_: FOUND)
    regime = ("nstorm/smooth/deterministic",)
    found = verify(QUICK, regime, tmp_path)
    assert [verdict.check for verdict in found.verdicts] == [CHECK, CHECK, CHECK]  # of the plane and two instances
    for part in parts:
        monkeypatch.setattr(part, _refused)
    assert verify(QUICK, regime, tmp_path).as_dict() == found.as_dict()
    with pytest.raises(AssertionError, match="not computed"):
        verify(replace(QUICK, seed=1), regime, tmp_path)


def test_a_quiet_command_says_nothing_of_a_damaged_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _stored(tmp_path).recall({}, lambda: FOUND)
    path = _kept(tmp_path)
    path.write_bytes(b"")
    with quietly():
        assert _stored(tmp_path).recall({}, lambda: FOUND) == FOUND
    assert capsys.readouterr().err == ""


def _changed_digit(text: bytes) -> bytes:
    return text.replace(b"1.25", b"1.35")


def _sealed_by_no_one(text: bytes) -> bytes:
    return json.dumps({"format": json.loads(text)["format"], "checks": [], "rows": {}}).encode()


@pytest.mark.parametrize("damage", [_changed_digit, lambda b: b[:-20], lambda b: b"", _sealed_by_no_one])
def test_a_damaged_part_is_named_and_computed_again(
    damage: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = _stored(tmp_path)
    store.recall({}, lambda: FOUND)
    path = _kept(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert store.recall({}, lambda: FOUND) == FOUND
    said = capsys.readouterr().err
    assert f"PartResult.load: {path} " in said
    assert said.endswith("It is computed again.\n")
    assert said.count("\n") == 1
    assert path.read_bytes() == whole
    assert _kept(tmp_path) == path


def test_a_damaged_part_is_gone_even_if_nothing_takes_its_place(tmp_path: Path) -> None:
    store = _stored(tmp_path)
    store.recall({}, lambda: FOUND)
    _kept(tmp_path).write_bytes(b"")
    with pytest.raises(AssertionError, match="not computed"):
        store.recall({}, _refused)
    assert not store.has({})
    assert not list(tmp_path.glob("*/*/*"))


def test_the_order_in_which_an_identity_is_written_decides_nothing(tmp_path: Path) -> None:
    _stored(tmp_path).recall({"a": 1, "b": {"c": 2, "d": 3}}, lambda: FOUND)
    assert _stored(tmp_path).recall({"b": {"d": 3, "c": 2}, "a": 1}, _refused) == FOUND


def _records() -> list[Record]:
    oracle = gs.BlumGladyshev(gs.objectives.named("cauchy", dim=2, start=1.0), 0.5, 1.0)
    return [gs.run(oracle, gs.sgd(0.1), steps=3, seeds=[seed]) for seed in (0, 1)]


KINDS: dict[str, tuple[type[Any], str, Callable[[], list[Any]]]] = {
    "a verification's": (PartResult, ".json", lambda: [PartResult(rows={"table": [{"n": n}]}) for n in (0, 1)]),
    "a study's": (Part, ".json", lambda: [Part({"n": n}) for n in (0, 1)]),
    "a sweep's": (Record, ".parquet", _records),
}


def _bytes(result: Any) -> bytes:
    result.save(Path("result"))
    return Path("result").read_bytes()


def _swap(one: Path, other: Path) -> None:
    held = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(held)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("versions_differ", [False, True])
def test_two_whole_files_of_a_store_that_changed_places_are_noticed(
    kind: str,
    versions_differ: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of one job, or of one task computed with two versions."""
    its_class, suffix, make = KINDS[kind]
    pair = [("task 0", versions()), ("task 0", versions() | {"jax": "0.0"})] if versions_differ else []
    stores = []
    for found, (task, made_with) in zip(make(), pair or [("task 0", versions()), ("task 1", versions())], strict=True):
        monkeypatch.setattr("gladstorm.jobs.store.versions", lambda made_with=made_with: made_with)
        store: Store[Any] = Store(tmp_path, its_class, suffix)
        store.keep(task, found)
        stores.append((store, task, _bytes(found)))
    for store, task, found in stores:
        assert _bytes(store.find(task)) == found
    _swap(*tmp_path.glob(f"*/*/*{suffix}"))
    capsys.readouterr()
    for store, task, _ in stores:
        assert store.find(task) is None
    said = capsys.readouterr().err.splitlines()
    assert [line.count("is whole but holds another result than its name says") for line in said] == [1, 1]


def test_a_whole_file_of_a_store_is_read_by_whoever_does_not_ask_for_its_key(tmp_path: Path) -> None:
    _stored(tmp_path).keep({}, FOUND)
    assert PartResult.load(_kept(tmp_path)) == FOUND
    FOUND.save(tmp_path / "own.json")
    with pytest.raises(ValueError, match=r"own\.json is whole but holds another result than its name says; got ''"):
        PartResult.load(tmp_path / "own.json", key="a/b")


def test_what_a_folder_was_made_with_is_not_believed_under_another_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in ("0.1", "0.2", None):
        if number:
            monkeypatch.setattr("gladstorm.jobs.store.versions", lambda number=number: {"jax": number})
        else:
            _swap(*tmp_path.glob("*/made-with.json"))
            monkeypatch.undo()
        monkeypatch.setattr("gladstorm.jobs.store._OPENED", set())
        capsys.readouterr()
        _stored(tmp_path)
    assert "also holds" not in capsys.readouterr().err


def test_a_part_of_another_form_is_computed_again(tmp_path: Path) -> None:
    store = _stored(tmp_path)
    store.recall({}, lambda: FOUND)
    path = _kept(tmp_path)
    save_json(path, "gladstorm verification part 0", {})
    assert store.recall({}, lambda: FOUND) == FOUND


def test_a_folder_where_a_part_is_expected_is_named_and_stays(tmp_path: Path) -> None:
    store = _stored(tmp_path)
    store.recall({}, lambda: FOUND)
    path = _kept(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ValueError, match=rf"store: a file must be a regular one; got a folder, '.*{path.name}'"):
        store.recall({}, lambda: FOUND)
    assert path.is_dir()


@pytest.mark.parametrize("given", [3, b"folder", True, ["folder"]])
def test_what_is_no_path_is_refused_where_a_store_is_asked_for(given: Any) -> None:
    said = r"store: must be the path of a folder, or None to keep nothing; got "
    with pytest.raises(ValueError, match=said):
        Store(given, PartResult, ".json")
    oracle = gs.BlumGladyshev(gs.objectives.named("cauchy", dim=2, start=1.0), 0.5, 1.0)
    for call in (
        lambda: gs.run(oracle, gs.sgd(0.1), steps=3, store=given),
        lambda: gs.sweep(oracle, [gs.sgd(0.1)], steps=3, store=given),
        lambda: gs.compare(oracle, {"SGD": gs.sgd([0.1, 0.2])}, budget=3, seeds=1, tuning_seeds=1, store=given),
    ):
        with pytest.raises(ValueError, match=said):
            call()
    assert not list(Path().iterdir())


TWENTY_PARTS_FIVE_TIMES = """
import sys
from pathlib import Path
from gladstorm.jobs.store import Store
from evidence.verification.checks import PartResult

for time in range(5):
    for number in range(20):
        store = Store(Path(sys.argv[1]) / str(time), PartResult, ".json")
        rows = {"table": [{"number": number}] * 100}
        assert store.recall(number, lambda: PartResult(rows=rows)).rows == rows
"""


def test_processes_that_share_a_folder_disturb_no_part_of_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TWENTY_PARTS_FIVE_TIMES, str(tmp_path)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert said == ["", ""]
    assert len(list(tmp_path.glob("*/*/*/*.json"))) == 100
    assert not list(tmp_path.glob("*/*/*/.*"))
