"""The studies of docs/evidence.md in words: every number and every verdict is computed from the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from gladstorm.foundation.markdown import markdown_table
from gladstorm.studies.scores import at_edge
from gladstorm.studies.verification import hardness

Row = dict[str, Any]
LOWER_BOUNDS = {"zero-chain": 4, "gated runway": 6}  # Ω(ε^−…), of hard_instances.py
USUAL_B = 0.5  # at which the robustness study fixes γ
NORMALIZED = ("NSGDM", "NSTORM")
CHECK = ("regime", "instance", "check", "T", "measured", "interval", "claim", "seeds")


def checked(checks: Iterable[Row]) -> str:
    """A table of checks."""
    return markdown_table(CHECK, map(_check, checks))


def _check(check: Row) -> list[str]:
    numbers = [f"{check['measured']:.4g}", f"{check['low']:.4g} to {check['high']:.4g}", check["claim"]]
    horizon = f"{check['horizon']:,}" if check["horizon"] else ""
    return [check["regime"], check["instance"], check["check"], horizon, *numbers, str(check["seeds"])]


def grouped(rows: Iterable[Row], verdict: Callable[[Row], str], name: Callable[[Row], str]) -> str:
    """Which rows have which verdict.

    >>> grouped([{"n": 1}, {"n": 2}, {"n": 3}], lambda r: "odd:" if r["n"] % 2 else "even:", lambda r: str(r["n"]))
    'odd: 1, 3; even: 2'
    """
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(verdict(row), []).append(name(row))
    return "; ".join(f"{words} {', '.join(dict.fromkeys(names))}" for words, names in groups.items())


def _between(numbers: Iterable[float]) -> str:
    """The range of some numbers, as "a to b" or just "a"."""
    found = sorted(numbers)
    return " to ".join(dict.fromkeys(f"{number:.2g}" for number in (found[0], found[-1])))


def surprises(studies: dict[str, list[Row]]) -> str:
    """What a reader of the literature would not have expected, in one paragraph."""
    near = [row for row in studies["inertia"] if just_enough(row)]
    shares = {key: _between(row["below"][key][0] for row in near) for key in ("best_storm", "gained")}
    rows = studies["robustness"]
    settings = [(problem, B) for problem, growths in _problems(rows).items() for B in growths]
    plain = [setting for setting in settings if _winner(rows, *setting) not in NORMALIZED]
    return f"""Where steps are just enough to arrive, STORM with its best η ends below momentum with its best on a
share of {shares["best_storm"]} of the instances, and STORM whose direction is averaged ends below STORM on
{shares["gained"]}. At equal SFO a tuned SGD, of single samples or dynamic batches, ends lower than both normalized
methods in {len(plain)} of {len(settings)} settings."""


# Hard instances.


def hard(rows: list[Row], progress: list[Row]) -> str:
    """The section on hard instances."""
    head = ["instance", "ε", "length", "p", "method", "SFO to ε, median", "needed", "ratio"]
    runway = next(row for row in rows if row["B"])
    return f"""## Hard instances

The zero-chain under bounded variance, and a chain behind a runway of length Δ/(8ε) under BG-0 noise, whose variance is
largest where the chain is. L = Δ = 1; G = {rows[0]["G"]:g} on the chain, B = {runway["B"]:g} and G = {runway["G"]:g} on
the runway. The chain's length grows like ε⁻², and 1/p like ε⁻² on the chain and ε⁻⁴ on the runway: *needed* is
(length − log 2)/(2p), fewer samples than which leave any method that stays in the span of what it was shown unfinished
half of the time. Between it and Ω(ε⁻⁴), Ω(ε⁻⁶) stand only the whole numbers the lengths are rounded to.

Medians over {rows[0]["seeds"]} seeds at the best of {len(rows[0]["tried"])} step sizes, η = {hardness.ETA:g}.
{_edges_of_steps(rows)}

![Stochastic gradients needed against 1/ε](evidence/hard.png)

{markdown_table(head, map(_hard_row, rows))}

{_late(rows)}{_exponents(rows)}

Nobody gets ahead of the chain:

