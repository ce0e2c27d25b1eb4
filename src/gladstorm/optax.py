"""NSGDM and NSTORM as Optax transformations: γ is `learning_rate`, 1 − η is `momentum`, and both may be schedules.

>>> grads_on = jax.grad(lambda params, sample: jnp.sum((params - sample) ** 2))
>>> optimizer = nstorm(learning_rate=0.1, momentum=0.9)
>>> params = jnp.zeros(2)
>>> state = optimizer.init(params)
>>> for sample in jnp.ones((30, 2)):
...     grad_fn = partial(grads_on, sample=sample)  # this sample, at any point
...     updates, state = optimizer.update(grad_fn(params), state, params, grad_fn=grad_fn)
...     params = optax.apply_updates(params, updates)
>>> bool(jnp.linalg.norm(params - 1) < 0.1)
True

The norm is taken over the whole tree, and 0/0 = 0: an update has length `learning_rate`, or is 0 where the estimate is.
Estimates are kept in float32 at least; updates have the dtypes of the parameters.
"""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gladstorm import theory
from gladstorm.estimators import Estimator, Momentum, Storm
from gladstorm.parts import Array
from gladstorm.rules import Rule
from gladstorm.steps import Normalized

try:
    import optax
except ModuleNotFoundError as missing:
    if missing.name != "optax":
        raise
    raise ImportError("gladstorm.optax needs Optax, which is not installed: pip install gladstorm[optax]") from None

__all__ = ["NsgdmState", "NstormState", "nsgdm", "nstorm"]

Tree = Any
Schedule = Callable[[Array], Array]  # of the number of updates made

RULES = {
    "learning_rate": Rule("a schedule or a number, finite and > 0", lambda v: v.ndim == 0 and 0 < v < math.inf),
    "momentum": Rule("a schedule or a number in [0, 1)", lambda v: v.ndim == 0 and 0 <= v < 1),
    "every_k": Rule("a schedule or a whole number ≥ 1", lambda v: v.ndim == 0 and 1 <= v < 2**31 and v % 1 == 0),
    "n_init": Rule("a whole number from 1 to 2³¹ − 1", lambda v: v.ndim == 0 and 1 <= v < 2**31 and v % 1 == 0),
}

# An estimator asks for the sample's gradient at a point and never looks at the point: here a name stands for it.
BEFORE, NOW = "x^{k-1}", "x^k"


class NsgdmState(NamedTuple):
    """What NSGDM remembers."""

    count: Array  # updates made
    estimate: Tree  # v


class NstormState(NamedTuple):
    """What NSTORM remembers."""

    count: Array  # updates made
    micro_step: Array  # calls since the last update
    estimate: Tree  # v; between the calls of one update, the known part of its v
    previous: Tree  # the parameters of the last update, where `prev_grads` are to be taken; at first those of init


class _Nsgdm:
    """NSGDM, normalized SGD with momentum: v ← momentum · v + (1 − momentum) · grads, x ← x − learning_rate · v/‖v‖.

    v⁰ is the first gradient, nothing is debiased. To accumulate gradients, put `optax.MultiSteps` around it.

    >>> optimizer = nsgdm(learning_rate=0.5)
    >>> updates, state = optimizer.update(jnp.array([3.0, 4.0]), optimizer.init(jnp.zeros(2)))
    >>> [round(entry, 6) for entry in updates.tolist()], state.estimate.tolist()
    ([-0.3, -0.4], [3.0, 4.0])
    """

    def __call__(
        self, learning_rate: float | Array | Schedule, momentum: float | Array | Schedule = 0.9
    ) -> optax.GradientTransformationExtraArgs:
        """The transformation. It accepts NSTORM's extra arguments, and any others, and has no use for them."""
        _check("nsgdm", learning_rate=learning_rate, momentum=momentum)

        def init(params: Tree) -> NsgdmState:
            return NsgdmState(jnp.zeros((), jnp.int32), _zero_estimate(params))

        def update(updates: Tree, state: NsgdmState, params: Tree = None, **_: Any) -> tuple[Tree, NsgdmState]:
            estimator = Momentum(1 - _at(momentum, state.count))
            v = _estimate(estimator, state.count, state.estimate, {NOW: _cast_like(updates, state.estimate)})
            moved = _move(_at(learning_rate, state.count), v)
            count = optax.safe_increment(state.count)
            return _cast_like(moved, updates if params is None else params), NsgdmState(count, v)

        return optax.GradientTransformationExtraArgs(init, update)

    def from_theory(
        self, *, horizon: int | None, alpha: float, gamma0: float, G: float, B: float = 1.0, eta0: float = 1.0
    ) -> optax.GradientTransformationExtraArgs:
        """NSGDM as the theorem for f ∈ L*_sym(α) sets it for `horizon` iterates.

        Of the noise only the kind enters: B > 0 grows with the distance, B = 0 does not, B = G = 0 is none. A horizon
        of None puts k + 1 in its place at step k, which no theorem here covers.
        """
        learning_rate, momentum, _ = _prescribed("nsgdm", horizon, alpha, gamma0, G, B, eta0)
        return self(learning_rate, momentum)


