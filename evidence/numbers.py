"""Numbers that README and docs repeat from studies and theorems, each under a name.

In a document a number stands behind its name, `<!--untuned.cases-->21<!---->`, which no reader sees. `python -m
evidence.tables` writes all of them anew, and a test compares them.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parent.parent / "docs" / "evidence"
MARKED = re.compile(r"<!--([a-z_]+)\.([^>]+?)-->(.*?)<!---->", re.DOTALL)


def renewed_numbers(text: str) -> str:
    """Return a document with every marked number as the results have it now."""
    return MARKED.sub(lambda mark: f"<!--{mark[1]}.{mark[2]}-->{_number(mark[1], mark[2])}<!---->", text)


def _number(study: str, name: str) -> str:
    if study not in STUDIES or name not in STUDIES[study]():
        names = ", ".join(STUDIES[study]() if study in STUDIES else STUDIES)
        raise ValueError(f"tables: a marked number must be one of {names}; got {study}.{name}.")
    return STUDIES[study]()[name]


@cache
def untuned() -> Mapping[str, str]:
    """Return what the judgement of the untuned method found."""
    from evidence.untuned import page
    from evidence.untuned.rivals import COSINE

    results = page.load(DOCS / "untuned")
    verdicts = [sentence.verdict.strip("*") for sentence in page.sentences(results)]
    near = {name: str(count) for name, count in page.near_the_best(results, 1.5).items()}
    return {
        "cases": str(len(results)),
        "norm": f"{np.median([result.ratio('norm') for result in results]):.2f}",
        "value": f"{np.median([result.ratio('loss') for result in results]):.2f}",
        "below-adam": str(sum(result.ratio("loss", to=COSINE) < 1 for result in results)),
        "sentences": str(len(verdicts)),
        "true": str(verdicts.count("true")),
        "false": str(verdicts.count("false")),
        "near": near["untuned"],
        "near-adam": near["Adam"],
        "near-sgd": near["SGD"],
    }


@cache
def posteriors() -> Mapping[str, str]:
    """Return what the fits of mean-field Gaussians to real posteriors reached, and how many sentences hold."""
    from evidence.posteriors import confession, page

    results = page.load(DOCS / "posteriors")
    judged = [case for case in results.cases if (case.set, case.family) == ("validation", "mean field")]
    sentences = page.sentences(results)
    (warned,) = (sentence.outcome for sentence in sentences if "are not within 1 nat" in sentence.words)
    gaps = {"ours": page.OURS, "adam": "Adam 0.01", "tuned": page.TUNED_STL}
    now: dict[str, str] = {}
    if (third := results.third) is not None:
        again = confession.sentences(third)
        mean = [case for case in third.cases if case.family == confession.MEAN_FIELD]
        now = {"new-models": str(len(mean)), "new-ours": again[0].outcome, "new-sentences": str(len(again))}
        now |= {"new-true": str(sum(bool(each.holds) for each in again))}
        now |= {"new-warned": again[4].outcome, "new-silent": again[6].outcome}
    counts = {"models": len(judged), "sentences": len(sentences), "true": sum(bool(each.holds) for each in sentences)}
    return {
        "warned": warned,
        **now,
        **{name: str(count) for name, count in counts.items()},
        **{name: f"{page.score(judged, method, 10_000):.2g}" for name, method in gaps.items()},
    }


@cache
def suite() -> Mapping[str, str]:
    """Return what the suite found over all its cases: `worse.normalize`, `within.SGD-linear`, `worst.Adam-linear`."""
    from evidence.suite.page import load
    from gladstorm.suite import tables

    result = load(DOCS / "suite")
    numbers = {"problems": str(len(result.problems)), "cases": str(len(result.cases))}
    for answer in result.answers:
        verdicts, deed = [case.verdict for case in answer.cases], answer.deed.replace(" ", "-")
        numbers |= {f"{word}.{deed}": str(verdicts.count(word)) for word in ("better", "worse")}
    for name, mean, worst, best, within, _, diverged in tables.over_cases(result)[1]:
        row = name.replace(", ", "-").replace(" ", "-")
        numbers |= {f"mean.{row}": mean, f"worst.{row}": worst, f"best.{row}": best, f"within.{row}": within}
        numbers[f"diverged.{row}"] = diverged.partition(" ")[0]
    return numbers


@cache
def verification() -> Mapping[str, str]:
    """Return measured norms as percentages of a bound: `nsgdm.low` to `nsgdm.high` over problems at T = 100,000."""
    from evidence.verification.page import load

    report = load(DOCS / "verification")
    horizons = report["settings"]["horizons"]
    numbers: dict[str, str] = {}
    for method in ("nsgdm", "nstorm"):
        cases = [case for case in report["cases"] if case["regime"] == f"{method}/smooth/bg0"]
        last = [100 * case["tightness"]["bound"][-1] for case in cases]
        numbers |= {f"{method}.low": f"{min(last):.0f}", f"{method}.high": f"{max(last):.0f}"}
        for case in cases:
            name = case["instance"].partition(",")[0].replace(" ", "-")
            numbers[f"{method}.{name}"] = f"{100 * case['tightness']['bound'][horizons.index(10_000)]:.0f}"
    return numbers


@cache
def networks() -> Mapping[str, str]:
    """Return ratios to tuned AdamW's loss: `mean.Muon`, `median.Untuned`, `worst.NSGDM-by-layer-.02`, `ahead.Muon`.

    And of NSGDM's relatives to it, `relative.NMARS`.
    """
    from evidence.networks import page
    from evidence.networks.methods import RELATIVES

    results = page.load(DOCS / "networks")
    numbers = {"trainings": str(len(results.finished)), "steps": str(results.extent.steps)}
    numbers["to-Muon"] = f"{page.mean_ratio(results, page.OURS, page.MUON).value:.2f}"
    for name in page.RIVALS:
        row, mean = name.replace(", ", "-").replace(" ", "-"), page.mean_ratio(results, name)
        ends = {"mean": mean.value, "median": page.median(results, name), "worst": page.worst(results, name)[0]}
        numbers |= {f"{word}.{row}": f"{end:.2f}" for word, end in ends.items()}
        numbers[f"ahead.{row}"] = str(page.ahead(results, name))
    for name in RELATIVES:
        numbers[f"relative.{name.split()[0]}"] = f"{page.mean_ratio(results, name, page.BASE).value:.2f}"
    numbers["NMARS-to-decayed"] = f"{page.mean_ratio(results, 'NMARS by layer', page.OURS).value:.2f}"
    return numbers


@cache
def untuned_networks() -> Mapping[str, str]:
    """Return ratios to tuned AdamW's loss at each K: `mean.300.Muon`, `worst.300.Untuned`, `ratio.300.sets.Muon`."""
    from evidence.untuned_networks import page
    from evidence.untuned_networks.methods import CONTESTANTS

    results = page.load(DOCS / "untuned_networks")
    numbers = {"trainings": str(len(results.extent.trainings))}
    for steps, name in product(results.lengths, CONTESTANTS):
        row = f"{steps}.{name.replace(', ', '-').replace(' ', '-')}"
        ends = {"mean": page.mean_ratio(results, steps, name), "median": page.median(results, steps, name)}
        ends["worst"] = page.worst(results, steps, name)[0]
        numbers |= {f"{word}.{row}": f"{end:.2f}" for word, end in ends.items()}
        for training, ratio in page.ratios(results, steps, name).items():
            numbers[f"ratio.{steps}.{training}.{row.split('.')[1]}".replace(" ", "-")] = f"{ratio:.2f}"
    for steps in results.lengths:
        decayed = page.ratios(results, steps, page.OURS, page.NULL)
        numbers[f"decay-helps.{steps}"] = str(sum(ratio < 1 for ratio in decayed.values()))
    if trials := results.development:
        tried = {f"anytime.{steps}": ("anytime", f"late average, 0.01, at {steps} steps") for steps in (250, 500)}
        tried["hundred"] = ("horizons 100", "K = 100, length 0.04")
        tried["long"] = ("horizons 10,000", "K = 10,000, AdamW, best of two rates")
        tried |= {f"batch.{m}": ("batches", f"{m} ×, `scale_batch`") for m in (8, 16)}
        numbers |= {name: f"{page.trial(trials, *row)['mean']:.2f}" for name, row in tried.items()}
    return numbers


