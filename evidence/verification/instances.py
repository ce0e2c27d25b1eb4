"""Problems whose constants are known in closed form, two for each class of smoothness: one convex, one not.

Two more have noise of their own, of the class BG-0 with certified constants: nothing is added to them.

Each is started where the schedule can reach a minimiser: at half of what γ T allows at the horizon `ARRIVES_AT`, and
not farther than `reach`; γ0 is such that it need not be. A run that stays on its first slope shows the rate of nothing,
and one whose steps are as long as the problem is wide shows a rate only at horizons we cannot run.

Functions of one dimension are one part, `OneOf`, so that all instances of it share their compiled programs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from typing_extensions import override

from gladstorm import theory
from gladstorm.core.constants import Constants
from gladstorm.core.parts import Array, Data, leaf, part, static
from gladstorm.core.rules import VECTOR
from gladstorm.problems import oracles
from gladstorm.problems.objectives import (
    Cauchy,
    Cosh,
    DoubleWell,
    Objective,
    Power,
    Quadratic,
    StreamingLeastSquares,
    VariationalGaussian,
)
from gladstorm.problems.oracles import BlumGladyshev, Oracle
from gladstorm.problems.own_noise.variational_gaussian import GaussianFamily
from gladstorm.theory import Statement

Family = Callable[[Any], Any]  # x⁰ to an objective


@part
class OneOf:
    """f = Σ_j w_j f_j, where one w_j is 1 and the others are 0: which f_j it is, is a number and not a structure."""

    start: Data = leaf(VECTOR)  # x⁰
    weights: Data = leaf(VECTOR)  # w
    families: tuple[Family, ...] = static()

    @classmethod
    def chosen(cls, family: Family, families: tuple[Family, ...], start: ArrayLike) -> Self:
        """The one, started at x⁰."""
        return cls(start, np.array([float(each is family) for each in families]), families)

    def value(self, x: Array) -> Array:
        """Value f(x) of the sum."""
        return jnp.sum(self.weights * jnp.stack([each(self.start).value(x) for each in self.families]))

    def grad(self, x: Array) -> Array:
        """Gradient ∇f(x) of the sum."""
        return self.weights @ jnp.stack([each(self.start).grad(x) for each in self.families])

    @property
    def itself(self) -> Objective:
        """The only objective of the sum that has a weight."""
        one: Objective = self.families[int(np.argmax(self.weights))](self.start)
        return one

    @property
    def f_inf(self) -> float | None:
        """Infimum of f."""
        return self.itself.f_inf

    @property
    def constants(self) -> Constants | None:
        """Constants of the function itself."""
        return self.itself.constants


@part
class Tilted:
    """f(x) = Σ_i x_i/√d: a plane of slope 1 everywhere, without infimum. Its gradient never moves."""

    start: Data = leaf(VECTOR)  # x⁰
    f_inf: ClassVar[None] = None
    constants: ClassVar[Constants | None] = None

    def value(self, x: Array) -> Array:
        """Value f(x) of the sum."""
        return jnp.sum(self.grad(x) * x)

    def grad(self, x: Array) -> Array:
        """∇f(x) = (1, …, 1)/√d."""
        return jnp.full(x.shape, x.size**-0.5)


def parabola(start: Array) -> Quadratic:
    """Parabola f(x) = ‖x‖²."""
    return Quadratic(start, np.full(start.shape, 2.0))


def cubic(start: Array) -> Power:
    """Cubic f(x) = ‖x‖³."""
    return Power(start, 3.0)


def wide_cosh(start: Array) -> Cosh:
    """f(x) = 160 Σ_i cosh(x_i/4): exponential growth that begins where γ0 ≤ 1/(8 L1) still gets to."""
    return Cosh(start, 0.25, 160.0)


ON_A_LINE: tuple[Family, ...] = (parabola, DoubleWell)
ON_A_PLANE: tuple[Family, ...] = (Cauchy, cubic, wide_cosh, DoubleWell, Tilted)

NOISE: Final = {"bg0": (0.5, 0.25), "bounded": (0.0, 0.25), "deterministic": (0.0, 0.0)}  # B, G
ARRIVES_AT: Final = 1000

Wrapper = Callable[[Any, float, float], Any]  # an objective, B and G to an oracle


@dataclass(frozen=True)
class Instance:
    """A function with one free number, the distance from the start to the nearest minimiser."""

    name: str
    smoothness: str
    convex: bool
    family: Family
    dim: int
    reach: float
    minimisers: float = 0.0  # their distance from the origin
    alpha: float | None = None  # a weaker class than the objective declares
    loudness: float = 1.0  # of the noise: where gradients are small, the usual one would be all there is
    noises: ClassVar[tuple[str, ...]] = tuple(NOISE)
    wrapped: ClassVar[bool] = True  # whether the noise is what a wrapper adds, of exactly the variance BG-0 allows

    def at_distance(self, distance: float) -> Any:
        """The objective started that far from the nearest minimiser, on the origin's side of it if there is one."""
        start = np.full(self.dim, abs(self.minimisers - distance) / np.sqrt(self.dim))
        return OneOf.chosen(self.family, ON_A_LINE if self.dim == 1 else ON_A_PLANE, start)

    def noise_of(self, noise: str) -> tuple[float, float]:
        """B and G of a kind of noise."""
        B, G = NOISE[noise]
        return self.loudness * B, self.loudness * G

    def gamma0(self, method: str, noise: str) -> float:
        """1 or less: as much as the theorem admits, and as long as f is wide. It does not depend on the start."""
        free = self._stated(method, noise, self.reach, 1.0)
        wide = 2 * self.reach / (free.schedule(ARRIVES_AT).gamma * ARRIVES_AT)
        return min(1.0, wide, free.largest_gamma0())

    def distance(self, method: str, noise: str) -> float:
        """Distance from the start to the nearest minimiser: half of γ T at `ARRIVES_AT`, and not beyond reach."""
        schedule = self._stated(method, noise, self.reach, self.gamma0(method, noise)).schedule(ARRIVES_AT)
        return min(self.reach, schedule.gamma * ARRIVES_AT / 2)

    def statement(self, method: str, noise: str) -> Statement:
        """The paper's statement about a method here."""
        return self._stated(method, noise, self.distance(method, noise), self.gamma0(method, noise))

    def oracle(self, method: str, noise: str, wrapper: Wrapper = BlumGladyshev) -> Oracle:
        """The started problem under noise."""
        return self.noisy(self.distance(method, noise), noise, wrapper)

    def noisy(self, distance: float, noise: str, wrapper: Wrapper = BlumGladyshev) -> Oracle:
        """The problem started that far from the nearest minimiser, under noise."""
        made: Oracle = wrapper(self.at_distance(distance), *self.noise_of(noise))
        return made

    def _stated(self, method: str, noise: str, distance: float, gamma0: float) -> Statement:
        return theory.for_oracle(self.noisy(distance, noise), method, alpha=self.alpha, gamma0=gamma0)


