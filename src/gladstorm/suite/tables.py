"""The tables and sentences of `gladstorm suite`, for a terminal and for a page: headings and cells as text."""

import numpy as np

from gladstorm.core.screen import in_digits
from gladstorm.suite.result import Answer, CaseAnswer, SuiteCase, SuiteResult
from gladstorm.suite.running import profile, with_infinities

LEGEND = """\
‖∇f‖ is the geometric mean over seeds, f the median, at what a row reports when the budget is spent; smaller is better.
*Relative* is the geometric mean over seeds of its ratio to the reference, on the same noise from the same start; below
1 is better. All intervals are valid at the same time, with 95 % confidence (Bonferroni). *Target reached* is the median
number of stochastic gradients after which ‖∇f‖ stays below twice the best score of the case, and how many of the runs
get there. * means that tuning chose the smallest or largest step size that was tried. ° marks an average on an even
function: iterates that jump over the minimum cancel, for no merit. ! marks another stationary point: ‖∇f‖ is below the
reference's and f above it, both beyond doubt. ↑ means that f ended above f(x⁰), or the run diverged, on most seeds."""
MARKS = {"symmetry": "°", "elsewhere": "!", "ascends": "↑"}

RATIO = "{value:.3g} ({low:.3g} to {high:.3g})"
Table = tuple[list[str], list[list[str]]]  # headings, rows


def title(result: SuiteResult, case: SuiteCase) -> str:
    """Return the title of a case's table."""
    facts = result.problems[case.problem]
    kind, where = "its own" if facts.natural else "added", "far" if facts.far else "near"
    problem = f"{case.problem} ({facts.role}): {facts.about}; d = {facts.dim}"
    return f"{problem}, {kind} noise, {where} starts; {case.budget:,} stochastic gradients"


def of_case(result: SuiteResult, case: SuiteCase) -> Table:
    """One problem at one budget: a row for each method."""
    facts, reference = result.problems[case.problem], result.config.reference
    has_infimum = facts.f_inf is not None
    values = ["f − inf f", "relative"] if has_infimum else ["f"]
    headings = ["method", "γ", f"‖{facts.field}‖", "relative", *values, "target reached", "diverged"]
    rows = []
    for name, row in case.rows.items():
        marks = "".join(MARKS[flag] for flag in row.flags)
        tuned = ", ".join(f"{number:.3g}" for number in row.tuned.values()) + " *" * bool(row.at_edge)
        norm, gap = (
            "1" if name == reference else "" if ratio is None else ratio.text(RATIO)
            for ratio in (row.relative.grad_norm, row.relative.gap)
        )
        f = [_median(row.gap or []), gap] if has_infimum else [_median(row.value)]
        median, count = _median(row.reached, "{:,.0f}, ", ""), sum(time is not None for time in row.reached)
        cells = [name + f" {marks}" * bool(marks), tuned, in_digits(row.score, missing="∞"), norm]
        diverged = f"{row.diverged} of {len(row.grad_norm)}"
        rows.append([*cells, *f, f"{median}{count} of {len(row.reached)}", diverged])
    return headings, rows


def over_cases(result: SuiteResult) -> Table:
    """All cases: a row for each method."""
    rows = []
    longest = max(result.config.budgets)
    for name in result.methods:
        of = [case.rows[name] for case in result.cases]
        ratios = with_infinities(row.to_best for row in of)
        failed = np.isinf(ratios).sum()
        mean = f"failed in {failed}" if failed else f"{np.exp(np.log(ratios).mean()):.3g}"
        worst = "∞" if failed else f"{ratios.max():.3g}"
        within = [f"{round(share * ratios.size)}" for share in profile(ratios, np.array([1.0, 2.0]))]
        late = [case.rows[name].reached for case in result.cases if case.budget == longest]
        got = sum(time is not None for times in late for time in times)
        lost, runs = sum(row.diverged for row in of), sum(len(row.grad_norm) for row in of)
        rows.append([name, mean, worst, *within, f"{got} of {sum(map(len, late))}", f"{lost} of {runs}"])
    within = [f"best, of {len(result.cases)} cases", "within 2 ×"]
    return ["method", "to the best, geometric mean", "worst", *within, "runs that reach the target", "diverged"], rows


def sentence(answer: Answer) -> str:
    """How often it is better, how often it diverges, and the clearest cases for and against."""
    does, does_not = answer.does, answer.does_not
    verdicts = [case.verdict for case in answer.cases]
    better, worse, rest = (verdicts.count(word) for word in ("better", "worse", "cannot tell"))
    lost = [sum(case.diverged[place] for case in answer.cases) for place in (0, 1)]
    sentences = [
        f"{does[:1].upper()}{does[1:]} is better than {does_not} in {better} of {len(verdicts)} cases and worse in "
        f"{worse}; in {rest} the intervals cannot tell"
    ]
    sentences.append(f"Runs that diverged: {lost[0]} with {does}, {lost[1]} with {does_not}")
    for word, case in (("for", answer.clearest_for), ("against", answer.clearest_against)):
        if case is not None:
            sentences.append(f"The clearest case {word} it: {row_of(case)}")
    return ". ".join(sentences) + "."


def row_of(case: CaseAnswer) -> str:
    """Return one comparison in words."""
    row, rival = (f'"{name}"' for name in case.rows)
    at = f"on {case.problem} with {case.budget:,} gradients"
    if case.relative.value is not None:
        return f"{at}, ‖∇f‖ of {row} is {case.relative.text(RATIO)} times that of {rival}"
    seeds, lost = case.seeds, " against ".join(map(str, case.diverged))
    better = f"{seeds.better} of {seeds.of} seeds (share {seeds.low:.2g} to {seeds.high:.2g})"
    return f"{at}, {row} does better than {rival} on {better}, and {lost} runs diverge"


def _median(values: list[float | None], form: str = "{:.3g}", infinite: str = "∞") -> str:
    median = float(np.median(with_infinities(values)))
    return infinite if np.isinf(median) else form.format(median)
