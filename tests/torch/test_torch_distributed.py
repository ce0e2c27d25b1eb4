"""Two processes on this machine: DDP, FSDP2 and tensor parallelism take the steps of one process on the whole batch."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from gladstorm.torch import NSGDM, NoiseProbe, by_layer
from gladstorm.torch.norms import norm_of
from gladstorm.torch.step_norms import LayerNorms
from gladstorm.torch.unit_steps import UNIT_STEPS, unit_steps
from optimizers import TORCH, UNTUNED

WORLD, STEPS = 2, 6
TIMEOUT = 1200  # seconds, generous: no test is about time
OPTIONS: dict[str, Any] = {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.05}
KINDS = {kind.__name__.lower(): kind for kind in TORCH} | {"nsgdm by layer": NSGDM, "untuned by layer": UNTUNED[0]}
PAIRS = [slice(i, i + 2) for i in range(0, 8, 2)]  # of the samples of a batch
MEASURED = ("step", "distance", "groups", "samples", "noise", "gradient2")

PLACEMENTS = {"rows": Shard(0), "columns": Shard(1), "copies": Replicate()}
MATRIX = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

Results = dict[tuple[str, str], list[Tensor]]  # by way and method


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    # 5 rows do not divide by two processes: one shard is larger
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)).double()


def wider_network() -> torch.nn.Sequential:
    """One with a width that tensor parallelism can divide, and a layer whose input it cuts instead of its weights."""
    torch.manual_seed(0)
    layers = torch.nn.LayerNorm(3), torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1)
    return torch.nn.Sequential(*layers).double()


def tensor_parallel(model: torch.nn.Sequential) -> torch.nn.Sequential:
    mesh = init_device_mesh("cpu", (WORLD,))
    parallelize_module(model, mesh, PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(0)))
    first = SequenceParallel(sequence_dim=0, use_local_output=False)
    plan = {"0": first, "1": ColwiseParallel(input_layouts=Shard(0)), "3": RowwiseParallel()}
    parallelize_module(model, mesh, plan)
    return model


def batch(k: int) -> Tensor:
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(k), dtype=torch.float64)


def closure_of(model: torch.nn.Module, x: Tensor) -> Callable[[], float]:
    def closure() -> float:
        model.zero_grad()
        loss: Tensor = (model(x) - 1).square().mean()
        loss.backward()
        return loss.item()

    return closure


def train(model: torch.nn.Module, kind: str, share: slice) -> Any:
    """Each process evaluates its share of every batch."""
    options = {"horizon": STEPS} if KINDS[kind] in UNTUNED else OPTIONS
    optimizer = KINDS[kind](by_layer(model) if kind.endswith("by layer") else model.parameters(), **options)
    for k in range(STEPS):
        with spoilt(model) if k == 3 else nullcontext():
            optimizer.step(closure_of(model, batch(k)[share]))
        assert optimizer.skipped == (k >= (4 if kind == "nstorm" else 3))  # by its estimate, when that would move it
    return optimizer


@contextmanager
def spoilt(model: torch.nn.Module) -> Iterator[None]:
    """Make a gradient bad; where they are cut, only the first process's part: the other must skip all the same."""
    p = next(model.parameters())

    def spoil(p: Tensor) -> None:
        if not isinstance(p.grad, DTensor) or dist.get_rank() == 0:
            p.grad = cast(Tensor, p.grad) * float("nan")

    hook = p.register_post_accumulate_grad_hook(spoil)
    yield
    hook.remove()


def whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach()


def estimate(optimizer: Any, p: Tensor) -> Tensor:
    state: dict[str, Tensor] = optimizer.state[p]
    return state["squares"] if "squares" in state else state["momentum_buffer"]


def refuses_parts() -> None:
    """FSDP1 hands over a part of the parameters, and a part has another norm."""
    for original in (False, True):
        old = FullyShardedDataParallel(network(), use_orig_params=original, device_id=torch.device("cpu"))
        with pytest.raises(ValueError, match=r"^NSGDM: parameters must be whole or say .* got FSDP1's"):
            NSGDM(old.parameters(), lr=0.1)


