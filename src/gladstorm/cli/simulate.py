"""`gladstorm simulate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gladstorm.cli import problem
from gladstorm.cli.app import AsJson, CommandWithProgress, Scheduler, StoreFolder, Workers, app
from gladstorm.cli.job import keep_in, saving
from gladstorm.cli.output import plus_minus, show, show_json
from gladstorm.cli.places import require_file, require_store

if TYPE_CHECKING:
    from gladstorm.methods import Method
    from gladstorm.simulation.record import Record


@app.command(cls=CommandWithProgress, short_help="Run methods on an objective with noisy gradients.")
def simulate(
    objective: problem.ObjectiveText,
    method: Annotated[
        list[str],
        typer.Option(
            help="A named method, such as nsgdm or sgd(gamma=0.1) (`gladstorm methods` lists them), parts: "
            "storm+normalized, or your own from a module in the current folder: MODULE:NAME(gamma=0.1). Repeatable."
        ),
    ],
    oracle: problem.OracleText = None,
    gamma: Annotated[list[float] | None, typer.Option(help="Step size γ > 0; repeat it to run several.")] = None,
    eta: Annotated[
        list[float] | None, typer.Option(help="Weight η in (0, 1] of the newest gradient; repeat it to run several.")
    ] = None,
    n_init: Annotated[
        int | None, typer.Option(help="Number of samples in nstorm's first estimate. [default: 1]")
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(help="Samples per step: a number, or `distance` for ⌈(B²‖x−x⁰‖²+G²)/σ²⌉. [default: 1]"),
    ] = None,
    sigma2: Annotated[
        float | None, typer.Option(help="σ² of --batch distance: the variance that its batches have.")
    ] = None,
    cap: Annotated[int | None, typer.Option(help="Largest batch of --batch distance. [default: 2³¹ − 1]")] = None,
    B: problem.Growth = None,
    G: problem.AtStart = None,
    dim: problem.Dimension = None,
    start: problem.Start = None,
    instance: problem.Instance = 0,
    steps: Annotated[int, typer.Option(help="K, the number of steps: the iterates are x⁰..x^K.")] = 1000,
    seeds: Annotated[int, typer.Option(help="Runs per method, each with its own noise.")] = 10,
    save: Annotated[Path | None, typer.Option(help="Write the record to this parquet file.")] = None,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Run methods on an objective with noisy gradients; report gradient norms, distance travelled and cost.

    Example: gladstorm simulate --objective power:3 --method nsgdm --method nstorm --gamma 1e-3 --eta 0.01

    Example: gladstorm simulate --objective streaming-least-squares:0.5 --dim 20 --method "sgd(gamma=0.01)"

    Example: gladstorm simulate --objective cauchy --oracle "skewed(B=0.5,G=1,q=0.1)" --method "sgd(gamma=0.01)"
    """
    from gladstorm import devices
    from gladstorm.core.calls import Defaults
    from gladstorm.core.rules import COUNT, SEED, STEPS
    from gladstorm.jobs import interrupts
    from gladstorm.methods.text import parse_method
    from gladstorm.problems import objectives
    from gladstorm.simulation import cluster, programs
    from gladstorm.simulation.simulate import Interrupted, sweep
    from gladstorm.simulation.summary import summary

    STEPS.require("simulate", "steps", steps)
    COUNT.require("simulate", "seeds", seeds)
    SEED.require("simulate", "instance", instance)
    require_file("simulate", "--save", save)
    require_store("simulate", store)
    devices.tune()
    programs.enable_program_cache()
    oracle, recipe = problem.read_oracle("simulate", objective, oracle, B, G)
    noise = problem.noise_of(recipe)
    given = {"gamma": gamma or None, "eta": eta or None, "n_init": n_init, "batch": batch}
    rule = _batch_rule("1" if batch is None else batch, sigma2, cap, noise)
    numbers = {"gamma": _sweep(gamma), "eta": _sweep(eta), "n_init": 1 if n_init is None else n_init, "batch": rule}
    shared = Defaults({name: value for name, value in numbers.items() if value is not None} | noise)
    methods: dict[str, Method] = {}
    for text in method:
        if text in methods:
            raise ValueError(f"simulate: every --method must be given once; got {text!r} twice.")
        methods[text] = parse_method(text, shared)
    problem.require_all_used("simulate", given, shared.taken, method)
    source = recipe.of(objectives.named(objective, seed=instance, dim=dim, start=start))
    interrupted = False
    keep_in(store)
    try:
        with cluster.opened(workers, scheduler) as executor:
            record = sweep(source, methods, steps=steps, seeds=seeds, store=store, executor=executor)
    except Interrupted as interrupt:
        if interrupt.record is None:
            raise
        record, interrupted = interrupt.record, True
    shown, kept = _shown(record, save, store) if interrupted else (record, "")
    told = {"objective": objective, "oracle_text": oracle, "B": noise.get("B"), "G": noise.get("G")}
    config = told | {"dim": int(record.last.shape[-1]), "start": start} | record.config
    with saving("--save", save, record.save):
        if as_json:
            show_json({"config": config, "methods": summary(shown)})
        else:
            sizes = {"d": config["dim"], **noise, "K": steps}
            listed = ", ".join(f"{name} = {number:g}" for name, number in sizes.items())
            _print_table(f"{objective}, {oracle}, {listed}, {seeds} seed{'s' * (seeds > 1)}", shown)
    if interrupted:
        interrupts.keeping(kept)
        raise typer.Exit(interrupts.CODE)


