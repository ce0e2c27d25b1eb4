"""`Untuned` in torch beyond its equations: checkpoints, the average, groups, gradients that are not finite, devices."""

import copy
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from gladstorm.torch import by_layer, untuned_step
from optimizers import Untuned

NAN, INF = float("nan"), float("inf")


def network(dtype: torch.dtype = torch.float32) -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(dtype)


def train(model: torch.nn.Module, optimizer: Untuned, steps: Iterable[int]) -> None:
    for k in steps:
        optimizer.zero_grad()
        dtype = next(model.parameters()).dtype
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(k)).to(dtype)
        (model(x).float() - 1).square().mean().backward()
        optimizer.step()


def values(params: Any) -> list[Any]:
    return [p.tolist() for p in (params.parameters() if isinstance(params, torch.nn.Module) else params)]


def vector(model: torch.nn.Module) -> Tensor:
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()


@pytest.mark.parametrize("chunk", [1, 4, 7])
def test_how_many_entries_are_worked_on_together_changes_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors above, below and just at the size of a chunk, two that cannot be cut; one gradient is not finite."""

    def walked() -> tuple[list[Any], list[Any]]:
        generator = torch.Generator().manual_seed(0)
        shapes = [(3,), (4,), (2, 5), (1,), (7, 3), (8,)]
        params = [torch.nn.Parameter(torch.randn(*shape, generator=generator).double()) for shape in shapes]
        for place in (0, len(params)):  # the first one fills a chunk alone
            params.insert(place, torch.nn.Parameter(torch.randn(5, 2, generator=generator).double().mT))
        optimizer = Untuned(params, horizon=12, weight_decay=0.1)
        for k in range(12):
            for p in params:
                p.grad = torch.randn(p.shape, generator=generator).double() * (NAN if k == 5 else 1)
            optimizer.step()
        with optimizer.averaged():
            return values(params), [optimizer.state[p]["numbers"].tolist() for p in params]

    whole = walked()
    monkeypatch.setattr(untuned_step, "CHUNK", chunk)
    for expected, found in zip(whole, walked(), strict=True):
        for one, other in zip(expected, found, strict=True):
            torch.testing.assert_close(torch.tensor(other), torch.tensor(one), rtol=1e-6, atol=0)


@pytest.mark.usefixtures("where")
def test_a_complex_number_is_two_coordinates() -> None:
    z = torch.nn.Parameter(torch.tensor([1 + 2j, -3j, 0.5], dtype=torch.complex128))
    x = torch.nn.Parameter(torch.view_as_real(z.detach()).clone())
    optimizers = [Untuned([p], horizon=10, weight_decay=0.1) for p in (z, x)]
    for k in range(10):
        z.grad = torch.randn(3, dtype=z.dtype, generator=torch.Generator().manual_seed(k))
        x.grad = torch.view_as_real(z.grad).clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(torch.view_as_real(z.detach()), x.detach(), rtol=1e-9, atol=1e-12)


def test_the_average_is_of_all_iterates_also_of_a_frozen_layer_and_the_parameters_are_untouched_afterwards() -> None:
    model = network(torch.float64)
    optimizer = Untuned(model.parameters(), horizon=6)
    visited = [vector(model)]
    for k in range(7):
        mean = visited[0]
        for j, x in enumerate(visited):
            mean = mean + 7 / (j + 7) * (x - mean)
        with optimizer.averaged():
            torch.testing.assert_close(vector(model), mean)
        assert torch.equal(vector(model), visited[-1])
        if k == 3:
            model[0].requires_grad_(False)
        if k < 6:
            train(model, optimizer, [k])
            visited.append(vector(model))
    with optimizer.averaged(), pytest.raises(RuntimeError, match=r"^Untuned: step\(\) must stand outside averaged"):
        optimizer.step()
    with optimizer.averaged(), pytest.raises(RuntimeError, match="must stand outside averaged"):
        optimizer.averaged().__enter__()
    saved = optimizer.state_dict()
    refused: dict[str, Callable[[], Any]] = {
        "state_dict": optimizer.state_dict,
        "load_state_dict": lambda: optimizer.load_state_dict(saved),
        "a copy": lambda: copy.deepcopy(optimizer),
    }
    for what, does in refused.items():  # a checkpoint from inside would pair x̄ with the state of x
        with optimizer.averaged(), pytest.raises(RuntimeError, match=f"^Untuned: {what} must stand outside averaged"):
            does()
    with pytest.raises(ZeroDivisionError), optimizer.averaged():
        raise ZeroDivisionError
    assert torch.equal(vector(model), visited[-1])


def test_a_scheduler_that_shortens_the_steps_too_is_announced_once() -> None:
    model = network()
    optimizer = Untuned(by_layer(model), horizon=9)  # of several groups
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, total_iters=2)
    train(model, optimizer, [0])
    schedule.step()
    with pytest.warns(UserWarning, match=r"^Untuned: a scheduler has changed lr from 1 to 0\.75; .*constant") as seen:
        train(model, optimizer, [1])
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, optimizer, [2])


def test_the_horizon_is_saved_with_the_state_and_another_one_is_announced() -> None:
    model = network()
    optimizer = Untuned(model.parameters(), horizon=9)
    resumed = Untuned(model.parameters(), horizon=30)
    with pytest.warns(UserWarning, match="^Untuned: the checkpoint's horizon=9 takes the place of horizon=30"):
        resumed.load_state_dict(optimizer.state_dict())
    assert resumed.horizon == 9
    with pytest.raises(ValueError, match=r"^Untuned: horizon must be the same in all groups, 9; got horizon=10"):
        resumed.add_param_group({"params": pair(), "horizon": 10})


@pytest.mark.parametrize("way", ["unfrozen", "added"])
def test_a_layer_that_comes_late_does_not_throw_the_others_off(way: str) -> None:
    """By then the run has come far; its length would be a blow to a layer that is where it began."""
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    y = (x.sum(1) + torch.randn(64) > 0).long()
    model = network()
    model[0].requires_grad_(False)
    optimizer = Untuned(model.parameters() if way == "unfrozen" else model[2].parameters(), horizon=400)
    losses = []
    for k in range(220):
        if k == 200:
            model[0].requires_grad_(True)
            if way == "added":
                optimizer.add_param_group({"params": model[0].parameters()})
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert max(losses[200:]) < 1.1 * losses[200]
    assert losses[-1] < losses[200]


def test_past_the_horizon_steps_go_on_shorter_and_that_is_announced_once() -> None:
    model = network()
    optimizer = Untuned(model.parameters(), horizon=3)
    train(model, optimizer, range(3))
    with pytest.warns(UserWarning, match="^Untuned: horizon=3 was reached; further steps only become shorter"):
        train(model, optimizer, [3])
    before = values(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, optimizer, [4])
    assert values(model) != before


def steps_of(optimizer: Untuned, params: list[torch.nn.Parameter], gradients: list[list[Tensor]]) -> list[Any]:
    for given in gradients:
        for p, g in zip(params, given, strict=True):
            p.grad = g.clone()
        optimizer.step()
    return values(params)


def pair() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.tensor(x, dtype=torch.float64)) for x in ([3.0, 4.0], [1.0])]


def gradients(steps: int) -> list[list[Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [[torch.randn(n, generator=generator, dtype=torch.float64) + 0.3 for n in (2, 1)] for _ in range(steps)]


def test_to_maximize_is_to_minimize_the_negative_in_one_group_or_in_all() -> None:
    given = gradients(20)
    params = pair()
    expected = steps_of(Untuned(params), params, given)
    params = pair()
    negative = [[-g for g in each] for each in given]
    assert steps_of(Untuned(params, maximize=True), params, negative) == expected
    params = pair()
    groups: list[dict[str, Any]] = [{"params": params[:1], "maximize": True}, {"params": params[1:]}]
    assert steps_of(Untuned(groups), params, [[-a, b] for a, b in given]) == expected


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize(
    ("dtype", "power"),
    [
        *((torch.float32, power) for power in (-149, -130, -60, 60, 126)),  # 2⁻¹⁴⁹ is the smallest float32, 1.4e-45
        *((torch.bfloat16, power) for power in (-133, -60, 126)),
        *((torch.float64, power) for power in (-1070, -150, 150, 1000)),
    ],
)
def test_a_multiple_of_the_loss_changes_nothing(dtype: torch.dtype, power: int) -> None:
    generator = torch.Generator().manual_seed(0)
    signs = [torch.randint(2, (3,), generator=generator).double() * 2 - 1 for _ in range(20)]
    ends = []
    for factor in (1.0, 2.0**power):
        x = torch.nn.Parameter(torch.tensor([3.0, 4.0, 1.0], dtype=dtype))
        steps_of(Untuned([x]), [x], [[(sign * factor).to(dtype)] for sign in signs])
        ends.append(x.detach())
    torch.testing.assert_close(ends[1], ends[0], rtol=torch.finfo(torch.float32).eps, atol=0)
    assert not torch.equal(ends[0], torch.tensor([3.0, 4.0, 1.0], dtype=dtype))


def test_lr_is_a_multiple_of_the_step() -> None:
    given = gradients(20)
    params, others = pair(), pair()
    start = torch.cat([p.detach() for p in params])
    steps_of(Untuned(params, lr=torch.tensor([0.5])), params, given[:1])
    steps_of(Untuned(others), others, given[:1])
    half, whole = (torch.cat([p.detach() for p in ps]) - start for ps in (params, others))
    torch.testing.assert_close(2 * half, whole)


@pytest.mark.usefixtures("where")
def test_a_learning_rate_of_zero_stays_where_it_is_and_finite() -> None:
    params, start = pair(), values(pair())
    optimizer = Untuned(params, lr=0.0, weight_decay=0.1)
    assert steps_of(optimizer, params, gradients(3)) == start
    assert optimizer.state[params[0]]["numbers"].isfinite().all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lr": -1.0}, "lr must be"),
        ({"horizon": 0}, "horizon must be a whole number ≥ 1; got horizon=0"),
        ({"horizon": 2.5}, "horizon must be"),
        ({"horizon": [1]}, r"horizon must be a whole number ≥ 1; got horizon=\[1\]"),
    ],
)
def test_an_option_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^Untuned: {sentence}"):
        Untuned(pair(), **options)


@pytest.mark.usefixtures("where")
def test_weight_decay_shrinks_each_group_by_what_a_coordinate_moves_and_enters_nothing_else() -> None:
    params, others = pair(), pair()
    groups: list[dict[str, Any]] = [{"params": params[:1], "weight_decay": 0.5}, {"params": params[1:]}]
    decaying, plain = Untuned(groups, horizon=20), Untuned(others, horizon=20)
    start = params[0].detach().clone()
    steps_of(decaying, params, gradients(1))
    steps_of(plain, others, gradients(1))
    moved = torch.cat([2 * plain.state[p]["motion"] for p in others])  # m = δ/2 at first
    typical = moved.norm() / moved.numel() ** 0.5
    torch.testing.assert_close(params[0], others[0].detach() - 0.5 * typical * start, rtol=1e-12, atol=0)
    assert torch.equal(params[1], others[1])
    for name in ("squares", "motion"):
        assert all(
            torch.equal(decaying.state[p][name], plain.state[q][name]) for p, q in zip(params, others, strict=True)
        )
    numbers = decaying.state[params[0]]["numbers"], plain.state[others[0]]["numbers"]
    assert numbers[0].tolist()[:3] == numbers[1].tolist()[:3]


def test_where_all_gradients_are_zero_nothing_changes_but_the_count() -> None:
    x = torch.nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    optimizer = Untuned([x], horizon=50, weight_decay=0.1)
    for gradient in ([1.0, -2.0], [2.0, 1.0], [0.5, 0.5]):
        x.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
    before = {"x": x.detach().clone(), **{name: value.clone() for name, value in optimizer.state[x].items()}}
    x.grad = torch.zeros_like(x)
    optimizer.step()
    before["numbers"][0] += 1  # k
    after = {"x": x.detach(), **optimizer.state[x]}
    assert all(torch.equal(after[name], before[name]) for name in before)
