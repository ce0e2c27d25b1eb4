"""Write docs/tightness.md, its figures and its problems: `python docs/generate_tightness.py [FOLDER]`.

With a folder, that of `gladstorm tightness --out FOLDER`, its results are taken over first. A test compares the page
with the results beside it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gladstorm.foundation.files import load_json, save_json
from gladstorm.foundation.markdown import markdown_table
from gladstorm.pages import figures, worst_figures
from gladstorm.studies.worst import FORMAT, TABLE_FORMAT
from gladstorm.studies.worst.tightness import MARGIN

DOCS = Path(__file__).parent
DATA = DOCS / "tightness"
MARK = "<!-- written by docs/generate_tightness.py from tightness/tightness.json; a test compares -->\n"

# Measured / bound of the better instance of `gladstorm verify --full` at T = 10⁵, before there was a search. There the
# way down, Δ/(γT), was 77 to 100 % of what was measured.
BEFORE = {
    "nsgdm/smooth": (0.073, 0.17, 1.0),
    "nsgdm/sublinear": (0.0060, 0.018, 0.75),
    "nsgdm/linear": (0.034, 0.073, 0.50),
    "nstorm/smooth": (0.55, 0.82, 1.0),
    "nstorm/sublinear": (3.8e-4, 3.5e-3, 0.48),
    "nstorm/linear": (0.15, 0.16, 0.50),
}
NOISES = ("bg0", "bounded", "deterministic")
DRAWN = {"nsgdm/smooth/bounded": "pushed.png", "nstorm/smooth/bg0": "followed.png"}

OPENING = """# How tight the bounds are

{mark}
A valid bound may still be far from the truth. How far? `gladstorm worst` searches a theorem's class for the problem
on which its method, with its own schedule, does worst, and `gladstorm tightness` does so in all eighteen regimes.
This page shows what it found. A ratio of 1 means that a problem attains the bound. A small ratio means a loose bound,
or a search that found too little: a search can only find lower bounds of the worst case.

**{verdict}**

![Worst found over bound, for every setting](tightness/ratios.png)

Every problem is a function of one variable and inside its class. Its constants are certified by construction and
checked by the definitions (the "audit" of every row; the largest use of any constant on this page is {audit}).
Horizons are T = {horizons}. The search and the report use different seeds; intervals are Student's, 95 %, over
{seeds} seeds, each for itself. A regime is named method/smoothness/noise: *smooth* is α = 0, *sublinear* 0 < α < 1,
*linear* α = 1; *bg0* is noise that grows with the distance, *bounded* noise of bounded variance, *deterministic* no
noise.

In the table, "any" is the worst problem of any kind, and "noise" the worst one on which the way down, Δ/(γT), is at
most a tenth of what is measured. "Before" is the better instance of `gladstorm verify` at T = 10⁵, where the way down
was 77–100 % of the measurement. The sharper bounds are those of [proofs](proofs.md); each problem is a file that
`gladstorm worst --again FILE` measures once more.
"""

REMARK = """
Without noise the worst found is a bowl, as deep as the gap and as steep as the class admits. It attains at least
{attained:.3f} of the sharpest bound in all six regimes: nothing is left to find there. The gap leads, here as in the
ratios before, and for α > 0 the paper's bounds charge it twice, or 4/3 times for NSGDM with α < 1: of these no long run
can attain more than 1/2 or 3/4. Of the sharper bounds S7 and S8 are younger than the ratios before: in the noise
settings of α > 0 on this page the paper's bounds are {least} to {most} times the sharpest.
"""

MEANING = """## Which terms, and which of their orders

Each setting has constants that let one kind of term lead. As far as it leads, scaling settles its order in those
constants: multiplying f and the noise by t multiplies L0, L, B, G, Δ and ‖∇f‖ by t; stretching x by s multiplies γ0
by s and divides L0, L and B by s. The order in T it does not settle, so problems are searched anew at each T and a
slope is fitted. It is called attained if its interval lies above the slope of the sharpest bound between the same
horizons less {margin}. A slope may be flatter than the bound's where longer runs have more time to get to a bad place.
"Falls faster" means room in the bound, or a search that found less: fewer candidates are tried at later horizons.
"""

LOOSE = """## Where the proofs are loose

A bound is the product of two inequalities. *Direction*: a normalized step descends by γ(‖∇f‖ − 2‖v − ∇f‖), so
E‖∇f(x̂)‖ ≤ Δ/(γT) + 2 E‖v − ∇f‖ + curvature. *Error*: E‖v − ∇f‖ is at most what the bound charges for it. The table
has the share of each that the worst problem uses, and what is left is a factor of the bound.
"""

QUESTIONS = """## Open questions

