"""Print the table: every row compares things run in turn, several times. `python -m benchmarks NAME` prints a part."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from benchmarks import (
    command_line,
    comparison,
    first_result,
    fits,
    long_jobs,
    main_job,
    noise_probe,
    pages,
    simulator,
    torch_steps,
)
from benchmarks.measuring import Row, expected
from gladstorm import devices

SECTIONS = {
    "w": simulator.workload_w,
    "cubic": simulator.cubic,
    "batches": simulator.batches_and_methods,
    "scaling": simulator.scaling,
    "memory": simulator.memory,
    "compare": comparison.rows,
    "jobs": long_jobs.rows,
    "reproduce": main_job.rows,
    "torch": torch_steps.rows,
    "fits": fits.rows,
    "noise-probe": noise_probe.rows,
    "command-line": command_line.rows,
    "first-result": first_result.rows,
    "page": pages.rows,
}


def main() -> None:
    if sys.argv[1:2] == ["peak-memory"]:  # a part of `memory`, in a process of its own
        devices.tune()
        simulator.peak_of_one_sweep(int(sys.argv[2]))
        return
    chosen = sections(sys.argv[1:])
    devices.tune()
    title = f"make bench, {expected().kind}: float64; a ratio is the median over rounds"
    table = Table(title=title, title_justify="left")
    for heading in ("measured", "figure", "goal", "holds", "of"):
        table.add_column(heading)
    rows: list[Row] = []
    for name in chosen:
        print(f"{name} …", file=sys.stderr)
        rows += SECTIONS[name]()
    for row in rows:
        table.add_row(row.what, row.figure, row.goal, "" if not row.goal else "yes" if row.holds else "NO", row.of)
    console = Console()
    console.width = max(console.width, 130)
    console.print(table)
    sys.exit(0 if all(row.holds for row in rows) else 1)


def sections(words: list[str]) -> list[str]:
    """The sections that are asked for, all where none is; exit with a list of them on any other word."""
    known = f"one of {', '.join(SECTIONS)}; all if none is named"
    asked = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    asked.add_argument("sections", nargs="*", metavar="SECTION", help=known)
    names: list[str] = asked.parse_args(words).sections
    for name in names:
        if name not in SECTIONS:
            asked.error(f"SECTION must be {known}; got {name!r}.")
    return names or list(SECTIONS)


if __name__ == "__main__":  # a cluster's workers import this file
    main()
