"""Shared by commands that run a study: the place where its tasks are computed, and the files that come of it."""

import contextlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gladstorm.jobs import interrupts

if TYPE_CHECKING:
    from gladstorm.jobs.tasks import Executor

FIGURES = (".png", ".pdf", ".svg")  # as in `figures`, which takes matplotlib to import
PAGES = (".html",)


def keep_in(folder: Path | None) -> None:
    """Declare that an interrupt leaves what has finished in a folder, if there is one."""
    if folder is not None:
        interrupts.set_kept_message(f"what had finished is in {folder}; the same command goes on from there")


@contextlib.contextmanager
def computing(store: Path | None, workers: int | None, scheduler: str | None) -> "Iterator[Executor]":
    """Open what computes tasks whose results a folder keeps: JAX made ready in this process, or a cluster."""
    from gladstorm.simulation import cluster, devices

    keep_in(store)
    devices.tune()
    devices.keep_programs()
    with cluster.open_executor(workers, scheduler) as executor:
        yield executor


@contextlib.contextmanager
def saving(option: str, path: Path | None, write: Callable[[Path], object]) -> Iterator[None]:
    """Let `write` write a result into a file, if one is asked for, before a with-block that prints it.

    What the disk does not take, as a full one, is printed all the same; the exit code is then 2.
    """
    failed = False
    if path is not None:
        try:
            write(path)
            interrupts.set_kept_message(f"{path} is written")
        except OSError as problem:
            failed = True
            typer.echo(f"Error: {option}: {path} cannot be written ({problem.strerror}).", err=True)
    yield
    if failed:
        raise typer.Exit(2)


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


def require_file(owner: str, option: str, path: Path | None, endings: tuple[str, ...] = ()) -> None:
    """Raise a ValueError unless a file with such an ending can be written there: a new one, or over a regular one.

    What draws into a file of such an ending must be installed.
    """
    if path is None:
        return
    from gladstorm.jobs.files import target_of  # not before: it loads NumPy, which --help does without

    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{owner}: {option} must end in {', '.join(endings)}; got {str(path)!r}.")
    try:
        _require_writable(owner, option, target_of(f"{owner}: {option}", path).parent, path)
    except FileNotFoundError:
        raise ValueError(f"{owner}: {option} must be a file in a folder that exists; got {str(path)!r}.") from None
    if endings is FIGURES:
        require_matplotlib(owner)
    if endings is PAGES and importlib.util.find_spec("vl_convert") is None:
        raise ValueError(f"{owner}: {option} needs Vega, which is not installed; pip install 'gladstorm[page]'.")


def require_folder(
    owner: str, option: str, path: Path | None, *, folders: Iterable[str] = (), files: Iterable[str] = ()
) -> None:
    """Raise a ValueError unless a folder with these folders and files can be written there; none need exist yet."""
    if path is None:
        return
    for folder in (path, *(path / name for name in folders)):
        existing = next(
            parent for parent in (folder, *folder.absolute().parents) if parent.exists() or parent.is_symlink()
        )
        if not existing.is_dir():
            what = "the file" if existing == path else f"{str(path)!r} with the file"
            raise ValueError(f"{owner}: {option} must be a folder; got {what} {str(existing)!r} in the way.")
        _require_writable(owner, option, existing, path)
    for file in (path / name for name in files):
        if file.exists():
            require_file(owner, f"{file.name} in {option}", file)


def require_store(owner: str, path: Path | None) -> None:
    """Raise a ValueError unless results can be kept there, or some are: what is complete can be read from any disk."""
    if path is not None and not any(path.glob("*/made-with.json")):
        require_folder(owner, "--store", path)


def require_matplotlib(owner: str) -> None:
    """Raise a ValueError unless figures can be drawn at all."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(f"{owner}: figures need matplotlib, which is not installed; pip install 'gladstorm[plot]'.")


def _require_writable(owner: str, option: str, folder: Path, path: Path) -> None:
    import tempfile  # not before: it loads random, which --help does without

    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise ValueError(
            f"{owner}: {option} must be where files can be written; got {str(path)!r} ({problem.strerror})."
        ) from None
