"""`gladstorm worst`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, echo

from gladstorm.cli import problem
from gladstorm.cli.app import AsJson, CommandWithProgress, Scheduler, StoreFolder, Workers, app
from gladstorm.cli.job import computing, require_folder, require_matplotlib, require_store, saving_study
from gladstorm.cli.output import Table, show, show_json

if TYPE_CHECKING:
    from gladstorm.worst import WorstProblem

FILES = ("worst.json", "worst.png")


@app.command(cls=CommandWithProgress, short_help="Search for the worst problem that a theorem covers.")
def worst(
    method: Annotated[str | None, problem.COVERED_METHOD] = None,
    alpha: Annotated[float | None, problem.ALPHA] = None,
    B: Annotated[float | None, problem.B] = None,
    G: Annotated[float | None, problem.G] = None,
    gap: Annotated[float | None, problem.GAP] = None,
    L0: Annotated[float | None, problem.L0] = None,
    L1: Annotated[float | None, problem.L1] = None,
    L: Annotated[float | None, problem.L] = None,
    growth: Annotated[float | None, problem.NOISE_POWER] = None,
    horizon: Annotated[int | None, problem.HORIZON] = None,
    gamma0: Annotated[float | None, problem.GAMMA0] = None,
    eta0: Annotated[float | None, problem.ETA0] = None,
    kind: Annotated[
        str | None,
        Option(
            help="noise: only problems where the descent, Δ/(γT), is at most a tenth of what is measured; or any. "
            "[default: noise]"
        ),
    ] = None,
    generations: Annotated[int | None, Option(help="Generations of the search. [default: 30]")] = None,
    seeds: Annotated[int | None, Option(help="Number of seeds that are reported. [default: 256]")] = None,
    seed: Annotated[int | None, Option(help="Seed of the search. [default: 0]")] = None,
    quick: Annotated[
        bool, Option("--quick", help="A short search and few seeds: a trial of the program, no evidence.")
    ] = False,
    again: Annotated[
        Path | None, Option(help="Measure the problem in this worst.json again, instead of searching.")
    ] = None,
    out: Annotated[Path | None, Option(help="Folder for worst.json and worst.png.")] = None,
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
    from gladstorm.core.results import to_json
    from gladstorm.jobs.files import load_json
    from gladstorm.theory import Problem

    given: dict[str, Any] = {"method": method, "alpha": alpha, "B": B, "G": G, "gap": gap, "horizon": horizon}
    missing = [name for name, value in given.items() if value is None]
    if again is None and missing:
        raise ValueError(f"worst: {missing[0]} must be given, or --again with a file; got {missing[0]}=None.")
    searched = {"L0": L0, "L1": L1, "L": L, "gamma0": gamma0, "eta0": eta0, "kind": kind, "generations": generations}
    searched |= {"growth": growth, "seeds": seeds, "seed": seed, "quick": quick or None}
    for name, value in (given | searched).items():
        option = name if name == "method" else f"--{name}"
        problem.require_used("worst", option, value, again is None, "the file of --again has it, or does without")
    require_folder("worst", "--out", out, files=FILES)
    require_store("worst", store)
    if out is not None:
        require_matplotlib("worst")
    content = None if again is None else load_json("worst", again, study.FORMAT)
    settings = study.QUICK if quick else study.SearchSettings()
    changed = {"generations": generations, "reported": seeds, "seed": seed}
    settings = replace(settings, **{name: value for name, value in changed.items() if value is not None})
    settings.check()
    stated, searched_kind = None, "noise" if kind is None else kind
    if content is None:
        constants = {name: given[name] for name in ("alpha", "B", "G", "gap")}
        posed = Problem(**constants, L0=L0, L1=L1, L=L, growth=2.0 if growth is None else growth)
        stated = study.stated(given["method"], posed, given["horizon"], gamma0, 1.0 if eta0 is None else eta0)
        study.require_kind(searched_kind, stated)
    with computing(store, workers, scheduler) as executor:
        if stated is None:
            result = study.again(content or {}, store=store, executor=executor)
        else:
            result = study.worst(stated, given["horizon"], searched_kind, settings, store=store, executor=executor)
    figures = {}
    if out is not None:
        from gladstorm.worst.figures import draw_problem

        figures[FILES[1]] = lambda _: draw_problem(result)
    data = to_json(result)
    with saving_study(out, FILES[0], study.FORMAT, data, figures):
        show_json(data) if as_json else show(_table(result))
    if out is not None and not as_json:
        echo(f"worst.json and worst.png are in {out}.")


def _table(result: "WorstProblem") -> Table:
    measured = result.measured.text("{value:.5g} [{low:.5g}, {high:.5g}]")
    rows = [(f"measured E‖∇f(x̂)‖, {len(result.per_seed)} seeds [95 % interval]", measured, "")]
    source = "" if result.sharper_source is None else f", {result.sharper_source}"
    bounds = {"bound": result.bound, f"sharper bound{source}": result.sharper, "bound as printed": result.printed}
    for name, value in (bounds | {"what no method guarantees at this cost": result.unreachable}).items():
        if value is not None:
            rows.append((name, f"{value:.5g}", f"{result.mean / value:.4f}"))
    if result.gap_share is not None:
        rows.append(("Δ/(γT) of the problem, relative to the measurement", f"{100 * result.gap_share:.2f} %", ""))
    rows += [(f"{name}: used of what the class admits", f"{100 * u:.2f} %", "") for name, u in result.audit.items()]
    title = f"{result.regime}, T = {result.horizon:,}: the worst problem found ({result.kind})"
    return Table(title, ("quantity", "value", "measured / value"), rows)
