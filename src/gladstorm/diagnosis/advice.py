"""Advice: a method with its numbers where a theorem or a page of measurements says so, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gladstorm.core.rules import COUNT, POSITIVE, UNIT_INTERVAL
from gladstorm.diagnosis.clipping import Clipping
from gladstorm.diagnosis.finding import NO_GROWTH
from gladstorm.diagnosis.probes import EUCLID
from gladstorm.theory.batches import Hyperbola
from gladstorm.theory.plans import Plan

if TYPE_CHECKING:
    from gladstorm.diagnosis.report import Report

BRIEF = "{value:.2g} ({low:.2g} to {high:.2g})"  # form of an interval in a sentence
MATTERS = 2.0  # times as large a variance at the end of a path, for its growth to decide the method
SQUARE = 2.0  # the paper's power of growth
NETWORKS, SUITE, CHOOSING = "docs/evidence/networks", "docs/evidence/suite", "docs/choosing.md"
# What studies found, by what the noise does; tests/diagnosis/test_advice.py compares it with their results.
EVIDENCE = {
    "grows": "With a linear decay it never diverged in docs/evidence/suite, while SGD diverged on two of twelve "
    "problems; on the others it was not better than SGD.",
    "does not grow": "At equal cost it was clearly better than NSGDM in none of the 24 cases of docs/evidence/suite.",
    "network": "On a network, torch.optim.Muon and NSGDM with a norm for each layer are worth a trial: on eleven small "
    "networks they ended at 0.74 and 0.80 times the loss of AdamW, all tuned, in the geometric mean; NSGDM with one "
    "norm for all weights at 1.24.",
    "not known": "Normalized steps were clearly better than SGD in none of the 24 cases of docs/evidence/suite.",
    "untuned": "If you do not want to tune, use Untuned by layer on a network: in 1000 steps on eight networks it "
    "ended in the median at 0.98 times the loss of AdamW tuned for each (docs/evidence/untuned_networks). Elsewhere "
    "use Untuned; docs/evidence/untuned says where it is good and where not.",
}
Trial = Callable[[float], tuple[float, float]]  # a short training at a learning rate: the losses before and after it
# Code that makes the optimizer, by library; `{steps}` is the horizon. Both schedules fall linearly to 0.
_LINEAR = "schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters={steps})"
BY_LEAF = ", norm=gladstorm.optax.by_layer"
ACTIONS = {
    "adam": {
        "torch": f"optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # tune lr\n{_LINEAR}\n"
        "# on a network: optimizer = gladstorm.torch.NSGDM(gladstorm.torch.by_layer(model), lr=0.02)  # tune lr\n"
        "# without tuning: optimizer = gladstorm.torch.Untuned(gladstorm.torch.by_layer(model), horizon={steps})",
        "optax": "optimizer = optax.adam(optax.linear_schedule(1e-3, 0.0, {steps}))  # tune 1e-3\n"
        "# without tuning: optimizer = gladstorm.optax.untuned({steps}, layers=gladstorm.optax.by_layer)",
    },
    "nsgdm": {
        "torch": "optimizer = gladstorm.torch.NSGDM({params}, lr={lr:.3g})  # tune lr\n" + _LINEAR,
        "optax": "schedule = optax.linear_schedule({lr:.3g}, 0.0, {steps})  # tune {lr:.3g}\n"
        "optimizer = gladstorm.optax.nsgdm(schedule{norm})",
    },
    "sgd": {
        "torch": "optimizer = torch.optim.SGD(model.parameters(), lr={gamma:.6g})",
        "optax": "optimizer = optax.sgd({gamma:.6g})",
    },
    "theorem": {
        "torch": "optimizer = gladstorm.torch.{Method}({params}, {gamma:.6g}, momentum={momentum:.6g}{init})",
        "optax": "optimizer = gladstorm.optax.{method}({gamma:.6g}, momentum={momentum:.6g}{init}{norm})",
    },
}


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A recommended method with its numbers and the reason. A number that the evidence does not decide is None."""

    method: str  #: its name
    gamma: float | None = None  #: step size γ
    eta: float | None = None  #: weight η of the newest gradient
    n_init: int | None = None  #: samples of the first estimate
    batch: int | None = None  #: samples in a mini-batch
    why: str  #: the reason, in a sentence or two
    source: str | None = None  #: the theorem or the page that shows it
    batching: str | None = None  #: what the critical batch size says about the mini-batch
    clipping: Clipping | None = None  #: what the training's clipping does
    actions: dict[str, str] = field(default_factory=dict)  #: code that makes the optimizer, for torch and for optax

    @property
    def text(self) -> str:
        """Sentences about what to do, and code to paste, a line each."""
        lines = [f"Advice: {self.why}", self.batching and f"Batch: {self.batching}"]
        lines += [self.clipping.sentence() if self.clipping else None]
        lines += [f"{library}: {line}" for library, code in self.actions.items() for line in code.splitlines()]
        return "\n".join(filter(None, lines))

    def as_dict(self) -> dict[str, Any]:
        """As JSON-ready data: the method, its numbers and the reason."""
        names = ("method", "gamma", "eta", "n_init", "batch", "why", "source")
        return {name: getattr(self, name) for name in names}


