"""A model that FSDP2 has cut over processes is saved, and loaded by another number of them, empty shards included."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from test_torch_distributed import KINDS, OPTIONS, TIMEOUT, closure_of, network, whole
from torch import Tensor
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from gladstorm.torch import NSTORM, by_layer
from optimizers import UNTUNED

PROCESSES, SAVED, STEPS = 3, 3, 6
MADE = KINDS | {"nstorm by layer": NSTORM, "adamw": torch.optim.AdamW}
WAYS = [(2, 3), (3, 2), (2, 1), (3, 1), (1, 3)]  # from how many processes to how many


def one_row() -> torch.nn.Sequential:
    """A network of which all processes but the first have nothing."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 1)).double()


NETWORKS = {"layers": network, "one row": one_row}


def batch(k: int) -> Tensor:
    return torch.randn(12, 3, generator=torch.Generator().manual_seed(k), dtype=torch.float64)


def made(kind: str, model: torch.nn.Module) -> Any:
    options = {"horizon": STEPS} if MADE[kind] in UNTUNED else {} if kind == "adamw" else OPTIONS
    return MADE[kind](by_layer(model) if kind.endswith("by layer") else model.parameters(), **options)


def train(model: torch.nn.Module, optimizer: Any, steps: Iterable[int], share: slice = slice(None)) -> None:
    for k in steps:
        optimizer.step(closure_of(model, batch(k)[share]))


def cut(model: torch.nn.Sequential, mesh: DeviceMesh | None) -> torch.nn.Sequential:
    if mesh is not None:
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def parts(model: torch.nn.Module, optimizer: Any) -> dict[str, Any]:
    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))


def save(of: str, kind: str, folder: Path, share: slice, mesh: DeviceMesh | None = None) -> None:
    model = cut(NETWORKS[of](), mesh)
    optimizer = made(kind, model)
    train(model, optimizer, range(SAVED), share)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one process, which torch takes to be unusual
        state_dict_saver.save(parts(model, optimizer), checkpoint_id=folder, process_group=mesh and mesh.get_group())


def load(of: str, kind: str, folder: Path, share: slice, mesh: DeviceMesh | None = None) -> list[Tensor]:
    """Parameters after the rest of the training."""
    model = cut(NETWORKS[of](), mesh)
    for p in model.parameters():
        torch.nn.init.zeros_(p)
    optimizer = made(kind, model)
    state = parts(model, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state_dict_loader.load(state, checkpoint_id=folder, process_group=mesh and mesh.get_group())
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    train(model, optimizer, range(SAVED, STEPS), share)
    return [whole(p) for p in model.parameters()]


def process(rank: int, folder: str) -> None:
    """Take part in saving and loading on the first two processes, and on all."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=PROCESSES)
    groups = {count: dist.new_group(list(range(count))) for count in (2, 3)}  # which every process has to make
    meshes = {count: DeviceMesh.from_group(group, "cpu") for count, group in groups.items() if rank < count}
    shares = {count: slice(rank * (12 // count), (rank + 1) * (12 // count)) for count in meshes}
    for (of, kind), (count, mesh) in product(product(NETWORKS, MADE), meshes.items()):
        save(of, kind, Path(folder) / f"{of} {kind} {count}", shares[count], mesh)
    dist.barrier()
    results = {
        (of, kind, start, count): load(of, kind, Path(folder) / f"{of} {kind} {start}", shares[count], meshes[count])
        for (of, kind), (start, count) in product(product(NETWORKS, MADE), WAYS)
        if count in meshes
    }
    torch.save(results, Path(folder) / f"rank{rank}")
    dist.barrier()
    os._exit(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    for of, kind in product(NETWORKS, MADE):
        save(of, kind, folder / f"{of} {kind} 1", slice(None))
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=process, args=(rank, str(folder))) for rank in range(PROCESSES)]
    for one in processes:
        one.start()
    for one in processes:
        one.join(TIMEOUT)
        one.kill()
        one.join()
    assert [one.exitcode for one in processes] == [0] * PROCESSES
    return folder


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize(("start", "count"), WAYS)
@pytest.mark.parametrize("of", NETWORKS)
def test_a_training_goes_on_with_another_number_of_processes(
    folder: Path, of: str, kind: str, start: int, count: int
) -> None:
    alone = NETWORKS[of]()
    train(alone, made(kind, alone), range(STEPS))
    if count == 1:
        found = [load(of, kind, folder / f"{of} {kind} {start}", slice(None))]
    else:
        found = [torch.load(folder / f"rank{rank}")[of, kind, start, count] for rank in range(count)]
    for params in found:
        for p, q in zip(params, alone.parameters(), strict=True):
            torch.testing.assert_close(p, q.detach(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in MADE if kind != "adamw"])
def test_a_checkpoint_names_parameters_as_torch_s_own_optimizers_do(folder: Path, kind: str) -> None:
    def named(kind: str) -> set[str]:
        entries = FileSystemReader(folder / f"layers {kind} 3").read_metadata().state_dict_metadata
        return {name.rpartition(".")[0] for name in entries if name.startswith("optimizer.state.")}

    assert named(kind) == named("adamw") == {f"optimizer.state.{name}" for name, _ in network().named_parameters()}
