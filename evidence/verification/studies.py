"""The studies of the verification in words: every number and every verdict is computed from the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from evidence.verification import hardness
from gladstorm.comparison.scores import at_edge
from gladstorm.core.markdown import markdown_table
from gladstorm.plotting.styles import regime_in_words

Row = dict[str, Any]
LOWER_BOUNDS = {"zero-chain": 4, "gated runway": 6}  # Ω(ε^−…), of hard_instances.py
USUAL_B = 0.5  # at which the robustness study fixes γ
NORMALIZED = ("NSGDM", "NSTORM")
CHECK = ("regime", "problem", "check", "T", "measured", "interval", "claim", "seeds")


def checked(checks: Iterable[Row]) -> str:
    """A table of checks."""
    return markdown_table(CHECK, map(_check, checks))


def _check(check: Row) -> list[str]:
    numbers = [f"{check['measured']:.4g}", f"{check['low']:.4g} to {check['high']:.4g}", check["claim"]]
    horizon = f"{check['horizon']:,}" if check["horizon"] else ""
    where = [regime_in_words(check["regime"]), check["instance"], check["check"]]
    return [*where, horizon, *numbers, str(check["seeds"])]


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


def two_digits(number: float) -> str:
    """A number written out, for a reader.

    >>> two_digits(1234567.0), two_digits(7.04), two_digits(0.00316)
    ('1,200,000', '7', '0.0032')
    """
    return f"{float(f'{number:.2g}'):,.9g}"


def surprises(studies: dict[str, list[Row]]) -> str:
    """What a reader of the literature would not have expected, in one paragraph."""
    rows = studies["robustness ratios"]
    settings = list(dict.fromkeys((row["problem"], row["B"]) for row in rows))
    plain = [
        setting
        for setting in settings
        if any(all(_verdict(row) == "lower" for row in _against(rows, setting, method)) for method in _plain(rows))
    ]
    beaten = [
        setting
        for setting in settings
        if any(
            all(_verdict(row) in ("higher", "diverges") for row in _of(_settled(rows, setting), against=normalized))
            for normalized in NORMALIZED
        )
    ]
    return f"""with everything tuned and equally many stochastic gradients, one of the two kinds of SGD ends lower than
  both normalized methods in {len(plain)} of {len(settings)} settings, by intervals that are valid together; one of the
  normalized methods ends lower than both kinds of SGD in {len(beaten)} of them.
  {_inertia_surprise(studies["inertia"])}"""


def _inertia_surprise(rows: list[Row]) -> str:
    behind, ahead = (
        [row for row in rows if decided(row["below"]["best_storm"]) == words]
        for words in ("less often than not", "more often than not")
    )
    return (
        f"On phase retrieval with equal γ, STORM with its best η ends above momentum with its best η in {len(behind)} "
        f"of {len(rows)} settings and below it in {len(ahead)}; the other settings are undecided."
    )


def _plain(rows: list[Row]) -> list[str]:
    return [name for name in dict.fromkeys(row["method"] for row in rows) if name not in NORMALIZED]


def _settled(rows: list[Row], setting: tuple[str, float]) -> list[Row]:
    """The rows of one setting that compare a kind of SGD with a normalized method."""
    return [row for row in _of(rows, problem=setting[0], B=setting[1]) if row["method"] not in NORMALIZED]


def _against(rows: list[Row], setting: tuple[str, float], method: str) -> list[Row]:
    return _of(_settled(rows, setting), method=method)


def _verdict(row: Row) -> str:
    """What the interval of a ratio says: lower or higher than 1."""
    if row["mean"] is None:
        return "diverges"
    return "lower" if row["high"] < 1 else "higher" if row["low"] > 1 else "undecided"


# Hard instances.


def hard(rows: list[Row], progress: list[Row]) -> str:
    """The section on hard instances."""
    head = [
        *("problem", "ε", "length", "p", "method", "γ", "η or σ²", "stochastic gradients to ε, median"),
        *("needed by any method", "times needed", "times NSGDM's"),
    ]
    runway = next(row for row in rows if row["B"])
    tried = rows[0]["tried"]
    return f"""## Hard instances: what no method can avoid

A lower bound says that some problem is hard for every method. Here are two such problems, and the number of stochastic
gradients that three methods need to reach ‖∇f‖ ≤ ε on them; fewer is better.

![Stochastic gradients needed against 1/ε](hard.png)