{checked(progress)}"""


def _hard_row(row: Row) -> list[str]:
    facts = [row["instance"], f"{row['eps']:g}", str(row["length"]), f"{row['p']:.2g}", row["method"]]
    if row["sfo"] is None:
        return [*facts, "not in time", f"{row['needed']:,.0f}", ""]
    return [*facts, f"{row['sfo']:,.0f}", f"{row['needed']:,.0f}", f"{row['sfo'] / row['needed']:.1f}"]


def _edges_of_steps(rows: list[Row]) -> str:
    ends = [row for row in rows if _better_at_an_end(row["tried"])]
    if not ends:
        return "None is better by 5 % at an end of its grid than next to it."
    named = grouped(ends, lambda row: f"{row['method']} on the {row['instance']} at ε =", lambda row: f"{row['eps']:g}")
    return f"At an end of its grid the best is better by 5 % than next to it, and a better one may lie beyond: {named}."


def _better_at_an_end(medians: list[float | None]) -> bool:
    """Whether the best of a grid stands out at an end: on a plateau nothing is missed.

    >>> _better_at_an_end([100.0, 101.0, 200.0]), _better_at_an_end([100.0, 120.0, None])
    (False, True)
    """
    found = [math.inf if median is None else median for median in medians]
    return any(end == min(found) and next_to_it > 1.05 * end for end, next_to_it in (found[:2], found[:-3:-1]))


def _late(rows: list[Row]) -> str:
    if all(row["sfo"] for row in rows):
        return ""
    return (
        "*Not in time*: half of the runs or more were unfinished when all links should have been seen, by "
        f"{hardness.PATIENCE} standard deviations.\n\n"
    )


def _exponents(rows: list[Row]) -> str:
    found = hardness.exponents(rows)
    lines = [
        [
            each["instance"],
            each["method"],
            str(each["accuracies"]),
            "{:.2f}".format(each["measured"]),
            "{:.2f} to {:.2f}".format(*each["interval"]),
            f"{each['needed']:.2f}",
            str(LOWER_BOUNDS[each["instance"]]),
        ]
        for each in found
    ]

    def verdict(each: Row) -> str:
        low, high = each["interval"]
        if high < each["needed"]:
            return "more slowly, from a larger multiple of it:"
        return "faster:" if low > each["needed"] else "as fast, within the interval:"

    named = grouped(found, verdict, lambda each: f"{each['method']} on the {each['instance']}")
    head = ["instance", "method", "values of ε", "measured", "interval", "needed, on these lengths", "lower bound"]
    return (
        "SFO grows like ε to the minus (least squares on logarithms, seed by seed; intervals over seeds hold together\n"
        "with probability 99 %):\n\n"
        + markdown_table(head, lines)
        + f"\n\nCompared with what is needed SFO grows {named}. These are exponents over the ε in the table; lengths\n"
        f"from {min(row['length'] for row in rows)} to {max(row['length'] for row in rows)} are not a limit."
    )


# Inertia.

QUESTIONS = {
    "scheduled": "NSTORM below NSGDM, scheduled η",
    "best_storm": "STORM below momentum, best of each",
    "best_inertia": "STORM with inertia below momentum, best of each",
    "gained": "STORM with inertia below STORM, best of each",
}


def inertia(rows: list[Row], robust: list[Row]) -> str:
    """The section on inertia and on where variance reduction pays."""
    lines = [
        [
            row["noise"],
            str(row["d"]),
            f"{row['T']:,}",
            f"{row['multiple']:g}",
            str(row["instances"]),
            *(f"{best['mean']:.3g} ({_numbers(name, best)})" for name, best in row["best"].items()),
            *("{:.2f} [{:.2f}, {:.2f}]".format(*row["below"][key]) for key in QUESTIONS),
        ]
        for row in rows
    ]
    bests = [f"{name}, best" for name in rows[0]["best"]]
    head = ["noise", "d", "T", "γ/schedule", "instances", *bests, *(f"P({words})" for words in QUESTIONS.values())]
    return f"""## Inertia, and where variance reduction pays

Phase retrieval with B = 0.5, G = 1, a fresh instance for each seed, all methods at the same γ; the mean of ‖∇f‖ over
the last tenth of the run. *STORM with inertia* averages STORM's direction before it is normalized,
m ← (1 − μ) m + μ v. *Full rank* is noise of the wrapper's variance with an independent sign for every coordinate. The
best of a grid is chosen on the first half of the instances and judged on the second; shares P have Clopper and Pearson
intervals that hold together with probability 99 %.

![Gradient norm over the last tenth against η or μ](evidence/inertia.png)

{markdown_table(head, lines)}

What the intervals decide, a share of 1/2 being a coin flip:

{_shares(rows)}

{_inertia_in_words(rows)}

**Where variance reduction pays**, at equal SFO in the next section, the best γ of each and medians of the final norm.
{_storm_pays(robust)}"""


def just_enough(row: Row) -> bool:
    """Whether steps are just long enough to arrive: the scheduled γ at the shorter horizon."""
    return (row["multiple"], row["T"]) == (1, 10_001)


def _setting(row: Row) -> str:
    return f"{row['noise']}, d = {row['d']}, T = {row['T']:,}, {row['multiple']:g} γ"


def decided(share: list[float]) -> str:
    """What a share's interval says about a fair coin."""
    _, low, high = share
    if low > 0.5:
        return "more often than not"
    return "less often than not" if high < 0.5 else "undecided"


