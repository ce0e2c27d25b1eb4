"""What the report says in plain HTML, in the order of the page: each part a function of an experiment's results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from evidence.reproduction.report.markup import Markup, join, named, number, numeric, spread, table, tag, words

Data = Mapping[str, Any]

PAPER = (
    "Beyond Bounded Variance: Variance-Reduced Normalized Methods for Nonconvex Optimization under Blum–Gladyshev Noise"
)
SETTINGS = {"main": "equal iterations, as in the paper", "budget": "equal SFO budget"}
CURVES = {"grad_norm": "gradient norm ‖∇f(xᵏ)‖", "drift2": "drift ‖xᵏ − x⁰‖²", "batch": "batch size"}
AXES = {"step": "iterations", "sfo": "SFO calls"}
SYMBOLS = {"alpha": "α", "B": "B", "G": "G", "sigma2": "σ²", "steps": "K, steps", "horizon": "T, iterates"}
ROWS = 9  # of each curve, in the table that stands beside the plots


def opening(summaries: Sequence[Data]) -> Markup:
    """Title, and for each experiment how many of the paper's sentences held up."""
    entries = [
        tag(
            "li",
            tag("a", summary["title"], href=_link(summary)),
            ": ",
            tag("a", _tally(summary["claims"]), href=_link(summary, "verdicts")) if summary["claims"] else "no claims",
        )
        for summary in summaries
    ]
    return tag(
        "header",
        tag("h1", "The paper’s experiments, run again"),
        tag("p", "A reproduction of the experiments of ", tag("cite", PAPER), ", with Gladstorm.", class_="lead"),
        tag("nav", tag("ul", *entries), aria_label="Experiments"),
    )


def _tally(claims: Sequence[Data]) -> str:
    """The verdicts on the most seeds, counted: one for each sentence, whose first claim is the sentence as a whole."""
    by_sentence: dict[str, str] = {}
    for group in _by_claim(claims):
        by_sentence.setdefault(group[-1]["statement"], group[-1]["verdict"])
    verdicts = list(by_sentence.values())
    held, failed = verdicts.count("holds"), verdicts.count("does not hold")
    rest = len(verdicts) - held - failed
    tested = f"{_count(len(verdicts), 'sentence')} tested, {held} held up, {failed} did not"
    return f"{tested}, {rest} undecided or a matter of reading"


def _link(summary: Data, part: str = "") -> str:
    return "#" + quote(_anchor(summary, part))


def _anchor(summary: Data, part: str = "") -> str:
    return f"{summary['experiment']}-{part}" if part else str(summary["experiment"])


def experiment(index: int, summary: Data, curves: Data) -> Markup:
    """All of one experiment. Its curves are the `index`-th of the page's data."""
    return tag(
        "section",
        tag("h2", summary["title"]),
        _setup(summary),
        _schedule(summary),
        _travel(summary),
        _curves(index, curves),
        _verdicts(summary),
        _methods(summary),
        _tuning(summary),
        _sensitivity(summary),
        _provenance(summary),
        id=_anchor(summary),
    )


def _setup(summary: Data) -> Markup:
    config = summary["config"]
    values = {"objective": _plain(config["objective"])}
    values |= {symbol: number(config[key]) for key, symbol in SYMBOLS.items()}
    values |= {f"seeds, {use}": _seeds(seeds) for use, seeds in config["seeds"].items()}
    choices = [[named(one["what"]), words(one["value"]), words(one["why"])] for one in config["choices"]]
    return join(
        [
            tag("h3", "Set-up"),
            tag("p", summary["about"]),
            tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in values.items())),
            table("Our choices, where the paper is silent", ["what", "value", "why"], choices) if choices else None,
        ]
    )


def _schedule(summary: Data) -> Markup:
    columns = {"gamma": "γ", "eta": "η", "n_init": "N_init", "gamma0": "γ₀", "eta0": "η₀"}
    rows, conditions, violations = [], [], []
    for method, plan in summary["schedule"].items():
        bound = "none" if plan["bound"] is None else number(plan["bound"])
        bound += ", not promised" * (plan["bound"] is not None and bool(plan["violations"]))
        rows.append(
            [named(method), *(numeric(number(plan[key])) for key in columns), numeric(bound), words(plan["source"])]
        )
        for one in plan["conditions"]:
            sides = [numeric(number(one[side])) for side in ("left", "right")]
            verdict = _badge("holds", "holds") if one["holds"] else _badge("violated", "fails")
            conditions.append([named(method), words(one["statement"]), *sides, words(verdict)])
        sentences = [sentence.removeprefix(f"{method.lower()}: ") for sentence in plan["violations"]]
        violations += [tag("li", tag("strong", method), ": ", sentence) for sentence in sentences]
    outside = tag("div", tag("p", "Outside the theorem:"), tag("ul", *violations), class_="violations")
    return join(
        [
            tag("h3", "Schedule"),
            table("What the theorems prescribe", ["method", *columns.values(), "bound on E‖∇f(x̂)‖", "source"], rows),
            outside if violations else None,
            table("The theorems’ conditions", ["method", "condition", "left", "right", "verdict"], conditions),
        ]
    )


