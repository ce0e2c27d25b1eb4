"""Parameter groups in every form that torch accepts are the groups of torch.optim.SGD, and a step moves all of them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from optimizers import TORCH

KINDS = pytest.mark.parametrize("kind", TORCH)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base, self.head = torch.nn.Linear(3, 2), torch.nn.Linear(2, 1)


# What stands for the parameters of a module: under "params" of a group, or in the place of groups.
PARAMS: dict[str, Callable[[torch.nn.Module], Any]] = {
    "list": lambda m: list(m.parameters()),
    "tuple": lambda m: tuple(m.parameters()),
    "generator": lambda m: m.parameters(),
    "filter": lambda m: filter(lambda p: p.requires_grad, m.parameters()),
    "map": lambda m: map(torch.nn.Parameter.requires_grad_, m.parameters()),
    "values": lambda m: dict(m.named_parameters()).values(),
    "module of them": lambda m: torch.nn.ParameterList(m.parameters()),
    "names": lambda m: m.named_parameters(),
    "list of names": lambda m: list(m.named_parameters()),
}
# Further forms in a group only.
IN_A_GROUP: dict[str, Callable[[Any], Any]] = {
    **PARAMS,
    "one tensor": lambda m: m.weight,
    "nothing": lambda m: [],
}


def groups_of(model: Model, form: str) -> list[dict[str, Any]]:
    make = IN_A_GROUP[form]
    return [{"params": make(model.base)}, {"params": make(model.head), "lr": 0.5, "name": "head"}]


def added(kind: Any, model: Model, form: str) -> Any:
    first, second = groups_of(model, form)
    optimizer = kind([first], lr=0.1)
    optimizer.add_param_group(second)
    return optimizer


WAYS: dict[str, Callable[[Any, Model, str], Any]] = {
    "params": lambda kind, model, form: kind(PARAMS[form](model), lr=0.1),
    "groups": lambda kind, model, form: kind(groups_of(model, form), lr=0.1),
    "generated groups": lambda kind, model, form: kind((group for group in groups_of(model, form)), lr=0.1),
    "added": added,
}
CASES = [(way, form) for way in WAYS for form in (PARAMS if way == "params" else IN_A_GROUP)]


def described(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Every group's tensors by identity, and what SGD and ours both know of it."""
    shared = ("param_names", "lr", "name", "maximize")
    return [
        ([id(p) for p in group["params"]], {key: group[key] for key in shared if key in group})
        for group in optimizer.param_groups
    ]


@KINDS
@pytest.mark.parametrize(("way", "form"), CASES)
def test_groups_in_every_form_are_those_of_sgd_and_every_parameter_in_them_moves(
    kind: Any, way: str, form: str
) -> None:
    model = Model()
    optimizer = WAYS[way](kind, model, form)
    assert described(optimizer) == described(WAYS[way](torch.optim.SGD, model, form))
    params = [p for group in optimizer.param_groups for p in group["params"]]
    before = [p.tolist() for p in params]

    def closure() -> float:
        for p in params:
            p.grad = torch.ones_like(p)
        return 0.0

    if params:
        for _ in range(2):  # NSTORM's first forms its estimate
            optimizer.step(closure)
    assert all(p.tolist() != x for p, x in zip(params, before, strict=True))


@KINDS
@pytest.mark.parametrize(
    "wrong",
    [
        lambda m: [{"params": set(m.parameters())}],
        lambda m: [{"params": [1.0]}],
        lambda m: [{"params": m.parameters()}, {"params": m.parameters()}],
        lambda m: [{"params": m.base.named_parameters()}, {"params": m.head.parameters()}],
        lambda m: [{"lr": 0.1}],
        lambda m: [{"params": m.base.weight * 2}],
    ],
)
def test_groups_that_torch_refuses_are_refused_in_torch_s_words(kind: Any, wrong: Callable[[Model], Any]) -> None:
    with pytest.raises((TypeError, ValueError, KeyError)) as theirs:
        torch.optim.SGD(wrong(Model()), lr=0.1)
    with pytest.raises(theirs.type) as ours:
        kind(wrong(Model()), lr=0.1)
    assert str(ours.value) == str(theirs.value)
