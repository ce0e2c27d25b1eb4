"""`python -m evidence verification`."""

from typing import Annotated

import typer

from evidence.study import Out, Seed, kept_in
from gladstorm.cli.app import Scheduler, StoreFolder, Workers
from gladstorm.cli.job import computing

WORK = ("verify", "broken.find_all")


def command(
    out: Out,
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="--full: horizons up to 10⁵ and all studies of the page, in minutes. --quick: horizons up to "
            "10⁴, in under two minutes.",
        ),
    ] = False,
    regime: Annotated[
        list[str] | None,
        typer.Option(help="Check only regimes whose name contains this, e.g. nstorm/smooth; repeatable."),
    ] = None,
    broken: Annotated[
        bool, typer.Option("--broken", help="Only see which broken methods are found; needs a report in --out.")
    ] = False,
    seed: Seed = 0,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Check every theorem by simulation: bounds, rates, step sizes, estimator errors, the oracle.

    A regime is written method/smoothness/noise: nsgdm or nstorm; smooth, sublinear or linear; bg0, bounded or
    deterministic. All intervals are valid at the same time, with 99 % confidence. The exit code is 1 if a check fails.
    The same seed gives the same bytes on the same machine.

    Examples: python -m evidence verification; python -m evidence verification --regime nstorm/smooth --json
    """
    import json
    from dataclasses import replace

    from evidence.verification import FULL, QUICK, verify
    from evidence.verification import broken as mistakes
    from evidence.verification.page import load
    from gladstorm.core.rules import SEED
    from gladstorm.jobs.files import write_text

    SEED.require("verification", "seed", seed)
    parts_folder = kept_in("verification", out, store, "parts", files=["verify.json"])
    with computing(parts_folder, workers, scheduler) as executor:
        if broken:
            rows = mistakes.find_all(load(out)["confidence"]["random_numbers"])
            write_text(out / "broken.json", json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
            return
        report = verify(replace(FULL if full else QUICK, seed=seed), tuple(regime or ()), parts_folder, executor)
    report.save(out / "verify.json")
    if not report.holds:
        raise typer.Exit(1)
