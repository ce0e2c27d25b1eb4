"""`python -m evidence suite`."""

from evidence.study import Out, Quick, kept_in
from gladstorm.cli.app import Scheduler, StoreFolder, Workers
from gladstorm.cli.job import computing

WORK = ()  # the library's


def command(
    out: Out,
    quick: Quick = False,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Run the baselines of `gladstorm suite` on all its problems, as published.

    Example: python -m evidence suite --out docs/evidence/suite
    """
    from gladstorm import suite
    from gladstorm.suite.running import entries

    folder = kept_in("suite", out, store, "store", files=["suite.json"])
    with computing(folder, workers, scheduler) as executor:
        settings = suite.QUICK if quick else suite.FULL
        result = suite.run(entries(suite.BASELINES, []), settings, store=folder, executor=executor)
    result.save(out / "suite.json")
