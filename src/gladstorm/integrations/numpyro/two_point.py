"""NSTORM in numpyro's SVI: an optimizer that evaluates the loss of one step, with its key, at two points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from numpyro import optim

from gladstorm.core.parts import Array

Tree = Any
Loss = Callable[[Tree], tuple[Array, Any]]  # parameters to (loss, mutable state), the step's key inside


class TwoPoint(optim._NumPyroOptim):  # type: ignore[misc]  # what SVI asks for; numpyro publishes no types
    """An optimizer for SVI, made from an Optax transformation that takes `grad_fn`: `TwoPoint(nstorm(0.1))`.

    In each step, `SVI.update` draws one key and gives the optimizer a loss with that key inside. So `grad_fn` evaluates
    the same draw from the guide, and the same subsample of the data, at any point. NSTORM evaluates it at two points,
    so every step costs two gradients, including the first. The loss that SVI reports, and the mutable state that it
    keeps, are those at the current parameters. NSGDM evaluates once and needs no wrapper.
    """

    def __init__(self, transformation: optax.GradientTransformation) -> None:
        if not isinstance(transformation, optax.GradientTransformation):
            kind = type(transformation).__name__
            raise TypeError(f"TwoPoint: transformation must be Optax's, as nstorm(0.1) is; got one of type {kind}.")
        transform = optax.with_extra_args_support(transformation)

        def init(params: Tree) -> tuple[Tree, Tree]:
            return params, transform.init(params)

        def update(_: Array, grads: Tree, state: tuple[Tree, Tree], **extra: Any) -> tuple[Tree, Tree]:
            params, inner = state
            updates, inner = transform.update(grads, inner, params, **extra)
            return optax.apply_updates(params, updates), inner

        super().__init__(lambda: (init, update, lambda state: state[0]))

    def eval_and_update(
        self, fn: Loss, state: tuple[Array, Tree], forward_mode_differentiation: bool = False
    ) -> tuple[tuple[Array, Any], tuple[Array, Tree]]:
        """One step; returns what `fn` gives at the current parameters, and the new state."""
        evaluated, after, _ = self._evaluate(fn, state, forward_mode_differentiation)
        return evaluated, after

    def eval_and_stable_update(
        self, fn: Loss, state: tuple[Array, Tree], forward_mode_differentiation: bool = False
    ) -> tuple[tuple[Array, Any], tuple[Array, Tree]]:
        """Evaluate and update; a step with a loss or gradient that is not finite changes nothing and returns NaN."""
        (loss, aux), after, gradients = self._evaluate(fn, state, forward_mode_differentiation)
        good = jnp.isfinite(loss) & jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients)]).all()
        return (jnp.where(good, loss, jnp.nan), aux), jax.tree.map(
            lambda new, old: jnp.where(good, new, old), after, state
        )

    def _evaluate(
        self, fn: Loss, state: tuple[Array, Tree], forward: bool
    ) -> tuple[tuple[Array, Any], tuple[Array, Tree], list[Tree]]:
        """Evaluate `fn` at the current parameters: its value, the new state, the gradients at all points."""
        step, inner = state
        gradient = _gradient(fn, forward)
        grads, evaluated = gradient(self.get_params(state))
        gradients = [grads]

        def grad_fn(at: Tree) -> Tree:
            gradients.append(gradient(at)[0])
            return gradients[-1]

        inner = self.update_fn(step, grads, inner, value=evaluated[0], grad_fn=grad_fn)
        return evaluated, (step + 1, inner), gradients


def _gradient(fn: Loss, forward: bool) -> Callable[[Tree], tuple[Tree, tuple[Array, Any]]]:
    def with_value(params: Tree) -> tuple[Array, tuple[Array, Any]]:
        loss, aux = fn(params)
        return loss, (loss, aux)

    differentiate: Any = jax.jacfwd if forward else jax.grad
    return differentiate(with_value, has_aux=True)  # type: ignore[no-any-return]
