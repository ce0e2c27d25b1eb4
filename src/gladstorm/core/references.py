"""The works this package implements or builds on, read from `references.bib` beside this file.

A work is an attribute of this module, its key in capitals: `references.CUTKOSKY_MEHTA_2020`. Printed, it is its
citation, "Cutkosky and Mehta 2020". The file is BibTeX, for users to cite from; it is read here by two regular
expressions, as pybtex takes 90 ms to import. Each field has a line of its own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".bib")
_ENTRY = re.compile(r"^@\w+\{(\w+),\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (\w+) = \{(.*)\},$", re.MULTILINE)


@dataclass(frozen=True)
class Reference:
    """One work: its key and fields in BibTeX."""

    key: str
    fields: Mapping[str, str]

    def __str__(self) -> str:
        """Author and year, as in "Cutkosky and Mehta 2020"; the year is that of the key."""
        families = [name.rsplit(" ", 1)[-1] for name in self.authors]
        named = " and ".join(families) if len(families) <= 2 else f"{families[0]} et al."
        return f"{named} {self.key.rpartition('_')[2]}"

    @property
    def authors(self) -> list[str]:
        """Full names of the authors."""
        return self.fields["author"].split(" and ")


@cache
def works() -> dict[str, Reference]:
    """All works, by their names in this module."""
    entries = _ENTRY.findall(FILE.read_text(encoding="utf-8"))
    return {key.upper(): Reference(key, dict(_FIELD.findall(body))) for key, body in entries}


def __getattr__(name: str) -> Reference:
    """A work by its name; an AttributeError, or the ImportError that Python makes of it, if there is none."""
    if not name.isupper() or name not in works():
        raise AttributeError(f"references: {FILE.name} must have the work {name.lower()}; it has no such key.")
    return works()[name]
