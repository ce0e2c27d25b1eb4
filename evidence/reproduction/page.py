"""The page of the reproduction, from the summaries of its experiments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evidence.reproduction import EXPERIMENTS
from evidence.reproduction import figures as reproduction_figures
from evidence.reproduction.publication import Publication, experiments_in, require_own_report
from gladstorm.core.markdown import folded, markdown_table
from gladstorm.plotting import figures
from gladstorm.plotting.styles import in_words

OPENING = """# The paper's two experiments, run again

Does the paper's experiment section hold up? `make reproduce` repeats its two experiments and judges every sentence that
the paper writes about them. It takes the schedules from the theorems, tunes the baselines on other seeds, and gives
each verdict with a 95 % interval.
"""

# What the estimate of a claim is, by the claim's id.
MEASURED = {
    "nstorm-below-nsgdm": "share of seeds on which NSTORM's last iterate is lower",
    "dynamic-batches-grow-to-1000": "largest batch",
    "dynamic-batches-grow-tenfold": "largest batch divided by the first",
    "drift-stabilises-nsgdm": "growth of NSGDM's ‖x−x⁰‖² over the last tenth of the run, as a share",
    "single-sample-sgd-drifts": "variation of ‖x−x⁰‖² over the second half of the run, relative to its mean",
    "normalized-methods-keep-batch-one": "largest batch after the first estimate",
}

ABOUT = """\
**Why most of it looks as it does.** A normalized step has the length γ, so a run of T iterates travels at most γT.
Where that is less than the distance to the solution, the run ends where its budget ends, and the method with the larger
γ ends lower, whatever its estimator does. The reading *equal step size* therefore gives NSGDM the γ of NSTORM and asks
again.

**What the readings mean.** The paper says that NSTORM reaches a lower gradient norm, and not at which iterate or at
which cost. *Last iterate*, *last tenth* and *all iterates* compare after equally many iterations, where NSTORM has
computed twice as many stochastic gradients. *Equal gradients* stops NSTORM when it has computed as many as NSGDM.
*Equal budget* does so too, with a schedule made for the shorter run.

**What the paper leaves open.** It states T, d, m, G, α, γ0 and η0. It does not state B, σ², the η of STORM and the
step-size grids, so its figures cannot be repeated from its text. Our choices are listed with each experiment. We chose
B such that the sentences on batch sizes can hold, so it says little that they do. No other choice was made for the sake
of a verdict. After a first run the grids got ten points instead of eight, tuning got a fourth seed and the sensitivity
more points, because the simulator was fast enough for them. Every picked step size stayed the same.

**How a verdict is made.** Each verdict uses a 95 % interval over seeds, for its claim alone. With three seeds, as in
the paper, most questions cannot be decided.

**How to run it.** `make reproduce`, which is `python -m evidence reproduction --out out`. Every number comes from the
`summary.json` of each experiment, kept beside this page; the interactive version is `out/report.html`. If you stop a
run and start it again, it goes on where it was. `--quick` tries every path in seconds; `--B`, `--sigma2`, `--seeds`,
`--steps` and `--grid` change the experiments, and `--page-only` draws the figures again.
"""


def render(results: dict[str, dict[str, Any]]) -> str:
    """The page."""
    summaries = list(results.values())
    return "\n".join([OPENING, in_short(summaries), ABOUT, *(_experiment(summary) for summary in summaries)])


def in_short(summaries: Sequence[dict[str, Any]]) -> str:
    """The verdicts on all seeds, counted and listed."""
    rows, verdicts = [], []
    for summary in summaries:
        last = {claim["id"]: claim for claim in summary["claims"]}  # a claim's second finding is that of all seeds
        by_statement = {claim["statement"]: claim for claim in reversed(last.values())}  # as a whole, not its readings
        rows += [
            [summary["title"], c["statement"], _verdict(c), f"{MEASURED[c['id']]}: {_estimate(c)}"]
            for c in reversed(by_statement.values())
        ]
        verdicts += [claim["verdict"] for claim in by_statement.values()]
    hold, fail = verdicts.count("holds"), verdicts.count("does not hold")
    depend = sum(verdict.startswith("depends") for verdict in verdicts)
    return f"""Of the paper's {len(verdicts)} sentences about them, {hold} hold, {fail} does not hold, and {depend}
