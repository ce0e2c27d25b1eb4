"""`python -m evidence verification`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evidence.study import Out, Seed, kept_in
from gladstorm.cli.app import AsJson, Scheduler, StoreFolder, Workers
from gladstorm.cli.job import computing, saving
from gladstorm.cli.output import Table, say, show
from gladstorm.core.screen import in_digits

if TYPE_CHECKING:
    from evidence.verification.checks import Verdict

WORK = ("verify", "broken.find_all")


def command(
    out: Out,
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="--full: horizons up to 10⁵ and all studies of the page, in minutes. --quick: horizons up to "
            "10⁴, in under two minutes.",
        ),
    ] = False,
    regime: Annotated[
        list[str] | None,
        typer.Option(help="Check only regimes whose name contains this, e.g. nstorm/smooth; repeatable."),
    ] = None,
    broken: Annotated[
        bool, typer.Option("--broken", help="Only see which broken methods are found; needs a report in --out.")
    ] = False,
    seed: Seed = 0,
    store: StoreFolder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Check every theorem by simulation: bounds, rates, step sizes, estimator errors, the oracle.

    A regime is written method/smoothness/noise: nsgdm or nstorm; smooth, sublinear or linear; bg0, bounded or
    deterministic. All intervals are valid at the same time, with 99 % confidence. The exit code is 1 if a check fails.
    The same seed gives the same bytes on the same machine.

    Examples: python -m evidence verification; python -m evidence verification --regime nstorm/smooth --json
    """
    import json
    from dataclasses import replace

    from evidence.verification import FULL, QUICK, verify
    from evidence.verification import broken as mistakes
    from evidence.verification.page import load
    from gladstorm.core.rules import SEED
    from gladstorm.jobs.files import write_text

    SEED.require("verification", "seed", seed)
    parts_folder = kept_in("verification", out, store, "parts", files=["verify.json"])
    with computing(parts_folder, workers, scheduler) as executor:
        if broken:
            rows = mistakes.find_all(load(out)["confidence"]["random_numbers"])
            write_text(out / "broken.json", json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
            return
        report = verify(replace(FULL if full else QUICK, seed=seed), tuple(regime or ()), parts_folder, executor)
    with saving("--out", out / "verify.json", report.save):
        if not as_json:
            _print(report.as_dict(), report.failures)
    if not report.holds:
        raise typer.Exit(1)


def _print(answer: dict[str, Any], failures: "Iterable[Verdict]") -> None:
    rows = []
    confidence, longest = answer["confidence"], answer["settings"]["horizons"][-1]
    title = f"E‖∇f(x̂)‖ and the estimator's error, divided by their bounds, at T = {longest:,}; slopes over all T"
    caption = (
        f"{confidence['numbers']} different numbers, {confidence['method']}: the probability that any interval is "
        f"wrong is at most {confidence['family']:g}. A slope confirms the schedule, not the noise exponent; "
        "--json says what each check proves."
    )
    for case in answer["cases"]:
        slope = _plus_minus(*case["slope"]) if case["slope"] else "not testable"
        tight = {kind: ratios[-1] for kind, ratios in case["tightness"].items()}
        sharpest = max((tight[kind] for kind in ("sharper bound", "wrapper bound") if kind in tight), default=None)
        shown = [in_digits(ratio, 2) for ratio in (tight["bound"], sharpest, tight.get("estimator error"))]
        verdict = "✓" if case["holds"] else "✗"
        rows.append([case["regime"], case["instance"], f"{case['rate']:.4g}", slope, *shown, verdict])
    headings = ("regime", "instance", "rate", "slope", "paper", "sharper", "error", "ok")
    show(Table(title, headings, rows, caption, words=8, drop=(6, 5, 2, 3, 4, 1)))
    for check in answer["checks"]:
        if check["check"] == "printed bound is false":
            say(
                f"{check['regime']}: measured {check['measured']:.4g} [{check['low']:.4g}, {check['high']:.4g}] at "
                f"T = {check['horizon']:,}, which is {check['claim']}: the first is printed, the second corrected."
            )
    for failed in failures:
        row = failed.as_dict()
        typer.echo(
            f"FAILS {row['regime']}, {row['instance']}, {row['check']}, T = {row['horizon']:,}: measured "
            f"{row['measured']} [{row['low']}, {row['high']}], claimed {row['claim']}.",
            err=True,
        )


def _plus_minus(value: float, low: float, high: float) -> str:
    return f"{value:.3f} ± {(high - low) / 2:.3f}"
