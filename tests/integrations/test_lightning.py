"""Under Lightning the optimizers do what a plain loop does, or say why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

lightning = pytest.importorskip("lightning")

from gladstorm.lightning import EvaluateAverage, NoiseMonitor, TwoPointModule  # noqa: E402
from gladstorm.torch import NSGDM, NSTORM, Untuned, by_layer  # noqa: E402

LR, BATCH = 0.05, 8
X = torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own


class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self, kind: Any = NSTORM, leave_out: int | None = None, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = torch.nn.Linear(4, 1)
        self.kind, self.leave_out, self.options, self.calls = kind, leave_out, options, 0

    def training_step(self, batch: Any, k: int) -> Tensor | None:
        self.calls += 1
        return None if k == self.leave_out else (self.network(batch[0]) - batch[1]).square().mean()

    def configure_optimizers(self) -> Any:
        return self.kind(self.parameters(), LR, **self.options)


class Manual(Module):
    """Manual optimization, with the optimizer that Lightning wraps."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.automatic_optimization = False

    def training_step(self, batch: Any, k: int) -> None:
        def closure() -> Tensor:
            loss: Tensor = (self.network(batch[0]) - batch[1]).square().mean()
            self.manual_backward(loss)
            return loss

        self.optimizers().step(closure)


