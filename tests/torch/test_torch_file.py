"""The one file that people copy, handover/torch_file/nsgdm.py, takes the steps of `gladstorm.torch.NSGDM` by layer."""

import ast
import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from test_torch_layers import ANSWERS, chosen
from torch import nn

from gladstorm.torch import NSGDM, by_layer
from handover.torch_file import nsgdm as copied

Pair = tuple[Callable[[nn.Module], list[dict[str, Any]]], Any]
OURS, COPIED = (by_layer, NSGDM), (copied.by_layer, copied.NSGDM)
OPTIONS: dict[str, tuple[float, dict[str, Any]]] = {  # and the size of gradients
    "default": (1.0, {}),
    "weight decay": (1.0, {"lr": 0.05, "weight_decay": 0.03, "momentum": 0.5}),
    "maximize, tiny gradients": (1e-200, {"lr": torch.tensor(0.05, dtype=torch.float64), "maximize": True}),
}


class Language(nn.Module):
    """An embedding, a convolution, a norm and a head that is the embedding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.mix = nn.Embedding(9, 4), nn.Conv1d(4, 4, 3, padding=1)
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, 9)
        self.head.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.norm(torch.tanh(self.mix(self.tokens(x).mT).mT)))
        return logits


def backward(model: nn.Module, k: int) -> float:
    model.zero_grad()
    x = torch.randint(9, (4, 7), generator=torch.Generator().manual_seed(k))
    loss = nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1).double(), x[:, 1:].flatten())
    loss.backward()
    return loss.item()


def test_the_file_stands_alone_and_is_short() -> None:
    text = Path(copied.__file__).read_text("utf-8")
    imported = {
        (node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported == {"collections", "math", "re", "torch", "typing"}
    assert len(text.splitlines()) < 200


@pytest.mark.parametrize(("size", "options"), OPTIONS.values(), ids=list(OPTIONS))
@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "complex"])
def test_every_tensor_has_the_norm_and_takes_the_steps_of_ours(name: str, size: float, options: dict[str, Any]) -> None:
    model = copy.deepcopy(ANSWERS[name][0]).double()
    models = model, copy.deepcopy(model)
    groups = [of(each) for each, (of, _) in zip(models, (OURS, COPIED), strict=True)]
    assert chosen(groups[0]) == chosen(groups[1])
    optimizers = [kind(each, **{"lr": 0.02, **options}) for each, (_, kind) in zip(groups, (OURS, COPIED), strict=True)]
    random = torch.Generator().manual_seed(0)
    for _ in range(4):
        for p, q in zip(*(each.parameters() for each in models), strict=True):
            if p.requires_grad:
                p.grad = size * torch.randn(p.shape, generator=random, dtype=p.dtype)
                q.grad = p.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for p, q in zip(*(each.parameters() for each in models), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "dtype", "atol"),
    [
        (OURS, COPIED, torch.float64, 1e-12),
        (COPIED, OURS, torch.float64, 1e-12),
        (COPIED, COPIED, torch.bfloat16, 0.0),
    ],
)
def test_a_training_goes_on_with_the_file_where_the_package_left_it_and_back(
    first: Pair, second: Pair, dtype: torch.dtype, atol: float
) -> None:
    model = Language().to(dtype)
    optimizer = first[1](first[0](model), lr=0.02)
    losses = [optimizer.step(partial(backward, model, k)) for k in range(40)]
    assert sum(losses[-5:]) < 0.95 * sum(losses[:5])
    other = copy.deepcopy(model)
    resumed = second[1](second[0](other), lr=1.0)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for k in range(40, 43):
        one, two = (each.step(partial(backward, at, k)) for each, at in ((optimizer, model), (resumed, other)))
        assert two == pytest.approx(one, abs=atol)
    assert all(v["momentum_buffer"].dtype is torch.promote_types(dtype, torch.float32) for v in resumed.state.values())
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=atol)


def test_what_it_cannot_do_it_refuses() -> None:
    p = nn.Parameter(torch.zeros(3, 2))
    bad: tuple[tuple[Any, dict[str, Any], str], ...] = (
        ([p], {}, "norm must be spectral or sign; got None. Use by_layer"),
        (
            [{"params": [nn.Parameter(p[0])], "norm": "spectral"}],
            {},
            r"of \(stacks of\) matrices; got the shape \(2,\)",
        ),
        ([{"params": [p], "norm": "spectral", "stack": 2}], {}, r"of \(stacks of\) matrices; got the shape \(3, 2\)"),
        (copied.by_layer(nn.Linear(2, 3, dtype=torch.complex64)), {}, "must be real and whole"),
        ([{"params": [p], "norm": "sign"}], {"lr": -1.0}, "lr must be finite and ≥ 0; got -1.0"),
        ([{"params": [p], "norm": "sign"}], {"momentum": 1.0}, r"momentum must be in \[0, 1\); got 1.0"),
        ([{"params": [p], "norm": "sign"}], {"weight_decay": float("nan")}, "weight_decay must be finite"),
    )
    for params, options, said in bad:
        with pytest.raises(ValueError, match=f"^NSGDM: .*{said}"):
            copied.NSGDM(params, **options)
    optimizer = copied.NSGDM([{"params": [p], "norm": "sign"}])
    p.grad = torch.tensor([[float("nan"), 1.0]] * 3)
    optimizer.step()
    assert p.isnan().tolist() == [[True, False]] * 3  # seen in the loss, not passed over
