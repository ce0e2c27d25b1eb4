"""Draw the two pictures of docs/watch.md from real runs: `.venv-integrations/bin/python .ci/noise_pictures.py [OUT]`.

A small transformer is trained in Lightning with `NoiseMonitor`, and logs to TensorBoard and to W&B on this machine.
TensorBoard is opened in Chromium, on loopback, for a minute or two. W&B's pages come from a server; its picture is
drawn from the file that the run wrote, with the x-axis that the run asked for; without the package, it is left out.
"""

from __future__ import annotations

import base64
import itertools
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/integrations")]

import lightning  # noqa: E402
import torch  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from test_monitors import of_wandb  # noqa: E402

from browser import chromium  # noqa: E402
from evidence.calibration.networks import batches, loss_of, network  # noqa: E402
from gladstorm.lightning import NoiseMonitor  # noqa: E402

STEPS, EVERY, SECONDS = 2000, 20, 60
CHARTS = ("noise/variance", "noise/critical_batch", "noise/growth", "noise/signal")


class Training(lightning.LightningModule):
    """The transformer of the calibration study, on Python's own documentation."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network("transformer")

    def training_step(self, batch: Any, index: int) -> torch.Tensor:  # noqa: ARG002 - Lightning's
        """Cross entropy of the next characters."""
        loss = loss_of(self.network, batch)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def train(folder: Path) -> None:
    """With both trackers where W&B is installed."""
    loggers: list[Any] = [lightning.pytorch.loggers.TensorBoardLogger(folder, name="board", version="transformer")]
    try:
        import wandb

        loggers.append(lightning.pytorch.loggers.WandbLogger(save_dir=folder, offline=True, log_model=False))
    except ImportError:
        wandb = None
    trainer = lightning.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        logger=loggers,
        callbacks=[NoiseMonitor(every=EVERY)],
        log_every_n_steps=EVERY,
        gradient_clip_val=1.0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data: Any = list(itertools.islice(batches("transformer"), STEPS))
    trainer.fit(Training(), torch.utils.data.DataLoader(data, batch_size=None))
    if wandb is not None:
        wandb.finish()
        wandb.teardown()


def tensorboard(folder: Path, picture: Path) -> None:
    """Its page of scalars that begin with noise, in Chromium."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder / "board"), "--port", "0"]
    command += ["--host", "127.0.0.1", "--load_fast=false"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            lines = (re.search(r"http://127\.0\.0\.1:\d+/", line) for line in server.stderr or ())
            address = next(filter(None, lines))[0]
            wait_for(f"{address}data/plugin/timeseries/tags", "noise/variance")
            with chromium(folder / "profile") as browser:
                screen = {"width": 1280, "height": 1030, "deviceScaleFactor": 1, "mobile": False}
                browser.devtools("Emulation.setDeviceMetricsOverride", **screen)
                tags = "%5Enoise%2F(variance%7Ccritical_batch%7Cdistance%7Cgrowth)%24"
                browser.post("url", url=f"{address}?darkMode=false&tagFilter={tags}#timeseries")
                end = time.monotonic() + SECONDS
                while (
                    time.monotonic() < end and browser.run("return document.querySelectorAll('card-view').length") < 4
                ):
                    time.sleep(1)
                browser.run(
                    "[...document.querySelectorAll('button')].find(b => b.textContent.includes('Settings')).click()"
                )
                time.sleep(10)  # until its lines are drawn
                picture.write_bytes(base64.b64decode(browser.devtools("Page.captureScreenshot")["data"]))
        finally:
            server.kill()


def wait_for(address: str, text: str) -> None:
    """Until a page of the server has this text."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with urllib.request.urlopen(address) as answer:
            if text in answer.read().decode():
                return
        time.sleep(1)
    raise TimeoutError(f"{text} is not at {address}")


def weights_and_biases(folder: Path, picture: Path) -> None:
    """What its file has, each chart with the x-axis that the run defined."""
    logged, axes = of_wandb(folder)
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    for ax, name in zip(figure.subplots(2, 2).flat, CHARTS, strict=True):
        values = logged[name]
        x = logged[axes[name]][-len(values) :]
        ax.plot(x, values, linewidth=1.2)
        if name == "noise/growth":
            band = [logged[f"{name}_{end}"][-len(values) :] for end in ("low", "high")]
            ax.fill_between(x, *band, alpha=0.2)
        ax.set_title(name, fontsize=10, loc="left")
        ax.set_xlabel(axes[name], fontsize=8)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=110)


def main() -> None:
    """Train once and draw both."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/watch"
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        train(folder)
        tensorboard(folder, out / "tensorboard.png")
        if list(folder.rglob("*.wandb")):
            weights_and_biases(folder, out / "wandb.png")


if __name__ == "__main__":
    main()
