"""Whether a fit is where the posterior is: a few transitions of Hamiltonian Monte Carlo from draws of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.simulation.devices import programs_on_disk
from gladstorm.variational.programs import Traced, program, sample_noise

CHAINS, TRANSITIONS, LEAPFROGS = 128, 25, 12
TARGET, GAIN = 0.8, 0.5  # share of accepted transitions, and how fast the logarithm of the step follows it
MOVED, WIDENED = 0.25, 1.2  # standard deviations, and a factor of them, that are worth a word
ERROR = 0.01  # that a fit which is the posterior is said to drift


@dataclass(frozen=True, eq=False)
class ChainCheck:
    """Ends of chains that began at draws of a fit. A fit that is the posterior stays as it is."""

    shift: dict[str, np.ndarray]  #: of means, in standard deviations of the fit, by site in unconstrained space
    spread: dict[str, np.ndarray]  #: of the standard deviations, as a factor
    acceptance: float  #: share of accepted transitions, at the end
    steady: bool  #: whether nothing moved that is worth a word
    words: str  #: what it means

    def __repr__(self) -> str:
        return self.words


@programs_on_disk()
def check(q: Any, density: Traced, unravel: Callable[[Any], dict[str, np.ndarray]], seed: int) -> ChainCheck:
    """Run chains from draws of a Gaussian, with its covariance as mass matrix, and compare where they are with it.

    Args:
        q: The Gaussian, or a mixture of some.
        density: The log density that it was fitted to.
        unravel: From rows of coordinates to sites.
        seed: Decides every draw.
    """
    tril = np.asarray(q.scale_tril(), q.loc.dtype)
    noise, keys = sample_noise(CHAINS, seed, q.noise_size)
    begin = np.linalg.solve(tril, (q.place(noise) - q.loc).T).T.astype(q.loc.dtype)
    z, acceptance = map(np.asarray, program(_walk, density.structure)(density.arrays, q.loc, tril, begin, keys[0]))
    sds = np.linalg.norm(tril, axis=1)
    shift, spread = (z.mean(axis=0) - q.loc) / sds, z.std(axis=0, ddof=1) / sds
    quantile = NormalDist().inv_cdf(1 - ERROR / (4 * q.loc.size))
    after = np.abs(shift) > np.maximum(MOVED, quantile * np.maximum(spread, 1) / np.sqrt(CHAINS))
    widened = np.abs(np.log(spread)) > np.maximum(np.log(WIDENED), quantile / np.sqrt(2 * CHAINS))
    names = [name + (f"[{','.join(map(str, at))}]" if at else "") for name, each in unravel(sds).items()
             for at in np.ndindex(each.shape)]  # fmt: skip
    far, wide = int(np.argmax(np.abs(shift))), int(np.argmax(np.abs(np.log(spread))))
    numbers = (
        f"after {TRANSITIONS} transitions of HMC from {CHAINS} draws, the mean of {names[far]} is {shift[far]:+.2g} "
        f"standard deviations away, and the standard deviation of {names[wide]} is {spread[wide]:.2g} times as large"
    )
    walked = bool(acceptance > TARGET / 2 and np.isfinite(z).all())
    steady = walked and not (after.any() or widened.any())
    if not walked:
        words = f"The chains did not move: {100 * acceptance:.0f} % of transitions were accepted. Nothing is known."
    elif steady:
        words = f"The fit stays: {numbers}, the farthest of all."
    else:
        verdict = "The fit drifts away" if after.any() else "The means stay and deviations do not"
        words = (
            f"{verdict}: {numbers}, and chains this short show only a part of it. Use MCMC, which may begin here with "
            "fit.mass_matrix(), or a larger family."
        )
    return ChainCheck(unravel(shift), unravel(spread), float(acceptance), bool(steady), words)


def _walk(structure: Any, arrays: Any, loc: Array, tril: Array, y: Array, key: Array) -> tuple[Array, Array]:
    """Advance all chains, and return where they are and how many of the last transitions were accepted."""

    def potential(y: Array) -> Array:
        return -structure.run(arrays, loc + tril @ y, key)

    slope = jax.vmap(jax.grad(potential))
    level = jax.vmap(potential)

    def transition(before: tuple[Array, Array, Array], key: Array) -> tuple[tuple[Array, Array, Array], None]:
        y, log_step, _ = before
        for_momentum, for_length, for_choice = jax.random.split(key, 3)
        momentum = jax.random.normal(for_momentum, y.shape, y.dtype)
        step = jnp.exp(log_step) * jax.random.uniform(for_length, (len(y), 1), y.dtype, 0.7, 1.3)

        def leap(_: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
            there = at[0] + step * at[1]
            return there, at[1] - step * slope(there)

        there, velocity = jax.lax.fori_loop(0, LEAPFROGS, leap, (y, momentum - step / 2 * slope(y)))
        velocity = velocity + step / 2 * slope(there)
        gain = level(y) - level(there) + 0.5 * jnp.sum(momentum**2 - velocity**2, axis=1)
        probability = jnp.where(jnp.isnan(gain), 0.0, jnp.exp(jnp.minimum(gain, 0.0)))
        chosen = jax.random.uniform(for_choice, gain.shape, y.dtype) < probability
        accepted = probability.mean()
        return (jnp.where(chosen[:, None], there, y), log_step + GAIN * (accepted - TARGET), accepted), None

    first = (y, jnp.asarray(np.log(0.5 * loc.size**-0.25), loc.dtype), jnp.ones((), loc.dtype))
    keys = jax.random.split(jax.random.wrap_key_data(key), TRANSITIONS)
    (y, _, accepted), _ = jax.lax.scan(transition, first, keys)
    return loc + y @ tril.T, accepted
