"""Packages that come with an extra: one sentence says what to install where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needing(package: str, name: str | None = None) -> Iterator[None]:
    """Import a package that has an extra of its name in a with-block; `name` is what people call it.

    >>> with needing("json"):
    ...     import json
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name != package:  # something that the package itself needs
            raise
        raise ImportError(
            f"gladstorm.{package} needs {name or package}, which is not installed: pip install gladstorm[{package}]"
        ) from None
