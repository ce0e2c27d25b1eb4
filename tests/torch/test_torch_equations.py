"""The torch optimizers are the paper's recursions, step by step, however grouped, with the theorems' schedules."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gladstorm import theory
from gladstorm.torch import NSGDM, NSTORM
from gladstorm.torch.norms import SHORT, norm_of, normalized_step_

STEPS, SEED = 200, 11
B, G, GAMMA, ETA = 0.6, 0.9, 0.03, 0.15
START = np.array([1.0, -0.5, 2.0, 0.3, -1.2])

Params = list[torch.nn.Parameter]


def double_well(x: np.ndarray) -> Any:
    return x**3 - x


def two_params(start: np.ndarray = START) -> Params:
    """The point in two tensors of different shapes: the norm must be one over both."""
    whole = torch.tensor(start)
    return [torch.nn.Parameter(whole[:4].reshape(2, 2).clone()), torch.nn.Parameter(whole[4:].clone())]


def joined(tensors: list[Any]) -> np.ndarray:
    return np.concatenate([np.asarray(t.detach()).ravel() for t in tensors])


def set_gradients(params: Params, gradient: np.ndarray) -> None:
    params[0].grad = torch.tensor(gradient[:4].reshape(2, 2))
    params[1].grad = torch.tensor(gradient[4:])


def closure_of(params: Params, gradient: Callable[[np.ndarray], Any], calls: list[np.ndarray]) -> Callable[[], float]:
    def closure() -> float:
        x = joined(params)
        calls.append(x)
        set_gradients(params, gradient(x))
        return float(np.sum(x))

    return closure


def test_nstorm_first_forms_its_estimate_and_then_evaluates_each_sample_at_both_ends_of_a_step() -> None:
    params = two_params()
    optimizer = NSTORM(params, lr=GAMMA)
    first: list[np.ndarray] = []
    loss = optimizer.step(closure_of(params, double_well, first))
    assert [x.tolist() for x in first] == [START.tolist()]
    assert loss == np.sum(START)
    assert joined(params).tolist() == START.tolist()
    second: list[np.ndarray] = []
    loss = optimizer.step(closure_of(params, double_well, second))
    assert loss == np.sum(START)  # the loss before the step
    assert [x.tolist() for x in second] == [START.tolist(), joined(params).tolist()]


def test_a_closure_may_accumulate_over_micro_batches() -> None:
    data = torch.randn(12, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ends = []
    for micro_batches in (1, 3):
        x = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
        optimizer = NSTORM([x], lr=0.1)

        def closure(x: Tensor = x, micro_batches: int = micro_batches) -> float:
            total = 0.0
            for part in data.chunk(micro_batches):
                loss = (part @ x).tanh().square().sum() / 12
                loss.backward()
                total += loss.item()
            return total

        losses = [optimizer.step(closure) for _ in range(4)]
        ends.append([*losses, *x.tolist()])
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-13)


GRADIENT = np.array([3.0, 0.0, 0.0, 0.0, 4.0])


def test_groups_share_the_global_norm_and_keep_their_own_lr() -> None:
    a, b = two_params()
    set_gradients([a, b], GRADIENT)
    groups: list[dict[str, Any]] = [{"params": [a]}, {"params": [b], "lr": 0.5}]
    NSGDM(groups, lr=0.1).step()
    np.testing.assert_allclose(joined([a, b]) - START, [-0.06, 0, 0, 0, -0.4], atol=1e-15)


def test_complex_parameters_move_as_their_real_and_imaginary_parts() -> None:
    z = torch.nn.Parameter(torch.tensor([1 + 2j, 0.5j], dtype=torch.complex128))
    optimizer = NSTORM([z], lr=0.1, momentum=0.7)
    x = torch.nn.Parameter(torch.view_as_real(z.detach()).clone())
    real = NSTORM([x], lr=0.1, momentum=0.7)

    def complex_loss() -> float:
        loss = (z.abs() ** 4).sum()
        loss.backward()
        return loss.item()

    def real_loss() -> float:
        loss = ((x**2).sum(dim=1) ** 2).sum()
        loss.backward()
        return loss.item()

    for _ in range(5):
        assert optimizer.step(complex_loss) == pytest.approx(real.step(real_loss), rel=1e-12)
    torch.testing.assert_close(torch.view_as_real(z.detach()), x.detach(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", [(), (1,), (3, 5, 4, 2), (SHORT + 3,)])
def test_the_norm_is_the_norm_in_any_shape_and_memory_format(shape: tuple[int, ...]) -> None:
    v = torch.rand(shape, dtype=torch.float32, generator=torch.Generator().manual_seed(3))
    exact = v.double().norm().item()
    formats = [v, v.to(memory_format=torch.channels_last)] if v.dim() == 4 else [v]
    for stored in [*formats, torch.stack([v, v], dim=-1)[..., 0]]:
        assert norm_of([stored]).item() == pytest.approx(exact, rel=1e-6)


def test_a_kernel_on_mixed_types_rounds_the_parameters_once() -> None:
    x, v = torch.tensor([1.0, -2.0], dtype=torch.bfloat16), torch.tensor([0.3, 0.4])
    by_hand = (x.float() - 0.125 * v / v.norm()).bfloat16()
    normalized_step_([x], [v], norm_of([v]), 0.125)
    assert torch.equal(x, by_hand)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.999, 1.0])
@pytest.mark.parametrize(("noise_B", "noise_G"), [(0.4, 0.7), (0.0, 0.7), (0.0, 0.0)])
@pytest.mark.parametrize("optimizer", [NSGDM, NSTORM])
def test_from_theory_takes_the_schedule_of_the_plan(
    optimizer: type[NSGDM | NSTORM], alpha: float, noise_B: float, noise_G: float
) -> None:
    params = two_params()
    made = optimizer.from_theory(
        params, horizon=10_000, alpha=alpha, gamma0=0.09, B=noise_B, G=noise_G, weight_decay=0.1
    )
    problem = theory.Problem(alpha=alpha, L0=1.5, L1=0.01, L=2.0, B=noise_B, G=noise_G, gap=3.0)
    eta, gamma, n_init, _ = theory.theorem(optimizer.method, problem, gamma0=0.09).schedule(10_000)
    assert (made.defaults["lr"], made.defaults["momentum"]) == (gamma, 1 - eta)
    assert made.defaults["weight_decay"] == 0.1
    assert getattr(made, "n_init", 1) == n_init


def test_a_parameter_without_a_gradient_is_left_out_and_a_late_one_starts_from_its_first_gradient() -> None:
    params = two_params()
    optimizer = NSGDM(params, lr=0.1)
    for late in (False, True):
        set_gradients(params, GRADIENT)
        before = joined(params)
        if not late:
            params[1].grad = None
        optimizer.step()
        moved = joined(params) - before
        np.testing.assert_allclose(moved, -0.1 * (GRADIENT / 5 if late else np.eye(5)[0]), atol=1e-15)
    assert optimizer.state[params[1]]["momentum_buffer"].tolist() == [4.0]


def test_a_late_parameter_of_nstorm_takes_its_gradient_at_the_new_point_and_then_moves() -> None:
    params = two_params()
    optimizer = NSTORM(params, lr=0.1)
    seen: list[Tensor] = []

    def closure(late: bool) -> Callable[[], float]:
        def evaluate() -> float:
            set_gradients(params, double_well(joined(params)))
            seen.append(params[1].detach().clone())
            if not late:
                params[1].grad = None
            return 0.0

        return evaluate

    for late in (False, False, True, True):
        optimizer.step(closure(late))
    start = START[4:].tolist()
    assert [x.tolist() for x in seen[:6]] == [start] * 6  # before, and in, the step that brings its first gradient
    assert seen[6].tolist() != start


@pytest.mark.parametrize("kind", [NSGDM, NSTORM])
def test_an_estimate_the_user_rewrites_between_steps_still_gives_a_step_of_length_lr(kind: Any) -> None:
    x = torch.nn.Parameter(torch.linspace(-1, 2, SHORT + 3, dtype=torch.float64))  # long: its norms are kept
    optimizer = kind([x], lr=0.5)

    def closure() -> float:
        optimizer.zero_grad()
        (x @ x).backward()
        return 0.0

    for _ in range(3):
        optimizer.step(closure)
    optimizer.state[x]["momentum_buffer"].mul_(100)
    before = x.detach().clone()
    optimizer.step(closure)
    torch.testing.assert_close((x.detach() - before).norm().item(), 0.5, rtol=1e-12, atol=0)
