"""Names in texts: the error for an unknown name, with the nearest known one, and what MODULE:NAME stands for."""

import difflib
import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LONGEST = 60  # characters of a text that an error shows


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
    shown = shortened(name)
    folded = {_fold(each): each for each in known}
    found = difflib.get_close_matches(_fold(name), folded, n=1)
    if not found and len(name) > 2:
        found = [each for each in folded if each.startswith(_fold(name))]
    return f"{shown!r}; did you mean {folded[found[0]]}?" if found else f"{shown!r}."


def shortened(text: str) -> str:
    """A text that an error quotes, cut where it is too long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _fold(name: str) -> str:
    return name.lower().replace("_", "-")


def is_own(name: str) -> bool:
    """Whether a name is that of a user's own part, written MODULE:NAME."""
    return ":" in name


def import_own(owner: str, name: str) -> Any:
    """What MODULE:NAME stands for: a module of the current folder, or of an installed package, is imported for it.

    The module may be inside packages, as in package.module:Name. `owner` is whose text it is, for errors.
    """
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # it stays: processes that compute for this one import the module too
    try:
        found = importlib.import_module(module)
    except Exception as problem:
        where = f"a module in this folder, {module.replace('.', '/')}.py, or of an installed package"
        why = " ".join(f"{type(problem).__name__}: {problem}".split())
        raise ValueError(f"{owner}: {module!r} of {name!r} must be {where}, that can be imported; got {why}.") from None
    known = {each: value for each, value in vars(found).items() if callable(value) and not each.startswith("_")}
    if attribute not in known:
        what = f"a class or a function of {module}"
        raise ValueError(f"{owner}: {name!r} must name {what}; got {suggest(attribute, known)}")
    return known[attribute]
