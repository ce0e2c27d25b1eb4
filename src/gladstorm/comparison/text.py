"""A mean with its interval, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def interval(found: Mapping[str, Any], form: str = "{mean:.4g} [{low:.3g}, {high:.3g}]") -> str:
    """Mean, low and high in this form, whose first word is the mean: that alone where there is no interval.

    >>> interval({"mean": 2.0, "low": 1.5, "high": 2.5}), interval({"mean": 2.0, "low": None, "high": None})
    ('2 [1.5, 2.5]', '2')
    """
    if found["mean"] is None:
        return "not finite"
    return (form.partition(" ")[0] if found["low"] is None else form).format(**found)
