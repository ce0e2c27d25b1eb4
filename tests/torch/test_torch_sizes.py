"""The length of a step is lr, and the norm is good to 1e-6, whatever the size, the number and the kind of entries."""

from collections.abc import Callable, Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch import Tensor

from gladstorm.optax import nsgdm, nstorm
from gladstorm.torch import NSGDM, NSTORM
from gladstorm.torch.norms import norm_of, normalized_step_

Optimizer = NSGDM | NSTORM
LR = 0.125
ENTRIES: dict[str, Callable[[int, torch.Generator], Tensor]] = {
    "normal": lambda n, generator: torch.randn(n, generator=generator),
    "constant": lambda n, generator: torch.full((n,), 0.3),
    "mixed": lambda n, generator: torch.randn(n, generator=generator) * 10 ** (6 * torch.rand(n, generator=generator)),
    "huge": lambda n, generator: torch.full((n,), 3e38),  # the norm of two is beyond float32
    "tiny": lambda n, generator: 1e-40 * torch.randn(n, generator=generator),  # not normal numbers any more
    "of all sizes": lambda n, generator: (
        10 ** (70 * torch.rand(n, generator=generator, dtype=torch.float64) - 35)
    ).float(),
}
SIZES = [1e-44, 1e-38, 1e-25, 1e-19, 1.0, 1e19, 1e25, 2e38]


@pytest.mark.parametrize("entries", ENTRIES)
@pytest.mark.parametrize("count", [1, 3, 100, 2049, 5000, 166_666, 2**20 + 3, 10**7])
def test_the_float32_norm_is_good_to_a_part_in_a_million(count: int, entries: str) -> None:
    v = ENTRIES[entries](count, torch.Generator().manual_seed(3))
    exact = v.double().norm().item()
    assert norm_of([v]).item() == pytest.approx(exact, rel=1e-6, abs=0)
    halves = [v[: count // 2].clone(), v[count // 2 :].clone()]
    assert norm_of(halves).item() == pytest.approx(exact, rel=1e-6, abs=0)


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize("size", SIZES)
def test_a_step_has_length_lr_whatever_the_size_of_the_gradient(size: float) -> None:
    gradient = torch.tensor([0.6, 0.0, -0.8]) * size
    expected = -LR * gradient.double() / gradient.double().norm()
    for norm in ("global", "group", "tensor"):
        for maximize in (False, True):
            x = torch.nn.Parameter(torch.zeros(3))
            optimizer = NSGDM([x], lr=LR, norm=norm, maximize=maximize)
            x.grad = gradient.clone()
            optimizer.step()
            torch.testing.assert_close(x.detach().double(), -expected if maximize else expected, rtol=1e-6, atol=0)


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize("size", [1e-320, 1e-250, 1.0, 1e250])
def test_so_it_has_in_float64_and_with_types_mixed(size: float) -> None:
    wide, narrow = torch.tensor([0.6, -0.8], dtype=torch.float64) * size, torch.tensor([3e38, 0.0])
    x = torch.zeros(2, dtype=torch.float64)
    normalized_step_([x], [wide], norm_of([wide]), LR)
    assert x.norm().item() == pytest.approx(LR, rel=1e-3 if size < 1e-300 else 1e-12)
    assert norm_of([narrow, wide]).item() == pytest.approx(max(3e38, size), rel=1e-6)  # one of them is negligible


@pytest.mark.usefixtures("where")
def test_what_is_zero_stays_and_what_is_not_finite_shows() -> None:
    for bad, expected in ((0.0, 0.0), (float("inf"), float("nan")), (float("nan"), float("nan"))):
        x = torch.nn.Parameter(torch.zeros(2))
        x.grad = torch.full((2,), bad)
        NSGDM([x], lr=LR, skip_nonfinite=False).step()
        torch.testing.assert_close(x.detach(), torch.full((2,), expected), equal_nan=True)
    assert norm_of([torch.zeros(0), torch.zeros(3)]).item() == 0
    assert norm_of([torch.tensor([1.0, float("inf")])]).item() == float("inf")


def by_torch(kind: type[Optimizer], gradients: Iterable[np.ndarray], **options: Any) -> list[np.ndarray]:
    """The points visited, if the gradient of a sample is the same at both points."""
    xs = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))]
    optimizer = kind(xs, lr=LR, **options)
    points = []
    for gradient in gradients:

        def closure(gradient: np.ndarray = gradient) -> float:
            for x, part in zip(xs, np.split(gradient, 2), strict=True):
                x.grad = torch.from_numpy(part.copy())
            return 0.0

        optimizer.step(closure)
        points.append(np.concatenate([x.detach().numpy().copy() for x in xs]))
    return points


def by_optax(factory: Any, gradients: Iterable[np.ndarray]) -> list[np.ndarray]:
    optimizer = factory(LR, 0.9)
    params = jnp.zeros(4)
    state = optimizer.init(params)
    points = []
    for gradient in gradients:
        updates, state = optimizer.update(jnp.asarray(gradient), state, params, prev_grads=jnp.asarray(gradient))
        params = optax.apply_updates(params, updates)
        points.append(np.asarray(params))
    return points


@pytest.mark.parametrize(("kind", "factory"), [(NSGDM, nsgdm), (NSTORM, nstorm)])
@pytest.mark.parametrize("first", [1e25, 1e-25, 0.0, 1e38, 1e-35])
def test_a_gradient_of_any_size_is_followed_by_the_steps_of_the_optax_twin(
    kind: type[Optimizer], factory: Any, first: float
) -> None:
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(40, 4)).astype(np.float32)
    gradients[0] *= np.float32(first)
    gradients[20] *= np.float32(first)
    expected = by_optax(factory, gradients)
    found = by_torch(kind, gradients)
    if kind is NSTORM:  # in torch the first call only forms v⁰: the k-th moves as the (k − 1)-th of Optax
        expected, found = expected[:-1], found[1:]
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-5)
    lengths = np.linalg.norm(np.diff(found, axis=0, prepend=0), axis=1)[1:]
    np.testing.assert_allclose(lengths, LR, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")  # torch's own, of its profiler
def test_a_compiled_step_has_length_lr_too_without_a_break_in_its_graph() -> None:
    x = torch.nn.Parameter(torch.zeros(3))
    optimizer = NSGDM([x], lr=LR, momentum=0.0)
    step = torch.compile(optimizer.step, backend="aot_eager", fullgraph=True)
    for size in (1.0, 1e25, 1e-25, 1e-44):
        before = x.detach().clone()
        x.grad = torch.tensor([0.6, 0.0, -0.8]) * size
        direction = x.grad.double() / x.grad.double().norm()
        step()
        torch.testing.assert_close((x.detach() - before).double(), -LR * direction, rtol=1e-5, atol=0)
