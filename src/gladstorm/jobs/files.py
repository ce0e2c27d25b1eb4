"""Files that are whole or absent, that say what they are, and whose damage is noticed before anything is read of them.

A file carries the SHA-256 of all its bytes, taken with zeros where the digest itself stands: any other tool still reads
it, and nothing is parsed that is not what was written. It also carries what it is: its form, and the key of the result
it holds where it is found by one. A whole file under another's name is not believed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gladstorm.core.screen import harmless

if TYPE_CHECKING:  # only those who write or read a table wait for it
    import pyarrow as pa

_METADATA = b"gladstorm"
_SEAL = "gladstorm sha256"  # the key of the digest, in a table's metadata or in a JSON file
_BEFORE = f'"{_SEAL}": "'.encode()
_KEY = "gladstorm key"  # beside it, of which result this is
_BLANK = "0" * 64
_BEGINS = {"parquet": b"PAR1", "JSON": b"{"}
_UNFINISHED = ".gladstorm-unfinished-"
_HOUR = 3600  # without a byte: whoever was writing is dead
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
_KINDS |= {stat.S_IFLNK: "a link to itself"}


def save_table(path: Path, pieces: Iterable[pa.Table], form: str, metadata: dict[str, Any], key: str = "") -> None:
    """Write tables of one schema after each other as a parquet file, its form, key, metadata and digest in the schema.

    It is there whole or not at all, and no more than one piece is held at a time beside the file's bytes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = json.dumps({**metadata, **_identity(form, key)}, sort_keys=True, allow_nan=False)
    remaining, sink = iter(pieces), pa.BufferOutputStream()
    first = next(remaining)
    # Measured numbers seldom repeat: looking for repetitions would take two thirds of the time.
    repeated = [field.name for field in first.schema if not pa.types.is_floating(field.type)]
    options = {"compression": "zstd", "use_dictionary": repeated, "store_schema": False}
    with pq.ParquetWriter(sink, first.schema, **options) as writer:
        for piece in itertools.chain([first], remaining):
            writer.write_table(piece)
        writer.add_key_value_metadata({_METADATA: text.encode()})  # once: Arrow's own schema would repeat it
    _write_sealed(path, sink.getvalue().to_pybytes())


def load_table(owner: str, path: Path, form: str, key: str = "") -> tuple[pa.Table, dict[str, Any]]:
    """Read what `save_table` wrote; a ValueError says when a file is damaged, of another form or, if given, key."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(pa.BufferReader(_verified_bytes(owner, path, "parquet"))).read(use_threads=False)
    return table, _without_identity(owner, path, form, key, json.loads(table.schema.metadata[_METADATA]))


def save_json(path: Path, form: str, content: dict[str, Any], key: str = "") -> None:
    """Write a JSON file with its form, key and digest; whole or not at all."""
    _write_sealed(path, json.dumps({**content, **_identity(form, key)}).encode())


def load_json(owner: str, path: Path, form: str, key: str = "") -> dict[str, Any]:
    """Read what `save_json` wrote; a ValueError says when a file is damaged, of another form or, if given, key."""
    try:
        content = json.loads(_verified_bytes(owner, path, "JSON"))
    except RecursionError:
        raise ValueError(f"{owner}: {path} is not a JSON file that Gladstorm wrote: it is nested too deeply.") from None
    return _without_identity(owner, path, form, key, content)


def write_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""
    write_whole(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def write_whole(path: Path, write: Callable[[str], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it: no reader ever sees half a file.

    The bytes are on the disk before the name is, and the name when this returns: a power cut leaves the old file or the
    new one. A link stays a link: what it leads to is replaced. What is there and is no regular file is refused. An
    OSError names the file.
    """
    target = target_of("write", path)
    for unfinished in target.parent.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):  # removed meanwhile, or not ours to remove
            if time.time() - unfinished.lstat().st_mtime > _HOUR:
                unfinished.unlink()
    temporary = target.parent / f"{_UNFINISHED}{secrets.token_hex(8)}"
    try:
        temporary.touch(0o600 if target.exists() else 0o666, exist_ok=False)  # never through a link
        write(str(temporary))
        if target.exists():
            shutil.copymode(target, temporary)
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    except BaseException as problem:
        temporary.unlink(missing_ok=True)
        if not isinstance(problem, OSError):
            raise
        raise OSError(problem.errno or errno.EIO, problem.strerror or str(problem), str(path)) from problem


