"""Names that nobody knows, and the one sentence about them."""

import difflib
from collections.abc import Iterable

SHOWN = 60  # characters of a text that an error quotes


def require_known(what: str, name: str, names: Iterable[str]) -> None:
    """Raise a ValueError that lists the names and suggests the nearest one, unless the name is among them.

    >>> require_known("method:", "NSGDM", ["nsgdm", "sgd"])
    Traceback (most recent call last):
    ...
    ValueError: method: must be one of nsgdm, sgd; got 'NSGDM'; did you mean nsgdm?
    """
    names = list(names)
    if name not in names:
        raise ValueError(f"{what} must be one of {', '.join(names)}; got {suggest(name, names)}")


def suggest(name: str, names: Iterable[str]) -> str:
    """Return the end of an error about a name: the name, and the nearest names one if any is near.

    Small and capital letters, and the two dashes - and _, count as the same.

    >>> suggest("Three-way", ["plain", "three_way_clipped"]), suggest("x", ["plain"])
    ("'Three-way'; did you mean three_way_clipped?", "'x'.")
    """
    folded = {_fold(other): other for other in names}
    near = difflib.get_close_matches(_fold(name), folded, n=1)
    if not near and len(name) > 2:
        near = [other for other in folded if other.startswith(_fold(name))]
    return f"{shortened(name)!r}; did you mean {folded[near[0]]}?" if near else f"{shortened(name)!r}."


def shortened(text: str) -> str:
    """Cut a text that an error quotes where it is too long."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _fold(name: str) -> str:
    return name.lower().replace("_", "-")