class OwnInstance(Instance):
    """A problem with noise of its own, so many units away from its solution. The theorems are told BG-0 around x⁰."""

    noises = ("bg0",)
    wrapped = False

    @override
    def at_distance(self, distance: float) -> Any:
        """The problem started that far from the solution."""
        return self.family(distance)

    @override
    def noisy(self, distance: float, noise: str, wrapper: Wrapper = BlumGladyshev) -> Oracle:
        objective = self.at_distance(distance)
        return oracles.named(objective.own_oracle, objective)


def stream(distance: float) -> StreamingLeastSquares:
    """Least squares with eigenvalues 1 and ½, and labels that deviate by ½."""
    return StreamingLeastSquares(np.full(2, distance * 0.5**0.5), np.zeros(2), np.array([1.0, 0.5]), 0.5)


def posterior(distance: float) -> VariationalGaussian:
    """N(0, 1) by a normal with mean m and variance c² + ¼, started from a mean and a deviation that are too large."""
    solution = np.array([0.0, 0.75**0.5])
    family = GaussianFamily("full-rank", 1)
    return VariationalGaussian(solution + distance * 0.5**0.5, np.zeros(1), np.ones(1), 0.5, family)


_DOUBLE_WELL: Final = Instance(
    "double well, d = 1",
    "sublinear",
    convex=False,
    family=DoubleWell,
    dim=1,
    reach=0.6,  # inside the concave part, but not on its top, where the first sample decides which side it is
    minimisers=1.0,
    loudness=0.2,
)
INSTANCES: Final = (
    Instance("‖x‖², d = 1", "smooth", convex=True, family=parabola, dim=1, reach=3.0),
    Instance("Σ log(1 + x²), d = 2", "smooth", convex=False, family=Cauchy, dim=2, reach=3.0),
    Instance("‖x‖³, d = 2", "sublinear", convex=True, family=cubic, dim=2, reach=1.5),
    _DOUBLE_WELL,
    Instance("cosh, d = 2", "linear", convex=True, family=wide_cosh, dim=2, reach=6.0),
    replace(_DOUBLE_WELL, name="double well, d = 2", smoothness="linear", dim=2, reach=0.9, alpha=1.0),
    OwnInstance("streaming least squares, d = 2", "smooth", convex=True, family=stream, dim=2, reach=3.0),
    OwnInstance("variational Gaussian, d = 1", "smooth", convex=False, family=posterior, dim=2, reach=3.0),
)
