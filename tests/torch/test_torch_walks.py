"""Walks against the recursions by hand, in every way a step is computed: outliers, bad gradients, long tensors."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from gladstorm.torch import NSGDM, NSTORM, Untuned, norms
from gladstorm.torch.norms import SHORT, norm_of
from unrolled_parameter_free import Untuned as by_hand_untuned

Vector = np.ndarray
SHAPES = ((3,), (SHORT // 40, 41), (2, 1))  # the second is longer than what norms are kept for, and lies transposed
CUTS = np.cumsum([int(np.prod(shape)) for shape in SHAPES])[:-1]
DIMENSION = sum(int(np.prod(shape)) for shape in SHAPES)
START = np.random.default_rng(0).standard_normal(DIMENSION)
WAYS = pytest.mark.parametrize("way", ["CPU", "device"])


def parameters(dtype: torch.dtype = torch.float64) -> list[torch.nn.Parameter]:
    drawn = [torch.from_numpy(x.copy()).reshape(shape).to(dtype) for x, shape in zip(cut(START), SHAPES, strict=True)]
    drawn[1] = drawn[1].t().contiguous().t()
    return [torch.nn.Parameter(x) for x in drawn]


def cut(x: Vector) -> list[Vector]:
    return np.split(x, CUTS)


def joined(params: list[torch.nn.Parameter]) -> Vector:
    return np.concatenate([p.detach().double().numpy().ravel() for p in params])


def set_gradients(params: list[torch.nn.Parameter], g: Vector) -> None:
    for p, part in zip(params, cut(g), strict=True):
        p.grad = torch.from_numpy(part.copy()).reshape(p.shape).to(p.dtype)


@pytest.fixture
def way_options(way: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if way.startswith("device"):  # the CPU stands for one: its values are not looked at
        monkeypatch.setattr(norms, "readable", lambda tensor: False)
    return {"skip_nonfinite": True}


def noise(k: int) -> Vector:
    return np.random.default_rng(100 + k).standard_normal(DIMENSION)


# Untuned: (x, x̄) of every call, by hand and by torch

CALLS, HORIZON, LR = 40, 35, 0.7
BAD, ZERO = (2, 9, 23), (12,)  # calls whose gradient is not finite, or 0
OUTLIERS = (14, 20, 31)  # calls whose gradient is long, and turned against what it would be


def untuned_gradient(k: int, x: Vector) -> Vector:
    g = 0.05 * x + 1.0 + 0.3 * noise(k)
    if k in OUTLIERS:
        g = -30 * g
    if k in ZERO:
        g = 0 * g
    if k in BAD:
        g[k % 3] = np.nan
    return g


def untuned_by_hand() -> Iterator[tuple[Vector, Any]]:
    method, x = by_hand_untuned(HORIZON, LR), START
    for k in range(CALLS):
        g = untuned_gradient(k, x)
        if k in BAD:
            x, method.m = (x + method.mean) / 2, 0 * x
        elif k not in ZERO:
            x = method(k, x, g)
        yield x, method


@WAYS
@pytest.mark.filterwarnings("ignore:Untuned. horizon=35 was reached")
def test_untuned_walks_as_by_hand_with_outliers_bad_gradients_and_zeros_also_past_its_horizon(
    way_options: dict[str, Any],
) -> None:
    params = parameters()
    groups = [{"params": params[:1]}, {"params": params[1:]}]
    optimizer = Untuned(groups, lr=LR, horizon=HORIZON, **way_options)
    lengths = set()
    for k, (x, method) in enumerate(untuned_by_hand()):
        set_gradients(params, untuned_gradient(k, joined(params)))
        optimizer.step()
        np.testing.assert_allclose(joined(params), x, rtol=0, atol=1e-11, err_msg=f"call {k}")
        with optimizer.averaged():
            np.testing.assert_allclose(joined(params), method.mean, rtol=0, atol=1e-11, err_msg=f"average of call {k}")
        lengths.add(method.r)
    assert optimizer.skipped == len(BAD)
    assert len(lengths) > 10  # r has grown
    assert method.tau > 1


# NSGDM and NSTORM: (x, v) of every step

STEPS, GAMMA, ETA, DECAY = 12, 0.3, 0.35, 0.02


def gradient(k: int, x: Vector) -> Vector:
    return np.asarray(0.5 * x + noise(k))


def units_of(norm: str) -> list[slice]:
    """What has a norm of its own; the first two tensors are a group."""
    edges = {"global": [0, DIMENSION], "group": [0, CUTS[1], DIMENSION], "tensor": [0, *CUTS, DIMENSION]}[norm]
    return [slice(a, b) for a, b in pairwise(edges)]


def moved(x: Vector, v: Vector, norm: str) -> Vector:
    new = (1 - GAMMA * DECAY) * x
    for unit in units_of(norm):
        new[unit] -= GAMMA * v[unit] / np.linalg.norm(v[unit])
    return new


def by_hand(kind: Any, norm: str) -> Iterator[tuple[Vector, Vector]]:
    x, v = START, gradient(0, START)
    if kind is NSTORM:
        yield x, v
    for k in range(1 if kind is NSTORM else 0, STEPS):
        if kind is NSTORM:
            old = gradient(k, x)
            x = moved(x, v, norm)
            v = gradient(k, x) + (1 - ETA) * (v - old)
        else:
            v = (1 - ETA) * v + ETA * gradient(k, x)
            x = moved(x, v, norm)
        yield x, v


@WAYS
@pytest.mark.parametrize("norm", ["global", "group", "tensor"])
@pytest.mark.parametrize("kind", [NSGDM, NSTORM])
@pytest.mark.parametrize(("scale", "dtype"), [(1.0, torch.float64), (1e-36, torch.float32), (1e33, torch.float32)])
def test_a_walk_is_that_by_hand_at_any_scale_of_the_loss(
    kind: Any, norm: str, scale: float, dtype: torch.dtype, way_options: dict[str, Any]
) -> None:
    params = parameters(dtype)
    groups = [{"params": params[:2]}, {"params": params[2:]}]
    optimizer = kind(groups, lr=GAMMA, momentum=1 - ETA, weight_decay=DECAY, norm=norm, **way_options)
    tolerance = 1e-11 if dtype is torch.float64 else 2e-5
    for k, (x, v) in enumerate(by_hand(kind, norm)):

        def closure(k: int = k) -> float:
            set_gradients(params, scale * gradient(k, joined(params)))
            return 0.0

        optimizer.step(closure)
        estimate = np.concatenate([optimizer.state[p]["momentum_buffer"].double().numpy().ravel() for p in params])
        np.testing.assert_allclose(joined(params), x, rtol=0, atol=tolerance, err_msg=f"step {k}")
        np.testing.assert_allclose(estimate / scale, v, rtol=0, atol=10 * tolerance, err_msg=f"estimate of step {k}")


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_norm_is_right_to_a_part_in_a_million_at_any_size_of_many_small_entries_beside_a_large_one(
    flush: bool, dtype: torch.dtype
) -> None:
    """Squares of small entries vanish, sooner where the processor flushes what is below its normal numbers to 0."""
    drawn = torch.rand(SHORT + 200, generator=torch.Generator().manual_seed(5), dtype=torch.float64) + 0.5
    smallest, largest = (
        (-74, 50) if dtype is torch.float32 else (-520, 500)
    )  # powers of 2; some squares are out of range
    supported = torch.set_flush_denormal(flush)
    try:
        for power in [*range(smallest, smallest + 40), *range(largest, largest + 20)]:
            for many in (1, 60, SHORT, SHORT + 200):
                for large in (0, 8, 12, 16):
                    entries = drawn[:many].clone()
                    entries[0] = 2.0**large
                    v = (entries * 2.0**power).to(dtype)
                    reference = (v.double() * 2.0**-power).norm().item()  # exact powers of 2
                    assert norm_of([v]).item() * 2.0**-power == pytest.approx(reference, rel=1e-6), (power, many, large)
    finally:
        torch.set_flush_denormal(False)
    assert supported or flush
