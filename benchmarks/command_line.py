"""How long the command line takes to answer when it needs nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from benchmarks.measuring import Row, as_installed, rounds, seconds, slower

PLAN = "plan nsgdm --alpha 0 --L0 1 --B 0.5 --G 1 --gap 1 --horizon 100 --json"


def rows() -> list[Row]:
    def process(*arguments: str) -> Callable[[], float]:
        command = [sys.executable, *arguments]
        return lambda: seconds(lambda: subprocess.run(command, check=True, capture_output=True, env=as_installed()))

    imported, library, helped, planned = rounds(
        process("-c", "import typer"),
        process("-c", "import gladstorm"),
        process("-m", "gladstorm", "--help"),
        process("-m", "gladstorm", *PLAN.split()),
    )
    return [
        slower("python -c 'import gladstorm' vs python -c 'import typer'", library, imported, 1.1),
        slower("gladstorm --help vs python -c 'import typer'", helped, imported, 1.3),
        slower("gladstorm plan vs python -c 'import typer'", planned, imported, 3),
    ]
