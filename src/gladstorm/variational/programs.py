"""Compiled programs of a fit, kept in the process: fits of one model structure share them, whatever the data.

`Update` is one kind of step, and `advance` takes a block of them from all starts at once.

A function is traced once a fit. The arrays that it closes over become arguments of its programs, and everything else is
in the text of its lowered value and gradient. Functions with the same text have the same programs, so that nothing
stale is ever used. A program's shapes do not depend on the number of steps or draws.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from gladstorm.core.parts import Array
from gladstorm.simulation.devices import programs_on_disk

LogDensity = Callable[[Any, Array], Array]  # of z, with a key for a subsample of the data
ROWS = 64  # points at which a function is evaluated together
PAGE = 1024  # draws of a sample made together
PROGRAMS = 64  # that a process keeps
DRAWN = 2**18  # numbers that are drawn together, for at most CHUNK steps
CHUNK = 256
_SAMPLE = 2**31  # the number of a sample's key, where an update or a look of a fit has its own
QUICK = {"xla_backend_optimization_level": 0}  # random numbers take seven times as long to compile otherwise


class Gain(NamedTuple):
    """The record of a step, or its sum over steps."""

    elbo: Any  # log p(z) − log q(z) at the draw of the step
    noise: Any  # the squared length of the gradient in standard deviations of q: all noise at the end
    skipped: Any  # 1 if the gradient was not finite


class Draw(NamedTuple):
    """The randomness of one step."""

    noise: Any  # ε
    key: Any  # for a subsample of the data


@dataclass(frozen=True)
class Update(ABC):
    """One kind of step of a fit. `least_z` is `per_coordinate.SUBSAMPLED` where data are subsampled.

    `begin` makes a state from q, `step` is one step, and JAX traces both for one start. `candidates` reads members from
    the states of all starts, in NumPy: first the average of late iterates, which is usually the best one.
    """

    least_z: float = 0.0
    leaves_family: ClassVar[bool] = False  # what it gains does not tell whether the updates before it had arrived

    @abstractmethod
    def begin(self, q: Any, key: Array, careful: Any = False) -> Any:
        """Return the state before the first step, of a usual start or a careful one."""

    @abstractmethod
    def noise_size(self, state: Any) -> int | None:
        """Return how many normal numbers a step takes; None if it takes only a key."""

    @abstractmethod
    def step(self, log_density: LogDensity, state: Any, draw: Draw, steps: Array) -> tuple[Any, Gain]:
        """Return the state after one step, of a run of so many steps."""

    @abstractmethod
    def candidates(self, state: Any) -> tuple[Any, ...]:
        """Return what may be reported, the usual candidate first."""


class FullDataPoint(NamedTuple):
    """A point of every start, with the log density on all data there and its gradient."""

    z: Any
    value: Any
    slope: Any


@dataclass(frozen=True)
class _Structure:
    """All of a traced function but the arrays it closes over; equal if its text is."""

    text: str
    run: Callable[..., Any] = field(compare=False)  # of the arrays and the function's arguments


class Traced:
    """A JAX function as data: a structure with programs, and the arrays that it closes over.

    A quick one is compiled fast and runs slowly, for functions that are called a few times.
    """

    def __init__(self, function: Callable[..., Any], *examples: Any, quick: bool = False) -> None:
        self._quick = quick
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*examples)
        run = partial(_run, closed.jaxpr, jax.tree.structure(shapes))
        is_number = getattr(shapes, "shape", None) == ()
        compiled = jax.jit(jax.value_and_grad(run, 1) if is_number else run, keep_unused=True)
        lowered = compiled.lower(closed.consts, *examples)
        self.structure = _Structure(hashlib.sha256(lowered.as_text().encode()).hexdigest(), run)
        self.arrays = closed.consts
        self._rows = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((ROWS, *np.shape(leaf)), jnp.result_type(leaf)), examples
        )

    @cached_property
    def identity(self) -> str:
        """Digest of the structure and its arrays."""
        digest = hashlib.sha256(self.structure.text.encode())
        for array in self.arrays:
            typed_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
            digest.update(np.asarray(jax.random.key_data(array) if typed_key else array).tobytes())
        return digest.hexdigest()

    def over(self, *rows: Any) -> Any:
        """Evaluate the function at rows of arguments, some at a time; the results as NumPy arrays."""
        return self._over(_evaluate, rows)

    def export(self) -> Exported:
        """Return the function with its arrays, without its gradient, as other processes can read it."""
        evaluate = jax.jit(partial(_evaluate, self.structure, self.arrays))
        return Exported(bytes(export.export(evaluate)(*self._rows).serialize()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Exported, (self.export().code,)

    def is_finite(self, *rows: Any) -> np.ndarray:
        """Return at which rows of arguments the number and its gradient are finite."""
        values, gradients = self.values_and_gradients(*rows)
        leaves = [np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1) for leaf in jax.tree.leaves(gradients)]
        return np.asarray(np.all([np.isfinite(values), *leaves], axis=0))

    def values_and_gradients(self, *rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the number and its gradient at rows of arguments."""
        values, gradients = self._over(_values_and_gradients, rows)
        return values, gradients

    def value_and_gradient(self, point: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the number and its gradient at one point, for a function of much data."""
        value, gradient = program(_value_and_gradient, self.structure)(self.arrays, point)
        return np.asarray(value), np.asarray(gradient)

    def _over(self, function: Callable[..., Any], rows: Any) -> Any:
        return _paged(partial(program(function, self.structure, quick=self._quick), self.arrays), rows)


@dataclass(frozen=True)
class Exported:
    """A function of rows with its arrays, as bytes that other processes and later versions of JAX can read."""

    code: bytes

    def over(self, *rows: Any) -> Any:
        """Evaluate the function at rows of arguments; the results as NumPy arrays."""
        return _paged(_loaded(self.code), rows)

    def export(self) -> Exported:
        """Return the function itself."""
        return self


@dataclass(frozen=True, eq=False)
class Sampler:
    """Draws of the sites of a model."""

    sites: Traced | Exported  # of ε and a key
    noise_size: int | None  # of ε
    double: bool  # precision

    @programs_on_disk()
    def __call__(self, n: int, seed: int) -> dict[str, np.ndarray]:
        """Draw n times."""
        with jax.enable_x64(self.double):
            draws: dict[str, np.ndarray] = self.sites.over(*sample_noise(n, seed, self.noise_size))
        return draws


@lru_cache(maxsize=PROGRAMS)
def program(function: Callable[..., Any], *static: Any, quick: bool = False) -> Callable[..., Any]:
    """Compile a function with these first arguments fixed; equal ones are compiled once a process."""
    options: Any = QUICK if quick else None
    return jax.jit(partial(function, *static), compiler_options=options)


@lru_cache(maxsize=PROGRAMS)
def _loaded(code: bytes) -> Callable[..., Any]:
    return jax.jit(export.deserialize(bytearray(code)).call)


def step_draws(rows: int, starts: int, size: int | None, key: Any, first: Any) -> tuple[Any, Any]:
    """ε and a key for every start, of so many steps from the first; without a size only the key of the step."""
    keys = jax.random.split(jax.random.wrap_key_data(key), starts)
    numbers = first + jnp.arange(rows)
    return _noise(jax.vmap(lambda k: jax.vmap(lambda key: jax.random.fold_in(key, k))(keys))(numbers), size)


def look_draws(size: int | None, key: Any) -> tuple[Any, Any]:
    """ε and keys of the draws at which several members are compared."""
    return _noise(jax.random.split(jax.random.wrap_key_data(key), ROWS), size)


def sample_noise(n: int, seed: int, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """ε and keys of n draws of any seed; the first of them do not depend on n."""
    key, page = np.array([seed % 2**32, _SAMPLE], np.uint32), program(step_draws, PAGE, 1, size, quick=True)
    noise, keys = zip(*(map(np.asarray, page(key, first)) for first in range(0, n, PAGE)), strict=True)
    return np.concatenate(noise)[:n, 0], np.concatenate(keys)[:n, 0]


def _noise(keys: Any, size: int | None) -> tuple[Any, Any]:
    flat = keys.reshape(-1)
    shape, dtype = keys.shape, jnp.result_type(float)
    if size is None:
        return jnp.zeros((*shape, 0), dtype), jax.random.key_data(flat).reshape(*shape, -1)
    pairs = jax.vmap(jax.random.split)(flat)
    noise = jax.vmap(lambda key: jax.random.normal(key, (size,), dtype))(pairs[:, 0])
    return noise.reshape(*shape, size), jax.random.key_data(pairs[:, 1]).reshape(*shape, -1)


def advance(
    density: Traced,
    update: Update,
    starts: int,
    state: Any,
    anchor: FullDataPoint | None,
    key: np.ndarray,
    at: int,
    length: int,
    steps: int,
) -> tuple[np.ndarray, ...]:
    """Advance every start through a block of steps; the leaves of their states, and the sums of their gains."""
    size = update.noise_size(state)
    together = min(CHUNK, max(1, DRAWN // (starts * (2 + (size or 0)))))
    draw = program(step_draws, together, starts, size, quick=True)
    chunk = program(_chunk, update, density.structure, starts)
    gain = Gain(*(np.zeros(starts, jnp.result_type(float)),) * 3)
    for first in range(0, length, together):
        count = min(together, length - first)
        state, gain = chunk(density.arrays, state, gain, Draw(*draw(key, at + first)), count, float(steps), anchor)
    return tuple(np.asarray(leaf) for leaf in (*jax.tree.leaves(state), *gain))


def _chunk(
    update: Update,
    structure: Any,
    starts: int,
    arrays: Any,
    states: Any,
    gain: Gain,
    draws: Draw,
    count: Array,
    steps: Array,
    anchor: FullDataPoint | None,
) -> tuple[Any, Gain]:
    """Advance every start through some steps, one after the other; their draws may be more than are needed."""

    def step(state: Any, draw: Draw, anchor: FullDataPoint | None) -> tuple[Any, Gain]:
        log_density: LogDensity = partial(structure.run, arrays)
        return update.step(log_density if anchor is None else _corrected(log_density, anchor), state, draw, steps)

    def one(j: Array, before: tuple[Any, Gain]) -> tuple[Any, Gain]:
        draw = jax.tree.map(lambda leaf: leaf[j], draws)
        if starts > 1:
            state, gain = jax.vmap(step)(before[0], draw, anchor)
        else:  # a batch of one is slower
            alone = step(*jax.tree.map(lambda leaf: leaf[0], (before[0], draw, anchor)))
            state, gain = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], alone)
        return state, jax.tree.map(lambda sum_, new: sum_ + new, before[1], gain)

    advanced: tuple[Any, Gain] = jax.lax.fori_loop(0, count, one, (states, gain))
    return advanced


def _corrected(log_density: LogDensity, anchor: FullDataPoint) -> LogDensity:
    """Correct the density of a subsample by what it is off at the anchor, to first order."""

    def corrected(z: Any, key: Array) -> Array:
        value, slope = jax.value_and_grad(log_density)(anchor.z, key)
        off: Array = anchor.value - value + (anchor.slope - slope) @ (z - anchor.z)
        return log_density(z, key) + off

    return corrected


def _run(jaxpr: Any, tree: Any, arrays: list[Any], *arguments: Any) -> Any:
    return jax.tree.unflatten(tree, jaxpr_as_fun(ClosedJaxpr(jaxpr, arrays))(*jax.tree.leaves(arguments)))


def _evaluate(structure: _Structure, arrays: list[Any], *rows: Any) -> Any:
    return jax.vmap(partial(structure.run, arrays))(*rows)


def _value_and_gradient(structure: _Structure, arrays: list[Any], *at: Any) -> Any:
    return jax.value_and_grad(partial(structure.run, arrays))(*at)


def _values_and_gradients(structure: _Structure, arrays: list[Any], *rows: Any) -> Any:
    return jax.vmap(partial(_value_and_gradient, structure, arrays))(*rows)


def _paged(run: Callable[..., Any], rows: Any) -> Any:
    """Call a program of `ROWS` rows until it had all of them."""
    number = len(jax.tree.leaves(rows)[0])
    parts = []
    for first in range(0, number, ROWS):
        some = jax.tree.map(lambda leaf, first=first: _padded(leaf[first : first + ROWS]), rows)
        parts.append(jax.tree.map(np.asarray, run(*some)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:number], *parts)


def _padded(leaf: Any) -> Any:
    """Repeat the last row until there are `ROWS`."""
    missing = ROWS - len(leaf)
    return leaf if not missing else np.concatenate([leaf, np.repeat(np.asarray(leaf[-1:]), missing, axis=0)])
