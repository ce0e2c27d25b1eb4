"""`gladstorm compare` and `gladstorm methods`."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from gladstorm.cli import problem
from gladstorm.cli.app import AsJson, CommandWithProgress, Scheduler, StoreFolder, Workers, app
from gladstorm.cli.job import FIGURES, PAGES, computing, require_file, require_store, saving
from gladstorm.cli.output import Table, say, show, show_json

if TYPE_CHECKING:
    from gladstorm.comparison.compared import Compared, Relative


@app.command(cls=CommandWithProgress, short_help="Compare methods, equally tuned, at an equal budget.")
def compare(
    objective: problem.ObjectiveText,
    method: Annotated[
        list[str],
        Option(
            help="A named method, such as nstorm(eta=1e-3) (`gladstorm methods` lists them), parts: "
            "storm(eta=1e-3)+normalized, or your own from a module in the current folder: MODULE:NAME. "
            "Values given as a list, eta=[0.01,0.1] or eta=grid(1e-3,1,4), are tuned; "
            "if γ is left out, it is tuned over --grid. Repeatable."
        ),
    ],
    oracle: problem.OracleText = None,
    budget: Annotated[int, Option(help="Number of stochastic gradients that each run may evaluate.")] = 10_000,
    grid: Annotated[
        str | None, Option(help="Step sizes γ to try: FROM,TO,HOW MANY, in equal ratios. [default: 1e-4,1,9]")
    ] = None,
    seeds: Annotated[int, Option(help="Runs per method that are reported.")] = 10,
    tuning_seeds: Annotated[
        int, Option(help="Runs per method and setting that choose the setting, on seeds of their own.")
    ] = 3,
    decay: Annotated[
        bool, Option("--decay", help="Try every setting twice: as it is, and with γ decaying linearly to 0.")
    ] = False,
    B: problem.Growth = None,
    G: problem.AtStart = None,
    dim: problem.Dimension = None,
    start: problem.Start = None,
    instance: problem.Instance = 0,
    save: Annotated[Path | None, Option(help="Write every recorded step to this parquet file.")] = None,
    plot: Annotated[Path | None, Option(help="Draw the curves into this file (png, pdf, svg).")] = None,
    page: problem.Page = None,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods at an equal budget of stochastic gradients, each tuned over equally many settings.

    The score is ‖∇f‖ at the point that a method reports when the budget is spent: its last iterate, or its average if
    it has one. Smaller is better. Every other method is compared with the first, seed by seed on the same noise, by the
    geometric mean of the ratios. Every seed has its own random start, unless --start gives all of them the same one.

    Example: gladstorm compare --objective power:3 --decay --method "nstorm(eta=0.01)" --method "nsgdm(eta=0.01)"

    Example: gladstorm compare --objective dro --oracle finite-sum --method "svrg(q=20,large=200)" --method sgd
    """
    from gladstorm.comparison import compare as comparison
    from gladstorm.comparison import compared
    from gladstorm.core.calls import Defaults
    from gladstorm.core.rules import COUNT, SEED
    from gladstorm.jobs import interrupts
    from gladstorm.methods.method import settings_of
    from gladstorm.methods.text import parse_grid
    from gladstorm.problems import objectives

    for name, count in (("budget", budget), ("seeds", seeds), ("tuning_seeds", tuning_seeds)):
        COUNT.require("compare", name, count)
    SEED.require("compare", "instance", instance)
    require_file("compare", "--save", save)
    require_file("compare", "--plot", plot, FIGURES)
    require_file("compare", "--page", page, PAGES)
    require_store("compare", store)
    gammas = parse_grid("1e-4,1,9" if grid is None else grid)
    oracle, recipe, noise = problem.read_oracle("compare", objective, oracle, B, G)
    shared = Defaults(noise)
    tuned = comparison.methods_from(method, gammas, shared, decay=decay)
    problem.require_used("compare", "--grid", grid, "gamma" in shared.taken, "every method has a gamma of its own")
    several = any(settings_of(candidate) > 1 for candidate in tuned.values())
    problem.require_used("compare", "--decay", decay or None, several, "every method has one setting")
    interrupted = False
    with computing(store, workers, scheduler) as executor:
        posed = objectives.named(objective, seed=instance, dim=dim, start=start)
        source = recipe.of(posed) if start is not None else comparison.from_random_starts(recipe, objective, posed, dim)
        try:
            results = comparison.compare(
                source, tuned, budget=budget, seeds=seeds, tuning_seeds=tuning_seeds, store=store, executor=executor
            )
        except comparison.ComparisonInterrupted as interrupt:
            results, interrupted = interrupt.finished, True
            if not results:
                raise
    command = {"objective": objective, "oracle_text": oracle, "grid": gammas}
    config = command | comparison.configured(source, results, budget)
    starts = "each with its own start" if start is None else "one start"
    title = f"{objective}, {oracle}, {budget:,} stochastic gradients, {seeds} seed{'s' * (seeds > 1)}, {starts}"

    def draw(path: Path) -> None:
        from gladstorm.plotting import figures
        from gladstorm.plotting.styles import legend_names

        texts, tuned = ([getattr(each, name) for each in results.values()] for name in ("text", "tuned"))
        names = legend_names(list(results), texts, tuned)
        names = [" ".join([name, *result.marks]) for name, result in zip(names, results.values(), strict=True)]
        curves = zip(names, (result.curves() for result in results.values()), strict=True)
        words = "; ".join([title, *_legend(results.values())])
        figures.save(figures.against_sfo(dict(curves), words, recipe.kind.field), path)

    def write_page(path: Path) -> None:
        from gladstorm.plotting.explore import explore

        options = {"objective": objective, "oracle": oracle, "budget": budget, "decay": decay, "B": B, "G": G}
        options |= {"dim": dim, "start": start, "instance": instance or None, "seeds": seeds}
        explore(results, path, title=title, command=problem.command_of("compare", options))

    drawn = None if interrupted else plot  # loading matplotlib takes longer than an interrupt may
    with (
        saving("--save", save, lambda path: compared.save(results, path, config)),
        saving("--plot", drawn, draw),
        saving("--page", page, write_page),
    ):
        against = compared.against_first(results)
        if as_json:
            rows = {name: result.as_dict() for name, result in results.items()}
            relative = {name: each.as_dict() for name, each in against.items()}
            show_json({"config": config, "methods": rows, "against_first": relative})
        else:
            _print_table(title, recipe.kind.field, results, against)
    if interrupted:
        where = "shown" if save is None else f"in {save}"
        not_drawn = "" if plot is None else f", {plot} is not drawn"
        some = f"{len(results)} of {len(method)} methods had finished and are {where}{not_drawn}"
        goes_on = "compares all" if store is None else f"goes on from {store}"
        interrupts.set_kept_message(f"{some}; the same command {goes_on}")
        raise Exit(interrupts.CODE)