def advise(
    report: Report,
    horizon: int | None,
    gap: float | None,
    alpha: float | None,
    batch: int | None,
    max_norm: float | None,
    trial: Trial | None,
) -> Advice:
    """The advice that the findings allow. Where a path was seen, what the noise does along it decides first."""
    if trial is not None and horizon is None:
        raise ValueError("recommend: horizon must be given with trial, whose learning rate follows from it; got None.")
    for name, rule, value in (
        ("horizon", COUNT, horizon),
        ("gap", POSITIVE, gap),
        ("batch", COUNT, batch),
        ("alpha", UNIT_INTERVAL, alpha),
    ):
        if value is not None:
            rule.require("recommend", name, value)
    size = batch or report.batch
    advice = replace(_method(report, horizon, gap, alpha, size, trial), batch=size)
    return replace(
        advice,
        batching=_batching(report, size, wanted=batch is not None),
        clipping=None if max_norm is None else report.clipping(max_norm, batch),
        actions=_actions(advice, horizon, report.probes.norm),
    )


def _method(
    report: Report, horizon: int | None, gap: float | None, alpha: float | None, batch: int, trial: Trial | None
) -> Advice:
    path, growth, radius = report.path, report.findings["B"], report.probes.radius

    def adam(why: str, source: str = CHOOSING) -> Advice:
        return Advice(method="adam", why=why, source=source)

    if path is not None and path.high < 1:
        return adam(
            f"At the end of your path the variance is {path.value:.2g} times that at the start: your training meets "
            "no growth, and what the noise does in other directions does not matter to it. Use Adam, or SGD with a "
            f"decay. {EVIDENCE['network']} {EVIDENCE['untuned']}",
            NETWORKS,
        )
    grows_on_the_way = path is not None and path.low > 1
    if not grows_on_the_way and growth.verdict == NO_GROWTH:
        return adam(
            f"Your noise does not grow within {radius:.3g} of the start: use Adam, or SGD with a decay. "
            f"NSTORM would cost you twice as much per step. {EVIDENCE['does not grow']} {EVIDENCE['network']} "
            f"{EVIDENCE['untuned']}",
            NETWORKS,
        )
    untried = f"{EVIDENCE['not known']} {EVIDENCE['untuned']}"
    if not grows_on_the_way and (path is not None or not growth.is_estimated):
        why = f"The probes do not show whether the noise grows: {growth.needs}."
        if path is not None and growth.is_estimated:
            why = (
                f"Your noise grows around the start, but at the end of your path its variance is {path.text(BRIEF)} "
                "times that at the start. This does not show whether it grows on the way; needs more probes along the "
                "path."
            )
        return adam(f"{why} Until you know, use Adam, or SGD with a decay. {untried}")
    lacking = _lacking(report, horizon, gap, alpha)
    if lacking is None and horizon is not None and gap is not None:
        return _by_theorem(report, horizon, gap, batch)
    evidence = EVIDENCE["grows"] if gap is None else f"{EVIDENCE['grows']} {lacking}"
    matters = _whether_it_matters(report)
    if path is None or path.value < MATTERS:
        return adam(f"{matters} Use Adam, or SGD with a decay. {untried}")
    if trial is None or horizon is None:
        return adam(
            f"{matters} NSGDM may be better, and whether it trains at all shows in a short trial: give horizon and "
            f"trial=gladstorm.torch.trial(loss_of, model, loader). Until then use Adam, or SGD with a decay. {evidence}"
        )
    gamma = 2 * radius * horizon**-0.75
    before, after = trial(gamma)
    tried = f"A short trial at {gamma:.3g} changed the loss from {before:.4g} to {after:.4g}"
    if not after < before:
        return adam(f"{matters} {tried}: use Adam, or SGD with a decay. {untried}")
    use = "use NSGDM, tune its step size and let it decay linearly."
    return Advice(method="nsgdm", gamma=gamma, why=f"{matters} {tried}: {use} {evidence}", source=SUITE)


def _whether_it_matters(report: Report) -> str:
    """Whether noise that grows matters within the distance that this run travels."""
    path = report.path
    if path is not None:
        away, times = f"{report.probes.radius:.3g} away", f"{path.value:.2g} times that at the start"
        little = "" if path.value >= MATTERS else ": less than twice, which decides no method"
        return f"At the end of your path, {away}, the variance is {times}{little}."
    G, B = report.findings["G"].estimate, report.findings["B"].estimate
    where = f": its variance doubles at {G / B:.2g} from the start" if G and B else ""
    return (
        f"Your noise grows around the start{where}. That matters to a run that travels so far: give a checkpoint of "
        "yours, or probe it while it trains."
    )


