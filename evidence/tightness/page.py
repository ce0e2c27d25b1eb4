"""The page of tightness, its figures and its problems, from tightness.json."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from evidence.page import regime_in_words, rendered
from evidence.tightness.measuring import MARGIN, TABLE_FORMAT, HorizonLadder, Tightness
from gladstorm.cli.output import Table, show
from gladstorm.core.results import from_json, to_json
from gladstorm.jobs.files import load_json, save_json
from gladstorm.plotting import figures
from gladstorm.plotting.styles import LOOKS
from gladstorm.worst import FORMAT, WorstProblem
from gladstorm.worst.figures import draw_problem

# Measured / bound of the better instance of the verification, with --full, at T = 10⁵, before there was a search. There
# the way down, Δ/(γT), was 77 to 100 % of what was measured.
BEFORE = {
    f"{regime}/{noise}": ratio
    for regime, ratios in {
        "nsgdm/smooth": (0.073, 0.17, 1.0),
        "nsgdm/sublinear": (0.0060, 0.018, 0.75),
        "nsgdm/linear": (0.034, 0.073, 0.50),
        "nstorm/smooth": (0.55, 0.82, 1.0),
        "nstorm/sublinear": (3.8e-4, 3.5e-3, 0.48),
        "nstorm/linear": (0.15, 0.16, 0.50),
    }.items()
    for noise, ratio in zip(("bg0", "bounded", "deterministic"), ratios, strict=True)
}
DRAWN = {"nsgdm/smooth/bounded": "pushed.png", "nstorm/smooth/bg0": "followed.png"}


def load(folder: Path) -> Tightness:
    """Read the results of the study."""
    content = load_json("tightness", folder / "tightness.json", TABLE_FORMAT)
    return from_json(Tightness, {name: content[name] for name in content if name != "format"})


def render(result: Tightness) -> str:
    """Render the page; that of a trial has one table."""
    rows, any_kind, noise = result.rows, _best(result.rows, "any"), _best(result.rows, "noise")
    if len(any_kind) < len(BEFORE):
        return rendered(__file__, globals() | {"trial": True, "rows": rows})
    alone = [row.longest for row in rows if row.kind == "noise" and row.longest.problem.alpha > 0]
    values = {
        "trial": False,
        "rows": rows,
        "horizons": result.horizons,
        "any_kind": any_kind,
        "noise": noise,
        "audit": max(max(row.longest.audit.values()) for row in rows),
        "seeds": len(rows[0].longest.per_seed),
        "to_sharper": [
            name for name, row in noise.items() if 3 * _low(row) >= (row.longest.sharper or row.longest.bound)
        ],
        "to_bound": [name for name, row in noise.items() if 3 * _low(row) >= row.longest.bound],
        "attained": min(_tightest(row) for row in rows if row.regime.endswith("deterministic")),
        "looser": [rung.bound / (rung.sharper or rung.bound) for rung in alone],
    }
    return rendered(__file__, globals() | values)


def print_tables(result: Tightness) -> None:
    """Print the ratios and slopes of every setting."""
    rows = []
    for row in result.rows:
        last = row.longest
        sharper = "" if last.ratio_to_sharper is None else f"{last.ratio_to_sharper:.3f}"
        shares = (f"{100 * (last.gap_share or 0):.1f} %", f"{last.ratio:.3f}", sharper)
        rows.append([row.regime, row.leading, *shares, f"{row.slope.value:.3f}", f"{row.slope_of_bound:.3f}"])
    headings = ("regime", "leading", "Δ/(γT)", "bound", "sharper", "slope", "of the bound")
    show(Table(f"Worst found / bound at T = {result.horizons[-1]:,}", headings, rows, words=2))


def problems(rows: Sequence[HorizonLadder]) -> dict[str, WorstProblem]:
    """Name the file of each regime's worst problem at the longest horizon."""
    return {f"{name.replace('/', '-')}.json": row.longest for name, row in _worst(rows).items()}


