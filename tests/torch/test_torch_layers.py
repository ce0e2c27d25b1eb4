"""`by_layer` has a defined answer for every tensor of a model, and its groups compile, are saved and may change."""

import copy
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from gladstorm.torch import NSGDM, NSTORM, Untuned, by_layer

MATRIX, TABLE, VECTOR = ("spectral", 1.0, 1), ("sign", 1.0, 1), ("sign", 0.25, 1)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head, self.embedding = nn.Linear(4, 9), nn.Embedding(9, 4)
        self.head.weight = self.embedding.weight


class Bare(nn.Module):
    """Parameters that no module of torch explains."""

    def __init__(self) -> None:
        super().__init__()
        shapes = {
            "pos_embed": (1, 7, 4),
            "cls_token": (1, 1, 4),
            "w": (4, 6),
            "experts": (3, 4, 6),
            "patches": (4, 3, 2, 2),
        }
        shapes |= {"relative_bias_table": (9, 2), "temperature": (), "column": (4, 1), "position": (5, 4)}
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.ones(shape)))


class LoRA(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base, self.A, self.B = nn.Linear(6, 5), nn.Linear(6, 2, bias=False), nn.Linear(2, 5, bias=False)
        self.base.requires_grad_(False)
        self.codes = nn.Parameter(torch.zeros(3, 2, dtype=torch.uint8), requires_grad=False)


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    model[0].requires_grad_(False)
    return model


def rest(p: torch.Tensor) -> tuple[str, float, int]:
    return TABLE if len([side for side in p.shape if side > 1]) > 1 else VECTOR


# Names by pattern, the last that fits counts; what is in no pattern is a vector, or a table if two of its sides are
# longer than 1: a LayerNorm over two dimensions too.
ANSWERS: dict[str, tuple[nn.Module, dict[str, Any]]] = {
    "layers": (
        nn.Sequential(
            nn.Linear(3, 4), nn.Conv2d(3, 4, 2), nn.ConvTranspose1d(3, 4, 2), nn.BatchNorm2d(4), nn.LayerNorm((3, 4))
        ),
        {"[012].weight": MATRIX},
    ),
    "one row, one column": (nn.Sequential(nn.Linear(1, 4), nn.Linear(4, 1)), {"*.weight": MATRIX}),
    "embeddings": (nn.Sequential(nn.Embedding(5, 4), nn.EmbeddingBag(5, 4), nn.Linear(4, 5)), {"2.weight": MATRIX}),
    "attention": (nn.MultiheadAttention(4, 2, add_bias_kv=True), {"*weight": MATRIX}),
    "attention of other sizes": (nn.MultiheadAttention(4, 2, kdim=3, vdim=5), {"*weight": MATRIX}),
    "LSTM": (nn.LSTM(3, 4, 2, proj_size=2), {"weight*": MATRIX}),
    "cell": (nn.GRUCell(3, 4), {"weight*": MATRIX}),
    "tied": (Tied(), {}),
    "bare": (Bare(), {"w": MATRIX, "experts": ("spectral", 1.0, 3), "patches": MATRIX}),
    "bilinear": (nn.Bilinear(2, 3, 4), {"weight": ("spectral", 1.0, 4)}),
    "weight normalization": (
        nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 2)),
        {"*original1": MATRIX},
    ),
    "LoRA": (LoRA(), {"*weight": MATRIX, "A.*": MATRIX, "B.*": MATRIX}),
    "frozen": (frozen(), {"*.weight": MATRIX}),
    "complex": (nn.Linear(3, 4, dtype=torch.complex64), {}),
}


