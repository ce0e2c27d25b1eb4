"""The page of tightness, its figures and its problems, from tightness.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from evidence.page import reader, regime_in_words, rendered
from evidence.tightness.measuring import MARGIN, TABLE_FORMAT
from gladstorm.jobs.files import save_json
from gladstorm.plotting import figures
from gladstorm.plotting.styles import LOOKS
from gladstorm.worst import FORMAT
from gladstorm.worst.figures import instance

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
load = reader("tightness.json", TABLE_FORMAT)  # the table over all regimes


def render(result: Mapping[str, Any]) -> str:
    """The page; that of a trial has one table."""
    rows, any_kind, noise = result["rows"], _best(result["rows"], "any"), _best(result["rows"], "noise")
    if len(any_kind) < len(BEFORE):
        return rendered(__file__, globals() | {"trial": True, "rows": rows})
    last = [row["rungs"][-1] for row in rows]
    alone = [rung for rung in last if rung["kind"] == "noise" and rung["problem"]["alpha"] > 0]
    values = {
        "trial": False,
        "any_kind": any_kind,
        "noise": noise,
        "audit": max(max(rung["audit"].values()) for rung in last),
        "seeds": last[0]["seeds"],
        "to_sharper": [name for name, row in noise.items() if _low(row, "sharper") >= 1 / 3],
        "to_bound": [name for name, row in noise.items() if _low(row, "bound") >= 1 / 3],
        "attained": min(_tightest(row) for row in rows if row["regime"].endswith("deterministic")),
        "looser": [rung["bound"] / (rung["sharper"] or rung["bound"]) for rung in alone],
    }
    return rendered(__file__, globals() | dict(result) | values)


def problems(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The worst problem of each regime at the longest horizon, by the name of its file."""
    return {f"{name.replace('/', '-')}.json": row["rungs"][-1] for name, row in _worst(rows).items()}


def _worst(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Of every regime the row that says most: the worst of noise alone, and without noise the worst of all."""
    return _best(rows, "any") | _best(rows, "noise")


def _best(rows: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Mapping[str, Any]]:
    """Of every regime the row of this kind that is closest to its sharpest bound; its gap is within what is allowed."""
    best: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        allowed = kind == "any" or row["rungs"][-1]["gap_share"] <= 0.1
        if row["kind"] == kind and allowed:
            known = best.get(row["regime"])
            if known is None or _tightest(row) > _tightest(known):
                best[row["regime"]] = row
    return best


def _tightest(row: Mapping[str, Any]) -> float:
    last = row["rungs"][-1]
    return max(float(last["ratio"]), float(last["ratio_to_sharper"] or 0))


def _low(row: Mapping[str, Any], bound: str) -> float:
    last = row["rungs"][-1]
    return float(last["interval"][0]) / float(last[bound] or last["bound"])


def constants(rung: Mapping[str, Any]) -> list[str]:
    """The constants of a problem that are not 0, and how the method was tuned."""
    problem = rung["problem"]
    constants = [f"{name} {problem[name]:g}" for name in ("L0", "L1", "B", "G") if problem[name]]
    return [*constants, f"Δ {problem['gap']:g}", f"γ0 {rung['gamma0']:.3g}", f"η0 {rung['eta0']:g}"]


def order(row: Mapping[str, Any]) -> str:
    """Whether the measurement falls as slowly as the sharpest bound."""
    of_bound = row["slope_of_bound"] if row["slope_of_sharper"] is None else row["slope_of_sharper"]
    _, low, high = row["slope"]
    if low >= of_bound - MARGIN:
        return "attained"
    return "falls faster" if high < of_bound - MARGIN else "cannot tell"


def draw(folder: Path) -> None:
    """The figures, and the worst problem of each regime as data for `gladstorm worst --again`."""
    result = load(folder)
    for name, problem in problems(result["rows"]).items():
        save_json(folder / name, FORMAT, dict(problem))
    each_regime = sorted(_worst(result["rows"]).values(), key=lambda row: list(BEFORE).index(row["regime"]))
    figures.save(ratios(each_regime), folder / "ratios.png")
    figures.save(ratios(result["rows"]), folder / "settings.png")
    noise = _best(result["rows"], "noise")
    for name, file in DRAWN.items():
        if name in noise:  # --quick has some regimes only
            figures.save(instance(noise[name]["rungs"][-1]), folder / file)


def ratios(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Measured over bound and over the sharper bound, for every setting at the longest horizon."""
    figure = Figure(figsize=(7, 1.1 + 0.17 * len(rows)), layout="constrained")
    ax = figure.subplots()
    for place, row in enumerate(rows):
        last, colour = row["rungs"][-1], LOOKS[row["regime"].split("/")[0].upper()].colour
        both = [ratio for ratio in (last["ratio"], last["ratio_to_sharper"]) if ratio is not None]
        ax.plot(both, [place] * len(both), color=colour, linewidth=0.6, alpha=0.5)
        ax.plot([last["ratio"]], [place], "o", color=colour, markerfacecolor="none", markersize=4)
        if last["ratio_to_sharper"] is not None:
            ax.plot([last["ratio_to_sharper"]], [place], "o", color=colour, markersize=4)
    ax.axvline(1 / 3, color="#bbbbbb", linewidth=0.8)
    ax.axvline(1, color="black", linewidth=0.8)
    ax.set(xscale="log", ylim=(len(rows) - 0.3, -0.7))
    ax.set_yticks(range(len(rows)), [f"{regime_in_words(row['regime'])}: {row['leading']}" for row in rows], fontsize=6)
    ax.tick_params(axis="x", labelsize=7)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel(
        "mean gradient norm on the worst problem found, divided by its bound\n"
        "black line, 1: attained; grey line: 1/3; empty: the paper's bound; full: the sharper bound\n"
        "after the colon: which term of the bound leads",
        fontsize=7,
    )
    return figure
