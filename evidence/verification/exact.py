"""Exact checks beyond the paper's regimes: steps, decay, noise and its error in every norm and growth.

On a plane the gradient never moves. Without noise a run then goes straight, in its norm as far as γ, λ and T say; with
noise the error of either estimator is a martingale. So an η, a λ, an exponent of the noise or a norm that is wrong by a
tenth is found, which a bound would let pass.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from evidence.verification import oracle_variance, wider
from evidence.verification.cases import Case
from evidence.verification.checks import AtMost, Check, Equals, Parts, checked, on_every_path
from evidence.verification.identities import DIM, conditional_variance
from evidence.verification.instances import Tilted
from evidence.verification.settings import FULLY_RECORDED, VerificationSettings
from evidence.verification.wider import NORMS, REGIME, B, G, Wider
from gladstorm.core.parts import Array, Data, leaf, part
from gladstorm.core.rules import VECTOR
from gladstorm.core.statistics import mean_of
from gladstorm.methods import nsgdm, nstorm
from gladstorm.problems.functions import Tree
from gladstorm.problems.oracles import FullRankOracle
from gladstorm.theory import REGIMES, Prescription

PLANES: Final = {"nsgdm": (0.5, 1.5, 3.0), "nstorm": (0.5, 1.0, 1.5)}  # growths of the noise on a plane, by method
VECTORS: Final = 2000
MEANING: Final = {
    "unit step": "In every norm the unit step d(v) has length 1 and ⟨v, d(v)⟩ = ‖v‖_*, for random v.",
    "noise in the dual norm": "E‖m‖_* ≤ τ (E‖m‖²)^½ for the noise m, and ‖v‖ ≤ κ‖v‖_* is attained.",
    "reach": "A run without noise on a plane gets exactly as far in its norm as γ and λ say, and with decay its mean "
    "distance from x⁰ is r̄.",
}


@part
class Plane:
    """f(x) = ⟨c, x⟩, of a vector or of the matrix that another objective has."""

    start: Data = leaf(VECTOR)  # x⁰
    slope: Data = leaf(VECTOR)  # c
    like: Any = None  # whose tree is its own

    @property
    def tree(self) -> Tree | None:
        """How x is read."""
        return getattr(self.like, "tree", None)

    f_inf = None
    constants = None

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""
        return jnp.sum(self.slope * x)

    def grad(self, x: Array) -> Array:
        """Gradient ∇f(x) = c."""
        return self.slope + 0 * x


def parts(selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """All of it, where all regimes of the paper are checked."""
    if len({case.regime for case in selected}) == len(REGIMES):
        for name, checks in every(settings).items():
            yield f"exact/{name}", partial(checked, checks)


def every(settings: VerificationSettings) -> dict[str, Callable[[], Iterable[Check]]]:
    """All of them by name: noise and steps in every norm, runs on planes, and noise of every growth there."""
    made: dict[str, Callable[[], Iterable[Check]]] = {
        name: partial(oracle_variance.checks, law, settings) for name, law in wider.laws().items()
    }
    for norm in NORMS:
        made[f"steps in {norm}"] = partial(steps, norm, settings)
        made[f"plane, {norm}"] = partial(reach, Wider("nsgdm", norm, 0.0), settings)
        made[f"plane, weight decay, {norm}"] = partial(reach, Wider("nsgdm", norm, 0.0, decays=True), settings)
    for number, (method, a) in enumerate((method, a) for method, growths in PLANES.items() for a in growths):
        made[f"tilted plane, {method.upper()}, a = {a:g}"] = partial(errors, method, a, settings.apart(number + 1))
    return made


def steps(norm: str, settings: VerificationSettings) -> Iterator[Check]:
    """The unit step, and what noise and κ are in the dual norm."""
    row = Wider("nsgdm", norm, 0.0)
    oracle, step, name = row.oracle(1.0), row.step, f"steps in {norm}"
    tree, d = getattr(oracle.objective, "tree", None), oracle.objective.start.size

    def read(v: Array) -> Any:
        return v if tree is None else tree.unflatten(v)

    with jax.enable_x64(True):
        key = jax.random.key(settings.seed)
        v = jax.random.normal(key, (VECTORS, d))
        agreement = jax.vmap(lambda v: step.agreement(read(v)))(v)
        lengths = jax.vmap(lambda v: step.length(step.unit(read(v))))(v)
        keys = jax.random.split(key, VECTORS)
        start = oracle.at(jnp.asarray(oracle.objective.start))
        noise = jax.vmap(lambda key: oracle.grad(start, oracle.sample(key, start)) - oracle.exact(start))(keys)
        duals = np.asarray(jax.vmap(lambda v: step.dual(read(v)))(noise)) / G
        axis = float(1 / step.dual(read(jnp.eye(d)[0])))
    theory = step.in_theory(read(jnp.asarray(oracle.objective.start)))
    for measured in (agreement, lengths):
        farthest = np.asarray(measured)[np.argmax(np.abs(np.asarray(measured) - 1))]
        yield Check(REGIME, name, "unit step", 0, on_every_path(farthest[None]), Equals(1.0))
    yield Check(REGIME, name, "noise in the dual norm", 0, mean_of(duals), AtMost(theory.tau))
    yield Check(REGIME, name, "noise in the dual norm, κ", 0, on_every_path(np.array([axis])), Equals(theory.kappa))


def reach(row: Wider, settings: VerificationSettings) -> Iterator[Check]:
    """How far a run without noise gets on a plane: γ(T − 1), or with decay (1 − (1 − γλ)^(T − 1))/λ; and the mean."""
    T, f = FULLY_RECORDED, row.oracle(2.0).objective
    planned = row.plan(2.0, T)
    side = int(np.sqrt(np.size(f.start))) if hasattr(f, "tree") else 0
    slope = np.eye(side).ravel() if side else np.linspace(1.0, 2.0, np.size(f.start))
    oracle = replace(
        row.oracle(2.0), objective=Plane(np.zeros(np.size(f.start)), slope, f if side else None), B=0.0, G=0.0
    )
    gamma = planned.schedule.gamma
    record = settings.simulate(oracle, row.made(planned), T)
    with jax.enable_x64(True):
        reached = float(row.step.length(wider.read(f, jnp.asarray(record.last[0, 0]))))
    expected, words = gamma * (T - 1), "plane"
    if row.decay is not None:
        expected, words = (1 - (1 - gamma * row.decay.rate) ** (T - 1)) / row.decay.rate, "plane, weight decay"
        shape = reached / np.sqrt(record.drift2[0, 0, -1])  # of the straight path, Euclidean lengths are as many
        mean = shape * np.sqrt(record.drift2[0, :, :]).mean(axis=1)
        far = row.decay.mean_distance(gamma, T)
        yield Check(REGIME, f"{words}, {row.norm}", "reach, mean", T, on_every_path(mean), Equals(far))
    yield Check(REGIME, f"{words}, {row.norm}", "reach", T, on_every_path(np.array([reached])), Equals(expected))


def errors(method: str, growth: float, settings: VerificationSettings) -> Iterator[Check]:
    """The error of v on a plane under noise of every direction."""
    eta, gamma, T = 0.03, 0.05, FULLY_RECORDED
    oracle = FullRankOracle(Tilted(np.zeros(DIM)), B, G, growth=growth)
    made = {"nsgdm": nsgdm, "nstorm": nstorm}[method](gamma, eta)
    record = settings.simulate(oracle, made, T, blocks=settings.blocks)
    schedule = Prescription(eta, gamma, 1, None)
    storm = method == "nstorm"
    exact = conditional_variance(record.drift2[0], schedule, B, G, corrects_drift=storm, growth=growth)
    values = ((record.error[0] ** 2 - exact) / exact.mean(axis=0))[:, T - 1]
    name = f"tilted plane, {method.upper()}, a = {growth:g}"
    yield Check(REGIME, name, "error identity, last k", T, mean_of(values), Equals(0.0))
