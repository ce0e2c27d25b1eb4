"""`gladstorm suite`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gladstorm.cli.app import AsJson, CommandWithProgress, Scheduler, StoreFolder, Workers, app
from gladstorm.cli.job import computing, write_study
from gladstorm.cli.output import show, show_json
from gladstorm.cli.places import require_folder, require_matplotlib

FILES = ("suite.json", "answers.png", "profiles.png", "problems.png")


@app.command(cls=CommandWithProgress)
def suite(
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A method beside the baselines, as in `compare`; {size} stands for the size of a stochastic gradient "
            "at x⁰, {size/10} for a tenth of it. Tuned if γ is left out, else run as it is; repeatable."
        ),
    ] = None,
    problem: Annotated[list[str] | None, typer.Option(help="Only this problem; repeatable.")] = None,
    role: Annotated[str | None, typer.Option(help="Only development or held-out problems.")] = None,
    budget: Annotated[
        list[int] | None, typer.Option(help="Stochastic gradients; repeatable. [default: 1000 and 10000]")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Reported runs per row. [default: 20]")] = None,
    tuning_seeds: Annotated[int | None, typer.Option(help="Runs per row and setting. [default: 5]")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two problems, small budgets, few seeds: every path, no evidence.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for suite.json and figures; a second run there resumes.")] = Path(
        "suite"
    ),
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Run methods on twelve problems: what users use, each with a constant step size and with a linear decay.

    Every tuned row has the same number of step sizes, chosen on some seeds and reported on others, each from a random
    start. Tables per problem, performance profiles and the budget to reach a target over all of them.

    Example: gladstorm suite --out suite

    Example: gladstorm suite --role development --method "nigt(eta=0.1)" --out mine
    """
    from dataclasses import replace

    from gladstorm.studies import suite as study
    from gladstorm.studies.suite.entries import entries

    rows = entries(study.BASELINES, method or [])
    settings = study.QUICK if quick else study.FULL
    given: dict[str, Any] = {"budgets": budget and tuple(budget), "seeds": seeds, "tuning_seeds": tuning_seeds}
    given["problems"] = study.choose(problem, role) if problem or role else None
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
    settings.check()
    require_folder("suite", "--out", out, folders=["store"], files=FILES)
    require_folder("suite", "--store", store, folders=[], files=[])
    require_matplotlib("suite")
    kept = store or out / "store"
    with computing(kept, workers, scheduler) as executor:
        result = study.run(rows, settings, store=kept, executor=executor)
    from gladstorm.pages import suite_figures

    figures = {"profiles.png": suite_figures.profiles, "problems.png": suite_figures.problems}
    if result["answers"]:
        figures["answers.png"] = suite_figures.answers
    write_study(out, "suite.json", study.FORMAT, result, figures)
    if as_json:
        show_json(result)
        return
    _tell(result)
    typer.echo(f"suite.json and the figures are in {out}.")


def _tell(result: dict[str, Any]) -> None:
    from rich.table import Table

    from gladstorm.pages import suite_tables as tables

    for case in result["cases"]:
        headings, cells = tables.of_case(result, case)
        table = Table(title=tables.title(result, case), title_justify="left")
        for number, heading in enumerate(headings):
            table.add_column(heading, justify="left" if number < 2 else "right")
        for row in cells:
            table.add_row(*row)
        show(table)
    headings, cells = tables.over_cases(result)
    table = Table(*headings, title="Over all cases", title_justify="left")
    for row in cells:
        table.add_row(*row)
    show(table)
    typer.echo(" ".join(tables.LEGEND.split()))
    for answer in result["answers"]:
        typer.echo(f"{answer['deed'].capitalize()}? {tables.sentence(answer)}")