depend on how one reads them.

{_figure(summaries[0])}

{markdown_table(["experiment", "the paper says", "verdict", "measured (95 % interval)"], rows)}
"""


def _figure(summary: dict[str, Any]) -> str:
    """The paper's figure, with a caption."""
    path = f"{summary['experiment']}/figure.png"
    return f"""![Gradient norm, squared distance from the start, batch size]({path})

*{summary["title"]}. Left: gradient norm against the stochastic gradients computed; smaller is better. Middle: squared
distance from the start. Right: batch size. Lines are means over three seeds, bands one standard deviation. Step sizes:
{_step_sizes(summary["methods"])}.*"""


def _step_sizes(methods: dict[str, Any]) -> str:
    return "; ".join(f"{method} γ = {_g(found['step_size'])}" for method, found in methods.items())


def _experiment(summary: dict[str, Any]) -> str:
    name, config = summary["experiment"], summary["config"]
    travel = summary["travel"]
    far = travel["distance_to_solution"]
    violated = [sentence for method in summary["schedule"].values() for sentence in method["violations"]]
    schedule = markdown_table(
        ["method", "γ", "η", "N_init", "γ0", "travels at most γT"],
        [
            [method, _g(s["gamma"], 4), _g(s["eta"], 4), str(s["n_init"]), _g(s["gamma0"]), _g(travel[method])]
            for method, s in summary["schedule"].items()
        ],
    )
    shown = "The figure is at the top of this page." if name == next(iter(EXPERIMENTS)) else _figure(summary)
    choices = markdown_table(["what", "value", "why"], [[c["what"], c["value"], c["why"]] for c in config["choices"]])
    seeds = ", ".join(map(str, config["seeds"]["paper"]))
    counted = f"The numbers after equally many iterations: mean ± standard deviation over the seeds {seeds}"
    return f"""## {summary["title"]}

{summary["about"]} T = {config["horizon"]:,}, α = {config["alpha"]:.3g}, G = {config["G"]:g}.

{shown}

**Schedules, from the theorems.** The distance from x⁰ to the solution is {_pm(far)}.

{schedule}

{_violations(violated)}

{folded("What we chose, because the paper does not state it", choices)}

{folded("The verdicts, reading by reading", _claims(summary["claims"]))}

{folded(counted, _methods(summary["methods"]))}

### {summary["title"]} at {summary["budget"]["sfo"]:,} stochastic gradients

Here every method may compute {summary["budget"]["sfo"]:,} stochastic gradients, and is scheduled or tuned for that.
Step sizes: {_step_sizes(summary["budget"]["methods"])}.

![The same three panels after equally many stochastic gradients]({name}/budget.png)

{folded("The numbers after equally many stochastic gradients", _methods(summary["budget"]["methods"]))}

### {summary["title"]}: how much the step size matters

Left: the tuned methods on their grids. Right: the normalized methods, with the paper's γ0 multiplied by a factor.

![Gradient norm over the last tenth of the run against the step size]({name}/sensitivity.png)

{folded("The grids and what was picked", _tuning(summary["tuning"]))}
"""


def _violations(sentences: list[str]) -> str:
    if not sentences:
        return "No condition of the theorems is violated."
    return "The paper's γ0 violates conditions of its own theorems:\n\n" + "\n".join(map(_violation, sentences))


def _violation(sentence: str) -> str:
    method, _, rest = sentence.partition(":")
    return f"- {in_words(method)}:{rest}"


