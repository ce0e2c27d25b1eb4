"""`python -m evidence calibration`."""

from typing import Annotated

import typer

from evidence.study import Out, Quick

WORK = ("coverage.measure", "networks.measure")


def command(
    out: Out,
    part: Annotated[
        list[str] | None, typer.Argument(help="Which of coverage, networks; both if none is named.")
    ] = None,
    quick: Quick = False,
) -> None:
    """Measure how often the intervals of `diagnose` hold the truth, and diagnose three networks along Adam and SGD.

    It takes about five minutes.

    Example: python -m evidence calibration coverage --out docs/evidence/calibration
    """
    import json

    from evidence.calibration import coverage, networks
    from gladstorm.jobs.files import write_text

    known = {"coverage": ("calibration.json", coverage.measure), "networks": ("networks.json", networks.measure)}
    for name in part or known:
        if name not in known:
            raise ValueError(f"calibration: parts are {', '.join(known)}; got {name!r}.")
        file, measure = known[name]
        write_text(out / file, json.dumps(measure(quick=quick), indent=1 if name == "coverage" else None) + "\n")