def _travel(summary: Data) -> Markup:
    distance = summary["travel"]["distance_to_solution"]
    budgets = {method: budget for method, budget in summary["travel"].items() if method != "distance_to_solution"}
    mean = distance["mean"]
    rows = []
    for method, budget in budgets.items():
        reached = [words("–"), words("–")]
        if mean:
            verdict = "can arrive" if budget >= mean else f"stops {number(mean - budget)} short at best"
            reached = [words(_bar(budget / mean)), words(verdict)]
        rows.append([named(method), numeric(number(budget)), *reached])
    return join(
        [
            tag("h3", "Travel budget"),
            tag(
                "p",
                "A normalized step has length γ, so a run gets at most γT away from x⁰, whatever the noise. ",
                "The solution is ",
                tag("strong", spread(distance)),
                " away (mean ± standard deviation over the seeds).",
            ),
            table("How far the normalized methods can go", ["method", "γT", "of the distance", "solution"], rows),
        ]
    )


def _bar(share: float) -> Markup:
    """γT against the distance to the solution, which is the tick; the bar's frame is twice that distance."""
    drawing = tag(
        "svg",
        tag("rect", width=min(100.0, round(50 * share, 2)), height=10, y=3, class_="amount"),
        tag("line", x1=50, x2=50, y1=0, y2=16, class_="goal"),
        viewBox="0 0 100 16",
        preserveAspectRatio="none",
        aria_hidden="true",
        class_="bar",
    )
    return join([drawing, f" {share:.0%}".replace("%", " %")])


def _curves(index: int, curves: Data) -> Markup:
    if not any(curves.get(setting) for setting in SETTINGS):
        return join([tag("h3", "Curves"), tag("p", "No curves were recorded.")])
    columns = ["method", *AXES.values(), *CURVES.values()]
    tables = [
        table(f"Curves at {text}: mean ± standard deviation", columns, _samples(curves[setting]))
        for setting, text in SETTINGS.items()
        if curves.get(setting)
    ]
    return join(
        [
            tag("h3", "Curves"),
            tag("noscript", tag("p", "The curves are drawn by a script; the table below has their values.")),
            tag("figure", data_curves=index),
            tag("details", tag("summary", "The curves as a table"), *tables, class_="alternative"),
        ]
    )


def _samples(arms: Data) -> list[list[Markup]]:
    """A few points of each curve: the text a chart stands for."""
    rows: list[list[Markup]] = []
    for method, arm in arms.items():
        last = len(arm["step"]) - 1
        for point in sorted({round(last * i / (ROWS - 1)) for i in range(ROWS)} if last >= 0 else ()):
            values = [spread({name: arm[key][name][point] for name in ("mean", "std")}) for key in CURVES]
            sizes = [number(arm["step"][point]), number(arm["sfo"]["mean"][point])]
            rows.append([named(method), *map(numeric, sizes + values)])
    return rows


def _verdicts(summary: Data) -> Markup:
    groups = _by_claim(summary["claims"])
    if not groups:
        return Markup()
    rows: list[list[Markup]] = []
    for group in groups:
        first = group[0]
        statement = named(tag("q", first["statement"]), tag("p", first["reading"]))
        rows.append([statement, *(words(_verdict(one)) for one in group)])
    headings = []
    for column in range(max(map(len, groups))):
        seeds = {group[column]["seeds"] for group in groups if len(group) > column}
        headings.append(_count(seeds.pop(), "seed") if len(seeds) == 1 else "more seeds")
    return join(
        [
            tag("h3", "Verdicts", id=_anchor(summary, "verdicts")),
            tag("p", "The paper’s sentences, how we read each, and what the runs say: estimate [confidence interval]."),
            table("The paper’s claims", ["the paper says", *headings], rows, class_="verdicts"),
        ]
    )


def _by_claim(claims: Iterable[Data]) -> list[list[Data]]:
    """The verdicts of each claim, fewest seeds first."""
    groups: dict[str, list[Data]] = {}
    for one in claims:
        groups.setdefault(one["id"], []).append(one)
    return [sorted(group, key=lambda one: int(one["seeds"])) for group in groups.values()]


