"""The probe that rides along a training: what it hears, and that the training does not notice."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gladstorm.torch import NoiseProbe

DATA = torch.tensor(np.random.default_rng(0).normal(size=(12, 4, 6, 4)))  # steps, micro-batches, samples, columns


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    loss: Tensor = (model(batch[:, :3])[:, 0] - batch[:, 3]).square().mean()
    return loss


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()


def accumulate(model: nn.Module, optimizer: torch.optim.Optimizer, data: Tensor, scale: float = 1.0) -> None:
    """Train with the mean over the micro-batches of a step, clipped."""
    for micro_batches in data:
        optimizer.zero_grad()
        for batch in micro_batches:
            (scale * loss_of(model, batch) / len(micro_batches)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()


def gradient(model: nn.Module, batch: Tensor) -> Tensor:
    return torch.cat([g.ravel() for g in torch.autograd.grad(loss_of(model, batch), list(model.parameters()))])


def test_micro_batches_are_compared_before_clipping_whatever_the_scale_of_the_loss() -> None:
    model = network()
    start = torch.stack([gradient(model, batch) for batch in DATA[0]])
    tables = []
    for scale in (1.0, 256.0):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        scaler.scale(torch.ones(()))  # which makes the scale
        probe = NoiseProbe(optimizer, every=5, samples=6, scaler=scaler if scale > 1 else None)
        accumulate(model, optimizer, DATA, scale)
        tables.append(probe.probes)
    probes = tables[0]
    assert probes.step.tolist() == [0, 5, 10]
    assert probes.groups.tolist() == [4, 4, 4]
    assert probes.direction.tolist() == ["start", "path", "path"]
    assert probes.noise[0] == pytest.approx(6 * float(start.var(dim=0, correction=1).sum()))
    products = start @ start.T
    assert probes.gradient2[0] == pytest.approx(float((products.sum() - products.trace()) / 12))
    assert probes.distance[2] > probes.distance[1] > 0
    assert tables[1].noise[0] == pytest.approx(probes.noise[0])  # unscaled; later steps of clipped training differ


def test_a_look_compares_two_quarters_of_the_mini_batch() -> None:
    model, batch = network(), DATA[0].reshape(24, 4)
    probe = NoiseProbe(model, every=20)
    probe.look(loss_of, batch)
    quarters = torch.stack([gradient(model, part) for part in (batch[:6], batch[6:12])])
    assert probe.probes.noise[0] == pytest.approx(6 * float(quarters.var(dim=0, correction=1).sum()))
    assert probe.probes.gradient2[0] == pytest.approx(float(quarters[0] @ quarters[1]))


def test_gradients_that_share_memory_count_once_each() -> None:
    """Of two parameters that are added, autograd may return one tensor, or one number in many places."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(3).double()), nn.Parameter(torch.ones(3).double())

    def mean(model: nn.Module, batch: Tensor) -> Tensor:
        loss: Tensor = batch.mean() * (model.a + model.b).sum()  # type: ignore[operator]
        return loss

    probe, batch = NoiseProbe(Shared()), DATA[0].reshape(24, 4)
    probe.look(mean, batch)
    A, B = float(batch[:6].mean()), float(batch[6:12].mean())
    assert probe.probes.noise[0] == pytest.approx(6 * 6 / 2 * (A - B) ** 2)
    assert probe.probes.gradient2[0] == pytest.approx(6 * A * B)


def test_a_parameter_that_the_loss_does_not_depend_on_adds_nothing() -> None:
    models = network(), network()
    models[1].register_parameter("unused", nn.Parameter(torch.ones(3).double()))
    tables = []
    for model in models:
        probe = NoiseProbe(model)
        probe.look(loss_of, DATA[0].reshape(24, 4))
        tables.append(probe.probes)
    assert tables[1].gradient2[0] == pytest.approx(tables[0].gradient2[0])
    assert tables[1].noise[0] == pytest.approx(tables[0].noise[0])


@pytest.mark.parametrize(("size", "samples"), [(2, 1), (7, 3), (8, 2), (11, 2), (12, 3), (63, 15), (64, 8)])
def test_quarters_have_two_samples_or_more_and_smaller_mini_batches_are_halved(size: int, samples: int) -> None:
    probe = NoiseProbe(network())
    probe.look(loss_of, DATA.reshape(-1, 4)[:size])
    assert (probe.probes.groups.tolist(), probe.probes.samples.tolist()) == ([2], [samples])


def scaled(batch: Tensor, factor: float) -> Tensor:
    return torch.cat([torch.full_like(batch[:, :1], factor), batch], dim=1)