def _worst(rows: Sequence[HorizonLadder]) -> dict[str, HorizonLadder]:
    """Choose of every regime the row that says most: the worst of noise alone, and without noise the worst of all."""
    return _best(rows, "any") | _best(rows, "noise")


def _best(rows: Sequence[HorizonLadder], kind: str) -> dict[str, HorizonLadder]:
    """Choose of every regime the row of this kind that is closest to its sharpest bound."""
    best: dict[str, HorizonLadder] = {}
    for row in sorted((row for row in rows if row.kind == kind), key=_tightest):
        best[row.regime] = row
    return {row.regime: best[row.regime] for row in rows if row.regime in best}


def _tightest(row: HorizonLadder) -> float:
    return max(row.longest.ratio, row.longest.ratio_to_sharper or 0.0)


def _low(row: HorizonLadder) -> float:
    return row.longest.measured.low or 0.0


def constants(rung: WorstProblem) -> list[str]:
    """List the constants of a problem that are not 0, and how the method was tuned."""
    given = [f"{name} {value:g}" for name in ("L0", "L1", "B", "G") if (value := getattr(rung.problem, name))]
    return [*given, f"Δ {rung.problem.gap:g}", f"γ0 {rung.gamma0:.3g}", f"η0 {rung.eta0:g}"]


def order(row: HorizonLadder) -> str:
    """Say whether the measurement falls as slowly as the sharpest bound."""
    of_bound = row.slope_of_bound if row.slope_of_sharper is None else row.slope_of_sharper
    low, high = row.slope.low, row.slope.high
    if low is not None and low >= of_bound - MARGIN:
        return "attained"
    return "falls faster" if high is not None and high < of_bound - MARGIN else "cannot tell"


def draw(folder: Path) -> None:
    """The figures, and the worst problem of each regime as data for `gladstorm worst --again`."""
    result = load(folder)
    for name, problem in problems(result.rows).items():
        save_json(folder / name, FORMAT, to_json(problem))
    each_regime = sorted(_worst(result.rows).values(), key=lambda row: list(BEFORE).index(row.regime))
    figures.save(ratios(each_regime), folder / "ratios.png")
    figures.save(ratios(result.rows), folder / "settings.png")
    noise = _best(result.rows, "noise")
    for name, file in DRAWN.items():
        if name in noise:  # --quick has some regimes only
            figures.save(draw_problem(noise[name].longest), folder / file)


def ratios(rows: Sequence[HorizonLadder]) -> Figure:
    """Draw measured over bound and over the sharper bound, for every setting at the longest horizon."""
    figure = Figure(figsize=(7, 1.1 + 0.17 * len(rows)), layout="constrained")
    ax = figure.subplots()
    for place, row in enumerate(rows):
        last, colour = row.longest, LOOKS[row.regime.split("/")[0].upper()].colour
        both = [ratio for ratio in (last.ratio, last.ratio_to_sharper) if ratio is not None]
        ax.plot(both, [place] * len(both), color=colour, linewidth=0.6, alpha=0.5)
        ax.plot([last.ratio], [place], "o", color=colour, markerfacecolor="none", markersize=4)
        if last.ratio_to_sharper is not None:
            ax.plot([last.ratio_to_sharper], [place], "o", color=colour, markersize=4)
    ax.axvline(1 / 3, color="#bbbbbb", linewidth=0.8)
    ax.axvline(1, color="black", linewidth=0.8)
    ax.set(xscale="log", ylim=(len(rows) - 0.3, -0.7))
    ax.set_yticks(range(len(rows)), [f"{regime_in_words(row.regime)}: {row.leading}" for row in rows], fontsize=6)
    ax.tick_params(axis="x", labelsize=7)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel(
        "mean gradient norm on the worst problem found, divided by its bound\n"
        "black line, 1: attained; grey line: 1/3; empty: the paper's bound; full: the sharper bound\n"
        "after the colon: which term of the bound leads",
        fontsize=7,
    )
    return figure
