"""`gladstorm compare` and `gladstorm methods`."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gladstorm.cli import problem
from gladstorm.cli.app import AsJson, CommandWithProgress, Scheduler, StoreFolder, Workers, app
from gladstorm.cli.job import keep_in, saving
from gladstorm.cli.output import show, show_json
from gladstorm.cli.places import require_figure, require_file, require_store
from gladstorm.comparison.text import interval

if TYPE_CHECKING:
    from gladstorm.comparison.compare import Compared


@app.command(cls=CommandWithProgress, short_help="Compare methods, equally tuned, at an equal budget.")
def compare(
    objective: problem.ObjectiveText,
    method: Annotated[
        list[str],
        typer.Option(
            help="A named method, such as nstorm(eta=1e-3) (`gladstorm methods` lists them), parts: "
            "storm(eta=1e-3)+normalized, or your own from a module in the current folder: MODULE:NAME. "
            "Values given as a list, eta=[0.01,0.1] or eta=grid(1e-3,1,4), are tuned; "
            "if γ is left out, it is tuned over --grid. Repeatable."
        ),
    ],
    oracle: problem.OracleText = None,
    budget: Annotated[int, typer.Option(help="Number of stochastic gradients that each run may evaluate.")] = 10_000,
    grid: Annotated[
        str | None,
        typer.Option(help="Step sizes γ to try: FROM,TO,HOW MANY, in equal ratios. [default: 1e-4,1,9]"),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs per method that are reported.")] = 10,
    tuning_seeds: Annotated[
        int, typer.Option(help="Runs per method and setting that choose the setting, on seeds of their own.")
    ] = 3,
    decay: Annotated[
        bool, typer.Option("--decay", help="Try every setting twice: as it is, and with γ decaying linearly to 0.")
    ] = False,
    B: problem.Growth = None,
    G: problem.AtStart = None,
    dim: problem.Dimension = None,
    start: problem.Start = None,
    instance: problem.Instance = 0,
    save: Annotated[Path | None, typer.Option(help="Write every recorded step to this parquet file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves into this file (png, pdf, svg).")] = None,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods at an equal budget of stochastic gradients, each tuned over equally many settings.

    The score is ‖∇f‖ at the point that a method reports when the budget is spent: its last iterate, or its average if
    it has one. Smaller is better. Every other method is compared with the first, seed by seed on the same noise. Every
    seed has its own random start, unless --start gives all of them the same one.

    Example: gladstorm compare --objective power:3 --decay --method "nstorm(eta=0.01)" --method "nsgdm(eta=0.01)"

    Example: gladstorm compare --objective dro --oracle finite-sum --method "svrg(q=20,large=200)" --method sgd
    """
    from gladstorm import devices
    from gladstorm.comparison import compare as comparison
    from gladstorm.comparison.starts import from_random_starts
    from gladstorm.core.calls import Defaults
    from gladstorm.core.rules import COUNT, SEED
    from gladstorm.jobs import interrupts
    from gladstorm.methods import text as compositions
    from gladstorm.methods.method import settings_of
    from gladstorm.problems import objectives
    from gladstorm.simulation import cluster, programs

    for name, count in (("budget", budget), ("seeds", seeds), ("tuning_seeds", tuning_seeds)):
        COUNT.require("compare", name, count)
    SEED.require("compare", "instance", instance)
    require_file("compare", "--save", save)
    require_figure("compare", "--plot", plot)
    require_store("compare", store)
    gammas = compositions.grid("1e-4,1,9" if grid is None else grid)
    oracle, recipe = problem.read_oracle("compare", objective, oracle, B, G)
    shared = Defaults(problem.noise_of(recipe))
    tuned = comparison.methods_from(method, gammas, shared, decay=decay)
    problem.require_used("compare", "--grid", grid, "gamma" in shared.taken, "every method has a gamma of its own")
    several = any(settings_of(each) > 1 for each in tuned.values())
    problem.require_used("compare", "--decay", decay or None, several, "every method has one setting")
    devices.tune()
    programs.enable_program_cache()
    one = objectives.named(objective, seed=instance, dim=dim, start=start)
    source = recipe.of(one) if start is not None else from_random_starts(recipe, objective, one, dim)
    interrupted = False
    keep_in(store)
    try:
        with cluster.opened(workers, scheduler) as executor:
            found = comparison.compare(
                source,
                tuned,
                budget=budget,
                seeds=seeds,
                tuning_seeds=tuning_seeds,
                store=store,
                executor=executor,
            )
    except comparison.ComparisonInterrupted as interrupt:
        found, interrupted = interrupt.found, True
        if not found:
            raise
    config = {"objective": objective, "oracle_text": oracle, "grid": gammas} | comparison.configured(
        source, found, budget
    )
    starts = "each with its own start" if start is None else "one start"
    title = f"{objective}, {oracle}, {budget:,} stochastic gradients, {seeds} seed{'s' * (seeds > 1)}, {starts}"

    def draw(path: Path) -> None:
        from gladstorm.plotting import figures
        from gladstorm.plotting.styles import legend_names

        names = legend_names(list(found), comparison.briefly(found), [each.tuned for each in found.values()])
        names = [" ".join([name, *each.marks]) for name, each in zip(names, found.values(), strict=True)]
        curves = zip(names, (each.curves() for each in found.values()), strict=True)
        words = "; ".join([title, *_legend(found.values())])
        figures.save(figures.against_sfo(dict(curves), words, recipe.kind.field), path)

    drawn = None if interrupted else plot  # loading matplotlib takes longer than an interrupt may
    with (
        saving("--save", save, lambda path: comparison.save(found, path, config)),
        saving("--plot", drawn, draw),
    ):
        if as_json:
            rows = {name: each.as_dict() for name, each in found.items()}
            report = {"config": config, "methods": rows, "against_first": comparison.against_first(found)}
            show_json(report)
        else:
            _print_table(title, recipe.kind.field, found, comparison.against_first(found))
    if interrupted:
        where = "shown" if save is None else f"in {save}"
        not_drawn = "" if plot is None else f", {plot} is not drawn"
        some = f"{len(found)} of {len(method)} methods had finished and are {where}{not_drawn}"
        goes_on = "compares all" if store is None else f"goes on from {store}"
        interrupts.keeping(f"{some}; the same command {goes_on}")
        raise typer.Exit(interrupts.CODE)


