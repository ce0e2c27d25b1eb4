"""The page of the suite and its figures, from suite.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gladstorm.core.markdown import folded, markdown_table
from gladstorm.jobs.files import load_json
from gladstorm.plotting import figures
from gladstorm.suite import FORMAT
from gladstorm.suite import figures as suite_figures
from gladstorm.suite import tables as suite_tables
from gladstorm.suite.entries import SAMPLES

MARK = "<!-- written by `python -m evidence suite` from suite.json; a test compares -->\n"

TITLE = "# When to normalize, when to clip, when to reduce variance\n"
OPENING = """\
Does it help to normalize the step, to clip the gradient, or to reduce variance? We compared {methods} common methods on
{problems} problems, each with {budgets} stochastic gradients.

**{in_short}**

![The ratio of ‖∇f‖ with and without normalizing, clipping, variance reduction, case by case](answers.png)

*Final gradient norm with each of the three measures, divided by that without it. Left of the dotted line the measure
helps; right of it, it hurts. Grey: the interval cannot tell. Empty: the smaller budget, full: the larger one.*

{answers}

Every tuned method has {step_sizes} step sizes, {step} apart, once constant and once decaying linearly to zero
("linear"). DoG has nothing to tune and reports its average. Settings are chosen on {tuning_seeds} seeds and reported
on {seeds} others, and every seed has its own random start.
"""

LIMITS = """## What this shows, and what it does not

- It shows what you get if you tune a step size for a fixed budget. It does not show how a method would do with more
  numbers tuned: η = 0.1 for NSGDM and NSTORM, Adam's moments as Optax has them, one level of clipping. A row with a *
  may gain from step sizes beyond the grid.
- The level of clipping was chosen before this run. With a level at the median size of stochastic gradients at the
  start, clipping does what SGD does, because gradients shrink on the way. A tenth of it, the level here, is about their
  size near a solution, and cuts from the first step. Another level may do better on each problem, and would be one more
  number to tune.
- NSGDM differs from SGD by its momentum as well as by its normalization.
- Each problem has one instance and many starts. Intervals are over starts and noise, not over problems. The profile of
  {cases} cases has no interval, and another choice of problems would move it.
- ‖∇f‖ is what the theory bounds, and it can be small at the wrong point; so f stands beside it. On the problem `values`
  it is the norm of TD's mean field, which is not the gradient of a function.
- Budgets are short: {budgets} stochastic gradients. They do not show whether a method that is slower here is faster
  later.
- "Where", in the answers, names the one of five facts about problems that separates best, if the measure helps in more
  than half of the cases for which the fact holds. It describes these cases; it was chosen after they were seen.
- Prototypes of methods were tried on all development problems before there was a suite. The held-out problems had no
  part in choosing a method.
- Variational inference of a logistic regression is not among the problems: its exact gradient, by quadrature for every
  example, costs two milliseconds a step, hours for the suite.

An evaluation like this can go wrong in three ways, and we guard against them:

- *Lattice*: from one start a step of fixed length visits the same points on every seed. So starts are random.
- *Symmetry*: an average on an even function is near its minimum because iterates on both sides cancel. Such scores
  carry a °.