def probe_steps(model: torch.nn.Module, groups: list[slice], *, layers: bool = False) -> NoiseProbe:
    """Train on the mean over micro-batches, clipped, with a probe of every step."""
    optimizer = NSGDM(by_layer(model)) if layers else torch.optim.SGD(model.parameters(), lr=0.1)
    probe = NoiseProbe(optimizer, every=1, samples=2)
    for k in range(STEPS):
        optimizer.zero_grad()
        for group in groups:
            ddp = model if isinstance(model, DistributedDataParallel) else None
            with nullcontext() if ddp is None or group is groups[-1] else ddp.no_sync():
                ((model(batch(k)[group]) - 1).square().mean() / len(groups)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    return probe


def look_at_steps(model: torch.nn.Module, share: slice, read: list[dict[str, float]] | None) -> NoiseProbe | None:
    """Train with a look at every step, if there is a list for what is read."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe = None if read is None else NoiseProbe(model, every=1, on_reading=read.append)
    for k in range(STEPS):
        closure_of(model, batch(k)[share])()
        if probe is not None:
            probe.look(lambda model, x: (model(x) - 1).square().mean(), batch(k)[share])
        optimizer.step()
    return probe


def look_in_layers(model: torch.nn.Module, share: slice) -> NoiseProbe:
    """Train with a look at every step, in the norms of the optimizer."""
    optimizer = NSGDM(by_layer(model), lr=0.1)
    probe = NoiseProbe(model, every=1, norms=optimizer)
    for k in range(STEPS):
        closure_of(model, batch(k)[share])()
        probe.look(lambda model, x: (model(x) - 1).square().mean(), batch(k)[share])
        optimizer.step()
    return probe


def cut(model: torch.nn.Sequential) -> torch.nn.Sequential:
    mesh = init_device_mesh("cpu", (WORLD,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def looks_at_shards(share: slice) -> list[Tensor]:
    """What a probe measures and reads of a model that FSDP2 has cut: the training has the bits of one without it."""
    read: list[dict[str, float]] = []
    alone, probed = cut(network()), cut(network())
    look_at_steps(alone, share, None)
    probe = look_at_steps(probed, share, read)
    assert probe is not None
    for one, other in zip(alone.parameters(), probed.parameters(), strict=True):
        assert torch.equal(whole(one), whole(other))
        assert torch.equal(whole(cast(Tensor, one.grad)), whole(cast(Tensor, other.grad)))
    with pytest.raises(
        ValueError, match=r"^NoiseProbe: parameters must be whole; got a part .* Give NoiseProbe\(model"
    ):
        NoiseProbe(torch.optim.SGD(probed.parameters(), lr=0.1))
    mixed = network()
    fully_shard(mixed[0], mesh=init_device_mesh("cpu", (WORLD,)))  # the other layer is whole, and nothing reduces it
    with pytest.raises(ValueError, match=r"^NoiseProbe: parameters must be whole, or all be cut by fully_shard"):
        NoiseProbe(mixed)
    lost = NoiseProbe(probed)
    bad = torch.full((4, 3), float("nan") if share.start else 1.0).double()  # in one process only: none waits
    lost.look(lambda model, x: (model(x) - 1).square().mean(), bad)
    with pytest.raises(ValueError, match="there must be at least one probe"):
        _ = lost.probes
    assert len(read) == len(probe.probes)
    return [torch.tensor(getattr(probe.probes, name)) for name in MEASURED]


def process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    share = slice(rank * 4, rank * 4 + 4)
    results: Results = {}
    for kind in KINDS:
        model = DistributedDataParallel(network())
        train(model, kind, share)
        results["ddp", kind] = [p.detach() for p in model.module.parameters()]

        sharded = cut(network())
        optimizer = train(sharded, kind, share)
        assert all(isinstance(p, DTensor) for p in sharded.parameters())
        buffers = [estimate(optimizer, p) for p in sharded.parameters()]
        assert all(isinstance(v, DTensor) for v in buffers)
        results["fsdp", kind] = [whole(p) for p in sharded.parameters()]
        results["fsdp estimate", kind] = [whole(v) for v in buffers]

        parallel = tensor_parallel(wider_network())
        optimizer = train(parallel, kind, slice(None))
        results["tp", kind] = [whole(p) for p in parallel.parameters()]
        results["tp estimate", kind] = [whole(estimate(optimizer, p)) for p in parallel.parameters()]
    refuses_parts()
    probes = probe_steps(DistributedDataParallel(network()), PAIRS[2 * rank : 2 * rank + 2]).probes
    results["probes", ""] = [torch.tensor(getattr(probes, name)) for name in MEASURED]
    results["looks", ""] = looks_at_shards(share)
    in_layers = probe_steps(DistributedDataParallel(network()), PAIRS[2 * rank : 2 * rank + 2], layers=True).probes
    results["probes in layers", ""] = [torch.tensor(getattr(in_layers, name)) for name in MEASURED]
    in_layers = look_in_layers(cut(network()), share).probes
    results["looks in layers", ""] = [torch.tensor(getattr(in_layers, name)) for name in MEASURED]
    mesh = init_device_mesh("cpu", (WORLD,))
    sizes = (torch.full((5,), 3e38), torch.full((1,), 1e-42), torch.full((3,), 1e200, dtype=torch.float64))
    results["norms", ""] = [norm_of([distribute_tensor(v, mesh, [Shard(0)])]) for v in sizes]  # one shard is empty
    for norm, (name, cut_) in product(UNIT_STEPS, PLACEMENTS.items()):
        ((_, (part,)),) = unit_steps([distribute_tensor(MATRIX, mesh, [cut_])], norm)
        unit = DTensor.from_local(part, mesh, [cut_], shape=MATRIX.shape, stride=MATRIX.stride())
        results[f"unit step by {name}", norm] = [unit.full_tensor()]
    torch.save(results, Path(folder) / f"rank{rank}")
    dist.barrier()
    os._exit(0)  # not by way of torch's own end, which now and then aborts: tests/test_guide.py says how


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Results]:
    folder = tmp_path_factory.mktemp("processes")
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    processes = [context.Process(target=process, args=(rank, str(folder))) for rank in range(WORLD)]
    for one in processes:
        one.start()
    for one in processes:
        one.join(TIMEOUT)
        one.kill()  # if it is still there; its partner then fails too
        one.join()
    assert [one.exitcode for one in processes] == [0] * WORLD
    return [torch.load(folder / f"rank{rank}", weights_only=True) for rank in range(WORLD)]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("way", ["ddp", "fsdp", "tp"])
def test_two_processes_agree_bit_for_bit_and_with_one_process_on_the_whole_batch(
    ranks: list[Results], way: str, kind: str
) -> None:
    model = wider_network() if way == "tp" else network()
    optimizer = train(model, kind, slice(None))
    for first, second, alone in zip(*(rank[way, kind] for rank in ranks), model.parameters(), strict=True):
        assert torch.equal(first, second)
        torch.testing.assert_close(first, alone.detach(), rtol=0, atol=1e-12)
    if way != "ddp":
        for v, p in zip(ranks[0][f"{way} estimate", kind], model.parameters(), strict=True):
            torch.testing.assert_close(v, estimate(optimizer, p), rtol=0, atol=1e-12)


def test_a_probe_of_two_processes_has_the_numbers_of_one_process_with_the_same_micro_batches(
    ranks: list[Results],
) -> None:
    alone = probe_steps(network(), PAIRS).probes
    assert alone.groups.tolist() == [4] * STEPS
    for rank in ranks:
        for found, name in zip(rank["probes", ""], MEASURED, strict=True):
            assert found.numpy() == pytest.approx(getattr(alone, name)), name


def test_in_norms_of_layers_probes_of_two_processes_are_those_of_one(ranks: list[Results]) -> None:
    swapped = [PAIRS[i] for i in (0, 1, 3, 2)]  # the second process begins with the other half
    alone = probe_steps(network(), swapped, layers=True).probes
    model = network()
    optimizer = NSGDM(by_layer(model), lr=0.1)
    of, start = LayerNorms(optimizer.param_groups), [p.detach().clone() for p in LayerNorms(by_layer(model)).params]
    looks = []
    for k in range(STEPS):
        parts = [(model(batch(k)[half]) - 1).square().mean() for half in ([0, 1, 4, 5], [2, 3, 6, 7])]
        measured = of.measure([torch.autograd.grad(part, of.params) for part in parts], 4)
        looks.append([k, of.length([p.detach() - x for p, x in zip(of.params, start, strict=True)]), 2, 4, *measured])
        optimizer.step(closure_of(model, batch(k)))
    for rank in ranks:
        for found, name, column in zip(rank["probes in layers", ""], MEASURED, range(6), strict=True):
            assert found.numpy() == pytest.approx(getattr(alone, name)), name
            by_hand = [row[column] for row in looks]
            assert rank["looks in layers", ""][column].numpy() == pytest.approx(by_hand, abs=1e-12), name


def test_a_look_at_shards_compares_the_same_halves_of_all_processes_mini_batches(ranks: list[Results]) -> None:
    model = network()
    params, start = list(model.parameters()), torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    optimizer = torch.optim.SGD(params, lr=0.1)
    halves = [[0, 1, 4, 5], [2, 3, 6, 7]]  # each process has four samples: two and two
    expected = []
    for k in range(STEPS):
        x = torch.nn.utils.parameters_to_vector(params).detach()
        of_halves = []
        for half in halves:
            loss = (model(batch(k)[half]) - 1).square().mean()
            of_halves.append(torch.cat([g.ravel() for g in torch.autograd.grad(loss, params)]))
        A, B = of_halves
        row = [k, (x - start).norm(), 2, 4, 2 * (A - B).square().sum(), A @ B]
        expected.append([float(each) for each in row])
        optimizer.step(closure_of(model, batch(k)))
    for rank in ranks:
        found = torch.stack([each.double() for each in rank["looks", ""]], dim=1)
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12)


def test_the_norm_over_all_shards_is_right_at_any_size(ranks: list[Results]) -> None:
    for rank in ranks:
        found = [norm.item() for norm in rank["norms", ""]]
        assert found == pytest.approx([3e38 * 5**0.5, torch.tensor(1e-42).item(), 1e200 * 3**0.5], rel=1e-6, abs=0)


@pytest.mark.parametrize("norm", UNIT_STEPS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_unit_step_is_that_of_the_whole_matrix_however_it_is_cut(
    ranks: list[Results], placement: str, norm: str
) -> None:
    for rank in ranks:
        (unit,) = rank[f"unit step by {placement}", norm]
        torch.testing.assert_close(unit, UNIT_STEPS[norm](MATRIX), rtol=0, atol=1e-13)