The *zero-chain* shows its next coordinate only with probability p, whatever the method does; its noise has bounded
variance. The *gated runway* is a chain behind a runway of length Δ/(8ε), under noise that grows with the distance
(BG-0) and so is largest where the chain is. L = Δ = 1; G = {rows[0]["G"]:g} on the chain, B = {runway["B"]:g} and
G = {runway["G"]:g} on the runway. *Needed* is (length − log 2)/(2p) samples: with fewer, any method that stays in the
span of what it was shown is unfinished half of the time.

{_exponents(rows)}

Every method has {len(tried) * len(tried[0])} configurations: {len(tried)} step sizes times {len(tried[0])} values of η,
or of the variance σ² that dynamic batches keep. The best one by the median over {rows[0]["tuning_seeds"]} seeds is
reported on {rows[0]["seeds"]} others. *Times NSGDM's* is the geometric mean of the ratio, seed by seed; its
{hardness.COMPARISONS} intervals are valid at the same time, with 95 % confidence. {_edges_of_steps(rows)}

{_late(rows)}<details><summary>Every ε in numbers</summary>

{markdown_table(head, map(_hard_row, rows))}

</details>

No method gets ahead of the chain: the coordinates it has reached, divided by p times the samples it has drawn, are not
above 1.

{checked(progress)}"""


def _hard_row(row: Row) -> list[str]:
    facts = [row["instance"], f"{row['eps']:g}", str(row["length"]), f"{row['p']:.2g}", row["method"]]
    facts += [two_digits(row["gamma"]), two_digits(row["second"])]
    if row["sfo"] is None:
        return [*facts, "not in time", f"{row['needed']:,.0f}", "", ""]
    mean, low, high = row["relative"]
    relative = (
        "" if row["method"] == "NSGDM" else "not finite" if mean is None else f"{mean:.2g} ({low:.2g} to {high:.2g})"
    )
    return [*facts, f"{row['sfo']:,.0f}", f"{row['needed']:,.0f}", f"{row['sfo'] / row['needed']:.1f}", relative]


def _edges_of_steps(rows: list[Row]) -> str:
    ends = [row for row in rows if _better_at_some_end(row["tried"])]
    if not ends:
        return "No best setting is at an end of its grid and better there by 5 % than next to it."
    named = grouped(ends, lambda row: f"{row['method']} on the {row['instance']} at ε =", lambda row: f"{row['eps']:g}")
    return f"In these cases the best setting is at an end of its grid, and a wider grid may do better: {named}."


def _better_at_some_end(medians: list[list[float | None]]) -> bool:
    """Whether the best of a grid of two numbers stands out at an end of either."""
    finite = [[math.inf if median is None else median for median in line] for line in medians]
    best = min(map(min, finite))
    row = next(line for line in finite if best in line)
    column = [line[row.index(best)] for line in finite]
    return any(_better_at_an_end([None if each == math.inf else each for each in line]) for line in (row, column))


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
        "*Not in time*: half of the runs or more were unfinished "
        f"{hardness.PATIENCE} standard deviations after all links should have been seen.\n\n"
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
    head = ["problem", "method", "values of ε", "exponent, measured", "interval", "exponent of what is needed here"]
    return (
        "The number of stochastic gradients grows like a power of 1/ε. The table has the exponent, fitted by least\n"
        "squares on logarithms, seed by seed. All intervals are valid at the same time, with 99 % confidence.\n\n"
        + markdown_table([*head, "exponent of the lower bound"], lines)
        + f"\n\nCompared with what is needed, the number grows {named}. These exponents are of the ε in the table;\n"
        f"chains of length {min(row['length'] for row in rows)} to {max(row['length'] for row in rows)} are no limit."
    )


# Inertia.

QUESTIONS = {
    "scheduled": "NSTORM below NSGDM, scheduled η",
    "best_storm": "STORM below momentum, best of each",
    "best_inertia": "STORM with inertia below momentum, best of each",
    "gained": "STORM with inertia below STORM, best of each",
}


def inertia(rows: list[Row]) -> str:
    """The section on inertia."""
    lines = [
        [
            "added" if row["noise"] == "wrapper" else row["noise"],
            f"{row['T']:,}",
            f"{row['multiple']:g}",
            str(row["instances"]),
            *(f"{best['mean']:.3g} ({_numbers(name, best)})" for name, best in row["best"].items()),
            *("{:.2f} [{:.2f}, {:.2f}]".format(*row["below"][key]) for key in QUESTIONS),
        ]
        for row in rows
    ]
    bests = [f"{name}, best" for name in rows[0]["best"]]
    head = ["noise", "T", "γ / scheduled γ", "instances", *bests, *(f"P({words})" for words in QUESTIONS.values())]
    return f"""## Does momentum win by its inertia?