class TwoPoint(TwoPointModule):
    def __init__(self, accumulate: int = 1, kind: Any = NSTORM, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = torch.nn.Linear(4, 1)
        self.accumulate, self.kind, self.options, self.calls = accumulate, kind, options, 0

    def loss(self, batch: Any, index: int) -> Tensor:
        self.calls += 1
        loss: Tensor = (self.network(batch[0]) - batch[1]).square().mean()
        return loss

    def configure_optimizers(self) -> Any:
        return self.kind(self.parameters(), LR, **self.options)


def fit(
    module: Any, folder: Path, epochs: int = 1, resume: Any = None, val_dataloaders: Any = None, **options: Any
) -> Any:
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", default_root_dir=folder, **{**quiet, **options})
    trainer.fit(module, DataLoader(TensorDataset(X, Y), batch_size=BATCH), val_dataloaders, ckpt_path=resume)
    return trainer


def by_hand(batches: Any, kind: Any = NSTORM, accumulate: int = 1, **options: Any) -> torch.nn.Linear:
    """A plain loop over numbers of batches, or slices of the data."""
    network = Module().network
    optimizer = kind(network.parameters(), LR, **options)
    size = BATCH * accumulate
    for k in batches:
        part = k if isinstance(k, slice) else slice(k * size, (k + 1) * size)

        def closure(part: slice = part) -> float:
            optimizer.zero_grad()
            loss: Tensor = (network(X[part]) - Y[part]).square().mean()
            loss.backward()
            return loss.item()

        optimizer.step(closure)
    return network


def assert_same(module: Any, network: torch.nn.Module) -> None:
    for p, q in zip(module.network.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", [NSGDM, NSTORM])
def test_automatic_optimization_takes_the_steps_of_a_plain_loop(kind: Any, tmp_path: Path) -> None:
    module = Module(kind)
    trainer = fit(module, tmp_path, 2)
    assert_same(module, by_hand([*range(6)] * 2, kind))
    assert (trainer.global_step, module.calls) == (12, 12 if kind is NSGDM else 23)


def test_lightning_s_clipping_is_nstorm_s_since_it_clips_at_both_points(tmp_path: Path) -> None:
    module = Module()
    fit(module, tmp_path, gradient_clip_val=0.5)
    assert_same(module, by_hand(range(6), max_grad_norm=0.5))


def test_accumulation_is_right_for_nsgdm_and_refused_for_nstorm(tmp_path: Path) -> None:
    module = Module(NSGDM)
    fit(module, tmp_path, accumulate_grad_batches=2)
    assert_same(module, by_hand(range(3), NSGDM, accumulate=2))
    with pytest.raises(RuntimeError, match="NSTORM: the closure must compute all gradients of a step; got some"):
        fit(Module(), tmp_path, accumulate_grad_batches=2)


def test_a_training_step_that_returns_none_leaves_its_mini_batch_out(tmp_path: Path) -> None:
    for left_out in (0, 3):
        module = Module(leave_out=left_out)
        fit(module, tmp_path)
        assert_same(module, by_hand(k for k in range(6) if k != left_out))


def test_the_first_n_init_mini_batches_form_the_first_estimate(tmp_path: Path) -> None:
    module = Module(n_init=3)
    fit(module, tmp_path)
    assert_same(module, by_hand(range(6), n_init=3))


def test_half_precision_on_a_cpu_trains(tmp_path: Path) -> None:
    for precision in ("16-mixed", "bf16-mixed"):
        module = Module()
        before = float((module.network(X) - Y).square().mean())
        fit(module, tmp_path, 2, precision=precision)
        assert float((module.network(X) - Y).square().mean()) < before - 0.5


def test_manual_optimization_counts_its_steps_and_stops_at_max_steps(tmp_path: Path) -> None:
    module = Manual()
    trainer = fit(module, tmp_path, 2, max_steps=4)
    assert trainer.global_step == 4
    assert_same(module, by_hand(range(4)))


@pytest.mark.parametrize(("accumulate", "options"), [(1, {}), (2, {}), (2, {"max_grad_norm": 0.5})])
def test_a_two_point_module_accumulates_clips_and_counts_as_a_plain_loop(
    accumulate: int, options: dict[str, Any], tmp_path: Path
) -> None:
    module = TwoPoint(accumulate, **options)
    trainer = fit(module, tmp_path)
    assert_same(module, by_hand(range(6 // accumulate), accumulate=accumulate, **options))
    assert (trainer.global_step, module.calls) == (6 // accumulate, 12 - accumulate)  # v⁰ takes one evaluation


def test_a_two_point_module_s_epoch_ends_with_a_step_of_what_is_left(tmp_path: Path) -> None:
    module = TwoPoint(accumulate=4)  # six mini-batches: 4 and 2
    assert fit(module, tmp_path).global_step == 2
    assert_same(module, by_hand([slice(0, 32), slice(32, 48)]))


def test_a_two_point_module_stops_at_max_steps(tmp_path: Path) -> None:
    assert fit(TwoPoint(2), tmp_path, 2, max_steps=4).global_step == 4


class Scheduled(TwoPoint):
    def __init__(self, schedule: Any, frequency: int = 1, interval: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.schedule, self.how = schedule, {"frequency": frequency} | ({"interval": interval} if interval else {})
        self.lrs: list[float] = []

    def configure_optimizers(self) -> Any:
        optimizer = super().configure_optimizers()
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self.schedule(optimizer), **self.how}}

    def on_train_batch_start(self, *_: Any) -> None:
        self.lrs.append(self.optimizers().param_groups[0]["lr"])


def halving(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)


@pytest.mark.parametrize("accumulate", [1, 2, 4])
@pytest.mark.parametrize("frequency", [1, 2])
@pytest.mark.parametrize("interval", [None, "epoch", "step"])
def test_a_two_point_module_steps_its_schedule_by_steps_or_epochs(
    interval: str | None, frequency: int, accumulate: int, tmp_path: Path
) -> None:
    module = Scheduled(halving, frequency, interval, accumulate=accumulate)
    trainer = fit(module, tmp_path, 3)
    steps, batches = -(-6 // accumulate), range(18)  # six mini-batches in an epoch
    done = [k // 6 * steps + k % 6 // accumulate if interval == "step" else k // 6 for k in batches]
    assert module.lrs == [LR * 0.5 ** (each // frequency) for each in done]
    assert trainer.global_step == 3 * steps


@pytest.mark.parametrize("make", [Module, lambda: TwoPoint(2), lambda: Scheduled(halving, interval="step")])
def test_a_resumed_run_has_the_bits_and_the_schedule_of_an_uninterrupted_one(make: Any, tmp_path: Path) -> None:
    whole, first, resumed = (make() for _ in range(3))
    fit(whole, tmp_path, 2)
    fit(first, tmp_path, 1).save_checkpoint(tmp_path / "checkpoint")
    fit(resumed, tmp_path, 2, resume=tmp_path / "checkpoint")
    for p, q in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(p, q)
    if isinstance(whole, Scheduled):
        assert first.lrs + resumed.lrs == whole.lrs


def test_a_two_point_module_without_a_loss_says_so() -> None:
    with pytest.raises(TypeError, match=r"^TwoPointModule: loss\(batch, index\) must be defined by the module"):
        TwoPointModule().loss(None, 0)


class Untuning(Module):
    def __init__(self, groups_of: Any = torch.nn.Module.parameters) -> None:
        super().__init__()
        self.groups_of, self.seen = groups_of, list[float]()

    def validation_step(self, batch: Any, k: int) -> None:
        self.seen.append(float((self.network(batch[0]) - batch[1]).square().mean()))

    def configure_optimizers(self) -> Any:
        return Untuned(self.groups_of(self), horizon=12)


def fit_and_validate(module: Any, folder: Path, callbacks: list[Any], **options: Any) -> Any:
    whole = DataLoader(TensorDataset(X, Y), batch_size=48)
    fit(module, folder, val_dataloaders=whole, callbacks=callbacks, **{"num_sanity_val_steps": 0, **options})


def error_of_average(module: Any) -> float:
    optimizer = module.trainer.optimizers[0]
    with torch.no_grad(), optimizer.averaged():
        return float((module.network(X) - Y).square().mean())


def test_the_average_is_evaluated_saved_and_left_in_the_module_and_the_run_resumes_from_its_last_iterate(
    tmp_path: Path,
) -> None:
    plain, averaged, resumed = Untuning(), Untuning(), Untuning()
    first = "epoch=0*.ckpt"
    save = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, every_n_epochs=1, save_top_k=-1)
    options: dict[str, Any] = {"epochs": 2}
    fit_and_validate(plain, tmp_path, [], **options)
    fit_and_validate(averaged, tmp_path, [EvaluateAverage(), save], enable_checkpointing=True, **options)
    assert averaged.seen[-1] == pytest.approx(error_of_average(plain), rel=1e-6)
    assert averaged.seen[-1] != pytest.approx(plain.seen[-1], rel=1e-3)
    with torch.no_grad():
        assert float((averaged.network(X) - Y).square().mean()) == pytest.approx(averaged.seen[-1], rel=1e-6)
    middle = torch.load(next(tmp_path.glob(first)), weights_only=True)
    network = Module().network
    network.load_state_dict({name.removeprefix("network."): p for name, p in middle["state_dict"].items()})
    with torch.no_grad():
        assert float((network(X) - Y).square().mean()) == pytest.approx(averaged.seen[0], rel=1e-6)
    fit_and_validate(resumed, tmp_path, [EvaluateAverage()], resume=next(tmp_path.glob(first)), **options)
    for p, q in zip(averaged.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(p, q)
    last, reported = Untuning(by_layer), Untuning(by_layer)  # where the last iterate is what the method reports
    fit_and_validate(last, tmp_path, [], **options)
    fit_and_validate(reported, tmp_path, [EvaluateAverage()], **options)
    assert last.seen == reported.seen
    with torch.no_grad():
        assert float((last.network(X) - Y).square().mean()) == pytest.approx(last.seen[-1], rel=1e-6)
    with pytest.raises(TypeError, match=r"^EvaluateAverage: an optimizer must be an Untuned; got NSGDM"):
        fit(Module(NSGDM), tmp_path, callbacks=[EvaluateAverage()])


def test_a_monitor_looks_every_so_many_steps() -> None:
    with pytest.raises(ValueError, match=r"^NoiseMonitor: every must be a whole number ≥ 1; got every=\[1\]"):
        NoiseMonitor(every=[1])  # type: ignore[arg-type]  # the point of the test
