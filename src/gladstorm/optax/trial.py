"""A short training with nsgdm, to see whether it trains at all at a learning rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import optax

from gladstorm.core.parts import Array
from gladstorm.core.rules import COUNT
from gladstorm.diagnosis.design import HELD, usable_batches
from gladstorm.optax.nsgdm import nsgdm
from gladstorm.optax.trees import Tree


def trial(
    loss_fn: Callable[[Tree, Tree], Array], params: Tree, batches: Iterable[Tree], steps: int = 100
) -> Callable[[float], tuple[float, float]]:
    """Make a short training with nsgdm into a function of its learning rate, to be given to `report.recommend`.

    Called with a learning rate, it trains and returns the mean loss over the first eight mini-batches before and after.

    Args:
        loss_fn: The mean loss over the samples of a mini-batch, `loss_fn(params, batch)`.
        params: The parameters to begin with.
        batches: Mini-batches; gone through again if they end before the steps.
        steps: How many steps to make.

    >>> data = jax.random.normal(jax.random.key(0), (50, 16, 3))
    >>> before, after = trial(lambda x, batch: jnp.mean((batch @ x) ** 2), jnp.ones(3), data)(0.01)
    >>> after < before
    True
    """
    steps = COUNT.whole("trial", "steps", steps)

    def train(learning_rate: float) -> tuple[float, float]:
        optimizer, x = nsgdm(learning_rate), params
        taken, state = list(usable_batches(batches, steps, lambda _: True, "samples", "trial")), optimizer.init(params)

        @jax.jit
        def step(x: Tree, state: Tree, batch: Tree) -> tuple[Tree, Tree]:
            updates, state = optimizer.update(jax.grad(loss_fn)(x, batch), state, x)
            return optax.apply_updates(x, updates), state

        def loss(x: Tree) -> float:
            return float(jnp.mean(jnp.stack([loss_fn(x, batch) for batch in taken[:HELD]])))

        before = loss(x)
        for batch in taken:
            x, state = step(x, state, batch)
        return before, loss(x)

    return train
