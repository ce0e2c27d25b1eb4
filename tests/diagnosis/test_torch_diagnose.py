"""The designed experiment on a PyTorch model: what it measures, and that it leaves no trace."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gladstorm.optax
from gladstorm.diagnosis import Probe
from gladstorm.torch import diagnose

BATCHES = np.random.default_rng(0).normal(size=(24, 12, 4))


def squared(model: nn.Module, batch: Tensor) -> Tensor:
    loss: Tensor = (model(batch[:, :3])[:, 0] - batch[:, 3]).square().mean() / 2
    return loss


def linear() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 1, bias=False).double()


HALVES = ("first", "second")  # norms that only a probe during a training has


def test_torch_and_jax_measure_the_same() -> None:
    def in_jax(w: Any, batch: Any) -> Any:
        return jnp.mean((batch[:, :3] @ w[0] - batch[:, 3]) ** 2) / 2

    model = linear()
    later = {"weight": model.weight.detach() + torch.tensor([[1.0, 2.0, 2.0]], dtype=torch.double)}
    ours = diagnose(squared, model, list(torch.tensor(BATCHES)), 24, checkpoint=later, seed=5)
    start, end = (jnp.asarray(w.detach().numpy()) for w in (model.weight, later["weight"]))
    theirs = gladstorm.optax.diagnose(in_jax, start, BATCHES, 24, checkpoint=end, seed=5)
    assert ours.probes.radius == pytest.approx(3.0)
    for name in Probe._fields:
        a, b = (getattr(report.probes, name) for report in (ours, theirs))
        close = pytest.approx(b.tolist(), 1e-4, 1e-5, nan_ok=name in HALVES)
        assert a.tolist() == (b.tolist() if name == "direction" else close), name


def test_a_radius_that_is_given_counts_though_the_checkpoint_is_elsewhere() -> None:
    model, batches = linear(), list(torch.tensor(BATCHES))
    later = {"weight": model.weight.detach() + 1.0}
    assert diagnose(squared, model, batches, 16, checkpoint=later, radius=0.5).probes.radius == pytest.approx(0.5)


def test_the_second_point_of_a_probe_lies_further_out_by_a_twentieth_of_the_radius() -> None:
    """Of f(w) = w⁴/4 the gradient changes from r to r + h by h (3r² + 3rh + h²), and by less towards 0."""

    def quartic(model: nn.Module, batch: Tensor) -> Tensor:
        loss: Tensor = model(batch).pow(4).mean() / 4
        return loss

    nn.init.zeros_((model := nn.Linear(1, 1, bias=False).double()).weight)
    probes = diagnose(quartic, model, [torch.ones(4, 1, dtype=torch.double)], 16, radius=2.0).probes
    r, h = probes.distance, 0.1
    assert probes.moved == pytest.approx(np.full(16, h))
    assert np.sqrt(probes.L2) == pytest.approx(3 * r**2 + 3 * r * h + h**2)
    assert set(r) == {0.0, 0.5, 1.0, 2.0}


def test_groups_of_one_sample_have_the_variance_of_the_samples_gradients() -> None:
    model, batches = linear(), torch.tensor(BATCHES)
    probes = diagnose(squared, model, list(batches), 24, groups=12).probes
    (at_start,) = np.flatnonzero(probes.distance == 0)[:1]
    batch = batches[at_start]
    gradients = (model(batch[:, :3]) - batch[:, 3:]) * batch[:, :3]
    assert probes.noise[at_start] == pytest.approx(float(gradients.var(dim=0, correction=1).sum().detach()))
    moments = batch[:, :3].T @ batch[:, :3] / 12  # ∇²f of this mini-batch
    assert 0 < probes.L2[at_start] < float(torch.linalg.matrix_norm(moments, 2)) ** 2 * 1.5


class Everything(nn.Module):
    """Dropout, BatchNorm, an embedding of integers, a frozen layer and one that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.norm = nn.BatchNorm1d(5)
        self.dropout = nn.Dropout(0.5)
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.head = nn.Linear(5, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.frozen(self.dropout(self.norm(self.embedding(tokens)))))
        return logits


def batch_of_dicts() -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    tokens, labels = (torch.randint(high, (20, 8), generator=generator) for high in (7, 3))
    return [{"tokens": x, "labels": y} for x, y in zip(tokens, labels, strict=True)]


def classify(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return cross_entropy(model(batch["tokens"]), batch["labels"])


def state_of(model: nn.Module) -> list[bytes]:
    tensors = [*model.state_dict().values(), *(p.grad for p in model.parameters() if p.grad is not None)]
    return [t.numpy().tobytes() for t in tensors]


def random_state() -> tuple[bytes, Any, str]:
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), repr(np.random.get_state())  # noqa: NPY002


