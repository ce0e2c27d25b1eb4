"""Values as text that fits on a screen, whatever their size, and that a screen shows and does not obey."""

import dataclasses
import html
import io
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

LINE, LINES = 100, 25  # characters and lines of a screen
FEW = 8  # numbers of an array that are all shown
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # or they turn text around


def shown(value: Any, width: int = LINE) -> str:
    """A value on one line, cut where it would be longer than `width`.

    >>> shown(np.zeros((300, 100)))
    'array of shape (300, 100)'
    >>> shown(np.geomspace(1e-4, 1, 50))
    'array of 50 numbers, 0.0001 to 1'
    """
    return cut_to(_text(value), width)


def in_digits(number: float | None, digits: int = 3, missing: str = "") -> str:
    """A number to so many significant digits, as text; `missing` where there is none.

    >>> in_digits(2 / 3), in_digits(None, missing="∞")
    ('0.667', '∞')
    """
    return missing if number is None or np.isnan(number) else f"{number:.{digits}g}"


def harmless(value: Any) -> Any:
    """A text, or JSON-ready data with texts in it, in which control characters but tabs and new lines are spelled out.

    >>> print(harmless({"remarks": ["\\x1b[31mred"]})["remarks"][0])
    \\x1b[31mred
    """
    if isinstance(value, str):
        return _CONTROLS.sub(lambda control: ascii(control[0])[1:-1], value)
    if isinstance(value, Mapping):
        return {harmless(key): harmless(entry) for key, entry in value.items()}
    return list(map(harmless, value)) if isinstance(value, list) else value


def fields_shown(part: Any) -> str:
    """A dataclass as it would be written: on one line, or with a line for each field."""
    line = _text(part)
    if len(line) <= LINE:
        return line
    names = [field.name for field in dataclasses.fields(part)]
    rows = [cut_to(f"    {name}={_text(getattr(part, name))}", LINE - 1) + "," for name in names]
    if len(rows) > LINES - 2:
        rows = [*rows[: LINES - 3], f"    … {len(rows) - LINES + 3} more fields"]
    return "\n".join([f"{type(part).__name__}(", *rows, ")"])


def cut_to(text: str, width: int) -> str:
    """A text in one line of `width` characters.

    >>> cut_to("0123456789", 5)
    '0123…'
    """
    line = " ".join(text.split()) if "\n" in text else text
    return line if len(line) <= width else line[: width - 1] + "…"


def html_table(title: str, rows: Sequence[Sequence[str]], more: Sequence[str] = ()) -> str:
    """A table as a notebook shows it: a title, the rows, of which the first has the headings, and lines below.

    >>> html_table("a & b", [["x"], ["1"]])
    '<p>a &amp; b</p><table><tr><th>x</th></tr><tr><td>1</td></tr></table>'
    """
    head, *body = ([_escaped(cell) for cell in row] for row in rows)
    lines = ["".join(f"<th>{cell}</th>" for cell in head)]
    lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in body]
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    foot = "".join(f"<p>{_escaped(line)}</p>" for line in more)
    return f"<p>{_escaped(title)}</p><table>{table}</table>{foot}"


def html_picture(draw: Callable[[], Any], about: str) -> str:
    """What a function draws, as a notebook shows it below a table: small, or nothing if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        return ""
    figure, png = draw(), io.BytesIO()
    figure.savefig(png, format="png", dpi=120)
    size = f"width: {4.5 * figure.get_figwidth():.3g}em; max-width: 100%"
    source = f"data:image/png;base64,{b64encode(png.getvalue()).decode()}"
    return f'<img alt="{_escaped(about)}" style="{size}" src="{source}">'


def _escaped(text: str) -> str:
    return html.escape(harmless(text))


def _text(value: Any) -> str:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = ", ".join(f"{field.name}={_text(getattr(value, field.name))}" for field in dataclasses.fields(value))
        return f"{type(value).__name__}({held})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_text(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list | tuple):
        if len(value) <= FEW:
            inside = ", ".join(map(_text, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
        return f"{type(value).__name__} of {len(value)}, {_text(value[0])} to {_text(value[-1])}"
    if isinstance(value, np.ndarray) and value.size > FEW:
        if value.ndim > 1 or value.dtype.kind not in "iuf":
            return f"array of shape {value.shape}"
        return f"array of {value.size} numbers, {value[0]:.6g} to {value[-1]:.6g}"
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return " ".join(repr(value).split())
