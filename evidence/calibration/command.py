"""`python -m evidence calibration`."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from evidence.study import Out, Quick

WORK = ("coverage.measure", "networks.measure", "watching.measure", "followed.measure", "growth.measure")


def command(
    out: Out,
    part: Annotated[
        list[str] | None, typer.Argument(help="Which of coverage, watching, networks, growth, followed; all if none.")
    ] = None,
    quick: Quick = False,
) -> None:
    """Measure how often the intervals of `diagnose` hold the truth, diagnose networks, and follow its advice.

    It takes about fifteen minutes.

    Example: python -m evidence calibration coverage --out docs/evidence/calibration
    """
    import json

    from evidence.calibration import coverage, followed, growth, networks, watching
    from gladstorm.jobs.files import write_text

    studies: dict[str, tuple[str, Callable[..., Any]]] = {
        "coverage": ("calibration.json", coverage.measure),
        "watching": ("watching.json", watching.measure),
        "networks": ("networks.json", networks.measure),
        "growth": ("growth.json", growth.measure),
        "followed": ("followed.json", followed.measure),
    }
    for name in part or studies:
        if name not in studies:
            raise ValueError(f"calibration: parts are {', '.join(studies)}; got {name!r}.")
        file, measure = studies[name]
        write_text(out / file, json.dumps(measure(quick=quick), indent=None if name == "networks" else 1) + "\n")
