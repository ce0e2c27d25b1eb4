"""The store of finished parts: found again, damage said and mended, shared by processes."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gladstorm.foundation.files import save_json
from gladstorm.foundation.progress import quietly
from gladstorm.foundation.provenance import versions
from gladstorm.foundation.statistics import Mean
from gladstorm.foundation.store import Store
from gladstorm.studies.verification import QUICK, verify
from gladstorm.studies.verification.checks import AtMost, Check
from gladstorm.studies.verification.part_result import PartResult

CHECK = Check("regime", "instance", "bound", 10, Mean(1.25, 0.5, 30), AtMost(3.5))
FOUND = PartResult([CHECK], {"table": [{"B": 0.5}]})


def _refused(*_: object) -> PartResult:
    raise AssertionError("what is kept is not computed")


def _stored(folder: Path) -> "Store[PartResult]":
    return Store(folder, PartResult, ".json", source="studies")


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
        Store(tmp_path, PartResult, ".json", source="simulation").recall({}, _refused)
    monkeypatch.setattr("gladstorm.foundation.store.versions", lambda: versions() | {"jax": "0.0"})
    with pytest.raises(AssertionError, match="not computed"):
        _stored(tmp_path).recall({}, _refused)


def test_a_part_of_verify_is_found_by_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["gladstorm.studies.verification.run._verified", "gladstorm.studies.verification.run._checked"]
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


TWENTY_PARTS_FIVE_TIMES = """
import sys
from pathlib import Path
from gladstorm.foundation.store import Store
from gladstorm.studies.verification.part_result import PartResult

for time in range(5):
    for number in range(20):
        store = Store(Path(sys.argv[1]) / str(time), PartResult, ".json", source="studies")
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
