"""Templates, rows, numbers and intervals that the pages of studies share."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gladstorm.core.statistics import significant
from gladstorm.plotting.styles import in_words

Row = Mapping[str, Any]
LEVEL = 0.95  # of an interval
_CLASSES = {
    "smooth": "α = 0",
    "sublinear": "0 < α < 1",
    "linear": "α = 1",
    "*": "any α",
    "bg0": "growing noise",
    "bounded": "bounded noise",
    "deterministic": "no noise",
}


class Sentence(NamedTuple):
    """A registered sentence: its words, what came out, and whether it holds; None if that cannot be said."""

    words: str
    outcome: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """The verdict as a page has it."""
        return "undecided" if self.holds is None else "true" if self.holds else "**false**"


def rendered(module: str, values: Mapping[str, Any]) -> str:
    """The page of a study: the template page.md beside its module, filled in with values.

    A page that gives its `globals()` among them has its functions and constants in the template. A value with a format
    is `{{ value|f(".3g") }}`, as in Python. The other filters are functions of this module.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(module).parent),
        autoescape=False,  # it is Markdown
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = {"f": format, "cell": _cell, "regime": regime_in_words}
    environment.filters |= filters | {function.__name__: function for function in (listed, two_digits, typeset)}
    environment.globals |= {function.__name__: function for function in (markdown_table, of, distinct, grouped)}
    return environment.get_template("page.md").render(values)


def _cell(text: str) -> str:
    """A text as a cell of a table."""
    return text.replace("|", r"\|")


def read(path: Path) -> dict[str, Any]:
    """Results in a JSON file; `study.write_page` says which file a folder lacks."""
    results: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return results


def of(rows: Iterable[Row], **values: Any) -> list[Any]:
    """The rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in values.items())]


def distinct(rows: Iterable[Row], key: str) -> list[Any]:
    """The values of a column, each once."""
    return list(dict.fromkeys(row[key] for row in rows))


def grouped(rows: Iterable[Any], verdict: Callable[[Any], str], name: Callable[[Any], str]) -> str:
    """Return the names of the rows of each verdict, in words.

    >>> grouped([{"n": 1}, {"n": 2}, {"n": 3}], lambda r: "odd:" if r["n"] % 2 else "even:", lambda r: str(r["n"]))
    'odd: 1, 3; even: 2'
    """
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(verdict(row), []).append(name(row))
    return "; ".join(f"{words} {', '.join(dict.fromkeys(names))}" for words, names in groups.items())


def listed(items: Iterable[object]) -> str:
    """Items as a sentence has them.

    >>> listed([1, 2, 3]), listed(["a, b", "c, d", "e, f"])
    ('1, 2 and 3', 'a, b; c, d and e, f')
    """
    *first, last = map(str, items)
    between = "; " if "," in last else ", "
    return f"{between.join(first)} and {last}" if first else last


def two_digits(number: float) -> str:
    """A number written out, for a reader.

    >>> two_digits(1234567.0), two_digits(7.04), two_digits(0.00316)
    ('1,200,000', '7', '0.0032')
    """
    return f"{significant(number, 2):,.9g}"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table in Markdown; a bar inside a cell is escaped.

    >>> print(markdown_table(["x", "|x|"], [["-1", "1"]]))
    | x | \|x\| |
    | --- | --- |
    | -1 | 1 |
    """
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def typeset(text: str) -> str:
    r"""Return a sentence with powers and indices as HTML shows them and no star of f* that Markdown takes for emphasis.

    What stands in backticks stays as it is.

    >>> typeset("O(ε^-4), v^{k+1} and `a^b`"), typeset("f* in L*_sym(1/2)")
    ('O(ε<sup>−4</sup>), v<sup>k+1</sup> and `a^b`', 'f\\* in L\\*<sub>sym</sub>(1/2)')
    """
    prose = text.split("`")
    for place in range(0, len(prose), 2):
        words = re.sub(r"(?<=[A-Za-zα-ω])\*", r"\*", prose[place])
        words = re.sub(r"\^(?:\{([^}]*)\}|(-?\([^)]*\)|[-+]?\w+(?:\.\w+)*))", _raised, words)
        prose[place] = re.sub(r"(?<=[A-Za-zα-ωΣ∂*)\]])_(?:\{([^}]*)\}|(\w+))", r"<sub>\1\2</sub>", words)
    return "`".join(prose)


def _raised(power: re.Match[str]) -> str:
    return f"<sup>{(power[1] or power[2]).replace('-', '−')}</sup>"


def regime_in_words(regime: str) -> str:
    """A regime's key as a reader would say it; a method alone is a key too, and * any class.

    >>> regime_in_words("nstorm/sublinear/bg0"), regime_in_words("nsgdm/*/deterministic")
    ('NSTORM, 0 < α < 1, growing noise', 'NSGDM, any α, no noise')
    """
    method, *classes = regime.split("/")
    return ", ".join([in_words(method), *(_CLASSES[word] for word in classes)])


def log_slope_weights(x: Sequence[float]) -> np.ndarray:
    """The w for which w · y is the least-squares slope of y against log x.

    >>> round(float(log_slope_weights([1, 4, 16]) @ np.log([8, 4, 2])), 12)
    -0.5
    """
    logs = np.log(x)
    centred = logs - logs.mean()
    return np.asarray(centred / np.sum(centred**2))
