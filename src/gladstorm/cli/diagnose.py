"""`gladstorm diagnose`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from gladstorm.cli.app import AsJson, app
from gladstorm.cli.job import FIGURES, PAGES, require_file, saving
from gladstorm.cli.output import Table, say, say_code, show, show_json

if TYPE_CHECKING:
    from gladstorm.diagnosis import Report


@app.command(short_help="Report from probes whether a model's noise grows.")
def diagnose(
    run: Annotated[Path, Argument(help="A parquet file of probes, written by NoiseProbe or report.probes.save.")],
    horizon: Annotated[
        int | None,
        Option(help="Mini-batch gradients of your training; with --gap, a theorem gives numbers if one applies."),
    ] = None,
    gap: Annotated[float | None, Option(help="Δ = f(x⁰) − inf f, which probes cannot measure.")] = None,
    alpha: Annotated[
        float | None, Option(help="α to use instead of the measured one; 0: curvature does not grow.")
    ] = None,
    batch: Annotated[
        int | None, Option(help="Samples in a mini-batch of your training. [default: as many as in a probe]")
    ] = None,
    max_norm: Annotated[
        float | None, Option(help="The threshold at which your training clips gradients, to be told what that does.")
    ] = None,
    plot: Annotated[Path | None, Option(help="Draw noise and smoothness into this file (png, pdf, svg).")] = None,
    page: Annotated[
        Path | None, Option(help="Write all of it as one page to explore, offline, to this file (html).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Report whether noise grows with the distance travelled, how smooth the loss is, and which method fits.

    Every quantity has a 95 % interval and a verdict: estimated, not identifiable (and what would help), or no growth.

    Example: gladstorm diagnose run.parquet --horizon 10000 --gap 2.3 --alpha 0
    """
    require_file("diagnose", "--plot", plot, FIGURES)
    require_file("diagnose", "--page", page, PAGES)
    from gladstorm.diagnosis import Probes
    from gladstorm.diagnosis import diagnose as fit

    report = fit(Probes.load(run))
    questions: dict[str, Any] = {"horizon": horizon, "gap": gap, "alpha": alpha, "batch": batch, "max_norm": max_norm}
    content = report.as_dict(**questions)
    if plot is not None:
        from gladstorm.diagnosis.page import diagnosis_figure
        from gladstorm.plotting import figures

        figures.save(diagnosis_figure(report), plot)
    with saving("--page", page, lambda path: report.explore(path, title=f"Noise of {run.name}", **questions)):
        show_json(content) if as_json else _print(report, content, questions)


def _print(report: "Report", content: dict[str, Any], questions: dict[str, Any]) -> None:
    from gladstorm.diagnosis.report import HEADINGS

    title = f"{len(report.probes)} probes up to {report.probes.radius:.3g} from the start"
    show(Table(title, HEADINGS, report.rows, words=5, drop=(4,)))
    advice = report.recommend(**questions)
    say(*report.sentences())
    for line in advice.text.splitlines():
        (say_code if line.partition(":")[0] in advice.actions else say)(line)
    numbers = {name: value for name, value in content["recommendation"].items() if name != "why" and value is not None}
    if numbers:
        say(", ".join(f"{name} {value}" for name, value in numbers.items()))
