"""One line in a trainer: the noise is in its logs, and the training has the bits of one without the line."""

from __future__ import annotations

import csv
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

lightning = pytest.importorskip("lightning")
transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")
events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

from gladstorm.diagnosis import READINGS  # noqa: E402
from gladstorm.diagnosis.probes import EUCLID, LAYERS  # noqa: E402
from gladstorm.lightning import NoiseMonitor as LightningMonitor  # noqa: E402
from gladstorm.torch import NSGDM, NoiseProbe, by_layer  # noqa: E402
from gladstorm.transformers import NoiseMonitor  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own

STEPS, BATCH, EVERY = 40, 16, 2
X = torch.randn(STEPS * BATCH, 4, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True) + torch.randn(STEPS * BATCH, 1, generator=torch.Generator().manual_seed(1))
ALWAYS = {"noise/variance", "noise/gradient2", "noise/distance", "noise/growth_low", "skipped"}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))


def scalars(folder: Path) -> dict[str, list[Any]]:
    """What TensorBoard reads from event files: the values of every tag."""
    (file,) = folder.rglob("events.out.tfevents*")
    accumulator = events.EventAccumulator(str(file))
    accumulator.Reload()
    return {tag: accumulator.Scalars(tag) for tag in accumulator.Tags()["scalars"]}


def offline_records(folder: Path) -> Iterator[Any]:
    """The records of a run of W&B that was kept on this machine: LevelDB's log format, after seven bytes of its own."""
    record_type = pytest.importorskip("wandb.proto.wandb_internal_pb2").Record

    (file,) = folder.rglob("*.wandb")
    data = file.read_bytes()
    assert data[:4] == b":W&B"
    at, record = 7, b""
    while at + 7 <= len(data):
        if 2**15 - at % 2**15 < 7:  # what is left of a block is too short for a header
            at += 2**15 - at % 2**15
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part of one
            yield record_type.FromString(record)
            record = b""


def of_wandb(folder: Path) -> tuple[dict[str, list[float]], dict[str, str]]:
    """What was logged under every name, and the x-axis of every name that has one."""
    logged: dict[str, list[float]] = {}
    axes = {}
    for record in offline_records(folder):
        for item in record.history.item:
            name = "/".join(item.nested_key) if item.nested_key else item.key
            if name in READINGS or name.removeprefix("train/") in READINGS:
                logged.setdefault(name, []).append(float(item.value_json))
        if record.metric.step_metric and "*" not in record.metric.glob_name:
            axes[record.metric.name] = record.metric.step_metric
    return logged, axes


def same(one: nn.Module, other: nn.Module) -> bool:
    states = (each.state_dict() for each in (one, other))
    return all(torch.equal(a, b) for a, b in zip(*(state.values() for state in states), strict=True))


