"""`gladstorm compare` and `gladstorm methods`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gladstorm.cli.app import app
from gladstorm.cli.tables import show

if TYPE_CHECKING:
    from gladstorm.compare import Compared

ORACLES = ("bg0", "finite-sum")


@app.command()
def compare(
    objective: Annotated[str, typer.Option(help="NAME or NAME:NUMBER,…: power:3, phase-retrieval, dro, …")],
    method: Annotated[
        list[str],
        typer.Option(
            help="nstorm(eta=1e-3), or parts: storm(eta=1e-3)+normalized. What is a list, as in eta=[0.01,0.1] or "
            "eta=grid(1e-3,1,4), is tuned; so is γ if left out. See `gladstorm methods`."
        ),
    ],
    budget: Annotated[int, typer.Option(help="Stochastic gradients each run may spend.")] = 10_000,
    grid: Annotated[str, typer.Option(help="Step sizes γ tried: FROM,TO,HOW MANY, in equal ratios.")] = "1e-4,1,9",
    seeds: Annotated[int, typer.Option(help="Reported runs per method.")] = 10,
    tuning_seeds: Annotated[int, typer.Option(help="Runs per method and setting; their seeds are others.")] = 3,
    oracle: Annotated[str, typer.Option(help="bg0: noise by B and G; finite-sum: examples drawn.")] = "bg0",
    B: Annotated[float, typer.Option("--B", help="Growth of the noise with distance.")] = 0.5,
    G: Annotated[float, typer.Option("--G", help="Noise at the start.")] = 1.0,
    dim: Annotated[int | None, typer.Option(help="Dimension, where the objective leaves it open.")] = None,
    start: Annotated[float | None, typer.Option(help="Every coordinate of x⁰, instead of the objective's own.")] = None,
    instance: Annotated[int, typer.Option(help="Seed of the objective's data and start.")] = 0,
    save: Annotated[Path | None, typer.Option(help="Write every recorded step to this parquet file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves into this file (png, pdf, svg).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare methods at an equal budget of stochastic gradients, each tuned over as many settings.

    The others are judged against the first method, seed by seed on the same noise.

    Example: gladstorm compare --objective power:3 --start 5 --method "nstorm(eta=0.01)" --method "nsgdm(eta=0.01)"

    Example: gladstorm compare --objective dro --oracle finite-sum --method "svrg(q=20,large=200)" --method sgd
    """
    from gladstorm import compare as comparing
    from gladstorm import compositions, devices, programs

    for name, path in (("save", save), ("plot", plot)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise ValueError(f"compare: --{name} must be a file in a folder that exists; got {str(path)!r}.")
    devices.tune()
    programs.remember()
    source = _oracle(oracle, objective, B, G, dim=dim, start=start, instance=instance)
    gammas = compositions.grid(grid)
    given = {"B": B, "G": G} if oracle == "bg0" else {}
    interrupted = False
    try:
        found = comparing.compare(
            source,
            comparing.methods_from(method, gammas, given),
            budget=budget,
            seeds=seeds,
            tuning_seeds=tuning_seeds,
        )
    except comparing.Interrupted as interrupt:
        found, interrupted = interrupt.found, True
        typer.echo(f"Interrupted: {len(found)} of {len(method)} methods had finished.", err=True)
        if not found:
            raise
    config = {"objective": objective, "grid": gammas} | comparing.configured(source, found, budget)
    title = f"{objective}, {oracle}, {budget:,} stochastic gradients, {seeds} seeds"
    if save is not None:
        comparing.save(found, save, config)
    if plot is not None:
        from gladstorm import figures

        curves = zip(comparing.briefly(found), (each.curves() for each in found.values()), strict=True)
        figures.save(figures.against_sfo(dict(curves), title), plot)
    if as_json:
        rows = {name: each.as_dict() for name, each in found.items()}
        report = {"config": config, "methods": rows, "against_first": comparing.against_first(found)}
        typer.echo(json.dumps(report, allow_nan=False, indent=2, ensure_ascii=False))
    else:
        _print_table(title, found, comparing.against_first(found))
    if interrupted:
        raise typer.Exit(130)


@app.command()
def methods(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False) -> None:
    """The named methods with price, known complexity and source, and the parts others can be composed of.

    Example: gladstorm methods
    """
    from rich.table import Table

    from gladstorm import scheduled  # noqa: F401 - importing it makes its methods known
    from gladstorm.methods import part_rows, rows

    named, parts = rows(), part_rows()
    if as_json:
        typer.echo(json.dumps({"methods": named, "parts": parts}, indent=2, ensure_ascii=False))
        return
    methods_table = Table(
        "method", "made of", "SFO", "known complexity", "source", title="Methods", title_justify="left"
    )
    for row in named:
        made_of = " + ".join(row[kind] for kind in ("estimator", "step", "batch"))
        known = f"{row['complexity']}: {row['assumptions']}" if row["complexity"] else ""
        methods_table.add_row(row["method"], made_of, row["sfo"], known, row["source"])
    parts_table = Table("kind", "part", "what it is", title="Parts", title_justify="left")
    for row in parts:
        parts_table.add_row(*row.values())
    for table in (methods_table, parts_table):
        for column in table.columns:
            column.overflow = "fold"
    show(methods_table, parts_table)


def _oracle(
    kind: str, objective: str, B: float, G: float, *, dim: int | None, start: float | None, instance: int
) -> Any:
    from gladstorm import objectives
    from gladstorm.finite_sums import FiniteSum
    from gladstorm.oracles import BlumGladyshev

    if kind not in ORACLES:
        raise ValueError(f"compare: --oracle must be one of {', '.join(ORACLES)}; got {kind!r}.")
    problem: Any = objectives.named(objective, seed=instance, dim=dim, start=start)
    if kind == "bg0":
        return BlumGladyshev(problem, B, G)
    if not hasattr(problem, "losses"):
        kinds = "phase-retrieval or dro"
        raise ValueError(
            f"compare: --oracle finite-sum needs an objective made of examples, {kinds}; got {objective!r}."
        )
    return FiniteSum(problem)


def _print_table(title: str, found: dict[str, Compared], against: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table

    first = next(iter(found))
    relative = f"; relative to the first: paired, {len(against)} intervals that hold together, below 1 is better"
    table = Table(
        title=title,
        title_justify="left",
        caption="mean over seeds [95 % interval]"
        + (relative if against else "")
        + "; * a tuned number is at the edge of its grid",
        caption_justify="left",
    )
    table.add_column("method, as tuned")
    for heading in ("‖∇f‖, last tenth", "relative", "‖x−x⁰‖²", "steps", "max batch", "diverged"):
        table.add_column(heading, justify="right")
    for name, each in found.items():
        row = each.as_dict()
        ratio = "1" if name == first else _interval(against[name])
        counts = (f"{row['steps']:,}", f"{row['max_batch']:,}", str(row["diverged"]))
        numbers = (_interval(row["last_tenth"]), ratio, _interval(row["drift2"]), *counts)
        table.add_row(row["label"] + (" *" if row["at_edge"] else ""), *numbers)
    show(table)


def _interval(found: dict[str, Any]) -> str:
    if found["mean"] is None:
        return "not finite"
    return f"{found['mean']:.4g} [{found['low']:.3g}, {found['high']:.3g}]"
