"""`gladstorm simulate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gladstorm.cli.app import app
from gladstorm.cli.tables import show

if TYPE_CHECKING:
    from gladstorm.methods import Method
    from gladstorm.record import Record


@app.command()
def simulate(
    objective: Annotated[str, typer.Option(help="NAME or NAME:NUMBER,…: power:3, phase-retrieval, quadratic:1,10, …")],
    method: Annotated[
        list[str], typer.Option(help="nsgdm, nstorm, … (gladstorm methods), sgd(gamma=0.1), or parts: storm+normalized")
    ],
    gamma: Annotated[list[float] | None, typer.Option(help="Step size γ; repeat for a sweep.")] = None,
    eta: Annotated[list[float] | None, typer.Option(help="Momentum η in (0, 1]; repeat for a sweep.")] = None,
    n_init: Annotated[int, typer.Option(help="Samples in nstorm's first estimate.")] = 1,
    batch: Annotated[str, typer.Option(help="Batch size, or `distance`: ⌈(B²‖x−x⁰‖²+G²)/σ²⌉.")] = "1",
    sigma2: Annotated[float | None, typer.Option(help="σ² of --batch distance.")] = None,
    cap: Annotated[int | None, typer.Option(help="Largest batch of --batch distance.")] = None,
    B: Annotated[float, typer.Option("--B", help="Growth of the noise with distance.")] = 0.5,
    G: Annotated[float, typer.Option("--G", help="Noise at the start.")] = 1.0,
    dim: Annotated[int | None, typer.Option(help="Dimension, where the objective leaves it open.")] = None,
    start: Annotated[float | None, typer.Option(help="Every coordinate of x⁰, instead of the objective's own.")] = None,
    instance: Annotated[int, typer.Option(help="Seed of the objective's data and start.")] = 0,
    steps: Annotated[int, typer.Option(help="K: iterates x⁰..x^K.")] = 1000,
    seeds: Annotated[int, typer.Option(help="Runs per method, each with its own noise.")] = 10,
    save: Annotated[Path | None, typer.Option(help="Write the record to this parquet file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run methods on an objective under BG-0 noise and report gradient norms, drift and cost.

    Example: gladstorm simulate --objective power:3 --start 5 --method nsgdm --method nstorm --gamma 1e-3 --eta 0.01
    """
    from gladstorm import analysis, devices, objectives, programs
    from gladstorm.compositions import spelled
    from gladstorm.oracles import BlumGladyshev
    from gladstorm.simulate import Interrupted, sweep

    if save is not None and (save.is_dir() or not save.parent.is_dir()):
        raise ValueError(f"simulate: --save must be a file in a folder that exists; got {str(save)!r}.")
    devices.tune()
    programs.remember()
    rule = _batch_rule(batch, sigma2, cap, B, G)
    numbers = {"gamma": _sweep(gamma), "eta": _sweep(eta), "n_init": n_init, "B": B, "G": G, "batch": rule}
    shared = {name: value for name, value in numbers.items() if value is not None}
    methods: dict[str, Method] = {}
    for text in method:
        if text in methods:
            raise ValueError(f"simulate: every --method must be given once; got {text!r} twice.")
        methods[text] = spelled(text, shared)
    oracle = BlumGladyshev(objectives.named(objective, seed=instance, dim=dim, start=start), B, G)
    interrupted = False
    try:
        record = sweep(oracle, methods, steps=steps, seeds=seeds)
    except Interrupted as interrupt:
        if interrupt.record is None:
            raise
        record, interrupted = interrupt.record, True
        typer.echo(f"Interrupted: {len(record.labels)} configurations had finished.", err=True)
    if save is not None:
        record.save(save)
    config = {"objective": objective, "B": B, "G": G, "dim": int(record.last.shape[-1]), "start": start} | record.config
    if as_json:
        typer.echo(json.dumps({"config": config, "methods": analysis.summary(record)}, allow_nan=False, indent=2))
    else:
        _print_table(f"{objective}, d = {config['dim']}, B = {B:g}, G = {G:g}, K = {steps}, {seeds} seeds", record)
    if interrupted:
        raise typer.Exit(130)


def _batch_rule(batch: str, sigma2: float | None, cap: int | None, B: float, G: float) -> Any:
    from gladstorm.batches import Fixed, GrowWithDistance

    if batch == "distance":
        if sigma2 is None:
            raise ValueError("simulate: --batch distance needs --sigma2, the variance to keep; got none.")
        return GrowWithDistance(B, G, sigma2) if cap is None else GrowWithDistance(B, G, sigma2, cap)
    if sigma2 is not None or cap is not None:
        raise ValueError(f"simulate: --sigma2 and --cap go with --batch distance; got --batch {batch}.")
    return Fixed(_number("batch", batch))


def _sweep(values: list[float] | None) -> Any:
    return values[0] if values and len(values) == 1 else values


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"simulate: {name} must be a number; got {text!r}.") from None


def _print_table(title: str, record: Record) -> None:
    from rich.table import Table

    from gladstorm.analysis import summary

    table = Table(
        title=title, title_justify="left", caption="mean ± standard deviation over seeds", caption_justify="left"
    )
    table.add_column("method")
    for heading in ("mean ‖∇f‖", "final ‖∇f‖", "best ‖∇f‖", "‖x−x⁰‖²", "SFO", "max batch", "diverged"):
        table.add_column(heading, justify="right")
    for label, row in summary(record).items():
        norms = [_plus_minus(row[key]) for key in ("mean_grad_norm", "final_grad_norm", "best_grad_norm", "drift2")]
        table.add_row(
            label, *norms, f"{row['sfo']:,.0f}", f"{row['max_batch']:,}", f"{row['diverged']}/{record.seeds.size}"
        )
    show(table)


def _plus_minus(statistics: dict[str, Any]) -> str:
    if statistics["mean"] is None:
        return "not finite"
    spread = "" if statistics["std"] is None else f" ± {statistics['std']:.2g}"
    return f"{statistics['mean']:.4g}{spread}"
