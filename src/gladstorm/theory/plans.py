"""Plans: a statement at one horizon, to print, to read as JSON, to draw."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gladstorm.theory.class_constants import ABOVE_0
from gladstorm.theory.problem import Problem
from gladstorm.theory.statement import Prescription, Statement

if TYPE_CHECKING:
    from gladstorm.plotting.figures import Figure


@dataclass(frozen=True)
class Plan:
    """A statement at one horizon: print it, or ask for its schedule, its source, or all of it with `as_dict`."""

    statement: Statement  #: the theorem, with its γ0 and η0
    horizon: int  #: T, the number of iterates
    remarks: tuple[str, ...] = ()  #: what was given and is not used
    original: Problem | None = None  #: the problem that was given, if the statement is about a wider class

    def __post_init__(self) -> None:
        self.statement.bound(self.horizon)  # refused here if it does not fit in double precision

    def __repr__(self) -> str:
        """Text of the plan, in a few lines."""
        lines = [self._title(), *(f"{name:<11}{text}" for name, text in self._facts())]
        return "\n".join(line if len(line) <= 100 else line[:99] + "…" for line in lines)

    def _repr_html_(self) -> str:
        from gladstorm.core.screen import html_picture, html_table  # not before: NumPy, which the theory does without

        return html_table(self._title(), [("", ""), *self._facts()]) + html_picture(self.plot, "the bound against T")

    def plot(self) -> Figure:
        """Draw the bound and each of its terms against T. A notebook shows the figure that is returned.

        Raises:
            ValueError: If matplotlib is not installed.
        """
        from gladstorm.plotting.figures import bounds  # matplotlib takes a second, and may be missing

        return bounds([self])

    def _title(self) -> str:
        return f"Plan: {self.statement.method.upper()} for T = {counted(self.horizon)} iterates"

    def _facts(self) -> list[tuple[str, str]]:
        statement, T = self.statement, self.horizon
        eta, gamma, n_init, _ = statement.schedule(T)
        given = {name: getattr(self.problem, name) for name in ("alpha", "L0", "L1", "L", "B", "G", "gap")}
        if not self.problem.of_paper:
            given |= {"growth": self.problem.growth, "tau": self.problem.norm.tau}
            given |= {} if (decay := self.problem.decay) is None else {"decay": decay.rate, "inward": decay.inward}
        bound, calls = f"{statement.bound(T):.6g}", counted(statement.sfo(T))
        return [
            ("problem:", ", ".join(f"{name}={value:g}" for name, value in given.items() if value is not None)),
            ("schedule:", f"gamma = {gamma:.6g}, eta = {eta:.6g}, n_init = {counted(n_init)}"),
            ("bound:", f"{self.problem.measure} ≤ {bound}, for {calls} stochastic gradients"),
            ("source:", statement.source),
            *(("", sentence) for sentence in self._wider()),
            ("class:", self.constants),
            *([("violated:", sentence) for sentence in statement.violations()] or [("conditions", "hold")]),
            *(("remark:", remark) for remark in self.remarks),
        ]

    @property
    def problem(self) -> Problem:
        """The problem that was given."""
        return self.statement.problem if self.original is None else self.original

    @property
    def source(self) -> str:
        """The theorem's source. If it is about a wider class than the problem's, also the constants in that class."""
        return "; ".join([self.statement.source, *self._wider()])

    def _wider(self) -> list[str]:
        statement, alpha, B = self.statement, self.problem.alpha, self.statement.problem.B
        words = []
        if statement.problem.alpha != alpha:
            constants = ", ".join(f"{name} = {getattr(statement, name):.6g}" for name in statement.needs())
            covered = statement.problem.alpha
            named = "just above 0" if covered == ABOVE_0 else f"{covered:g}"
            words.append(f"of alpha = {named}: {constants}, a class that contains alpha = {alpha:g}'s")
        if B != self.problem.B:
            words.append(f"B = {B:.6g}: noise of mean-square smooth samples grows no faster")
        return words

    @property
    def constants(self) -> str:
        """The smoothness class that the statement is about, whose it is, and its constants."""
        statement = self.statement
        owner = "samples" if statement.corrects_drift else "f"
        norm = self.problem.norm
        in_norm = "" if norm.euclidean else f" in the norm {norm.name} and its dual, τ = {norm.tau:.6g}"
        names = (statement.level,) if statement.smoothness == "smooth" else ("L0", "L1")
        values = ", ".join(f"{name} = {getattr(statement, name):.6g}" for name in names)
        return f"{statement.classes[statement.smoothness]}{in_norm}, constants of {owner}: {values}"

    @property
    def schedule(self) -> Prescription:
        """η, γ, N_init and λ at the horizon."""
        return self.statement.schedule(self.horizon)

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data."""
        statement, T = self.statement, self.horizon
        eta, gamma, n_init, young_weight = self.schedule
        terms = [
            {"name": t.name, "coefficient": float(t.coefficient), "exponent": float(t.exponent), "value": t.value}
            for t in statement.terms(T)
        ]
        return {
            "method": statement.method,
            "alpha": self.problem.alpha,
            "noise": statement.noise,
            "horizon": T,
            "eta": eta,
            "gamma": gamma,
            "n_init": n_init,
            "lambda": young_weight,
            "conditions": [condition.as_dict() for condition in statement.conditions()],
            "terms": terms,
            "bound": statement.bound(T),
            "bound_as_printed": statement.bound_as_printed(T),
            "rate": float(statement.rate),
            "sfo": statement.sfo(T),
            "source": self.source,
            "class": self.constants,
            "growth": self.problem.growth,
            "norm": self.problem.norm.name,
            "tau": self.problem.norm.tau,
            "decay": None if self.problem.decay is None else asdict(self.problem.decay),
            "measure": self.problem.measure,
            "steps": T - 1,
            "largest_batch": statement.largest_batch(T),
        }


def counted(number: int) -> str:
    """A whole number with all its digits, or, where these are many, the first few.

    >>> counted(12345), counted(10**24)
    ('12,345', '1e+24')
    """
    return f"{number:,}" if number < 10**15 else f"{number:.4g}"
