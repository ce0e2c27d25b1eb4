"""What the lower bound says of points, pairs and answers of its problem: searched for a violation, and none is found.

`evidence.verification.adversary` searches. The broken problems show that it would find one.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evidence.verification import broken
from evidence.verification.adversary import (
    close_pairs,
    curvature,
    depth,
    pair,
    places,
    stationarity,
    variance,
    worst,
)
from evidence.verification.hard_instances import ChainOracle, GatedRunway
from gladstorm.core.parts import part
from gladstorm.problems.hard.noisy_runway import QUIET, Coins, noisy_link
from gladstorm.problems.hard.noisy_runway import NoisyRunwayOracle as Oracle
from gladstorm.problems.objectives import NoisyRunway, RotatedRunway

# Three links each, so that a claim is compiled once for all of them.
STEEP: dict[str, Any] = {"eps": 0.005, "alpha": 1.0, "L0": 1.0, "L1": 95.0, "B": 0.25, "gap": 1.0}
LONGER = STEEP | {"L1": 120.0}
MILD: dict[str, Any] = {"eps": 0.008, "alpha": 0.25, "L0": 1.0, "L1": 130.0, "B": 0.3, "gap": 1.0}
BENT: dict[str, Any] = {"eps": 0.015, "alpha": 0.5, "L0": 1.0, "L1": 300.0, "B": 1.0, "gap": 1.0}
LATE: dict[str, Any] = {
    "eps": 1e-4,
    "alpha": 1.0,
    "L0": 1.0,
    "L1": 1.6,
    "B": 0.3,
    "gap": 1.0,
}  # the chain needs the carrier
PROBLEMS: dict[str, Any] = {
    "α = 1": NoisyRunway.from_eps(**STEEP),
    "α = ¼": NoisyRunway.from_eps(**MILD),
    "bent carrier": NoisyRunway.from_eps(**BENT),
    "late": NoisyRunway.from_eps(**LATE),
    "rotated": RotatedRunway.from_eps(**LONGER, dim=5),  # two links
}


# The second number is what has to be found at least: a search that finds less has not searched.
CLAIMS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "BG-0": (variance, 0.49),
    "curvature": (curvature, 0.001),
    "close pairs": (close_pairs, 0.001),
    "pairs": (pair, 1e-4),
    "‖∇f‖ ≥ 2ε": (stationarity, 0.6),
    "f ≥ −Δ": (depth, 0.5),
}


@cache
def worst_of(claim: str, name: str) -> float:
    return worst(CLAIMS[claim][0], Oracle(PROBLEMS[name]))


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_no_point_or_pair_violates_a_claim(claim: str, name: str) -> None:
    assert CLAIMS[claim][1] <= worst_of(claim, name) <= 1


@pytest.mark.parametrize(("wrong", "constants", "name"), [(broken.silent, LATE, "late"), (broken.dense, MILD, "α = ¼")])
@pytest.mark.parametrize("claim", ["close pairs", "pairs"])
def test_without_the_carrier_or_with_a_chain_too_dense_the_class_inequality_fails(
    wrong: Any, constants: Any, name: str, claim: str
) -> None:
    assert worst(CLAIMS[claim][0], wrong(**constants)) > 1
    assert worst_of(claim, name) < 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_at_no_point_do_two_links_show(name: str) -> None:
    """What the oracle keeps at a point is one link: the noise of every other is 0, with its gradient."""
    f = PROBLEMS[name]
    x = places(f, 2000, np.random.default_rng(1))
    with jax.enable_x64(True):
        omega = np.asarray(jax.vmap(f.coordinates)(x))
        shown = np.asarray(jax.vmap(noisy_link)(jnp.asarray(omega)))
    before = np.column_stack([np.ones(len(x)), omega[:, :-1]])
    switched_on = [
        (np.abs(before[:, i]) > 0.5) & (6.25 * np.sum(np.maximum(np.abs(omega[:, i:]) - QUIET, 0) ** 2, axis=1) < 1)
        for i in range(omega.shape[1])
    ]
    count = np.sum(switched_on, axis=0)
    assert count.max() == 1
    assert np.array_equal(np.argmax(switched_on, axis=0)[count == 1], shown[count == 1])


@jax.jit
def answer(oracle: Any, x: Any, sample: Any) -> Any:
    return oracle.value(x, sample), oracle.grad(oracle.at(x), sample)


@pytest.mark.parametrize("coin", [0, 1])
@pytest.mark.parametrize("opened", [0, 1])
def test_an_answer_shows_one_new_direction_and_only_if_its_coin_says_so(opened: int, coin: int) -> None:
    """Lemma 8: where |ω_k| ≤ a for k > m, an answer depends on u_1, …, u_J only, J = m + 1 if ζ_{m+1} = 1, else m."""
    f: Any = RotatedRunway.from_eps(**(STEEP | {"L1": 200.0}), dim=12)
    T = f.numbers.length
    rng, oracle = np.random.default_rng(2), Oracle(f)
    J = opened + coin
    assert T > J
    shown = rng.integers(0, 2, T).astype(float)
    shown[opened] = coin
    sample: Any = Coins(*map(jnp.asarray, (shown, 1.0)))
    for _ in range(20):
        omega = np.where(np.arange(T) < opened, rng.uniform(0.5, 1.5, T), rng.uniform(-QUIET / 2, QUIET / 2, T))
        x = np.append(rng.uniform(0.6, 2) * float(f.runway), float(f.scale) * (f.frame @ omega))
        # Other directions from u_{J+1} on, at right angles to the first J and nearly so to x.
        others = rng.normal(size=(x.size - 1, T - J))
        known = np.column_stack([f.frame[:, :J], x[1:]])
        others -= known @ np.linalg.lstsq(known, others, rcond=None)[0]
        turned: Any = replace(f, frame=np.linalg.qr(np.column_stack([f.frame[:, :J], others]))[0] * signs(f.frame, J))
        with jax.enable_x64(True):
            assert np.abs(np.asarray(turned.coordinates(x))[J:]).max() <= QUIET
            answers = [answer(each, x, sample) for each in (oracle, Oracle(turned))]
        np.testing.assert_allclose(answers[0][0], answers[1][0], rtol=1e-12)
        np.testing.assert_allclose(answers[0][1], answers[1][1], rtol=1e-9, atol=1e-12)


def signs(frame: np.ndarray, kept: int) -> np.ndarray:
    """QR may turn a column around: the first ones, which are kept, have their own signs."""
    q = np.linalg.qr(frame)[0]
    return np.where(np.arange(frame.shape[1]) < kept, np.sign(np.sum(q * frame, axis=0)), 1.0)


def test_a_zero_respecting_method_sees_one_coordinate_more_only_if_its_coin_says_so() -> None:
    f = NoisyRunway.from_eps(**LONGER)
    oracle, T = Oracle(f), f.start.size - 1
    assert T == 4
    for opened in range(T):
        omega = np.where(np.arange(T) < opened, 1.2, 0.0)
        x = np.append(1.1 * float(f.runway), omega * float(f.scale))
        for coin in (0.0, 1.0):
            with jax.enable_x64(True):
                shown = np.where(np.arange(T) == opened, coin, 1.0)  # those of later links are 1 and show nothing
                told = np.asarray(answer(oracle, x, Coins(jnp.asarray(shown), jnp.asarray(1.0)))[1])
            assert np.count_nonzero(told[1:]) == opened + coin


# Theorem 6: only f is smooth.

EDGE = math.sqrt(1 / 41000)  # the largest ε, at L0 = Δ = 1
SHOWN = 8.964  # ε times this is the largest derivative of a hidden coordinate


@part
class OnlySmooth(GatedRunway):
    """f of Theorem 6 with as many links as the theorem has, and B by p = (8.964 ε)²/(BR/2)²."""

    rotated: ClassVar[bool] = False
    p: ClassVar[float] = 0.01

    @classmethod
    def at_eps(cls, eps: float) -> Any:
        return cls(np.zeros(1 + math.floor(1 / (33 * 1216 * eps**2))), 1.0, 1.0, eps)

    @property
    def links(self) -> int:
        return self.start.size - 1

    @property
    def B(self) -> Any:
        return SHOWN * self.eps / (math.sqrt(self.p) * self.runway / 2)


def smoothness(oracle: Any, x: Any) -> Any:
    """‖∇²f(x)‖ relative to L0."""
    return jnp.linalg.norm(jax.jacfwd(oracle.objective.grad)(x), 2) / oracle.objective.L


def derivative_of_a_hidden_coordinate(oracle: Any, x: Any) -> Any:
    """The largest, relative to 8.964 ε."""
    f = oracle.objective
    return jnp.max(jnp.where(f.hidden(x), jnp.abs(f.grad(x)), 0.0)) / (SHOWN * f.eps)


def second_hidden_coordinate(oracle: Any, x: Any) -> Any:
    """1 + the derivative of any but the first hidden coordinate: it has none."""
    f = oracle.objective
    after = f.hidden(x) & (jnp.cumsum(f.hidden(x)) > 1)
    return 1 + jnp.sum(jnp.where(after, jnp.abs(f.grad(x)), 0.0))


ONLY_SMOOTH: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "L0-smooth": (smoothness, 0.2),
    "BG-0": (variance, 0.2),
    "derivative of a hidden coordinate": (derivative_of_a_hidden_coordinate, 0.95),
    "at most one has a derivative": (second_hidden_coordinate, 1.0),
    "‖∇f‖ ≥ 2ε": (stationarity, 0.999),
    "f ≥ −Δ": (depth, 0.4),
}


@pytest.mark.parametrize("claim", ONLY_SMOOTH)
@pytest.mark.parametrize("links", [2, 4])
def test_no_point_violates_a_claim_of_theorem_6(claim: str, links: int) -> None:
    function, least = ONLY_SMOOTH[claim]
    f = OnlySmooth.at_eps(EDGE / math.sqrt(links))
    assert f.links == links
    assert least <= worst(function, ChainOracle(f, f.p)) <= 1


def test_beyond_what_a_method_has_moved_one_coordinate_has_a_derivative_and_it_is_hidden() -> None:
    """The counting of Theorem 6: such a coordinate is shown only if its coin is 1."""
    f = OnlySmooth.at_eps(EDGE / 2)
    for opened in range(f.links):
        x = np.append(1.1 * float(f.runway), np.where(np.arange(f.links) < opened, 1.2, 0.0) * float(f.scale))
        with jax.enable_x64(True):
            grad, hidden = np.asarray(f.grad(jnp.asarray(x)))[1:], np.asarray(f.hidden(jnp.asarray(x)))[1:]
        assert np.flatnonzero(hidden).tolist() == list(range(opened, f.links))
        assert np.flatnonzero(grad[opened:]).tolist() == [0]


@part
class TooDense(OnlySmooth):
    """λ three times as small."""

    @property
    def scale(self) -> Any:
        return 200 * self.eps / self.L


def test_a_chain_three_times_as_dense_or_coins_five_times_as_rare_would_be_found() -> None:
    """A search that cannot fail says nothing."""
    f = OnlySmooth.at_eps(EDGE / 2)
    assert worst(smoothness, ChainOracle(TooDense.at_eps(EDGE / 2), f.p)) > 1
    assert worst(variance, ChainOracle(f, f.p / 5)) > 1
