"""What a result depends on besides its inputs: the versions, and the source of this package."""

from __future__ import annotations

import ast
import hashlib
import platform
from functools import cache
from pathlib import Path

import jax
import numpy as np

import gladstorm

_DIGITS = 16


def versions() -> dict[str, str]:
    """The versions a result depends on."""
    return {
        "gladstorm": gladstorm.__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


@cache
def code_version(aside: tuple[str, ...] = ()) -> str:
    """A hash of the source, comments, layout and some modules aside: results of other code are not these results."""
    root = Path(gladstorm.__file__).parent
    sources = sorted(
        path for path in root.rglob("*.py") if path.relative_to(root).parts[0].removesuffix(".py") not in aside
    )
    return digest(
        b"".join(f"{path.relative_to(root)}{ast.dump(ast.parse(path.read_text('utf-8')))}".encode() for path in sources)
    )


def digest(data: bytes) -> str:
    """The first digits of the SHA-256 of some bytes: enough to tell files apart."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