def chosen(groups: list[dict[str, Any]]) -> dict[str, tuple[str, float, int]]:
    return {name: (g["norm"], g["scale"], g["stack"]) for g in groups for name, _ in g["params"]}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_tensor_has_the_norm_that_suits_it_and_can_take_it(name: str) -> None:
    model, answers = ANSWERS[name]
    named = {name: p for name, p in model.named_parameters() if p.dtype is not torch.uint8}
    expected = {
        name: next((answer for pattern, answer in answers.items() if fnmatchcase(name, pattern)), rest(p))
        for name, p in named.items()
    }
    groups = by_layer(model)
    assert chosen(groups) == expected
    assert all(named[name] is p for group in groups for name, p in group["params"])
    optimizer = NSGDM(groups, lr=0.1)
    before = {name: p.detach().clone() for name, p in named.items()}
    for p in named.values():
        p.grad = torch.randn_like(p) if p.requires_grad else None
    optimizer.step()
    for name, p in named.items():
        assert torch.equal(p, before[name]) != p.requires_grad, name
        if p.requires_grad and expected[name] in (TABLE, VECTOR) and not p.is_complex():
            length = 0.1 if expected[name] == TABLE else 0.025
            torch.testing.assert_close((p.detach() - before[name]).abs(), torch.full_like(p, length))


def test_rules_overrule_by_pattern_and_one_that_fits_nothing_is_an_error() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    rules: dict[str, dict[str, Any]] = {"1.weight": {"norm": "sign"}, "*.weight": {"norm": "rows", "lr": 0.5}}
    groups = by_layer(model, rules)
    assert chosen(groups) == {"0.weight": ("rows", 1.0, 1), "1.weight": TABLE, "1.bias": VECTOR}
    assert [group.get("lr") for group in groups] == [0.5, None, None]
    with pytest.raises(ValueError, match=r"^by_layer: every rule must fit a parameter's name; got head\.\*, which fit"):
        by_layer(model, {"head.*": {"norm": "sign"}})


def test_a_printed_optimizer_shows_which_tensor_has_which_norm() -> None:
    groups = str(NSGDM(by_layer(nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))), lr=0.1)).split("Parameter Group")
    shown = [
        [line.strip() for line in group.splitlines() if "norm:" in line or "names:" in line] for group in groups[1:]
    ]
    assert shown == [
        ["norm: sign", "param_names: ['0.weight']"],
        ["norm: spectral", "param_names: ['1.weight']"],
        ["norm: sign", "param_names: ['1.bias']"],
    ]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    kernels = nn.Conv1d(3, 4, 2), nn.Flatten(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 1)
    return nn.Sequential(*kernels).double()


def backward(model: nn.Module, k: int) -> float:
    model.zero_grad()
    x = torch.randn(5, 3, 3, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
    loss: torch.Tensor = (model(x) - 1).square().mean()
    loss.backward()
    return loss.item()


def by_name(model: nn.Module) -> list[dict[str, Any]]:
    return [{"params": list(model.named_parameters())}]


@pytest.mark.parametrize(
    ("make", "groups_of"),
    [
        (partial(NSGDM, lr=0.02), by_layer),
        (partial(NSTORM, lr=0.02), by_layer),
        (partial(Untuned, horizon=60), by_layer),
        (partial(Untuned, horizon=60), by_name),
    ],
    ids=["NSGDM", "NSTORM", "Untuned by layer", "Untuned"],
)
def test_a_layer_may_be_frozen_unfrozen_and_added_midway_and_a_resumed_run_has_the_same_bits(
    make: Any, groups_of: Any
) -> None:
    model = network()
    model[4].requires_grad_(False)
    optimizer = make(groups_of(model))
    before = copy.deepcopy(model[4].state_dict())
    losses = [optimizer.step(partial(backward, model, 0)) for _ in range(30)]
    assert losses[-1] < 0.7 * losses[0]
    assert all(torch.equal(p, before[name]) for name, p in model[4].named_parameters())
    model[4].requires_grad_(True)
    for _ in range(2):
        optimizer.step(partial(backward, model, 0))
    assert not any(torch.equal(p, before[name]) for name, p in model[4].named_parameters())
    other = copy.deepcopy(model)
    resumed = make(groups_of(other), lr=1.0)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert resumed.param_groups[0]["param_names"] == optimizer.param_groups[0]["param_names"]
    for model_, one in ((model, optimizer), (other, resumed)):
        model_.append(nn.Linear(1, 1).double().requires_grad_(True))
        model_[-1].load_state_dict({"weight": torch.ones(1, 1), "bias": torch.zeros(1)})
        for group in groups_of(model_[-1]):
            one.add_param_group({**group, "lr": one.param_groups[0]["lr"]})
        for k in range(3):
            one.step(partial(backward, model_, k))
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)
