"""`gladstorm simulate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option

from gladstorm.cli import problem
from gladstorm.cli.app import AsJson, CommandWithProgress, Scheduler, StoreFolder, Workers, app
from gladstorm.cli.job import PAGES, computing, require_file, require_store, saving
from gladstorm.cli.output import Table, plus_minus, show, show_json

if TYPE_CHECKING:
    from gladstorm.methods import Method
    from gladstorm.simulation.record import Record


@app.command(cls=CommandWithProgress, short_help="Run methods on an objective with noisy gradients.")
def simulate(
    objective: problem.ObjectiveText,
    method: Annotated[
        list[str],
        Option(
            help="A named method, such as nsgdm or sgd(gamma=0.1,batch=8) (`gladstorm methods` lists them), parts: "
            "storm+normalized, or your own from a module in the current folder: MODULE:NAME(gamma=0.1). Repeatable."
        ),
    ],
    oracle: problem.OracleText = None,
    gamma: Annotated[list[float] | None, Option(help="Step size γ > 0; repeat it to run several.")] = None,
    eta: Annotated[
        list[float] | None, Option(help="Weight η in (0, 1] of the newest gradient; repeat it to run several.")
    ] = None,
    n_init: Annotated[int | None, Option(help="Number of samples in nstorm's first estimate. [default: 1]")] = None,
    B: problem.Growth = None,
    G: problem.AtStart = None,
    dim: problem.Dimension = None,
    start: problem.Start = None,
    instance: problem.Instance = 0,
    steps: Annotated[int, Option(help="K, the number of steps: the iterates are x⁰..x^K.")] = 1000,
    seeds: Annotated[int, Option(help="Runs per method, each with its own noise.")] = 10,
    save: Annotated[Path | None, Option(help="Write the record to this parquet file.")] = None,
    page: problem.Page = None,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Run methods on an objective with noisy gradients; report gradient norms, distance travelled and cost.

    Example: gladstorm simulate --objective power:3 --method nsgdm --method nstorm --gamma 1e-3 --eta 0.01

    Example: gladstorm simulate --objective streaming-least-squares:0.5 --dim 20 --method "sgd(gamma=0.01)"

    Example: gladstorm simulate --objective power:3 --method "nsgdm(gamma=grid(1e-3,1,4),eta=0.1)" --page page.html

    Example: gladstorm simulate --objective cauchy --oracle "skewed(B=0.5,G=1,q=0.1)" --method "sgd(gamma=0.01)"

    Example: gladstorm simulate --objective cauchy --method "sgd(gamma=0.01,batch=grow_with_distance(sigma2=0.1))"
    """
    from gladstorm.core.calls import Defaults
    from gladstorm.core.rules import COUNT, SEED, STEPS
    from gladstorm.jobs import interrupts
    from gladstorm.methods.text import parse_method
    from gladstorm.problems import objectives
    from gladstorm.simulation.simulate import Interrupted, sweep
    from gladstorm.simulation.tables import summary

    STEPS.require("simulate", "steps", steps)
    COUNT.require("simulate", "seeds", seeds)
    SEED.require("simulate", "instance", instance)
    require_file("simulate", "--save", save)
    require_file("simulate", "--page", page, PAGES)
    require_store("simulate", store)
    oracle, recipe, noise = problem.read_oracle("simulate", objective, oracle, B, G)
    swept = {"gamma": gamma or None, "eta": eta or None}
    given = {name: listed[0] if listed and len(listed) == 1 else listed for name, listed in swept.items()} | {
        "n_init": n_init
    }
    shared = Defaults({name: value for name, value in given.items() if value is not None} | noise)
    methods: dict[str, Method] = {}
    for text in method:
        if text in methods:
            raise ValueError(f"simulate: every --method must be given once; got {text!r} twice.")
        methods[text] = parse_method(text, shared)
    for name, value in given.items():
        why = f"no method of {', '.join(method)} takes {name} and leaves it out"
        problem.require_used("simulate", f"--{name.replace('_', '-')}", value, name in shared.taken, why)
    interrupted = False
    with computing(store, workers, scheduler) as executor:
        source = recipe.of(objectives.named(objective, seed=instance, dim=dim, start=start))
        try:
            record = sweep(source, methods, steps=steps, seeds=seeds, store=store, executor=executor)
        except Interrupted as interrupt:
            if interrupt.record is None:
                raise
            record, interrupted = interrupt.record, True
    shown, message = _shown(record, save, store) if interrupted else (record, "")
    command = {"objective": objective, "oracle_text": oracle, "B": noise.get("B"), "G": noise.get("G")}
    config = command | {"dim": int(record.last.shape[-1]), "start": start} | record.config
    sizes = {"d": config["dim"], **noise, "K": steps}
    listed = ", ".join(f"{name} = {number:g}" for name, number in sizes.items())
    title = f"{objective}, {oracle}, {listed}, {seeds} seed{'s' * (seeds > 1)}"

    def write_page(path: Path) -> None:
        from gladstorm.plotting.explore import explore

        options: dict[str, Any] = {"objective": objective, "oracle": oracle, "B": B, "G": G, "dim": dim, "start": start}
        options |= given | {"instance": instance or None, "steps": steps, "seeds": seeds}
        explore(shown, path, title=title, oracle=source, command=problem.command_of("simulate", options))

    with saving("--save", save, record.save), saving("--page", page, write_page):
        if as_json:
            show_json({"config": config, "methods": summary(shown)})
        else:
            show(_table(title, shown))
    if interrupted:
        interrupts.set_kept_message(message)
        raise Exit(interrupts.CODE)


def _shown(record: "Record", save: Path | None, store: Path | None) -> "tuple[Record, str]":
    """Return what an interrupted sweep shows, and the words about it: what had finished, else all as far as it came."""
    finished = record.finished()
    goes_on = "runs all" if store is None else f"goes on from {store}"
    saved = "" if save is None else f"; all {len(record)} that had begun are in {save}"
    if len(finished):
        words = f"{len(finished)} configurations had finished and are shown"
    else:
        step = max(0, int(record.reached.min()))
        finished, words = record.until(step), f"no configuration had finished, step {step:,} is shown"
    return finished, f"{words}{saved}; the same command {goes_on}"


def _table(title: str, record: "Record") -> Table:
    from gladstorm.simulation.tables import summary

    rows = []
    for configuration, row in zip(record.configurations, summary(record).values(), strict=True):
        norms = [plus_minus(row[key]) for key in ("mean_grad_norm", "final_grad_norm", "best_grad_norm", "drift2")]
        counts = (f"{row['sfo']:,.0f}", f"{row['max_batch']:,}", f"{row['diverged']}/{record.seeds.size}")
        rows.append([configuration.text, *norms, *counts])
    norms = [f"{which} ‖{record.field}‖" for which in ("mean", "final", "best")]
    headings = ["method", *norms, "‖x−x⁰‖²", "SFO", "max batch", "diverged"]
    caption = "mean ± standard deviation over seeds" if record.seeds.size > 1 else "one seed: no standard deviation"
    return Table(title, headings, rows, caption, drop=(6, 3, 5, 4, 1, 7))
