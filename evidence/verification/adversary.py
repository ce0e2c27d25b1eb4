"""A search for points and pairs of points at which the problem of the lower bound would violate a claim of its proof.

Every search climbs: from points all over the problem, it keeps what is worse for the claim and moves on from there, in
steps of all sizes. Expectations are exact: all outcomes of the coins are summed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.problems.hard.noisy_runway import Coins

CLIMBERS: Final = 128
ROUNDS: Final = 150
Claim = Callable[[Any, Any], Any]  # of an oracle and a place; it holds where this is at most 1


def outcomes(oracle: Any) -> tuple[Coins, Any]:
    """All outcomes of the coins and their probabilities."""
    T, p = oracle.links, oracle.p
    coins = (jnp.arange(2**T)[:, None] >> jnp.arange(T)) & 1
    chances = jnp.prod(jnp.where(coins == 1, p, 1 - p), axis=1) / 2
    shown, sign = jnp.concatenate([coins, coins]).astype(float), jnp.repeat(jnp.array([-1.0, 1.0]), 2**T)
    return Coins(shown, sign), jnp.concatenate([chances, chances])


def variance(oracle: Any, x: Any) -> Any:
    """E‖∇f(x; ξ) − ∇f(x)‖² relative to B²‖x‖^a."""
    f = oracle.objective
    return oracle.variance(oracle.at(x)) / (f.B**2 * jnp.sum(x * x) ** (getattr(f, "growth", 2.0) / 2))


def smoothness(oracle: Any, x: Any) -> Any:
    """‖∇²f(x)‖ relative to L0."""
    return jnp.linalg.norm(jax.jacfwd(oracle.objective.grad)(x), 2) / oracle.objective.L0


def curvature(oracle: Any, x: Any) -> Any:
    """E‖∇²f(x; ξ)‖² relative to what the class allows at x: inequality (3) of the proof."""
    hessians, norms, chances = _hessians(oracle, x)
    return chances @ jnp.linalg.norm(hessians, 2, axis=(1, 2)) ** 2 / _allowed(oracle, norms, chances)


def close_pairs(oracle: Any, x: Any) -> Any:
    """The largest eigenvalue of E(∇²f(x; ξ))², relative to the same: what close pairs around x use of the class."""
    hessians, norms, chances = _hessians(oracle, x)
    mean_square = jnp.einsum("s,sij,sjk->ik", chances, hessians, hessians)
    return jnp.linalg.norm(mean_square, 2) / _allowed(oracle, norms, chances)


def pair(oracle: Any, both: Any) -> Any:
    """E‖∇f(y; ξ) − ∇f(x; ξ)‖² relative to what the class allows for (x, y), its maximum over 17 points between them."""
    samples, chances = outcomes(oracle)
    x, y = both
    between = jax.vmap(oracle.at)(x + jnp.linspace(0, 1, 17)[:, None] * (y - x))
    grads = jax.vmap(lambda sample: jax.vmap(lambda point: oracle.grad(point, sample))(between))(samples)
    moved2 = jnp.sum((grads[:, -1] - grads[:, 0]) ** 2, axis=1)
    largest = jnp.max(jnp.linalg.norm(grads, axis=2), axis=1)
    return chances @ moved2 / (jnp.sum((y - x) ** 2) * _allowed(oracle, largest, chances))


def stationarity(oracle: Any, x: Any) -> Any:
    """2ε relative to ‖∇f(x)‖ while |ω_T| < 1 or y ≤ R; 0 elsewhere."""
    f = oracle.objective
    before = (jnp.abs(f.coordinates(x)[-1]) < 1) | (x[0] <= f.runway)
    return jnp.where(before, 2 * f.eps / jnp.linalg.norm(f.grad(x)), 0.0)


def depth(oracle: Any, x: Any) -> Any:
    """f(x⁰) − f(x) relative to Δ."""
    f = oracle.objective
    return (f.value(f.start) - f.value(x)) / f.gap


def places(f: Any, count: int, rng: np.random.Generator) -> np.ndarray:
    """All along the runway; a first part of the chain is open, the next coordinate anywhere, the rest small."""
    T = f.links
    omega = rng.uniform(-0.2, 0.2, (count, T))
    for row, opened in zip(omega, rng.integers(0, T + 1, count), strict=True):
        row[:opened] = rng.choice([-1, 1], opened) * rng.uniform(0.4, 3, opened)
        row[opened : opened + 1] = rng.uniform(-0.7, 0.7)
    y = rng.uniform(-0.2, 2.2, (count, 1)) * float(f.runway)
    return np.hstack([y, float(f.scale) * (omega @ np.asarray(f.frame).T if f.rotated else omega)])


def worst(claim: Claim, oracle: Any) -> float:
    """The largest value of a claim that is found; pairs begin where curvature is largest, near and far."""
    rng, f = np.random.default_rng(0), getattr(oracle.objective, "single", oracle.objective)
    blocks = oracle.objective.start.size // f.start.size
    with jax.enable_x64(True):
        begin = np.hstack([places(f, CLIMBERS, rng) for _ in range(blocks)])
        key, units = jax.random.key(0), np.tile(_units(f), blocks)
        if claim is pair:
            x = np.asarray(_climb(close_pairs, oracle, begin, units, key)[0])
            along = float(f.scale) * np.asarray(_steepest(oracle, x))
            near, distance = rng.random((CLIMBERS, 1)) < 0.5, 10 ** rng.uniform(-4, 0.3, (CLIMBERS, 1))
            apart = distance * np.where(near, along, units * rng.normal(size=x.shape))
            begin = np.stack([np.where(near, x, begin), np.where(near, x, begin) + apart], axis=1)
        return float(np.nanmax(np.asarray(_climb(claim, oracle, begin, units, key)[1])))


@partial(jax.jit, static_argnums=0)
def _climb(claim: Claim, oracle: Any, begin: Any, units: Any, key: Any) -> Any:
    """Let climbers climb: their ends, and the claim's values there. In the first round they stay where they are."""

    def one_round(state: Any, given: Any) -> Any:
        (x, best), (moves, key) = state, given
        of_size, of_direction, of_some = jax.random.split(key, 3)
        each = (CLIMBERS, *[1] * (x.ndim - 1))
        size = moves * 10 ** jax.random.uniform(of_size, each, minval=-4, maxval=0)
        some = jax.random.bernoulli(of_some, 0.5, x.shape)
        proposals = x + units * size * some * jax.random.normal(of_direction, x.shape)
        values = jax.vmap(lambda place: claim(oracle, place))(proposals)
        better = values > best
        return (jnp.where(better.reshape(each), proposals, x), jnp.where(better, values, best)), None

    keys = jax.random.split(key, ROUNDS)
    rounds = jnp.arange(1 + ROUNDS) > 0, jnp.concatenate([keys[:1], keys])
    return jax.lax.scan(one_round, (begin, jnp.full(CLIMBERS, -jnp.inf)), rounds)[0]


