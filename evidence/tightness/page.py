"""The page of tightness, its figures and its problems, from tightness.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.tightness.measuring import MARGIN, TABLE_FORMAT
from gladstorm.core.markdown import folded, markdown_table
from gladstorm.jobs.files import load_json, save_json
from gladstorm.plotting import figures
from gladstorm.plotting.styles import regime_in_words
from gladstorm.worst import FORMAT
from gladstorm.worst import figures as worst_figures

MARK = "<!-- written by `python -m evidence tightness` from tightness.json; a test compares -->\n"

# Measured / bound of the better instance of the verification, with --full, at T = 10⁵, before there was a search. There
# the way down, Δ/(γT), was 77 to 100 % of what was measured.
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
A bound can be true and still be far larger than anything that happens. This page shows how far. For every theorem
`gladstorm worst` searched for the problem on which the theorem's method, with the theorem's own step size, has the
largest mean gradient norm E‖∇f(x̂)‖. We divide that norm by the bound. At 1 the bound is attained, so no proof can
lower it. A small ratio means that the bound is loose, or that the search missed a worse problem: a search can only
find lower bounds of the worst case.

{verdict}

![Worst gradient norm found, divided by its bound: one line for each of the 18 regimes](ratios.png)

*Each line is a regime: a method, a class of functions and a class of noise. Closer to 1, the black line, is tighter;
the grey line is at 1/3. Empty circles: the paper's bound. Full circles: the sharper bound of [this
project](../../proofs.md). With noise, only problems count on which noise alone keeps the gradient large. After the
colon: the largest term of the bound.*

**The names.** α says how fast the curvature of f may grow with its gradient, like L0 + L1‖∇f‖^α: at α = 0 the
curvature is bounded, which is the usual smoothness. The variance of growing noise is at most B²‖x − x⁰‖² + G²; it grows
with the distance from the start, and the paper calls it BG-0. Bounded noise has B = 0. The letters are explained in
[notation](../../notation.md).

**Your own constants.** `gladstorm worst` runs the same search for constants that you choose, and
`gladstorm worst --again FILE` measures a problem of this page once more. The files are linked in the first table.

## Regime by regime

Every problem found is a function of one variable inside its class. Its constants are certified by construction and
checked again by their definitions: the largest share of any constant that a problem uses is {audit}. Horizons are
T = {horizons}; the tables show the longest. The search and the report use different seeds. Intervals are Student's,
95 % each, over {seeds} seeds.

A run that starts high has to come down, and a normalized method cannot come down faster than its steps allow: this
alone keeps the mean gradient norm at Δ/(γT) or above, where Δ is the height of the start above the minimum, γ the step
size and T the number of iterates. We call this part *the way down*. "Any problem" in the table is the worst problem of
all; "noise alone" is the worst one on which the way down is at most a tenth of what is measured. "Before the search"
is the largest ratio among the problems of the [verification](../verification/index.md) at T = 10⁵, where the way down
was 77–100 % of the measurement.
"""

TRIAL = """# How tight are the bounds? A trial

This is a trial of {settings} settings and no evidence: the page about all regimes needs the study without `--quick`.

![Measured divided by its bounds, for every setting](settings.png)

{table}
"""

REMARK = """
Without noise the worst problem found is a bowl, as deep as the gap Δ and as steep as the class admits. In all six
regimes without noise it attains at least {attained:.3f} of the sharpest bound, so nothing is left to find there. For
α > 0 the paper's bounds count the way down twice, or 4/3 times for NSGDM with α < 1; no long run of this kind attains
more than 1/2 or 3/4 of them. In the settings with α > 0 and noise alone the paper's bounds are {least} to {most} times
the sharpest. Two of the sharper bounds, S7 and S8, were proved after the column "before the search" was measured.
"""

MEANING = """## Which term of the bound is needed, and how fast it falls

A bound is a sum of terms. In each *setting* below the constants are chosen such that one kind of term is the largest:
the gap (the way down), the noise (terms with G), the growth of the noise (terms with B) or the initial error (of the
first estimate v⁰). We say that this term leads, and ask two questions about it.

- *Does it depend on the constants as the bound says?* Where one term leads, scaling answers this. Multiplying f and the
  noise by t multiplies L0, L, B, G, Δ and ‖∇f‖ by t. Stretching x by s multiplies γ0 by s and divides L0, L and B by s.
- *Does it fall with T as the bound says?* Scaling does not tell, so problems were searched anew at each T, and a slope
  was fitted to the logarithms. The order in T is "attained" if the whole interval of that slope is above the slope of
  the sharpest bound, between the same horizons, minus {margin}. The measured slope may be flatter than the bound's,
  because longer runs have more time to reach a bad place. "Falls faster" means that the bound can be improved, or that
  the search found less at later horizons, where it tries fewer candidates.
"""

