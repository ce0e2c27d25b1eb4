"""How tight the bounds are: the worst problem of a class, found by search, and the table over all regimes."""

from gladstorm.worst.search import FORMAT, QUICK, Found, SearchSettings, again, require_kind, stated, worst
from evidence.tightness.measuring import TABLE_FORMAT, tightness

__all__ = [
    "FORMAT",
    "QUICK",
    "TABLE_FORMAT",
    "Found",
    "SearchSettings",
    "again",
    "require_kind",
    "stated",
    "tightness",
    "worst",
]
