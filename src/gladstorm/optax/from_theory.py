"""The transformations with the numbers of their theorems."""

from collections.abc import Callable
from typing import Any

import optax

from gladstorm import theory


def from_theory(
    make: Callable[..., optax.GradientTransformationExtraArgs],
    *,
    horizon: int,
    alpha: float,
    gamma0: float,
    G: float,
    B: float = 1.0,
    eta0: float = 1.0,
    **options: Any,
) -> optax.GradientTransformationExtraArgs:
    """Make `nsgdm` or `nstorm` with learning_rate, momentum and, for NSTORM, n_init as its theorem sets them.

    Args:
        make: `nsgdm` or `nstorm`.
        horizon: T, the number of iterates.
        alpha: α in [0, 1] of f ∈ L*_sym(α) for NSGDM, of E L*_sym(α) for NSTORM.
        gamma0: γ0 of the theorem's schedule.
        G: The standard deviation of a batch's gradient at the start.
        B: Only its sign matters: with B > 0 the noise grows with the distance, with B = 0 it does not; B = G = 0
            means no noise.
        eta0: η0 of the theorem's schedule.
        **options: Any other options of the transformation.

    >>> import jax.numpy as jnp
    >>> from gladstorm.optax import nstorm
    >>> optimizer = from_theory(nstorm, horizon=10**4, alpha=0, gamma0=1.0, G=0.7)  # n_init = ⌈G² T^(1/2)⌉ = 49
    >>> state = optimizer.init(jnp.ones(2))
    >>> for _ in range(49):
    ...     updates, state = optimizer.update(jnp.ones(2), state, jnp.ones(2))
    >>> int(state.count), round(float(jnp.linalg.norm(updates)), 6)  # γ = T^(−3/4)
    (1, 0.001)
    """
    statement = theory.for_schedule(make.__name__, alpha=alpha, gamma0=gamma0, B=B, G=G, eta0=eta0)
    eta, gamma, n_init, _ = statement.schedule(horizon)
    if n_init > 1:  # NSTORM only: NSGDM's theorems start from one sample
        options = {"n_init": n_init, **options}
    return make(gamma, 1 - eta, **options)
