"""Versions and source code, on which a result depends besides its inputs.

The source is one hash of all files of this package and of those that joined it (`follow`). An installed release is what
its version says. What parts of one's own do is hashed beside it (`simulation/validation.py`).
"""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache
from pathlib import Path

import gladstorm

_FOLLOWED = ["gladstorm"]


def versions() -> dict[str, str]:
    """The versions a result depends on."""
    import jax  # not before: the layers are read without it
    import numpy as np

    return {
        "gladstorm": gladstorm.__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def digest(data: bytes) -> str:
    """The first digits of the SHA-256 of some bytes: enough to tell files apart."""
    return hashlib.sha256(data).hexdigest()[:16]


def follow(package: str) -> None:
    """Let results depend on the source of another package too: its `__init__` calls this with its name."""
    if package not in _FOLLOWED:
        _FOLLOWED.append(package)


def is_followed(module: str) -> bool:
    """Whether a module is of a package whose source is hashed.

    >>> is_followed("gladstorm.theory"), is_followed("numpy")
    (True, False)
    """
    return module.partition(".")[0] in _FOLLOWED


def source() -> str:
    """Hashes of the source of all followed packages, as this process read it."""
    return " ".join(map(source_of, _FOLLOWED))


@cache
def source_of(package: str) -> str:
    """A hash of every file of a package that somebody may edit; the version of one that is installed as a release."""
    root = Path(str(sys.modules[package].__file__)).parent
    if not any((folder / "pyproject.toml").is_file() for folder in root.parents[:2]):  # a checkout has one
        return f"release {gladstorm.__version__}"
    files = sorted(root.rglob("*.py"))
    return digest(b"".join(f"{path.relative_to(root)}".encode() + path.read_bytes() for path in files))
