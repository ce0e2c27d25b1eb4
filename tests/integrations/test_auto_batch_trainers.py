"""Batches that grow inside other trainers: the training is that of a plain loop with `AutoBatch`, to the bit."""

from __future__ import annotations

import csv
import re
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

lightning = pytest.importorskip("lightning")
transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

from gladstorm.lightning import AutoBatch as InLightning  # noqa: E402
from gladstorm.torch import NSGDM, AutoBatch, by_layer  # noqa: E402
from gladstorm.transformers import AutoBatchTrainer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own

MICRO, EPOCH, EPOCHS = 2, 320, 2  # micro-batches of an epoch
BUDGET = MICRO * EPOCH * EPOCHS
X = 1 + 10 * torch.randn(MICRO * EPOCH, 4, generator=torch.Generator().manual_seed(1))  # noise, mostly
KINDS: dict[str, Any] = {
    "SGD": lambda model: torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9),
    "AdamW": lambda model: torch.optim.AdamW(model.parameters(), lr=0.001),
    "NSGDM by layer": lambda model: NSGDM(by_layer(model), lr=0.001),
}
PACES = {"SGD": "safe", "AdamW": "fast", "NSGDM by layer": "fast"}


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(4, 2)


def schedule_of(optimizer: Any) -> LambdaLR:
    return LambdaLR(optimizer, lambda k: max(0.0, 1 - k * 2 * MICRO / BUDGET))


def plain_loop(kind: str = "AdamW", **options: Any) -> tuple[torch.nn.Module, AutoBatch, list[dict[str, Any]]]:
    """What every trainer is compared with."""
    model, read = network(), []  # type: ignore[var-annotated]
    optimizer = KINDS[kind](model)
    auto = AutoBatch(optimizer, budget=BUDGET, micro=MICRO, on_reading=read.append, **options)
    schedule = schedule_of(optimizer)
    for x in X.split(MICRO) * EPOCHS:
        (model(x).mean() * auto.share).backward()
        if auto.due():
            auto.step(schedule)
    return model, auto, read


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    return all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))


class Slope(lightning.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self, kind: str = "AdamW", interval: str = "step", schedule: Any = schedule_of) -> None:
        super().__init__()
        self.network, self.kind, self.interval, self.schedule = network(), kind, interval, schedule

    def training_step(self, batch: Any, index: int) -> Tensor:
        loss: Tensor = self.network(batch[0]).mean()
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = KINDS[self.kind](self.network)
        if self.schedule is None:
            return optimizer
        config = {"scheduler": self.schedule(optimizer), "interval": self.interval, "monitor": "loss"}
        return {"optimizer": optimizer, "lr_scheduler": config}


def loader() -> Any:
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X), batch_size=MICRO)


def fit(
    *callbacks: Any, module: Any = None, logger: Any = False, resume: Any = None, **options: Any
) -> tuple[Slope, Any]:
    module = Slope() if module is None else module
    quiet: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    quiet |= {"enable_checkpointing": any(isinstance(c, lightning.pytorch.callbacks.Checkpoint) for c in callbacks)}
    given = {"max_epochs": EPOCHS, "accumulate_grad_batches": 2, "log_every_n_steps": 1, **options}
    trainer = lightning.Trainer(callbacks=list(callbacks), logger=logger, **quiet, **given)
    trainer.fit(module, loader(), ckpt_path=resume)
    return module, trainer


@pytest.mark.parametrize("kind", KINDS)
def test_in_lightning_while_nothing_grows_the_training_keeps_its_bits(kind: str) -> None:
    alone, _ = fit(module=Slope(kind))
    for options in ({"largest": 1}, {"dry_run": True}):
        watched, trainer = fit(auto := InLightning(**options), module=Slope(kind))
        assert same(alone.network, watched.network)
        assert auto.auto is not None
        assert (auto.auto.samples, trainer.global_step) == (BUDGET, BUDGET // 4)
        read = auto.auto.reading()
    assert read["batch/size"] > 4  # what it would have done


@pytest.mark.parametrize("kind", KINDS)
def test_lightning_trains_as_the_plain_loop_whose_batches_grow(kind: str, tmp_path: Path) -> None:
    pace = PACES[kind]
    model, plain, read = plain_loop(kind, pace=pace)
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    module, trainer = fit(callback := InLightning(pace=pace), module=Slope(kind), logger=logger, gradient_clip_val=1e9)
    assert same(module.network, model)
    auto = callback.auto
    assert auto is not None
    assert auto.factor == plain.factor >= (4 if pace == "fast" else 2)
    assert (auto.samples, auto.steps, trainer.global_step) == (BUDGET, plain.steps, plain.steps)
    assert auto.optimizer.param_groups[0]["lr"] == plain.optimizer.param_groups[0]["lr"]
    assert trainer.accumulate_grad_batches == 2  # as it was given
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    sizes = [float(row["batch/size"]) for row in rows if row["batch/size"]]
    assert sizes == [each["batch/size"] for each in read]
    assert "grown" in [row["batch/reason"] for row in rows]
    assert {"batch/critical_low", "batch/persistence", "batch/steps_saved"} < {*rows[0]}


def test_in_lightning_a_constant_schedule_over_epochs_changes_nothing() -> None:
    alone, _ = fit(InLightning(), module=Slope(schedule=None))
    constant = Slope(interval="epoch", schedule=lambda optimizer: LambdaLR(optimizer, lambda _: 1.0))
    module, _ = fit(callback := InLightning(), module=constant)
    assert callback.auto is not None
    assert callback.auto.factor > 1
    assert same(alone.network, module.network)


def test_lightning_resumes_with_the_same_batch_to_the_bit(tmp_path: Path) -> None:
    whole, _ = fit(callback := InLightning())
    keep = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}")
    fit(InLightning(), keep)
    state = torch.load(tmp_path / "epoch=0.ckpt", weights_only=True)["callbacks"]["AutoBatch"]
    assert state["control"]["factor"] > 1
    resumed, _ = fit(other := InLightning(), resume=tmp_path / "epoch=0.ckpt")
    assert same(resumed.network, whole.network)
    assert callback.auto is not None
    assert other.auto is not None
    assert other.auto.reading() == callback.auto.reading()


