"""Protocols of an objective and of a source of its stochastic gradients, as simulator and estimators use them."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from gladstorm.core.constants import Bg0, Constants
from gladstorm.core.parts import Array
from gladstorm.problems.sampling import FURTHER, key_of


class Objective(Protocol):
    """A function f to minimise: its value, its gradient, where runs start, and what is known about it.

    An objective of `gladstorm simulate --objective` also has a class method `from_seed`, whose arguments are those of
    the text. For one use, `from_function(f, start)` is enough.
    """

    @property
    def start(self) -> Array:
        """x⁰, where runs start."""

    @property
    def f_inf(self) -> float | None:
        """inf f, or None if it is not known."""

    @property
    def constants(self) -> Constants | None:
        """The smoothness constants, or None if none are known in closed form."""

    def value(self, x: Array) -> Array:
        """Return the value f(x)."""

    def grad(self, x: Array) -> Array:
        """Return ∇f(x)."""


class Differentiated(ABC):
    """An objective whose gradient is taken by JAX."""

    @abstractmethod
    def value(self, x: Array) -> Array:
        """Return the value f(x)."""

    def grad(self, x: Array) -> Array:
        """Return ∇f(x)."""
        gradient: Array = jax.grad(self.value)(x)
        return gradient


class Point(NamedTuple):
    """x and ∇f(x), computed once for all samples evaluated at x and for the record."""

    x: Array
    grad: Array


class Oracle(ABC):
    """A source of stochastic gradients of f: a sample is drawn once and can be evaluated at any point.

    In each step the simulator calls `draw` for the randomness, `batch` to turn it into one sample for the batch size
    that the method asks for, and `at` for the new point. The estimator then calls `grad` with the sample, at one or
    more points. A point is a NamedTuple with a field `x`; estimators read `x` and pass the rest on. This class keeps
    ∇f(x) in the point, so that all samples at x and the record share one exact gradient.

    An oracle whose variance is exactly B²‖x − x⁰‖² + G² inherits `ExactBg0`. Any other declares its constants in `bg0`,
    with the point where its noise is smallest, so that the theorems can be applied to it, or says in `no_theorem` why
    not. The tests of every oracle check that it is unbiased and has its `variance`, and a batch of b a b-th of it.
    """

    objective: Objective
    field: ClassVar[str] = "∇f"  # what `exact` is and samples are of, as written beside its norm
    no_theorem: ClassVar[str | None] = None  # why the theorems do not apply to it, as the end of a sentence

    @classmethod
    def incompatible(cls, _objective: Any) -> str | None:
        """Say why samples of this objective cannot be drawn; None if they can."""
        return None

    @property
    def largest(self) -> int | None:
        """The largest batch size; None if there is no limit."""
        return None

    @abstractmethod
    def draw(self, key: Array) -> Any:
        """The randomness of one step, for any batch size: arrays of a fixed shape."""

    @abstractmethod
    def batch(self, noise: Any, size: Array) -> Any:
        """One sample with the law of the mean of `size` samples; `size` is a traced whole number."""

    def drawn_at(self, _point: Any, sample: Any) -> Any:
        """The sample, once the point is known at which the run draws it; by default the sample as it is.

        Every estimator evaluates its sample at the newest point and at no more than one other. An oracle for which that
        is cheaper may prepare the sample here for the newest point, as long as it is exact at both.
        """
        return sample

    def at(self, x: Array) -> Any:
        """The point x, with whatever the oracle wants to keep about it."""
        return Point(x, self.objective.grad(x))

    @abstractmethod
    def grad(self, point: Any, sample: Any) -> Array:
        """∇f(x; ξ), the gradient of a sample at a point."""

    def sample(self, key: Array, point: Any, size: int | Array = 1) -> Any:
        """Draw the mean of some samples at a point, for `grad` to evaluate there and at most at one other.

        Args:
            key: Decides the samples.
            point: What `at` returned.
            size: How many samples.
        """
        return self.sample_of(self.draw(key), point, jnp.asarray(size, int))

    def sample_of(self, noise: Any, point: Any, size: Array) -> Any:
        """Make the sample that `sample` returns of randomness that was drawn before.

        Args:
            noise: What `draw` returned.
            point: What `at` returned.
            size: How many samples.
        """
        return self.drawn_at(point, self.batch(noise, size))

    def exact(self, point: Any) -> Array:
        """∇f(x), the exact gradient, for the record."""
        gradient: Array = point.grad
        return gradient

    def variance(self, _point: Any) -> Array | None:
        """E‖∇f(x; ξ) − ∇f(x)‖² of one sample; None if it is not known in closed form."""
        return None

    @property
    def bg0(self) -> Bg0 | None:
        """Constants B and G with which BG-0 holds, and the point where the noise is smallest; None if not known."""
        return None

    @property
    def expected_constants(self) -> Constants | None:
        """L0, L1 and α of the class E L*_sym(α) if its samples are certified to be in it, whatever f is; else None."""
        return None


class OwnNoise(Oracle):
    """Samples with the noise that a problem has by itself: nothing is added to f, and the objective has all numbers.

    The objective names this oracle in `own_oracle`. It may have a `flaw`, a sentence if its numbers
    do not fit together.
    """

    noise_of: ClassVar[type[Any]]  # the objective's class

    @override
    @classmethod
    def incompatible(cls, objective: Any) -> str | None:
        if not isinstance(objective, cls.noise_of):
            wanted, got = cls.noise_of.own_oracle, type(objective).__name__
            return f"{cls.__name__}: the objective must be {wanted}, whose noise this is; got {got}."
        flaw: str | None = getattr(objective, "flaw", None)
        return flaw


class Stream(NamedTuple):
    """A batch: its first sample, and the key of the others, which are drawn again wherever it is evaluated."""

    first: Any
    key: Array
    size: Array  # b


class Streamed(OwnNoise):
    """An oracle that draws all b samples of a batch: it costs b draws, and is exact at any number of points."""

    at_once: ClassVar[int] = 8  # samples drawn together: a batch costs a loop over as many of these as it needs

    @abstractmethod
    def single(self, key: Array) -> Any:
        """Draw the numbers that one sample is made of."""

    @abstractmethod
    def gradient(self, point: Any, single: Any) -> Array:
        """∇f(x; ξ) of one sample."""

    @override
    def draw(self, key: Array) -> tuple[Any, Array]:
        return self.single(key), jax.random.key_data(key)

    @override
    def batch(self, noise: tuple[Any, Array], size: Array) -> Stream:
        return Stream(*noise, jnp.asarray(size))

    @override
    def grad(self, point: Any, sample: Stream) -> Array:
        key, others = key_of(sample.key), sample.size - 1

        def more(chunk: Array, total: Array) -> Array:
            places = self.at_once * chunk + jnp.arange(self.at_once)
            keys = jax.vmap(lambda place: jax.random.fold_in(key, FURTHER + place))(places)
            rows = jax.vmap(lambda key: self.gradient(point, self.single(key)))(keys)
            return total + jnp.sum(jnp.where((places < others)[:, None], rows, 0.0), axis=0)

        first = self.gradient(point, sample.first)
        total: Array = lax.fori_loop(0, -(-others // self.at_once), more, first)
        return total / sample.size
