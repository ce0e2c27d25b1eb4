"""`python -m evidence optimality`."""

from typing import Annotated

import typer

from evidence.study import Out, Quick, kept_in
from gladstorm.cli.app import Scheduler, StoreFolder, Workers
from gladstorm.cli.job import computing

WORK = ("measuring.optimality",)


def command(
    out: Out,
    quick: Quick = False,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Also run five methods on the hard problem, in hours.")
    ] = False,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Compare the best schedule with the printed one, and methods with what every method needs.

    Without --simulate it takes about ten minutes of one core.

    Example: python -m evidence optimality --out docs/evidence/optimality
    """
    from evidence.optimality.measuring import FORMAT, optimality
    from gladstorm.jobs.files import save_json

    parts = kept_in("optimality", out, store, "store", files=["optimality.json"])
    with computing(parts, workers, scheduler) as executor:
        result = optimality(quick=quick, simulate=simulate or quick, store=parts, executor=executor)
    save_json(out / "optimality.json", FORMAT, result)
