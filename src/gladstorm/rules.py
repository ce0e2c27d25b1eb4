"""The rules arguments obey, and the one sentence said when they do not: owner, argument, rule, value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rule:
    """What an argument must be, in words and as a test of a NumPy array, entry by entry or as a whole."""

    words: str
    holds: Callable[[Any], Any]

    def require(self, owner: str, name: str, value: Any) -> None:
        """Raise a ValueError naming owner, argument, rule and value unless the rule holds for every entry.

        >>> POSITIVE.require("Plain", "gamma", -1.0)
        Traceback (most recent call last):
        ...
        ValueError: Plain: gamma must be finite and > 0; got gamma=-1.0.
        """
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or not array.size:
            raise ValueError(f"{owner}: {name} must be {self.words}; got {name}={value!r}.")
        holds = np.asarray(self.holds(array))
        if not holds.all():
            wrong = array if holds.ndim == 0 or array.ndim == 0 else array[~holds][0]
            shown = str(wrong) if wrong.size <= 4 and wrong.ndim <= 1 else f"an array of shape {wrong.shape}"
            raise ValueError(f"{owner}: {name} must be {self.words}; got {name}={shown}.")


POSITIVE = Rule("finite and > 0", lambda v: np.isfinite(v) & (v > 0))
NON_NEGATIVE = Rule("finite and ≥ 0", lambda v: np.isfinite(v) & (v >= 0))
ABOVE_ZERO = Rule("> 0", lambda v: v > 0)
FINITE = Rule("finite", np.isfinite)
UNIT_INTERVAL = Rule("in [0, 1]", lambda v: (v >= 0) & (v <= 1))
BELOW_ONE = Rule("in [0, 1)", lambda v: (v >= 0) & (v < 1))
FRACTION = Rule("in (0, 1]", lambda v: (v > 0) & (v <= 1))
COUNT = Rule("a whole number ≥ 1", lambda v: (v >= 1) & (v == np.floor(v)) & (v < 2.0**53))
ABOVE_TWO = Rule("finite and > 2", lambda v: np.isfinite(v) & (v > 2))
VECTOR = Rule("a vector of finite numbers", lambda v: v.ndim == 1 and np.isfinite(v).all())
MATRIX = Rule("a matrix of finite numbers", lambda v: v.ndim == 2 and np.isfinite(v).all())
STEPS = Rule("a whole number from 0 to 2³² − 2", lambda v: (v >= 0) & (v == np.floor(v)) & (v <= 2**32 - 2))
SEED = Rule("a whole number from 0 to 2³² − 1", lambda v: (v >= 0) & (v == np.floor(v)) & (v <= 2**32 - 1))
