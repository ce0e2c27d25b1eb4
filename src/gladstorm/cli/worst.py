"""`gladstorm worst`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gladstorm.cli.app import AsJson, CommandWithProgress, Scheduler, StoreFolder, Workers, app
from gladstorm.cli.job import computing, saving_study
from gladstorm.cli.output import show, show_json
from gladstorm.cli.places import require_folder, require_matplotlib, require_store
from gladstorm.cli.problem import require_used

FILES = ("worst.json", "worst.png")


@app.command(cls=CommandWithProgress, short_help="Search for the worst problem that a theorem covers.")
def worst(
    method: Annotated[str | None, typer.Argument(help="nsgdm or nstorm.")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="α in [0, 1]: curvature grows like ‖∇f‖^α; with 0 it does not grow.")
    ] = None,
    B: Annotated[
        float | None, typer.Option("--B", help="Growth of the noise: its variance is at most B²‖x−x⁰‖² + G².")
    ] = None,
    G: Annotated[float | None, typer.Option("--G", help="Standard deviation of the noise at the start x⁰.")] = None,
    gap: Annotated[float | None, typer.Option(help="Δ, an upper bound on f(x⁰) − inf f.")] = None,
    L0: Annotated[
        float | None, typer.Option("--L0", help="Smoothness constant of f (nsgdm) or of its oracle (nstorm).")
    ] = None,
    L1: Annotated[
        float | None, typer.Option("--L1", help="How fast curvature grows with the gradient, for alpha > 0.")
    ] = None,
    L: Annotated[
        float | None,
        typer.Option("--L", help="Mean-square smoothness constant of the oracle, for nstorm with alpha = 0."),
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="T, the number of iterates.")] = None,
    gamma0: Annotated[
        float | None, typer.Option(help="Step constant γ0. [default: the best that the theorem admits]")
    ] = None,
    eta0: Annotated[float | None, typer.Option(help="Momentum constant η0 in (0, 1]. [default: 1]")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="noise: only problems where the descent, Δ/(γT), is at most a tenth of what is measured; or any. "
            "[default: noise]"
        ),
    ] = None,
    generations: Annotated[int | None, typer.Option(help="Generations of the search. [default: 30]")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds that are reported. [default: 256]")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the search. [default: 0]")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A short search and few seeds: a trial of the program, no evidence.")
    ] = False,
    again: Annotated[
        Path | None, typer.Option(help="Measure the problem in this worst.json again, instead of searching.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for worst.json and worst.png.")] = None,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Search the problems that a theorem covers for the one on which its method and schedule do worst.

    The problems have one dimension. Their constants are certified by construction and checked by the definitions. The
    search is an evolution strategy, and its seeds are not those that are reported. worst.json holds the problem as
    data, and --again measures it once more.

    Example: gladstorm worst nstorm --alpha 0 --L 0.3 --B 0 --G 1 --gap 0.001 --gamma0 1 --eta0 0.1 --horizon 3000

    Example: gladstorm worst --again out/worst.json
    """
    from dataclasses import replace

    from gladstorm import worst as study
    from gladstorm.jobs.files import load_json
    from gladstorm.theory import Problem

    given: dict[str, Any] = {"method": method, "alpha": alpha, "B": B, "G": G, "gap": gap, "horizon": horizon}
    missing = [name for name, value in given.items() if value is None]
    if again is None and missing:
        raise ValueError(f"worst: {missing[0]} must be given, or --again with a file; got {missing[0]}=None.")
    searched = {"L0": L0, "L1": L1, "L": L, "gamma0": gamma0, "eta0": eta0, "kind": kind, "generations": generations}
    searched |= {"seeds": seeds, "seed": seed, "quick": quick or None}
    for name, value in (given | searched).items():
        option = name if name == "method" else f"--{name}"
        require_used("worst", option, value, again is None, "the file of --again has it, or does without")
    require_folder("worst", "--out", out, folders=[], files=FILES)
    require_store("worst", store)
    if out is not None:
        require_matplotlib("worst")
    kept = None if again is None else load_json("worst", again, study.FORMAT)
    settings = study.QUICK if quick else study.SearchSettings()
    changed = {"generations": generations, "reported": seeds, "seed": seed}
    settings = replace(settings, **{name: value for name, value in changed.items() if value is not None})
    settings.check()
    stated = None
    if kept is None:
        problem = Problem(alpha=given["alpha"], L0=L0, L1=L1, L=L, B=given["B"], G=given["G"], gap=given["gap"])
        stated = study.stated(given["method"], problem, given["horizon"], gamma0, 1.0 if eta0 is None else eta0)
        study.require_kind("noise" if kind is None else kind, stated)
    with computing(store, workers, scheduler) as executor:
        if stated is None:
            found = study.again(kept or {}, store=store, executor=executor)
        else:
            found = study.worst(
                stated, given["horizon"], "noise" if kind is None else kind, settings, store=store, executor=executor
            )
    result = found.as_dict()

    def draw(result: dict[str, Any]) -> Any:
        from gladstorm.worst import figures as worst_figures

        return worst_figures.instance(result)

    with saving_study(out, FILES[0], study.FORMAT, result, {FILES[1]: draw}):
        show_json(result) if as_json else _tell(result)
    if out is not None and not as_json:
        typer.echo(f"worst.json and worst.png are in {out}.")


def _tell(result: dict[str, Any]) -> None:
    from rich.table import Table

    title = f"{result['regime']}, T = {result['horizon']:,}: the worst problem found ({result['kind']})"
    table = Table(title=title, title_justify="left")
    table.add_column("quantity")
    table.add_column("value", justify="right")
    table.add_column("measured / value", justify="right")
    low, high = result["interval"]
    table.add_row(f"measured E‖∇f(x̂)‖, {result['seeds']} seeds", f"{result['measured']:.5g}", "")
    table.add_row("95 % interval", f"{low:.5g} to {high:.5g}", "")
    source = "" if result["sharper_source"] is None else f", {result['sharper_source']}"
    for name, value in (
        ("bound", result["bound"]),
        (f"sharper bound{source}", result["sharper"]),
        ("bound as printed", result["printed"]),
    ):
        if value is not None:
            table.add_row(name, f"{value:.5g}", f"{result['measured'] / value:.4f}")
    table.add_row("Δ/(γT) of the problem, relative to the measurement", f"{100 * result['gap_share']:.2f} %", "")
    for name, used in result["audit"].items():
        table.add_row(f"{name}: used of what the class admits", f"{100 * used:.2f} %", "")
    show(table)
