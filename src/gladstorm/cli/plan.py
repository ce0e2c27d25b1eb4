"""`gladstorm plan` and `gladstorm table`: what the theorems say. Nothing heavier than typer is imported for --json."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option, echo

from gladstorm.cli import problem
from gladstorm.cli.app import AsJson, app
from gladstorm.cli.job import FIGURES, require_file
from gladstorm.cli.output import Table, say, show, show_json

if TYPE_CHECKING:
    from gladstorm.theory import Plan


@app.command(short_help="Print a theorem's step size, conditions and bound.")
def plan(
    method: Annotated[str, problem.PLANNED_METHOD],
    alpha: Annotated[float, problem.ALPHA],
    B: Annotated[float, problem.B],
    G: Annotated[float, problem.G],
    gap: Annotated[float, problem.GAP],
    L0: Annotated[float | None, problem.L0] = None,
    L1: Annotated[float | None, problem.L1] = None,
    L: Annotated[float | None, problem.L] = None,
    horizon: Annotated[int | None, problem.HORIZON] = None,
    eps: Annotated[float | None, Option(help="Accuracy to guarantee, instead of a horizon.")] = None,
    gamma0: Annotated[float | None, problem.GAMMA0] = None,
    eta0: Annotated[float | None, problem.ETA0] = None,
    growth: Annotated[float | None, problem.NOISE_POWER] = None,
    norm: Annotated[str | None, problem.NORM] = None,
    constants: Annotated[str | None, problem.CONSTANTS] = None,
    decay: Annotated[float | None, problem.DECAY] = None,
    decay_start: Annotated[float, problem.DECAY_START] = 0.0,
    inward: Annotated[float | None, problem.INWARD] = None,
    batch: Annotated[str, problem.BATCH] = "one",
    excess: Annotated[float, problem.EXCESS] = 1.0,
    compare: Annotated[bool, Option("--compare", help="All three methods in one table, from f's constants.")] = False,
    plot: Annotated[Path | None, Option(help="Draw the bound against T into this file (png, pdf, svg).")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the schedule that a theorem prescribes, its conditions, its bound term by term, and what an accuracy costs.

    Example: gladstorm plan nstorm --alpha 0.5 --L0 1.5 --L1 0.25 --B 0.4 --G 0.7 --gap 3 --horizon 10000

    Example: gladstorm plan nsgdm --alpha 0 --L0 1 --B 0.1 --G 1 --gap 1 --eps 0.5 --norm "sign(9)" --constants norm

    Example: gladstorm plan sgd --alpha 0 --L0 1 --B 0.1 --G 1 --gap 1 --eps 0.1 --growth 1 --batch sigma --compare
    """
    from gladstorm import theory  # not before: --help does without

    require_file("plan", "--plot", plot, FIGURES)
    given: dict[str, Any] = {"alpha": alpha, "L0": L0, "L1": L1, "L": L, "B": B, "G": G, "gap": gap}
    given |= {} if growth is None else {"growth": growth}
    given |= {} if norm is None else {"norm": theory.Norm.from_text(norm), "constants": constants}
    given |= {"batch": batch, "excess": excess, "horizon": horizon, "eps": eps, "gamma0": gamma0, "eta0": eta0}
    if decay is not None:
        given["decay"] = theory.Decay(decay, decay_start, inward)
    elif inward is not None or decay_start:
        raise ValueError(f"plan: --decay must be given with --inward and --decay-start; got {inward=}, {decay_start=}.")
    made, refused = theory.compare_plans(**given) if compare else ({method: theory.plan(method, **given)}, {})
    plans = list(made.values())
    crossing = None
    if compare and "nstorm" in made:
        crossing = theory.overtakes(made["nstorm"].statement, made["nsgdm"].statement)
    if plot is not None:
        from gladstorm.plotting import figures

        figures.save(figures.bounds(plans, crossing), plot)
    curve = _trade_off(made["sgd"], batch) if "sgd" in made and batch != "one" else []
    if as_json:
        answers: dict[str, Any] = {name: planned.as_dict() for name, planned in made.items()}
        if curve:
            answers["sgd"]["trade_off"] = curve
        show_json(answers | {"nstorm_ahead_from": crossing, "refused": refused} if compare else answers[method])
    elif compare:
        show(_side_by_side(made, refused))
        if "nstorm" in made:
            where = f"from T = {crossing:,} on" if crossing is not None and crossing > 1 else "at every horizon"
            side = "stays above" if crossing is None else "is below"
            say(f"NSTORM's bound {side} NSGDM's {where}, with these tunings.")
        if "decay" not in given and given.get("growth", 2) == 2 and norm is None:
            say("The constants that were given are f's; NSTORM's are those of f with BG-0 noise added.")
    else:
        show(*_tables(plans[0]))
    if curve and not as_json:
        rows = [[f"{point['excess']:g}", f"{point['steps']:.4g}", f"{point['samples']:.4g}"] for point in curve]
        title = "steps against samples for this bound: (S/S0 − 1)(N/N0 − 1) = 1"
        show(Table(title, ("--excess", "steps", "stochastic gradients"), rows))
    violations = [sentence for planned in plans for sentence in planned.statement.violations()]
    for sentence in (*(remark for planned in plans for remark in planned.remarks), *violations):
        echo(sentence, err=True)
    if violations:
        raise Exit(1)


