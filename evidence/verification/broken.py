"""Methods and oracles that are wrong on purpose: what the verification must find, and with --broken does.

Each is put in the place of the right one through `VerificationSettings`, and nothing else changes. Of all checks those
made for it are run: those on a plane, in every regime a mistake affects, those of the oracle, and those of the problem
of the lower bound. They have fewer seeds than `--quick` gives them and are decided as strictly as a full report, so
that whatever is found here `--quick` finds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
from typing_extensions import override

from evidence.verification import identities, lower_bound, oracle_variance
from evidence.verification.cases import cases
from evidence.verification.checks import Check, Verdict, level_of_each
from evidence.verification.identities import statements
from evidence.verification.instances import Wrapper
from evidence.verification.settings import QUICK, Builder, HardProblem, VerificationSettings, noisy_runway, planned
from gladstorm.core.parts import Array, part
from gladstorm.methods import Method, from_plan
from gladstorm.methods.estimators import Momentum, Storm
from gladstorm.problems.hard.noisy_runway import Coins
from gladstorm.problems.objectives import NoisyRunway
from gladstorm.problems.oracles import BlumGladyshev, NoisyRunwayOracle, Point
from gladstorm.theory import Plan, Statement


@dataclass(frozen=True)
class Broken:
    """One thing that is wrong, and the regimes it makes a difference in; if it affects none, a problem is wrong."""

    name: str
    affects: Callable[[Statement], bool] | None = None
    method: Builder = planned
    wrapper: Wrapper = BlumGladyshev
    hard_problem: HardProblem = noisy_runway

    def settings(self, right: VerificationSettings) -> VerificationSettings:
        """Settings of the same verification with the mistake."""
        return replace(right, method=self.method, wrapper=self.wrapper, hard_problem=self.hard_problem)

    @property
    def regimes(self) -> list[str]:
        """Regimes in which the mistake must be found."""
        if self.affects is None:
            return ["oracle" if self.hard_problem is noisy_runway else lower_bound.REGIME]
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
    return rescheduled(statement, T, gamma=T**-0.03 if statement.gamma_exponent == 3 / 4 else 1.0)


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

    def towards(self, d: int) -> Any:
        """The unit vector along which the mean of the noise lies."""
        return jnp.zeros(d).at[-1].set(1.0)

    @override
    def grad(self, point: Any, sample: Any) -> Any:
        return BlumGladyshev.grad(self, point, sample) + 0.1 * self.G * self.towards(point.grad.size)


@part
class LeaningBack(Leaning):
    """A leaning carrier of the other sign."""

    @override
    def towards(self, d: int) -> Any:
        return -Leaning.towards(self, d)


@part
class LeaningAside(Leaning):
    """Noise with a mean at right angles to (1, …, 1), where there is room for that."""

    @override
    def towards(self, d: int) -> Any:
        return jnp.where(jnp.arange(d) % 2, -1.0, 1.0) / d**0.5


@part
class OneCoin(NoisyRunwayOracle):
    """One coin for all links: a rare sample shows the whole chain to who uses it again."""

    @override
    def draw(self, key: Array) -> Coins:
        shown, sign = NoisyRunwayOracle.draw(self, key)
        return Coins(jnp.broadcast_to(shown[0], shown.shape), sign)


@part
class Dense(NoisyRunway):
    """A chain that is six times too dense."""

    @property
    def scale(self) -> Any:
        """A sixth of the right length λ."""
        return super().scale / 6


@part
class Silent(NoisyRunway):
    """Without the carrier: sample gradients are small, and the class allows little curvature."""

    @override
    def carrier(self, x: Array) -> tuple[Array, Array]:
        return jnp.zeros(()), jnp.zeros_like(x)


def one_coin(**constants: float) -> NoisyRunwayOracle:
    """The problem of the lower bound with one coin for all links."""
    return OneCoin(noisy_runway(**constants).objective)


def of_kind(kind: type[NoisyRunway], **constants: float) -> NoisyRunwayOracle:
    """The problem of the lower bound with another objective."""
    right = noisy_runway(**constants).objective
    return NoisyRunwayOracle(kind(**{each.name: getattr(right, each.name) for each in fields(right)}))


dense, silent = partial(of_kind, Dense), partial(of_kind, Silent)


def _noisy(statement: Statement) -> bool:
    return statement.noise != "deterministic"


def _storm(statement: Statement) -> bool:
    return _noisy(statement) and statement.corrects_drift


BROKEN: Final = (
    Broken("γ = γ0 T^(−0.78) instead of γ0 T^(−3/4)", lambda s: s.gamma_exponent == 3 / 4, method=steep),
    Broken("γ 10 % too small", lambda _: True, method=lambda s, T: rescheduled(s, T, gamma=0.9)),
    Broken("η 10 % too large", _noisy, method=lambda s, T: rescheduled(s, T, eta=1.1)),
    Broken(
        "N_init half as large",
        lambda s: _storm(s) and s.n_init_exponent is not None,
        method=lambda s, T: rescheduled(s, T, n_init=0.5),
    ),
    Broken(
        "momentum without the factor 1 − η",
        lambda s: _noisy(s) and not s.corrects_drift,
        with_estimator({"nsgdm": MomentumThatKeepsAll}),
    ),
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
    Broken("one coin for all links of the hard problem", hard_problem=one_coin),
    Broken("a chain of the hard problem that is 6 times too dense", hard_problem=dense),
    Broken("the hard problem without its carrier", hard_problem=silent),
)
WEAKER = replace(QUICK, horizons=(201, 1000), blocks=2)
ORACLE = ("nsgdm/smooth/bg0",)  # a regime on problems of one and of two dimensions


def checks(broken: Broken, settings: VerificationSettings) -> Iterator[Check]:
    """Checks that are about what is broken."""
    if broken.hard_problem is not noisy_runway:
        yield from lower_bound.checks(settings)
    elif broken.affects is None:
        for law in oracle_variance.laws((case for case in cases(ORACLE) if case.instance.wrapped), settings).values():
            yield from oracle_variance.checks(law, settings)
    else:
        for regime in broken.regimes:
            yield from identities.checks(statements()[regime], settings)


def found(broken: Broken, level: float) -> dict[str, Any]:
    """Count which checks fail, and in how many of the regimes that it affects."""
    made = list(checks(broken, broken.settings(WEAKER)))
    failed = [check for check in made if not Verdict(check, *check.measured.interval(level)).holds]
    kinds = dict.fromkeys(check.kind.split(",")[0] for check in failed)
    return {
        "broken": broken.name,
        "affects": len(broken.regimes),
        "found_in": len({check.regime for check in failed} & set(broken.regimes)),
        "failures": {kind: sum(check.kind.split(",")[0] == kind for check in failed) for kind in kinds},
    }


def find_all(random_numbers: int) -> list[dict[str, Any]]:
    """Find every mistake, at the level of a report with so many different random numbers."""
    level = level_of_each(random_numbers)
    return [found(broken, level) for broken in BROKEN]