@cache
def batches() -> Mapping[str, str]:
    """Return how far the loss of four times larger batches ends above that of small ones: `AdamW.GRU`.

    And of batches that set themselves how often they are close, and the share of steps: `within.safe`, `steps.fast`.
    """
    from evidence.batches import auto_page, page
    from evidence.batches.study import OPTIMIZERS

    study = page.load(DOCS / "batches")
    results = study.fixed
    pairs = product(OPTIMIZERS, results.extent.trainings)
    return auto_page.numbers(study.auto) | {
        f"{optimizer}.{training}".replace(" ", "-"): page.percent(
            page.change(results, training, optimizer, page.OURS, 4)
        )
        for optimizer, training in pairs
    }


@cache
def calibration() -> Mapping[str, str]:
    """Return on how many trainings a diagnosis advised a method, and its losses as shares of AdamW's: `nsgdm.worst`."""
    from evidence.calibration import page

    rows = page.load(DOCS / "calibration")["followed"]
    numbers: dict[str, str] = {}
    for method in ("adam", "nsgdm"):
        ratios = page.ratios(rows, method)
        numbers |= {
            f"{method}.count": str(len(ratios)),
            f"{method}.best": f"{min(ratios):.2f}",
            f"{method}.worst": f"{max(ratios):.2f}",
        }
    return numbers | {"followed": str(len(rows))}


@cache
def reproduction() -> Mapping[str, str]:
    """Return how many of the paper's sentences hold, and the largest dynamic batch."""
    from evidence.reproduction.page import load
    from evidence.reproduction.report import sentences

    claims = [claim for each in load(DOCS / "reproduction").values() for claim in sentences(each.claims)]
    verdicts = [claim.verdict for claim in claims]
    (batch,) = (f"{claim.estimate:.3g}" for claim in claims if claim.id == "dynamic-batches-grow-to-1000")
    counts = {"hold": verdicts.count("holds"), "fail": verdicts.count("does not hold"), "sentences": len(verdicts)}
    return {**{name: str(count) for name, count in counts.items()}, "batch": batch}


@cache
def performance() -> Mapping[str, str]:
    """Return what `make bench` published: the speed of a NumPy loop as 1, and what watching adds to a step, in %."""
    table = (DOCS.parent / "performance.md").read_text("utf-8")
    (times,) = re.findall(r"^\| W vs plain NumPy loop \| (\S+)", table, re.M)
    added = [float(ratio) - 1 for ratio in re.findall(r"^\| torch: NoiseProbe [^|]*\| (\S+) ×", table, re.M)]
    return {"plain": times, "watch.least": f"{100 * min(added):.0f}", "watch.most": f"{100 * max(added):.0f}"}


STUDIES: dict[str, Callable[[], Mapping[str, str]]] = {
    "batches": batches,
    "calibration": calibration,
    "untuned": untuned,
    "posteriors": posteriors,
    "suite": suite,
    "verification": verification,
    "networks": networks,
    "untuned_networks": untuned_networks,
    "reproduction": reproduction,
    "performance": performance,
}
