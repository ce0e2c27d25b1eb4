"""One fit: its stages in blocks of steps, all starts in one compiled program, what is finished kept in a store."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa

from gladstorm.core.parts import Array
from gladstorm.jobs import interrupts
from gladstorm.jobs.files import load_table, save_table
from gladstorm.jobs.progress import Progress, annotate
from gladstorm.jobs.provenance import digest, source_of
from gladstorm.jobs.store import Store
from gladstorm.variational.stages import Stage

BLOCKS = 20  # of a run: what is kept, shown and judged as a whole
AT_ONCE = 64  # draws evaluated together: enough to tell whether there is anything left to gain
DRAWN = 2**15  # numbers that are drawn together, for many steps
COMPARED = 4  # times as many decide between candidates
CLEARLY = 2.0  # standard errors by which another candidate must be better than the first
LEAST_GAIN, ERROR = 0.001, 0.05  # nats that are not worth the rest of a run; how often this may be said wrongly
_FORMAT = "gladstorm fit block 1"


@dataclass(frozen=True)
class Arrays:
    """Arrays in a file, and a few words about them."""

    values: tuple[np.ndarray, ...]
    about: dict[str, Any]

    def save(self, path: Path, /, *, key: str = "", form: str = _FORMAT) -> None:
        """Write them, whole or not at all."""
        columns = {
            "dtype": [str(value.dtype) for value in self.values],
            "shape": [list(value.shape) for value in self.values],
            "data": [value.tobytes() for value in self.values],
        }
        types = {"dtype": pa.string(), "shape": pa.list_(pa.int64()), "data": pa.large_binary()}
        table = pa.table({name: pa.array(column, types[name]) for name, column in columns.items()})
        save_table(path, [table], form, self.about, key)

    @classmethod
    def load(cls, path: Path, /, *, key: str = "", form: str = _FORMAT) -> Self:
        """Read what `save` wrote."""
        table, about = load_table("Fit", path, form, key)
        rows = table.to_pylist()
        arrays = (np.frombuffer(row["data"], row["dtype"]).reshape(row["shape"]).copy() for row in rows)
        return cls(tuple(arrays), about)


@dataclass(frozen=True)
class Outcome:
    """What a run found, for every start."""

    found: Any  # a pytree, its leaves with an axis for the starts
    elbos: np.ndarray  # after every stage, (start, stage)
    gaps: np.ndarray  # how far it was from its limit by then, by the rule of `Looks`; 0 for stages of one block
    curve: np.ndarray  # mean ELBO by start and block of a twentieth of the run's steps
    noise: np.ndarray  # likewise, the squared length of the gradient
    steps: np.ndarray  # at the end of each block
    skipped: np.ndarray  # gradients that were not finite, by start
    stopped: int  # steps that were left out
    score: Callable[[Any, Array], Array]  # log p(z) − log q(z) at the draw z of a key
    measure: Callable[..., np.ndarray]  # a function of q and a key at so many times 64 draws, (start, draw, …)

    def weights(self, times: int) -> np.ndarray:
        """log p(z) − log q(z) at so many times 64 draws, (start, draw)."""
        return self.measure(self.score, times)

    @property
    def best(self) -> int:
        """The start with the largest ELBO."""
        return int(np.argmax(self.elbos[:, -1]))


def optimize(
    stages: Sequence[Stage], begin: Any, seed: int, store: str | os.PathLike[str] | None = None, label: str = "fit"
) -> Outcome:
    """Run the stages from several starts at once.

    Args:
        stages: What to do, one after the other.
        begin: Where to begin: a pytree with a leading axis for the starts.
        seed: Decides every draw, together with the number of the start and of the step.
        store: The folder where finished blocks are kept.
        label: What the progress is called.
    """
    starts = len(jax.tree.leaves(begin)[0])
    kept = None if store is None else Store(store, Arrays, ".parquet", source=source_of(optimize, *stages))
    programs = Programs(seed, starts, kept)
    total, found, done, skipped = sum(stage.steps for stage in stages), begin, 0, np.zeros(starts)
    curves, noises, ends, gaps, stopped = [], [], [], [], 0
    elbos: list[np.ndarray] = []
    with Progress(label, total) as progress:
        for number, stage in enumerate(stages):
            state = programs.begin(stage, number, found)
            at, looks = 0, Looks(stage.steps)
            for length in _blocks(stage.steps, total):
                interrupts.check()
                state, elbo, noise = programs.advance(stage, number, length, state, at)
                at, done = at + length, done + length
                curves.append(elbo)
                noises.append(noise)
                ends.append(done)
                annotate(f"ELBO {elbo.max():.6g}")
                progress(done)
                if looks.nothing_left(at, programs.look(stage, state)):
                    stopped += stage.steps - at
                    break
            gaps.append(np.zeros(starts) if looks.gap is None else looks.gap)
            skipped = skipped + programs.skipped(stage, state)
            found, elbo = programs.best(stage, state)
            elbos.append(elbo)
    return Outcome(
        found,
        np.stack(elbos, 1),
        np.stack(gaps, 1),
        np.stack(curves, 1),
        np.stack(noises, 1),
        np.array(ends),
        skipped.astype(int),
        stopped,
        stages[-1].score,
        partial(programs.measured, found),
    )


class Programs:
    """Compiled programs, one for equal stages, and the blocks of steps that a store has kept."""

    def __init__(self, seed: int, starts: int, store: Store[Arrays] | None) -> None:
        self._seed, self._starts, self._store = seed, starts, store
        self._compiled: dict[Any, tuple[Any, str]] = {}

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._program(function, *arguments)[0](*arguments)

    def _program(self, function: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
        """The program of a function, and what identifies it: its own text, with all the data that it uses."""
        key = function, jax.tree.structure(arguments)
        if key not in self._compiled:
            lowered = jax.jit(function).lower(*arguments)
            text = "" if self._store is None else digest(lowered.as_text().encode())
            self._compiled[key] = lowered.compile(), text
        return self._compiled[key]

    def begin(self, stage: Stage, number: int, found: Any) -> Any:
        """The state of every start at the first step of a stage."""
        return self._run(_ForEach(stage, "begin"), found, _keys(self._key(number), self._starts))

    def advance(
        self, stage: Stage, number: int, length: int, state: Any, at: int
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """The state after a block of steps, and the mean ELBO and noise of every start in it."""
        arguments = state, self._key(number), np.int32(at)
        program, text = self._program(Block(stage, length, self._starts), *arguments)

        def compute() -> Arrays:
            return Arrays(tuple(np.asarray(leaf) for leaf in jax.tree.leaves(program(*arguments))), {})

        if self._store is None:
            values = compute().values
        else:
            before = digest(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)))
            values = self._store.recall([text, self._seed, number, at, before], compute).values
        *leaves, elbo, noise = values
        return jax.tree.unflatten(jax.tree.structure(state), leaves), elbo, noise

    def measured(self, found: Any, function: Callable[[Any, Array], Array], times: int) -> np.ndarray:
        """A function of q and a key at `times` · 64 draws of every start, at the same ε; (start, draw, …)."""
        chunks = (self._run(_Each(function), found, self._key(-1 - time)) for time in range(times))
        return np.concatenate([np.asarray(chunk, float) for chunk in chunks], axis=1)

    def look(self, stage: Stage, state: Any) -> np.ndarray:
        """log p(z) − log q(z) at a few draws of what every start would report now."""
        return self.measured(self._run(_ForEach(stage, "found"), state)[0], stage.score, 1)

    def best(self, stage: Stage, state: Any) -> tuple[Any, np.ndarray]:
        """What every start reports: its first candidate, or another one that is clearly better; and its ELBO."""
        candidates = [jax.tree.map(np.asarray, each) for each in self._run(_ForEach(stage, "found"), state)]
        weights = np.stack([self.measured(each, stage.score, COMPARED) for each in candidates])
        with np.errstate(invalid="ignore"):
            elbos = np.where(np.isfinite(weights).all(2), weights.mean(2), -np.inf)
            error = np.std(weights - weights[0], axis=2) / math.sqrt(weights.shape[2])
            clear = (elbos - elbos[0] > CLEARLY * error) | (np.isneginf(elbos[0]) & np.isfinite(elbos))
        clear[0] = True
        chosen = np.argmax(np.where(clear, elbos, -np.inf), axis=0)
        at = np.arange(self._starts)
        return jax.tree.map(lambda *leaves: np.stack(leaves)[chosen, at], *candidates), elbos[chosen, at]

    def skipped(self, stage: Stage, state: Any) -> np.ndarray:
        """How many gradients of every start were not finite."""
        return np.asarray(self._run(_ForEach(stage, "skipped"), state))

    def _key(self, number: int) -> np.ndarray:
        """What decides the draws of a stage, or (number < 0) of a measurement."""
        return np.array([self._seed % 2**32, number % 2**32], np.uint32)


def _blocks(steps: int, total: int) -> list[int]:
    """The lengths of a stage's blocks: all but the last alike."""
    length = max(1, min(steps, round(total / BLOCKS)))
    return [length] * (steps // length) + [steps % length] * (steps % length > 0)


def _keys(key: Any, starts: int) -> Array:
    return jax.random.split(jax.random.wrap_key_data(key), starts)


@dataclass(frozen=True)
class _ForEach:
    """A method of a stage, for every start; as data, so that equal stages share a program."""

    stage: Stage
    method: str

    def __call__(self, *arguments: Any) -> Any:
        return jax.vmap(getattr(self.stage, self.method))(*arguments)


@dataclass(frozen=True)
class Block:
    """The program of a block of steps of every start.

    What is random does not depend on where a run is, so it is drawn for many steps at once. Step by step, the random
    numbers of a small model take longer than its gradient.
    """

    stage: Stage
    length: int
    starts: int

    def __call__(self, states: Any, key: Array, at: Array) -> tuple[Any, Array, Array]:
        """The states after the block, and the mean ELBO and noise of its steps; `at` is the number of the first."""
        keys = _keys(key, self.starts)

        def draw(k: Array) -> Any:
            return jax.vmap(lambda state, key: self.stage.draw(state, jax.random.fold_in(key, k)))(states, keys)

        drawn_shapes, gains = jax.eval_shape(lambda: (draw(at), self._advance(states, draw(at))[1]))
        together = max(1, min(self.length, DRAWN // sum(leaf.size for leaf in jax.tree.leaves(drawn_shapes))))

        def advance_some(before: Any, first: Array) -> tuple[Any, None]:
            drawn = jax.vmap(draw)(at + first + jnp.arange(together))

            def step(j: Array, before: Any) -> Any:
                states, gains = self._advance(before[0], jax.tree.map(lambda leaf: leaf[j], drawn))
                return states, jax.tree.map(jnp.add, before[1], gains)

            return jax.lax.fori_loop(0, jnp.minimum(together, self.length - first), step, before), None

        none = jax.tree.map(lambda gain: jnp.zeros(gain.shape, gain.dtype), gains)
        (states, sums), _ = jax.lax.scan(advance_some, (states, none), jnp.arange(0, self.length, together))
        return states, sums.elbo / self.length, sums.noise / self.length

    def _advance(self, states: Any, drawn: Any) -> Any:
        """One step of every start."""
        if self.starts > 1:
            return jax.vmap(self.stage.advance)(states, drawn)
        alone = self.stage.advance(*jax.tree.map(lambda leaf: leaf[0], (states, drawn)))  # a batch of one is slower
        return jax.tree.map(lambda leaf: leaf[None], alone)


@dataclass(frozen=True)
class _Each:
    function: Callable[[Any, Array], Array]

    def __call__(self, found: Any, key: Array) -> Any:
        keys = _keys(key, AT_ONCE)
        return jax.vmap(lambda q: jax.vmap(lambda key: self.function(q, key))(keys))(found)


class Looks:
    """Whether there is anything left to gain, asked at the end of every block, and right at all of them together.

    An average of k iterates is about c/k nats below its limit. Between two looks Δ steps apart it then gains
    cΔ/(k(k − Δ)), so the gain tells c. The run stops when an upper confidence bound of what the other K − k steps would
    gain, c(K − k)/(kK), is below 0.001 nats for every start. Look j has error probability 0.05/(j(j + 1)): these add up
    to 0.05 over any number of looks, so that it does not matter when one stops.
    """

    def __init__(self, steps: int) -> None:
        self._steps, self._at, self._count = steps, 0, 0
        self._before: np.ndarray | None = None
        self.gap: np.ndarray | None = None  # c/k: how far every start is below its limit, by this rule

    def nothing_left(self, at: int, weights: np.ndarray) -> bool:
        """Whether to stop at this step, from log p − log q at the same draws as before, (start, draw)."""
        before, previous, self._before, self._at = self._before, self._at, weights, at
        if before is None or not np.isfinite(weights).all():
            return False
        self._count += 1
        gains, per_gain = weights - before, previous / (at - previous)
        error = gains.std(axis=1, ddof=1) / math.sqrt(gains.shape[1])
        self.gap = per_gain * np.maximum(gains.mean(axis=1) - CLEARLY * error, 0.0)
        quantile = NormalDist().inv_cdf(1 - ERROR / (self._count * (self._count + 1)))
        most = per_gain * (np.abs(gains.mean(axis=1)) + quantile * error)
        return bool(most.max() * (1 - at / self._steps) < LEAST_GAIN)