@app.command(short_help="List the named methods, and parts to compose your own.")
def methods(as_json: AsJson = False) -> None:
    """List the named methods with their cost, known complexity and source, and the parts to compose your own from.

    Example: gladstorm methods
    """
    from gladstorm.methods import part_rows, rows

    named, parts = rows(), part_rows()
    if as_json:
        show_json({"methods": named, "parts": parts})
        return
    described = []
    for row in named:
        made_of = " + ".join(row[kind] for kind in ("estimator", "step", "batch", "average") if row[kind])
        complexity = f"{row['complexity']}: {row['assumptions']}" if row["complexity"] else ""
        described.append([row["method"], made_of, row["sfo"], complexity, row["source"]])
    headings = ("method", "made of", "stochastic gradients", "known complexity", "source")
    show(
        Table("Methods", headings, described, words=5),
        Table("Parts", ("kind", "part", "what it is"), [list(row.values()) for row in parts], words=3),
    )


def _print_table(title: str, field: str, results: "dict[str, Compared]", against: "dict[str, Relative]") -> None:
    first = next(iter(results))
    if results[first].record.seeds.size == 1:
        remarks = ["one seed cannot tell which method is better: two or more give intervals"]
    else:
        valid = f"{len(against)} intervals valid at the same time" if len(against) > 1 else "seed by seed"
        paired = f"geometric mean of the seeds' ratios to the first, not the ratio of the means, {valid}"
        remarks = ["mean over seeds [95 % interval]"]
        remarks += [f"relative: {paired}, below 1 is better"] if against else []
    rows = []
    for name, result in results.items():
        estimates, cells = result.estimates, []
        for key in ("grad_norm", "gap"):
            if key in estimates:
                relative = "1" if name == first else getattr(against[name], key).text()
                cells += [estimates[key].text(), relative]
        cells += [] if "gap" in estimates else [estimates["value"].text()]
        cells += [estimates["drift2"].text(), f"{result.steps:,}", f"{result.max_batch:,}", str(result.diverged)]
        rows.append([" ".join([result.text, *result.marks]), *cells])
    values = ("f − inf f", "relative") if results[first].gap is not None else ("f",)
    headings = ["method, as tuned", f"‖{field}‖", "relative", *values, "‖x−x⁰‖²", "steps", "max batch", "diverged"]
    drop = range(len(headings) - 2, 2, -1)  # batch, steps and distance first
    show(Table(title, headings, rows, "; ".join([*remarks, *_legend(results.values())]), drop=drop))
    for result in results.values():
        for warning in result.warnings:
            say(f"Warning: {result.text}: {warning}")


def _legend(results: "Iterable[Compared]") -> list[str]:
    from gladstorm.comparison.compared import MARKS

    marks = "".join(result.marks for result in results)
    return [f"{mark} {words}" for mark, words in MARKS.items() if mark in marks]
