"""How tight a bound is: the worst problem of a class, found by search."""

from gladstorm.worst.search import FORMAT, QUICK, SearchSettings, WorstProblem, again, require_kind, stated, worst

__all__ = ["FORMAT", "QUICK", "SearchSettings", "WorstProblem", "again", "require_kind", "stated", "worst"]