def _verdict(one: Data) -> Markup:
    verdict, interval = one["verdict"], one["ci"]
    kind = {"holds": "holds", "does not hold": "fails"}.get(verdict, "open")
    estimate = number(one["estimate"]) if one["estimate"] is not None else ""
    if interval is not None:
        estimate += f" [{number(interval[0])}, {number(interval[1])}]"
    numbers = [tag("span", estimate, class_="estimate"), tag("span", _count(one["seeds"], "seed"), class_="seeds")]
    return join([_badge(verdict, kind), " ", *numbers, tag("p", one["detail"])])


def _badge(verdict: str, kind: str) -> Markup:
    mark = {"holds": "✓", "fails": "✗"}.get(kind, "?")
    return tag("span", tag("span", mark, aria_hidden="true"), f" {verdict}", class_=f"badge {kind}")


def _methods(summary: Data) -> Markup:
    budget = summary["budget"]
    return join(
        [
            tag("h3", "Methods"),
            _results("Equal iterations, as in the paper", summary["methods"]),
            _results(f"Equal budget of {number(budget['sfo'])} SFO calls", budget["methods"]),
        ]
    )


def _results(caption: str, methods: Data) -> Markup:
    spreads = {
        "final_grad_norm": "‖∇f‖ at xᴷ",
        "last10_grad_norm": "‖∇f‖, last 10\u00a0%",
        "mean_grad_norm": "‖∇f‖, whole run",
        "drift2_final": "‖xᴷ − x⁰‖²",
    }
    rows: list[list[Markup]] = []
    for method, one in methods.items():
        counts = [number(one["step_size"]), number(one["sfo_total"])]
        ends = [number(one["max_batch"]), number(one["diverged"])]
        cells = [*counts, *(spread(one[key]) for key in spreads), *ends]
        rows.append([named(method), *map(numeric, cells)])
    columns = ["method", "step size", "SFO calls", *spreads.values(), "largest batch", "runs diverged"]
    return table(caption, columns, rows)


def _tuning(summary: Data) -> Markup:
    if not summary["tuning"]:
        return Markup()
    return join([tag("h3", "Step sizes tried"), *(_grid(method, one) for method, one in summary["tuning"].items())])


def _grid(method: str, one: Data) -> Markup:
    extended = ", ".join(number(size) for size in one["extended"])
    rows: list[list[Markup]] = []
    for point in one["grid"]:
        size = point["step_size"]
        notes = {"picked": one["best"] == size, "picked at budget": one["best_at_budget"] == size}
        notes["added"] = size in one["extended"]
        values = [spread(point["last10_grad_norm"]), spread(point["last10_at_budget"]), number(point["diverged"])]
        note = ", ".join(text for text, applies in notes.items() if applies)
        rows.append([named(number(size)), *map(numeric, values), words(note)])
    return tag(
        "details",
        tag("summary", method, f": {_count(len(rows), 'step size')}, {number(one['best'])} picked"),
        tag("p", "Criterion: ", one["criterion"], "."),
        tag("p", f"The best was at the edge of the grid, which was extended by {extended}.") if extended else None,
        table(f"Grid of {method}", ["step size", "‖∇f‖, last 10\u00a0%", "at equal budget", "runs diverged", ""], rows),
    )


def _sensitivity(summary: Data) -> Markup:
    if not summary["sensitivity"]:
        return Markup()
    columns = ["γ₀", "step size", "‖∇f‖, last 10\u00a0%", "‖∇f‖ at xᴷ"]
    tables = []
    for method, points in summary["sensitivity"].items():
        rows: list[list[Markup]] = [
            [
                named(number(one["gamma0"])),
                numeric(number(one["step_size"])),
                *(numeric(spread(one[key])) for key in ("last10_grad_norm", "final_grad_norm")),
            ]
            for one in points
        ]
        tables.append(table(f"{method} with other γ₀", columns, rows))
    return join([tag("h3", "Sensitivity to γ₀"), tag("div", *tables, class_="beside")])


def _provenance(summary: Data) -> Markup:
    config = summary["config"]
    versions = ", ".join(f"{name} {version}" for name, version in config["versions"].items())
    text = "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in config.items())
    return join(
        [
            tag("h3", "Provenance"),
            tag("p", "Code ", tag("code", config["code"]), f"; {versions}."),
            tag("details", tag("summary", "The whole configuration"), tag("pre", text, tabindex=0)),
        ]
    )


def _count(n: int, thing: str) -> str:
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def _plain(value: Any) -> str:
    """A configuration value as words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_plain(item)}" for key, item in value.items())
    return number(value) if isinstance(value, int | float) else str(value)


def _seeds(seeds: Sequence[int]) -> str:
    """How many, and which, with runs of neighbours as ranges."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    ranges = ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
    return f"{len(seeds):,} ({ranges})"
