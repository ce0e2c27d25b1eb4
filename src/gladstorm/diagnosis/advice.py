"""What to do about it: a method with its numbers where a theorem or a page of measurements says so, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gladstorm.core.rules import COUNT, POSITIVE, UNIT_INTERVAL
from gladstorm.diagnosis.finding import NO_GROWTH
from gladstorm.diagnosis.resampling import Interval
from gladstorm.theory import Plan, plan

if TYPE_CHECKING:
    from gladstorm.diagnosis.report import Report

AS_DIGITS_SHOW = "docs/evidence/digits"
OUTSIDE = "docs/natural.md"


@dataclass(frozen=True)
class Advice:
    """A recommended method with its numbers and the reason. A number that the evidence does not decide is None."""

    method: str | None  #: its name, or None if the evidence names none
    gamma: float | None  #: step size γ
    eta: float | None  #: weight η of the newest gradient
    n_init: int | None  #: samples of the first estimate
    batch: int | None  #: samples in a mini-batch
    why: str  #: the reason, in a sentence or two
    source: str | None  #: the theorem or the page that shows it

    def as_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return asdict(self)


def advise(report: Report, horizon: int | None, gap: float | None, alpha: float | None, batch: int | None) -> Advice:
    """The advice that the findings allow. Where a path was seen, what the noise does along it decides first."""
    for name, rule, value in (("horizon", COUNT, horizon), ("gap", POSITIVE, gap), ("batch", COUNT, batch)):
        if value is not None:
            rule.require("recommend", name, value)
    if alpha is not None:
        UNIT_INTERVAL.require("recommend", "alpha", alpha)
    batch = batch or report.batch
    path = report.path
    if path is not None and path.high < 1:
        return _falling(path, batch)
    grows_on_the_way = path is not None and path.low > 1
    if not grows_on_the_way and (other := _not_growing(report, batch)) is not None:
        return other
    power = report.findings["power"]
    if power.is_estimated and (power.low or 0) > 2:
        return _named(
            None,
            f"The noise grows faster than the square of the distance, with a power of {power.estimate:.2g}: none of "
            "the theorems applies, and too few such problems were measured to name a method.",
            OUTSIDE,
            None,
        )
    lacking = _lacking(report, horizon, gap, alpha)
    if lacking is None and horizon is not None and gap is not None:
        return _by_theorem(_plans(report, horizon, gap, batch), batch)
    return _named(
        "nsgdm",
        f"Your noise grows{' along your path' if grows_on_the_way else ''}: use NSGDM, tune its step size and let it "
        "decay linearly. On digits with growing noise, without a decay, it was not behind SGD, clipped SGD or Adam, "
        "nor behind NSTORM at the same number of gradients. With a decay, in docs/evidence/suite, it never diverged, "
        f"while SGD diverged on two of twelve problems; on the others it was not better than SGD. {lacking}",
        AS_DIGITS_SHOW,
        batch,
    )


def _falling(path: Interval, batch: int) -> Advice:
    """For noise that falls along the path, whatever it does elsewhere."""
    return _named(
        "adam",
        f"At the end of your path the variance is {path.estimate:.2g} times that at the start: your training meets no "
        "growth, and what the noise does in other directions does not matter to it. Use Adam, or SGD with a decay. On "
        "digits without added noise, where a perceptron's noise falls too, NSGDM was never clearly better than these "
        "two.",
        AS_DIGITS_SHOW,
        batch,
    )


def _not_growing(report: Report, batch: int) -> Advice | None:
    """For noise that is not seen to grow, around the start or, if a path was seen, along it; None if it is."""
    growth, path = report.findings["B"], report.path
    if growth.verdict == NO_GROWTH:
        return _named(
            "adam",
            f"Your noise does not grow within {report.probes.radius:.3g} of the start: use Adam, or SGD with a decay. "
            "NSTORM would cost you twice as much per step, and was behind both on digits without growing noise.",
            AS_DIGITS_SHOW,
            batch,
        )
    if not growth.is_estimated:
        return _named(None, f"The probes do not show whether the noise grows: {growth.needs}.", None, None)
    if path is not None:
        return _named(
            None,
            f"Your noise grows around the start, but at the end of your path its variance is {path.estimate:.2g} "
            f"({path.low:.2g} to {path.high:.2g}) times that at the start. This does not show whether it grows on the "
            "way; needs more probes along the path.",
            None,
            None,
        )
    return None


def _lacking(report: Report, horizon: int | None, gap: float | None, alpha: float | None) -> str | None:
    """What a theorem with numbers would need, in a sentence; None if it is all there."""
    missing = [name for name, value in (("horizon", horizon), ("gap", gap)) if value is None]
    if missing:
        return f"For numbers from a theorem, give {' and '.join(missing)}."
    measured = report.findings["alpha"]
    if alpha is None and not measured.is_estimated:
        return f"For numbers from a theorem, give alpha, which is not identifiable: {measured.needs}."
    if (measured.estimate if alpha is None else alpha) != 0:
        return "For curvature that grows with the gradient, call gladstorm.theory.plan with your own constants."
    for name in ("B", "ell", "L"):
        if not (found := report.findings[name]).is_estimated:
            return f"For numbers from a theorem, {name} must be known: {found.needs or found.verdict}."
    return None


def _plans(report: Report, horizon: int, gap: float, batch: int) -> list[Plan]:
    """NSGDM's and NSTORM's plan at the same number of stochastic gradients, with the upper ends of all intervals.

    A mini-batch of b has a b-th of a sample's variance, and of what its change has beyond the mean's.
    """
    B, G = ((report.findings[name].high or 0.0) / batch**0.5 for name in ("B", "G"))
    L0, one = (report.findings[name].high or 0.0 for name in ("L", "ell"))
    of_batch = (L0**2 + max(0.0, one**2 - L0**2) / batch) ** 0.5
    return [
        plan("nsgdm", horizon=horizon, alpha=0, L0=L0, B=B, G=G, gap=gap),
        plan("nstorm", horizon=max(1, horizon // 2), alpha=0, L=of_batch, B=B, G=G, gap=gap),
    ]


def _by_theorem(plans: list[Plan], batch: int) -> Advice:
    best = min(plans, key=lambda each: each.statement.bound(each.horizon))
    eta, gamma, n_init, _ = best.schedule
    values = " and ".join(
        f"{each.statement.bound(each.horizon):.3g} for {each.statement.method.upper()}" for each in plans
    )
    why = (
        f"It has the smaller of two guarantees on E‖∇f‖ for the same number of gradients, {values}, provided that the "
        "upper ends of the intervals hold wherever the run goes."
    )
    return Advice(best.statement.method, gamma, eta, n_init, batch, why, best.statement.source)


def _named(method: str | None, why: str, source: str | None, batch: int | None) -> Advice:
    return Advice(method, None, None, None, batch, why, source)
