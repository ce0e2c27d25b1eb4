"""Results are dataclasses, and one pair of functions writes and reads them."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from gladstorm.core.estimate import Estimate
from gladstorm.core.results import from_json, to_json


@dataclass(frozen=True)
class Inner:
    norms: dict[int, list[Estimate]]
    best: float | None = None


@dataclass(frozen=True)
class Outer:
    name: str
    rows: list[Inner]
    grid: tuple[float, ...] = ()
    sums: dict[str, int] = field(default_factory=dict)


WHOLE = Outer("a", [Inner({3: [Estimate(1.0, 0.5, 2.0), Estimate(None)]}, 0.25), Inner({})], (1.0, 2.0), {"x": 3})


def test_what_is_written_is_read_again() -> None:
    assert from_json(Outer, json.loads(json.dumps(to_json(WHOLE)))) == WHOLE


def test_numbers_of_numpy_are_numbers() -> None:
    assert to_json({"a": np.arange(2), "b": np.float64(0.5)}) == {"a": [0, 1], "b": 0.5}


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float64("nan"), np.array([0.0, np.inf])])
def test_a_number_that_is_not_finite_is_refused_by_the_name_of_its_field(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^results\.rows\[0\]\.best(\[1\])? must be finite; got (nan|inf)\.$"):
        to_json(Outer("a", [Inner({}, value)]))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"name": "a"}, r"results\.rows is missing"),
        ({"name": "a", "rows": [{"norms": {"3": [{}]}}]}, r"results\.rows\[0\]\.norms\.3\[0\]\.value is missing"),
        ({"name": 1, "rows": []}, r"results\.name must be of the kind str; got 1"),
        ({"name": "a", "rows": {}}, r"results\.rows must be of the kind list; got {}"),
        ({"name": "a", "rows": [], "more": 1}, r"results must have the fields name, rows, grid, sums; got more"),
        ({"name": "a", "rows": [], "grid": ["x"]}, r"results\.grid\[0\] must be of the kind float; got 'x'"),
    ],
)
def test_a_field_that_is_missing_or_of_another_kind_is_named(data: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        from_json(Outer, data)
