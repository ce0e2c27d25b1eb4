"""A tenth of the fuzz of command lines: `python -m tests.fuzz_command_line --count 3000` is the whole."""

from fuzz_command_line import fuzz, lines


def test_no_command_line_ends_in_a_traceback() -> None:
    outcomes = fuzz(0, range(300))
    assert [each for each in outcomes if each.bad] == []
    assert {each.kind for each in outcomes} >= {"0", "2", "accepted"}


def test_a_line_follows_from_the_seed_and_its_number() -> None:
    assert list(lines(0, range(5, 9))) == list(lines(0, range(9)))[5:]
    assert list(lines(0, range(9))) != list(lines(1, range(9)))
