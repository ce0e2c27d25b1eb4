"""HTML as values: text is escaped where it enters an element, so nobody can forget to. Numbers as papers print them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

VOID = ("meta", "br")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Markup(str):
    """Text that is HTML already. Only `tag` and `join` make it, and `raw` for the page's own script and style."""

    __slots__ = ()


Child = str | Markup | None


def tag(name: str, /, *children: Child, **attributes: str | int | float | bool | None) -> Markup:
    """An element. Children that are plain text and all attribute values are escaped; None and False leave one out.

    A trailing underscore keeps an attribute's name from being a Python word, others become hyphens.

    >>> tag("p", "a < b", tag("br"), class_="note", aria_label='"x"')
    '<p class="note" aria-label="&quot;x&quot;">a &lt; b<br></p>'
    """
    opening = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        opening += f" {attribute}" if value is True else f' {attribute}="{html.escape(str(value))}"'
    return Markup(f"<{opening}>" if name in VOID else f"<{opening}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Markup:
    """Children one after the other, plain text escaped."""
    return Markup("".join(_escaped(child) for child in children if child is not None))


def raw(text: str) -> Markup:
    """The page's own script and style, which must not be escaped. Never call it on data."""
    return Markup(text)


def _escaped(child: str | Markup) -> str:
    return child if isinstance(child, Markup) else html.escape(child)


def number(value: float | None, digits: int = 3) -> str:
    """A number to `digits` significant digits; whole numbers in full, powers of ten beyond six places.

    Trailing zeros stay where rounding made them: 0.5 is exact, 0.080 is not.

    >>> [number(v) for v in (10001, 0.00464159, 0.0799998, 0.5, 2.154e-4, -5.9412345e6, 1e-5, 0, None)]
    ['10,001', '0.00464', '0.0800', '0.5', '2.15×10⁻⁴', '−5.94×10⁶', '10⁻⁵', '0', 'not finite']
    """
    if value is None or not math.isfinite(value):
        return "not finite"
    if float(value).is_integer() and abs(value) < 1e8:
        return f"{value:,.0f}".replace("-", "−")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power, rounded = int(exponent), float(f"{mantissa}e{exponent}")
    if -4 < power < 6:
        return _exact(f"{rounded:,.{max(0, digits - 1 - power)}f}", math.isclose(rounded, value, rel_tol=1e-9)).replace(
            "-", "−"
        )
    ten = f"10{str(power).translate(SUPERSCRIPTS)}"
    mantissa = _exact(mantissa, math.isclose(rounded, value, rel_tol=1e-9))
    return ten if mantissa == "1" else f"{mantissa}×{ten}".replace("-", "−")


def _exact(text: str, exact: bool) -> str:
    return text.rstrip("0").rstrip(".") if exact and "." in text else text


def spread(statistic: Mapping[str, Any]) -> str:
    """Mean ± standard deviation.

    >>> spread({"mean": 0.171, "std": 0.0803}), spread({"mean": 0.5, "std": None}), spread({"mean": None, "std": None})
    ('0.171 ± 0.080', '0.5', 'not finite')
    """
    mean, std = statistic["mean"], statistic["std"]
    if mean is None or std is None or not math.isfinite(std):
        return number(mean)
    return f"{number(mean)} ± {number(std, 2)}"


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Markup]], class_: str | None = None) -> Markup:
    """Rows of cells, in a box of its own that scrolls: a wide table never widens the page."""
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in columns)))
    body = tag("tbody", *(tag("tr", *row) for row in rows))
    grid = tag("table", tag("caption", caption), head, body, class_=class_)
    return tag("div", grid, class_="scroll", tabindex=0, role="region", aria_label=caption)


def named(*children: Child) -> Markup:
    """The cell that says what its row is about."""
    return tag("th", *children, scope="row")


def words(*children: Child) -> Markup:
    """A cell of text."""
    return tag("td", *children)


def numeric(text: str) -> Markup:
    """A cell that does not wrap."""
    return tag("td", text, class_="number")
