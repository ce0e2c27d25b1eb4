"""The rules that arguments must obey, and the error if they do not: it names owner, argument, rule and value.

One of them is that what is asked for fits in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

NUMBER = 8  # bytes
VECTORS = 12  # of x's size that a run has at once: x, ∇f, v, what is remembered and drawn, before and after a step
SMALL_FACTOR = 0.1  # of steps that find their length themselves; a learning rate of AdamW is smaller
MEMINFO = Path("/proc/meminfo")  # Linux only: elsewhere nothing is known, and nothing refused


@dataclass(frozen=True)
class Rule:
    """A rule for an argument: in words, and as a test of a NumPy array, entry by entry or as a whole."""

    words: str  #: what comes after "must be", such as "finite and > 0"
    holds: Callable[[Any], Any]  #: the test, from an array to one truth value, or to one for each entry
    with_zero: Rule | None = None  #: the rule for the smallest number of a schedule, if that may be 0
    beyond: str = ""  #: what is added to the words for numbers from 2⁵³ on, which floats do not hold exactly

    def require(self, owner: str, name: str, value: Any) -> None:
        """Refuse a value unless the rule holds for every entry.

        Args:
            owner: Whose argument it is.
            name: The argument.
            value: What was given for it.

        Raises:
            ValueError: It names owner, argument, rule and value.

        >>> POSITIVE.require("Plain", "gamma", -1.0)
        Traceback (most recent call last):
        ...
        ValueError: Plain: gamma must be finite and > 0; got gamma=-1.0.
        """
        array = np.asarray(value)
        words = self.words + (self.beyond if isinstance(value, int) and value >= 2**53 else "")
        if array.dtype.kind not in "iuf" or not array.size:
            raise ValueError(f"{owner}: {name} must be {words}; got {name}={value!r}.")
        holds = np.asarray(self.holds(array))
        if not holds.all():
            wrong = array if holds.ndim == 0 or array.ndim == 0 else array[~holds][0]
            shown = str(wrong) if wrong.size <= 4 and wrong.ndim <= 1 else f"an array of shape {wrong.shape}"
            raise ValueError(f"{owner}: {name} must be {words}; got {name}={shown}.")

    def whole(self, owner: str, name: str, value: Any) -> int:
        """The value as an int, if it is one number that obeys the rule.

        Args:
            owner: Whose argument it is.
            name: The argument.
            value: What was given for it.

        Raises:
            ValueError: As in `require`, and for a list.

        >>> COUNT.whole("sweep", "records", [3])
        Traceback (most recent call last):
        ...
        ValueError: sweep: records must be a whole number ≥ 1; got records=[3].
        """
        if np.ndim(value):
            raise ValueError(f"{owner}: {name} must be {self.words}; got {name}={value!r}.")
        self.require(owner, name, value)
        return int(value)


NON_NEGATIVE = Rule("finite and ≥ 0", lambda v: np.isfinite(v) & (v >= 0))
NEVER_ZERO = Rule("finite and > 0", lambda v: np.isfinite(v) & (v > 0))  # nor may a schedule end at 0
POSITIVE = replace(NEVER_ZERO, with_zero=NON_NEGATIVE)  # a schedule may end at 0, as `with_decay` makes step sizes do
ABOVE_ZERO = Rule("> 0", lambda v: v > 0)
AT_LEAST_ONE = Rule("finite and ≥ 1", lambda v: np.isfinite(v) & (v >= 1))
FINITE = Rule("finite", np.isfinite)
UNIT_INTERVAL = Rule("in [0, 1]", lambda v: (v >= 0) & (v <= 1))
BELOW_ONE = Rule("in [0, 1)", lambda v: (v >= 0) & (v < 1))
PROBABILITY = Rule("in (0, 1)", lambda v: (v > 0) & (v < 1))
FRACTION = Rule("in (0, 1]", lambda v: (v > 0) & (v <= 1))
# A step or an average that is 0 now and then leaves things as they are; one that is always 0 is a mistake.
STEP_SIZE = POSITIVE
SHARE = Rule(FRACTION.words, FRACTION.holds, with_zero=UNIT_INTERVAL)
COUNT = Rule("a whole number ≥ 1", lambda v: (v >= 1) & (v == np.floor(v)) & (v < 2.0**53), beyond=" and < 2⁵³")
ABOVE_TWO = Rule("finite and > 2", lambda v: np.isfinite(v) & (v > 2))
VECTOR = Rule("a vector of finite numbers", lambda v: v.ndim == 1 and np.isfinite(v).all())
MATRIX = Rule("a matrix of finite numbers", lambda v: v.ndim == 2 and np.isfinite(v).all())
STEPS = Rule("a whole number from 0 to 2³² − 2", lambda v: (v >= 0) & (v == np.floor(v)) & (v <= 2**32 - 2))
SEED = Rule("a whole number from 0 to 2³² − 1", lambda v: (v >= 0) & (v == np.floor(v)) & (v <= 2**32 - 1))


def warn_of_small_factor(owner: str, name: str, factor: float) -> None:
    """Warn where a factor of steps that know their length looks like a learning rate, by habit from AdamW.

    Args:
        owner: Whose steps they are.
        name, factor: What it calls the factor, and its value.
    """
    if 0 < factor < SMALL_FACTOR:
        warnings.warn(
            f"{owner}: {name} multiplies steps whose length {owner} knows, and is 1; got {name}={factor:g}, with which "
            f"they are {1 / factor:,.4g} times as short. Leave {name} out, or give {SMALL_FACTOR:g} or more.",
            stacklevel=3,
        )


def free_memory() -> int | None:
    """Bytes a process can still get without others being paged out; None where that is not known."""
    try:
        lines = MEMINFO.read_text("ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def require_free_memory(owner: str, what: str, needed: int, way_out: str) -> None:
    """Raise a ValueError if so many bytes are not there.

    Args:
        owner: Who needs them.
        what: What must fit.
        needed: How many bytes it takes.
        way_out: What to do otherwise.

    >>> require_free_memory("example", "the data", 10**18, "take less of it")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: example: the data must fit in memory; it would take 1 EB, and ... free: take less of it.
    """
    there = free_memory()
    if there is not None and needed > there:
        sizes = f"it would take {_in_words(needed)}, and {_in_words(there)} are free"
        raise ValueError(f"{owner}: {what} must fit in memory; {sizes}: {way_out}.")


def require_memory_for_a_run(owner: str, dim: int) -> None:
    """Raise a ValueError if not even one run fits, before the first vector of this dimension is made."""
    require_free_memory(owner, f"a run with x of dimension {dim:,}", VECTORS * NUMBER * dim, "choose a smaller dim")


def _in_words(count: int) -> str:
    """A number of bytes for people.

    >>> _in_words(480_000_000_000), _in_words(12)
    ('480 GB', '12 bytes')
    """
    units = {18: "EB", 15: "PB", 12: "TB", 9: "GB", 6: "MB", 3: "kB"}
    power = next((power for power in units if count >= 10**power), None)
    return f"{count} bytes" if power is None else f"{count / 10**power:.3g} {units[power]}"