def _claims(claims: list[dict[str, Any]]) -> str:
    by_id: dict[str, list[dict[str, Any]]] = {}
    for claim in claims:
        by_id.setdefault(claim["id"], []).append(claim)
    rows, said = [], ""
    for same in by_id.values():
        few, many = same[0], same[-1]
        statement, said = ("" if few["statement"] == said else few["statement"]), few["statement"]
        rows.append([statement, few["reading"], _finding(few), _finding(many)])
    table = markdown_table(["the paper says", "read as", "on three seeds, as in the paper", "on all seeds"], rows)
    return f"{table}\n\n{_beside_the_verdicts([same[-1] for same in by_id.values()])}"


def _beside_the_verdicts(claims: list[dict[str, Any]]) -> str:
    """What a verdict alone would hide: means beside sign tests, and a number that was chosen for a claim."""
    compared = [
        f"- {claim['reading']}: {claim['detail'].partition(' The estimate is')[0]}"
        for claim in claims
        if claim["id"].startswith("nstorm-below-nsgdm-")
    ]
    lines = ["Whether NSTORM is lower is decided by the share of seeds on which it is lower. The means need not agree:"]
    return "\n".join(
        [
            *lines,
            "",
            *compared,
            "",
            "The paper does not state B. We chose B such that the sentences on batch sizes can hold. That they hold",
            "shows that there is such a B. It does not show that the paper's experiment had these batches.",
        ]
    )


def _finding(claim: dict[str, Any]) -> str:
    return f"{_verdict(claim)}, {_estimate(claim)}"


def _verdict(claim: dict[str, Any]) -> str:
    """Its first words in bold, without what stands in brackets."""
    verdict, bracket, details = claim["verdict"].partition(" (")
    return f"**{verdict}**{bracket}{details}"


def _estimate(claim: dict[str, Any]) -> str:
    estimate = "no estimate" if claim["estimate"] is None else _g(claim["estimate"])
    interval = "" if claim["ci"] is None else f" ({_g(claim['ci'][0])} to {_g(claim['ci'][1])})"
    return f"{estimate}{interval}, {claim['seeds']} seeds"


def _methods(methods: dict[str, Any]) -> str:
    norms = ("‖∇f‖, last iterate", "‖∇f‖, last tenth", "‖∇f‖, all iterates")
    head = ["method", "γ", "stochastic gradients", *norms, "‖x−x⁰‖² at the end", "largest batch"]
    rows = [
        [
            method,
            _g(m["step_size"], 4),
            f"{m['sfo_total']:,.0f}",
            *(_pm(m[key]) for key in ("final_grad_norm", "last10_grad_norm", "mean_grad_norm", "drift2_final")),
            f"{m['max_batch']:,}",
        ]
        for method, m in methods.items()
    ]
    return markdown_table(head, rows)


def _tuning(tuning: dict[str, Any]) -> str:
    rows = [
        [
            method,
            f"{_g(found['grid'][0]['step_size'])} to {_g(found['grid'][-1]['step_size'])}",
            ", ".join(_g(each) for each in found["extended"]) or "no",
            _g(found["best"]),
            _g(found["best_at_budget"]),
        ]
        for method, found in tuning.items()
    ]
    return markdown_table(["method", "grid of γ", "extended by", "picked", "picked for equally many gradients"], rows)


def _g(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}g}"


def _pm(value: dict[str, Any]) -> str:
    return "not finite" if value["mean"] is None else f"{_g(value['mean'])} ± {value['std']:.2g}"


def load(folder: Path) -> dict[str, dict[str, Any]]:
    """The summaries by experiment."""
    paths = {name: folder / name / "summary.json" for name in EXPERIMENTS}
    found = {name: json.loads(path.read_text("utf-8")) for name, path in paths.items() if path.exists()}
    if not found:
        raise ValueError(f"reproduction: the folder must hold NAME/summary.json of an experiment; got {str(folder)!r}.")
    return found


def draw(folder: Path) -> None:
    """All figures and the report where the curves are; of what is published, which has none, the sensitivity."""
    if drawn := experiments_in(folder):
        require_own_report("reproduction", folder)
        with Publication(folder) as publication:
            for experiment in drawn:
                publication.add(experiment)
        return
    for name, summary in load(folder).items():
        figures.save(reproduction_figures.sensitivity(summary, {}), folder / name / "sensitivity.png")
