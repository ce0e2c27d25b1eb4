"""Tables and numbers that `python -m evidence.tables` writes into README and docs."""

import re

import pytest

from evidence import numbers, tables
from evidence.page import typeset


def test_a_marked_number_is_renewed_and_the_rest_of_the_text_stays() -> None:
    text = "In <!--untuned.cases-->{}<!----> cases, <!-- a remark --> and\n<!--suite.within.SGD-linear-->{}<!---->."
    renewed = numbers.renewed_numbers(text.format("7", "\n"))
    assert renewed == text.format(numbers.untuned()["cases"], numbers.suite()["within.SGD-linear"])
    assert numbers.renewed_numbers(renewed) == renewed


@pytest.mark.parametrize("name", ["untuned.many", "nothing.cases"])
def test_a_number_that_no_study_has_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(ValueError, match=rf"must be one of .*; got {name}"):
        numbers.renewed_numbers(f"<!--{name}-->1<!---->")


def test_every_number_can_be_marked() -> None:
    for study, of in numbers.STUDIES.items():
        text = "".join(f"<!--{study}.{name}--><!---->" for name in of())
        assert re.sub(r"<!--.*?-->", "", numbers.renewed_numbers(text)) == "".join(of().values())


def test_no_table_shows_a_power_or_an_index_as_it_is_typed() -> None:
    for page, written in tables.PAGES.items():
        for name, table in written.items():
            if name != "works":
                prose = "".join(table().split("`")[::2])
                assert not re.findall(r"[\w)]\^[\w({-]|[A-Za-z]\*_|(?<!\\)\bL\*", prose), (page, name)


def test_what_is_typeset_keeps_code_and_takes_a_star_for_a_star() -> None:
    assert typeset("f* and `f* x^2`") == r"f\* and `f* x^2`"
    assert typeset("ε^-(4+α), x^k. [g]_i") == "ε<sup>−(4+α)</sup>, x<sup>k</sup>. [g]<sub>i</sub>"


@pytest.mark.parametrize("name", ["evidence.md", "choosing.md", "index.md", "start_training.md"])
def test_no_line_begins_with_a_mark_which_would_end_the_paragraph_before_it(name: str) -> None:
    assert re.findall(r"^ *<!--[a-z]+\..*", (tables.ROOT / "docs" / name).read_text("utf-8"), re.MULTILINE) == []
