"""What the commands print: tables, JSON, and what becomes of characters a terminal does not have.

Formulas are spelled out here and not by Unidecode or AnyASCII: both write γ as g and x⁰ as x0.
"""

import codecs
import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

CLOSED_PIPE = 141  # 128 + SIGPIPE: what a shell reports of a program whose reader has gone
SPELL_OUT = "gladstorm.spell_out"  # the name of the error handler below
ASCII = "gladstorm_ascii"  # ASCII by another name: Click takes the usual one for a mistake and writes UTF-8 instead

_READABLE = {
    "‖": "||", "∇": "grad ", "−": "-", "–": "-", "±": "+-", "…": "...", "⋯": "...", "’": "'", "·": "*", "⊙": "*",
    "×": "x", "½": "1/2", "¼": "1/4", "≤": "<=", "≥": ">=", "≈": "~", "∼": "~", "∈": "in", "∞": "inf", "√": "sqrt ",
    "∫": "integral ", "∂": "d", "←": "<-", "→": "->", "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")", "⟨": "<",
    "⟩": ">", "✓": "yes", "✗": "no", "★": "*", "ℓ": "l", "λ": "lambda", "Λ": "Lambda", "\u0302": "^", "\u0303": "~",
    "\u0304": "-", "°": "o", "⟂": "_|_", "●": "*", "○": "o", "↑": "^",
}  # fmt: skip


def show(*tables: "Table") -> None:
    """Print tables as wide as the terminal or COLUMNS says; where neither does, as in a pipe, as wide as they need.

    What is too long for its column goes on in the next line: nothing is cut.
    """
    from rich.console import Console
    from rich.measure import Measurement
    from rich.text import Text

    class Screen(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            """A cell or a title, spelled out before its width is measured."""
            return super().render_str(text.encode(self.encoding, SPELL_OUT).decode(self.encoding), **options)

        def on_broken_pipe(self) -> None:
            """Leave it to `until_the_pipe_is_closed`."""
            raise BrokenPipeError

    screen = Screen(markup=False, emoji=False, highlight=False)
    given = os.environ.get("COLUMNS", "")
    fits = screen.is_terminal or (given.isdecimal() and int(given) > 0)
    for table in tables:
        for column in table.columns:
            column.overflow, column.no_wrap = "fold", False
        if not fits:
            screen.width = Measurement.get(screen, screen.options.update(width=10**6), table).maximum
        screen.print(table)


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


def spell_out_missing_characters() -> None:
    """Let the standard streams print `||grad f||` where they have no ‖∇f‖, instead of failing."""
    codecs.register_error(SPELL_OUT, _spell_out)
    codecs.register(_find_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=ASCII if is_ascii else None, errors=SPELL_OUT)


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


def _find_ascii(name: str) -> codecs.CodecInfo | None:
    if name != ASCII:
        return None
    same = codecs.lookup("ascii")
    functions = (same.encode, same.decode, same.streamreader, same.streamwriter)
    return codecs.CodecInfo(*functions, same.incrementalencoder, same.incrementaldecoder, name=ASCII)


def _spell_out(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return "".join(map(_in_ascii, problem.object[problem.start : problem.end])), problem.end


def _in_ascii(character: str) -> str:
    """A character in ASCII: as in the table above, by the name of a Greek letter, or without its accents.

    >>> "".join(map(_in_ascii, "γ‖x⁰‖² ü Δ 漢"))
    'gamma||x^0||^2 u Delta ?'
    """
    import unicodedata  # only where a character is missing

    if character in _READABLE or character.isascii():
        return _READABLE.get(character, character)
    name = unicodedata.name(character, "")
    if name.startswith("GREEK") and " LETTER " in name:
        letter = name.rpartition(" LETTER ")[2].partition(" ")[0].lower()
        return letter.capitalize() if "CAPITAL" in name else letter
    kind, *codes = unicodedata.decomposition(character).split() or ["?"]
    if not kind.startswith("<"):
        kind, codes = "", [kind, *codes]
    plain = "".join(chr(int(code, 16)) for code in codes if code != "?")
    mark = {"<super>": "^", "<sub>": "_"}.get(kind, "")
    return (mark + "".join(map(_in_ascii, plain)) if mark else plain.encode("ascii", "ignore").decode()) or "?"
