"""Steps in the norm of each tensor against the recursions by hand, with singular values by NumPy."""

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from gladstorm.core.equations import NEWTON_SCHULZ
from gladstorm.torch import NSGDM, NSTORM, norms
from gladstorm.torch.unit_steps import UNIT_STEPS, matrices

Params = list[torch.nn.Parameter]
STEPS, GAMMA, ETA, DECAY, SCALE = 6, 0.3, 0.35, 0.02, 0.7
SHAPES: dict[str, tuple[tuple[tuple[int, ...], ...], int]] = {  # with the number of stacked matrices
    "matrices": (((3, 4), (6, 2), (3, 4), (1, 5), (4, 1)), 1),
    "fused": (((6, 2), (3, 5)), 3),
    "kernels": (((4, 3, 2), (2, 3, 1, 2), (1, 2, 3)), 1),
    "experts": (((3, 2, 4), (3, 5, 2)), 3),
}
CASES = [(norm, shapes) for norm in UNIT_STEPS for shapes in SHAPES]
KINDS = pytest.mark.parametrize("kind", [NSGDM, NSTORM])


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


def gradient(k: int, i: int, x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x + np.random.default_rng([k, i]).standard_normal(x.shape))


def start(shapes: str, dtype: torch.dtype = torch.float64) -> Params:
    drawn = [np.random.default_rng(i).standard_normal(shape) for i, shape in enumerate(SHAPES[shapes][0])]
    return [torch.nn.Parameter(torch.from_numpy(x).to(dtype)) for x in drawn]


def closure_of(params: Params, k: int, scale: float = 1.0) -> Callable[[], float]:
    def closure() -> float:
        for i, p in enumerate(params):
            p.grad = torch.from_numpy(scale * gradient(k, i, p.detach().double().numpy())).to(p)
        return 0.0

    return closure


def by_hand(kind: Any, i: int, x: np.ndarray, norm: str, stack: int) -> Iterator[np.ndarray]:
    """The points of tensor i."""

    def after(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray((1 - GAMMA * DECAY) * x - GAMMA * SCALE * unit(v, norm, stack))

    v = gradient(0, i, x)
    if kind is NSTORM:
        yield x
    for k in range(1 if kind is NSTORM else 0, STEPS):
        if kind is NSTORM:
            old, x = gradient(k, i, x), after(x, v)
            v = gradient(k, i, x) + (1 - ETA) * (v - old)
        else:
            v = (1 - ETA) * v + ETA * gradient(k, i, x)
            x = after(x, v)
        yield x


def options_of(norm: str, shapes: str) -> dict[str, Any]:
    return {"momentum": 1 - ETA, "weight_decay": DECAY, "norm": norm, "scale": SCALE, "stack": SHAPES[shapes][1]}


@pytest.mark.parametrize("way", ["CPU", "device", "device, checked", "lr on device", "maximize"])
@pytest.mark.parametrize(("norm", "shapes"), CASES)
@KINDS
def test_a_walk_is_that_by_hand(kind: Any, norm: str, shapes: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way.startswith("device"):  # the CPU stands for one: its values are not looked at
        monkeypatch.setattr(norms, "readable", lambda tensor: False)
    lr: Any = torch.tensor(GAMMA, dtype=torch.float64) if way == "lr on device" else GAMMA
    params = start(shapes)
    sign, checked = -1.0 if way == "maximize" else 1.0, True if "checked" in way else None
    optimizer = kind(params, lr, skip_nonfinite=checked, maximize=way == "maximize", **options_of(norm, shapes))
    walks = [by_hand(kind, i, p.detach().numpy().copy(), norm, SHAPES[shapes][1]) for i, p in enumerate(params)]
    for k, points in enumerate(zip(*walks, strict=True)):
        optimizer.step(closure_of(params, k, sign))
        for p, x in zip(params, points, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), x, rtol=0, atol=1e-11, err_msg=f"step {k}")


@pytest.mark.parametrize("shapes", SHAPES)
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


@pytest.mark.parametrize("norm", UNIT_STEPS)
@KINDS
def test_without_a_gradient_or_along_zero_nothing_moves(kind: Any, norm: str) -> None:
    params = start("matrices")
    before = [p.detach().clone() for p in params]
    optimizer = kind(params, 0.1, norm=norm)
    for _ in range(3):
        optimizer.step(closure_of(params, 0, 0.0))
    assert all(torch.equal(p, x) for p, x in zip(params, before, strict=True))


@pytest.mark.parametrize("where", ["CPU", "device"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("norm", UNIT_STEPS)
def test_a_bad_gradient_is_skipped_for_its_tensor_only_and_soon_forgotten(
    norm: str, bad: float, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "device":
        monkeypatch.setattr(norms, "readable", lambda tensor: False)
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


@pytest.mark.parametrize("shapes", SHAPES)
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one_with_the_norms_that_were_saved(shapes: str) -> None:
    params = start(shapes)
    optimizer = NSGDM(params, GAMMA, **options_of("spectral", shapes))
    for k in range(3):
        optimizer.step(closure_of(params, k))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    others = copy.deepcopy(params)
    file.seek(0)
    resumed = NSGDM(others, 1.0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    (group,) = resumed.param_groups
    assert [group[key] for key in ("norm", "scale", "stack")] == ["spectral", SCALE, SHAPES[shapes][1]]
    for k in range(3, 6):
        optimizer.step(closure_of(params, k))
        resumed.step(closure_of(others, k))
    assert all(torch.equal(p, q) for p, q in zip(params, others, strict=True))
    assert all(set(state) == {"momentum_buffer"} for state in optimizer.state.values())


def test_a_stack_must_divide_the_first_dimension() -> None:
    with pytest.raises(ValueError, match=r"^NSGDM: stack must divide .* got stack=3 for shape \(4, 2\)\.$"):
        NSGDM([torch.nn.Parameter(torch.zeros(4, 2))], norm="spectral", stack=3)
    with pytest.raises(ValueError, match=r"must be for real tensors .* got torch.complex64 of shape \(4, 2\)\."):
        NSGDM([torch.nn.Parameter(torch.zeros(4, 2, dtype=torch.complex64))], norm="spectral")
