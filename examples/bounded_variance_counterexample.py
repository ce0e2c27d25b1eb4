"""NSGDM under bounded variance: a problem on which the paper's printed bounds are false and the corrected ones hold.

f(x) = L0 x²/2 on the line, x⁰ = 0, γ0 = 1, and for a horizon of T iterates

    L0 = 10 T^(−1/4),   G = T^(1/4)/0.366,   ∇f(x; ξ) = L0 x + ξ,   ξ = A with probability q, else −A q/(1 − q),

with q = 0.185 η and A = G √((1 − q)/q): the noise has mean 0 and variance exactly G². Large positive samples are rare,
a fraction of one in each window of 1/η steps over which the momentum averages, so the averaged noise is below its mean
most of the time. The method only sees the sign of v; it walks to where v is positive as often as negative, and there
|f'| is a constant times √η G = G T^(−1/4). The printed bounds allow the noise only 8 G T^(−1/2) and fall below.

f is L0-smooth, and in L*_sym(α) for every α with an L1 as small as we like, so all three corollaries speak about it.

    python examples/bounded_variance_counterexample.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

from gladstorm.theory import Problem, Statement, theorem

State = tuple[jax.Array, jax.Array, jax.Array]  # x, v, and the sum of |f'| so far; one entry for each seed
ALPHAS = (0.0, 0.5, 1.0)
BLOCK = 4096  # noise is drawn for this many steps at a time


class Measurement(NamedTuple):
    """The trajectory mean of ‖∇f‖ at one horizon, beside what the three corollaries say about it."""

    horizon: int
    mean: float
    half_width: float  # of the 95 % confidence interval
    printed: dict[float, float]  # by α
    corrected: dict[float, float]

    @property
    def violated(self) -> list[float]:
        """The α whose printed bound lies below the whole confidence interval."""
        return [alpha for alpha, bound in self.printed.items() if bound < self.mean - self.half_width]


def statements(T: int) -> dict[float, Statement]:
    """The corollary for each α. Δ is 0 and L1 may be 0; the theorems ask for positive numbers, and get tiny ones."""
    L0, G = 10 * T**-0.25, T**0.25 / 0.366
    problems = {alpha: Problem(alpha=alpha, L0=L0, L1=1e-9, B=0, G=G, gap=1e-12) for alpha in ALPHAS}
    return {alpha: theorem("nsgdm", problem, gamma0=1.0) for alpha, problem in problems.items()}


def two_points(G: float, eta: float) -> tuple[float, float, float]:
    """The noise: the probability of its large value, that value, and the other one."""
    q = 0.185 * eta
    A = G * ((1 - q) / q) ** 0.5
    return q, A, -A * q / (1 - q)


def mean_grad_norms(statement: Statement, T: int, seeds: int) -> NDArray[np.float64]:
    """(1/T) Σ_k |f'(x^k)| over k = 0..T−1, one for each seed."""
    eta, gamma, *_ = statement.schedule(T)
    with jax.enable_x64(True):
        return np.asarray(_trajectory_means(statement.L0, statement.problem.G, eta, gamma, T=T, seeds=seeds))


@partial(jax.jit, static_argnames=("T", "seeds"))
def _trajectory_means(L0: float, G: float, eta: float, gamma: float, *, T: int, seeds: int) -> jax.Array:
    q, high, low = two_points(G, eta)
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds))

    def noise(block: jax.Array | int, size: int) -> jax.Array:
        uniform = jax.vmap(lambda key: jax.random.uniform(jax.random.fold_in(key, block), (size,)))(keys)
        return jnp.where(uniform < q, high, low).T

    def step(state: State, sample: jax.Array) -> tuple[State, None]:
        x, v, total = state
        x = x - gamma * jnp.sign(v)
        v = (1 - eta) * v + eta * (L0 * x + sample)
        return (x, v, total + jnp.abs(L0 * x)), None

    def steps(state: State, block: jax.Array | int, size: int) -> State:
        return jax.lax.scan(step, state, noise(block, size), unroll=8)[0]

    zero = jnp.zeros(seeds)
    state = (zero, noise(0, 1)[0], zero)  # x⁰ = 0, v⁰ = f'(x⁰) + ξ⁰, and |f'(x⁰)| = 0
    blocks, rest = divmod(T - 1, BLOCK)
    state = jax.lax.fori_loop(1, blocks + 1, lambda block, state: steps(state, block, BLOCK), state)
    return steps(state, blocks + 1, rest)[2] / T


def measure(T: int, seeds: int) -> Measurement:
    """Run NSGDM with the corollaries' schedule, the same for each α, and put their bounds beside the result."""
    regimes = statements(T)
    means = mean_grad_norms(regimes[0.0], T, seeds)
    return Measurement(
        horizon=T,
        mean=float(means.mean()),
        half_width=float(student.ppf(0.975, seeds - 1) * means.std(ddof=1) / math.sqrt(seeds)),
        printed={alpha: regime.bound_as_printed(T) for alpha, regime in regimes.items()},
        corrected={alpha: regime.bound(T) for alpha, regime in regimes.items()},
    )


def main(horizons: Sequence[int] = (10**5, 10**6, 4 * 10**6), seeds: int = 16) -> None:
    """Print a row for each horizon."""
    table = Table("T", "measured", box=box.MARKDOWN)
    for alpha in ALPHAS:
        table.add_column(f"printed, α = {alpha:g}")
    table.add_column("corrected, smallest")
    table.add_column("violated for α =")
    for T in horizons:
        result = measure(T, seeds)
        table.add_row(
            f"{T:.0e}".replace("e+0", "e"),
            f"{result.mean:.4f} ± {result.half_width:.4f}",
            *(f"{bound:.4f}" for bound in result.printed.values()),
            f"{min(result.corrected.values()):.2f}",
            ", ".join(f"{alpha:g}" for alpha in result.violated) or "none",
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
