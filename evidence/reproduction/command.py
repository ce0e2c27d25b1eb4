"""`python -m evidence reproduction`."""

from importlib.util import find_spec
from typing import Annotated, Any

import typer

from evidence.study import Out, Quick, kept_in
from gladstorm.cli.app import Scheduler, StoreFolder, Workers
from gladstorm.cli.job import computing, require_folder

WORK = ("run.reproduce",)


def command(
    out: Out,
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Which of phase-retrieval, cubic; both if none is named.")
    ] = None,
    B: Annotated[
        float | None, typer.Option("--B", help="Growth of the noise: its variance is B²‖x−x⁰‖² + G². [default: 0.5]")
    ] = None,
    sigma2: Annotated[float | None, typer.Option(help="Variance σ² that dynamic batches have. [default: G²]")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds behind the verdicts; figures show three. [default: 100]")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="K, the number of steps; the paper's T is K + 1. [default: 10000]")
    ] = None,
    grid: Annotated[
        str | None, typer.Option(help="Step sizes to try for the tuned methods, e.g. 1e-3,1e-2,1e-1.")
    ] = None,
    quick: Quick = False,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Repeat the paper's experiments: tuned baselines, figures, a verdict on every claim, one report.html.

    If it is killed at any moment, the same command resumes where it was.

    Examples: python -m evidence reproduction --out out; python -m evidence reproduction cubic --B 1 --seeds 30
    """
    from dataclasses import replace

    from evidence.reproduction.experiments import QUICK, ReproductionSettings, choose
    from evidence.reproduction.run import reproduce

    chosen = choose(experiments or [])
    given: dict[str, Any] = {"B": B, "sigma2": sigma2, "seeds": seeds, "steps": steps, "grid": _numbers(grid)}
    settings = replace(QUICK if quick else ReproductionSettings(), **{k: v for k, v in given.items() if v is not None})
    settings.check()
    cache = kept_in("reproduction", out, store, "cache", files=["report.html"])
    names = [experiment.name for experiment in chosen]
    require_folder("reproduction", "--out", out, folders=[*names, *(f"cache/{name}" for name in names)], files=[])
    if find_spec("vl_convert") is None:
        raise ValueError("reproduction: report.html needs Vega, not installed here; pip install 'gladstorm[page]'.")
    with computing(cache, workers, scheduler) as executor:
        for experiment in chosen:
            (out / experiment.name).mkdir(parents=True, exist_ok=True)
            results = reproduce(experiment, settings, cache / experiment.name, executor)
            results.save(out / experiment.name / "results.parquet")


def _numbers(text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"reproduction: --grid must be numbers separated by commas; got {text!r}.") from None
