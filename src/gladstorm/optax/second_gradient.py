"""NSTORM's gradient at the previous parameters, and the check that both of its gradients are of one sample."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gladstorm.core.parts import Array
from gladstorm.methods.norms import length
from gladstorm.optax.trees import Tree

AGREEMENT = 0.05  # of two gradients of one sample at one point, as a part of their length: half precision rounds


def previous_gradient(
    grads: Tree, count: Array, previous: Tree, grad_fn: Callable[[Tree], Tree] | None, prev_grads: Tree
) -> Tree:
    """Return the sample's gradient at the previous parameters."""
    if grad_fn is not None and prev_grads is not None:
        raise ValueError("nstorm: one of grad_fn and prev_grads must be given to update; got both.")
    if grad_fn is None and prev_grads is None:
        if isinstance(count, jax.core.Tracer) or count > 0:
            raise ValueError(
                "nstorm: grad_fn or prev_grads must be given to update, from the second one on and always under "
                "jax.jit; got neither."
            )
        return grads
    hidden = any(_is_masked(leaf) for leaf in jax.tree.leaves(grads, is_leaf=_is_masked))
    if grad_fn is not None and hidden:
        raise ValueError(
            "nstorm: prev_grads must be given inside optax.masked and optax.multi_transform, which hide parameters "
            "that grad_fn needs; got grad_fn. To freeze parameters, put optax.masked(optax.set_to_zero(), …) after "
            "nstorm in a chain."
        )
    stale = prev_grads if grad_fn is None else grad_fn(previous)
    if hidden:
        stale = jax.tree.map(lambda g, s: g if _is_masked(g) else s, grads, stale, is_leaf=_is_masked)
    got, wanted = (str(jax.tree.structure(tree)) for tree in (stale, grads))
    if got != wanted:
        name = "prev_grads" if grad_fn is None else "what grad_fn returns"
        raise ValueError(f"nstorm: {name} must be a tree like grads, {wanted}; got {got}.")
    return stale


def check_agreement(grads: Tree, stale: Tree, count: Array, params: Tree, previous: Tree) -> bool | Array:
    """Raise a ValueError unless both gradients, while they are at one point, are of one sample.

    Under `jax.jit` nothing is raised, and the answer is an array.
    """

    def compare(trees: tuple[Tree, Tree, Tree, Tree]) -> Array:
        grads, stale, params, previous = trees
        apart = [jnp.any(p != q) for p, q in zip(*map(jax.tree.leaves, (params, previous)), strict=True)]
        difference, size = length(jax.tree.map(jnp.subtract, stale, grads)), length(stale)
        # Both sides are NaN where a gradient is not finite, which is another matter.
        return jnp.any(jnp.array(apart, bool)) | ~(difference > AGREEMENT * size)

    agreed = jax.lax.cond(count == 0, compare, lambda _: jnp.array(True), (grads, stale, params, previous))
    if isinstance(agreed, jax.core.Tracer):
        return agreed
    if not agreed:
        raise ValueError(
            "nstorm: grads must be what grad_fn returns at params; got others at the first update, as happens with "
            "another sample or key, behind clipping or another transformation of a chain, and inside optax.MultiSteps. "
            "nstorm(..., max_grad_norm=…) clips at both points, and nstorm(..., every_k=…) accumulates at both."
        )
    return True


def _is_masked(node: Any) -> bool:
    return isinstance(node, optax.MaskedNode)
