"""Files: whole or absent, where they were asked for, and never read if a bit of them changed."""

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import gladstorm as gs
from evidence.reproduction.results import Results
from fuzz_files import damaged_files, summary_line
from gladstorm.jobs.files import load_json, load_table, save_json, save_table, write_text, write_whole
from gladstorm.simulation.record import Record

FORM = "gladstorm test 1"
OBEYED = "".join(
    map(chr, (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
)


def test_no_text_of_a_file_holds_what_a_terminal_obeys(tmp_path: Path) -> None:
    said = {"a": OBEYED, "b": [OBEYED, {OBEYED: [OBEYED, 1, None]}], "c": "‖∇f‖\t≤ 1\n", "d": 0.5}
    save_json(tmp_path / "file.json", FORM, said)
    save_table(tmp_path / "file.parquet", [pa.table({"x": [1.0]})], FORM, said)
    for content in (
        load_json("test", tmp_path / "file.json", FORM),
        load_table("test", tmp_path / "file.parquet", FORM)[1],
    ):
        texts = [content["a"], content["b"][0], *content["b"][1], content["b"][1][content["a"]][0]]
        assert len(set(texts)) == 1
        assert not set(OBEYED) & set(texts[0])
        assert texts[0].startswith("\\x00\\x01")  # shown, not left out
        assert (content["c"], content["d"]) == (said["c"], said["d"])


def test_what_is_no_regular_file_is_refused_and_stays_what_it_was(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "to the pipe").symlink_to(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")  # tests run in their temporary folder; the whole path may be too long for a socket
        kinds = {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}
        said = {"pipe": "named pipe", "folder": "folder", "circle": "link to itself", "socket": "socket"}
        for name, kind in (said | {"to the pipe": "named pipe"}).items():
            with pytest.raises(ValueError, match=f"a file must be a regular one; got a {kind}, '.*{name}'"):
                write_text(tmp_path / name, "text")
            with pytest.raises(ValueError, match=f"Record.load: a file must be a regular one; got a {kind}"):
                Record.load(tmp_path / name)
    assert {path.name: path.lstat().st_mode for path in tmp_path.iterdir()} == kinds


def test_a_link_stays_a_link_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/old").write_text("old")
    for name in ("old", "new"):  # the second leads nowhere yet
        link, target = tmp_path / f"to {name}", tmp_path / "elsewhere" / name
        link.symlink_to(Path("elsewhere") / name)
        write_text(link, "text")
        assert link.is_symlink()
        assert not target.is_symlink()
        assert target.read_text() == "text"
    (tmp_path / "astray").symlink_to("nowhere/file")
    with pytest.raises(FileNotFoundError, match=r"There is no such folder: '.*nowhere'"):
        write_text(tmp_path / "astray", "text")


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_of_any_new_file_and_the_mask_stays(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "file", "text")
    finally:
        left = os.umask(before)
    assert left == mask
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


def test_an_unfinished_file_goes_when_nobody_has_written_to_it_for_an_hour(tmp_path: Path) -> None:
    fresh, old = (tmp_path / f".gladstorm-unfinished-{name}" for name in ("fresh", "old"))
    not_ours = [tmp_path / ".hidden", tmp_path / ".gladstorm-notes"]
    for path in (fresh, old, *not_ours):
        path.write_text("")
        os.utime(path, (time.time() - 4000,) * 2)
    os.utime(fresh)
    write_text(tmp_path / "file", "text")
    assert set(tmp_path.iterdir()) == {fresh, *not_ours, tmp_path / "file"}


def test_nothing_is_written_through_a_link_of_another_user_in_a_shared_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gladstorm: Callable[..., tuple[int, str, str]]
) -> None:
    shared, precious = tmp_path / "shared", tmp_path / "precious"
    shared.mkdir()
    shared.chmod(0o1777)
    precious.write_text("precious")
    link = shared / "link"
    link.symlink_to(precious)
    owner, me = link.lstat().st_uid, os.getuid()
    write_text(link, "own")  # one's own link stays a link
    assert precious.read_text() == "own"
    lstat = Path.lstat

    def of_another(path: Path) -> os.stat_result:
        status = list(lstat(path))
        status[stat.ST_UID] = owner + 1 if path.name == "link" else me
        return os.stat_result(status)

    monkeypatch.setattr(Path, "lstat", of_another)
    with pytest.raises(ValueError, match=r"a file must not be another user's link; got '.*link': choose another name"):
        write_text(link, "text")
    code, out, err = gladstorm(*"simulate --objective cauchy --method sgd --gamma 1 --save".split(), str(link))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "simulate: --save: a file must not be another user's link" in err
    assert (precious.read_text(), link.is_symlink()) == ("own", True)


@pytest.mark.parametrize("number", [errno.ENOSPC, None])
def test_an_error_of_the_disk_names_the_file_whoever_raises_it(number: int | None, tmp_path: Path) -> None:
    def full(_: str) -> None:
        raise OSError(*([number] if number else []), "No space left on device")

    with pytest.raises(OSError, match=f"'{tmp_path / 'file'}'") as error:
        write_whole(tmp_path / "file", full)
    assert error.value.strerror == "No space left on device"
    assert not list(tmp_path.iterdir())


def test_bytes_are_on_the_disk_before_their_name_is_and_the_name_when_the_write_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[tuple[str, int, bytes]] = []
    path = tmp_path / "file"

    def fsync(handle: int) -> None:
        is_file = stat.S_ISREG(os.fstat(handle).st_mode)
        happened.append(("sync", os.fstat(handle).st_ino, os.pread(handle, 100, 0) if is_file else b""))

    def replace(self: Path, target: Path) -> Path:
        happened.append(("rename", self.stat().st_ino, self.read_bytes()))
        return self.rename(target)

    monkeypatch.setattr("os.fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    for save in (partial(write_text, path, "text"), partial(save_json, path, FORM, {})):
        happened.clear()
        save()
        whole, inode = path.read_bytes()[:100], path.stat().st_ino
        assert [(what, at, data[:100]) for what, at, data in happened] == [
            ("sync", inode, whole),
            ("rename", inode, whole),
            ("sync", path.parent.stat().st_ino, b""),
        ]


def test_a_file_system_without_synchronization_is_used_and_a_failing_disk_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = {errno.EINVAL, errno.ENOTSUP}
    for number in (*without, errno.EIO, errno.ENOSPC):

        def fsync(_: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("os.fsync", fsync)
        with contextlib.nullcontext() if number in without else pytest.raises(OSError, match=os.strerror(number)):
            write_text(tmp_path / str(number), "text")
    assert {path.name for path in tmp_path.iterdir()} == set(map(str, without))


def test_results_of_the_two_experiments_that_changed_places_are_noticed(
    evidence: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    oracle = gs.BlumGladyshev(gs.objectives.named("cauchy", dim=2, start=1.0), 0.5, 1.0)
    record = gs.sweep(oracle, {"main, SGD": gs.sgd([0.1, 0.2])}, steps=3)
    names = ("cubic", "phase-retrieval")
    for name, other in (names, names[::-1]):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "results.parquet"
        Results({"experiment": other}, {("main", "SGD"): record}).save(path)
        assert Results.load(path, other).config == Results.load(path).config == {"experiment": other}
        with pytest.raises(ValueError, match=rf"{name}/results.parquet must hold results of {name}; got those of"):
            Results.load(path, name)
    code, out, err = evidence("reproduction", "--page-only", "--out", str(tmp_path))
    assert (code, out) == (2, "")
    assert "must hold results of" in err


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fails(temporary: str) -> None:
        Path(temporary).write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, fails)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "old")]


def test_a_table_and_a_json_file_come_back_and_other_tools_read_them(tmp_path: Path) -> None:
    table = pa.table({"number": [1.0, None], "text": ["α", '"gladstorm sha256": "' + 64 * "0"]})
    content = {"α": [1, None, 0.1], "text": '"gladstorm sha256": "' + 64 * "0"}
    save_table(tmp_path / "table", [table[:1], table[1:]], FORM, content)
    save_json(tmp_path / "json", FORM, content)
    found, metadata = load_table("test", tmp_path / "table", FORM)
    assert found.to_pydict() == table.to_pydict()
    assert metadata == load_json("test", tmp_path / "json", FORM) == content | {"format": FORM}
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "table"), table.to_pandas())


def test_a_file_of_another_form_is_named(tmp_path: Path) -> None:
    save_json(tmp_path / "json", FORM, {})
    with pytest.raises(ValueError, match=r"test: .*json is not a 'another' file; got 'gladstorm test 1'"):
        load_json("test", tmp_path / "json", "another")
    with pytest.raises(ValueError, match=r"test: .*json is damaged or not a parquet file"):
        load_table("test", tmp_path / "json", FORM)


def test_a_hundred_damaged_files_are_refused_or_read_as_they_were(tmp_path: Path) -> None:
    counts = damaged_files(100, seed=0, folder=tmp_path)
    assert summary_line(counts).endswith("0 silently different, 0 tracebacks")
    assert counts["refused"] >= 95
