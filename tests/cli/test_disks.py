"""Disks that are full or read-only, and files that are not what a command may replace: no result is lost to them."""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from evidence.reproduction import report
from gladstorm import Record
from gladstorm.cli.job import saving, saving_study
from gladstorm.comparison.compared import FORMAT
from gladstorm.jobs.files import load_json, load_table, write_text

Said = Callable[..., tuple[int, str, str]]
SMALL = "simulate --objective cauchy --dim 2 --method sgd --gamma 0.1 --steps 5 --seeds 2".split()
COMPARE = "compare --objective cauchy --dim 2 --start 1 --method sgd --budget 9 --grid 0.1,0.2,2 --seeds 2 -q".split()


def _refuse(monkeypatch: pytest.MonkeyPatch, number: int, *folders: Path) -> None:
    """Let no file be written below these folders."""

    def refused(real: Callable[..., Any], place: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **options: Any) -> Any:
            target = Path(place(*arguments, **options)).absolute()
            if any(target.is_relative_to(folder) for folder in folders):
                raise OSError(number, os.strerror(number), str(target))
            return real(*arguments, **options)

        return write

    for name in ("mkstemp", "mkdtemp", "TemporaryFile"):
        monkeypatch.setattr(tempfile, name, refused(getattr(tempfile, name), lambda *_, **options: options["dir"]))
    for name in ("touch", "write_text", "unlink"):
        monkeypatch.setattr(Path, name, refused(getattr(Path, name), lambda path, *_, **__: path))
    made = Path.mkdir
    monkeypatch.setattr(
        Path,
        "mkdir",
        lambda path, *a, **o: None if path.is_dir() else refused(made, lambda p, *_, **__: p)(path, *a, **o),
    )


@pytest.fixture(autouse=True)
def _temporary_files_are_the_test_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def _named_in(err: str) -> Path:
    (line,) = err.splitlines()
    return Path(line.rpartition("; it is in ")[2].removesuffix("."))


