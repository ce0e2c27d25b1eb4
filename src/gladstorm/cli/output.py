"""Tables and JSON as the commands print them, on a terminal of any width, and into a pipe that closes."""

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from rich.console import Console

CLOSED_PIPE = 141  # 128 + SIGPIPE: what a shell reports of a program whose reader has gone
# An interval, a deviation, a count, an equation, a share, a missing number, a mark at the end.
_TOGETHER = re.compile(
    r"\[[^\]]*\]|± \S+|\(?[-\d.e]+ to [-\d.e]+\)?|\d+ of \d+|\S = \S+|0 < \S < 1|\S+ %|not finite|\S+ [*°!↑]+$"
)
PROSE, NARROWEST = 40, 18  # what is longer is prose, and prose in a narrower column is a list of words
_INSIDE = re.compile(r"(?:(?<=[,+])|(?<=\w\())(?=[A-Za-z])")  # where a method's text may break
_NO_BREAK = "\u00a0"

Measure = Callable[[str], int]  # how many characters of a screen a text takes


class Table(NamedTuple):
    """A table as text: the first `words` columns are words, the others numbers."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    words: int = 1
    drop: Sequence[int] = ()  # columns in the order in which a narrow screen does without them; none: from the right
    total: Sequence[str] = ()  # a last row, below a line


def fit(table: Table, width: int, measure: Measure = len) -> tuple[dict[int, int], bool]:
    """How wide each column is that a screen has room for, so that no word and no number is broken; and if it is framed.

    A table does without its frame before it does without a column. Only the first column may break inside of a word,
    where it alone is wider than the screen.

    >>> table = Table("", ["method", "score"], [["sgd (gamma=0.1)", "1.5 [1, 2]"]])
    >>> [fit(table, width) for width in (80, 20, 12)]
    [({0: 15, 1: 10}, True), ({0: 11, 1: 8}, False), ({0: 12}, False)]
    """
    cells = list(zip(table.headings, *table.rows, *([table.total] if table.total else []), strict=True))
    natural = [max(map(measure, column)) for column in cells]
    pieces = [[piece for cell in column for word in _words(cell) for piece in _INSIDE.split(word)] for column in cells]
    least = [max(map(measure, each)) for each in pieces]
    least = [max(size, NARROWEST) if whole > PROSE else size for size, whole in zip(least, natural, strict=True)]
    columns = list(range(len(cells)))
    framed = sum(least) + 3 * len(columns) + 1 <= width
    room = width - 1 if framed else width + 1  # a frame takes 3 characters per column and 1, a space between columns 1
    beside = 3 if framed else 1
    left_over = [*table.drop, *(k for k in reversed(columns[1:]) if k not in table.drop)]
    while len(columns) > 1 and sum(least[k] + beside for k in columns) > room:
        columns.remove(left_over.pop(0))
    widths = {k: least[k] for k in columns}
    widths[0] = min(widths[0], max(1, room - beside))
    spare = room - sum(widths.values()) - beside * len(columns)
    waiting = sorted(columns, key=lambda k: (k < table.words, natural[k]))  # numbers on one line first, then the words
    for place, k in enumerate(waiting):
        share = spare if k >= table.words else spare // (len(waiting) - place)
        more = max(0, min(natural[k] - widths[k], share))
        widths[k], spare = widths[k] + more, spare - more
    return widths, framed


def wrap(text: str, width: int, measure: Measure = len) -> str:
    """A text in lines of at most this width, broken between words, else within a method's text, else anywhere.

    >>> wrap("storm(eta=0.5)+clipped(gamma=0.1) and 1.5 [1, 2]", 16).splitlines()
    ['storm(eta=0.5)+', 'clipped(', 'gamma=0.1) and', '1.5 [1, 2]']
    """
    lines = [""]
    for word in _words(text):
        pieces = [word] if measure(word) <= width else _INSIDE.split(word)
        for place, piece in enumerate(pieces):
            joint = " " if lines[-1] and place == 0 else ""
            if measure(lines[-1] + joint + piece) <= width:
                lines[-1] += joint + piece
                continue
            while measure(piece) > width:
                lines.append(piece[:width])
                piece = piece[width:]
            lines.append(piece)
    return "\n".join(line for line in lines if line).replace(_NO_BREAK, " ")


def _words(text: str) -> list[str]:
    return re.split(r"[ \n]+", _TOGETHER.sub(lambda match: match[0].replace(" ", _NO_BREAK), text))


def show(*tables: Table) -> None:
    """Print tables as wide as the terminal or COLUMNS says; where neither does, as in a pipe, as wide as they need.

    Where there is too little room for all columns, a line below the table says which are left out.
    """
    from rich.box import HEAVY_HEAD, SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table as Drawn

    screen = _screen()
    for table in tables:
        widths, framed = fit(table, screen.width, cell_len)
        drawn = Drawn(box=HEAVY_HEAD) if framed else Drawn(box=SIMPLE_HEAD, show_edge=False, padding=0)
        for k, size in widths.items():
            heading = wrap(table.headings[k], size, cell_len)
            drawn.add_column(heading, justify="left" if k < table.words else "right", no_wrap=True, overflow="fold")
        for row in table.rows:
            drawn.add_row(*(wrap(row[k], size, cell_len) for k, size in widths.items()))
        if table.total:
            drawn.add_section()
            drawn.add_row(*(table.total[k] for k in widths))
        screen.print(table.title, style="italic")
        screen.print(drawn)
        missing = [heading for k, heading in enumerate(table.headings) if k not in widths]
        left_out = f"Left out: {', '.join(missing)}. A wider terminal or --json shows all." if missing else ""
        for line in filter(None, [table.caption, left_out]):
            screen.print(line, style="dim")


def say(*lines: str) -> None:
    """Print sentences, broken between words where the terminal ends."""
    screen = _screen()
    for line in lines:
        screen.print(line)


def say_code(line: str) -> None:
    """Print a line of code whole, however narrow the terminal is: it is there to be copied."""
    _screen().print(line, soft_wrap=True)


def _screen() -> "Console":
    """Return the screen to print on: as wide as anything needs where nobody says how wide it is."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            """Leave a broken pipe to `until_the_pipe_is_closed`."""
            raise BrokenPipeError

    screen = Screen(markup=False, emoji=False, highlight=False)
    given = os.environ.get("COLUMNS", "")
    if not screen.is_terminal and not (given.isdecimal() and int(given) > 0):
        screen.width = 10**6
    return screen


def plus_minus(statistics: Mapping[str, Any], digits: int = 4) -> str:
    """A mean and its standard deviation, where there is one.

    >>> plus_minus({"mean": 0.25, "std": 0.1}), plus_minus({"mean": 0.25, "std": None})
    ('0.25 ± 0.1', '0.25')
    """
    if statistics["mean"] is None:
        return "not finite"
    spread = "" if statistics["std"] is None else f" ± {statistics['std']:.2g}"
    return f"{statistics['mean']:.{digits}g}{spread}"


def show_json(data: Any, indent: int = 2) -> None:
    """Print data as JSON, in ASCII where the stream has no more."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    typer.echo(json.dumps(data, indent=indent, allow_nan=False, ensure_ascii=not encoding.startswith("utf")))


def replace_missing_characters() -> None:
    """Let the standard streams print a question mark for a character that they do not have, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@contextlib.contextmanager
def until_the_pipe_is_closed() -> Iterator[None]:
    """End the command without a word where nobody reads its output any more, as in `gladstorm methods | head -1`."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        raise typer.Exit(CLOSED_PIPE) from None
