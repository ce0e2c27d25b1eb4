"""One fit: its stages in blocks of steps, all starts in one compiled program, what is finished kept in a store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa

from gladstorm.core.parts import Array
from gladstorm.jobs import interrupts
from gladstorm.jobs.files import load_table, save_table
from gladstorm.jobs.progress import Progress, annotate
from gladstorm.jobs.provenance import digest
from gladstorm.jobs.sources import source_of
from gladstorm.jobs.store import Store
from gladstorm.variational.stages import Stage

BLOCKS = 20  # of a run: what is kept, shown and judged as a whole
COMPARED = 256  # draws that decide between average and last iterate, and between starts
AT_ONCE = 64  # draws evaluated together
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
    stage: Stage  # the one that found it
    elbos: np.ndarray  # by start
    curve: np.ndarray  # mean ELBO by start and block of a twentieth of the run's steps
    noise: np.ndarray  # likewise, the squared length of the gradient
    steps: np.ndarray  # at the end of each block
    skipped: np.ndarray  # gradients that were not finite, by start


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
    keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(seed)))(jnp.arange(starts))
    found, done, skipped = begin, 0, np.zeros(starts)
    curves, noises, ends = [], [], []
    kept = None if store is None else Store(store, Arrays, ".parquet", source=source_of(optimize))
    total = sum(stage.steps for stage in stages)
    elbos = np.full(starts, -np.inf)
    with Progress(label, total) as progress:
        for number, stage in enumerate(stages):
            stage_keys = jax.vmap(partial(jax.random.fold_in, data=number))(keys)
            state = jax.jit(jax.vmap(stage.begin))(found, jax.vmap(partial(jax.random.fold_in, data=2**31))(stage_keys))
            at = 0
            programs: dict[int, Any] = {}
            for length in _blocks(stage.steps, total):
                interrupts.check()
                if length not in programs:
                    lowered = jax.jit(partial(_advance, stage, length)).lower(state, stage_keys, at)
                    programs[length] = lowered.compile(), None if kept is None else digest(lowered.as_text().encode())
                program, text = programs[length]
                compute = partial(_computed, program, state, stage_keys, at)
                identity = [text, seed, starts, number, at, length]
                arrays = compute() if kept is None else kept.recall(identity, compute)
                *leaves, elbo, noise = arrays.values
                state = jax.tree.unflatten(jax.tree.structure(state), [jnp.asarray(leaf) for leaf in leaves])
                at, done = at + length, done + length
                curves.append(elbo)
                noises.append(noise)
                ends.append(done)
                annotate(f"ELBO {elbo.max():.6g}")
                progress(done)
            skipped = skipped + np.asarray(jax.vmap(stage.skipped)(state))
            found, elbos = _better(stage, state, jax.random.fold_in(jax.random.key(seed), 2**31 + number))
    return Outcome(
        found, stages[-1], elbos, np.stack(curves, 1), np.stack(noises, 1), np.array(ends), skipped.astype(int)
    )


def log_weights(stage: Stage, found: Any, key: Array, draws: int) -> Array:
    """log p(z) − log q(z) at draws from what one start found; the same ε for every start."""
    keys = jax.random.split(key, draws)
    return jnp.asarray(jax.lax.map(partial(stage.log_weight, found), keys, batch_size=AT_ONCE))


def _blocks(steps: int, total: int) -> list[int]:
    """The lengths of a stage's blocks: all but the last alike."""
    length = max(1, min(steps, round(total / BLOCKS)))
    return [length] * (steps // length) + [steps % length] * (steps % length > 0)


def _advance(stage: Stage, length: int, states: Any, keys: Array, at: Array) -> tuple[Any, Array, Array]:
    def step(states: Any, k: Array) -> tuple[Any, Any]:
        return jax.vmap(stage.advance)(states, jax.vmap(lambda key: jax.random.fold_in(key, k))(keys))

    states, gains = jax.lax.scan(step, states, at + jnp.arange(length))
    return states, gains.elbo.mean(0), gains.noise.mean(0)


def _computed(program: Any, state: Any, keys: Array, at: int) -> Arrays:
    state, elbo, noise = program(state, keys, at)
    return Arrays(tuple(np.asarray(leaf) for leaf in (*jax.tree.leaves(state), elbo, noise)), {})


def _better(stage: Stage, states: Any, key: Array) -> tuple[Any, np.ndarray]:
    """For every start the average or the last iterate, whichever has the larger ELBO at the same draws; its ELBO."""

    @jax.jit
    def choose(states: Any) -> tuple[Any, Array]:
        def one(state: Any) -> tuple[Any, Array]:
            average, last = stage.found(state)
            elbos = jnp.stack([_mean(log_weights(stage, q, key, COMPARED)) for q in (average, last)])
            chosen = jax.tree.map(lambda a, b: jnp.where(elbos[0] >= elbos[1], a, b), average, last)
            return chosen, elbos.max()

        chosen: tuple[Any, Array] = jax.lax.map(one, states)
        return chosen

    found, elbos = choose(states)
    return found, np.asarray(elbos)


def _mean(weights: Array) -> Array:
    """−∞ if a draw is not finite: no start with such draws is chosen before one without."""
    return jnp.where(jnp.isfinite(weights).all(), weights.mean(), -jnp.inf)