def test_what_a_full_disk_refuses_is_printed_and_kept_elsewhere(
    gladstorm: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    table, compared = gladstorm(*SMALL)[1], gladstorm(*COMPARE)[1]
    monkeypatch.setattr("gladstorm.cli.job._require_writable", lambda *_: None)  # it was not full then
    _refuse(monkeypatch, errno.ENOSPC, full)
    code, out, err = gladstorm(*SMALL, "--save", str(full / "record"))
    assert (code, out) == (2, table)
    assert err.startswith(f"Error: --save: {full / 'record'} cannot be written (No space left on device); it is in ")
    assert Record.load(_named_in(err)).seeds.size == 2
    code, out, err = gladstorm(*COMPARE, "--save", str(full / "all"), "--plot", str(full / "curves.svg"))
    assert (code, out) == (2, compared)
    saved, drawn = map(_named_in, err.splitlines())
    assert load_table("test", saved, FORMAT)[0].num_rows
    assert drawn.name == "curves.svg"
    assert drawn.read_text().startswith("<?xml")
    assert not list(full.iterdir())


def test_where_every_disk_is_full_what_is_printed_is_said_to_be_all(
    gladstorm: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = gladstorm(*SMALL)[1]
    monkeypatch.setattr("gladstorm.cli.job._require_writable", lambda *_: None)
    _refuse(monkeypatch, errno.ENOSPC, Path("/"))
    code, out, err = gladstorm(*SMALL, "--save", str(tmp_path / "record"))
    assert (code, out, err.count("\n")) == (2, table, 1)
    assert err.endswith("; no other place takes it, and what is printed is all there is.\n")


def test_a_study_is_kept_elsewhere_too_and_what_is_kept_is_said_to_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full, kept = tmp_path / "full", list[str]()
    full.mkdir()
    monkeypatch.setattr("gladstorm.jobs.interrupts.set_kept_message", kept.append)
    _refuse(monkeypatch, errno.ENOSPC, full)
    with pytest.raises(typer.Exit) as end, saving_study(full, "a.json", "form", {"a": 1}, {}):
        assert not kept
    assert end.value.exit_code == 2
    assert load_json("test", _named_in(capsys.readouterr().err), "form")["a"] == 1
    with saving("--save", tmp_path / "file", lambda path: write_text(path, "text")), saving("--plot", None, str):
        assert kept == [f"{tmp_path / 'file'} is written"]
    with saving_study(None, "a.json", "form", {}, {}):
        pass


def test_a_complete_store_on_a_read_only_disk_is_read_and_an_incomplete_one_is_used(
    gladstorm: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    whole = gladstorm(*SMALL, "--store", str(store))
    assert whole[0] == 0
    files = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    monkeypatch.setattr("gladstorm.jobs.store._OPENED", set())
    _refuse(monkeypatch, errno.EROFS, store)
    with monkeypatch.context() as nothing_runs:
        nothing_runs.setattr("gladstorm.simulation.runs.Runs.__call__", lambda _: pytest.fail("computed again"))
        assert gladstorm(*SMALL, "--store", str(store)) == whole
    code, out, err = gladstorm(*SMALL, "--store", str(store), "--steps", "6")
    assert (code, err.count("Read-only file system")) == (0, 1)
    assert out
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == files
    code, out, err = gladstorm(*SMALL, "--store", str(store / "new"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--store must be where files can be written" in err


@pytest.mark.parametrize("kind", ["a folder", "a named pipe", "a device", "a link to itself"])
def test_what_is_no_file_in_the_place_of_results_is_refused(evidence: Said, tmp_path: Path, kind: str) -> None:
    (tmp_path / "cubic").mkdir()
    path = tmp_path / "cubic/results.parquet"
    made: dict[str, Callable[[], object]] = {
        "a folder": path.mkdir,
        "a named pipe": lambda: os.mkfifo(path),
        "a device": lambda: path.symlink_to(os.devnull),
        "a link to itself": lambda: path.symlink_to(path),
    }
    made[kind]()
    code, out, err = evidence("reproduction", "--page-only", "--out", str(tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"a file must be a regular one; got {kind}" in err


def test_a_report_of_another_program_is_not_replaced_and_one_s_own_is(
    evidence: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cubic/results.parquet").mkdir(parents=True)
    of_coverage = tmp_path / "report.html"
    of_coverage.write_text("<!doctype html><title>Coverage report</title>")
    command = ("reproduction", "--out", str(tmp_path))
    for option in ("--quick", "--page-only"):
        code, out, err = evidence(*command, option)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "the folder must have no report.html but Gladstorm's own; got another's, " in err
    assert of_coverage.read_text() == "<!doctype html><title>Coverage report</title>"
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"temporary", "cubic"}  # nothing was begun
    of_coverage.write_text(report.page([]))
    assert "a file must be a regular one; got a folder" in evidence(*command, "--page-only")[2]


@pytest.mark.parametrize("given", ["/dev/stdout", "/dev/stderr", "/dev/stdin", "file", "link"])
def test_a_result_does_not_replace_what_the_command_prints_into_or_reads(given: str, tmp_path: Path) -> None:
    if not Path("/dev/stdout").exists():
        pytest.skip("this system has no /dev/stdout")
    script = "import sys; from gladstorm.cli.job import *; require_file('simulate', '--save', Path(sys.argv[1]))"
    (tmp_path / "link").symlink_to("file")
    with (tmp_path / "file").open("w+b") as file:
        command = [sys.executable, "-c", script, given]
        subprocess.run(command, stdin=file, stdout=file, stderr=file, check=False)
    assert (
        (tmp_path / "file")
        .read_text()
        .endswith(f"ValueError: simulate: --save must not be where the command prints or reads; got '{given}'.\n")
    )


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_each_standard_stream_alone_is_enough_to_refuse_its_file(stream: str) -> None:
    script = """
import sys
from gladstorm.cli.job import *
try:
    require_file('simulate', '--save', Path('file'))
except ValueError as problem:
    Path('said').write_text(str(problem))
"""
    with Path("file").open("w+b") as file:
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL) | {stream: file}
        subprocess.run([sys.executable, "-c", script], check=True, **streams)
    assert Path("said").read_text() == "simulate: --save must not be where the command prints or reads; got 'file'."


def test_an_empty_store_on_a_read_only_disk_is_refused_before_the_work(
    gladstorm: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    (store / "folder").mkdir(parents=True)  # of something else
    _refuse(monkeypatch, errno.EROFS, store)
    code, out, err = gladstorm(*SMALL, "--store", str(store))
    assert (code, out) == (2, "")
    assert err == (
        f"Error: simulate: --store must be where files can be written; got {str(store)!r} (Read-only file system).\n"
    )
