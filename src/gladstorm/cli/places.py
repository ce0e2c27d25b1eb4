"""Where a command will write, and with what it will draw, asked before its work: hours later is too late to refuse."""

import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path

FORMATS = (".png", ".pdf", ".svg")  # as in `figures`, which takes matplotlib to import


def require_file(owner: str, option: str, path: Path | None) -> None:
    """Raise a ValueError unless a file can be written there: a new one, or in place of a regular one."""
    if path is None:
        return
    target = Path(os.path.realpath(path))  # a link is followed
    if target.is_dir() or not target.parent.is_dir():
        raise ValueError(f"{owner}: {option} must be a file in a folder that exists; got {str(path)!r}.")
    if target.is_symlink() or (target.exists() and not target.is_file()):  # a link after all is one to itself
        raise ValueError(f"{owner}: {option} must be a regular file, or none yet; got {str(path)!r}.")
    if target.exists() and any(_leads_to(stream, target) for stream in (0, 1, 2)):
        raise ValueError(f"{owner}: {option} must not be where the command prints or reads; got {str(path)!r}.")
    _require_writable(owner, option, target.parent, path)


def require_folder(owner: str, option: str, path: Path | None, *, folders: Iterable[str], files: Iterable[str]) -> None:
    """Raise a ValueError unless a folder with these folders and files can be written there; none need exist yet."""
    if path is None:
        return
    for folder in (path, *(path / name for name in folders)):
        existing = next(each for each in (folder, *folder.absolute().parents) if each.exists() or each.is_symlink())
        if not existing.is_dir():
            what = "the file" if existing == path else f"{str(path)!r} with the file"
            raise ValueError(f"{owner}: {option} must be a folder; got {what} {str(existing)!r} in the way.")
        _require_writable(owner, option, existing, path)
    for file in (path / name for name in files):
        if file.exists():
            require_file(owner, f"{file.name} in {option}", file)


def require_store(owner: str, path: Path | None) -> None:
    """Raise a ValueError unless results can be kept there, or some are: what is complete can be read from any disk."""
    if path is None or any(path.glob("*/made-with.json")):
        return
    require_folder(owner, "--store", path, folders=[], files=[])


def require_figure(owner: str, option: str, path: Path | None) -> None:
    """Raise a ValueError unless a figure can be drawn into this file."""
    if path is None:
        return
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{owner}: {option} must end in {', '.join(FORMATS)}; got {str(path)!r}.")
    require_file(owner, option, path)
    require_matplotlib(owner)


def require_matplotlib(owner: str) -> None:
    """Raise a ValueError unless figures can be drawn at all."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(f"{owner}: figures need matplotlib, which is not installed; pip install 'gladstorm[plot]'.")


def _leads_to(stream: int, target: Path) -> bool:
    """Whether a standard stream is this very file, as in `--save /dev/stdout > file`."""
    try:
        return os.path.samestat(os.fstat(stream), target.stat())
    except OSError:  # a stream that is closed
        return False


def _require_writable(owner: str, option: str, folder: Path, path: Path) -> None:
    import tempfile  # not before: it loads random, which --help does without

    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise ValueError(
            f"{owner}: {option} must be where files can be written; got {str(path)!r} ({problem.strerror})."
        ) from None