def _units(f: Any) -> np.ndarray:
    """The problem's lengths: R along the runway, λ along the chain."""
    return np.append(float(f.runway), np.full(f.start.size - 1, float(f.scale)))


def _allowed(oracle: Any, norms: Any, chances: Any) -> Any:
    """E(L0 + L1 ‖∇f(x; ξ)‖^α)²."""
    f = oracle.objective
    return chances @ (f.L0 + f.L1 * norms**f.alpha) ** 2


def _hessians(oracle: Any, x: Any) -> tuple[Any, Any, Any]:
    """Compute the Hessian, the gradient norm and the probability of every outcome."""
    samples, chances = outcomes(oracle)

    def one(sample: Any) -> Any:
        def grad(x: Any) -> Any:
            return oracle.grad(oracle.at(x), sample)

        hessian = jax.jacfwd(grad)(x)
        return (hessian + hessian.T) / 2, jnp.linalg.norm(grad(x))

    return *jax.vmap(one)(samples), chances


@jax.jit
def _steepest(oracle: Any, places: Any) -> Any:
    """The directions of the pairs of `close_pairs`, at every place."""

    def one(x: Any) -> Any:
        hessians, _, chances = _hessians(oracle, x)
        return jnp.linalg.eigh(jnp.einsum("s,sij,sjk->ik", chances, hessians, hessians))[1][:, -1]

    return jax.vmap(one)(places)