def _actions(advice: Advice, horizon: int | None, norm: str) -> dict[str, str]:
    """Code to paste, by library; `model`, `loss_of`, `loader` and, without a horizon, `steps` are yours."""
    params, named = ("model.parameters()", "") if norm == EUCLID else ("gladstorm.torch.by_layer(model)", BY_LEAF)
    numbers: dict[str, Any] = {"steps": horizon or "steps", "lr": advice.gamma, "params": params, "norm": named}
    kind = advice.method
    if advice.gamma is not None and advice.eta is not None:
        kind, n_init = "sgd" if kind == "sgd" else "theorem", advice.n_init or 1
        numbers |= {"method": advice.method, "Method": advice.method.upper(), "gamma": advice.gamma}
        numbers |= {"momentum": 1 - advice.eta, "init": f", n_init={n_init}" if n_init > 1 else ""}
    return {library: code.format(**numbers) for library, code in ACTIONS[kind].items()}


def _batching(report: Report, batch: int, wanted: bool) -> str | None:
    """The critical batch size, and what this batch costs beside it (McCandlish et al. 2018)."""
    finding = report.findings["critical_batch"]
    where = "at the end of your path" if report.probes.has_path else "at the start"
    if not finding.low:  # who asks what a batch costs is told what it takes to know
        return f"The critical batch size {where} is not known: {finding.needs}." if wanted else None
    if finding.estimate is None or finding.high is None:
        return (
            f"The critical batch size {where} is {finding.low:.2g} or more: up to there a batch twice as large takes "
            f"nearly half the steps. For an upper end: {finding.needs}."
        )
    steps, samples = Hyperbola(1.0, 1.0).at(batch / finding.estimate)
    if batch < finding.low:
        what = "a larger batch would save steps nearly in proportion"
    elif batch > finding.high:
        what = "a smaller batch would save samples and cost few steps"
    else:
        what = "your batch is about that"
    return (
        f"The critical batch size {where} is {finding.text('{value:.2g} samples ({low:.2g} to {high:.2g})')}: {what}. "
        f"With mini-batches of {batch} a training takes {steps:.3g} times the fewest steps and {samples:.3g} "
        "times the fewest samples; with the critical size, twice the fewest of either (S/S_min = 1 + B/b, "
        "E/E_min = 1 + b/B)."
    )


def _lacking(report: Report, horizon: int | None, gap: float | None, alpha: float | None) -> str | None:
    """A sentence about what a theorem with numbers would need; None if it is all there."""
    missing = [name for name, value in (("horizon", horizon), ("gap", gap)) if value is None]
    if missing:
        return f"For numbers from a theorem, give {' and '.join(missing)}."
    measured = report.findings["alpha"]
    if alpha is None and not measured.is_estimated:
        return f"For numbers from a theorem, give alpha, which is not identifiable: {measured.needs}."
    if (measured.estimate if alpha is None else alpha) != 0:
        return "For curvature that grows with the gradient, call gladstorm.theory.plan with your own constants."
    needs = report.needs_for_constants()
    return needs and f"For numbers from a theorem, {needs}."


def _by_theorem(report: Report, horizon: int, gap: float, batch: int) -> Advice:
    """The plan with the smallest bound, of SGD, NSGDM and NSTORM at the same number of stochastic gradients."""
    plans: dict[str, Plan] = {}
    refusal = ""
    for method, T in {"sgd": horizon, "nsgdm": horizon, "nstorm": max(1, horizon // 2)}.items():
        try:
            plans[method] = report.plan(method, samples=batch, alpha=0, gap=gap, horizon=T)
        except ValueError as error:  # SGD has no bound in the norms of layers, nor for noise that grows faster than r²
            if method != "sgd":
                raise
            refusal = f" For SGD, {str(error).removeprefix('sgd: ').partition(';')[0]}."
    bounds = {method: each.statement.bound(each.horizon) for method, each in plans.items()}
    best = plans[min(bounds, key=lambda method: bounds[method])]
    eta, gamma, n_init, _ = best.schedule
    *values, last = (f"{bound:.3g} for {method.upper()}" for method, bound in bounds.items())
    what, proviso = "guarantees", ", provided that the upper ends of the intervals hold wherever the run goes."
    if report.probes.norm != EUCLID:
        what, proviso = "bounds", ". This is no guarantee: in the norms of layers L and ℓ are measured from below."
    why = (
        f"It has the smallest of {len(plans)} {what} on {best.statement.problem.measure} for the same number of "
        f"gradients, {', '.join(values)} and {last}{proviso}{refusal}"
    )
    if report.growth != SQUARE:
        why += f" The variance is taken to grow like r^{report.growth:.2g}."
    return Advice(
        method=best.statement.method, gamma=gamma, eta=eta, n_init=n_init, why=why, source=best.statement.source
    )
