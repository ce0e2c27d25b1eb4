"""Results as one HTML file to explore offline: sliders for what was swept, linked charts, a table behind each.

Vega draws; it comes with vl-convert, takes 0.9 MB of a page, and its SVG has labels for screen readers. Numbers have
four significant digits, each a whole number and a power of ten, in planes of bytes that gzip shortens to about two.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gladstorm.core.extras import needing_extras
from gladstorm.core.screen import harmless
from gladstorm.jobs.files import write_text
from gladstorm.plotting.landscape import coordinates, landscapes
from gladstorm.plotting.styles import SYMBOLS, in_words, styles

if TYPE_CHECKING:
    from gladstorm.problems.oracle import Oracle
    from gladstorm.simulation.record import Record
    from gladstorm.theory import Plan

DIGITS, COUNT_DIGITS = 4, 9  # significant digits of measured numbers and of counts
VALUES = 2_300_000  # numbers on a page, at about 2.1 bytes each: with Vega's 0.9 MB it stays below 6 MB
SCRIPTS = ("state.js", "charts.js", "path.js", "controls.js")  # in this order one script
MOST_POINTS, FEWEST_POINTS = 240, 12  # of a curve
BAND = (0.1, 0.9)  # quantiles over seeds: positive where all numbers are
NOT_FINITE = -(2**31)
SCORES = {"reported": "‖{}‖ at the end", "mean": "mean ‖{}‖", "best": "best ‖{}‖"}
LINE_WIDTH = 1.8
# Matplotlib's named lines, in units of the line width.
DASHES = {"-": (), "--": (3.7, 1.6), "-.": (6.4, 1.6, 1, 1.6), ":": (1, 1.65)}

Setting = Mapping[str, float | str]  # what tells a record from the others of a page, such as {"B": 0.5}


def explore(
    records: Record | Sequence[tuple[Setting, Record]] | Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    title: str = "",
    oracle: Oracle | Sequence[Oracle] | None = None,
    plan: Plan | None = None,
    command: Callable[[Setting, Mapping[str, float], str], dict[str, Any]] | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write records as one page that needs no network: every swept number is a slider, and all charts follow it.

    Args:
        records: What `run`, `sweep` or `compare` returned, or several records, each with the numbers and words that
            tell it from the others: `[({"B": 0.1}, weak), ({"B": 1.0}, strong)]` gives B a slider too.
        path: The file to write, such as page.html; one that is there is replaced.
        title: The heading; what was run if left out.
        oracle: What was run, one oracle for each record. Where x is one or two numbers, the page then draws the path on
            the contours of f, and the noise along it.
        plan: What `run(oracle, plan)` was given: the page then draws the theorem's bound and the distance γT.
        command: For the button that copies a command: from a record's setting, a configuration's numbers and its name
            to `{"options": …, "method": …}`. If left out, the button copies the selection from the record in Python.
        more: Entries of `contents` that take the place of its own, such as `view`, where the page opens.

    Raises:
        MissingExtraError: If Vega is not installed.
        ValueError: If there is no record, or `path` is in no folder that exists.
    """
    pairs: list[tuple[Setting, Record]]
    if isinstance(records, Mapping):
        stages = zip(*(compared.runs() for compared in records.values()), strict=True)
        pairs = [pair for stage in stages for pair in stage]
    else:
        pairs = list(records) if isinstance(records, Sequence) else [({}, records)]
    if not pairs or not Path(path).absolute().parent.is_dir():
        raise ValueError(
            f"explore: there must be a record, and a folder for the file; got {len(pairs)} records, {str(path)!r}."
        )
    oracles = None if oracle is None else list(oracle) if isinstance(oracle, Sequence) else [oracle] * len(pairs)
    write_text(Path(path), page(contents(pairs, title, plan, command, oracles) | dict(more or {})))