@app.command(short_help="Print the complexities of the paper and of other work.")
def table(as_json: AsJson = False) -> None:
    """Print how many stochastic gradients an accuracy takes: this paper's eighteen regimes, related work, lower bounds.

    Example: gladstorm table
    """
    from gladstorm import theory

    rows = [row.as_dict() for row in theory.rows()]
    if as_json:
        show_json(rows)
        return
    cells = [list(row.values()) for row in rows]
    show(Table("Stochastic gradients for E‖∇f‖ ≤ ε", list(rows[0]), cells, words=len(rows[0])))


def _trade_off(planned: "Plan", batch: str) -> list[dict[str, float]]:
    """Points of the curve of steps against samples, for the plan's own bound."""
    from gladstorm import theory

    curve = theory.trade_off(planned.problem, planned.statement.bound(planned.horizon), batch)
    points = {excess: curve.at(excess) for excess in (0.1, 0.3, 1.0, 3.0, 10.0)}
    return [{"excess": x, "steps": steps, "samples": samples} for x, (steps, samples) in points.items()]


def _side_by_side(made: "Mapping[str, Plan]", refused: Mapping[str, str]) -> Table:
    from gladstorm.theory.plans import counted

    headings = ("method", "γ", "η", "N_init", "steps", "stochastic gradients", "largest batch", "bound")
    rows, captions = [], [f"{name.upper()}: {why}" for name, why in refused.items()]
    for name, planned in made.items():
        answer = planned.as_dict()
        counts = [counted(answer[field]) for field in ("n_init", "steps", "sfo", "largest_batch")]
        schedule = [f"{answer['gamma']:.4g}", f"{answer['eta']:.4g}"]
        rows.append([name.upper(), *schedule, *counts, f"{answer['measure']} ≤ {answer['bound']:.4g}"])
        captions.append(f"{name.upper()}: {answer['source']}; {answer['class']}")
    first = next(iter(made.values())).problem
    title = f"α = {first.alpha:g}, growth {first.growth:g}, norm {first.norm.name}"
    return Table(title, headings, rows, caption="\n".join(captions), drop=(3, 6, 2))


def _tables(planned: "Plan") -> list[Table]:
    from gladstorm import theory
    from gladstorm.theory.plans import counted

    answer = planned.as_dict()
    title = f"{answer['method'].upper()}, α = {answer['alpha']:g}, noise: {answer['noise']}, T = {answer['horizon']:,}"
    weight = "" if answer["lambda"] is None else f"{answer['lambda']:.6g}"
    rate = f"T^-{planned.statement.rate}" if answer["rate"] != round(answer["rate"], 4) else f"T^-{answer['rate']:g}"
    numbers = [f"{answer['gamma']:.6g}", f"{answer['eta']:.6g}", f"{answer['n_init']:,}", weight, f"{answer['sfo']:,}"]
    headings = ("γ", "η", "N_init", "λ", "stochastic gradients", "rate")
    caption = f"{answer['source']}\n{answer['class']}"
    if answer["growth"] != 2:
        title += f", noise growth {answer['growth']:g}"
    if answer["largest_batch"] > answer["n_init"]:
        title += f", largest batch {counted(answer['largest_batch'])}"
    tables = [Table(title, headings, [[*numbers, rate]], caption=caption, words=6)]
    if answer["conditions"]:
        sides = [
            (
                condition["statement"],
                f"{condition['left']:.6g}",
                f"{condition['right']:.6g}",
                "✓" if condition["holds"] else "✗",
            )
            for condition in answer["conditions"]
        ]
        tables.append(Table("conditions", ("statement", "left", "right", "holds"), sides, words=4))
    rows = []
    for term in sorted(answer["terms"], key=lambda term: -term["value"]):
        share = f"{100 * term['value'] / answer['bound']:.1f} %"
        decay = f"T^-{term['exponent']:.4g}"
        rows.append((term["name"], f"{term['coefficient']:.5g}", decay, f"{term['value']:.5g}", share))
    columns = ("term", "coefficient", "decay", "value", "share")
    total = ("sum", "", "", f"{answer['bound']:.5g}", "")
    statement, T, lines = planned.statement, planned.horizon, [f"dominated by {rows[0][0]!r}"]
    if statement.errata:
        wrong = ", ".join(statement.errata)
        lines.append(f"as printed in the paper: {statement.bound_as_printed(T):.5g} (see docs/errata.md, {wrong})")
    sharper = theory.sharper(statement, T) if statement.of_paper else None
    if sharper is not None and all(condition.holds for condition in sharper.conditions()):
        lines.append(f"a sharper valid bound: {sharper.bound:.5g} ({sharper.source})")
    if T < 10**200:
        half = statement.horizon(statement.bound(T) / 2)
        lines.append(f"half this bound takes T = {half:.4g} and {statement.sfo(half):.4g} stochastic gradients")
    return [
        *tables,
        Table(
            f"bound on {answer['measure']}",
            columns,
            rows,
            "\n".join(lines),
            drop=(2, 1, 4),
            total=total,
        ),
    ]
