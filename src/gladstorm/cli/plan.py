"""`gladstorm plan` and `gladstorm table`: what the theorems say. Nothing heavier than typer is imported for --json."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gladstorm.cli.app import AsJson, app
from gladstorm.cli.output import show, show_json
from gladstorm.cli.places import require_figure

if TYPE_CHECKING:
    from rich.table import Table

    from gladstorm import theory


@app.command(short_help="Print a theorem's step size, conditions and bound.")
def plan(
    method: Annotated[str, typer.Argument(help="nsgdm or nstorm.")],
    alpha: Annotated[float, typer.Option(help="How curvature grows with the gradient: 0 not at all, up to 1.")],
    B: Annotated[float, typer.Option("--B", help="Growth of the noise with distance; 0 for bounded variance.")],
    G: Annotated[float, typer.Option("--G", help="Noise at the start; 0 with B = 0 for exact gradients.")],
    gap: Annotated[float, typer.Option(help="Δ = f(x⁰) − inf f.")],
    L0: Annotated[float | None, typer.Option("--L0", help="Smoothness constant of f (nsgdm) or its oracle.")] = None,
    L1: Annotated[float | None, typer.Option("--L1", help="Growth constant, for alpha > 0.")] = None,
    L: Annotated[
        float | None,
        typer.Option(
            "--L",
            help="Mean-square smoothness, for nstorm with alpha = 0: √(L0² + B²) if noise is added to f.",
        ),
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="T, the number of iterates.")] = None,
    eps: Annotated[float | None, typer.Option(help="Accuracy to guarantee, instead of a horizon.")] = None,
    gamma0: Annotated[
        float | None, typer.Option(help="Step constant γ0; default: the best the theorem admits.")
    ] = None,
    eta0: Annotated[float | None, typer.Option(help="Momentum constant η0 in (0, 1]; default 1.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="NSGDM and NSTORM side by side, from f's constants.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the bound against T into this file (png, pdf, svg).")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the schedule that a theorem prescribes, its conditions, its bound term by term, and what an accuracy costs.

    Example: gladstorm plan nstorm --alpha 0.5 --L0 1.5 --L1 0.25 --B 0.4 --G 0.7 --gap 3 --horizon 10000
    """
    from gladstorm import theory  # not before: --help does without

    require_figure("plan", "--plot", plot)
    given: dict[str, Any] = {"alpha": alpha, "L0": L0, "L1": L1, "L": L, "B": B, "G": G, "gap": gap}
    asked: dict[str, Any] = {"horizon": horizon, "eps": eps, "gamma0": gamma0, "eta0": eta0}
    if compare:
        if method not in theory.COVERED_METHODS:
            raise ValueError(f"plan: method must be one of {', '.join(theory.COVERED_METHODS)}; got method={method!r}.")
        problem = theory.Problem(**given)
        for name in theory.REGIMES["nsgdm", problem.smoothness, problem.noise].needs():
            if given[name] is None:
                raise ValueError(
                    f"plan: --{name} must be given with --compare, which reads the constants of f; got {name}=None."
                )
        oracles = theory.wrapped(problem)
        both: dict[str, Any] = {"L0": oracles.L0, "L1": oracles.L1, "L": oracles.L if L is None else L}
        plans = [theory.plan("nsgdm", **given, **asked), theory.plan("nstorm", **(given | both), **asked)]
    else:
        plans = [theory.plan(method, **given, **asked)]
    crossing = theory.overtakes(plans[1].statement, plans[0].statement) if compare else None
    if plot is not None:
        _draw(plans, crossing, plot)
    if as_json and compare:
        compared = {each.statement.method: each.as_dict() for each in plans}
        show_json(compared | {"nstorm_ahead_from": crossing})
    elif as_json:
        show_json(plans[0].as_dict())
    else:
        for each in plans:
            show(*_tables(each))
        if compare:
            typer.echo(_comparison(crossing))
    violations = [sentence for each in plans for sentence in each.statement.violations()]
    for sentence in (*(remark for each in plans for remark in each.remarks), *violations):
        typer.echo(sentence, err=True)
    if violations:
        raise typer.Exit(1)