class _Nstorm:
    """NSTORM, normalized STORM: v ← grads + momentum · (v − prev_grads), x ← x − learning_rate · v/‖v‖.

    `update(grads, state, params, ...)` takes the gradient of one sample, dropout masks included, at two points: `grads`
    at `params`, and at `state.previous` either `grad_fn`, from parameters to gradients, or `prev_grads`. v⁰ is the
    first `grads`, which needs neither; under `jax.jit`, where the first call looks like the others, one must be given.

    In an `optax.chain` NSTORM stands first: what comes before it would change one of the two gradients only.

    `every_k` accumulates gradients: an update is made at every k-th call, with the means over k micro-batches at both
    points, and the other calls return 0. The first update takes `n_init` times as many calls: v⁰ is the mean over
    `n_init` batches. `optax.MultiSteps` is refused, it would take the last micro-batch alone to the previous point.
    """

    def __call__(
        self,
        learning_rate: float | Array | Schedule,
        momentum: float | Array | Schedule = 0.9,
        *,
        n_init: int | Array = 1,
        every_k: int | Array | Schedule = 1,
    ) -> optax.GradientTransformationExtraArgs:
        """The transformation."""
        _check("nstorm", learning_rate=learning_rate, momentum=momentum, n_init=n_init, every_k=every_k)

        def init(params: Tree) -> NstormState:
            _refuse_multi_steps()
            count, micro_step = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)  # two: a state may be donated
            return NstormState(count, micro_step, _zero_estimate(params), jax.tree.map(_copy, params))

        def update(
            updates: Tree,
            state: NstormState,
            params: Tree = None,
            *,
            grad_fn: Callable[[Tree], Tree] | None = None,
            prev_grads: Tree = None,
            **_: Any,
        ) -> tuple[Tree, NstormState]:
            if params is None:
                raise ValueError("nstorm: params must be given to update; got params=None.")
            count, micro_step, v, previous = state
            stale = _at_previous(updates, state, grad_fn, prev_grads)
            calls = _at(every_k, count) * jnp.where(count == 0, n_init, 1)
            first, last = micro_step == 0, micro_step + 1 >= calls

            # The recursion is linear in v and the gradients together: it is applied to v with the first k-th of the
            # means, to 0 with each of the others, and the results add up. That spares a tree to accumulate in.
            share = {
                point: jax.tree.map(lambda g: g / calls, _cast_like(gradient, v))
                for point, gradient in ((BEFORE, stale), (NOW, updates))
            }
            zero = jax.tree.map(jnp.zeros_like, v)
            part = _estimate(Storm(1 - _at(momentum, count)), count, _where(first, v, zero), share)
            v = jax.tree.map(jnp.add, part, _where(first, zero, v))

            moved = _where(last, _move(_at(learning_rate, count), v), zero)
            return _cast_like(moved, params), NstormState(
                count=jnp.where(last, optax.safe_increment(count), count),
                micro_step=jnp.where(last, 0, micro_step + 1),
                estimate=v,
                previous=_cast_like(_where(last, params, previous), previous),
            )

        return optax.GradientTransformationExtraArgs(init, update)

    def from_theory(
        self,
        *,
        horizon: int | None,
        alpha: float,
        gamma0: float,
        G: float,
        B: float = 1.0,
        eta0: float = 1.0,
        every_k: int | Array | Schedule = 1,
    ) -> optax.GradientTransformationExtraArgs:
        """NSTORM as the theorem for E L*_sym(α) sets it for `horizon` iterates, `n_init` included.

        G is the standard deviation of a batch's gradient at the start; B as in `nsgdm.from_theory`. A horizon of None
        puts k + 1 in its place at step k, with `n_init` 1, which no theorem here covers.

        >>> optimizer = nstorm.from_theory(horizon=10**4, alpha=0, gamma0=1.0, G=0.7)  # n_init = ⌈G² T^(1/2)⌉ = 49
        >>> state = optimizer.init(jnp.ones(2))
        >>> for _ in range(49):
        ...     updates, state = optimizer.update(jnp.ones(2), state, jnp.ones(2))
        >>> int(state.count), round(float(jnp.linalg.norm(updates)), 6)  # γ = T^(−3/4)
        (1, 0.001)
        """
        learning_rate, momentum, n_init = _prescribed("nstorm", horizon, alpha, gamma0, G, B, eta0)
        return self(learning_rate, momentum, n_init=n_init, every_k=every_k)