- *Another stationary point*: a score can have ‖∇f‖ beyond doubt below the reference's, and f above it. It carries a !.
"""


def render(result: Mapping[str, Any]) -> str:
    """The page."""
    config = result["config"]
    lows_highs = {tuple(each["step sizes"]) for each in result["problems"].values()}
    ratio = max((high / low) ** (1 / (config["step_sizes"] - 1)) for low, high in lows_highs)
    numbers = {
        "methods": str(len({row["method"] for row in result["methods"].values()})),
        "problems": str(len(result["problems"])),
        "budgets": " and ".join(f"{budget:,}" for budget in config["budgets"]),
        "step_sizes": str(config["step_sizes"]),
        "step": f"a factor {ratio:.3g}",
        "tuning_seeds": str(config["tuning_seeds"]),
        "seeds": str(config["seeds"]),
        "cases": str(len(result["cases"])),
        "in_short": suite_tables.in_short(result["answers"]),
        "answers": "\n".join(
            f"- **{each['deed'].capitalize()}?** {suite_tables.sentence(each)}" for each in result["answers"]
        ),
    }
    texts = {row["method"]: row["text"] for row in result["methods"].values()}
    return "\n".join(
        [
            TITLE,
            MARK + OPENING.format(**numbers),
            ANSWERED,
            LIMITS.format(**numbers),
            "## Over all cases\n",
            PROFILES.format(**numbers),
            folded("Every method over all cases, in numbers", markdown_table(*suite_tables.over_cases(result))) + "\n",
            "## The problems\n",
            "![‖∇f‖ of every method relative to the reference, problem by problem](problems.png)",
            "",
            f"*‖∇f‖ divided by that of {config['reference']}, with its interval; left of the dotted line is better.*\n",
            folded("What the problems are", _problems(result)) + "\n",
            "## Case by case\n",
            suite_tables.LEGEND.replace("the reference,", f"that of {config['reference']},", 1) + "\n",
            "\n".join(_case(result, case) for case in result["cases"]),
            MADE.format(methods=", ".join(f"{name} `{text}`" for name, text in texts.items()), samples=SAMPLES),
        ]
    )


ANSWERED = """\
## How the three answers were found

A *case* is a problem at a budget. An answer compares a method that normalizes, clips or reduces variance with one that
does not. Each of the two uses a constant step size or a decay, whichever was better on the tuning seeds. The ratio is
that of their ‖∇f‖, paired by seed; below 1 the first is better. All intervals of the three answers are valid at the
same time, with 95 % confidence. Where a seed diverged, the ratio has no mean. There the verdict uses the share of
paired seeds on which a method did better (diverging is worst), with its exact interval, and the better method must not
diverge on more seeds.
"""

PROFILES = """\
![Share of cases within a factor of the best; share of runs that have reached the target](profiles.png)

*Left: the share of the {cases} cases in which a method ends within a given factor of the best one. Right: the share of
its runs at the larger budget whose ‖∇f‖ has fallen below twice the best of the case and stays there, after so many
stochastic gradients. In both, higher is better. Runs that diverge or never get there count as failures. Averages on
even functions count too; their scores carry a ° below.*
"""

MADE = """## How it was made

`python -m evidence suite --out docs/evidence/suite` runs the suite and makes this page. The whole suite took 19 minutes
on two cores of an AMD processor with AVX-512. The methods are: {methods}. Here {{size}} is the median norm of {samples}
stochastic gradients at the start of a tuning seed.

`gladstorm suite --method "nigt(eta=0.1)"` puts a method of yours beside them, and `--role development` leaves the
held-out problems alone. A suite that was stopped goes on where it was, and runs on [Dask](../../cluster.md) like every
long job.
"""


def _problems(result: Mapping[str, Any]) -> str:
    rows = []
    for name, facts in result["problems"].items():
        noise = "its own" if facts["natural"] else "added"
        growth = "" if facts["outside"] is None else facts["outside"]
        known = "yes" if facts["inf f"] is not None else "no"
        start, even = "far" if facts["far"] else "near", "yes" if facts["even"] else ""
        rows.append([name, facts["role"], facts["about"], str(facts["dim"]), noise, growth, start, even, known])
    headings = [
        "problem",
        "role",
        "what it is",
        "d",
        "noise",
        "outside the paper's model, because",
        "starts",
        "even",
        "inf f known",
    ]
    return markdown_table(headings, rows)


def _case(result: Mapping[str, Any], case: Mapping[str, Any]) -> str:
    table = markdown_table(*suite_tables.of_case(result, case))
    return folded(suite_tables.title(result, case), table) + "\n"


def load(folder: Path) -> dict[str, Any]:
    """The results of the suite."""
    return load_json("suite", folder / "suite.json", FORMAT)


def draw(folder: Path) -> None:
    """The three figures; without answers, as after --quick, two."""
    result = load(folder)
    if result["answers"]:
        figures.save(suite_figures.answers(result), folder / "answers.png")
    figures.save(suite_figures.profiles(result), folder / "profiles.png")
    figures.save(suite_figures.problems(result), folder / "problems.png")