class Regression(lightning.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.network, self.logged = network(), 0

    def training_step(self, batch: Any, index: int) -> Tensor:
        loss: Tensor = (self.network(batch[0]) - batch[1]).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def fit(callbacks: list[Any], logger: Any, accumulate: int = 1, module: Any = None, **options: Any) -> Any:
    module = Regression() if module is None else module
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=logger,
        callbacks=callbacks,
        log_every_n_steps=EVERY,
        accumulate_grad_batches=accumulate,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"gradient_clip_val": 0.01, **options},
    )
    data = torch.utils.data.TensorDataset(X, Y)
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True))
    return module, torch.get_rng_state()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_lightning_logs_the_noise_and_trains_to_the_same_bits(accumulate: int, tmp_path: Path) -> None:
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    monitor = LightningMonitor(every=EVERY)
    (alone, state), (watched, other) = fit([], False, accumulate), fit([monitor], logger, accumulate)
    assert same(alone, watched)
    assert torch.equal(state, other)
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    looks = STEPS // accumulate // EVERY
    assert monitor.probe is not None
    assert len(monitor.probe.probes) == looks
    assert {*rows[-1]} >= ALWAYS | {"loss", "clip/share", "clip/bias"}
    assert monitor.probe.probes.samples.tolist() == [BATCH if accumulate > 1 else BATCH // 4] * looks
    logged = [float(row["noise/variance"]) for row in rows if row["noise/variance"]]
    assert logged == pytest.approx(monitor.probe.probes.noise[: len(logged)], rel=1e-5)
    assert len(logged) == looks
    assert len([row for row in rows if row["loss"]]) == looks  # the looks' own losses are not logged


class ByLayer(Regression):
    def configure_optimizers(self) -> Any:
        return NSGDM(by_layer(self), lr=0.02)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_monitors_measure_in_the_norms_of_the_optimizer(accumulate: int, tmp_path: Path) -> None:
    for module, norm in ((ByLayer(), LAYERS), (Regression(), EUCLID)):
        watching = LightningMonitor(every=EVERY)
        fit([watching], False, accumulate, module=module, default_root_dir=tmp_path)
        assert watching.probe is not None
        assert (watching.probe.probes.norm, len(watching.probe.probes)) == (norm, STEPS // accumulate // EVERY)
        model, monitor = Network(), NoiseMonitor(every=EVERY)
        optimizer = NSGDM(by_layer(model), lr=0.02) if norm == LAYERS else torch.optim.SGD(model.parameters(), lr=0.02)
        train([monitor], tmp_path, accumulate, optimizer=optimizer, model=model)
        assert monitor.probe is not None
        assert (monitor.probe.probes.norm, len(monitor.probe.probes)) == (norm, STEPS // accumulate // EVERY)


def test_lightning_s_tensorboard_has_the_readings(tmp_path: Path) -> None:
    monitor = LightningMonitor(every=EVERY)
    fit([monitor], lightning.pytorch.loggers.TensorBoardLogger(tmp_path))
    read = scalars(tmp_path)
    assert {*READINGS} - {*read} <= {"noise/critical_batch_high"}  # twenty looks may leave it infinite, and not logged
    assert read["clip/share"][-1].value == 1  # all are longer than 0.01
    assert monitor.probe is not None
    assert [each.value for each in read["noise/distance"]] == pytest.approx(monitor.probe.probes.distance, rel=1e-5)
    assert b"noise/growth_high" in layout(tmp_path)


def layout(folder: Path) -> bytes:
    """What TensorBoard's custom scalars are told to draw."""
    (file,) = folder.rglob("events.out.tfevents*")
    accumulator = events.EventAccumulator(str(file))
    accumulator.Reload()
    (tensor,) = accumulator.Tensors("custom_scalars__config__")
    content: bytes = tensor.tensor_proto.string_val[0]
    return content


def test_lightning_s_w_and_b_has_the_noise_against_the_distance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = lightning.pytorch.loggers.WandbLogger(save_dir=tmp_path, offline=True, log_model=False)
    monitor = LightningMonitor(every=EVERY)
    fit([monitor], logger)
    wandb.finish()
    wandb.teardown()  # ends its process, which writes the file
    logged, axes = of_wandb(tmp_path)
    assert monitor.probe is not None
    assert logged["noise/variance"] == pytest.approx(monitor.probe.probes.noise, rel=1e-5)
    assert axes["noise/variance"] == axes["noise/critical_batch"] == "noise/distance"
    assert "noise/distance" not in axes


def test_the_trainer_s_w_and_b_has_the_noise_against_the_distance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    for name, value in {"MODE": "offline", "SILENT": "true", "DIR": str(tmp_path)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    monitor = NoiseMonitor(every=EVERY)
    train([monitor], tmp_path, report_to=["wandb"])
    wandb.finish()
    wandb.teardown()
    logged, axes = of_wandb(tmp_path)
    assert monitor.probe is not None
    assert logged["train/noise/variance"] == pytest.approx(monitor.probe.probes.noise)
    assert axes["train/noise/variance"] == "train/noise/distance"


def test_lightning_in_half_precision_is_watched_too(tmp_path: Path) -> None:
    monitor = LightningMonitor(every=EVERY)
    fit([monitor], False, precision="bf16-mixed", default_root_dir=tmp_path)
    assert monitor.probe is not None
    assert len(monitor.probe.probes) == STEPS // EVERY


def test_lightning_s_manual_optimization_is_refused(tmp_path: Path) -> None:
    module = Regression()
    module.automatic_optimization = False
    with pytest.raises(TypeError, match="NoiseMonitor: optimization must be automatic; got Regression"):
        fit([LightningMonitor()], False, module=module, gradient_clip_val=None, default_root_dir=tmp_path)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Any]:
        out = self.network(x)
        return {"loss": None if labels is None else (out - labels).square().mean(), "out": out}


class OwnLoss(transformers.Trainer):  # type: ignore[misc, name-defined]
    def compute_loss(self, model: nn.Module, inputs: Any, *_: Any, **__: Any) -> Tensor:
        loss: Tensor = (model(inputs["x"])["out"] - inputs["labels"]).abs().mean()
        return loss


def train(
    callbacks: list[Any],
    folder: Path,
    accumulate: int = 1,
    kind: Any = None,
    optimizer: Any = None,
    model: Any = None,
    **options: Any,
) -> Any:
    model = model or Network()
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS // accumulate,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=accumulate,
        max_grad_norm=0.01,
        logging_steps=EVERY,
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        **{"report_to": [], **options},
    )
    data = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    trainer = (kind or transformers.Trainer)(model, arguments, train_dataset=data, optimizers=(optimizer, None))
    for callback in callbacks:
        callback.add_to(trainer)
    trainer.train()
    return model, trainer.state.log_history


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_trainer_s_logs_have_the_noise_and_it_trains_to_the_same_bits(
    accumulate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    monitor = NoiseMonitor(every=EVERY)
    alone, _ = train([], tmp_path, accumulate)
    watched, history = train([monitor], tmp_path, accumulate, report_to=["tensorboard"])
    assert same(alone, watched)
    assert monitor.probe is not None
    probes = monitor.probe.probes
    assert len(probes) == STEPS // accumulate // EVERY
    logged = [entry["noise/variance"] for entry in history if "noise/variance" in entry]
    assert logged == pytest.approx(probes.noise)
    assert {*history[-2]} >= ALWAYS | {"loss", "clip/share"}
    assert history[-2]["clip/share"] == 1  # all are longer than 0.01
    assert b"train/noise/growth_high" in layout(tmp_path / "board")
    board = scalars(tmp_path / "board")
    assert [each.value for each in board["train/noise/variance"]] == pytest.approx(probes.noise, rel=1e-5)
    assert not watched._forward_pre_hooks


def test_a_loss_of_the_trainer_s_own_needs_accumulation(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the model's output must have a loss; got none, since the Trainer computes"):
        train([NoiseMonitor()], tmp_path, kind=OwnLoss)
    monitor = NoiseMonitor(every=EVERY)
    train([monitor], tmp_path, accumulate=2, kind=OwnLoss)
    assert monitor.probe is not None
    assert len(monitor.probe.probes) == STEPS // 2 // EVERY


def test_accelerate_s_trackers_take_the_readings_of_a_probe() -> None:
    accelerate.state.AcceleratorState._reset_state(True)
    accelerate.state.GradientState._reset_state()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
    plain = network()
    model, optimizer = accelerator.prepare(plain, torch.optim.SGD(plain.parameters(), lr=0.05))
    read: list[dict[str, float]] = []
    NoiseProbe(optimizer, every=1, samples=BATCH, on_reading=read.append)
    for x, y in zip(X.split(BATCH), Y.split(BATCH), strict=True):
        with accelerator.accumulate(model):
            accelerator.backward((model(x) - y).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    assert len(read) == STEPS // 4
    assert all(math.isfinite(each["noise/variance"]) for each in read)
