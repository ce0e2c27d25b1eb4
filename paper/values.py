"""Every number and table of the paper and the report, from the results in docs/evidence and from the code.

`python -m paper.values` writes them into paper.md and, for the report, into out/paper/values.json.
"""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from evidence import numbers
from evidence.optimality.verdicts import verdicts as both_sides
from evidence.posteriors import page as posteriors
from evidence.study import PUBLISHED
from evidence.suite.page import load as load_suite
from evidence.untuned import page as untuned
from evidence.untuned.rivals import COSINE
from gladstorm import methods
from gladstorm.suite import tables as suite_tables
from gladstorm.theory import Problem, theorem

ROOT = Path(__file__).parent.parent
STUDIES = ("untuned", "optimality", "reproduction", "networks", "untuned_networks", "posteriors")
ERRATA = {"L0-smooth": 0.0, "L*_sym(1/2)": 0.5, "L*_sym(1)": 1.0}
EXAMPLE: dict[str, Any] = {"L0": 1.5, "B": 0, "G": 0.7, "gap": 3, "L1": 0.25}  # of docs/errata.md

Table = list[list[str]]  # the first row has the headings


def read(study: str) -> list[Table]:
    """The tables of a study's page, rendered anew from its results."""
    page = importlib.import_module(f"evidence.{study}.page")
    return tables_of(page.render(page.load(PUBLISHED / study)))