def test_the_noise_of_a_scaled_loss_is_scaled_by_the_square_until_that_is_out_of_range() -> None:
    model = network()
    probe = NoiseProbe(model, every=1)
    # Gradients are finite but for the last two factors, and squares of the two before are not.
    factors = (1.0, 2.0**-500, 2.0**500, 2.0**530, 1e200, torch.nan, torch.inf)
    for factor in factors:
        probe.look(lambda model, batch: batch[0, 0] * loss_of(model, batch[:, 1:]), scaled(DATA[0, 0], factor))
    noise, gradient2 = probe.probes.noise, probe.probes.gradient2
    np.testing.assert_allclose(noise, noise[0] * np.square(factors[:3]), rtol=1e-12)
    np.testing.assert_allclose(gradient2, gradient2[0] * np.square(factors[:3]), rtol=1e-12)
    assert probe.probes.remarks == ("4 probes were not finite and are left out.",)


def test_what_is_not_finite_is_left_out_by_hooks_too() -> None:
    """The second step has gradients that are not finite at a point that is, the third one is at none."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe = NoiseProbe(optimizer, every=1)
    accumulate(model, optimizer, torch.stack([DATA[0], torch.nan * DATA[1], DATA[2]]))
    assert probe.probes.step.tolist() == [0]
    assert probe.probes.remarks == ("2 probes were not finite and are left out.",)


def test_a_step_with_nothing_to_compare_says_so_once_and_goes_on() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe = NoiseProbe(optimizer, every=1)
    with pytest.warns(UserWarning, match="one micro-batch in one process.*call look") as warned:
        accumulate(model, optimizer, DATA[:3, :1])
    assert len(warned) == 1
    with pytest.raises(ValueError, match="at least one probe"):
        _ = probe.probes

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, DATA[0, 0])
        loss.backward()
        return loss

    with pytest.warns(UserWarning, match="evaluates in a closure, where nobody called take"):
        optimizer.step(closure)
    probe.remove()
    accumulate(model, optimizer, DATA[:3, :1])


def heard(*, closed: bool) -> NoiseProbe:
    """A probe of every second step, in a closure or before the step."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe = NoiseProbe(optimizer, every=2, samples=6)

    def evaluate(micro_batches: Tensor) -> float:
        optimizer.zero_grad()
        for batch in micro_batches:
            (loss_of(model, batch) / 4).backward()
        if closed:
            probe.take()
        return 0.0

    for micro_batches in DATA[:5]:
        if closed:
            optimizer.step(partial(evaluate, micro_batches))
        else:
            evaluate(micro_batches)
            optimizer.step()
    return probe


def test_a_closure_that_says_when_it_is_done_is_heard_before_the_step() -> None:
    before, inside = heard(closed=False).probes, heard(closed=True).probes
    assert inside.step.tolist() == [0, 2, 4]
    assert inside.noise.tolist() == before.noise.tolist()
    assert inside.distance.tolist() == before.distance.tolist()


def test_bad_input_is_refused_in_a_sentence() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (model, {"every": 0}, "every must be a whole number ≥ 1"),
        (model, {"samples": 0}, "samples must be a whole number ≥ 1"),
        (model, {"every": [1]}, r"every must be a whole number ≥ 1; got every=\[1\]"),
        (model, {"samples": [1]}, r"samples must be a whole number ≥ 1; got samples=\[1\]"),
        (network().requires_grad_(False), {}, "some parameters must require gradients"),
    ]
    for given, options, said in cases:
        with pytest.raises(ValueError, match=said):
            NoiseProbe(given, **options)
    with pytest.raises(ValueError, match="look needs a model"):
        NoiseProbe(optimizer).look(loss_of, DATA[0, 0])
    with pytest.raises(ValueError, match="at least 2 samples to be compared; got 1"):
        NoiseProbe(model).look(loss_of, DATA[0, 0, :1])


def times(factor: float, model: nn.Module, batch: Tensor) -> Tensor:
    return factor * loss_of(model, batch)


@pytest.mark.parametrize("size", [1e-36, 1e-25, 1e25])
def test_what_is_read_of_gradients_whose_squares_float32_does_not_hold_is_right(size: float) -> None:
    noise = []
    for factor in (1.0, size):
        probe = NoiseProbe(network().float())
        probe.look(partial(times, factor), DATA[0].reshape(24, 4).float())
        noise.append(probe.probes.noise[0])
    assert noise[1] == pytest.approx(size**2 * noise[0], rel=1e-3)