def _shown(record: "Record", save: Path | None, store: Path | None) -> "tuple[Record, str]":
    """What is shown of an interrupted sweep, and the words about it: what had finished, else all as far as it came."""
    finished = record.finished()
    goes_on = "runs all" if store is None else f"goes on from {store}"
    saved = "" if save is None else f"; all {len(record)} that had begun are in {save}"
    if len(finished):
        words = f"{len(finished)} configurations had finished and are shown"
    else:
        step = max(0, int(record.reached.min()))
        finished, words = record.until(step), f"no configuration had finished, step {step:,} is shown"
    return finished, f"{words}{saved}; the same command {goes_on}"


def _batch_rule(batch: str, sigma2: float | None, cap: int | None, noise: dict[str, Any]) -> Any:
    from gladstorm.methods.batches import Fixed, GrowWithDistance

    if batch == "distance":
        if sigma2 is None:
            raise ValueError("simulate: --batch distance needs --sigma2, the variance to keep; got none.")
        if set(noise) != {"B", "G"}:
            raise ValueError(
                "simulate: --batch distance needs an --oracle with B and G, such as blum-gladyshev; write the numbers "
                "into the method, as in sgd(batch=grow_with_distance(B=1,G=1,sigma2=1)), for another."
            )
        return GrowWithDistance(**noise, sigma2=sigma2, **({} if cap is None else {"cap": cap}))
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


def _print_table(title: str, record: "Record") -> None:
    from rich.table import Table

    from gladstorm.simulation.summary import summary

    caption = "mean ± standard deviation over seeds" if record.seeds.size > 1 else "one seed: no standard deviation"
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("method")
    headings = [f"{which} ‖{record.field}‖" for which in ("mean", "final", "best")]
    for heading in (*headings, "‖x−x⁰‖²", "SFO", "max batch", "diverged"):
        table.add_column(heading, justify="right")
    for label, row in summary(record).items():
        norms = [plus_minus(row[key]) for key in ("mean_grad_norm", "final_grad_norm", "best_grad_norm", "drift2")]
        table.add_row(
            label, *norms, f"{row['sfo']:,.0f}", f"{row['max_batch']:,}", f"{row['diverged']}/{record.seeds.size}"
        )
    show(table)
