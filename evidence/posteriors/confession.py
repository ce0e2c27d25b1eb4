"""The page's part about the third validation: sentences, seconds, errors against NUTS, and operating curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from evidence.page import Sentence, markdown_table
from evidence.posteriors.results import CheckedCase, CheckedFit, ThirdValidation, Ways, WayToPosterior
from gladstorm.plotting.styles import BLACK, COLOURS, GREY, LINES

SMALLEST, LARGEST = 0.01, 1e8  # gaps that count as these
NEAR = 1.0  # nat
MEAN, SDS = 0.1, (0.8, 1.2)  # errors that a fit which says nothing may have
KHAT = 0.7  # of a fit that a flow is tried on
MEAN_FIELD, FULL_RANK = "mean field", "full rank"
OURS = "ours"
Rule = Callable[[CheckedFit], bool]
Score = Callable[[CheckedFit], float]


def good(fit: CheckedFit) -> bool:
    """Whether a fit is within a nat of the best."""
    return fit.gap is not None and fit.gap < NEAR


def right(fit: CheckedFit) -> bool | None:
    """Whether its means and deviations are those of NUTS; None where NUTS is no reference."""
    if not fit.sds:
        return None
    numbers = [each for each in (fit.mean, *fit.sds) if each is not None]
    return len(numbers) == 3 and numbers[0] <= MEAN and numbers[1] >= SDS[0] and numbers[2] <= SDS[1]


def says_nothing(fit: CheckedFit) -> bool:
    """Whether a user has no reason to doubt it."""
    return not fit.warnings and fit.near and fit.steady


def clipped(levels: Iterable[float | None]) -> np.ndarray:
    """Gaps, within what counts."""
    values = np.array([np.nan if each is None else each for each in levels], float)
    return np.asarray(np.clip(np.nan_to_num(values, nan=LARGEST), SMALLEST, LARGEST))


def score(cases: list[CheckedCase], who: str, budget: int) -> float:
    """The geometric mean over models of the median gap."""
    some = [clipped((case.ours if who == OURS else case.rivals[who])[budget]) for case in cases]
    return float(np.exp(np.mean([np.log(np.median(each)) for each in some])))


def fits_of(cases: Iterable[CheckedCase], budgets: Iterable[int]) -> list[CheckedFit]:
    """All fits of some cases at some budgets."""
    return [fit for case in cases for budget in budgets for fit in case.fits[budget]]


def sentences(third: ThirdValidation) -> list[Sentence]:
    """The registered sentences, what was found, and whether they hold."""
    (few, many), cases = third.settings.budgets, third.cases
    mean, full = ([case for case in cases if case.family == family] for family in (MEAN_FIELD, FULL_RANK))
    every, quiet = fits_of(cases, (few, many)), fits_of(full, (many,))
    lost = sum(each is None for case in cases for levels in case.ours.values() for each in levels)
    lost += sum(fit.gap is None for fit in every)
    counted = len(every) + sum(len(levels) for case in cases for levels in case.ours.values())
    fine = sum(good(fit) or bool(fit.warnings) for fit in quiet)
    bad, goods = ([fit for fit in every if good(fit) is which] for which in (False, True))
    told, alarmed = (sum(bool(fit.warnings) for fit in some) for some in (bad, goods))
    silent = [right(fit) for fit in every if says_nothing(fit) and right(fit) is not None]
    rows: list[tuple[str, str, bool | None]] = [
        (
            f"Runs, mean field, {many:,} gradients: the geometric mean over models of the median gap is at most 0.1 "
            "nats.",
            two(score(mean, OURS, many)),
            score(mean, OURS, many) <= 0.1,
        ),
        (
            f"Runs, mean field, {few:,} gradients: at most 0.3 nats.",
            two(score(mean, OURS, few)),
            score(mean, OURS, few) <= 0.3,
        ),
        ("No run and no fit, of both families and budgets, is not finite.", f"{lost} of {counted}", lost == 0),
        (
            f"Fits, full rank, {many:,} steps: at least 98 % are within 1 nat or warn.",
            f"{fine} of {len(quiet)}",
            fine >= 0.98 * len(quiet),
        ),
        (
            "Of bad fits (both families and budgets), at least 95 % warn. Undecided if there are none.",
            f"{told} of {len(bad)}",
            told >= 0.95 * len(bad) if bad else None,
        ),
        ("Of good fits, at most 5 % warn.", f"{alarmed} of {len(goods)}", alarmed <= 0.05 * len(goods)),
        (
            "Of fits that say nothing, at least 80 % have a mean error of at most 0.1 and sds within 20 %.",
            f"{sum(map(bool, silent))} of {len(silent)}",
            sum(map(bool, silent)) >= 0.8 * len(silent) if silent else None,
        ),
    ]
    return [Sentence(*row) for row in rows]


def two(number: float | None) -> str:
    """A number for people, to two digits.

    >>> two(0.0471), two(123.4), two(5e7), two(None)
    ('0.047', '120', '5e+07', '∞')
    """
    if number is None or not np.isfinite(number):
        return "∞"
    return f"{number:.2g}" if abs(number) < 100 or abs(number) >= 1e4 else f"{float(f'{number:.2g}'):.0f}"


def short(model: str) -> str:
    """The name of a model without that of its data; prophet is that of the downloads."""
    return model.partition("-")[2] or model


def worst(sds: list[float | None]) -> float | None:
    """The ratio of standard deviations that is farthest from 1."""
    some = [each for each in sds if each]
    return max(some, key=lambda each: abs(np.log(each))) if len(some) == 2 else None


def _errors(way: WayToPosterior) -> list[str]:
    return [two(way.mean), two(worst(way.sds))] if way.sds else ["–", "–"]


def seconds(ways: Ways) -> str:
    """CPU seconds and errors, a row for each model."""
    heads = ["model", "fit, cold", "again", "new process", "SVI", "NUTS"]
    heads += ["errors: fit", "SVI", "NUTS"]
    rows = []
    for name, each in ways.items():
        fit, new, svi, nuts = (each[what] for what in ("fit", "fit, new process", "SVI", "NUTS"))
        taken = (fit.CPU[0], fit.CPU[1], new.CPU[0], svi.CPU[0], nuts.CPU[0])
        rows.append(
            [short(name), *(f"{value:.2g}" for value in taken), *("; ".join(_errors(w)) for w in (fit, svi, nuts))]
        )
    return markdown_table(heads, rows)


def ratios(ways: Ways) -> dict[str, str]:
    """The geometric means over models of CPU seconds, as shares of SVI's and of NUTS's."""
    taken = {
        "cold": [each["fit"].CPU[0] for each in ways.values()],
        "again": [each["fit"].CPU[1] for each in ways.values()],
        "new": [each["fit, new process"].CPU[0] for each in ways.values()],
    }
    theirs = {what: [each[what].CPU[0] for each in ways.values()] for what in ("SVI", "NUTS")}
    return {
        f"{kind} {what}": f"{np.exp(np.mean(np.log(np.array(ours) / np.array(other)))):.2f}"
        for kind, ours in taken.items()
        for what, other in theirs.items()
    }


def leapfrogs(ways: Ways) -> str:
    """Leapfrogs, CPU seconds and least effective sample size of NUTS three times, a row for each model."""
    kinds = {"NUTS": "its own, diagonal", "NUTS, dense": "its own, dense", "NUTS from the fit": "of the fit"}
    heads = ["model", "mass matrix", "leapfrogs", "CPU s", "wall s", "least ESS", "ESS per CPU s"]
    rows = [
        [
            short(name) if what == "NUTS" else "",
            words,
            f"{each[what].leapfrogs:,}",
            two(each[what].CPU[0]),
            two(each[what].wall[0]),
            two(each[what].ess),
            two((each[what].ess or 0) / each[what].CPU[0]),
        ]
        for name, each in ways.items()
        for what, words in kinds.items()
    ]
    return markdown_table(heads, rows)


def fewer(ways: Ways) -> dict[str, str]:
    """Ranges over models: how many times fewer leapfrogs the matrix of a fit takes, and how many times the seconds."""
    pairs = [(each["NUTS"], each["NUTS from the fit"]) for each in ways.values()]
    leaps = [(own.leapfrogs or 0) / (new.leapfrogs or 1) for own, new in pairs]
    CPU = [new.CPU[0] / own.CPU[0] for own, new in pairs]
    return {"leapfrogs": f"{min(leaps):.0f} to {max(leaps):.0f}", "CPU": f"{min(CPU):.1f} to {max(CPU):.1f}"}


def flows(ways: Ways) -> str:
    """A Gaussian and a flow, a row for each model."""
    heads = ["model", "guide", "ELBO", "k-hat", "ESS of 16,384", "mean error", "worst sd ratio", "CPU s"]
    rows = [
        [
            short(name) if what == "full" else "",
            words,
            "∞" if way.elbo is None else f"{way.elbo:.2f}",
            two(way.khat),
            two(16_384 * (way.efficiency or 0)),
            *_errors(way),
            two(way.CPU[0]),
        ]
        for name, each in ways.items()
        for what, words in (("full", "full rank"), ("flow", "flow"))
        for way in [each[what]]
    ]
    return markdown_table(heads, rows)


def resampled(third: ThirdValidation) -> str:
    """Errors of draws of a fit, and of those that importance weights choose, a row for each model."""
    rows = [
        [
            short(name),
            *(two(error) for kind in ("sample", "resample") for error in (each[kind].mean, worst(each[kind].sds))),
        ]
        for name, each in third.resampled.items()
    ]
    heads = ["model", "`sample`: mean error", "worst sd ratio", "`resample`: mean error", "worst sd ratio"]
    return markdown_table(heads, rows)


def doubtful(third: ThirdValidation) -> int:
    """How many full-rank fits of the first seed have a k-hat that asks for a flow."""
    fits = [case.fits[third.settings.budgets[-1]][0] for case in third.cases if case.family == FULL_RANK]
    return sum(_khat(fit) >= KHAT for fit in fits)


def by_model(third: ThirdValidation) -> str:
    """A row for each model and family: errors against NUTS, what fits say, gaps."""
    few, many = third.settings.budgets
    heads = ["model", "d", "family", "mean error", "worst sd ratio", "warn", "k-hat", "steady", "say nothing"]
    heads += ["right", f"gap, {few:,}", f"gap, {many:,}"]
    rows = []
    for case in third.cases:
        fits = case.fits[many]
        extremes = [worst(fit.sds) for fit in fits]
        judged = [right(fit) for fit in fits]
        rows.append(
            [
                short(case.model),
                str(case.dim),
                case.family,
                two(float(np.median([fit.mean or np.inf for fit in fits]))) if fits[0].sds else "–",
                two(float(np.exp(np.median([np.log(each or np.inf) for each in extremes])))) if fits[0].sds else "–",
                f"{sum(bool(fit.warnings) for fit in fits)} of {len(fits)}",
                f"{np.median([np.inf if fit.khat is None else fit.khat for fit in fits]):.2f}",
                f"{sum(fit.steady for fit in fits)}",
                f"{sum(map(says_nothing, fits))}",
                "–" if None in judged else f"{sum(map(bool, judged))}",
                *(two(float(np.median(clipped(case.ours[budget])))) for budget in (few, many)),
            ]
        )
    return markdown_table(heads, rows)


def overview(cases: list[CheckedCase], budgets: list[int]) -> str:
    """Every method: the geometric means of gaps, and runs within a nat."""
    names = sorted([OURS, *cases[0].rivals], key=lambda name: score(cases, name, budgets[-1]))
    rows = []
    for name in names:
        gaps = np.concatenate(
            [clipped((case.ours if name == OURS else case.rivals[name])[budgets[-1]]) for case in cases]
        )
        label = f"**{name}**" if name == OURS else name
        rows.append(
            [label, *(two(score(cases, name, budget)) for budget in budgets), f"{(gaps < NEAR).sum()} of {gaps.size}"]
        )
    return markdown_table(["", *(f"gap at {b:,}" for b in budgets), f"within 1 nat at {budgets[-1]:,}"], rows)


def missed(third: ThirdValidation) -> str:
    """Bad fits that do not warn, by model, family and budget; how many of how many."""
    return _named(third, lambda fit: not good(fit), lambda fit: not fit.warnings)


def wrong(third: ThirdValidation) -> str:
    """Fits that say nothing and are not right."""
    return _named(third, says_nothing, lambda fit: right(fit) is False)


def _named(third: ThirdValidation, of: Rule, which: Rule) -> str:
    named = []
    for case in third.cases:
        for budget, fits in case.fits.items():
            some = [fit for fit in fits if of(fit)]
            count = sum(map(which, some))
            if count:
                named.append(f"{short(case.model)}, {case.family} at {budget:,} ({count} of {len(some)})")
    return "; ".join(named) or "none"


def alarms(third: ThirdValidation) -> str:
    """How often bad fits and good ones are named by a rule, for both meanings of bad."""
    every = fits_of(third.cases, third.settings.budgets)
    comparable = [fit for fit in every if right(fit) is not None]
    warns = {"`warnings`": _warns}
    nats = warns | {
        "the second start more than 0.1 nats below the first": _above(_behind, 0.1),
        "the second start more than 1 nat below the first": _above(_behind, 1.0),
    }
    errors = warns | {f"k-hat above {level:g}": _above(_khat, level) for level in (0.5, 0.7, 1.0)}
    errors |= {f"an efficiency below {100 * level:g} %": _above(_waste, 1 - level) for level in (0.5, 0.1)}
    errors |= {"the words of k-hat and efficiency": lambda fit: not fit.near}
    errors |= {"`check()`": lambda fit: not fit.steady, "`check()`, a drift twice as large": _above(_drift, 2.0)}
    errors |= {"any of `warnings`, the words, `check()`": lambda fit: not says_nothing(fit)}
    rows = []
    for words, rules, fits, fine in (
        ("1 nat or more from the best", nats, every, good),
        ("errors above 0.1 sd or 20 %", errors, comparable, right),
    ):
        bad, fair = ([fit for fit in fits if bool(fine(fit)) is which] for which in (False, True))
        for number, (name, rule) in enumerate(rules.items()):
            counts = (f"{sum(map(rule, some))} of {len(some)}" for some in (bad, fair))
            rows.append([words if number == 0 else "", name, *counts])
    return markdown_table(["bad is", "a fit is named by", "bad fits named", "good fits named"], rows)


def _above(score: Score, level: float) -> Rule:
    return lambda fit: score(fit) > level


def _warns(fit: CheckedFit) -> bool:
    return bool(fit.warnings)


def _behind(fit: CheckedFit) -> float:
    return np.inf if fit.behind is None else fit.behind


def _khat(fit: CheckedFit) -> float:
    return np.inf if fit.khat is None else fit.khat


def _waste(fit: CheckedFit) -> float:
    return 1 - fit.efficiency


def _drift(fit: CheckedFit) -> float:
    return np.inf if fit.drift is None else fit.drift


def curves(axes: Any, third: ThirdValidation) -> None:
    """Draw the share of bad fits that a threshold names against that of good ones, for both meanings of bad."""
    every = fits_of(third.cases, third.settings.budgets)
    comparable = [fit for fit in every if right(fit) is not None]
    panels: list[tuple[str, list[CheckedFit], Rule, dict[str, Score], Rule]] = [
        (
            "bad: 1 nat or more from the best",
            every,
            good,
            {"second start below the first": _behind},
            _warns,
        ),
        (
            "bad: errors above 0.1 sd or 20 %",
            comparable,
            lambda fit: bool(right(fit)),
            {
                "k-hat": _khat,
                "efficiency": _waste,
                "drift in check()": _drift,
            },
            lambda fit: not says_nothing(fit),
        ),
    ]
    for ax, (title, fits, fine, scores, rule) in zip(axes, panels, strict=True):
        bad, fair = ([fit for fit in fits if fine(fit) is which] for which in (False, True))
        if bad and fair:
            for (name, of), colour, line in zip(scores.items(), COLOURS, LINES, strict=False):
                values = np.array([[of(fit), not fine(fit)] for fit in fits], float)
                levels = np.unique(values[:, 0])[::-1]
                x, y = ([np.mean(values[values[:, 1] == which, 0] >= level) for level in levels] for which in (0, 1))
                ax.plot([0, *x], [0, *y], color=colour, linestyle=line, label=name, drawstyle="steps-post")
            share = [np.mean([rule(fit) for fit in some]) for some in (fair, bad)]
            ax.plot(*share, "o", color=BLACK, label="the fit's own words")
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":")
        ax.set(title=title, xlabel="share of good fits named (lower is better)", xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
        ax.legend(loc="lower right", frameon=False, fontsize=8)
    axes[0].set_ylabel("share of bad fits named")