@app.command(short_help="Print the complexities of the paper and of other work.")
def table(as_json: AsJson = False) -> None:
    """Print how many stochastic gradients an accuracy takes: this paper's eighteen regimes, related work, lower bounds.

    Example: gladstorm table
    """
    from gladstorm import theory

    if as_json:
        show_json([row.as_dict() for row in theory.rows()])
        return
    from rich.table import Table

    printed = Table(title="Stochastic gradients for E‖∇f‖ ≤ ε", title_justify="left")
    for heading in ("work", "method", "smoothness", "noise", "complexity"):
        printed.add_column(heading)
    for row in theory.rows():
        printed.add_row(*row.as_dict().values())
    show(printed)


def _tables(planned: "theory.Plan") -> "list[Table]":
    from rich.table import Table

    answer = planned.as_dict()
    title = f"{answer['method'].upper()}, α = {answer['alpha']:g}, noise: {answer['noise']}, T = {answer['horizon']:,}"
    schedule = Table(title=title, title_justify="left", caption=answer["source"], caption_justify="left")
    for heading in ("γ", "η", "N_init", "λ", "stochastic gradients", "rate"):
        schedule.add_column(heading)
    weight = "" if answer["lambda"] is None else f"{answer['lambda']:.6g}"
    rate = f"T^-{planned.statement.rate}" if answer["rate"] != round(answer["rate"], 4) else f"T^-{answer['rate']:g}"
    numbers = (
        f"{answer['gamma']:.6g}",
        f"{answer['eta']:.6g}",
        f"{answer['n_init']:,}",
        weight,
        f"{answer['sfo']:,}",
        rate,
    )
    schedule.add_row(*numbers)

    conditions = Table(title="conditions", title_justify="left")
    for heading in ("statement", "left", "right", "holds"):
        conditions.add_column(heading)
    for condition in answer["conditions"]:
        sides = (f"{condition['left']:.6g}", f"{condition['right']:.6g}", "✓" if condition["holds"] else "✗")
        conditions.add_row(condition["statement"], *sides)

    terms = Table(title="bound on E‖∇f(x̂)‖", title_justify="left", caption=_caption(planned), caption_justify="left")
    for heading in ("term", "coefficient", "decay", "value", "share"):
        terms.add_column(heading, justify="left" if heading == "term" else "right")
    for term in sorted(answer["terms"], key=lambda term: -term["value"]):
        share = f"{100 * term['value'] / answer['bound']:.1f} %"
        decay = f"T^-{term['exponent']:.4g}"
        terms.add_row(term["name"], f"{term['coefficient']:.5g}", decay, f"{term['value']:.5g}", share)
    terms.add_section()
    terms.add_row("sum", "", "", f"{answer['bound']:.5g}", "")
    return [schedule, *([conditions] if answer["conditions"] else []), terms]


def _caption(planned: "theory.Plan") -> str:
    from gladstorm import theory

    statement, T = planned.statement, planned.horizon
    largest = max(statement.terms(T), key=lambda term: term.value)
    lines = [f"dominated by {largest.name!r}"]
    if statement.errata:
        wrong = ", ".join(statement.errata)
        lines.append(f"as printed in the paper: {statement.bound_as_printed(T):.5g} (see docs/errata.md, {wrong})")
    sharper = theory.sharper(statement, T)
    if sharper is not None and all(condition.holds for condition in sharper.conditions()):
        lines.append(f"a sharper valid bound: {sharper.bound:.5g} ({sharper.source})")
    if T < 10**200:
        half = statement.horizon(statement.bound(T) / 2)
        lines.append(f"half this bound takes T = {half:.4g} and {statement.sfo(half):.4g} stochastic gradients")
    return "\n".join(lines)


def _comparison(crossing: int | None) -> str:
    if crossing is None:
        return "NSTORM's bound stays above NSGDM's at every horizon, with these tunings."
    if crossing == 1:
        return "NSTORM's bound is below NSGDM's at every horizon, with these tunings."
    return f"NSTORM's bound is below NSGDM's from T = {crossing:,} on, with these tunings."


def _draw(plans: "list[theory.Plan]", crossing: int | None, path: Path) -> None:
    from gladstorm.plotting import figures

    figures.save(figures.bounds(plans, crossing), path)