def _told(question: str, row: Row) -> str:
    return f"{decided(row['below'][question])} at"


def _shares(rows: list[Row]) -> str:
    lines = []
    for key, words in QUESTIONS.items():
        told = [row for row in rows if decided(row["below"][key]) != "undecided"]
        named = grouped(told, partial(_told, key), lambda row: f"({_setting(row)})")
        lines.append(
            f"- *{words}*: {named or 'nothing is decided'}. Undecided: {len(rows) - len(told)} of {len(rows)}."
        )
    return "\n".join(lines)


def _inertia_in_words(rows: list[Row]) -> str:
    near, other = ([row for row in rows if just_enough(row) == wanted] for wanted in (True, False))
    behind = [row for row in rows if decided(row["below"]["best_storm"]) == "less often than not"]
    helped = [row for row in behind if decided(row["below"]["gained"]) == "more often than not"]
    level = [row for row in helped if decided(row["below"]["best_inertia"]) != "less often than not"]
    ends = [(row, name) for row in rows for name in row["best"] if _at_an_end(row, name)]
    named = "; ".join(f"{name} ({_setting(row)})" for row, name in ends)
    far = "; ".join(
        f"{_setting(row)}: " + ", ".join(f"{name} {_away(row, name):.2g}" for name in row["best"]) for row in near
    )
    return f"""Of the {len(rows)} settings STORM's best η leaves it behind momentum's in {len(behind)}, as far as is
decided. An average of its direction brings it down in {len(helped)} of these, in {len(level)} so far that momentum's
lead is no longer decided: there the lead is inertia, not the accuracy of the estimate.

Where γT is just enough (the scheduled γ, T = 10,001) the best mean of STORM is {_ratios(near, "STORM")} times
momentum's, that of STORM with inertia {_ratios(near, "STORM with inertia")} times; at other γ and T
{_ratios(other, "STORM")} and {_ratios(other, "STORM with inertia")} times. A low gradient norm is not yet a solution:
the mean distance to ±x*, at the same settings, is {far}.

The best of a grid is at its end, and a better one may lie beyond, for: {named or "none"}."""


def _ratios(rows: list[Row], method: str) -> str:
    return _between(row["best"][method]["mean"] / row["best"]["momentum"]["mean"] for row in rows)


def _at_an_end(row: Row, method: str) -> bool:
    """Of the number that is searched: η of momentum and STORM, μ of STORM with inertia."""
    column = 0 if method == "STORM" else 1
    tried = [numbers[column] for numbers in row["grids"][method]]
    return at_edge(row["best"][method]["eta_mu"][column], tried)


def _away(row: Row, method: str) -> float:
    away: float = row["to_solution"][method][row["grids"][method].index(row["best"][method]["eta_mu"])]
    return away


def _numbers(method: str, best: Row) -> str:
    eta, mu = best["eta_mu"]
    return {"momentum": f"η = {mu:g}", "STORM": f"η = {eta:g}"}.get(method, f"η = {eta:g}, μ = {mu:g}")


def _storm_pays(rows: list[Row]) -> str:
    lines = []
    for problem, growths in _problems(rows).items():
        found = [
            {"B": B, "lower": _best(rows, problem, B, "NSTORM") < _best(rows, problem, B, "NSGDM")} for B in growths
        ]
        named = grouped(found, lambda row: f"{'below' if row['lower'] else 'not below'} NSGDM for B =", _growth)
        lines.append(f"- {problem}: NSTORM ends {named}.")
    return "\n" + "\n".join(lines)


# Robustness.


def robustness(rows: list[Row]) -> str:
    """The section on step sizes and B."""
    problems = _problems(rows)
    counted = "; ".join(f"{_of(rows, problem=name)[0]['seeds']} seeds on {name}" for name in problems)
    head = ["problem", "B", "method", "final: best γ", "median", "mean: best γ", "median"]
    head += ["decades of γ within 3 × of the final", "diverged at largest γ"]
    lines = []
    for problem, growths in problems.items():
        for B in growths:
            for method in _methods(rows):
                own = _of(rows, problem=problem, B=B, method=method)
                cells = [f"{_wide(own):.1f}", f"{own[-1]['diverged']:.0%}"]
                best = (_lowest(own, what) for what in ("final", "mean"))
                shown = [text for row, norm in best for text in (f"{row['gamma']:g}", f"{norm:.2g}")]
                lines.append([problem, f"{B:g}", method, *shown, *cells])
    return f"""## Robustness: step size and B at equal SFO

10,000 stochastic gradients for everybody; {counted}. γ over four decades, η and N_init as the theorems say,
dynamic batches with σ² = G². The phase retrieval has the paper's law at a tenth of its dimension, which makes an
instance for each of so many seeds affordable. Lines are medians, bands the middle 80 % of the seeds; in the panels
against B γ stays at what was best at B = {USUAL_B:g}, and dotted lines show the best γ of each B. What diverged is
missing from a line.

![Gradient norm against γ and against B at equal SFO](evidence/robustness.png)

{_robustness_in_words(rows)}

{markdown_table(head, lines)}"""


