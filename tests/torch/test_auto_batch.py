"""Batches that grow: when they may, what the training keeps, and the same decisions on one process and on two."""

from __future__ import annotations

import copy
import io
import math
import multiprocessing
import os
from contextlib import nullcontext
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR

from gladstorm.core.batch_control import FEWEST_LOOKS, PACES, REASONS, BatchControl
from gladstorm.torch import NSGDM, AutoBatch, auto_batch, by_layer, norms, scale_batch

MICRO, BUDGET, WORLD = 2, 3200, 2
KINDS: dict[str, Any] = {
    "SGD": lambda model: torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9),
    "AdamW": lambda model: torch.optim.AdamW(model.parameters(), lr=0.001),
    "NSGDM by layer": lambda model: NSGDM(by_layer(model), lr=0.001),
}


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(4, 2).double()


def micro_batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return list((1 + 10 * torch.randn(BUDGET, 4, generator=generator, dtype=torch.float64)).split(MICRO))


def loss_of(model: torch.nn.Module, x: Tensor) -> Tensor:
    """A slope: steps agree, whatever the noise."""
    result: Tensor = model(x).mean()
    return result


def schedule_of(optimizer: torch.optim.Optimizer) -> LambdaLR:
    return LambdaLR(optimizer, lambda k: max(0.0, 1 - k * 2 * MICRO / BUDGET))


def train(kind: str = "AdamW", **options: Any) -> tuple[torch.nn.Module, AutoBatch, list[dict[str, Any]]]:
    model = network()
    read: list[dict[str, Any]] = []
    optimizer = KINDS[kind](model)
    auto = AutoBatch(optimizer, budget=BUDGET, micro=MICRO, on_reading=read.append, **options)
    schedule = schedule_of(optimizer)
    for x in micro_batches():
        (loss_of(model, x) * auto.share).backward()
        if auto.due():
            auto.step(schedule)
    return model, auto, read


