"""What commands that run a study have in common: where its tasks are computed, and the files that come of it."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gladstorm.jobs import interrupts

if TYPE_CHECKING:
    from gladstorm.jobs.tasks import Executor


def keep_in(folder: Path | None) -> None:
    """Declare that an interrupt leaves what has finished in a folder, if there is one."""
    if folder is not None:
        interrupts.keeping(f"what had finished is in {folder}; the same command goes on from there")


@contextlib.contextmanager
def computing(store: Path | None, workers: int | None, scheduler: str | None) -> "Iterator[Executor]":
    """Where tasks are computed whose results a folder keeps: JAX made ready in this process, or a cluster."""
    from gladstorm import devices
    from gladstorm.simulation import cluster, programs

    keep_in(store)
    devices.tune()
    programs.enable_program_cache()
    with cluster.opened(workers, scheduler) as executor:
        yield executor


@contextlib.contextmanager
def saving(option: str, path: Path | None, write: Callable[[Path], object]) -> Iterator[None]:
    """Let `write` write a result into a file, if one is asked for, before a with-block that prints it.

    What the disk does not take, as a full one, goes to another place, and a line says where; the exit code is then 2.
    """
    failure = ""
    if path is not None:
        try:
            write(path)
            interrupts.keeping(f"{path} is written")
        except OSError as problem:
            failure = f"{option}: {path} cannot be written ({problem.strerror}); {_elsewhere(path.name, write)}."
            typer.echo(f"Error: {failure}", err=True)
    yield
    if failure:
        raise typer.Exit(2)


def _elsewhere(name: str, write: Callable[[Path], object]) -> str:
    """Write a file of this name where there is room, and say where that is."""
    import tempfile

    for folder in (tempfile.gettempdir(), Path("~").expanduser(), Path.cwd()):
        with contextlib.suppress(OSError):
            other = Path(tempfile.mkdtemp(prefix="gladstorm-", dir=folder)) / name
            try:
                write(other)
            except OSError:
                other.parent.rmdir()
                raise
            return f"it is in {other}"
    return "no other place takes it, and what is printed is all there is"


@contextlib.contextmanager
def saving_study(
    out: Path | None, file: str, form: str, result: dict[str, Any], draw: Mapping[str, Callable[[dict[str, Any]], Any]]
) -> Iterator[None]:
    """Write a study's numbers as JSON, and the figures drawn from them, into a folder, before a block that prints."""
    if out is None:
        yield
        return
    from gladstorm.jobs.files import save_json
    from gladstorm.plotting import figures

    out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        stack.enter_context(saving("--out", out / file, lambda path: save_json(path, form, result)))
        for name, figure in draw.items():
            stack.enter_context(saving("--out", out / name, partial(figures.save, figure(result))))
        yield
