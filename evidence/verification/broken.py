"""Methods and oracles that are wrong on purpose: what the verification must find, and with --broken does.

Each is put in the place of the right one through `VerificationSettings`, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import jax
import jax.numpy as jnp
from typing_extensions import override

from evidence.verification.instances import Wrapper
from evidence.verification.on_a_plane import statements
from evidence.verification.settings import Builder, VerificationSettings, planned
from gladstorm.core.parts import Array, part
from gladstorm.methods import Method, from_plan
from gladstorm.methods.estimators import Momentum, Storm
from gladstorm.problems.oracles import BlumGladyshev, Point
from gladstorm.theory import Plan, Statement


@dataclass(frozen=True)
class Broken:
    """One thing that is wrong, and the regimes it makes a difference in; if it affects none, the oracle is wrong."""

    name: str
    affects: Callable[[Statement], bool] | None = None
    method: Builder = planned
    wrapper: Wrapper = BlumGladyshev

    def settings(self, right: VerificationSettings) -> VerificationSettings:
        """The same verification with it."""
        return replace(right, method=self.method, wrapper=self.wrapper)

    @property
    def regimes(self) -> list[str]:
        """Where it must be found."""
        if self.affects is None:
            return ["oracle"]
        return [regime for regime, statement in statements().items() if self.affects(statement)]


def rescheduled(statement: Statement, T: int, **factors: float) -> Method:
    """The method with multiples of its η, γ or N_init."""
    eta, gamma, n_init, _ = statement.schedule(T)
    changed = {
        "gamma": gamma * factors.get("gamma", 1),
        "eta": min(1.0, eta * factors.get("eta", 1)),
        "n_init": max(1, round(n_init * factors.get("n_init", 1))),
    }
    return from_plan(Plan(statement, T), **{name: changed[name] for name in statement.settings(T)})


def steep(statement: Statement, T: int) -> Method:
    """γ = γ0 T^(−0.78) where it should be γ0 T^(−3/4)."""
    return rescheduled(statement, T, gamma=T**-0.03 if _three_quarters(statement) else 1.0)


def short(statement: Statement, T: int) -> Method:
    """Steps of nine tenths of γ."""
    return rescheduled(statement, T, gamma=0.9)


def forgetful(statement: Statement, T: int) -> Method:
    """η a tenth too large."""
    return rescheduled(statement, T, eta=1.1)


def hasty(statement: Statement, T: int) -> Method:
    """Half of the samples for v⁰."""
    return rescheduled(statement, T, n_init=0.5)


@part
class MomentumThatKeepsAll(Momentum):
    """v⁺ = v + η g: the factor (1 − η) is missing."""

    @override
    def update(self, state: Any, grad: Any, previous: Any, point: Any) -> Any:
        return state + self.eta * grad(point)


@part
class StormThatKeepsTheOld(Storm):
    """v⁺ = g(x⁺; ξ) + (1 − η) v − g(x; ξ): the old gradient is not discounted."""

    @override
    def update(self, state: Any, grad: Any, previous: Any, point: Any) -> Any:
        return grad(point) + (1 - self.eta) * state - grad(previous)


class Stale(Point):
    """A point at which an oracle that has two samples shows the other one."""


@part
class StormOfTwoSamples(Storm):
    """v⁺ = g(x⁺; ξ) + (1 − η)(v − g(x; ξ')): the second sample is a fresh one."""

    @override
    def update(self, state: Any, grad: Any, previous: Any, point: Any) -> Any:
        return grad(point) + (1 - self.eta) * (state - grad(Stale(*previous)))


def with_estimator(wrong: dict[str, type[Any]]) -> Builder:
    """The planned method with another estimator of the same η, by the method's name."""

    def built(statement: Statement, T: int) -> Method:
        method: Any = planned(statement, T)
        estimator = wrong.get(statement.method, type(method.estimator))
        return Method(estimator(method.estimator.eta), method.step, method.batch)

    return built


@part
class TwoSamples(BlumGladyshev):
    """The wrapper with a second, independent sample for stale points."""

    @override
    def draw(self, key: Array) -> Any:
        return jax.vmap(super().draw)(jax.random.split(key))

    @override
    def batch(self, noise: Any, size: Array) -> Any:
        return tuple(BlumGladyshev.batch(self, each, size) for each in noise)

    @override
    def grad(self, point: Any, sample: Any) -> Any:
        return BlumGladyshev.grad(self, point, sample[isinstance(point, Stale)])


@part
class Loud(BlumGladyshev):
    """Noise that is a twentieth larger than it says."""

    @override
    def grad(self, point: Any, sample: Any) -> Any:
        return point.grad + 1.05 * (BlumGladyshev.grad(self, point, sample) - point.grad)


@part
class Leaning(BlumGladyshev):
    """Noise with a mean of a tenth of G, along the last coordinate."""

    sign: ClassVar[float] = 1.0

    @override
    def grad(self, point: Any, sample: Any) -> Any:
        along = jnp.zeros_like(point.grad).at[-1].set(0.1 * self.sign * self.G)
        return BlumGladyshev.grad(self, point, sample) + along


@part
class LeaningBack(Leaning):
    """The other way."""

    sign = -1.0


@part
class LeaningAside(BlumGladyshev):
    """Noise with a mean of a tenth of G, at right angles to (1, …, 1) where there is room for that."""

    @override
    def grad(self, point: Any, sample: Any) -> Any:
        size = point.grad.size
        aside = jnp.where(jnp.arange(size) % 2, -1.0, 1.0) / size**0.5
        return BlumGladyshev.grad(self, point, sample) + 0.1 * self.G * aside


def _three_quarters(statement: Statement) -> bool:
    return statement.gamma_exponent == 3 / 4


def _noisy(statement: Statement) -> bool:
    return statement.noise != "deterministic"


def _everywhere(_: Statement) -> bool:
    return True


def _momentum(statement: Statement) -> bool:
    return _noisy(statement) and not statement.corrects_drift


def _storm(statement: Statement) -> bool:
    return _noisy(statement) and statement.corrects_drift


def _large_start(statement: Statement) -> bool:
    return _storm(statement) and statement.n_init_exponent is not None


BROKEN: Final = (
    Broken("γ = γ0 T^(−0.78) instead of γ0 T^(−3/4)", _three_quarters, method=steep),
    Broken("γ 10 % too small", _everywhere, method=short),
    Broken("η 10 % too large", _noisy, method=forgetful),
    Broken("N_init half as large", _large_start, method=hasty),
    Broken("momentum without the factor 1 − η", _momentum, with_estimator({"nsgdm": MomentumThatKeepsAll})),
    Broken(
        "STORM without the factor 1 − η on the old gradient", _storm, with_estimator({"nstorm": StormThatKeepsTheOld})
    ),
    Broken(
        "STORM with a fresh sample at the old point", _storm, with_estimator({"nstorm": StormOfTwoSamples}), TwoSamples
    ),
    Broken("an oracle whose noise is 5 % larger than it says", wrapper=Loud),
    Broken("an oracle with a bias of G/10 along the last coordinate", wrapper=Leaning),
    Broken("the same bias the other way", wrapper=LeaningBack),
    Broken("a bias of G/10 at right angles to (1, …, 1)", wrapper=LeaningAside),
)
