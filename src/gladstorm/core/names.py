"""Names in texts: the one error for a name that nobody knows, and what MODULE:NAME stands for."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LONGEST = 60  # characters of a name that an error shows


def require_known(what: str, name: str, known: Iterable[str]) -> None:
    """Raise a ValueError that lists the names and suggests the nearest one, unless the name is among them.

    >>> require_known("method:", "NSGDM", ["nsgdm", "sgd"])
    Traceback (most recent call last):
    ...
    ValueError: method: must be one of nsgdm, sgd; got 'NSGDM'; did you mean nsgdm?
    """
    known = list(known)
    if name not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}; got {suggest(name, known)}")


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error about a name: the name, and the nearest known one if any is near.

    Small and capital letters, and the two dashes - and _, count as the same.

    >>> suggest("Three-way", ["plain", "three_way_clipped"]), suggest("x", ["plain"])
    ("'Three-way'; did you mean three_way_clipped?", "'x'.")
    """
    shown = name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..."
    folded = {_fold(each): each for each in known}
    found = difflib.get_close_matches(_fold(name), folded, n=1)
    if not found and len(name) > 2:
        found = [each for each in folded if each.startswith(_fold(name))]
    return f"{shown!r}; did you mean {folded[found[0]]}?" if found else f"{shown!r}."


def _fold(name: str) -> str:
    return name.lower().replace("_", "-")


def is_own(name: str) -> bool:
    """Whether a name is that of a user's own part, written MODULE:NAME."""
    return ":" in name


def import_own(owner: str, name: str) -> Any:
    """What MODULE:NAME stands for: a module of the current folder, or of an installed package, is imported for it.

    Args:
        owner: Whose text it is, for errors.
        name: MODULE:NAME; the module may be inside packages, as in package.module:Name.

    Raises:
        ValueError: If the module cannot be imported or has nothing of this name.
    """
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # it stays: processes that compute for this one import the module too
    try:
        found = importlib.import_module(module)
    except Exception as problem:
        why = " ".join(f"{type(problem).__name__}: {problem}".split())
        raise ValueError(
            f"{owner}: {module!r} of {name!r} must be a module in this folder, {module.replace('.', '/')}.py, or of an "
            f"installed package, that can be imported; got {why}."
        ) from None
    known = {each: value for each, value in vars(found).items() if callable(value) and not each.startswith("_")}
    if attribute not in known:
        raise ValueError(
            f"{owner}: {name!r} must name a class or a function of {module}; got {suggest(attribute, known)}"
        )
    return known[attribute]
