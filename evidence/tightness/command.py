"""`python -m evidence tightness`."""

from typing import TYPE_CHECKING

from evidence.study import Out, Quick, kept_in
from gladstorm.cli.app import AsJson, Scheduler, StoreFolder, Workers
from gladstorm.cli.job import computing
from gladstorm.cli.output import Table, show

if TYPE_CHECKING:
    from evidence.tightness.measuring import Tightness

WORK = ("measuring.tightness",)


def command(
    out: Out,
    quick: Quick = False,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
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
    if not as_json:
        _show_table(result)


def _show_table(result: "Tightness") -> None:
    rows = []
    for row in result.rows:
        last = row.longest
        sharper = "" if last.ratio_to_sharper is None else f"{last.ratio_to_sharper:.3f}"
        shares = (f"{100 * (last.gap_share or 0):.1f} %", f"{last.ratio:.3f}", sharper)
        rows.append([row.regime, row.leading, *shares, f"{row.slope.value:.3f}", f"{row.slope_of_bound:.3f}"])
    headings = ("regime", "leading", "Δ/(γT)", "bound", "sharper", "slope", "of the bound")
    show(Table(f"Worst found / bound at T = {result.horizons[-1]:,}", headings, rows, words=2))