def tables_of(text: str) -> list[Table]:
    """The tables of a Markdown text, without bold and code.

    >>> tables_of("| a | b |\\n| --- | --- |\\n| **1** | `2` |\\n\\n")
    [[['a', 'b'], ['1', '2']]]
    """
    found = re.findall(r"^\|.*\|\n\| ---.*\n(?:\|.*\n?)+", text, re.MULTILINE)
    return [
        [
            [re.sub(r"\*\*|`", "", cell).strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in table.splitlines()
            if not line.startswith("| ---")
        ]
        for table in found
    ]


def with_heading(tables: list[Table], *headings: str) -> Table:
    """The table that has these headings."""
    return next(table for table in tables if set(headings) <= set(table[0]))


def only(table: Table, *headings: str, **renamed: str) -> Table:
    """Some columns of a table, in this order."""
    places = [table[0].index(heading) for heading in headings]
    rows = [[row[place] for place in places] for row in table]
    return [[renamed.get(cell.replace(" ", "_"), cell) for cell in rows[0]], *rows[1:]]


def errata() -> Table:
    """The three false bounds at T = 10,000: as printed, and corrected."""
    rows = []
    for words, alpha in ERRATA.items():
        constants = EXAMPLE if alpha else {**EXAMPLE, "L1": 0}
        statement = theorem("nsgdm", Problem(alpha=alpha, **constants), gamma0=0.09)
        printed, corrected = statement.bound_as_printed(10_000), statement.bound(10_000)
        rows.append([words, ", ".join(statement.errata), *(f"{each:.4f}" for each in (printed, corrected))])
    return [["class", "errata", "as printed", "corrected"], *rows]


def regimes() -> Table:
    """Best upper and lower bound of each noisy regime."""
    rows = [each.as_dict() for each in both_sides()]
    keys = ("method", "smoothness", "noise", "upper bound", "lower bound")
    return [list(keys), *([row[key] for key in keys] for row in rows if row["noise"] != "none")]


def texts() -> dict[str, str]:
    """Single numbers, by the name under which the texts use them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    published = json.loads((PUBLISHED / "verification/published.json").read_text("utf-8"))
    broken = json.loads((PUBLISHED / "verification/broken.json").read_text("utf-8"))
    suite = load_suite(PUBLISHED / "suite")
    optimality = json.loads((PUBLISHED / "optimality/optimality.json").read_text("utf-8"))
    verdicts = {each.deed: [case.verdict for case in each.cases] for each in suite.answers}
    (false,) = (row for row in published["checks"]["rows"] if row[2] == "printed bound is false")
    sentences = [row[2].split(" (")[0] for row in with_heading(read("reproduction"), "the paper says")[1:]]
    times = [each["paper's best"] / each["S9"] for each in optimality["plans"]]
    return {
        "version": project["version"],
        "methods": str(len(methods.rows())),
        "regimes": str(len(list(both_sides()))),
        "checks": str(published["confidence"]["checks"]),
        "checks_confidence": f"{1 - published['confidence']['family']:.0%}".replace("%", " %"),
        "checks_failed": str(sum(not row[-1] for row in published["checks"]["rows"])),
        "faults": str(len(broken)),
        "faults_found": str(sum(each["affects"] == each["found_in"] for each in broken)),
        "counterexample_horizon": f"{false[3] / 1e6:g}",
        "counterexample": f"{false[4]:.3f}",
        "counterexample_low": f"{false[5]:.3f}",
        "counterexample_high": f"{false[6]:.3f}",
        "counterexample_printed": f"{max(row[1] for row in published['studies']['printed bounds']['rows']):.3f}",
        "counterexample_corrected": f"{min(row[2] for row in published['studies']['printed bounds']['rows']):.1f}",
        "sentences": str(len(sentences)),
        "sentences_hold": str(sentences.count("holds")),
        "sentences_fail": str(sentences.count("does not hold")),
        "sentences_depend": str(sum(each.startswith("depends") for each in sentences)),
        "suite_problems": str(len(suite.problems)),
        "suite_cases": str(len(suite.cases)),
        **{f"{name}_better": str(verdicts[deed].count("better")) for name, deed in DEEDS.items()},
        **{f"{name}_worse": str(verdicts[deed].count("worse")) for name, deed in DEEDS.items()},
        "schedule_least": order(min(times)),
        "schedule_most": order(max(times)),
        "schedule_eps": order(optimality["eps"]),
        **_of_pages(),
        "one_line_false": str(
            sum("false" in row[-1] for row in with_heading(read("untuned_networks"), "registered")[1:])
        ),
        **_untuned(),
        **_posteriors(),
    }


DEEDS = {"normalizing": "normalize", "clipping": "clip", "variance_reduction": "reduce variance"}


def _of_pages() -> dict[str, str]:
    """Return the numbers that README and docs repeat: `networks_mean_Muon` is their `networks.mean.Muon`."""
    named = {f"{study}.{name}": value for study, found in numbers.STUDIES.items() for name, value in found().items()}
    return {re.sub(r"\W+", "_", name): value for name, value in named.items()}


def _untuned() -> dict[str, str]:
    results = untuned.load(PUBLISHED / "untuned")
    found = untuned.summary(results)
    verdicts = [sentence.verdict.strip("*") for sentence in found["sentences"]]

    def by_budget(means: dict[int, float]) -> str:
        return ", ".join(f"{untuned.shown(mean)} at {budget:,} gradients" for budget, mean in means.items())

    return {
        "untuned_problems": str(untuned.PROBLEMS),
        "untuned_cases": str(found["cases"]),
        "untuned_registered_cases": str(found["registered"]),
        "untuned_median": f"{found['median']:.2f}",
        "untuned_means": by_budget(found["means"]),
        "untuned_losses": by_budget(found["losses"]),
        "untuned_better": str(found["better"]),
        "untuned_worse": str(found["worse"]),
        "untuned_beats_cosine": str(sum(result.ratio("loss", to=COSINE) < 1 for result in results)),
        "untuned_sentences": str(len(verdicts)),
        **{f"untuned_{word}": str(verdicts.count(word)) for word in ("true", "false", "undecided")},
    }


def _posteriors() -> dict[str, str]:
    results = posteriors.load(PUBLISHED / "posteriors")
    sentences = posteriors.sentences(results)

    def outcome(words: str) -> str:
        (found,) = (sentence.outcome for sentence in sentences if words in sentence.words)
        return found

    return {
        "posteriors_budget": f"{results.settings.budgets[-1]:,}",
        "posteriors_alarms": outcome("within 1 nat, at most 5 % warn"),
        "posteriors_seconds": outcome("as long as in numpyro's SVI"),
        "posteriors_batches": outcome("Minibatches"),
    }


def order(number: float) -> str:
    """A number by its size.

    >>> order(6.4e8), order(1e-7)
    ('6.4·10⁸', '10⁻⁷')
    """
    mantissa, _, exponent = f"{number:.1e}".partition("e")
    power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return power if mantissa == "1.0" else f"{mantissa}·{power}"


def tables() -> dict[str, Table]:
    """Tables of the report, by name."""
    pages = {study: read(study) for study in STUDIES}
    headings, rows = suite_tables.over_cases(load_suite(PUBLISHED / "suite"))
    return {
        "errata": errata(),
        "regimes": regimes(),
        "powers": with_heading(pages["optimality"], "constant", "S9"),
        "registered": only(with_heading(pages["untuned"], "registered", "verdict"), "registered", "found", "verdict"),
        "rivals": with_heading(pages["untuned"], "untuned is better in"),
        "sentences": only(
            with_heading(pages["reproduction"], "the paper says"), "experiment", "the paper says", "verdict"
        ),
        "suite": only([headings, *rows], *headings[:5]),
        "networks": only(with_heading(pages["networks"], "settings", "worst"), "method", "settings", "mean", "worst"),
        "one_line": only(
            with_heading(pages["untuned_networks"], "registered", "verdict"), "registered", "found", "verdict"
        ),
        **variational(pages["posteriors"]),
    }


def variational(page: list[Table]) -> dict[str, Table]:
    """Tables of the section on variational inference, from the tables of its study's page."""
    return {"posteriors": with_heading(page, "not finite")}


def typeset(text: str) -> str:
    """Numbers as a reader writes them.

    >>> typeset("1e+04 at 10,000 gradients"), typeset("4.2e-31, inf")
    ('10⁴ at 10,000 gradients', '4.2·10⁻³¹, ∞')
    """
    text = re.sub(r"\b\d(?:\.\d+)?e[+-]?\d+\b", lambda match: order(float(match[0])), text)
    return re.sub(r"\binf\b", "∞", text)


def every() -> dict[str, Any]:
    """All of them, as Typst reads them."""
    shown = {name: [[typeset(cell) for cell in row] for row in table] for name, table in tables().items()}
    return {"texts": {name: typeset(text) for name, text in texts().items()}, "tables": shown}


def filled(text: str, found: dict[str, str]) -> str:
    """A text with every number between <!--name--> and <!--/--> renewed.

    >>> filled("of <!--cases-->12<!--/--> cases", {"cases": "24"})
    'of <!--cases-->24<!--/--> cases'
    """
    return re.sub(r"<!--(\w+)-->.*?<!--/-->", lambda match: f"<!--{match[1]}-->{found[match[1]]}<!--/-->", text)


def main() -> None:
    """Write them where the texts have them."""
    found, target = every(), ROOT / "out" / "paper" / "values.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, ensure_ascii=False, indent=1), "utf-8")
    paper = ROOT / "paper" / "paper.md"
    paper.write_text(filled(paper.read_text("utf-8"), found["texts"]), "utf-8")


if __name__ == "__main__":
    main()