def train_alone(kind: str) -> torch.nn.Module:
    model = network()
    optimizer = KINDS[kind](model)
    schedule = schedule_of(optimizer)
    for first, second in zip(*[iter(micro_batches())] * 2, strict=True):
        for x in (first, second):
            (loss_of(model, x) / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model


def values(model: torch.nn.Module) -> list[Tensor]:
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("kind", KINDS)
def test_while_nothing_grows_the_training_keeps_its_bits(kind: str) -> None:
    alone = values(train_alone(kind))
    for options in ({"largest": 1}, {"dry_run": True}):
        model, auto, read = train(kind, **options)
        assert all(map(torch.equal, values(model), alone))
        assert (auto.samples, auto.steps, auto.share) == (BUDGET, BUDGET // 4, 0.5)
    assert {each["batch/size"] for each in read} > {4}  # the dry run says what it would have done


@pytest.mark.parametrize("kind", KINDS)
def test_in_noise_batches_grow_and_every_sample_is_counted_once(kind: str) -> None:
    model, auto, read = train(kind)
    sizes = [each["batch/size"] for each in read]
    assert sizes[:FEWEST_LOOKS] == [4] * FEWEST_LOOKS
    assert max(sizes) >= 8
    assert auto.samples == sum([4, *sizes[:-1]])
    assert BUDGET - auto.samples < sizes[-1]  # what is left is less than a step
    assert read[-1]["batch/steps_saved"] == auto.samples // 4 - auto.steps > 0
    assert read[-1]["batch/lr_factor"] > read[0]["batch/lr_factor"] == 1
    assert auto._control.noise.mean() == pytest.approx(50, rel=0.2)  # of a mean over 4 samples, however many a step has
    assert loss_of(model, torch.ones(1, 4).double()) < loss_of(network(), torch.ones(1, 4).double())


def test_the_optimizer_is_scaled_with_the_critical_batch_in_batches_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[float, float]] = []

    def spy(optimizer: Any, factor: float, critical: float, *, scheduler: Any) -> None:
        given.append((factor, critical))
        scale_batch(optimizer, factor, critical, scheduler=scheduler)

    monkeypatch.setattr(auto_batch, "scale_batch", spy)
    _, _, read = train(pace="fast")
    changes = [(before, after) for before, after in pairwise(read) if after["batch/size"] != before["batch/size"]]
    assert len(changes) == len(given) > 1
    for (factor, critical), (before, after) in zip(given, changes, strict=True):
        assert factor == after["batch/size"] / before["batch/size"]
        assert critical == pytest.approx(after["batch/critical"] / before["batch/size"])


def test_a_schedule_has_the_rate_of_the_middle_of_a_step_and_counts_steps_of_the_first_size() -> None:
    optimizer = torch.optim.SGD(network().parameters(), lr=1.0)
    auto = AutoBatch(optimizer, budget=BUDGET, micro=MICRO)
    schedule, rates = LambdaLR(optimizer, lambda k: 1 - k / 800), []
    optimizer.register_step_pre_hook(lambda *_: rates.append(optimizer.param_groups[0]["lr"]))
    optimizer.step()
    auto._control = auto._control._replace(factor=4)
    for _ in range(4):
        for _ in range(8):
            assert auto._have < 8
            auto.due()
        auto.step(schedule)
    assert rates[1:] == pytest.approx([1 - k / 800 for k in (2, 6, 10, 14)])
    assert auto.samples == 4 * 16


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # of one process, which torch takes for a mistake
@pytest.mark.parametrize("after", [3, 0])  # steps: just after a change there is no gradient to compare with
@pytest.mark.parametrize("way", ["file", "distributed"])
def test_a_training_goes_on_to_the_bit_from_its_states(tmp_path: Path, way: str, after: int) -> None:
    whole, _, _ = train()
    model = network()
    optimizer = KINDS["AdamW"](model)
    auto, schedule = AutoBatch(optimizer, budget=BUDGET, micro=MICRO), schedule_of(optimizer)
    saved = None
    for x in micro_batches():
        (loss_of(model, x) * auto.share).backward()
        if auto._have == 0 and auto.factor > 1:
            with pytest.raises(RuntimeError, match=r"^AutoBatch: state_dict must be taken between steps; got 1 micro"):
                auto.due() or auto.state_dict()
            auto._have -= 1
        if auto.due():
            auto.step(schedule)
            if saved is None and auto.factor == 2 and auto._control.since_change == after:
                saved = io.BytesIO()
                save({"auto": auto}, checkpoint_id=tmp_path / "distributed")
                torch.save([each.state_dict() for each in (model, optimizer, schedule, auto)], saved)
                model = network()
                optimizer = KINDS["AdamW"](model)
                auto, schedule = AutoBatch(optimizer, budget=BUDGET, micro=MICRO), schedule_of(optimizer)
                saved.seek(0)
                states = torch.load(saved, weights_only=True)
                parts = model, optimizer, schedule, auto
                for each, state in zip(parts[: 4 if way == "file" else 3], states, strict=way == "file"):
                    each.load_state_dict(state)
                if way == "distributed":
                    load({"auto": auto}, checkpoint_id=tmp_path / "distributed")
    assert saved is not None
    assert all(map(torch.equal, values(model), values(whole)))


def test_another_number_of_processes_keeps_the_samples_of_a_step_or_is_refused() -> None:
    _, auto, _ = train(largest=1, accumulate=4)
    state = auto.state_dict()
    finer = AutoBatch(torch.optim.SGD(network().parameters()), budget=BUDGET, micro=1)
    finer.load_state_dict(copy.deepcopy(state))
    assert (finer.accumulate, finer.share, finer.samples) == (8, 0.125, BUDGET)
    for micro in (3, 8):  # which does not divide 8, or leaves nothing to compare
        other = AutoBatch(torch.optim.SGD(network().parameters()), budget=BUDGET, micro=micro)
        with pytest.raises(ValueError, match=rf"^AutoBatch: steps must have the 8 samples .* got {micro} in a micro"):
            other.load_state_dict(state)


def test_a_long_training_looks_at_two_steps_running_of_eight() -> None:
    model = network()
    auto = AutoBatch(torch.optim.SGD(model.parameters()), budget=10**6, micro=MICRO)
    for x in micro_batches()[:34]:
        (loss_of(model, x) * auto.share).backward()
        if auto.due():
            auto.step()
    control = auto._control
    assert (auto.steps, control.looks) == (17, 5)  # 0, 7, 8, 15, 16
    assert control.agreement.weight == pytest.approx(2, abs=0.2)  # of 7 with 8, and of 15 with 16


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"micro": 0}, "micro must be a whole number ≥ 1; got micro=0"),
        ({"accumulate": 1}, "accumulate must be at least 2 in one process .* got accumulate=1. Halve"),
        ({"largest": 6}, "largest must be a power of two; got largest=6"),
        ({"pace": "quick"}, "pace must be 'safe' or 'fast'; got pace='quick'"),
        ({"pace": "fast"}, "pace must be 'safe' for SGD"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^AutoBatch: {words}"):
        AutoBatch(torch.optim.SGD(network().parameters()), **{"budget": BUDGET, "micro": MICRO, **options})


def test_an_optimizer_without_a_rule_and_a_step_before_its_time_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^AutoBatch: optimizer must be one of SGD, .*; got Adagrad"):
        AutoBatch(torch.optim.Adagrad(network().parameters()), budget=BUDGET, micro=MICRO)
    auto = AutoBatch(torch.optim.SGD(network().parameters()), budget=BUDGET, micro=MICRO)
    auto.due()
    with pytest.raises(RuntimeError, match=r"^AutoBatch: step\(\) must follow due\(\) .* got 1 micro-batches of 2"):
        auto.step()


def watched(optimizer: torch.optim.Optimizer, loss: Any, steps: int, **options: Any) -> tuple[list[int], list[str]]:
    """Factors and reasons of a training whose loss is a function of the share of it that is over."""
    read: list[dict[str, Any]] = []
    auto = AutoBatch(optimizer, budget=2 * MICRO * steps, micro=MICRO, on_reading=read.append, **options)
    for k in range(2 * steps):
        (loss(k / (2 * steps)) * auto.share).backward()
        if auto.due():
            auto.step()
    return [each["batch/size"] // (2 * MICRO) for each in read], [each["batch/reason"] for each in read]


def bowl(rate: float, start: float, **options: Any) -> tuple[list[int], list[str], float]:
    """‖x − ξ‖²/2 with a constant rate, which may be at most 2: factors, reasons, and the mean of ‖x‖² at last."""
    generator = torch.Generator().manual_seed(0)
    x, squares = torch.nn.Parameter(torch.full((8,), start, dtype=torch.float64)), []

    def loss(_: float) -> Tensor:
        squares.append(x.detach().square().sum())
        away: Tensor = x - torch.randn(MICRO, 8, generator=generator, dtype=torch.float64)
        return away.square().sum(1).mean() / 2

    factors, reasons = watched(torch.optim.SGD([x], lr=rate), loss, 800, **options)
    return factors, reasons, torch.stack(squares[1000:]).mean().item()


@pytest.mark.parametrize(
    ("rate", "reason"), [(0.15, "steps disagree"), (0.2, "steps disagree"), (1.2, "too little noise")]
)
def test_a_rate_that_is_too_high_for_larger_batches_is_recognized_and_they_stay_small(rate: float, reason: str) -> None:
    assert max(bowl(0.01, start=3.0)[0]) >= 4
    factors, reasons, _ = bowl(rate, start=3.0)
    assert set(factors) == {1}
    assert reason in reasons


def test_at_a_constant_rate_growth_ends_where_noise_moves_the_parameters_and_the_loss_stays() -> None:
    factors, reasons, end = bowl(0.02, start=0.0)
    assert (max(factors), reasons[-1]) == (4, "steps disagree")  # though the critical batch is above 60
    assert end < 1.1 * bowl(0.02, start=0.0, largest=1)[2]


def teacher(kind: str, noise: float) -> list[int]:
    """Factors while a linear student learns from a linear teacher, whose loss goes to 0 where there is no noise."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    student, weights = torch.nn.Linear(8, 4, bias=False), torch.randn(4, 8, generator=generator)
    makers: dict[str, Any] = {
        "SGD": lambda: torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9),
        "AdamW": lambda: torch.optim.AdamW(student.parameters(), lr=0.01),
        "NSGDM by layer": lambda: NSGDM(by_layer(student), lr=0.05),
        "Muon": lambda: torch.optim.Muon(student.parameters(), lr=0.02),
    }

    def loss(_: float) -> Tensor:
        x = torch.randn(MICRO, 8, generator=generator)
        y = x @ weights.T + noise * torch.randn(MICRO, 4, generator=generator)
        result: Tensor = (student(x) - y).square().mean()
        return result

    return watched(makers[kind](), loss, 600)[0]


@pytest.mark.parametrize("kind", [*KINDS, *(["Muon"] if hasattr(torch.optim, "Muon") else [])])
def test_where_the_loss_goes_to_0_batches_stay_small_and_where_noise_stays_they_grow(kind: str) -> None:
    assert set(teacher(kind, noise=0.0)) == {1}
    assert max(teacher(kind, noise=3.0)) >= 4


def test_where_noise_falls_and_the_gradient_stays_the_batch_goes_back() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.nn.Parameter(torch.zeros(8, dtype=torch.float64))

    def loss(over: float) -> Tensor:
        noise = (10.0 if over < 0.4 else 1.6) * torch.randn(MICRO, 8, generator=generator, dtype=torch.float64)
        result: Tensor = ((1 + noise) @ x).mean()
        return result

    factors, reasons = watched(torch.optim.SGD([x], lr=1e-4), loss, 800)
    assert (max(factors), factors[-1]) == (4, 1)
    assert "back, too little noise" in reasons


def test_batch_norm_sees_micro_batches_of_the_same_size_however_large_a_step_is() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2)).double()
    sizes: list[int] = []
    model[1].register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(1)

    def loss(_: float) -> Tensor:
        noise = torch.randn(MICRO, 2, generator=generator, dtype=torch.float64)
        result: Tensor = ((0.1 + noise) * model(torch.randn(MICRO, 4, generator=generator).double())).mean()
        return result + sum(p.sum() for p in model.parameters())

    factors, _ = watched(optimizer, loss, 400)
    assert max(factors) >= 2
    assert set(sizes) == {MICRO}
    assert model[1].num_batches_tracked == len(sizes) == 800


def control(pace: str = "safe", largest: int = 32) -> BatchControl:
    return BatchControl(1000.0, PACES[pace], largest)


def advance(
    control: BatchControl, noise: float, gradient2: float, agreement: float, steps: int = 60
) -> tuple[BatchControl, list[int]]:
    factors = []
    for _ in range(steps):
        control = control.look(noise, gradient2, agreement)
        control = control.advance(control.factor)
        factors.append(control.factor)
    return control, factors


@pytest.mark.parametrize(("pace", "theta"), [("safe", 0.5), ("fast", 2.0)])
def test_batches_reach_half_of_theta_times_the_critical_batch(pace: str, theta: float) -> None:
    _, factors = advance(control(pace), noise=96.0, gradient2=4.0, agreement=3.6, steps=400)
    assert factors[-1] == 2 ** math.floor(math.log2(theta * 24))
    assert factors[:19] == [1] * 19  # two percent of the budget
    changes = [k for k in range(1, len(factors)) if factors[k] != factors[k - 1]]
    assert min(after - before for before, after in pairwise(changes)) >= 8


@pytest.mark.parametrize(
    ("noise", "gradient2", "agreement", "reason"),
    [
        (2.0, 1.0, 1.0, "too little noise"),
        (100.0, 1.0, 0.3, "steps disagree"),
        (100.0, 1.0, math.nan, "steps disagree"),
        (100.0, -1.0, 1.0, "steps disagree"),  # nothing is known of a gradient that cannot be told from 0
    ],
)
def test_batches_stay_where_they_may_not_grow(noise: float, gradient2: float, agreement: float, reason: str) -> None:
    slow, factors = advance(control(), noise, gradient2, agreement)
    assert factors == [1] * 60
    assert REASONS[slow.reason] == reason


def test_the_critical_batch_lies_between_its_ends_and_the_lower_one_decides() -> None:
    unsure = control()
    for k in range(40):
        unsure = unsure.look(24.0, 1.0 + 2.0 * (-1) ** k, 1.0).advance(1)
    low, high = unsure.critical_interval()
    assert low < 0.8 * unsure.critical()
    assert unsure.critical() < 0.8 * high
    assert unsure.factor == 2 ** math.floor(math.log2(0.5 * low))


def test_batches_stop_growing_where_the_noise_fades() -> None:
    fading, _ = advance(control(largest=1024), 5000.0, 1.0, 1.0, steps=40)
    reached = fading.factor
    for k in range(100):
        fading = fading.look(5000 * 0.9**k, 0.9**k, 0.9**k)  # the loss goes to 0: the critical batch stays
        fading = fading.advance(fading.factor)
    assert REASONS[fading.reason] == "noise fades"
    assert fading.factor <= 16 * reached < 1024


@pytest.mark.parametrize(("pace", "theta"), [("safe", 0.5), ("fast", 2.0)])
def test_batches_go_back_where_the_critical_batch_falls_below_them(pace: str, theta: float) -> None:
    falling, _ = advance(control(pace, largest=64), noise=64 / theta, gradient2=1.0, agreement=1.0, steps=200)
    assert falling.factor == 64
    falling, factors = advance(falling, noise=24 / theta, gradient2=1.0, agreement=1.0, steps=400)
    assert factors[-1] == 32  # 64 is above 2θB = 48, and 32 is above θB: it would not grow there, and does not go back
    assert REASONS[falling.reason] == "too little noise"
    changes = [k for k in range(1, len(factors)) if factors[k] != factors[k - 1]]
    assert len(changes) == 1
    falling, _ = advance(falling, noise=0.4 / theta, gradient2=1.0, agreement=1.0, steps=400)
    assert falling.factor == 1


def test_steps_begin_at_multiples_of_their_own_size() -> None:
    odd = control()._replace(progress=1)  # as after a first step that nobody looked at
    _, factors = advance(odd, noise=1000.0, gradient2=1.0, agreement=1.0, steps=100)
    assert factors[-1] == 32
    begins = list(accumulate([1, 1, *factors]))[1:-1]  # a step of that size begins there
    assert all(begin % factor == 0 for begin, factor in zip(begins, factors, strict=True))


def test_a_surge_halves_the_batch_and_each_pause_is_twice_as_long() -> None:
    surging, _ = advance(control(largest=8), 100.0, 1.0, 1.0, steps=100)
    assert surging.factor == 8
    for pause, gradient2 in ((50.0, 1e4), (100.0, 1e12)):
        before = surging.factor
        surging = surging.look(100.0, gradient2, 1.0).advance(surging.factor)  # one may be chance
        assert surging.factor == before
        surging = surging.look(100.0, gradient2**2, 1.0).advance(surging.factor)
        assert surging.factor == before // 2
        assert surging.paused_until == pytest.approx(surging.progress + pause)
        assert REASONS[surging.reason] == "back after a surge"
        surging = surging.look(100.0, 1.0, 1.0).advance(surging.factor)
        assert REASONS[surging.reason] == "pause after a surge"
        surging = surging._replace(progress=surging.paused_until)


def steps_of(
    model: torch.nn.Module, rank: int = 0, processes: int = 1, *, accumulate: int = 2, micro: int = MICRO
) -> tuple[AutoBatch, list[Tensor]]:
    """Batch sizes and critical batches of a training whose micro-batches the processes share, and where it ends."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    read: list[dict[str, Any]] = []
    cut = model if isinstance(model, FSDPModule) else None
    auto = AutoBatch(optimizer, budget=BUDGET, micro=micro, accumulate=accumulate, model=cut, on_reading=read.append)
    waiting = iter(torch.cat(micro_batches()).split(micro))
    ddp = model if isinstance(model, DistributedDataParallel) else None
    while not auto.finished:
        pieces = [next(waiting, None) for _ in range(processes * auto.accumulate * auto.factor)]
        if pieces[-1] is None:
            break
        mine = pieces[rank::processes]
        for k, x in enumerate(mine):
            assert x is not None
            with nullcontext() if ddp is None or k == len(mine) - 1 else ddp.no_sync():
                (loss_of(model, x) * auto.share).backward()
            due = auto.due()
        assert due
        auto.step()
    shown = [float(each[name]) for each in read for name in ("batch/size", "batch/critical", "batch/persistence")]
    return auto, [torch.tensor(shown), *(norms.whole(p.detach()) for p in model.parameters())]


def process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    _, copies = steps_of(DistributedDataParallel(network()), rank, WORLD, accumulate=1)
    sharded = network()
    fully_shard(sharded, mesh=init_device_mesh("cpu", (WORLD,)))
    auto, cut = steps_of(sharded, rank, WORLD)
    state = auto.state_dict()
    auto.load_state_dict(copy.deepcopy(state))
    assert all(map(torch.equal, auto.state_dict()["_previous"], state["_previous"]))
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "parameters must be whole; got a part of some. Give the model that fully_shard has cut"),
        ({"model": sharded, "accumulate": 1}, "accumulate must be at least 2 in one process and with FSDP2"),
    ]
    for options, words in refused:
        with pytest.raises(ValueError, match=f"^AutoBatch: {words}"):
            AutoBatch(torch.optim.SGD(sharded.parameters()), budget=BUDGET, micro=MICRO, **options)
    auto.optimizer.zero_grad()
    with pytest.raises(ValueError, match=r"^AutoBatch: gradients must be reduced in every micro-batch"):
        auto.due()
    torch.save([copies, cut, state], Path(folder) / f"rank{rank}")
    dist.barrier()
    os._exit(0)  # not by way of torch's own end, which now and then aborts: tests/test_guide.py says how


