"""How the noise of the networks of the study `networks` grows with the distance, in two norms."""

from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from evidence.networks.trainings import TRAININGS, NetworkTask
from gladstorm.diagnosis import Report
from gladstorm.jobs.progress import annotate
from gladstorm.torch import NSGDM, by_layer, diagnose

STEPS, BUDGET, LENGTH = 200, 144, 0.02  # of the run whose end is the checkpoint, of a diagnosis, of a step
SEED = 41000
NORMS = {"layers": by_layer, "euclid": None}


def batch_of(task: NetworkTask) -> tuple[Tensor, ...]:
    """A mini-batch drawn with replacement."""
    chosen = torch.randint(len(task.train[0]), (task.batch,))
    return tuple(rows[chosen] for rows in task.train)


def trained(task: NetworkTask) -> dict[str, Tensor]:
    """Train with NSGDM by layer and a linear decay, return the weights at the end, and restore those of the start."""
    start = {name: value.clone() for name, value in task.model.state_dict().items()}
    optimizer = NSGDM(by_layer(task.model), lr=LENGTH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        task.loss(task.model, batch_of(task)).backward()
        optimizer.step()
        schedule.step()
    end = {name: value.clone() for name, value in task.model.state_dict().items()}
    task.model.load_state_dict(start)
    return end


def measured(name: str, budget: int) -> dict[str, Any]:
    """Diagnoses of one network around its start, as far as it has gone after a short run."""
    torch.manual_seed(SEED)
    task = TRAININGS[name]()
    end = trained(task)
    row: dict[str, Any] = {"network": name}
    for norm, norms in NORMS.items():
        batches = (batch_of(task) for _ in repeat(None))
        row[norm] = _kept(diagnose(task.loss, task.model, batches, budget, checkpoint=end, norms=norms))
    annotate(name)
    return row


def _kept(report: Report) -> dict[str, Any]:
    path = None if report.path is None else report.path.as_dict()
    quantities = {name: report.findings[name].as_dict() for name in ("G", "B", "power", "critical_batch")}
    return {"distance": report.probes.radius, "path": path, **quantities}


def measure(*, quick: bool = False) -> list[dict[str, Any]]:
    """Measure every network; one of them, with few probes, if quick."""
    torch.set_num_threads(1)
    return [measured(name, 24 if quick else BUDGET) for name in list(TRAININGS)[: 1 if quick else None]]
