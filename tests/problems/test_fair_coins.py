"""heads(z, b) for z ~ N(0, 1) has the law Binomial(b, ½). No sampling: the law it implies is computed."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from gladstorm.problems.sampling import TABLED, heads

AT_ONCE = 4096  # one size, one program
each_heads = jax.jit(jax.vmap(heads, (0, None)))


def evaluate(z: np.ndarray, coins: int) -> np.ndarray:
    found = np.empty(z.size)
    for first in range(0, z.size, AT_ONCE):
        some = z[first : first + AT_ONCE]
        with jax.enable_x64(True):
            padded = np.pad(np.asarray(some, np.float64), (0, AT_ONCE - some.size))
            found[first : first + some.size] = each_heads(padded, np.int64(coins))[: some.size]
    return found


def boundary(coins: int, k: np.ndarray) -> np.ndarray:
    """The z at which heads(z, coins) passes from ≤ k to > k, by bisection."""
    low, high = np.full(k.shape, -9.0), np.full(k.shape, 9.0)
    for _ in range(60):
        middle = (low + high) / 2
        above = evaluate(middle, coins) > k
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high


@pytest.mark.parametrize("coins", [1, 2, 3, 5, 8, 17, 64, 129, TABLED - 1, TABLED])
def test_up_to_the_table_the_law_is_binomial_to_rounding(coins: int) -> None:
    k = np.arange(coins)
    k = k[np.abs(2 * k + 1 - coins) < 7 * np.sqrt(coins)]
    implied = special.ndtr(boundary(coins, k))
    np.testing.assert_allclose(implied, stats.binom.cdf(k, coins, 0.5), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("coins", [TABLED + 1, 300, 1000, 4097])
def test_above_the_table_the_total_variation_distance_is_below_1e_11(coins: int) -> None:
    k = np.arange(coins // 2 - int(4 * np.sqrt(coins)), coins // 2)  # the lower half; the law is symmetric
    implied = np.diff(special.ndtr(boundary(coins, k)), prepend=0.0)
    exact = np.diff(stats.binom.cdf(k, coins, 0.5), prepend=0.0)
    assert np.abs(implied - exact).sum() < 1e-11


def test_a_million_coins_have_the_binomial_moments() -> None:
    z = special.ndtri((np.arange(200_000) + 0.5) / 200_000)
    centred = 2 * evaluate(z, 10**6) - 10**6
    assert abs(centred.mean()) < 1e-6
    assert centred.var() == pytest.approx(10**6, rel=1e-4)


@given(z=st.floats(-8.2, 8.2), coins=st.integers(1, 2**40))
def test_it_is_a_whole_number_of_the_coins_and_mirrors_with_z(z: float, coins: int) -> None:
    count, mirrored = evaluate(np.array([z, -z]), coins)
    assert count == np.floor(count)
    assert 0 <= count <= coins
    assert abs(count + mirrored - coins) <= 1  # at a threshold both sides round the same way


def test_it_grows_with_z_on_both_sides_of_the_table() -> None:
    z = np.linspace(-8.2, 8.2, 4001)
    for coins in (1, 7, TABLED, TABLED + 1, 10**6):
        assert np.all(np.diff(evaluate(z, coins)) >= 0)
