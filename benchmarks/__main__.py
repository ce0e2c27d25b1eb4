"""Print the table: every row compares things run in turn, several times. `python -m benchmarks NAME` prints a part."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from benchmarks import command_line, comparison, main_job, simulator, torch_steps
from benchmarks.measuring import Row
from gladstorm import devices

SECTIONS = {
    "w": simulator.workload_w,
    "cubic": simulator.cubic,
    "batches": simulator.batches_and_methods,
    "scaling": simulator.scaling,
    "memory": simulator.memory,
    "compare": comparison.rows,
    "reproduce": main_job.rows,
    "torch": torch_steps.rows,
    "command-line": command_line.rows,
}


def main() -> None:
    devices.tune()
    if sys.argv[1:2] == ["peak-memory"]:
        simulator.peak_of_one_sweep(int(sys.argv[2]))
        return
    table = Table(title="make bench: float64; a ratio is the median over rounds", title_justify="left")
    for heading in ("measured", "figure", "goal", "holds"):
        table.add_column(heading)
    rows: list[Row] = []
    for name in sys.argv[1:] or SECTIONS:
        print(f"{name} …", file=sys.stderr)
        rows += SECTIONS[name]()
    for row in rows:
        table.add_row(row.what, row.figure, row.goal, "" if not row.goal else "yes" if row.holds else "NO")
    console = Console()
    console.width = max(console.width, 110)
    console.print(table)
    sys.exit(0 if all(row.holds for row in rows) else 1)


main()
