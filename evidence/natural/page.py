"""The page about noise along a run, and its figure, from noise.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from evidence.natural.noise_along_path import NoiseAlongPath
from evidence.natural.views import noise_views
from gladstorm.plotting import figures

PAGE = """# Noise along a run of least squares

Does the noise of a problem grow with the distance from the start x⁰, as the paper's model allows? On least squares with
a stream of samples it is smallest at the solution x*. SGD moves towards the solution, so the noise falls: from
{first:.0f} at the start to {last:.0f} at the end, {far:.1f} away from it, a factor of {factor:.0f}.

![variance of a stochastic gradient along a run, seen from the start and from the solution](noise-along-a-run.png)

*Left: against the distance from the start, the noise falls although the bound allows it to grow. Right: against the
distance from the solution, the bound is nearly attained.*

The constants around x⁰ hold, but they allow for growth that the run does not meet. [Anchors](../../natural.md) explains
what that means for the theorems. `python -m evidence natural --out docs/evidence/natural` makes this page in seconds.
"""


def load(folder: Path) -> dict[str, Any]:
    """The columns of a `NoiseAlongPath`."""
    columns: dict[str, Any] = json.loads((folder / "noise.json").read_text("utf-8"))
    return columns


def draw(folder: Path) -> None:
    """The noise from two points of view."""
    columns = load(folder)
    anchor = columns.pop("anchor")
    path = NoiseAlongPath(**{name: np.array(column) for name, column in columns.items()}, anchor=anchor)
    views = noise_views(path, "SGD on streaming least squares, d = 20")
    figures.save(views, folder / "noise-along-a-run.png")


def render(path: dict[str, Any]) -> str:
    """The page."""
    first, last = path["variance"][0], path["variance"][-1]
    return PAGE.format(first=first, last=last, far=path["from_start"][-1], factor=first / last)