def _sync(path: Path) -> None:
    """Wait until the disk has a file's bytes, or a folder's names where the system can say so."""
    if path.is_dir() and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system without
            raise
    finally:
        os.close(handle)


def require_regular(owner: str, path: Path) -> None:
    """Refuse a path that leads to what is no regular file: reading a pipe waits, replacing a device removes it."""
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and (target.is_symlink() or not target.is_file()):
        kind = _KINDS.get(stat.S_IFMT(target.lstat().st_mode), "a device")
        raise ValueError(f"{owner}: a file must be a regular one; got {kind}, {str(path)!r}.")


def target_of(owner: str, path: Path) -> Path:
    """The file that is written at a path, beyond links; one that somebody put where everybody may is not followed."""
    require_regular(owner, path)
    if path.is_symlink() and hasattr(os, "getuid"):  # Linux itself does not follow such a link either
        folder, shared = path.parent.stat(), stat.S_ISVTX | stat.S_IWOTH
        if folder.st_mode & shared == shared and path.lstat().st_uid not in (os.getuid(), folder.st_uid):
            must = "a file must not be another user's link"
            raise ValueError(f"{owner}: {must}; got {str(path)!r}: choose another name.")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(target.parent))
    return target


def _write_sealed(path: Path, data: bytes) -> None:
    """Write the bytes of a file with their digest where the zeros are."""
    at = data.rindex(_BEFORE) + len(_BEFORE)
    sealed = data[:at] + _digest(data, at) + data[at + len(_BLANK) :]
    write_whole(path, lambda temporary: Path(temporary).write_bytes(sealed))


def _verified_bytes(owner: str, path: Path, kind: str) -> bytes:
    """All bytes of a file, if they are those that were written."""
    require_regular(owner, path)
    data = path.read_bytes()
    at = data.rfind(_BEFORE) + len(_BEFORE)
    if at < len(_BEFORE) or not data.startswith(_BEGINS[kind]):
        raise ValueError(f"{owner}: {path} is damaged or not a {kind} file that Gladstorm wrote.")
    if data[at : at + len(_BLANK)] != _digest(data, at):
        raise ValueError(f"{owner}: {path} was changed or damaged since it was written.")
    return data


def _digest(data: bytes, at: int) -> bytes:
    """The SHA-256 of some bytes, as if those of the digest at `at` were zeros."""
    digest = hashlib.sha256(data[:at])
    digest.update(_BLANK.encode())
    digest.update(memoryview(data)[at + len(_BLANK) :])
    return digest.hexdigest().encode()


def _identity(form: str, key: str) -> dict[str, str]:
    """Form, key and digest, by which a file says what it is; the digest is last."""
    return {"format": form} | ({_KEY: key} if key else {}) | {_SEAL: _BLANK}


def _without_identity(owner: str, path: Path, form: str, key: str, content: dict[str, Any]) -> dict[str, Any]:
    """The content of a file of this form and, if one is given, of this key. It can be printed, whoever wrote it."""
    if content["format"] != form:
        raise ValueError(f"{owner}: {path} is not a {form!r} file; got {content['format']!r}.")
    del content[_SEAL]
    its_key = content.pop(_KEY, "")
    if key and its_key != key:
        raise ValueError(f"{owner}: {path} is whole but holds another result than its name says; got {its_key!r}.")
    printable: dict[str, Any] = harmless(content)
    return printable