class ByHand(Slope):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False


@pytest.mark.parametrize(
    ("module", "options", "words"),
    [
        (ByHand, {"accumulate_grad_batches": 1}, "optimization must be automatic; got manual."),
        (Slope, {"max_steps": 9}, "max_epochs must end the training, .* got max_epochs=2, max_steps=9. Set max_ep"),
        (Slope, {"limit_train_batches": 100}, "limit_train_batches must give a multiple of 2 · 32 .* got 100. Drop"),
        (Slope, {"val_check_interval": 100}, "val_check_interval must give a multiple of 2 · 32 .* got 100. Drop"),
        (Slope, {"accumulate_grad_batches": 1}, "accumulate must be at least 2 in one process"),
        (
            lambda: Slope(schedule=ReduceLROnPlateau),
            {},
            r"lr_scheduler must be a single one with base_lrs, .* got \[\('ReduceLROnPlateau', 1\)\]. Write",
        ),
    ],
)
def test_what_cannot_work_in_lightning_is_refused_before_a_step(module: Any, options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"^AutoBatch: {words}"):
        fit(InLightning(), module=module(), **options)


def test_in_lightning_only_one_device_and_ddp_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gladstorm.integrations.lightning.SingleDeviceStrategy", lightning.pytorch.strategies.DDPStrategy
    )
    with pytest.raises(ValueError, match=re.escape("got SingleDeviceStrategy. Use strategy='ddp'.")):
        fit(InLightning())


class WithLoss(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"loss": self.network(x).mean()}


class Plain(transformers.Trainer):  # type: ignore[misc, name-defined]
    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(DATA)


class Growing(AutoBatchTrainer, Plain):
    pass


DATA = [{"x": x} for x in X]


def hugging(
    kind: Any, folder: Path, optimizer: str = "AdamW", resume: Any = None, own: Any = None, **options: Any
) -> tuple[WithLoss, Any]:
    quiet = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "max_grad_norm": 0.0}
    steps = {"num_train_epochs": EPOCHS, "gradient_accumulation_steps": 2, "per_device_train_batch_size": MICRO}
    given = transformers.TrainingArguments(str(folder), **{**quiet, **steps, "logging_steps": 10, **options})
    model = WithLoss()
    made = KINDS[optimizer](model.network)
    trainer = kind(model, given, train_dataset=DATA, optimizers=(made, schedule_of(made)), **(own or {}))
    trainer.train(resume_from_checkpoint=resume)
    return model, trainer


