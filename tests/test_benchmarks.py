"""`python -m benchmarks` says what it can measure, and measures nothing else."""

import numpy as np
import pytest

from benchmarks.__main__ import SECTIONS, sections
from benchmarks.measuring import share


def test_all_sections_are_measured_where_none_is_named_and_those_that_are_named_otherwise() -> None:
    assert sections([]) == list(SECTIONS)
    assert sections(["torch", "w"]) == ["torch", "w"]


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["-h"], 0), (["wrong"], 2), (["w", "wrong"], 2)])
def test_help_and_a_wrong_name_list_every_section(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        sections(words)
    assert end.value.code == code
    said = "".join("".join(capsys.readouterr()).split())
    assert ",".join(SECTIONS) in said


@pytest.mark.parametrize(("rate", "holds"), [(64, False), (65, True), (100, True), (101, False)])
def test_a_share_above_the_whole_peak_fails_as_one_below_the_goal_does(rate: int, holds: bool) -> None:
    assert share("W", np.array([rate]), np.array([100]), 0.65).holds == holds
