"""`python -m evidence comparison`."""

import subprocess
import sys
from typing import Annotated

import typer

from evidence.study import Out, kept_in
from gladstorm.cli.app import Scheduler, StoreFolder, Workers
from gladstorm.cli.job import keep_in

WORK = ("page.command_of",)


def command(
    out: Out,
    problems: Annotated[
        list[str] | None,
        typer.Argument(
            help="Which of phase-retrieval, cubic, dro, batches-phase-retrieval, batches-cubic; all if none is named."
        ),
    ] = None,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Run `gladstorm compare`: twelve methods with 28 settings each on three problems, then batch rules on two of them.

    Example: python -m evidence comparison dro --out docs/evidence/comparison
    """
    from evidence.comparison.page import PROBLEMS, RUNS, command_of
    from gladstorm.jobs.files import write_text

    for name in problems or ():
        if name not in RUNS:
            raise ValueError(f"comparison: problems are {', '.join(RUNS)}; got {name!r}.")
    folder = kept_in("comparison", out, store, "store", files=(f"{name}.json" for name in RUNS))
    keep_in(folder)
    given = {"--workers": workers, "--scheduler": scheduler}
    more = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    for name in problems or RUNS:
        files = ["--json", "--store", str(folder)]
        files += ["--plot", str(out / f"{name}.png")] if name in PROBLEMS else []
        line = [sys.executable, "-m", *command_of(name), *files, *more]
        write_text(out / f"{name}.json", subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout)