@pytest.mark.parametrize("kind", KINDS)
def test_in_the_trainer_while_nothing_grows_the_training_keeps_its_bits(kind: str, tmp_path: Path) -> None:
    alone, plain = hugging(Plain, tmp_path, kind)
    for own in ({"largest": 1}, {"dry_run": True}):
        watched, trainer = hugging(Growing, tmp_path, kind, own=own)
        assert same(alone.network, watched.network)
        assert (trainer.auto.samples, trainer.state.global_step) == (BUDGET, BUDGET // 4)
        for one, other in zip(plain.state.log_history[:-1], trainer.state.log_history, strict=False):
            assert one.items() <= other.items()
    assert trainer.auto.reading()["batch/size"] > 4  # what it would have done


@pytest.mark.parametrize("kind", KINDS)
def test_the_trainer_trains_as_the_plain_loop_whose_batches_grow(kind: str, tmp_path: Path) -> None:
    pace = PACES[kind]
    model, plain, read = plain_loop(kind, pace=pace)
    trained, trainer = hugging(Growing, tmp_path, kind, logging_steps=7, own={"pace": pace})
    assert same(trained.network, model)
    auto = trainer.auto
    assert auto.factor == plain.factor >= (4 if pace == "fast" else 2)
    assert (auto.samples, auto.steps) == (BUDGET, plain.steps)
    assert trainer.state.global_step == trainer.state.max_steps == BUDGET // 4  # in steps of the first size
    assert auto.optimizer.param_groups[0]["lr"] == plain.optimizer.param_groups[0]["lr"]
    assert trainer.args.gradient_accumulation_steps == 2  # as it was given
    logs = [log for log in trainer.state.log_history if "loss" in log]
    worth = [1, *(each["batch/size"] // 4 for each in read[:-1])]
    ends = list(accumulate(worth, initial=0))[1:]  # of steps, in steps of the first size
    assert [log["step"] for log in logs] == sorted({min(k for k in ends if k >= n) for n in range(7, 321, 7)})
    assert "batch/reason" in logs[0]
    assert {log["batch/size"] for log in logs} == {each["batch/size"] for each in read}


def test_the_trainer_s_mean_loss_at_a_rate_of_0_does_not_depend_on_the_steps(tmp_path: Path) -> None:
    frozen = []
    for largest in (32, 1):
        model = WithLoss()
        optimizer = torch.optim.SGD(model.network.parameters(), lr=0.0)
        arguments = transformers.TrainingArguments(
            str(tmp_path),
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            logging_steps=64,
            num_train_epochs=EPOCHS,
            gradient_accumulation_steps=2,
            per_device_train_batch_size=MICRO,
        )
        both = (optimizer, LambdaLR(optimizer, lambda _: 1.0))
        trainer = Growing(model, arguments, train_dataset=DATA, optimizers=both, largest=largest)
        loss = trainer.train().training_loss
        assert trainer.auto is not None
        frozen.append((loss, trainer.auto.factor))
    assert frozen[0][1] > frozen[1][1] == 1
    assert frozen[0][0] == pytest.approx(frozen[1][0], rel=1e-5)


def test_the_trainer_resumes_with_the_same_batch_to_the_bit(tmp_path: Path) -> None:
    whole, trainer = hugging(Growing, tmp_path, save_strategy="steps", save_steps=75)
    folders = sorted(tmp_path.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    assert len(folders) == 5  # with the steps that reach or pass 75, 150, 225, 300 and 320 of the first size
    for folder in folders[1:-1]:
        assert torch.load(folder / "auto_batch.pt", weights_only=True)["control"]["factor"] > 1
        resumed, other = hugging(Growing, tmp_path / "resumed", resume=str(folder))
        assert same(resumed.network, whole.network)
        assert other.auto.reading() == trainer.auto.reading()
        assert other.auto.samples == BUDGET


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_steps": 100}, r"max_steps must give a multiple of 2 · 32 .* got 200. Drop"),
        ({"per_device_train_batch_size": 3}, r"train_dataset must give a multiple of 2 · 32 .* got 214. Drop"),
        ({"gradient_accumulation_steps": 1}, r"accumulate must be at least 2 in one process"),
    ],
)
def test_what_cannot_work_in_the_trainer_is_refused_before_a_step(options: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^AutoBatch: {words}"):
        hugging(Growing, tmp_path, **options)


def under_accelerate(resume: Path | None = None, save: Path | None = None) -> tuple[torch.nn.Module, AutoBatch]:
    """Train by Accelerate's means, the second epoch only if a state is resumed."""
    accelerator = prepared()
    model = network()
    made = KINDS["AdamW"](model)
    schedule = schedule_of(made)
    model, optimizer, batches = accelerator.prepare(model, made, loader())
    auto = AutoBatch(optimizer, budget=BUDGET, micro=MICRO)
    accelerator.register_for_checkpointing(auto, schedule)
    if resume is not None:
        accelerator.load_state(resume)
    for _ in range(auto.samples // (BUDGET // EPOCHS), EPOCHS):
        for (x,) in batches:
            accelerator.backward(model(x).mean() * auto.share)
            if auto.due():
                auto.step(schedule)
        if save is not None and auto.samples < BUDGET:
            accelerator.save_state(save)
    return model, auto


def prepared(**options: Any) -> Any:
    accelerate.state.AcceleratorState._reset_state(True)
    accelerate.state.GradientState._reset_state()
    return accelerate.Accelerator(cpu=True, **options)


def test_under_accelerate_the_loop_trains_and_resumes_as_the_plain_one(tmp_path: Path) -> None:
    model, plain, _ = plain_loop()
    for trained, auto in (under_accelerate(save=tmp_path / "state"), under_accelerate(resume=tmp_path / "state")):
        assert same(trained, model)
        assert auto.reading() == plain.reading()


def test_what_accelerate_would_scale_twice_or_skip_is_refused() -> None:
    made = prepared(gradient_accumulation_steps=2).prepare(KINDS["SGD"](network()))
    with pytest.raises(ValueError, match=r"gradient_accumulation_steps must be 1, .*; got 2. Give accumulate=2 here"):
        AutoBatch(made, budget=BUDGET, micro=MICRO)
    with pytest.raises(ValueError, match="precision must need no GradScaler"):
        AutoBatch(SimpleNamespace(optimizer=made.optimizer, scaler=object()), budget=BUDGET, micro=MICRO)  # type: ignore[arg-type]
    prepared()
