"""`gladstorm suite`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, echo

from gladstorm.cli.app import AsJson, CommandWithProgress, Scheduler, StoreFolder, Workers, app
from gladstorm.cli.job import computing, require_folder, require_matplotlib, require_store, saving_study
from gladstorm.cli.output import Table, say, show, show_json

if TYPE_CHECKING:
    from gladstorm.suite import SuiteResult

OUT, FILES = Path("suite"), ("suite.json", "answers.png", "profiles.png")


@app.command(cls=CommandWithProgress, short_help="Run common methods, and yours, on a suite of problems.")
def suite(
    method: Annotated[
        list[str] | None,
        Option(
            help="A method to run beside the baselines, written as in `compare`; gradient_size stands for the size of "
            "a stochastic gradient at x⁰, gradient_size(0.1) for a tenth of it. If γ is left out, it is tuned. "
            "Repeatable."
        ),
    ] = None,
    problem: Annotated[list[str] | None, Option(help="Run only this problem; repeatable.")] = None,
    role: Annotated[str | None, Option(help="Run only the problems of one kind: development or held-out.")] = None,
    budget: Annotated[
        list[int] | None, Option(help="Number of stochastic gradients per run; repeatable. [default: 1000 and 10000]")
    ] = None,
    seeds: Annotated[int | None, Option(help="Runs per row that are reported. [default: 20]")] = None,
    tuning_seeds: Annotated[
        int | None, Option(help="Runs per row and setting that choose the setting. [default: 5]")
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Two problems, small budgets, few seeds: a trial of the program, no evidence.")
    ] = False,
    out: Annotated[Path, Option(help="Folder for suite.json and the figures; a second run with it resumes.")] = OUT,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Run the common methods, and yours, on many problems, with a constant and with a linearly decaying step size.

    Every tuned row tries the same number of step sizes. One is chosen on some seeds and reported on others, and every
    seed has its own random start. The result is a table for each problem and, over all of them, performance profiles
    and the budgets that reach a target.

    Example: gladstorm suite --out suite

    Example: gladstorm suite --role development --method "nigt(eta=0.1)" --out mine
    """
    from dataclasses import replace

    from gladstorm import suite as study

    rows = study.entries(study.BASELINES, method or [])
    settings = study.QUICK if quick else study.FULL
    given: dict[str, Any] = {"budgets": budget and tuple(budget), "seeds": seeds, "tuning_seeds": tuning_seeds}
    given["problems"] = study.choose(problem, role) if problem or role is not None else None
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
    settings.check()
    require_folder("suite", "--out", out, folders=["store"], files=FILES)
    require_store("suite", store)
    require_matplotlib("suite")
    folder = store or out / "store"
    with computing(folder, workers, scheduler) as executor:
        result = study.run(rows, settings, store=folder, executor=executor)
    from gladstorm.core.results import to_json
    from gladstorm.suite import figures as suite_figures

    figures = {"profiles.png": suite_figures.profiles}
    if result.answers:
        figures["answers.png"] = suite_figures.answers
    drawn = {name: lambda _, draw=draw: draw(result) for name, draw in figures.items()}
    with saving_study(out, "suite.json", study.SUITE_FORMAT, to_json(result), drawn):
        show_json(to_json(result)) if as_json else _print(result)
    if not as_json:
        echo(f"suite.json and the figures are in {out}.")


def _print(result: "SuiteResult") -> None:
    from gladstorm.suite import tables

    for case in result.cases:
        show(Table(tables.title(result, case), *tables.of_case(result, case), words=2))
    headings, cells = tables.over_cases(result)
    show(Table("Over all cases", headings, cells, words=len(headings)))
    say(" ".join(tables.LEGEND.split()))
    for answer in result.answers:
        say(f"{answer.deed.capitalize()}? {tables.sentence(answer)}")
