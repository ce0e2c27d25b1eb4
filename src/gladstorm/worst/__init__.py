"""How tight a bound is: the worst problem of a class, found by search."""

from gladstorm.worst.search import FORMAT, QUICK, Found, SearchSettings, again, require_kind, stated, worst

__all__ = ["FORMAT", "QUICK", "Found", "SearchSettings", "again", "require_kind", "stated", "worst"]