def page(content: Mapping[str, Any]) -> str:
    """The page that shows `contents`."""
    folder = Path(__file__).parent / "page"
    text = json.dumps(harmless(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    inserted = {
        "TITLE": html.escape(harmless(content["title"])),
        "STYLE": (folder / "explore.css").read_text(encoding="utf-8"),
        "VEGA": vega().replace("</script", r"<\/script"),
        "SCRIPT": "".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS),
        "DATA": text.replace("<", r"\u003c"),
    }
    made = (folder / "explore.html").read_text(encoding="utf-8")
    head, *parts = made.split("{{")
    return head + "".join(inserted[name] + rest for name, _, rest in (part.partition("}}") for part in parts))


@cache
def vega() -> str:
    """Vega as one script, from the package that carries it."""
    with needing_extras("Record.explore"):
        import vl_convert
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle


def contents(
    pairs: Sequence[tuple[Setting, Record]],
    title: str = "",
    plan: Plan | None = None,
    command: Callable[[Setting, Mapping[str, float], str], dict[str, Any]] | None = None,
    oracles: Sequence[Oracle] | None = None,
) -> dict[str, Any]:
    """Return JSON-ready data of all that the page shows."""
    entries = 0 if oracles is None else min(record.path.shape[-1] for _, record in pairs)
    field, infima = pairs[0][1].field, [record.config["f_inf"] for _, record in pairs]
    curves = {"grad_norm": f"‖{field}‖", "gap": "f − inf f", "drift2": "‖x − x⁰‖²", "batch": "Batch size"}
    curves |= {"error": f"‖v − {field}‖, the error of the estimate", "sfo": "stochastic gradients"}
    if None in infima:
        curves = {"value" if key == "gap" else key: "f" if key == "gap" else words for key, words in curves.items()}
    if plan is not None:
        curves["mean_grad_norm"] = f"Mean of ‖{field}‖ over x⁰..xᵏ, and the bound"
    names = list(dict.fromkeys(each.name for _, record in pairs for each in record.configurations))
    runs = sum(len(record) * (record.seeds.size + 3) for _, record in pairs)
    points = min(max(VALUES // (runs * (len(curves) - 1 + 2 * (entries > 0))), FEWEST_POINTS), MOST_POINTS)
    content = blank(title or _title(pairs[0][1]), names) | {
        "curves": [{"key": key, "title": words} for key, words in curves.items()],
        "scores": [{"key": key, "title": words.format(field)} for key, words in SCORES.items()],
        "plan": None if plan is None else {key: plan.as_dict()[key] for key in ("bound", "gamma", "horizon")},
    }
    if oracles and entries:
        content |= landscapes(pairs, oracles)
    for group, (setting, record) in enumerate(pairs):
        steps = _thinned(record.steps, points)
        group_data = {
            "steps": record.steps[steps].tolist(),
            "recorded": record.steps.size,
            "seeds": record.seeds.tolist(),
        }
        group_data["curves"] = packed({key: getattr(record, key)[..., steps] for key in curves})
        group_data["scores"] = packed({key: getattr(record, f"{key}_grad_norm")[..., -1:] for key in SCORES})
        if oracles and entries:
            group_data["path"] = packed(
                dict(zip("xy", np.moveaxis(coordinates(record)[:, :, steps], -1, 0), strict=True))
            )
        content["groups"].append(group_data)
        for row, each in enumerate(record.configurations):
            numbers = {name: each.numbers[name] for name in each.swept}
            at = {"method": names.index(each.name), "group": group, "row": row, "at": {**setting, **numbers}}
            made = None if command is None else command(setting, numbers, each.name)
            content["configurations"].append(at | {"command": made})
    return content


def blank(title: str, names: Sequence[str]) -> dict[str, Any]:
    """A page with nothing on it: its heading, and what is drawn in colours of its own."""
    brief = [name.partition("(")[0].strip() for name in names]
    methods = []
    for name, (short, look) in zip(names, styles(brief if len({*brief}) == len(names) else names).items(), strict=True):
        line = look["linestyle"]
        dash = [round(LINE_WIDTH * length, 1) for length in (DASHES[line] if isinstance(line, str) else line[1])]
        methods.append({"name": name, "words": in_words(short), "colour": look["color"], "dash": dash})
    lists = ("curves", "scores", "configurations", "groups", "landscapes", "charts", "tables", "sentences")
    empty: dict[str, Any] = {name: [] for name in lists}
    return empty | {"title": title, "about": "", "methods": methods, "plan": None, "view": {}, "symbols": SYMBOLS}


def packed(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Curves over (configuration, seed, point) as text: mean, lower and upper quantile, and every seed.

    Each number is m · 10^e with a whole m. The first four planes are the bytes of m, the last is e.
    """
    planes = []
    for key, values in arrays.items():
        values = np.asarray(values, float)
        with np.errstate(invalid="ignore", over="ignore"):
            spread = [values.mean(axis=1), *np.quantile(values, BAND, axis=1)]
            rows = np.concatenate([np.stack(spread, axis=1), values], axis=1)
        m, e = in_decimals(rows, COUNT_DIGITS if key in ("sfo", "batch") else DIGITS)
        planes.append((m.astype("<i4").reshape(-1, 1).view(np.uint8).T, e.astype(np.int8).ravel()))
    data = b"".join(
        [*(np.concatenate([m[k] for m, _ in planes]).tobytes() for k in range(4)), *(e.tobytes() for _, e in planes)]
    )
    return {"shape": [len(arrays), *rows.shape], "data": base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()}


def in_decimals(values: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers m and exponents e with m · 10^e = values to so many digits; m is `NOT_FINITE` where they are not.

    >>> in_decimals(np.array([0.123456, -2.0, 99999.0, 0.0, np.inf]), 4)
    (array([       1235,          -2,           1,           0, -2147483648]), array([-4,  0,  5,  0,  0]))
    """
    finite = np.isfinite(values) & (np.abs(values) < 1e120)  # what is larger has diverged
    safe = np.where(finite & (np.abs(values) > 1e-120), values, 0.0)
    exponent = np.floor(np.log10(np.abs(safe), where=safe != 0, out=np.zeros(values.shape))).astype(int) - digits + 1
    whole = np.rint(
        np.where(exponent < 0, safe * 10.0 ** np.maximum(-exponent, 0), safe / 10.0 ** np.maximum(exponent, 0))
    )
    whole, exponent = whole.astype(np.int64), np.where(whole == 0, 0, exponent)
    for _ in range(digits):  # without zeros at the end: they compress better, and 2 is 2
        ends = (whole % 10 == 0) & (whole != 0)
        whole, exponent = np.where(ends, whole // 10, whole), np.where(ends, exponent + 1, exponent)
    return np.where(finite, whole, NOT_FINITE), np.where(finite, exponent, 0)


def _thinned(steps: np.ndarray, points: int) -> np.ndarray:
    """Indices of as many recorded steps, half of them evenly and half in equal ratios, the last one included."""
    last = steps.size - 1
    if steps.size <= points:
        return np.arange(steps.size)
    even = np.rint(np.linspace(0, last, points - points // 2))
    ratios = np.searchsorted(steps, np.geomspace(1, steps[-1], points // 2))
    return np.unique(np.concatenate([even, ratios])).astype(int)


def _title(record: Record) -> str:
    oracle = record._oracles()[:1]
    kinds = [oracle[0]["type"], oracle[0].get("objective", {}).get("type")] if oracle else []
    return ", ".join([*filter(None, reversed(kinds)), f"{record.steps[-1]:,} steps", f"{record.seeds.size} seeds"])
