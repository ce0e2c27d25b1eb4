"""Every command of `gladstorm` and `python -m evidence` as Click sees it, run where its work stops when it begins."""

import contextlib
import functools
import importlib
import io
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import click
import typer.main

from evidence import study


class WorkBegun(BaseException):
    """Raised where the work of a command begins: its arguments were accepted."""


class Ended(NamedTuple):
    """How a line ended: an exit code, "accepted" or "traceback", and what it printed."""

    kind: str
    out: str
    err: str


@functools.cache
def commands() -> dict[str, dict[str, Any]]:
    """Return the commands of each program by name; a command of a study is imported when it is asked for."""
    groups = {name: (group, click.Context(group)) for name, group in programs().items()}
    return {
        name: {each: group.get_command(context, each) for each in group.list_commands(context)}
        for name, (group, context) in groups.items()
    }


@functools.cache
def programs() -> dict[str, Any]:
    """Return the two programs as Click groups; importing them registers their commands."""
    import evidence.app
    import gladstorm.cli

    apps = {"gladstorm": gladstorm.cli.app.app, "evidence": evidence.app.app}
    return {name: typer.main.get_command(app) for name, app in apps.items()}


def work_of_studies() -> list[str]:
    """Return what takes long in each study that can be imported here, under the name by which its command calls it."""
    names = [name for name in study.names() if name != "posteriors" or find_spec("numpyro")]
    commands = {name: importlib.import_module(f"evidence.{name}.command") for name in names}
    return [f"evidence.{name}.{work}" for name, command in commands.items() for work in command.WORK]


@contextlib.contextmanager
def little_work() -> Iterator[None]:
    """Replace what takes long by `WorkBegun`, in a folder of its own with files of every kind."""
    from gladstorm.diagnosis import Probe, Probes

    def begin(*_: Any, **__: Any) -> Any:
        raise WorkBegun

    begun = ["gladstorm.simulation.runs.Runs.__call__", "gladstorm.suite.run"]
    begun += ["gladstorm.simulation.cluster.Processes.__init__"]
    begun += ["gladstorm.worst.worst", "gladstorm.worst.again", *work_of_studies()]
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("gladstorm.devices.tune", return_value=None))
        for name in begun:
            stack.enter_context(mock.patch(name, begin))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(contextlib.chdir(folder))
        for name in ("folder", "folder.png", "out", "taken/index.md", "taken/suite.json", "taken/worst.json"):
            Path(name).mkdir(parents=True)
        Path("file").write_text("not a table")
        Path("loop").symlink_to("loop")
        Path("astray").symlink_to("nowhere/x.parquet")
        os.mkfifo("pipe")
        rows = [Probe(i, i, "path", i / 4, 2, 4, 1.0 + i, 1.0, 0.1, 2.0, 1.0) for i in range(16)]
        Probes.of(rows).save(Path("probes.parquet"))
        yield


def run_line(words: list[str], encoding: str = "utf-8") -> Ended:
    """Run a line, the program first, in this process; a warning counts as a failure."""
    from gladstorm import cli

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    kind = "no exit"
    with (
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        try:
            cli.main(programs()[words[0]])
        except SystemExit as end:
            kind = str(end.code or 0)
        except WorkBegun:
            kind = "accepted"
        except BaseException:
            kind = "traceback\n" + traceback.format_exc(limit=-4)
    for stream in (out, err):
        stream.flush()
    return Ended(kind, *(stream.buffer.getvalue().decode(encoding) for stream in (out, err)))
