"""The playground of the site's front page: a sweep over noise, step size and momentum, as one page to explore.

`python docs/playground.py FILE.html` writes it; `make docs` does, too.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gladstorm as gs
from gladstorm.cli.problem import command_of
from gladstorm.methods.text import parse_method
from gladstorm.plotting.explore import explore

# How the command line writes them; x has two entries, so that its path can be drawn.
PROBLEMS: dict[str, dict[str, Any]] = {
    "cubic, ‖x‖³": {"objective": "power:3", "dim": 2, "start": 2.0},
    "double well": {"objective": "double-well", "dim": 2, "start": 1.5},
    "least squares": {"objective": "quadratic:1,5", "dim": 2, "start": 3.0},
    "phase retrieval": {"objective": "phase-retrieval(m=60)", "dim": 2, "start": None},
}
GAMMA, ETA = "[0.003,0.01,0.03,0.1,0.3]", "[0.01,0.1,0.5]"
METHODS = (
    f"nsgdm(gamma={GAMMA},eta={ETA})",
    f"nstorm(gamma={GAMMA},eta={ETA})",
    f"sgd(gamma={GAMMA})",
    "untuned",
)
GROWTHS, AT_START = (0.0, 0.1, 0.3, 1.0, 3.0), (0.1, 1.0)
STEPS, SEEDS = 2000, 3
VIEW = {"problem": "least squares", "B": 0.3, "G": 0.1, "gamma": 0.01, "eta": 0.1}  # where the page opens
ABOUT = (
    "The noise of every stochastic gradient has variance B²‖x − x⁰‖² + G²: it grows with the distance from the start. "
    "Move B, and watch the path, the error and the gradient norm. "
    f"{STEPS:,} steps, {SEEDS} seeds; lines are means over seeds."
)


def write(path: Path) -> None:
    """Run the sweep, and write the page."""
    pairs, oracles = [], []
    for (name, text), B, G in itertools.product(PROBLEMS.items(), GROWTHS, AT_START):
        objective = gs.objectives.named(text["objective"], dim=text["dim"], start=text["start"])
        oracles.append(gs.BlumGladyshev(objective, B=B, G=G))
        methods = {method: parse_method(method) for method in METHODS}
        record = gs.sweep(oracles[-1], methods, steps=STEPS, seeds=SEEDS, progress=False)
        pairs.append(({"problem": name, "B": B, "G": G}, record))
    explore(
        pairs,
        path,
        title="Playground: what growing noise does",
        oracle=oracles,
        command=command,
        more={"view": VIEW, "about": ABOUT},
    )


def command(setting: Mapping[str, Any], numbers: Mapping[str, float], method: str) -> dict[str, Any]:
    """The command that runs one setting again."""
    options = PROBLEMS[setting["problem"]] | {"B": setting["B"], "G": setting["G"], "steps": STEPS, "seeds": SEEDS}
    return command_of("simulate", options)(setting, numbers, method)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