def _robustness_in_words(rows: list[Row]) -> str:
    normalized = [row["diverged"] for row in rows if row["method"] in NORMALIZED]
    plain = [row for row in rows if row["method"] not in NORMALIZED and row["diverged"]]
    named = grouped(plain, _method_and_problem, _growth)
    widths = "; ".join(f"{method} {_widths(rows, method)}" for method in _methods(rows))
    ends = [
        {"method": method, "problem": problem, "B": B}
        for problem, growths in _problems(rows).items()
        for B in growths
        for method in _methods(rows)
        if _at_end_of_gammas(_of(rows, problem=problem, B=B, method=method))
    ]
    edges = grouped(ends, _method_and_problem, _growth)
    return f"""**Stability.** Of the normalized methods the share of diverged runs is {max(normalized):.0%} at most,
at any γ and B. Some run diverges of {named or "nothing else"}. With the γ that was best at B = {USUAL_B:g} the median
final norm grows from the smallest B to the largest by a factor of

{_grown(rows)}

**Width.** Step sizes within a factor of three of the best final norm span, in decades of γ: {widths}. Where a method
does not arrive at all every γ is as bad, and that counts as wide.

**Level.** The lowest median at each B, γ at its best:

{_winners(rows)}

Best γ at an end of the grid, where a method might do better than shown: {edges or "none"}."""


def _method_and_problem(row: Row) -> str:
    return f"{row['method']} on {row['problem']} for B ="


def _growth(row: Row) -> str:
    return f"{row['B']:g}"


def _widths(rows: list[Row], method: str) -> str:
    own = [_of(rows, problem=p, B=B, method=method) for p, growths in _problems(rows).items() for B in growths]
    return _between(_wide(each) for each in own)


def _wide(own: list[Row]) -> float:
    """Decades from the smallest to the largest γ within 3 × of the best final median."""
    least = _lowest(own, "final")[1]
    near = [row["gamma"] for row in own if row["final"][1] and row["final"][1] <= 3 * least]
    return math.log10(near[-1] / near[0])


def _at_end_of_gammas(own: list[Row]) -> bool:
    return at_edge(_lowest(own, "final")[0]["gamma"], [row["gamma"] for row in own])


def _grown(rows: list[Row]) -> str:
    lines = []
    for problem, growths in _problems(rows).items():
        grown = []
        for method in _methods(rows):
            usual, _ = _lowest(_of(rows, problem=problem, method=method, B=USUAL_B), "final")
            same = _of(rows, problem=problem, method=method, gamma=usual["gamma"])
            first, last = (row["final"][1] for row in same if row["B"] in (growths[0], growths[-1]))
            grown.append(f"{method} {last / first:.2g}" if first and last else f"{method} without bound, it diverges")
        lines.append(f"- {problem}: {'; '.join(grown)}.")
    return "\n".join(lines)


def _winners(rows: list[Row]) -> str:
    lines = []
    for problem, growths in _problems(rows).items():
        for what in ("final", "mean"):
            found = [{"B": B, "method": _winner(rows, problem, B, what)} for B in growths]
            named = grouped(found, lambda row: f"{row['method']} for B =", _growth)
            lines.append(f"- {problem}, {what} norm: {named}.")
    return "\n".join(lines)


def _winner(rows: list[Row], problem: str, B: float, what: str = "final") -> str:
    return min(_methods(rows), key=lambda method: _best(rows, problem, B, method, what))


def _best(rows: list[Row], problem: str, B: float, method: str, what: str = "final") -> float:
    return _lowest(_of(rows, problem=problem, B=B, method=method), what)[1]


def _lowest(rows: list[Row], what: str) -> tuple[Row, float]:
    """The row of the best γ and its median."""
    best = min(rows, key=lambda row: row[what][1] or math.inf)
    return best, best[what][1] or math.inf


def _problems(rows: list[Row]) -> dict[str, list[float]]:
    """Every problem with its values of B."""
    names = dict.fromkeys(row["problem"] for row in rows)
    return {name: list(dict.fromkeys(row["B"] for row in _of(rows, problem=name))) for name in names}


def _methods(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _of(rows: list[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]
