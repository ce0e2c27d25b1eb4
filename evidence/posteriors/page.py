"""The page of the study and its figures, from results.json. Nothing is run here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from evidence import results as files
from evidence.page import Sentence, markdown_table, rendered
from evidence.posteriors import confession
from evidence.posteriors.results import (
    Bias,
    Errors,
    JudgedFit,
    PosteriorCase,
    PosteriorResults,
    SecondValidation,
    ThirdValidation,
)
from gladstorm.plotting import figures
from gladstorm.plotting.styles import BLACK, COLOURS, GREY, LINES

Cases = list[PosteriorCase]

OURS, TUNED, TUNED_STL = confession.OURS, "tuned Adam", "tuned Adam, STL"
MEAN_FIELD, FULL_RANK = confession.MEAN_FIELD, confession.FULL_RANK
SMALLEST, LARGEST, NEAR = confession.SMALLEST, confession.LARGEST, confession.NEAR
two = confession.two
SHOWN = ("ours", "tuned Adam, STL", "tuned Adam", "Adam 0.01", "ClippedAdam 0.01", "Adam 0.1, cosine")
FLEETING = "fixed draws, L-BFGS"


def load(folder: Path) -> PosteriorResults:
    """Read results.json."""
    return files.load(PosteriorResults, folder / "results.json")


def gaps(case: PosteriorCase, who: str, budget: int) -> np.ndarray:
    """Gaps of every run, within what counts."""
    return confession.clipped((case.ours if who == OURS else case.rivals[who])[budget])


def score(cases: Cases, who: str, budget: int) -> float:
    """The geometric mean over models of the median gap."""
    return float(np.exp(np.mean([np.log(np.median(gaps(case, who, budget))) for case in cases])))


def near(cases: Cases, who: str, budget: int) -> tuple[int, int]:
    """How many runs are within a nat, and how many there are."""
    every = np.concatenate([[], *(gaps(case, who, budget) for case in cases)])
    return int((every < NEAR).sum()), every.size


def warned(cases: Cases, budgets: Iterable[int]) -> dict[bool, tuple[int, int]]:
    """Count fits that are within a nat (True) and that are not (False): how many warn, and how many there are."""
    fits = [fit for case in cases for budget in budgets for fit in case.fits[budget]]
    measured = {}
    for good in (True, False):
        some = [fit for fit in fits if _is_near(fit) == good]
        measured[good] = sum(bool(fit.warnings) for fit in some), len(some)
    return measured


def _is_near(fit: JudgedFit) -> bool:
    return fit.gap is not None and fit.gap < NEAR


def sentences(results: PosteriorResults) -> list[Sentence]:
    """The registered sentences, what was found, and whether they hold; None where there is nothing to decide by."""
    few, many = results.settings.budgets
    judged = [case for case in results.cases if case.set == "validation"] or results.cases
    mean, full = (_of_family(judged, family) for family in (MEAN_FIELD, FULL_RANK))
    ours = {budget: score(mean, OURS, budget) for budget in (few, many)}
    oracle = {budget: score(mean, TUNED_STL, budget) for budget in (few, many)}
    untuned = [name for name in mean[0].rivals if name not in (TUNED, TUNED_STL)]
    rivals = {(name, budget): score(mean, name, budget) for name in untuned for budget in (few, many)}
    closest = min(rivals, key=lambda key: rivals[key] / ours[key[1]])
    runs = [each for case in judged for measured in case.ours.values() for each in measured]
    lost = sum(each is None for each in runs)
    ratio = _slower(results.time, "")
    batches = {name: (_median(each["ours"]), _best(each)) for name, each in results.minibatches.items()}
    rows: list[tuple[str, str, bool | None]] = [
        (
            f"Mean field, {many:,} gradients: the geometric mean of the median gap is at most 0.1 nats.",
            two(ours[many]),
            ours[many] <= 0.1,
        ),
        (f"Mean field, {few:,} gradients: at most 0.3 nats.", two(ours[few]), ours[few] <= 0.3),
        (
            "Mean field: at neither budget is it above that of the tuned Adam with STL gradients.",
            "; ".join(f"{budget:,}: {ours[budget]:.3g} against {oracle[budget]:.3g}" for budget in (few, many)),
            all(ours[budget] <= oracle[budget] for budget in (few, many)),
        ),
        _share_near(mean, many, 90),
        (
            "None of our runs, of both families and budgets, is not finite, and there are at least 500.",
            f"{lost} of {len(runs)}",
            lost == 0 and len(runs) >= 500,
        ),
        _share_near(full, many, 98),
        (
            "Mean field: our geometric mean is below that of every untuned rival, at both budgets.",
            f"closest is {closest[0]} at {closest[1]:,}: {two(ours[closest[1]])} against {two(rivals[closest])}",
            all(ours[budget] < each for (_, budget), each in rivals.items()),
        ),
        *_warnings(judged, few, many),
        (
            "A gradient takes at most 1.1 times as long as in numpyro's SVI with Adam (mean field; ratio of medians, "
            "geometric mean over the models timed).",
            f"{ratio:.2f}" if results.time else "not timed",
            ratio <= 1.1 if results.time else None,
        ),
        (
            "Minibatches (two models with 50,000 and 20,000 rows made by us): our median gap is not above that of the "
            "tuned Adam.",
            "; ".join(f"{name}: {two(own)} against {two(rival)}" for name, (own, rival) in batches.items())
            or "not run",
            all(own <= rival for own, rival in batches.values()) if batches else None,
        ),
    ]
    return [Sentence(*row) for row in rows]


def sentences_again(second: SecondValidation) -> list[Sentence]:
    """The sentences of the second validation."""
    (few, many), cases = second.settings.budgets, second.cases
    mean, full = (_of_family(cases, family) for family in (MEAN_FIELD, FULL_RANK))
    runs = [each for case in cases for measured in case.ours.values() for each in measured]
    lost = sum(each is None for each in runs)
    return [
        _share_near(mean, many, 90),
        _share_near(full, many, 98),
        Sentence("None of our runs is not finite.", f"{lost} of {len(runs)}", lost == 0),
        *_warnings(cases, few, many),
    ]


def _of_family(cases: Cases, family: str) -> Cases:
    return [case for case in cases if case.family == family]


def _share_near(cases: Cases, budget: int, percent: int) -> Sentence:
    (close, total), family = near(cases, OURS, budget), cases[0].family.capitalize() if cases else "Full rank"
    return Sentence(
        f"{family}, {budget:,} gradients: at least {percent} % of our runs are within 1 nat.",
        f"{close} of {total}",
        close >= percent / 100 * total if total else None,
    )


def _warnings(cases: Cases, few: int, many: int) -> list[Sentence]:
    (good, goods), (bad, bads) = (warned(cases, (few, many))[near] for near in (True, False))
    return [
        Sentence(
            "Of fits (four starts; both families and budgets) that are not within 1 nat, at least 90 % warn.",
            f"{bad} of {bads}",
            bad >= 0.9 * bads if bads else None,
        ),
        Sentence(
            "Of fits that are within 1 nat, at most 5 % warn.",
            f"{good} of {goods}",
            good <= 0.05 * goods if goods else None,
        ),
    ]


def _slower(times: dict[str, dict[str, float]], kind: str) -> float:
    """How much longer a step of ours takes than one of SVI: the geometric mean over models."""
    ratios = [each["ours" + kind] / each["SVI" + kind] for each in times.values()]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")


def _median(measured: list[float | None]) -> float:
    return float(np.median([LARGEST if each is None else max(each, SMALLEST) for each in measured]))


def _best(measured: dict[str, list[float | None]]) -> float:
    """The smallest median of a setting that is not ours."""
    return min(_median(each) for name, each in measured.items() if name != OURS)


def overview(cases: Cases, budgets: list[int]) -> str:
    """Every method: the geometric means, and its runs within a nat."""
    names = sorted([OURS, *cases[0].rivals], key=lambda name: score(cases, name, budgets[-1]))
    heads = ["", *(f"gap at {budget:,}" for budget in budgets), f"within 1 nat at {budgets[-1]:,}", "not finite"]
    rows = []
    for name in names:
        close, total = near(cases, name, budgets[-1])
        measured = [case.ours if name == OURS else case.rivals[name] for case in cases]
        lost = sum(each is None for by_budget in measured for some in by_budget.values() for each in some)
        label = f"**{name}**" if name == OURS else name
        rows.append([label, *(two(score(cases, name, b)) for b in budgets), f"{close} of {total}", str(lost)])
    return markdown_table(heads, rows)


def by_model(cases: Cases, budgets: list[int], rivals: Iterable[str]) -> str:
    """A row for each model: our medians, those of some rivals, k-hat, errors."""
    few, many = budgets
    heads = ["model", "set", "d", f"ours, {few:,}", f"ours, {many:,}", f"within 1 nat at {many:,}"]
    heads += [*(f"{name}, {many:,}" for name in rivals), "fits that warn", "k-hat, ours", "best", "errors, ours"]
    rows = []
    for case in cases:
        fits = case.fits[many]
        close, total = near([case], OURS, many)
        khats = [np.inf if fit.khat is None else fit.khat for fit in fits]
        rows.append(
            [
                _short(case.model),
                case.set,
                str(case.dim),
                *(two(float(np.median(gaps(case, OURS, k)))) for k in (few, many)),
                f"{close} of {total}",
                *(two(float(np.median(gaps(case, name, many)))) for name in rivals),
                f"{sum(bool(fit.warnings) for fit in fits)} of {len(fits)}",
                f"{np.median(khats):.2f}",
                "∞" if case.best.khat is None else f"{case.best.khat:.2f}",
                _errors([fit.errors for fit in fits]),
            ]
        )
    return markdown_table(heads, rows)


def _short(model: str) -> str:
    return model.partition("-")[2] or model


def bias_table(bias: Bias) -> str:
    """A row for each optimizer: the error of standard deviations by dimension."""
    dimensions = list(next(iter(bias.values()), {}))
    rows = [[name, *(f"{each[d][0]:+.1f} ± {each[d][1]:.1f}" for d in dimensions)] for name, each in bias.items()]
    return markdown_table(["", *(f"d = {d}" for d in dimensions)], rows)


def _range(counts: list[int]) -> str:
    return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))


def _errors(measured: list[Errors | None]) -> str:
    some = [each for each in measured if each is not None]
    return "; ".join(f"{np.median([each[kind] for each in some]):.2g}" for kind in ("mean", "log sd")) if some else ""


def chains(results: PosteriorResults) -> str:
    """Table of the gradients that NUTS took, and its errors."""
    rows = [[_short(name), f"{chain.gradients:,}", _errors([chain.errors])] for name, chain in results.NUTS.items()]
    return markdown_table(["model", "gradients of NUTS", "its errors"], rows)


def reasons(cases: Cases) -> str:
    """How often each kind of warning was given, by whether the fit was within a nat."""
    counts: dict[str, list[int]] = {}
    for case in cases:
        for fits in case.fits.values():
            for fit in fits:
                for warning in fit.warnings:
                    kind = re.sub(r"^\d+ % of", "Some of", re.split("[:;]", warning)[0].rstrip("."))
                    counts.setdefault(kind, [0, 0])[_is_near(fit)] += 1
    return markdown_table(
        ["warning", "fits not within 1 nat", "fits within"], [[kind, *map(str, each)] for kind, each in counts.items()]
    )


def render(results: PosteriorResults) -> str:
    """Write the page from the results."""
    budgets, judged, cases = results.settings.budgets, sentences(results), results.cases
    sets = {case.set for case in _of_family(cases, MEAN_FIELD)}
    chosen = "validation" if "validation" in sets else "development"

    def some(family: str, which: str) -> Cases:
        return [case for case in _of_family(cases, family) if case.set == which]

    mean, full = some(MEAN_FIELD, chosen), some(FULL_RANK, chosen)
    values = {
        "sentences": judged,
        "hold": sum(bool(sentence.holds) for sentence in judged),
        "counted": {which: len(some(MEAN_FIELD, which)) for which in ("validation", "development")},
        "mean": overview(mean, budgets),
        "full": overview(full, budgets) if full else "",
        "development": overview(some(MEAN_FIELD, "development"), budgets) if len(sets) == 2 else "",
        "evaluations": {budget: _range([case.evaluations[budget] for case in cases]) for budget in budgets},
        "ours_at": {budget: two(score(mean, OURS, budget)) for budget in budgets},
        "adam_at": {budget: two(score(mean, "Adam 0.01", budget)) for budget in budgets},
        "by_model": {
            family: by_model(_of_family(cases, family), budgets, (TUNED_STL, "Adam 0.01"))
            for family in (MEAN_FIELD, FULL_RANK)
        },
        "second": results.second and _again(results.second),
        "third": results.third and _third(results.third),
        "bias": bias_table(results.bias) if results.bias else "",
        "NUTS": results.NUTS,
        "chains": chains(results),
        "reasons": reasons(cases),
        "time": results.time,
        "ratios": {kind: _slower(results.time, kind) for kind in ("", " CPU")},
        "batches": {
            name: {"ours": two(_median(measured["ours"])), "tuned": two(_best(measured))}
            for name, measured in results.minibatches.items()
        },
    }
    return rendered(__file__, vars(results.settings) | values)


def _again(second: SecondValidation) -> dict[str, Any]:
    """Values for the part of the page about the second validation."""
    rivals = {MEAN_FIELD: FLEETING, FULL_RANK: "Pathfinder"}
    return {
        "runs": second.settings.runs,
        "sentences": sentences_again(second),
        "counted": len({case.model for case in second.cases}),
        "reasons": reasons(second.cases),
        "by_model": {
            family: by_model(_of_family(second.cases, family), second.settings.budgets, (rival,))
            for family, rival in rivals.items()
        },
    }


def _third(third: ThirdValidation) -> dict[str, Any]:
    """Values for the part of the page about the method as it is now."""
    judged, budgets = confession.sentences(third), third.settings.budgets
    mean, full = ([case for case in third.cases if case.family == family] for family in (MEAN_FIELD, FULL_RANK))
    return vars(third.settings) | {
        "fits": third.fits,
        "sentences": judged,
        "hold": sum(bool(sentence.holds) for sentence in judged),
        "seconds": confession.seconds(third.seconds),
        "ratios": confession.ratios(third.seconds) if third.seconds else {},
        "by_model": confession.by_model(third),
        "mean": confession.overview(mean, budgets),
        "full": confession.overview(full, budgets),
        "alarms": confession.alarms(third),
        "missed": confession.missed(third),
        "wrong": confession.wrong(third),
        "counted": len(mean),
        "counts": {"seconds": len(third.seconds), "flows": len(third.flows), "doubtful": confession.doubtful(third)},
        "bad_late": sum(not confession.good(fit) for fit in confession.fits_of(third.cases, budgets[-1:])),
        "resampled": confession.resampled(third) if third.resampled else "",
        "fewer": confession.fewer(third.leapfrogs) if third.leapfrogs else {},
        "leapfrogs": confession.leapfrogs(third.leapfrogs) if third.leapfrogs else "",
        "flows": confession.flows(third.flows) if third.flows else "",
        "references": third.references,
        "no_reference": [confession.short(name) for name, each in third.references.items() if not each.good],
    }


def draw(folder: Path) -> None:
    """The profile of gaps, the bias of normalized steps, and what fits say of themselves."""
    results = load(folder)
    many = results.settings.budgets[-1]
    cases = _of_family(results.cases, MEAN_FIELD)
    judged = [case for case in cases if case.set == "validation"] or cases
    _save(folder / "profile.svg", (6.5, 4.2), lambda ax: _profile(ax, judged, many))
    if results.bias:
        _save(folder / "bias.svg", (6.5, 3.8), lambda ax: _bias(ax, results.bias))
    if (third := results.third) is not None:
        figure = Figure(figsize=(9, 4.2), layout="constrained")
        confession.curves(figure.subplots(1, 2), third)
        figures.save(figure, folder / "confession.svg")


def _save(path: Path, size: tuple[float, float], paint: Callable[[Any], None]) -> None:
    figure = Figure(figsize=size, layout="constrained")
    paint(figure.subplots())
    figures.save(figure, path)


def _looks(cases: Cases) -> dict[str, tuple[str, Any]]:
    names = [name for name in (*SHOWN[1:], "Stan's step-size search", FLEETING) if name in cases[0].rivals]
    looks = {name: ([*COLOURS[:6], GREY][j % 7], LINES[j % len(LINES)]) for j, name in enumerate(names)}
    return {OURS: (BLACK, "-")} | looks


def _profile(ax: Any, cases: Cases, budget: int) -> None:
    for name, (colour, line) in _looks(cases).items():
        every = [np.sort(gaps(case, name, budget)) for case in cases]
        values = np.sort(np.concatenate(every))
        shares = np.arange(1, values.size + 1) / values.size
        width = 2.5 if name == OURS else 1.3
        ax.step(values, shares, where="post", color=colour, linestyle=line, linewidth=width, label=name)
    ax.axvline(NEAR, color=GREY, linewidth=0.8, linestyle=":")
    ax.set(xscale="log", xlim=(SMALLEST, 1e4), ylim=(0, 1.02))
    ax.set(xlabel=f"gap after {budget:,} gradients, nats", ylabel="share of runs within it (higher is better)")
    ax.legend(loc="lower right", frameon=False, fontsize=8)


def _bias(ax: Any, bias: Bias) -> None:
    kinds = list(dict.fromkeys(name.split(",")[0] for name in bias))
    for number, (name, by_dimension) in enumerate(bias.items()):
        kind = kinds.index(name.split(",")[0])
        d = np.array(list(by_dimension), float) * (1 + 0.012 * (number - len(bias) / 2))  # side by side
        means, errors = np.array(list(by_dimension.values())).T
        colour = BLACK if kind == len(kinds) - 1 else COLOURS[kind]
        ax.errorbar(d, means, 2 * errors, color=colour, linestyle=LINES[number % 3], capsize=2, label=name)
    ax.axhline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    ax.set(xscale="log", xlabel="dimension", ylabel="error of standard deviations, %")
    dimensions = list(next(iter(bias.values())))
    ax.set_xticks(dimensions, map(str, dimensions))
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize=8)
