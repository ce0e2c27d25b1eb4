"""Walks in every norm against the recursions by hand, singular values by NumPy, in every way a step is computed."""

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from gladstorm.core.equations import NEWTON_SCHULZ
from gladstorm.torch import NSGDM, NSTORM, Untuned, norms
from gladstorm.torch.norms import SHORT, norm_of
from gladstorm.torch.unit_steps import UNIT_STEPS, matrices
from unrolled_parameter_free import Untuned as by_hand_untuned

Params = list[torch.nn.Parameter]
Vectors = list[np.ndarray]  # one for each tensor
STEPS, GAMMA, ETA, DECAY, SCALE = 9, 0.3, 0.35, 0.02, 0.7
SHAPES: dict[str, tuple[tuple[tuple[int, ...], ...], int]] = {  # with the number of stacked matrices
    "matrices": (((3, 4), (6, 2), (3, 4), (1, 5), (4, 1)), 1),
    "fused": (((6, 2), (3, 5)), 3),
    "kernels": (((4, 3, 2), (2, 3, 1, 2), (1, 2, 3)), 1),
    "experts": (((3, 2, 4), (3, 5, 2)), 3),
    "long": (((3,), (41, SHORT // 40), (2, 1)), 1),  # the second is longer than what norms are kept for, and transposed
}
STACKED = [shapes for shapes in SHAPES if shapes != "long"]
CASES = [(norm, shapes) for norm in UNIT_STEPS for shapes in STACKED]
WHOLE = ("global", "group", "tensor")
KINDS = pytest.mark.parametrize("kind", [NSGDM, NSTORM])
# On a device values are not looked at, and the CPU stands for one.
WAYS: dict[str, dict[str, Any]] = {
    "CPU": {},
    "device": {"device": True},
    "device, checked": {"device": True, "checked": True},
    "lr on device": {"lr": torch.tensor([GAMMA], dtype=torch.float64)},
    "maximize": {"scale": -1.0},
}
AT_SCALES: dict[str, dict[str, Any]] = {
    f"{size:g}{where}": {"scale": size, "dtype": torch.float32, "checked": True, "device": bool(where)}
    for size in (1e-36, 1e33)
    for where in ("", " on a device")
}
WALKS = [(*case, way) for case in CASES for way in WAYS]
WALKS += [(norm, "long", way) for norm in WHOLE for way in (*WAYS, *AT_SCALES)]


def stacked(v: Any, stack: int) -> Any:
    """Matrices by what they are: equal pieces along the first dimension, which an expert does not have any more."""
    pieces = [piece[0] if stack > 1 and v.ndim > 2 else piece for piece in np.split(v, stack)]
    return np.stack([piece.reshape(len(piece), -1) for piece in pieces])


def unit(v: Any, norm: str, stack: int) -> Any:
    """d(v), matrix by matrix."""
    if norm == "sign":
        return np.sign(v)
    made = []
    for x in stacked(v, stack):
        if norm == "spectral":
            u, s, vt = np.linalg.svd(x, full_matrices=False)
            s /= np.linalg.norm(x)
            for _ in range(5 if len(s) > 1 else 0):
                s = np.array(NEWTON_SCHULZ) @ [s, s**3, s**5]
            made.append(np.sqrt(max(1, x.shape[0] / x.shape[1])) * (u * s) @ vt)
        else:
            made.append(x / np.linalg.norm(x, axis=1 if norm == "rows" else 0, keepdims=True))
    return np.stack(made).reshape(v.shape)


def steps_along(vs: Vectors, norm: str, stack: int) -> Vectors:
    """The steps of all tensors at γ = 1; of a norm over groups, the first two tensors are one."""
    if norm == "global":
        length = np.linalg.norm(np.concatenate([v.ravel() for v in vs]))
        return [v / length for v in vs]
    if norm == "group":
        return [*steps_along(vs[:2], "global", 1), *steps_along(vs[2:], "global", 1)]
    if norm == "tensor":
        return [v / np.linalg.norm(v) for v in vs]
    return [SCALE * unit(v, norm, stack) for v in vs]


def gradient(k: int, i: int, x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x + np.random.default_rng([k, i]).standard_normal(x.shape))


def start(shapes: str, dtype: torch.dtype = torch.float64) -> Params:
    drawn = [np.random.default_rng(i).standard_normal(shape) for i, shape in enumerate(SHAPES[shapes][0])]
    if shapes == "long":
        drawn[1] = drawn[1].T
    return [torch.nn.Parameter(torch.from_numpy(x).to(dtype)) for x in drawn]


def closure_of(params: Params, k: int, scale: float = 1.0) -> Callable[[], float]:
    def closure() -> float:
        for i, p in enumerate(params):
            p.grad = torch.from_numpy(scale * gradient(k, i, p.detach().double().numpy())).to(p)
        return 0.0

    return closure


def by_hand(kind: Any, xs: Vectors, norm: str, stack: int) -> Iterator[tuple[Vectors, Vectors]]:
    """Points and estimates of every step."""

    def gradients(k: int, xs: Vectors) -> Vectors:
        return [gradient(k, i, x) for i, x in enumerate(xs)]

    def after(xs: Vectors, vs: Vectors) -> Vectors:
        along = steps_along(vs, norm, stack)
        return [(1 - GAMMA * DECAY) * x - GAMMA * d for x, d in zip(xs, along, strict=True)]

    vs = gradients(0, xs)
    if kind is NSTORM:
        yield xs, vs
    for k in range(1 if kind is NSTORM else 0, STEPS):
        if kind is NSTORM:
            old, xs = gradients(k, xs), after(xs, vs)
            vs = [g + (1 - ETA) * (v - o) for g, v, o in zip(gradients(k, xs), vs, old, strict=True)]
        else:
            vs = [(1 - ETA) * v + ETA * g for v, g in zip(vs, gradients(k, xs), strict=True)]
            xs = after(xs, vs)
        yield xs, vs


def options_of(norm: str, shapes: str) -> dict[str, Any]:
    of_matrices = {"scale": SCALE, "stack": SHAPES[shapes][1]} if norm in UNIT_STEPS else {}
    return {"momentum": 1 - ETA, "weight_decay": DECAY, "norm": norm, **of_matrices}


@pytest.mark.parametrize(("norm", "shapes", "way"), WALKS)
@KINDS
def test_a_walk_is_that_by_hand(kind: Any, norm: str, shapes: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    how = (WAYS | AT_SCALES)[way]
    if how.get("device"):
        monkeypatch.setattr(norms, "readable", lambda tensor: False)
    scale, dtype = how.get("scale", 1.0), how.get("dtype", torch.float64)
    params = start(shapes, dtype)
    groups = [{"params": params[:2]}, {"params": params[2:]}] if len(params) > 2 else params
    options = {"skip_nonfinite": how.get("checked"), "maximize": way == "maximize", **options_of(norm, shapes)}
    optimizer = kind(groups, how.get("lr", GAMMA), **options)
    tolerance = 1e-11 if dtype is torch.float64 else 2e-5
    begun = [p.detach().double().numpy().copy() for p in start(shapes)]
    for k, points in enumerate(by_hand(kind, begun, norm, SHAPES[shapes][1])):
        optimizer.step(closure_of(params, k, scale))
        for p, x, v in zip(params, *points, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), x, rtol=0, atol=tolerance, err_msg=f"step {k}")
            if way != "maximize":
                estimate = optimizer.state[p]["momentum_buffer"].double().numpy() / scale
                np.testing.assert_allclose(estimate, v, rtol=0, atol=10 * tolerance, err_msg=f"estimate of step {k}")


@pytest.mark.parametrize("shapes", STACKED)
@pytest.mark.parametrize("norm", UNIT_STEPS)
def test_a_unit_step_has_length_one_and_its_product_with_v_is_the_dual_norm(norm: str, shapes: str) -> None:
    """Of signs, rows and columns exactly; of matrices within what Newton–Schulz does: θ₁ ≥ 0.68 and θ₂ ≤ 1.21."""
    for v in start(shapes):
        whole = matrices(v.detach(), SHAPES[shapes][1])
        for v, d in zip(whole.numpy(), UNIT_STEPS[norm](whole).numpy(), strict=True):
            if norm == "sign":
                length, dual = np.abs(d).max(), np.abs(v).sum()
            elif norm == "spectral":
                unit_length = max(1, v.shape[0] / v.shape[1]) ** 0.5
                length, dual = np.linalg.norm(d, 2) / unit_length, unit_length * np.linalg.norm(v, "nuc")
            else:
                axis = 1 if norm == "rows" else 0
                length, dual = np.linalg.norm(d, axis=axis).max(), np.linalg.norm(v, axis=axis).sum()
            exact = norm != "spectral" or min(v.shape) == 1
            assert (1 - 1e-12 if exact else 0.68) <= length <= (1 + 1e-12 if exact else 1.21)
            assert (1 - 1e-12 if exact else 0.68) <= np.sum(v * d) / dual <= (1 + 1e-12 if exact else 1.21)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("norm", "shapes"), CASES)
def test_the_scale_of_the_loss_does_not_change_a_bit_and_types_stay(norm: str, shapes: str, dtype: torch.dtype) -> None:
    ends = []
    for scale in (1.0, 2.0**-100, 2.0**100):
        params = start(shapes, dtype)
        optimizer = NSGDM(params, 0.1, **options_of(norm, shapes))
        for k in range(3):
            optimizer.step(closure_of(params, k, scale))
        assert all(p.dtype is dtype and optimizer.state[p]["momentum_buffer"].dtype is torch.float32 for p in params)
        ends.append(torch.cat([p.detach().ravel() for p in params]))
    assert all(torch.equal(end, ends[0]) for end in ends)


@pytest.mark.parametrize("norm", [*WHOLE, *UNIT_STEPS])
@KINDS
def test_without_a_gradient_or_along_zero_nothing_moves(kind: Any, norm: str) -> None:
    params = start("matrices")
    before = [p.detach().clone() for p in params]
    optimizer = kind(params, 0.1, norm=norm)
    for _ in range(3):
        optimizer.step(closure_of(params, 0, 0.0))
    assert all(torch.equal(p, x) for p, x in zip(params, before, strict=True))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("norm", UNIT_STEPS)
def test_a_bad_gradient_is_skipped_for_its_tensor_only_and_soon_forgotten(norm: str, bad: float, where: str) -> None:
    params = start("matrices")
    options: dict[str, Any] = {"weight_decay": 0.05} if where == "CPU" else {"skip_nonfinite": True}
    optimizer = NSGDM(params, 0.1, norm=norm, **options)
    optimizer.step(closure_of(params, 0))
    before = [p.detach().clone() for p in params]
    closure_of(params, 1)()
    params[0].grad[0, 1] = bad  # type: ignore[index]  # it has one
    optimizer.step()
    assert [torch.equal(p, x) for p, x in zip(params, before, strict=True)] == [True, False, False, False, False]
    assert optimizer.skipped == 1
    optimizer.step(closure_of(params, 2))
    assert optimizer.skipped == 1
    assert not torch.equal(params[0], before[0])
    assert all(p.isfinite().all() for p in params)
    through = NSGDM(params, 0.1, norm=norm, skip_nonfinite=False)
    closure_of(params, 1)()
    params[1].grad[0, 0] = bad  # type: ignore[index]
    through.step()
    assert params[1].isnan().any()


@pytest.mark.filterwarnings("ignore:.*lr · weight_decay")
@pytest.mark.parametrize("norm", UNIT_STEPS)
def test_weight_decay_is_a_radius_in_the_norm_of_the_steps(norm: str) -> None:
    """x stays within scale/λ, and a gradient that never turns takes it there: to −d/λ · scale."""
    (p, *_) = start("matrices")
    g = p.detach().clone()
    optimizer = NSGDM([p], 0.25, norm=norm, weight_decay=2.0, scale=3.0)
    for _ in range(60):
        p.grad = g.clone()
        optimizer.step()
    expected = -3.0 / 2.0 * unit(g.numpy(), norm, 1)
    np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("shapes", STACKED)
def test_a_resumed_run_has_the_norms_that_were_saved(shapes: str) -> None:
    params = start(shapes)
    optimizer = NSGDM(params, GAMMA, **options_of("spectral", shapes))
    optimizer.step(closure_of(params, 0))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    others = copy.deepcopy(params)
    resumed = NSGDM(others, 1.0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    (group,) = resumed.param_groups
    assert [group[key] for key in ("norm", "scale", "stack")] == ["spectral", SCALE, SHAPES[shapes][1]]
    for its, one in ((params, optimizer), (others, resumed)):
        one.step(closure_of(its, 1))
    assert all(torch.equal(p, q) for p, q in zip(params, others, strict=True))
    assert all(set(state) == {"momentum_buffer"} for state in optimizer.state.values())


def test_a_stack_must_divide_the_first_dimension() -> None:
    with pytest.raises(ValueError, match=r"^NSGDM: stack must divide .* got stack=3 for shape \(4, 2\)\.$"):
        NSGDM([torch.nn.Parameter(torch.zeros(4, 2))], norm="spectral", stack=3)
    with pytest.raises(ValueError, match=r"must be for real tensors .* got torch.complex64 of shape \(4, 2\)\."):
        NSGDM([torch.nn.Parameter(torch.zeros(4, 2, dtype=torch.complex64))], norm="spectral")


# Untuned: (x, x̄) of every call

CALLS, HORIZON, LR = 40, 35, 0.7
BAD, ZERO = {2: np.nan, 9: np.inf, 23: -np.inf}, (12,)  # calls whose gradient is not finite, or 0
OUTLIERS = (14, 20, 31)  # calls whose gradient is long, and turned against what it would be


def joined(params: Params) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in params])


def untuned_gradient(k: int, x: np.ndarray) -> np.ndarray:
    g = 0.05 * x + 1.0 + 0.3 * np.random.default_rng(100 + k).standard_normal(x.size)
    if k in OUTLIERS:
        g = -30 * g
    if k in ZERO:
        g = 0 * g
    if k in BAD:
        g[k % 3] = BAD[k]
    return g


@pytest.mark.usefixtures("where")
@pytest.mark.filterwarnings("ignore:Untuned. horizon=35 was reached")
def test_untuned_walks_as_by_hand_with_outliers_bad_gradients_and_zeros_also_past_its_horizon() -> None:
    """A bad gradient leads half the way back to x̄, and is not remembered."""
    params, method, lengths = start("long"), by_hand_untuned(HORIZON, LR), set()
    cuts, x = np.cumsum([p.numel() for p in params])[:-1], joined(params)
    groups = [{"params": params[:1]}, {"params": params[1:]}]
    optimizer = Untuned(groups, lr=LR, horizon=HORIZON, skip_nonfinite=True)
    for k in range(CALLS):
        for p, part in zip(params, np.split(untuned_gradient(k, joined(params)), cuts), strict=True):
            p.grad = torch.from_numpy(part).reshape(p.shape)
        optimizer.step()
        g = untuned_gradient(k, x)
        if k in BAD:
            x, method.m = (x + method.mean) / 2, 0 * x
        elif k not in ZERO:
            x = method(k, x, g)
        np.testing.assert_allclose(joined(params), x, rtol=0, atol=1e-11, err_msg=f"call {k}")
        with optimizer.averaged():
            np.testing.assert_allclose(joined(params), method.mean, rtol=0, atol=1e-11, err_msg=f"average of call {k}")
        lengths.add(method.r)
    assert optimizer.skipped == len(BAD)
    assert len(lengths) > 10  # r has grown
    assert method.tau > 1


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_norm_is_right_to_a_part_in_a_million_at_any_size_of_many_small_entries_beside_a_large_one(
    flush: bool, dtype: torch.dtype
) -> None:
    """Squares of small entries vanish, sooner where the processor flushes what is below its normal numbers to 0."""
    drawn = torch.rand(SHORT + 200, generator=torch.Generator().manual_seed(5), dtype=torch.float64) + 0.5
    # Powers of 2; some squares are out of range.
    smallest, largest = (-74, 50) if dtype is torch.float32 else (-520, 500)
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