LOOSE = """## Where the proofs are loose

Each proof combines two inequalities. *Direction*: a normalized step descends by at least γ(‖∇f‖ − 2‖v − ∇f‖), where v
is the estimate of the gradient, so E‖∇f(x̂)‖ ≤ Δ/(γT) + 2 E‖v − ∇f‖ + curvature. *Error*: E‖v − ∇f‖ is at most what the
bound charges for it. The table shows which share of each inequality the worst problem uses; 1 would mean that the
inequality cannot be improved. The product of the two shares is about the ratio of the measurement to the sharper bound.
"""

PICTURES = """## Two of the problems found

Each row of panels is one problem. On the left is f. In the middle is its gradient; dashed lines mark the mean gradient
norm that was measured. On the right is what a sample adds to the gradient, with the probability of that sample.
"""

QUESTIONS = """## Open questions

**The factor 2 of the direction.** The descent γ(‖∇f‖ − 2‖v − ∇f‖) is attained only where the error v − ∇f is as large
as the gradient and opposite to it. On a line a run passes every place as often upwards as downwards, except near its
ends, and only upward steps have such an error. If x follows the place at which f' cancels the error (NSTORM, "initial
error"), then v ≈ 0 on both kinds of steps and ‖∇f‖ = ‖v − ∇f‖. This uses half of the inequality, and we know no
problem that uses more. *Question 1: is there a problem, in any dimension, on which E‖∇f(x̂)‖ > E‖v − ∇f‖ by a constant
factor, with noise alone?*

**NSGDM's noise term, 2√(η/(2 − η)) G.** Momentum forgets: where f' cancels the error, v = 0, and the next gradient
moves v by η f'. So x cannot rest there, and the error has to be renewed. The best we have is rare and large noise on a
slope, as in the counterexample of the [errata](../../errata.md). With independent samples on a slope its limit is 0.37
√η G, the median of shot noise, which is 0.26 of the term. *Question 2: can noise that depends on the place do better
than 0.26, or can the proof be improved to it?*

**NSGDM's drift, 2 L0 γ (1 − η)/η.** In one dimension f + (γ/η)|v| falls by γ|v| in every step without noise, except for
γ²L0/2 and for what is lost when v changes its sign, at most 2γ|f'|. A cycle that balances the two has a length of
order 1/√η and |f'| of order L0 γ/√η, not L0 γ/η. If this sketch is right, the drift term is too large by 1/√η
without noise, and 1/√η is a power of T. *Question 3: is the drift term needed at its order, as a product with noise,
or is L0 γ/√η + √(L0 γ/η · √η G) enough?*

**Noise growth, B γ K/2.** The proof allows the run to be at the distance γk at every step k, and to have the error of
the noise there. But a run that moves outwards at full speed has no steps left for anything else. If it moves outwards
for a share r of its steps, it has the noise of the distance r γT for the others, and r(1 − r) ≤ ¼ takes the place of ½.
*Question 4: is half of the growth term, or less, enough?*

**E L\\*_sym(α), α > 0.** The problems found use almost nothing of L1. They attain the part of the bound that does not
feed on the gradient. No problem on this page attains the terms with L1, and because of them NSTORM's schedule has only
the rate T^(−1/(4+α)). *Question 5: is there a problem whose sample curvature grows with the gradient, on which NSTORM
needs that rate?*
"""


def render(result: Mapping[str, Any]) -> str:
    """The page."""
    rows = result["rows"]
    if len(_best(rows, "any")) < len(BEFORE) * len(NOISES):
        return TRIAL.format(settings=len(rows), table=_settings(rows))
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
    settings = f"![The same for every setting](settings.png)\n\n{_settings(rows)}"
    return "\n".join(
        [
            opening,
            folded("The 18 regimes in numbers", _regimes(rows)),
            remark,
            MEANING.format(margin=MARGIN),
            folded(f"All {len(rows)} settings, as a figure and in numbers", settings),
            "",
            LOOSE,
            folded("The shares used in every setting with noise alone", _uses(rows)),
            "",
            PICTURES,
            _pictures(),
            QUESTIONS,
        ]
    )


def verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many noisy regimes are within a factor of three, by the lower end of the interval."""
    found = _best(rows, "noise")
    to_sharper = [name for name, row in found.items() if _low(row, "sharper") >= 1 / 3]
    to_bound = [name for name, row in found.items() if _low(row, "bound") >= 1 / 3]
    names = "; ".join(map(regime_in_words, to_sharper)) or "none"
    return (
        f"**Where noise alone counts, a problem within a factor 3 of the sharper bound was found in {len(to_sharper)} "
        f"of {len(found)} noisy regimes, and within a factor 3 of the paper's own bound in {len(to_bound)} of them.** "
        f"The {len(to_sharper)} are: {names}."
    )


def problems(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The worst problem of each regime at the longest horizon, by the name of its file."""
    return {f"{name.replace('/', '-')}.json": row["rungs"][-1] for name, row in _worst(rows).items()}


def _worst(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Of every regime the row that says most: the worst of noise alone, and without noise the worst of all."""
    return _best(rows, "any") | _best(rows, "noise")


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


def _place(row: Mapping[str, Any]) -> int:
    """The place of a regime in the tables."""
    return [f"{start}/{kind}" for start in BEFORE for kind in NOISES].index(row["regime"])


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
            file = f"{name.replace('/', '-')}.json"
            row = [f"[{regime_in_words(name)}]({file})", f"{before:.2g}", *_ratios(free)]
            row.append(f"{free['ratio'] / before:.3g}")
            if name in noise:
                alone = noise[name]["rungs"][-1]
                row += [noise[name]["leading"], *_ratios(alone), f"{100 * alone['gap_share']:.1f} %"]
            else:
                row += ["", "", "", ""]
            cells.append(row)
    of_any = ("before the search / paper's bound", "any problem / paper's bound", "any problem / sharper bound")
    alone = ("noise alone / paper's bound", "noise alone / sharper bound", "way down there")
    return markdown_table(["regime", *of_any, "times before", "noise alone: leading term", *alone], cells)


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
                _setting(row),
                ", ".join([*constants, *tuning]),
                f"{last['measured']:.4g} ({low:.4g} to {high:.4g})",
                f"{last['bound']:.4g}",
                "" if last["sharper"] is None else f"{last['sharper']:.4g} ({source})",
                f"{slope:.3f} ({low_slope:.3f} to {high_slope:.3f})",
                f"{row['slope_of_bound']:.3f}",
                order(row),
            )
        )
    measured = ("measured ‖∇f‖ (95 % interval)", "paper's bound", "sharper bound", "slope (95 % interval)")
    return markdown_table(["setting", "constants", *measured, "slope of the paper's bound", "order in T"], cells)


def _setting(row: Mapping[str, Any]) -> str:
    """A regime in words and its leading term, as in the figure."""
    return f"{regime_in_words(row['regime'])}: {row['leading']}"


def order(row: Mapping[str, Any]) -> str:
    """Whether the measurement falls as slowly as the sharpest bound."""
    of_bound = row["slope_of_bound"] if row["slope_of_sharper"] is None else row["slope_of_sharper"]
    _, low, high = row["slope"]
    if low >= of_bound - MARGIN:
        return "attained"
    return "falls faster" if high < of_bound - MARGIN else "cannot tell"


def _uses(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [_setting(row), f"{row['uses']['direction']:.2f}", f"{row['uses']['error']:.2f}"]
        for row in rows
        if row["uses"]["error"] is not None and row["kind"] == "noise"
    ]
    return markdown_table(["setting", "direction", "error"], cells)


def _pictures() -> str:
    return "\n".join(
        f"![The worst problem found: {regime_in_words(name)}]({file})\n\n*{regime_in_words(name)}.*\n"
        for name, file in DRAWN.items()
    )


def load(folder: Path) -> dict[str, Any]:
    """The table over all regimes."""
    return load_json("tightness", folder / "tightness.json", TABLE_FORMAT)


def draw(folder: Path) -> None:
    """The figures, and the worst problem of each regime as data for `gladstorm worst --again`."""
    result = load(folder)
    for name, problem in problems(result["rows"]).items():
        save_json(folder / name, FORMAT, dict(problem))
    each_regime = sorted(_worst(result["rows"]).values(), key=_place)
    figures.save(worst_figures.tightness({"rows": each_regime}), folder / "ratios.png")
    figures.save(worst_figures.tightness(result), folder / "settings.png")
    noise = _best(result["rows"], "noise")
    for name, file in DRAWN.items():
        if name in noise:  # --quick has some regimes only
            figures.save(worst_figures.instance(noise[name]["rungs"][-1]), folder / file)
