"""`gladstorm diagnose`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gladstorm.cli.app import AsJson, app
from gladstorm.cli.output import show, show_json
from gladstorm.cli.places import require_figure, require_file, require_matplotlib


@app.command(short_help="Report from probes whether a model's noise grows.")
def diagnose(
    run: Annotated[Path, typer.Argument(help="A parquet file of probes, written by NoiseProbe or report.probes.save.")],
    horizon: Annotated[
        int | None,
        typer.Option(help="Mini-batch gradients of your training; with --gap, a theorem gives numbers if one applies."),
    ] = None,
    gap: Annotated[float | None, typer.Option(help="Δ = f(x⁰) − inf f, which probes cannot measure.")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="α to use instead of the measured one; 0: curvature does not grow.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Samples in a mini-batch of your training. [default: as many as in a probe]")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw noise and smoothness into this file (png, pdf, svg).")] = None,
    out: Annotated[Path | None, typer.Option(help="Write everything as one page to this file (html).")] = None,
    as_json: AsJson = False,
) -> None:
    """Report whether noise grows with the distance travelled, how smooth the loss is, and which method fits.

    Every quantity has a 95 % interval and a verdict: estimated, not identifiable (and what would help), or no growth.

    Example: gladstorm diagnose run.parquet --horizon 10000 --gap 2.3 --alpha 0
    """
    require_figure("diagnose", "--plot", plot)
    require_file("diagnose", "--out", out)
    if out is not None:
        require_matplotlib("diagnose")
    from gladstorm.diagnosis import Probes
    from gladstorm.diagnosis import diagnose as fit

    report = fit(Probes.load(run))
    asked: dict[str, Any] = {"horizon": horizon, "gap": gap, "alpha": alpha, "batch": batch}
    content = report.as_dict(**asked)
    if plot is not None:
        from gladstorm.diagnosis.page import diagnosis_figure
        from gladstorm.plotting import figures

        figures.save(diagnosis_figure(report), plot)
    if out is not None:
        from gladstorm.diagnosis.page import diagnosis_page
        from gladstorm.jobs.files import write_text

        write_text(out, diagnosis_page(report, f"Noise of {run.name}", **asked))
    if as_json:
        show_json(content)
        return
    from rich.table import Table

    table = Table(
        title=f"{len(report.probes)} probes up to {report.probes.radius:.3g} from the start", title_justify="left"
    )
    for heading in ("", "estimate", "95 % interval", "verdict", "meaning"):
        table.add_column(heading)
    for row in report.rows():
        table.add_row(*row)
    show(table)
    for line in (*report.sentences(), f"Advice: {content['recommendation']['why']}"):
        typer.echo(line)
    numbers = {name: value for name, value in content["recommendation"].items() if name != "why" and value is not None}
    if numbers:
        typer.echo(", ".join(f"{name} {value}" for name, value in numbers.items()))