NSGDM averages stochastic gradients. NSTORM corrects them instead, and its direction is not an average. Is this average,
the inertia, what momentum has and STORM lacks? To find out we gave STORM inertia: *STORM with inertia* averages STORM's
direction before it is normalized, m ← (1 − μ) m + μ v.

![Gradient norm over the last tenth against η or μ](inertia.png)

*Mean of ‖∇f‖ over the last tenth of the run, with its standard error; smaller is better. Each column has its own number
of iterates T and its own multiple of the scheduled step size γ. Top: the paper's noise, added to the gradient. Bottom:
noise of the same variance with an independent sign for every coordinate ("full rank").*

{_inertia_in_words(rows)}

The problem is phase retrieval with d = {rows[0]["d"]}, B = 0.5 and G = 1, a fresh instance for each seed, and all
methods have the same γ. Of the {len(next(iter(rows[0]["grids"].values())))} configurations of a method the best one is
chosen on the first half of the instances and judged on the second. What counts is the share of instances on which one
method ends below another; 1/2 is a coin flip. Its intervals are Clopper and Pearson's, and all are valid at the same
time, with 99 % confidence. They decide this:

{_shares(rows)}

<details><summary>Every setting in numbers</summary>

P is the share of instances with its interval.

{markdown_table(head, lines)}

</details>"""


def just_enough(row: Row) -> bool:
    """Whether steps are just long enough to arrive: the scheduled γ at the shorter horizon."""
    return (row["multiple"], row["T"]) == (1, 10_001)


def _setting(row: Row) -> str:
    noise = "added noise" if row["noise"] == "wrapper" else f"{row['noise']} noise"
    return f"{noise}, T = {row['T']:,}, {row['multiple']:g} × γ"


def decided(share: list[float]) -> str:
    """What a share's interval says about a fair coin."""
    _, low, high = share
    if low > 0.5:
        return "more often than not"
    return "less often than not" if high < 0.5 else "undecided"


def _told(question: str, row: Row) -> str:
    return f"{decided(row['below'][question])} for"


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
    return f"""Of the {len(rows)} settings STORM's best η leaves it behind momentum's in {len(behind)}; the rest are
undecided or the other way round. Inertia brings STORM down in {len(helped)} of these, and in {len(level)} so far that
momentum's lead is no longer decided. In such a setting the lead is inertia, and not the accuracy of the estimate.

Where the steps are just long enough to arrive (the scheduled γ, T = 10,001), the best mean of STORM is {
        _ratios(near, "STORM")
    } times momentum's, and that of STORM with inertia {_ratios(near, "STORM with inertia")} times. At other γ and
T these are {_ratios(other, "STORM")} and {_ratios(other, "STORM with inertia")} times. A low gradient norm does not
mean that a run has found the solution x*. The mean distance to ±x*, at the same settings, is: {far}.

The best setting is at an end of its grid, where a wider grid may do better, for: {named or "none"}."""


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


# Robustness.


def robustness(rows: list[Row], ratios: list[Row]) -> str:
    """The section on step sizes and B."""
    problems, usual = _problems(rows), rows[0]
    counted = f"{usual['configurations']} configurations"
    compared = [
        [row["problem"], f"{row['B']:g}", f"{row['method']} / {row['against']}", _ratio(row), _verdict(row)]
        for row in ratios
    ]
    lines = []
    for problem, growths in problems.items():
        for B, method in ((B, method) for B in growths for method in _methods(rows)):
            own = _of(rows, problem=problem, B=B, method=method)
            best = _chosen(own)
            numbers = [f"{best['gamma']:g}", f"{best['second']:g}", _g(best["late"][1])]
            lines.append([problem, f"{B:g}", method, *numbers, f"{_wide(own):.1f}", f"{own[-1]['diverged']:.0%}"])
    head = [
        *("problem", "B", "method", "γ", "η or σ²", "‖∇f‖, median"),
        *("decades of γ within 3 × of the best", "runs that diverge at the largest γ"),
    ]
    return f"""## Robustness to the step size and to the growth of the noise

How much does the step size matter, and what happens as noise grows faster? Every method may compute 10,000 stochastic
gradients. The score is the mean of ‖∇f‖ over the last tenth of the iterates; smaller is better.

![Gradient norm against γ and against B with equally many stochastic gradients](robustness.png)

*Left: score against the step size γ, at B = {USUAL_B:g}. Right: score against B, which says how fast noise grows, with
the γ that was best at B = {USUAL_B:g}; dotted, with the settings that were best at each B. Lines are medians, bands the
middle 80 % of the seeds. Runs that diverged are missing.*

{_robustness_in_words(rows, ratios)}

**How it was run.** Each method has {counted}: nine γ over four decades, times four values of η (NSGDM, NSTORM and SGD,
which has momentum here) or of σ² (the variance that dynamic batches keep). The best one by the median over
{usual["tuning_seeds"]} seeds is reported on {usual["seeds"]} others. N_init is the theorems'. The phase retrieval
problem is the paper's at a tenth of its dimension, so that every seed can have its own instance.

<details><summary>Every comparison in numbers</summary>

The ratio is the geometric mean over seeds of one method's score divided by the other's, on the same noise from the same
start. Below 1 the first method is better. All {len(ratios)} intervals are valid at the same time, with 95 % confidence.

{markdown_table(["problem", "B", "methods", "ratio", "the first method ends"], compared)}

</details>

<details><summary>Every configuration that was chosen</summary>

{markdown_table(head, lines)}

</details>"""


