"""Results to one HTML page that needs nothing else: no network, no library, no other file.

The page is a pure function of the data: the same results give the same bytes. Everything but the curves is plain HTML;
page.js draws those, and the tables beside them say the same without it.

Vega, which draws the pages of `gladstorm.plotting.explore`, would take its place at a price: the report is 0.27 MB with
both scripts (24 kB) and is drawn in 0.10 s, Vega alone is 0.90 MB and takes 0.19 s in the same Chromium. Vega also
compiles its expressions, so the page would have to allow 'unsafe-eval' instead of these two scripts alone. And a page
of `explore` is one set of controls, while here every experiment has its own figure beside its text.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evidence.reproduction.report import words
from evidence.reproduction.report.words import CURVES, SETTINGS, Data
from gladstorm.core.statistics import significant
from gladstorm.plotting.styles import COLOURS, LINES, styles

TITLE = "Gladstorm: the paper’s experiments, run again"
PARTS = ("page.css", "scales.js", "page.js")


def page(experiments: Sequence[Data]) -> str:
    """The report of `experiments`, each `{"summary": …, "curves": …}`, as one HTML document."""
    style, *scripts = (files(__package__).joinpath(name).read_text("utf-8") for name in PARTS)
    script = "\n".join(scripts)
    allowed = f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    axes = {"settings": words.SETTINGS, "curves": words.CURVES, "axes": words.AXES}
    data = _json({**axes, "experiments": [_drawn(one["curves"]) for one in experiments]})
    template = Environment(
        loader=PackageLoader(__package__, ""),
        autoescape=True,  # text is escaped where it enters the page, so nobody can forget to
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template.filters["number"] = words.number
    return template.get_template("page.html").render(
        vars(words), title=TITLE, policy=policy, style=style, script=script, data=data, experiments=experiments
    )


def _digest(text: str) -> str:
    """The name by which the policy allows this script or style, and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json(data: Any) -> str:
    """JSON that may stand inside a script element: ASCII, and nothing in it can close the element or open a comment."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _drawn(curves: Data) -> dict[str, list[dict[str, Any]]]:
    """What page.js draws. Lists, because a script would sort methods called 1 and 2 before the others."""
    looks = styles(dict.fromkeys(method for setting in SETTINGS for method in curves.get(setting, {})))
    return {
        setting: [
            {
                "name": method,
                "look": [COLOURS.index(looks[method]["color"]), LINES.index(looks[method]["linestyle"])],
                "step": arm["step"],
                "sfo": _short(arm["sfo"]["mean"], 10),
                **{key: {column: _short(arm[key][column]) for column in ("mean", "std")} for key in CURVES},
            }
            for method, arm in curves.get(setting, {}).items()
        ]
        for setting in SETTINGS
    }


def _short(values: Iterable[float | None], digits: int = 6) -> list[float | None]:
    return [None if value is None else significant(value, digits) for value in values]
