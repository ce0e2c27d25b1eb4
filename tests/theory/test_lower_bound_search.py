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
from evidence.verification.rotated_runway import SQUASHED, RotatedRunway
from gladstorm.core.parts import part
from gladstorm.problems.hard.noisy_runway import QUIET, Coins, link_noise, noisy_link
from gladstorm.problems.hard.noisy_runway import NoisyRunwayOracle as Oracle
from gladstorm.problems.hard.zero_chain import chain_value
from gladstorm.problems.objectives import NoisyRunway

# Three links each, so that a claim is compiled once for all of them.
STEEP: dict[str, Any] = {"eps": 0.005, "alpha": 1.0, "L0": 1.0, "L1": 95.0, "B": 0.25, "gap": 1.0}
LONGER = STEEP | {"L1": 120.0}
MILD: dict[str, Any] = {"eps": 0.008, "alpha": 0.25, "L0": 1.0, "L1": 130.0, "B": 0.3, "gap": 1.0}
BENT: dict[str, Any] = {"eps": 0.015, "alpha": 0.5, "L0": 1.0, "L1": 300.0, "B": 1.0, "gap": 1.0}
# The chain needs the carrier.
LATE: dict[str, Any] = {"eps": 1e-4, "alpha": 1.0, "L0": 1.0, "L1": 1.6, "B": 0.3, "gap": 1.0}
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


# Theorem 4, for every growth up to 2: every sample in L*_sym(1).


class EverySample:
    """Samples of Theorem 4 with two links in four hidden dimensions; h = a/2, and all constants but L0 are 1."""

    def __init__(self, growth: Any, L0: Any, tightness: Any) -> None:
        self.h, self.L0, self.eps, self.length = growth / 2, L0, 1 / (1536 * 2.5), 2
        self.R, self.b, self.scale = 1 / (8 * self.eps), math.sqrt(1 / 2), 10.0
        self.root_p = 16 * math.sqrt(131) * self.eps / (self.b * (self.R / 2) ** self.h) / tightness
        self.frame = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 2)))[0]
        self.most = SQUASHED * math.sqrt(2)  # P

    def carrier(self, r: Any) -> Any:
        power = self.b * r**self.h / self.root_p
        return jnp.minimum(self.L0 * jnp.expm1(jnp.minimum(r / 4, 300.0)), power)

    def parts(self, x: Any) -> tuple[Any, Any]:
        """f without the carrier, and M, the sum of the links' noise."""
        y, u = x[0], x[1:] / self.scale
        length = jnp.sqrt(jnp.sum(u * u) + 1e-300)
        omega = (u / jnp.sqrt(1 + length**2 / self.most**2)) @ self.frame
        t = jnp.clip(2 * y / self.R - 1, 0, 1)
        gate = t**3 * (10 - 15 * t + 6 * t * t)
        behind = jnp.clip(y / self.R - 1, 0, 1)
        runway = -2 * self.eps * (jnp.minimum(y, self.R) + self.R * (behind - behind**2 / 2))
        half = self.most / 2
        confined = jnp.where(length <= half, length**2 / 10, self.most / 10 * (length - half / 2))
        kappa = 4 * self.eps * self.scale
        value = runway + gate * kappa * (chain_value(omega) - 12 * self.length) + kappa * confined
        return value, gate * kappa * link_noise(omega)

    def worst(self, x: Any) -> dict[str, Any]:
        """Every claim at x, relative to what is allowed: at most 1."""
        r = jnp.linalg.norm(x)
        slope, noise = (jax.grad(lambda x, i=i: self.parts(x)[i])(x) for i in (0, 1))
        bend, noisy = (jax.hessian(lambda x, i=i: self.parts(x)[i])(x) for i in (0, 1))
        w, along = self.carrier(r), x / r
        steeper = jax.grad(self.carrier)(r)
        of_carrier = w / r * jnp.eye(5) + (steeper - w / r) * jnp.outer(along, along)
        p, sample = self.root_p**2, {}
        for shown, sign in ((0.0, 0.0), (1.0, 1.0), (1.0, -1.0)):
            gradient = slope + (shown / p - 1) * noise + sign * w * along
            curvature = jnp.linalg.norm(bend + (shown / p - 1) * noisy + sign * of_carrier, 2)
            sample[f"class, {shown:g}, {sign:g}"] = curvature / (self.L0 + jnp.linalg.norm(gradient))
        variance = (1 - p) / p * jnp.sum(noise**2) + p * w**2
        omega = (x[1:] / self.scale / jnp.sqrt(1 + jnp.sum((x[1:] / self.scale) ** 2) / self.most**2)) @ self.frame
        hidden = (jnp.abs(omega[-1]) < 1) | (x[0] <= self.R)
        return sample | {
            "variance": variance / r ** (2 * self.h),
            "stationarity": jnp.where(hidden, 2 * self.eps / jnp.linalg.norm(slope), 0.0),
            "depth": -self.parts(x)[0],
        }


@jax.jit
def at_points(growth: Any, L0: Any, tightness: Any, x: Any) -> Any:
    """Every claim at every point: one program for all growths."""
    return jax.vmap(EverySample(growth, L0, tightness).worst)(x)


@cache
def worst_sample(growth: float, L0: float = 0.25, tightness: float = 1.0) -> dict[str, float]:
    """The largest of each claim over 20,000 points: on the way, at the gate, along the chain, near, far and beside."""
    problem, rng, n = EverySample(growth, L0, tightness), np.random.default_rng(1), 20_000
    y = problem.R * np.where(
        rng.random(n) < 0.5, rng.uniform(0, 2.2, n), 10 ** rng.uniform(-6, 2, n) * rng.choice([-1, 1], n)
    )
    omega = rng.choice([0.0, 0.05, 0.3, 0.5, 0.8, 1.0, 1.5, 4.0], (n, 2)) * rng.choice([-1, 1], (n, 2))
    z = (omega + rng.normal(0, 0.1, (n, 2))) @ problem.frame.T + rng.normal(0, 1, (n, 4)) * 10 ** rng.uniform(
        -6, 3, (n, 1)
    )
    with jax.enable_x64(True):
        claims = at_points(growth, L0, tightness, jnp.asarray(np.column_stack([y, problem.scale * z])))
        return {name: float(jnp.max(value)) for name, value in claims.items()}


@pytest.mark.parametrize("growth", [0.0, 0.5, 1.0, 1.5, 2.0])
def test_every_sample_of_theorem_4_is_in_the_class_and_within_the_noise(growth: float) -> None:
    """The one theorem of the notes that its author had not checked by a machine."""
    largest = worst_sample(growth)
    assert max(largest.values()) <= 1
    assert largest["variance"] > 0.49
    assert largest["stationarity"] > 0.5
    assert max(value for name, value in largest.items() if name.startswith("class")) > 0.2


def test_the_search_finds_what_would_break_theorem_4() -> None:
    """Coins that are 400 times as rare exceed the noise; a class with a small L0 does not permit the chain."""
    assert worst_sample(1.0, tightness=20.0)["variance"] > 1
    assert worst_sample(1.0, L0=0.004)["class, 0, 0"] > 1


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
