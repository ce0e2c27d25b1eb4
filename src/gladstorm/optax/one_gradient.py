"""Relatives of NSTORM that reduce variance with one gradient per step: implicit gradient transport, and MARS."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gladstorm.core import equations
from gladstorm.core.parts import Array
from gladstorm.optax import trees
from gladstorm.optax.nsgdm import NsgdmState, nsgdm
from gladstorm.optax.options import AxisName, NormOption, UpdateSchedule, at, require
from gladstorm.optax.trees import Tree


class NigtState(NamedTuple):
    """State of NIGT: that of NSGDM, and x, which the parameters are ahead of."""

    nsgdm: NsgdmState
    iterate: Tree


def nigt(
    learning_rate: float | Array | UpdateSchedule,
    momentum: float | Array | UpdateSchedule = 0.9,
    *,
    weight_decay: float | Array = 0.0,
    norm: NormOption = "global",
    axis_name: AxisName | None = None,
) -> optax.GradientTransformationExtraArgs:
    """NIGT, NSGDM by implicit gradient transport: gradients are taken ahead of x, which corrects what v remembers.

    The parameters are x + momentum/(1 − momentum) (x − x⁻), where x⁻ is the x before. What to evaluate is x, which is
    `state.iterate`. A learning rate that decays to 0 ends with both in one place.
    Cutkosky and Mehta 2020; `gladstorm.methods.nigt` is the same in the simulator.

    Args:
        learning_rate: As in `nsgdm`.
        momentum: As in `nsgdm`.
        weight_decay: As in `nsgdm`, of x.
        norm: As in `nsgdm`.
        axis_name: As in `nsgdm`.
    """
    inner = nsgdm(learning_rate, momentum, weight_decay=weight_decay, norm=norm, axis_name=axis_name)

    def init(params: Tree) -> NigtState:
        x = trees.cast_like(jax.tree.map(trees.copy, params), trees.zero_estimate(params))
        return NigtState(inner.init(params), x)

    def update(updates: Tree, state: NigtState, params: Tree = None, **_: Any) -> tuple[Tree, NigtState]:
        if params is None:
            raise ValueError("nigt: params must be given to update; got params=None.")
        params = trees.drop_without_gradient(params, updates)
        step, after = inner.update(trees.cast_like(updates, state.iterate), state.nsgdm, state.iterate)
        eta = 1 - at(momentum, after.count)
        x = jax.tree.map(jnp.add, state.iterate, step)
        change = jax.tree.map(lambda x, u, y: x + equations.lead(u, eta) - y, x, step, params)
        return trees.cast_like(change, params), NigtState(after, trees.cast_like(x, state.iterate))

    return optax.GradientTransformationExtraArgs(init, update)


class NmarsState(NamedTuple):
    """State of NMARS: that of NSGDM, and the gradient before."""

    nsgdm: NsgdmState
    stale: Tree


def nmars(
    learning_rate: float | Array | UpdateSchedule,
    momentum: float | Array | UpdateSchedule = 0.9,
    *,
    scale: float | Array = 0.025,
    weight_decay: float | Array = 0.0,
    norm: NormOption = "global",
    axis_name: AxisName | None = None,
) -> optax.GradientTransformationExtraArgs:
    """NMARS, normalized steps along MARS's momentum, with the gradient of the batch before in place of a second one.

    v ← momentum · v + (1 − momentum) · c, c = g + scale · momentum/(1 − momentum) · (g − g⁻), where g⁻ is the gradient
    before, and v is 0 at first. The approximate form of Yuan et al. 2025, without their preconditioner and their cut;
    `gladstorm.methods.nmars` is the same in the simulator.

    Args:
        learning_rate: As in `nsgdm`.
        momentum: As in `nsgdm`.
        scale: How much of the correction is taken, ≥ 0; 0 is momentum alone.
        weight_decay: As in `nsgdm`.
        norm: As in `nsgdm`.
        axis_name: As in `nsgdm`.
    """
    require("nmars", "scale", scale)
    inner = nsgdm(learning_rate, momentum, weight_decay=weight_decay, norm=norm, axis_name=axis_name)

    def init(params: Tree) -> NmarsState:
        return NmarsState(inner.init(params), trees.zero_estimate(params))

    def update(updates: Tree, state: NmarsState, params: Tree = None, **_: Any) -> tuple[Tree, NmarsState]:
        g, eta = trees.cast_like(updates, state.stale), 1 - at(momentum, state.nsgdm.count)
        c = jax.tree.map(lambda g, stale: equations.mars_corrected(g, stale, eta, scale), g, state.stale)
        first = jax.tree.map(lambda g: eta * g, g)
        change, after = inner.update(trees.where(state.nsgdm.formed, c, first), state.nsgdm, params)
        like = updates if params is None else trees.drop_without_gradient(params, updates)
        return trees.cast_like(change, like), NmarsState(after, g)

    return optax.GradientTransformationExtraArgs(init, update)
