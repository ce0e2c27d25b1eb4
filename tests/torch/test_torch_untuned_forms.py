"""Laws of `Untuned` that hold in both its forms, and the form by layer against its equations."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gladstorm.torch import Untuned, by_layer

HORIZON = 10
Groups = Callable[[nn.Module], Any]
FORMS: dict[str, Groups] = {
    "found": lambda model: list(model.named_parameters()),
    "by layer": by_layer,
    "both": lambda model: [{"params": list(model[0].named_parameters())}, *by_layer(model[1:])],  # type: ignore[index]
}
FORM = pytest.mark.parametrize("form", FORMS)
BUFFERS = {"found": {"squares", "motion", "average", "start", "numbers"}, "by layer": {"momentum_buffer", "step"}}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Embedding(7, 4), nn.Conv1d(3, 4, 2), nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 1)
    ).double()


def train(model: nn.Module, optimizer: Untuned, steps: Iterable[int], factor: float = 1.0) -> None:
    for k in steps:
        optimizer.zero_grad()
        x = torch.randint(7, (6, 3), generator=torch.Generator().manual_seed(k))
        ((model(x) - 1).square().mean() * factor).backward()
        optimizer.step()


def values(model: nn.Module) -> list[Any]:
    return [p.tolist() for p in model.parameters()]


def made(form: str, horizon: int = HORIZON, **options: Any) -> tuple[nn.Sequential, Untuned]:
    model = network()
    return model, Untuned(FORMS[form](model), horizon=horizon, **options)


def ended(form: str, **options: Any) -> list[Any]:
    model, optimizer = made(form, **options)
    train(model, optimizer, range(HORIZON))
    return values(model)


@FORM
def test_a_multiple_of_the_loss_changes_nothing(form: str) -> None:
    model, optimizer = made(form)
    train(model, optimizer, range(HORIZON), 2.0**300)
    for p, q in zip(values(model), ended(form), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-9)


@FORM
def test_the_order_of_tensors_and_groups_changes_nothing(form: str) -> None:
    model = network()
    groups = FORMS[form](model)
    groups = groups[::-1] if form == "found" else [{**g, "params": list(g["params"])[::-1]} for g in groups[::-1]]
    train(model, Untuned(groups, horizon=HORIZON), range(HORIZON))
    for p, q in zip(values(model), ended(form), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-7)


@FORM
def test_tied_weights_are_in_one_group(form: str) -> None:
    model = network()
    model.append(nn.Linear(5, 1))
    model[6].weight, model[6].bias = model[5].weight, model[5].bias
    optimizer = Untuned(FORMS[form](model), horizon=HORIZON)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(network().parameters()))


@pytest.mark.usefixtures("where")
@FORM
def test_along_zero_nothing_moves_but_the_count(form: str) -> None:
    model, optimizer = made(form, weight_decay=0.0)
    before = values(model)
    train(model, optimizer, range(2), 0.0)
    assert values(model) == before
    train(model, optimizer, range(1))
    assert values(model) != before
    for p in model.parameters():
        count = optimizer.state[p].get("step", optimizer.state[p].get("numbers"))
        assert count.reshape(-1)[0] == 3


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@FORM
def test_after_a_bad_gradient_all_is_finite_and_goes_on(form: str, bad: float) -> None:
    model, optimizer = made(form, skip_nonfinite=True)
    train(model, optimizer, range(3))
    train(model, optimizer, [3], bad)
    skipped = optimizer.skipped
    before = values(model)
    train(model, optimizer, range(4, 7))
    assert skipped == {"found": 1, "by layer": 7, "both": 7}[form] == optimizer.skipped
    assert all(a != b for a, b in zip(values(model), before, strict=True))
    assert all(p.isfinite().all() for p in model.parameters())


@FORM
def test_a_learning_rate_of_adamw_is_announced_with_what_it_does_and_a_group_s_own_is_not(form: str) -> None:
    sentence = r"^Untuned: lr multiplies steps .* is 1; got lr=0\.001, with which they are 1,000 times as short\. Leave"
    with pytest.warns(UserWarning, match=sentence) as seen:
        made(form, lr=1e-3)
    assert seen[0].filename == __file__
    model = network()
    rest = {"params": [("rest", nn.Parameter(torch.zeros(2)))], "lr": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for lr in (0.0, 0.1, 1e-3):  # nothing moves, a small factor, a body that moves less than its head
            groups = FORMS[form](model)
            groups = [{"params": groups}] if form == "found" else groups
            Untuned([*groups, rest] if lr == 1e-3 else groups, lr=lr, horizon=HORIZON)


@FORM
def test_one_step_is_a_run(form: str) -> None:
    model, optimizer = made(form, horizon=1)
    before = values(model)
    train(model, optimizer, [0])
    assert all(a != b for a, b in zip(values(model), before, strict=True))
    assert all(p.isfinite().all() for p in model.parameters())


def test_by_layer_the_steps_are_those_of_the_equations_and_the_last_iterate_is_reported() -> None:
    """A matrix of one row, whose unit step is v/‖v‖, and a vector, by signs."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1).double()
    optimizer = Untuned(by_layer(model), horizon=6, lr=0.5, weight_decay=0.3)
    w, b = (p.detach().numpy().copy().ravel() for p in model.parameters())
    v: Any = None
    for k in range(9):
        g, h = np.random.default_rng(k).standard_normal((2, 4))
        model.weight.grad, model.bias.grad = torch.from_numpy(g[None]), torch.from_numpy(h[:1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.step()
        new = np.concatenate([g, h[:1]])
        v = new if v is None else 0.9 * v + 0.1 * new
        L = 0.5 * 0.02 * (1 - k / 6 if k < 6 else 1 / (k + 1))
        w = (1 - 0.3 * L) * w - L * v[:4] / np.linalg.norm(v[:4])
        b = (1 - 0.3 * L) * b - L / 4 * np.sign(v[4:])
        for found in (model.state_dict(), None):
            with optimizer.averaged():
                state = found or model.state_dict()
                np.testing.assert_allclose(state["weight"].numpy().ravel(), w, rtol=0, atol=1e-13)
                np.testing.assert_allclose(state["bias"].numpy(), b, rtol=0, atol=1e-13)


def test_by_layer_a_horizon_in_samples_is_reached_by_samples_also_if_batches_grow() -> None:
    model, optimizer = made("by layer", horizon=100, batch=10)
    *_, p = model.parameters()  # the last bias: one entry, which moves by a quarter of the length
    lengths = []
    for batch in (10, 10, 40, 20):
        optimizer.param_groups[0]["batch"] = batch
        before = p.item()
        train(model, optimizer, [0])
        lengths.append(4 * abs(p.item() - before))
    assert lengths == pytest.approx([0.02 * left for left in (1.0, 0.9, 0.8, 0.4)], rel=1e-9)


def test_plain_parameters_beside_layers_take_the_steps_they_take_alone() -> None:
    model, optimizer = made("both")
    train(model, optimizer, range(1))
    alone = network()
    single = Untuned(alone[0].parameters(), horizon=HORIZON)
    train(alone, single, range(1))
    assert values(model[0]) == values(alone[0])
    with pytest.raises(ValueError, match=r"^Untuned: norm must be one of None, spectral, .*; got norm='global'"):
        Untuned([nn.Parameter(torch.zeros(2))], horizon=3).add_param_group(
            {"params": [nn.Parameter(torch.zeros(2))], "norm": "global"}
        )
