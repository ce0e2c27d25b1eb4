"""From a table of probes to a report: what was found, and what to do.

A quantity is a function from `Probes` to a `Finding` that `diagnose` calls, with a line in `MEANINGS` and in
docs/formats.md. Each resamples with a generator of its own, so that no other quantity changes its numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gladstorm.core.rules import COUNT, POSITIVE
from gladstorm.core.screen import html_picture, html_table, in_digits
from gladstorm.diagnosis.advice import SQUARE, Advice, Trial, advise
from gladstorm.diagnosis.clipping import Clipping, clipping
from gladstorm.diagnosis.critical_batch import critical_batch
from gladstorm.diagnosis.curvature import curvature, smoothness
from gladstorm.diagnosis.finding import NO_GROWTH, Finding
from gladstorm.diagnosis.growth import anchor, constants, end_to_start, power
from gladstorm.diagnosis.probes import EUCLID, Probes
from gladstorm.diagnosis.resampling import Interval, generator_of
from gladstorm.theory import Norm, Plan, plan

if TYPE_CHECKING:
    from gladstorm.plotting.figures import Figure

MEANINGS = {
    "G": "noise at the start: the standard deviation of one sample's gradient",
    "B": "growth of the noise: the variance is G² + B² r² at distance r",
    "power": "a, if the variance is G² + B² r^a",
    "anchor": "where the noise is smallest, as a distance along the path",
    "ell": "ℓ, smoothness of one sample's gradient",
    "L": "smoothness of the mean gradient",
    "rho": "ρ = ℓ²/L² − 1",
    "alpha": "α of ‖∇²f‖ ≈ L0 + L1‖∇f‖^α",
    "L0": "curvature where the gradient is small",
    "L1": "growth of the curvature with the gradient",
    "critical_batch": "tr Σ/‖∇f‖², the mini-batch beyond which more samples hardly save steps",
}
HEADINGS = ("", "estimate", "95 % interval", "verdict", "meaning")


@dataclass(frozen=True, eq=False)
class Report:
    """Findings about the noise and the smoothness of a loss. Print it, or read `findings`."""

    probes: Probes  #: the probes it was made from
    findings: dict[str, Finding]  #: a finding for each quantity (G, B and so on), by the names of `MEANINGS`
    path: Interval | None  #: the variance at the end of the path, divided by that at the start

    @property
    def batch(self) -> int:
        """The number of samples in the mini-batch of a probe."""
        return int(np.median(self.probes.groups * self.probes.samples))

    @property
    def growth(self) -> float:
        """The power a of growth: 2, or the upper end of its interval where that excludes 2."""
        a = self.findings["power"]
        excludes = a.is_estimated and a.low is not None and a.high is not None and not a.low <= SQUARE <= a.high
        return float(a.high or SQUARE) if excludes else SQUARE

    def needs_for_constants(self) -> str | None:
        """Say what is missing for `constants`; None if it is all there."""
        lacking = [name for name in ("B", "ell", "L") if not self.findings[name].is_estimated]
        if not lacking:
            return None
        return f"{lacking[0]} must be known: {self.findings[lacking[0]].needs or self.findings[lacking[0]].verdict}"

    def constants(self, batch: int = 1) -> dict[str, Any]:
        """Constants of a problem, as `gladstorm.theory.plan` takes them.

        They are the upper ends of all intervals, with `growth`. A mini-batch of b samples has a b-th of a sample's
        variance, and of what its change has beyond the mean's. In the norms of layers L and ℓ are measured from below,
        so that a plan with these constants is no guarantee.

        Args:
            batch: samples in a mini-batch.

        Raises:
            ValueError: If one of them is not known.
        """
        if (needs := self.needs_for_constants()) is not None:
            raise ValueError(f"constants: {needs}.")
        findings = dict(self.findings)
        if self.growth != SQUARE:
            findings["G"], findings["B"] = constants(self.probes, generator_of(0, "B"), self.growth)
        G, B, L0, one = (findings[name].high or 0.0 for name in ("G", "B", "L", "ell"))
        of_batch = (L0**2 + max(0.0, one**2 - L0**2) / batch) ** 0.5
        given = {"L0": L0, "L": of_batch, "B": B / batch**0.5, "G": G / batch**0.5, "growth": self.growth}
        in_norm = {"norm": Norm("as measured", nu=2.0), "constants": "norm"}  # sums of noise as if it were normal
        return given if self.probes.norm == EUCLID else {**given, **in_norm}

    def plan(self, method: str, *, samples: int = 1, **given: Any) -> Plan:
        """Plan a run by a theorem for the noise that was measured: `gladstorm.theory.plan` with `constants`.

        Args:
            method: "sgd", "nsgdm" or "nstorm".
            samples: samples in a mini-batch.
            given: what probes cannot measure, alpha, gap, and horizon or eps; or any constant to use instead.
        """
        return plan(method, **self.constants(samples) | given)

    def recommend(
        self,
        horizon: int | None = None,
        *,
        gap: float | None = None,
        alpha: float | None = None,
        batch: int | None = None,
        max_norm: float | None = None,
        trial: Trial | None = None,
    ) -> Advice:
        """Recommend a method and say why. If the constants are known, a theorem gives its numbers.

        A method for growing noise is recommended only where the variance has doubled on the way that a run travels, and
        a short trial at the suggested learning rate has lowered the loss; or where you ask a theorem.

        Args:
            horizon: the number of mini-batch gradients of your training.
            gap: Δ = f(x⁰) − inf f, which probes cannot measure. A theorem needs horizon and gap.
            alpha: α to use instead of the measured one; 0 means that curvature does not grow with the gradient.
            batch: samples in a mini-batch of your training; as many as in a probe if not given.
            max_norm: the threshold at which your training clips gradients, to be told what that does.
            trial: `gladstorm.torch.trial(…)` or `gladstorm.optax.trial(…)`, or any function that trains for a short
                while with NSGDM at a learning rate and returns the loss before and after.
        """
        return advise(self, horizon, gap, alpha, batch, max_norm, trial)

    def clipping(self, max_norm: float, batch: int | None = None) -> Clipping:
        """Effect of clipping at a threshold: how often it acts, its bias, and a better threshold.

        With `batch`, for mini-batches of so many samples; else for those of the probes, and the bias for half of them.
        """
        POSITIVE.require("clipping", "max_norm", max_norm)
        if batch is not None:
            batch = COUNT.whole("clipping", "batch", batch)
        return clipping(self.probes, max_norm, np.random.default_rng(0), batch)

    def as_dict(self, **questions: Any) -> dict[str, Any]:
        """The report as JSON-ready data; `questions` go to `recommend`."""
        advice = self.recommend(**questions)
        return {
            **{name: finding.as_dict() for name, finding in self.findings.items()},
            "recommendation": advice.as_dict(),
            "batching": advice.batching,
            "clipping": None if advice.clipping is None else advice.clipping.as_dict(),
            "actions": advice.actions,
            "path": None if self.path is None else self.path.as_dict(),
            "probes": len(self.probes),
            "radius": self.probes.radius,
            "remarks": list(self.probes.remarks),
        }

    @cached_property
    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """For each finding the quantity, estimate, interval, verdict and meaning, as texts.

        Neighbours of which nothing is known for the same reason share a row.
        """
        rows: list[tuple[str, str, str, str, str]] = []
        for name, each in self.findings.items():
            row = name, in_digits(each.estimate), _interval(each), _verdict(each), MEANINGS[name]
            if rows and not any(row[1:3]) and rows[-1][1:4] == row[1:4]:
                names, *_, meanings = rows.pop()
                row = f"{names}, {name}", *row[1:4], f"{meanings}; {row[4]}"
            rows.append(row)
        return rows

    def __str__(self) -> str:
        rows = self.rows
        widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:3]] + [0]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([self._title(), *lines, *self.sentences(), self.recommend().text])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = (*self.sentences(), *self.recommend().text.splitlines())
        table = html_table(self._title(), [HEADINGS, *self.rows], lines)
        return table + html_picture(self.plot, "noise, gradient norm and smoothness against the distance")

    def plot(self) -> Figure:
        """Draw noise, gradient norm and smoothness against the distance. A notebook shows the figure that is returned.

        Raises:
            ValueError: If matplotlib is not installed.
        """
        from gladstorm.diagnosis.page import diagnosis_figure  # matplotlib takes a second, and may be missing

        return diagnosis_figure(self)

    def _title(self) -> str:
        probes = f"{len(self.probes)} probes up to {self.probes.radius:.3g} from the start"
        return f"{probes}, mini-batches of {self.batch}; 95 % intervals"

    def explore(self, path: str | os.PathLike[str], *, title: str = "", **questions: Any) -> None:
        """Write one HTML file that needs no network: the findings, the advice, and charts to read and to zoom.

        Args:
            path: The file to write, such as page.html; one that is there is replaced.
            title: The heading.
            questions: Arguments of `recommend`.

        Raises:
            MissingExtraError: If Vega, of the extra [page], is not installed.
        """
        from gladstorm.diagnosis.page import diagnosis_page
        from gladstorm.jobs.files import write_text

        write_text(Path(path), diagnosis_page(self, title or "Noise", **questions))

    def sentences(self) -> list[str]:
        """Sentences about the noise along the path and about the probes themselves."""
        if self.path is None:
            return list(self.probes.remarks)
        ratio = self.path.text("{value:.3g} ({low:.3g} to {high:.3g})")
        return [f"At the end of the path the variance is {ratio} times that at the start.", *self.probes.remarks]


def diagnose(probes: Probes, *, seed: int = 0) -> Report:
    """Make the report from a table of probes. `seed` decides the resamples behind the intervals."""
    if not all(np.isfinite(column).all() for column in (probes.noise, probes.gradient2, probes.distance)):
        raise ValueError(
            "diagnose: noise, gradients and distances of all probes must be finite; got some that are not."
        )

    def own(quantity: str) -> np.random.Generator:
        return generator_of(seed, quantity)

    G, B = constants(probes, own("B"))
    smooth = smoothness(probes, own("L"))
    findings = {
        "G": G,
        "B": B,
        "power": power(probes, B, own("power")),
        "anchor": anchor(probes, own("anchor")),
        **smooth,
        **curvature(probes, smooth["L"], own("alpha")),
        "critical_batch": critical_batch(probes, own("critical_batch")),
    }
    return Report(probes, findings, end_to_start(probes, own("path")))


def _interval(finding: Finding) -> str:
    if finding.low is None and finding.high is None:
        return ""
    return f"({in_digits(finding.low)} to {in_digits(finding.high) or '∞'})"


def _verdict(finding: Finding) -> str:
    if finding.verdict == NO_GROWTH or not finding.needs:
        return finding.verdict
    return f"{finding.verdict}: {finding.needs}"
