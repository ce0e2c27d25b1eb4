"""`python -m evidence posteriors`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from evidence.study import Out, Quick, Seed, kept_in
from gladstorm.cli.app import StoreFolder
from gladstorm.cli.job import computing

WORK = ("judging.Study.run",)


def command(
    out: Out,
    posteriordb: Annotated[Path | None, typer.Option(help="A clone of the repository stan-dev/posteriordb.")] = None,
    quick: Quick = False,
    third: Annotated[
        bool, typer.Option("--third", help="Run the third validation alone; the rest of results.json stays.")
    ] = False,
    model: Annotated[list[str] | None, typer.Option(help="Run only this model; repeatable.")] = None,
    seed: Seed = 0,
    store: StoreFolder = None,
) -> None:
    """Compare `gladstorm.numpyro.fit` with tuned and untuned rivals on posteriors of posteriordb.

    Data and reference draws come from a clone that --posteriordb names; --quick takes two small models instead. All of
    it takes about half an hour of one core, and what is finished is kept.

    Example: python -m evidence posteriors --quick
    """
    folder = kept_in("posteriors", out, store, "store", files=["results.json"])
    from evidence.posteriors import judging
    from evidence.posteriors.problems import require_database
    from evidence.posteriors.results import PosteriorResults
    from evidence.results import load, save

    judging.require_known(model or ())
    database = None if quick else require_database(posteriordb)

    def chosen(size: judging.PosteriorsSize) -> judging.PosteriorsSize:
        if quick or not model:
            return size

        def some(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in names if name in model)

        return replace(size, models=some(size.models), timed=some(size.timed), leapt=some(size.leapt))

    with computing(folder, None, None) as executor:
        if third:
            if not (out / "results.json").exists():
                raise ValueError(f"posteriors: --third must have the results of the others; got none in {str(out)!r}.")
            before = load(PosteriorResults, out / "results.json")
            size = judging.QUICK_THIRD if quick else judging.THIRD
            alone = judging.Study(database, chosen(size), folder, seed, executor).third()
            save(out / "results.json", replace(before, third=alone))
            return
        first, again, last = (
            judging.Study(database, chosen(size), folder, seed, executor)
            for size in (judging.QUICK if quick else judging.FULL, judging.AGAIN, judging.THIRD)
        )
        results = first.run()
        if not quick:
            results = replace(results, second=again.second(), bias=first.bias(), third=last.third())
    save(out / "results.json", results)
