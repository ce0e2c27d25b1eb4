"""`gladstorm verify`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gladstorm.cli.app import AsJson, CommandWithProgress, Scheduler, Workers, app
from gladstorm.cli.job import computing, keep_in, saving
from gladstorm.cli.output import show, show_json
from gladstorm.cli.places import require_folder

if TYPE_CHECKING:
    from gladstorm.studies.verification import VerificationReport


@app.command(cls=CommandWithProgress, short_help="Check every theorem by simulation.")
def verify(
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="--full: horizons up to 10⁵ and the studies of docs/evidence.md, in minutes. --quick: horizons up to "
            "10⁴, in under two minutes.",
        ),
    ] = False,
    regime: Annotated[
        list[str] | None,
        typer.Option(help="Check only regimes whose name contains this, e.g. nstorm/smooth; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The first seed: all random numbers follow from it.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for verify.json; a second run with it resumes.")] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Check every theorem by simulation: bounds, rates, step sizes, estimator errors, the oracle.

    A regime is written method/smoothness/noise: nsgdm or nstorm; smooth, sublinear or linear; bg0, bounded or
    deterministic. All intervals are valid at the same time, with 99 % confidence. The exit code is 1 if a check fails.
    The same seed gives the same bytes on the same machine.

    Examples: gladstorm verify; gladstorm verify --regime nstorm/smooth --json; gladstorm verify --full --out evidence
    """
    folder = None if out is None else out / "parts"
    keep_in(folder)
    from dataclasses import replace

    from gladstorm.foundation.rules import SEED
    from gladstorm.studies.verification import FULL, QUICK
    from gladstorm.studies.verification import verify as run

    SEED.require("verify", "seed", seed)
    require_folder("verify", "--out", out, folders=["parts"], files=["verify.json"])
    with computing(folder, workers, scheduler) as executor:
        report = run(replace(FULL if full else QUICK, seed=seed), tuple(regime or ()), folder, executor)
    file = None if out is None else out / "verify.json"
    with saving("--out", file, report.save):
        show_json(report.as_dict(), indent=1) if as_json else _print(report)
    if not report.holds:
        raise typer.Exit(1)


def _print(report: "VerificationReport") -> None:
    from rich.table import Table

    answer = report.as_dict()
    confidence, longest = answer["confidence"], answer["settings"]["horizons"][-1]
    table = Table(
        title=f"E‖∇f(x̂)‖ and the estimator's error, divided by their bounds, at T = {longest:,}; slopes over all T",
        caption=f"{confidence['numbers']} different numbers, {confidence['method']}: the probability that any interval "
        f"is wrong is at most {confidence['family']:g}. A slope confirms the schedule, not the noise exponent; --json "
        "says what each check proves.",
        title_justify="left",
        caption_justify="left",
    )
    for heading in ("regime", "instance", "rate", "slope", "paper", "sharper", "error", "ok"):
        table.add_column(heading, no_wrap=True)
    for case in answer["cases"]:
        slope = _plus_minus(*case["slope"]) if case["slope"] else "not testable"
        tight = {kind: ratios[-1] for kind, ratios in case["tightness"].items()}
        sharpest = max((tight[kind] for kind in ("sharper bound", "wrapper bound") if kind in tight), default=None)
        shown = [_short(ratio) for ratio in (tight["bound"], sharpest, tight.get("estimator error"))]
        verdict = "✓" if case["holds"] else "✗"
        table.add_row(case["regime"], case["instance"], f"{case['rate']:.4g}", slope, *shown, verdict)
    show(table)
    for check in answer["checks"]:
        if check["check"] == "printed bound is false":
            typer.echo(
                f"{check['regime']}: measured {check['measured']:.4g} [{check['low']:.4g}, {check['high']:.4g}] at "
                f"T = {check['horizon']:,}, which is {check['claim']}: the first is printed, the second corrected."
            )
    for failed in report.failures:
        row = failed.as_dict()
        typer.echo(
            f"FAILS {row['regime']}, {row['instance']}, {row['check']}, T = {row['horizon']:,}: measured "
            f"{row['measured']} [{row['low']}, {row['high']}], claimed {row['claim']}.",
            err=True,
        )


def _short(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2g}"


def _plus_minus(value: float, low: float, high: float) -> str:
    return f"{value:.3f} ± {(high - low) / 2:.3f}"
