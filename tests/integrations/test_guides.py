"""The code that the guides show for Lightning and the Hugging Face Trainer runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

DOCS = Path(__file__).parent.parent.parent / "docs"
X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # these libraries' own


def names_after(page: str, **given: Any) -> dict[str, Any]:
    """What the page's blocks for these tests leave behind, with what the page took for granted."""
    text = (DOCS / page).read_text("utf-8")
    blocks = re.findall(r"<!-- run by the tests, make test-integrations -->\n```python\n(.*?)```", text, re.DOTALL)
    exec(compile("\n".join(blocks), page, "exec"), given)
    return given


def test_the_module_of_the_lightning_page_makes_a_step_of_every_four_mini_batches(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    torch.manual_seed(0)
    module = names_after("lightning.md")["Regression"]()
    before = module.network.weight.detach().clone()
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", enable_checkpointing=False, default_root_dir=tmp_path, **quiet
    )
    data = torch.utils.data.TensorDataset(X, Y)
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=8))
    assert trainer.global_step == 2
    moved = torch.dist(module.network.weight.detach(), before).item()
    assert 0 < moved <= 2 * 0.1 + 1e-6  # the first call of a step only forms the estimate, or moves by lr


def test_the_schedule_of_the_lightning_page_decays_to_0_within_the_training(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        configure_optimizers = names_after("lightning.md")["configure_optimizers"]

        def __init__(self) -> None:
            super().__init__()
            self.network = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss: torch.Tensor = (self.network(batch[0]) - batch[1]).square().mean()
            return loss

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", enable_checkpointing=False, default_root_dir=tmp_path, **quiet
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=8))
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.linear(x) - labels).square().mean()}


def loss_of(model: Any, batch: Any) -> torch.Tensor:
    loss: torch.Tensor = model(*batch)["loss"]
    return loss


def test_the_lines_of_the_readme_watch_and_set_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {name: pytest.importorskip(name) for name in ("lightning", "transformers")}
    import gladstorm.lightning
    import gladstorm.torch
    import gladstorm.transformers

    data = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    arguments = names["transformers"].TrainingArguments(
        output_dir=str(tmp_path), max_steps=3, report_to=[], use_cpu=True, disable_tqdm=True, logging_steps=1
    )
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters())
    found = names_after(
        "../README.md",
        **names,
        gladstorm=gladstorm,
        model=model,
        data=data,
        arguments=arguments,
        optimizer=optimizer,
        schedule=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0),
        loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=8),
        loss_of=loss_of,
        samples=len(X),
    )
    assert found["auto"].samples == len(X)
    found["trainer"].train()
    assert found["trainer"].state.log_history[0]["noise/variance"] > 0


def test_the_trainer_of_the_training_guide_trains(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from gladstorm.torch import NSTORM

    torch.manual_seed(0)
    model, data = Network(), [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=3, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no"
    )
    trainer = names_after("training.md", NSTORM=NSTORM, model=model, arguments=arguments, data=data)["trainer"]
    before = model.linear.weight.detach().clone()
    trainer.train()
    assert trainer.state.global_step == 3
    assert 0 < torch.dist(model.linear.weight.detach(), before).item() <= 3 * 0.1 + 1e-6


def test_the_lines_of_the_page_on_batches_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lightning, transformers, accelerate = map(pytest.importorskip, ("lightning", "transformers", "accelerate"))
    import gladstorm.transformers

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.network = Network()

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return loss_of(self.network, batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    arguments = transformers.TrainingArguments(
        str(tmp_path), report_to=[], use_cpu=True, gradient_accumulation_steps=2, per_device_train_batch_size=1
    )
    network = Network()
    optimizer = torch.optim.AdamW(network.parameters())
    found = names_after(
        "batch.md",
        lightning=lightning,
        module=Module(),
        loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=1),
        arguments=arguments,
        data=[{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)],
        model=network,
        optimizer=optimizer,
        schedule=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0),
        accelerator=accelerate.Accelerator(cpu=True),
        loss_of=loss_of,
        samples=64 * 8,
    )
    assert isinstance(found["trainer"], gladstorm.transformers.AutoBatchTrainer)
    assert found["trainer"].state.global_step == 3 * 32
    assert found["auto"].samples == 64 * 8
