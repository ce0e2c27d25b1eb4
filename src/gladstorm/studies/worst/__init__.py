"""How tight the bounds are: the worst problem of a class, found by search, and the table over all regimes."""

from gladstorm.studies.worst.search import FORMAT, QUICK, Found, SearchSettings, again, stated, worst

__all__ = ["FORMAT", "QUICK", "Found", "SearchSettings", "again", "stated", "worst"]