def test_two_processes_decide_as_one_with_the_same_pieces(tmp_path: Path) -> None:
    """Of DistributedDataParallel and of FSDP2, whose pieces are the micro-batches of both processes together."""
    _, apart = steps_of(network())
    auto, together = steps_of(network(), micro=WORLD * MICRO)
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    processes = [context.Process(target=process, args=(rank, str(tmp_path))) for rank in range(WORLD)]
    for one in processes:
        one.start()
    for one in processes:
        one.join(1200)
        one.kill()
        one.join()
    assert [one.exitcode for one in processes] == [0] * WORLD
    for rank in range(WORLD):
        copies, cut, state = torch.load(tmp_path / f"rank{rank}", weights_only=True)
        for found, expected in ((copies, apart), (cut, together)):
            assert expected[0][::3].max() > expected[0][0]  # something was decided
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9, equal_nan=True)
        before = auto.state_dict()
        torch.testing.assert_close(state["_previous"], before["_previous"], rtol=1e-6, atol=1e-9)
        resumed = AutoBatch(torch.optim.SGD(network().parameters()), budget=BUDGET, micro=MICRO)
        resumed.load_state_dict(state)  # two processes go on as one, with micro-batches half as large
        assert (resumed.accumulate, resumed.samples, resumed.factor) == (4, auto.samples, auto.factor)