**The factor 2 of the direction.** The descent γ(‖∇f‖ − 2‖v − ∇f‖) is attained only where the error is as large as
the gradient and opposite to it. On a line a run passes every place as often upwards as downwards (but for its
ends), and only upward steps have such an error. Where x follows the place at which f' cancels the error (NSTORM,
"initial error"), v ≈ 0 on both kinds of steps, ‖∇f‖ = ‖v − ∇f‖, and the direction is used by half: that is the most
we know how to use. *Question 1: is there a problem, in any dimension, on which E‖∇f(x̂)‖ > E‖v − ∇f‖ by a constant
factor, with noise alone?*

**NSGDM's noise term, 2√(η/(2 − η)) G.** Momentum forgets: where f' cancels the error, v = 0 and the next gradient
moves it by η f'. So x cannot rest there, and the error has to be renewed. The best we have is noise that is rare
and large on a slope, the mechanism of the errata's counterexample. With i.i.d. samples on a slope its limit is 0.37
√η G, that is 0.26 of the term: the median of shot noise. *Question 2: can noise that depends on the place do better
than 0.26, or the proof be improved to it?*

**NSGDM's drift, 2 L0 γ (1 − η)/η.** In one dimension f + (γ/η)|v| falls by γ|v| in every noiseless step but for
γ²L0/2 and for what is lost when v changes its sign, at most 2γ|f'|. A cycle that balances the two has a length of
order 1/√η and |f'| of order L0 γ/√η, not L0 γ/η. If this sketch is right, the drift term is too large by 1/√η
without noise, which is a power of T. *Question 3: is the drift term needed at its order, as a product with noise,
or is L0 γ/√η + √(L0 γ/η · √η G) enough?*

**Noise growth, B γ K/2.** The proof lets the run be at the distance γk at every k, and its error be that of noise
there. But a run that moves outwards at full speed has no steps left for anything else. Carried for a share r of its
steps, it has the noise of r γT for the others: r(1 − r) ≤ ¼ in place of ½. *Question 4: is half of the growth term,
or less, enough?*

**E L\\*_sym(α), α > 0.** The problems found use next to nothing of L1: what they attain is the part of the bound
that does not feed on the gradient. The terms with L1, for which NSTORM's schedule pays the rate T^(−1/(4+α)), are
not attained by anything on this page. *Question 5: is there a problem whose sample curvature grows with the
gradient, on which NSTORM needs that rate?*
"""


def page(result: Mapping[str, Any]) -> str:
    """The page."""
    rows = result["rows"]
    last = [row["rungs"][-1] for row in rows]
    opening = OPENING.format(
        mark=MARK.rstrip(),
        horizons=", ".join(f"{T:,}" for T in result["horizons"]),
        audit=f"{max(max(each['audit'].values()) for each in last):.6f}",
        seeds=last[0]["seeds"],
        verdict=verdict(rows),
    )
    alone = [each for each in last if each["kind"] == "noise" and each["problem"]["alpha"] > 0]
    looser = [each["bound"] / (each["sharper"] or each["bound"]) for each in alone]
    exact = [_tightest(row) for row in rows if row["regime"].endswith("deterministic")]
    remark = REMARK.format(attained=min(exact), least=f"{min(looser):.2g}", most=f"{max(looser):.2g}")
    by_setting = [MEANING.format(margin=MARGIN), _settings(rows), "\n" + LOOSE, _uses(rows), "\n" + _pictures()]
    return "\n".join([opening, _regimes(rows), remark, *by_setting, QUESTIONS])


def verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many noisy regimes are within a factor of three, by the lower end of the interval."""
    found = _best(rows, "noise")
    to_sharper = [name for name, row in found.items() if _low(row, "sharper") >= 1 / 3]
    to_bound = [name for name, row in found.items() if _low(row, "bound") >= 1 / 3]
    names = ", ".join(sorted(to_sharper)) or "none"
    return (
        f"With noise alone, {len(to_sharper)} of {len(found)} noisy regimes are within a factor 3 of the sharper bound "
        f"({names}), and {len(to_bound)} of the paper's own."
    )