@app.command(short_help="List the named methods, and parts to compose your own.")
def methods(as_json: AsJson = False) -> None:
    """List the named methods with their cost, known complexity and source, and the parts to compose your own from.

    Example: gladstorm methods
    """
    from rich.table import Table

    from gladstorm.methods import part_rows, rows

    named, parts = rows(), part_rows()
    if as_json:
        show_json({"methods": named, "parts": parts})
        return
    methods_table = Table(
        "method", "made of", "stochastic gradients", "known complexity", "source", title="Methods", title_justify="left"
    )
    for row in named:
        made_of = " + ".join(row[kind] for kind in ("estimator", "step", "batch", "average") if row[kind])
        known = f"{row['complexity']}: {row['assumptions']}" if row["complexity"] else ""
        methods_table.add_row(row["method"], made_of, row["sfo"], known, row["source"])
    parts_table = Table("kind", "part", "what it is", title="Parts", title_justify="left")
    for row in parts:
        parts_table.add_row(*row.values())
    show(methods_table, parts_table)


def _print_table(title: str, field: str, found: "dict[str, Compared]", against: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table

    first = next(iter(found))
    if found[first].record.seeds.size == 1:
        remarks = ["one seed cannot tell which method is better: two or more give intervals"]
    else:
        together = f"relative to the first: paired, {len(against)} intervals valid at the same time, below 1 is better"
        remarks = ["mean over seeds [95 % interval]", *([together] if against else [])]
    caption = "; ".join([*remarks, *_legend(found.values())])
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("method, as tuned")
    values = ("f − inf f", "relative") if found[first].gap is not None else ("f",)
    for heading in (f"‖{field}‖", "relative", *values, "‖x−x⁰‖²", "steps", "max batch", "diverged"):
        table.add_column(heading, justify="right")
    for name, each in found.items():
        row = each.as_dict()
        cells = []
        for key in ("grad_norm", "gap"):
            if row[key] is not None:
                cells += [interval(row[key]), "1" if name == first else interval(against[name][key])]
        cells += [interval(row["value"])] if row["gap"] is None else []
        cells += [interval(row["drift2"]), f"{row['steps']:,}", f"{row['max_batch']:,}", str(row["diverged"])]
        table.add_row(" ".join([row["label"], *each.marks]), *cells)
    show(table)
    for each in found.values():
        for warning in each.warnings:
            typer.echo(f"Warning: {each.record.labels[0]}: {warning}")


def _legend(found: "Iterable[Compared]") -> list[str]:
    """What the marks of these methods mean."""
    from gladstorm.comparison.compare import MARKS

    marks = "".join(each.marks for each in found)
    return [f"{mark} {words}" for mark, words in MARKS.items() if mark in marks]