@pytest.mark.parametrize("fails", [False, True])
def test_a_diagnosis_leaves_everything_as_it_was_to_the_bit(fails: bool) -> None:
    torch.manual_seed(0)
    model = Everything()
    classify(model, batch_of_dicts()[0]).backward()
    before, random_before = state_of(model), random_state()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    calls = 0

    def loss_of(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        nonlocal calls
        calls += 1
        if fails and calls > 30:
            raise KeyboardInterrupt
        random.random()
        np.random.random()  # noqa: NPY002
        return classify(model, batch)

    try:
        report = diagnose(loss_of, model, batch_of_dicts(), 16)
        assert not fails
        assert [each.split()[0] for each in report.probes.remarks] == ["BatchNorm", "Dropout"]
    except KeyboardInterrupt:
        assert fails
    assert state_of(model) == before
    assert all(p.grad is gradients[name] for name, p in model.named_parameters())
    assert model.training
    assert random_state() == random_before


def test_both_points_of_a_probe_see_the_same_dropout() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 1, bias=False), nn.Dropout(0.5)).double()
    batches = list(torch.tensor(BATCHES))

    def mean_output(model: nn.Module, batch: Tensor) -> Tensor:
        output: Tensor = model(batch[:, :3])
        return output.mean()

    probes = diagnose(mean_output, model, batches, 16).probes
    assert np.allclose(probes.ell2, 0, atol=1e-20)  # linear in the parameters: only other masks would make a difference
    assert (probes.noise > 0).all()


def test_frozen_parameters_are_no_part_of_it() -> None:
    frozen, trained = nn.Linear(3, 2, bias=False).requires_grad_(False), nn.Linear(2, 1, bias=False)
    before, seen = frozen.weight.double(), []

    def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
        seen.append(torch.equal(frozen.weight, before))
        return squared(model, batch)

    report = diagnose(loss_of, nn.Sequential(frozen, trained).double(), list(torch.tensor(BATCHES)), 16)
    assert all(seen)
    assert report.probes.radius == pytest.approx(0.5 * trained.weight.detach().norm().item())  # the second of its radii


def test_what_layers_mean_is_remarked() -> None:
    model = Everything().eval()
    remarks = diagnose(classify, model, batch_of_dicts(), 16).probes.remarks
    assert "running statistics" in remarks[0]
    assert "switched off" in remarks[1]
    assert "in eval mode" in diagnose(squared, linear().eval(), list(torch.tensor(BATCHES)), 16).probes.remarks[0]
    with pytest.raises(ValueError, match="at least 12 samples, two, as BatchNorm needs, for each group"):
        diagnose(classify, Everything(), batch_of_dicts(), 16, groups=6)


class Streamed(torch.utils.data.IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield from torch.tensor(BATCHES).reshape(-1, 4)


def test_an_iterable_data_set_is_gone_through_as_often_as_it_takes() -> None:
    loader = torch.utils.data.DataLoader(Streamed(), batch_size=50)  # six batches, the last of 38
    assert len(diagnose(squared, linear(), loader, 16).probes) == 16


def nothing(model: nn.Module, batch: Tensor) -> Tensor:
    return torch.ones(())


BAD: dict[str, tuple[Callable[..., Any], Any, dict[str, Any], str]] = {
    "squares out of range": (lambda m, b: squared(m, b) * 1e200, None, {}, "squares of gradients must be finite"),
    "NaN loss": (lambda m, b: squared(m, b) * torch.nan, None, {}, "must return a finite loss; got nan"),
    "far out": (
        lambda m, b: (100 * squared(m, b)).exp(),
        None,
        {"radius": 1e3},
        "inf, at distance .* from the start. Look less far",
    ),
    "no number": (lambda m, b: squared(m, b).item(), None, {}, "must return a tensor with one number"),
    "one loss each": (lambda m, b: m(b[:, :3]), None, {}, r"the mean loss; got a tensor of shape \(12, 1\)"),
    "sum": (lambda m, b: squared(m, b) * len(b), None, {}, "must return the mean over the samples"),
    "no gradients": (nothing, None, {}, "must depend on the model's parameters"),
    "batch of one": (squared, list(torch.tensor(BATCHES)[:, :1]), {}, "at least 4 samples, one for each group"),
    "used up": (squared, iter(torch.tensor(BATCHES[:5])), {}, "got 5 of 16"),
    "no tensors": (squared, [["a", "b"]], {}, "a mini-batch must hold tensors"),
    "small budget": (squared, None, {"budget": 3}, "budget must be a whole number ≥ 16; got budget=3"),
    "one group": (squared, None, {"groups": 1}, "groups must be a whole number ≥ 2"),
    "radius": (squared, None, {"radius": -1.0}, "radius must be finite and > 0"),
    "other checkpoint": (squared, None, {"checkpoint": {"w": torch.ones(1, 3)}}, "got none for 'weight'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_a_sentence(name: str) -> None:
    loss_of, loader, options, said = BAD[name]
    if loader is None:
        loader = list(torch.tensor(BATCHES))
    model = linear()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=said):
        diagnose(loss_of, model, loader, **{"budget": 16, **options})
    assert torch.equal(model.weight, before["weight"])


def test_a_model_without_trainable_parameters_and_one_in_half_precision_are_refused() -> None:
    with pytest.raises(ValueError, match="some parameters of the model must require gradients"):
        diagnose(squared, linear().requires_grad_(False), [], 16)
    with pytest.raises(ValueError, match=r"by more than rounding does.*bfloat16"):
        diagnose(squared, linear().bfloat16(), [], 16, radius=1e-4)
    nn.init.zeros_((model := linear()).weight)
    with pytest.raises(ValueError, match="radius must be given where the parameters are 0"):
        diagnose(squared, model, [], 16)