def problems(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The worst problem of each regime at the longest horizon, by the name of its file."""
    chosen = _best(rows, "any") | _best(rows, "noise")
    return {f"{name.replace('/', '-')}.json": row["rungs"][-1] for name, row in chosen.items()}


def _best(rows: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Mapping[str, Any]]:
    """Of every regime the row of this kind that is closest to its sharpest bound; its gap is within what is allowed."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        allowed = kind == "any" or row["rungs"][-1]["gap_share"] <= 0.1
        if row["kind"] == kind and allowed:
            known = found.get(row["regime"])
            if known is None or _tightest(row) > _tightest(known):
                found[row["regime"]] = row
    return found


def _tightest(row: Mapping[str, Any]) -> float:
    last = row["rungs"][-1]
    return max(float(last["ratio"]), float(last["ratio_to_sharper"] or 0))


def _low(row: Mapping[str, Any], bound: str) -> float:
    last = row["rungs"][-1]
    return float(last["interval"][0]) / float(last[bound] or last["bound"])


def _regimes(rows: Sequence[Mapping[str, Any]]) -> str:
    any_kind, noise = _best(rows, "any"), _best(rows, "noise")
    cells = []
    for start, ratios in BEFORE.items():
        for kind, before in zip(NOISES, ratios, strict=True):
            name = f"{start}/{kind}"
            free = any_kind[name]["rungs"][-1]
            row = [f"[{name}](tightness/{name.replace('/', '-')}.json)", f"{before:.2g}", *_ratios(free)]
            row.append(f"{free['ratio'] / before:.3g}")
            if name in noise:
                alone = noise[name]["rungs"][-1]
                row += [noise[name]["leading"], *_ratios(alone), f"{100 * alone['gap_share']:.1f} %"]
            else:
                row += ["", "", "", ""]
            cells.append(row)
    headings = ["regime", "before", "any / bound", "any / sharper", "times before"]
    return markdown_table([*headings, "noise alone leads by", "noise / bound", "noise / sharper", "Δ/(γT)"], cells)


def _ratios(rung: Mapping[str, Any]) -> list[str]:
    sharper = rung["ratio_to_sharper"]
    return [f"{rung['ratio']:.3g}", "" if sharper is None else f"{sharper:.3g}"]


def _settings(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = []
    for row in rows:
        last = row["rungs"][-1]
        problem = last["problem"]
        constants = [f"{name} {problem[name]:g}" for name in ("L0", "L1", "B", "G") if problem[name]]
        low, high = last["interval"]
        slope, low_slope, high_slope = row["slope"]
        source = (last["sharper_source"] or "").partition(":")[0]
        tuning = (f"Δ {problem['gap']:g}", f"γ0 {last['gamma0']:.3g}", f"η0 {last['eta0']:g}")
        cells.append(
            (
                f"{row['regime']}, {row['leading']}",
                ", ".join([*constants, *tuning]),
                f"{last['measured']:.4g} ({low:.4g} to {high:.4g})",
                f"{last['bound']:.4g}",
                "" if last["sharper"] is None else f"{last['sharper']:.4g} ({source})",
                f"{slope:.3f} ({low_slope:.3f} to {high_slope:.3f})",
                f"{row['slope_of_bound']:.3f}",
                order(row),
            )
        )
    headings = ["setting", "constants", "measured", "bound", "sharper", "slope", "of the bound", "order in T"]
    return markdown_table(headings, cells)


def order(row: Mapping[str, Any]) -> str:
    """Whether the measurement falls as slowly as the sharpest bound."""
    of_bound = row["slope_of_bound"] if row["slope_of_sharper"] is None else row["slope_of_sharper"]
    _, low, high = row["slope"]
    if low >= of_bound - MARGIN:
        return "attained"
    return "falls faster" if high < of_bound - MARGIN else "cannot tell"


def _uses(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [f"{row['regime']}, {row['leading']}", f"{row['uses']['direction']:.2f}", f"{row['uses']['error']:.2f}"]
        for row in rows
        if row["uses"]["error"] is not None and row["kind"] == "noise"
    ]
    return markdown_table(["setting", "direction", "error"], cells)


def _pictures() -> str:
    return "\n".join(f"![The worst problem found of {name}](tightness/{file})\n" for name, file in DRAWN.items())


def kept() -> dict[str, Any]:
    """The results beside the page."""
    return load_json("generate_tightness", DATA / "tightness.json", TABLE_FORMAT)


def main() -> None:
    """Take results over if there are some, and write everything."""
    DATA.mkdir(exist_ok=True)
    if len(sys.argv) > 1:
        shutil.copyfile(Path(sys.argv[1]) / "tightness.json", DATA / "tightness.json")
    result = kept()
    for name, problem in problems(result["rows"]).items():
        save_json(DATA / name, FORMAT, dict(problem))
    figures.save(worst_figures.tightness(result), DATA / "ratios.png")
    noise = _best(result["rows"], "noise")
    for name, file in DRAWN.items():
        figures.save(worst_figures.instance(noise[name]["rungs"][-1]), DATA / file)
    (DOCS / "tightness.md").write_text(page(result), encoding="utf-8")


if __name__ == "__main__":
    main()
