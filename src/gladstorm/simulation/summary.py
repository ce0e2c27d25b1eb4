"""What a record amounts to: the numbers people ask for first, as data, as a table, and beside a theorem's bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gladstorm.core.screen import LINE, LINES, cut_to
from gladstorm.core.statistics import mean_of, over_seeds

if TYPE_CHECKING:
    from gladstorm.simulation.record import Record
    from gladstorm.theory import Plan

SUMMARIZED = {"mean_grad_norm": "mean_grad_norm", "final_grad_norm": "grad_norm"}
SUMMARIZED |= {name: name for name in ("best_grad_norm", "reported_grad_norm", "reported_value", "drift2")}
ENDS = {"grad_norm": "‖{}‖ at the end", "mean_grad_norm": "mean ‖{}‖", "best_grad_norm": "best ‖{}‖"}


def summary(record: Record) -> dict[str, dict[str, Any]]:
    """Per label what the paper talks about, JSON-ready: over seeds the mean, the standard deviation and every value.

    Numbers that are not finite become None, and so does a mean over seeds of which one diverged.
    """
    answer: dict[str, dict[str, Any]] = {}
    for row, label in enumerate(record.labels):
        sfo, diverged = record.sfo[row, :, -1], record.diverged[row]
        answer[label] = {name: over_seeds(getattr(record, curve)[row, :, -1]) for name, curve in SUMMARIZED.items()}
        answer[label] |= {
            "sfo": int(sfo[0]) if np.all(sfo == sfo[0]) else float(sfo.mean()),
            "max_batch": int(record.max_batch[row].max()),
            "diverged": int(np.sum(diverged >= 0)),
            "diverged_at": [int(step) if step >= 0 else None for step in diverged],
        }
    return answer


def as_text(record: Record) -> str:
    """The title and the table, cut to the lines and the width of a screen."""
    rows, more = table(record)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    return "\n".join([title(record), *(cut_to(line, LINE) for line in lines), *more])


def title(record: Record) -> str:
    """How many runs and steps there are."""
    counts = {"configuration": len(record), "seed": record.seeds.size}
    runs = " × ".join(f"{number:,} {noun}" + "s" * (number != 1) for noun, number in counts.items())
    return f"Record: {runs}, {record.steps.size:,} of steps 0..{record.steps[-1]:,} recorded, means over seeds"


def table(record: Record) -> tuple[list[list[str]], list[str]]:
    """Headings and rows, and a line about what is left out."""
    most = LINES - 4
    rows = [["", "stochastic gradients", *(words.format(record.field) for words in ENDS.values()), "diverged"]]
    with np.errstate(invalid="ignore", over="ignore"):
        for row, label in enumerate(record.labels[:most]):
            ends = [f"{getattr(record, name)[row, :, -1].mean():.4g}" for name in ENDS]
            diverged = str(int((record.diverged[row] >= 0).sum()))
            rows.append([cut_to(label, 40), f"{record.sfo[row, :, -1].mean():,.6g}", *ends, diverged])
    return rows, [f"… and {len(record) - most:,} more: record[name] selects"] if len(record) > most else []


class Against(NamedTuple):
    """What was measured beside what a theorem guarantees."""

    measured: float  #: E‖∇f(x̂)‖, the mean over iterates and seeds
    low: float  #: the lower end of its 95 % interval over seeds; NaN with one seed
    high: float  #: the upper end; NaN with one seed
    bound: float  #: the theorem's bound on it
    ratio: float  #: measured / bound


def against(record: Record, plan: Plan) -> Against:
    """E‖∇f(x̂)‖ of one configuration beside the bound of the plan that was run."""
    if len(record) != 1:
        raise ValueError(
            f"Record.against: must be asked of one configuration, as record[label] selects; got {len(record)}."
        )
    if record.steps[-1] != plan.horizon - 1:
        raise ValueError(
            f"Record.against: plan must be for the record's {record.steps[-1] + 1:,} iterates; got a horizon of "
            f"{plan.horizon:,}."
        )
    norms, bound = record.mean_grad_norm[0, :, -1], plan.statement.bound(plan.horizon)
    low, high = mean_of(norms).interval() if norms.size > 1 else (np.nan, np.nan)
    return Against(float(norms.mean()), low, high, bound, float(norms.mean()) / bound)