def _g(value: float | None) -> str:
    return "diverges" if value is None else f"{value:.2g}"


def _ratio(row: Row) -> str:
    return "not finite" if row["mean"] is None else f"{row['mean']:.2g} ({row['low']:.2g} to {row['high']:.2g})"


def _robustness_in_words(rows: list[Row], ratios: list[Row]) -> str:
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
    return f"""**Which method ends lower.** For which B the first method ends lower or higher than the second; where the
interval contains 1 it is undecided:

{_levels(ratios)}

**Which runs diverge.** Of the normalized methods at most {max(normalized):.0%} of the runs diverge, at any γ and B. Of
the others some runs diverge: {named or "none"}.

**How much worse it gets.** With the γ that was best at B = {USUAL_B:g}, the median score grows from the smallest B to
the largest by this factor (smaller is better):

{_grown(rows)}

**How wide the range of good step sizes is.** The step sizes within a factor of three of the best median span, in
decades of γ (wider is easier to tune): {widths}. Where a method does not arrive with any γ, all are equally bad, and
that counts as wide.

The best γ is at an end of the grid, where a wider grid may do better, for: {edges or "none"}."""


def _levels(ratios: list[Row]) -> str:
    pairs = dict.fromkeys((row["method"], row["against"], row["problem"]) for row in ratios)
    told = [word for word in ("lower", "higher", "diverges", "undecided") if word in map(_verdict, ratios)]
    lines = []
    for one, other, problem in pairs:
        own = _of(ratios, method=one, against=other, problem=problem)
        growths = [", ".join(_growth(row) for row in own if _verdict(row) == word) for word in told]
        lines.append([f"{one} against {other}", problem, *(each or "–" for each in growths)])
    return markdown_table(["methods", "problem", *(f"{word} for B =" for word in told)], lines)


def _method_and_problem(row: Row) -> str:
    return f"{row['method']} on {row['problem']} for B ="


def _growth(row: Row) -> str:
    return f"{row['B']:g}"


def _widths(rows: list[Row], method: str) -> str:
    own = [_of(rows, problem=p, B=B, method=method) for p, growths in _problems(rows).items() for B in growths]
    return _between(_wide(each) for each in own)


def _wide(own: list[Row]) -> float:
    """Decades from the smallest to the largest γ within 3 × of the best median."""
    medians = {row["gamma"]: row["late"][1] for row in own if row["late"][1] is not None}
    near = [gamma for gamma, median in medians.items() if median <= 3 * min(medians.values())]
    return math.log10(max(near) / min(near)) if near else 0.0


def _at_end_of_gammas(own: list[Row]) -> bool:
    return at_edge(_chosen(own)["gamma"], [row["gamma"] for row in own])


def _grown(rows: list[Row]) -> str:
    lines = []
    for problem, growths in _problems(rows).items():
        grown = []
        for method in _methods(rows):
            usual = _chosen(_of(rows, problem=problem, method=method, B=USUAL_B))
            same = _of(rows, problem=problem, method=method, gamma=usual["gamma"])
            first, last = (row["late"][1] for row in same if row["B"] in (growths[0], growths[-1]))
            grown.append(
                f"{method} {two_digits(last / first)}" if first and last else f"{method} without bound, it diverges"
            )
        lines.append(f"- {problem}: {'; '.join(grown)}.")
    return "\n".join(lines)


def _chosen(own: list[Row]) -> Row:
    """The configuration that tuning chose."""
    return next(row for row in own if row["chosen"])


def _problems(rows: list[Row]) -> dict[str, list[float]]:
    """Every problem with its values of B."""
    names = dict.fromkeys(row["problem"] for row in rows)
    return {name: list(dict.fromkeys(row["B"] for row in _of(rows, problem=name))) for name in names}


def _methods(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _of(rows: list[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]
