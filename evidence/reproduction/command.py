"""`python -m evidence reproduction`."""

from typing import Annotated, Any

import typer

from evidence.study import Out, Quick, kept_in
from gladstorm.cli.app import AsJson, Scheduler, StoreFolder, Workers
from gladstorm.cli.job import computing
from gladstorm.cli.output import plus_minus, show
from gladstorm.cli.places import require_folder


def command(
    out: Out,
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Which of phase-retrieval, cubic; both if none is named.")
    ] = None,
    B: Annotated[
        float | None, typer.Option("--B", help="Growth of the noise: its variance is B²‖x−x⁰‖² + G². [default: 0.5]")
    ] = None,
    sigma2: Annotated[float | None, typer.Option(help="Variance σ² that dynamic batches have. [default: G²]")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds behind the verdicts; figures show three. [default: 100]")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="K, the number of steps; the paper's T is K + 1. [default: 10000]")
    ] = None,
    grid: Annotated[
        str | None, typer.Option(help="Step sizes to try for the tuned methods, e.g. 1e-3,1e-2,1e-1.")
    ] = None,
    quick: Quick = False,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> bool:
    """Repeat the paper's experiments: tuned baselines, figures, a verdict on every claim, one report.html.

    If it is killed at any moment, the same command resumes where it was.

    Examples: python -m evidence reproduction --out out; python -m evidence reproduction cubic --B 1 --seeds 30
    """
    from dataclasses import replace

    from evidence.reproduction import QUICK, ReproductionSettings, choose, reproduce
    from evidence.reproduction.publication import Publication, require_own_report

    asked = choose(experiments or [])
    given: dict[str, Any] = {"B": B, "sigma2": sigma2, "seeds": seeds, "steps": steps, "grid": _numbers(grid)}
    settings = replace(QUICK if quick else ReproductionSettings(), **{k: v for k, v in given.items() if v is not None})
    settings.check()
    kept = kept_in("reproduction", out, store, "cache", files=["report.html"])
    names = [experiment.name for experiment in asked]
    require_folder("reproduction", "--out", out, folders=[*names, *(f"cache/{name}" for name in names)], files=[])
    require_own_report("reproduction", out)
    with computing(kept, workers, scheduler) as executor, Publication(out) as publication:
        for experiment in asked:
            (out / experiment.name).mkdir(parents=True, exist_ok=True)
            results = reproduce(experiment, settings, kept / experiment.name, executor)
            results.save(out / experiment.name / "results.parquet")
            publication.add(experiment)
    if not as_json:
        _show_verdicts(publication.summaries)
    return True


def _numbers(text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"reproduction: --grid must be numbers separated by commas; got {text!r}.") from None


def _show_verdicts(summaries: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table

    for summary in summaries.values():
        travel, config = summary["travel"], summary["config"]
        far = travel["distance_to_solution"]
        table = Table(
            title=f"{summary['title']}: B = {config['B']:g}, σ² = {config['sigma2']:g}, T = {config['horizon']:,}",
            caption=f"A normalized run travels at most γT: NSGDM {travel['NSGDM']:.3g}, NSTORM {travel['NSTORM']:.3g}; "
            f"the solution is {plus_minus(far, 3)} away.",
            title_justify="left",
            caption_justify="left",
        )
        for heading in ("claim, as read", "seeds", "estimate", "95 % interval", "verdict"):
            table.add_column(heading)
        for claim in summary["claims"]:
            estimate = "" if claim["estimate"] is None else f"{claim['estimate']:.3g}"
            interval = "" if claim["ci"] is None else "{:.3g} to {:.3g}".format(*claim["ci"])
            table.add_row(
                f"{claim['id']}: {claim['reading']}", str(claim["seeds"]), estimate, interval, claim["verdict"]
            )
        show(table)
