"""The page of the reproduction, from the summaries of its experiments."""

from pathlib import Path
from typing import Any

from evidence.page import read_some, rendered
from evidence.reproduction import EXPERIMENTS
from evidence.reproduction import figures as reproduction_figures
from evidence.reproduction.publication import experiments_in, publish, require_own_report
from evidence.reproduction.report import by_claim, sentences
from gladstorm.plotting import figures
from gladstorm.plotting.styles import in_words

# What the estimate of a claim is, by the claim's id.
MEASURED = {
    "nstorm-below-nsgdm": "share of seeds on which NSTORM's last iterate is lower",
    "dynamic-batches-grow-to-1000": "largest batch",
    "dynamic-batches-grow-tenfold": "largest batch divided by the first",
    "drift-stabilises-nsgdm": "growth of NSGDM's ‖x−x⁰‖² over the last tenth of the run, as a share",
    "single-sample-sgd-drifts": "variation of ‖x−x⁰‖² over the second half of the run, relative to its mean",
    "normalized-methods-keep-batch-one": "largest batch after the first estimate",
}


def render(results: dict[str, dict[str, Any]]) -> str:
    """Return the page, in Markdown."""
    summaries = list(results.values())
    verdicts = [claim["verdict"] for summary in summaries for claim in sentences(summary["claims"])]
    values = {
        "summaries": summaries,
        "by_claim": by_claim,
        "verdicts": verdicts,
        "hold": verdicts.count("holds"),
        "fail": verdicts.count("does not hold"),
        "depend": sum(verdict.startswith("depends") for verdict in verdicts),
    }
    return rendered(__file__, globals() | values)


def verdict(claim: dict[str, Any]) -> str:
    """Return a claim's verdict, its first words in bold, without what stands in brackets."""
    words, bracket, details = claim["verdict"].partition(" (")
    return f"**{words}**{bracket}{details}"


def estimate(claim: dict[str, Any]) -> str:
    """The estimate with its interval, and of how many seeds it is."""
    number = "no estimate" if claim["estimate"] is None else f"{claim['estimate']:.3g}"
    interval = "" if claim["ci"] is None else " ({:.3g} to {:.3g})".format(*claim["ci"])
    return f"{number}{interval}, {claim['seeds']} seeds"


def spread(value: dict[str, Any]) -> str:
    """A mean and its standard deviation."""
    return "not finite" if value["mean"] is None else f"{value['mean']:.3g} ± {value['std']:.2g}"


def violations(summary: dict[str, Any]) -> list[str]:
    """Return the conditions of the theorems that the schedules violate, each with its method."""
    violated = [sentence.partition(":") for method in summary["schedule"].values() for sentence in method["violations"]]
    return [f"{in_words(method)}:{rest}" for method, _, rest in violated]


def load(folder: Path) -> dict[str, dict[str, Any]]:
    """The summaries by experiment."""
    return read_some("reproduction", folder, {name: f"{name}/summary.json" for name in EXPERIMENTS})


def draw(folder: Path) -> None:
    """Draw all figures and the report where the runs are; of what is published, which has none, the sensitivity."""
    if experiments_in(folder):
        require_own_report("reproduction", folder)
        publish(folder)
        return
    for name, summary in load(folder).items():
        figures.save(reproduction_figures.sensitivity(summary, {}), folder / name / "sensitivity.png")
