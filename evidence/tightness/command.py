"""`python -m evidence tightness`."""

from evidence.study import Out, Quick, kept_in
from gladstorm.cli.app import Scheduler, StoreFolder, Workers
from gladstorm.cli.job import computing

WORK = ("measuring.tightness",)


def command(
    out: Out, quick: Quick = False, store: StoreFolder = None, workers: Workers = None, scheduler: Scheduler = None
) -> None:
    """Search for the worst problem of all eighteen regimes, at three horizons each: how tight is every bound?

    It takes about two minutes of one core.

    Example: python -m evidence tightness --out docs/evidence/tightness
    """
    from evidence.tightness.measuring import TABLE_FORMAT, tightness
    from gladstorm.core.results import to_json
    from gladstorm.jobs.files import save_json

    parts = kept_in("tightness", out, store, "store", files=["tightness.json"])
    with computing(parts, workers, scheduler) as executor:
        result = tightness(quick=quick, store=parts, executor=executor)
    save_json(out / "tightness.json", TABLE_FORMAT, to_json(result))