nsgdm = _Nsgdm()
nstorm = _Nstorm()


def _estimate(estimator: Estimator, count: Array, v: Tree, gradients: Mapping[str, Tree]) -> Tree:
    begun = estimator.init(gradients.__getitem__, NOW)
    return _cast_like(_where(count == 0, begun, estimator.update(v, gradients.__getitem__, BEFORE, NOW)), v)


def _move(gamma: Array, v: Tree) -> Tree:
    """x^{k+1} − x^k, a step from 0."""
    return Normalized(gamma)(jax.tree.map(jnp.zeros_like, v), v)


def _at_previous(grads: Tree, state: NstormState, grad_fn: Callable[[Tree], Tree] | None, prev_grads: Tree) -> Tree:
    if grad_fn is not None and prev_grads is not None:
        raise ValueError("nstorm: one of grad_fn and prev_grads must be given to update; got both.")
    if grad_fn is None and prev_grads is None:
        if isinstance(state.count, jax.core.Tracer) or state.count > 0:
            raise ValueError(
                "nstorm: grad_fn or prev_grads must be given to update, from the second one on and always under "
                "jax.jit; got neither."
            )
        return grads
    stale = prev_grads if grad_fn is None else grad_fn(state.previous)
    found, wanted = (str(jax.tree.structure(tree)) for tree in (stale, grads))
    if found != wanted:
        name = "prev_grads" if grad_fn is None else "what grad_fn returns"
        raise ValueError(f"nstorm: {name} must be a tree like grads, {wanted}; got {found}.")
    return stale


def _refuse_multi_steps() -> None:
    # Nothing handed to init or update tells MultiSteps from a plain loop; who calls init does.
    for frame, _ in traceback.walk_stack(sys._getframe()):
        if frame.f_code is optax.MultiSteps.init.__code__:
            raise ValueError(
                "nstorm: gradients must be accumulated with nstorm(..., every_k=k); got optax.MultiSteps, which "
                "would take only the last of k micro-batches to the previous point."
            )


def _prescribed(
    method: str, horizon: int | None, alpha: float, gamma0: float, G: float, B: float, eta0: float
) -> tuple[Any, Any, int]:
    """Learning rate, momentum, n_init."""
    statement = theory.for_schedule(method, alpha=alpha, gamma0=gamma0, B=B, G=G, eta0=eta0)
    if horizon is not None:
        eta, gamma, n_init, _ = statement.schedule(horizon)
        return gamma, 1 - eta, n_init

    def learning_rate(count: Array) -> Array:
        return gamma0 * (1.0 + count) ** -float(statement.gamma_exponent)

    def momentum(count: Array) -> Array:
        return 1 - eta0 * (1.0 + count) ** -float(statement.eta_exponent)

    return learning_rate, momentum, 1


def _check(owner: str, **values: Any) -> None:
    for name, value in values.items():
        scheduled = callable(value) and name != "n_init"
        # A JAX array may be a tracer; `inject_hyperparams` makes one of a schedule, which may well start at 0.
        if not scheduled and not (isinstance(value, jax.Array) and value.ndim == 0):
            RULES[name].require(owner, name, value)


def _at(value: Any, count: Array) -> Any:
    return value(count) if callable(value) else value


def _zero_estimate(params: Tree) -> Tree:
    return jax.tree.map(lambda p: jnp.zeros_like(p, jnp.promote_types(jnp.result_type(p), jnp.float32)), params)


def _copy(leaf: Any) -> Array:
    # Not the buffer itself: the caller may donate it together with the state.
    return jnp.zeros_like(leaf) if isinstance(leaf, jax.ShapeDtypeStruct) else jnp.array(leaf, jnp.result_type(leaf))


def _cast_like(tree: Tree, like: Tree) -> Tree:
    return jax.tree.map(lambda a, b: jnp.asarray(a, jnp.result_type(b)), tree, like)


def _where(condition: Array, this: Tree, other: Tree) -> Tree:
    return jax.tree.map(partial(jnp.where, condition), this, other)
