"""`gladstorm reproduce` and `gladstorm plot`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gladstorm.cli.app import AsJson, CommandWithProgress, Scheduler, Workers, app
from gladstorm.cli.job import computing, keep_in
from gladstorm.cli.output import plus_minus, show, show_json
from gladstorm.cli.places import require_folder, require_matplotlib
from gladstorm.foundation import interrupts


@app.command(cls=CommandWithProgress, short_help="Repeat the paper's experiments and judge its claims.")
def reproduce(
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Which of phase-retrieval, cubic; both if none is named.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results; a second run with it resumes.")] = Path("out"),
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
    quick: Annotated[
        bool, typer.Option(help="Small problems and few seeds, in seconds: a trial of the program, no evidence.")
    ] = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Repeat the paper's experiments: tuned baselines, figures, a verdict on every claim, one report.html.

    If it is killed at any moment, the same command resumes where it was.

    Examples: gladstorm reproduce --out out; gladstorm reproduce cubic --B 1 --seeds 30 --out cubic-b1
    """
    keep_in(out / "cache")
    from dataclasses import replace

    from gladstorm.pages.publication import Publication, require_own_report
    from gladstorm.studies.reproduction import QUICK, ReproductionSettings, choose
    from gladstorm.studies.reproduction import reproduce as run

    asked = choose(experiments or [])
    given: dict[str, Any] = {"B": B, "sigma2": sigma2, "seeds": seeds, "steps": steps, "grid": _numbers(grid)}
    settings = replace(QUICK if quick else ReproductionSettings(), **{k: v for k, v in given.items() if v is not None})
    settings.check()
    names = [experiment.name for experiment in asked]
    folders = [*names, *(f"cache/{name}" for name in names)]
    require_folder("reproduce", "--out", out, folders=folders, files=["report.html"])
    require_own_report("reproduce", out)
    require_matplotlib("reproduce")
    with computing(out / "cache", workers, scheduler) as executor, Publication(out) as publication:
        for experiment in asked:
            (out / experiment.name).mkdir(parents=True, exist_ok=True)
            results = run(experiment, settings, out / "cache" / experiment.name, executor)
            results.save(out / experiment.name / "results.parquet")
            publication.add(experiment)
    _tell(publication.summaries, out, as_json)


@app.command(cls=CommandWithProgress, short_help="Draw the figures of a reproduction again.")
def plot(
    folder: Annotated[Path, typer.Argument(help="A folder that `gladstorm reproduce` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Draw the figures and the report again from saved results, without new simulations.

    Example: gladstorm plot out
    """
    interrupts.keeping(f"the results in {folder} are as they were; the same command draws again")
    from gladstorm.pages.publication import Publication, experiments_in, require_own_report

    require_matplotlib("plot")
    experiments = experiments_in(folder)
    if not experiments:
        raise ValueError(f"plot: the folder must hold NAME/results.parquet of an experiment; got {str(folder)!r}.")
    require_own_report("plot", folder)
    with Publication(folder) as publication:
        for experiment in experiments:
            publication.add(experiment)
    _tell(publication.summaries, folder, as_json)


def _numbers(text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"reproduce: --grid must be numbers separated by commas; got {text!r}.") from None


def _tell(summaries: dict[str, dict[str, Any]], out: Path, as_json: bool) -> None:
    if as_json:
        show_json(summaries)
        return
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
    typer.echo(f"Figures, summaries and report.html are in {out}.")
