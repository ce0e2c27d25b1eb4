"""The plan of a sweep: every run once, equal work on every device, decided from numbers alone."""

import dataclasses
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gladstorm.simulation import layout
from gladstorm.simulation.layout import MEASURED, Work, cut, lay_out

WORKS = st.builds(
    Work,
    structures=st.lists(st.sampled_from("abc"), min_size=1, max_size=40),
    seeds=st.integers(1, 70),
    devices=st.sampled_from([1, 2, 4]),
    oracle_bytes=st.sampled_from([1_000, 10_000_000]),
    oracle_per_seed=st.booleans(),
    shaped_for=st.none(),
)


@given(WORKS)
@settings(max_examples=60)
def test_every_configuration_runs_on_every_seed_and_devices_have_equal_work(work: Work) -> None:
    runs: Counter[tuple[int, int]] = Counter()
    for program in lay_out(work, MEASURED):
        for stack in program.stacks:
            assert len({work.structures[row] for row in stack}) == 1
        for piece in program.pieces:
            for stack, rows in zip(program.stacks, piece.method_rows, strict=True):
                assert rows[: len(stack)] == tuple(range(len(stack)))  # padding comes after the runs
                assert set(rows) == set(range(len(stack)))
                runs.update((row, seed) for row in stack for seed in piece.seed_rows[: piece.seeds])
            if piece.cut == "seeds":
                assert len(piece.seed_rows) % piece.devices == 0
            else:
                assert all(len(rows) % piece.devices == 0 for rows in piece.method_rows)
            assert piece.devices in (1, work.devices)
    asked = {(row, seed) for row in range(len(work.structures)) for seed in range(work.seeds)}
    assert set(runs) == asked
    assert max(runs.values()) <= 2  # a last piece is filled up with the first seeds at most once


@given(WORKS)
@settings(max_examples=20)
def test_seeds_of_all_pieces_one_after_the_other_are_the_seeds(work: Work) -> None:
    for program in lay_out(work, MEASURED):
        every = [seed for piece in program.pieces for seed in piece.seed_rows[: piece.seeds]]
        assert every[: work.seeds] == list(range(work.seeds))


def test_where_products_decide_the_cost_methods_share_them() -> None:
    work = Work(["storm", "storm", "sgd"], seeds=5, devices=2, oracle_bytes=10_000_000, oracle_per_seed=False)
    (program,) = lay_out(work, MEASURED)
    assert program.stacks == ((0, 1), (2,))
    apart = lay_out(work._replace(oracle_bytes=1_000), MEASURED)
    assert [each.stacks for each in apart] == [((0, 1),), ((2,),)]


def test_no_product_is_wider_than_the_costs_say() -> None:
    narrow = dataclasses.replace(MEASURED, most_columns=4)
    work = Work(["sgd"] * 9, seeds=3, devices=1, oracle_bytes=10_000_000, oracle_per_seed=True)
    assert [len(stack) for program in lay_out(work, narrow) for stack in program.stacks] == [4, 4, 1]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_plan_can_be_read(devices: int) -> None:
    work = Work(["sgd"] * 2, seeds=3, devices=devices, oracle_bytes=10_000_000, oracle_per_seed=False)
    text = "\n".join(map(str, lay_out(work, MEASURED)))
    assert "2 configurations" in text
    assert "seeds 0 to 2" in text
    assert f"over {devices} device" in text


@given(WORKS, st.sampled_from([0, 100, 10_000, 10**7]), st.sampled_from([1, 100]))
@settings(max_examples=60)
def test_the_tasks_of_a_sweep_are_every_configuration_on_every_seed_once(work: Work, steps: int, dim: int) -> None:
    shares = cut(work, steps, dim, MEASURED)
    runs = Counter((row, seed) for share in shares for row in share.configurations for seed in share.seeds)
    asked = {(row, seed) for row in range(len(work.structures)) for seed in range(work.seeds)}
    assert set(runs) == asked
    assert set(runs.values()) == {1}
    for share in shares:
        assert len(share.seeds) <= share.shaped_for <= work.seeds
        assert len(share.seeds) == share.shaped_for or share.seeds.stop == work.seeds  # only a last one is smaller


@given(WORKS, st.sampled_from([100, 10**6]))
@settings(max_examples=20)
def test_a_laptop_and_a_worker_with_one_core_cut_a_sweep_alike(work: Work, steps: int) -> None:
    alike = [cut(work._replace(devices=devices), steps, 1, MEASURED) for devices in (1, 2)]
    assert alike[0] == alike[1]


def test_a_long_sweep_is_cut_so_that_little_is_lost_with_a_task() -> None:
    work = Work(["sgd"] * 10, seeds=100, devices=2, oracle_bytes=100, oracle_per_seed=False)
    assert len(cut(work, 1_000, 1, MEASURED)) == 1
    assert len(cut(work, 1_000_000, 1, MEASURED)) == 12  # of 9 seeds: 96 runs advance together
    many = work._replace(structures=["sgd"] * 1000, seeds=1)
    assert {len(share.configurations) for share in cut(many, 10_000_000, 1, MEASURED)} == {90, 91}


@pytest.mark.parametrize("oracle_bytes", [1_000, 10**6, 3 * 10**6, 10**7, 10**9])
def test_a_task_holds_no_more_instances_than_it_has_room_for_and_not_fewer_than_it_could(oracle_bytes: int) -> None:
    """Whole pieces, of a seed for each device or of one: the last of them may be begun before the room is full."""
    work = Work(["sgd"], seeds=1000, devices=2, oracle_bytes=oracle_bytes, oracle_per_seed=True)
    largest = max(len(share.seeds) for share in cut(work, 0, 1, MEASURED))
    room = min(work.seeds, MEASURED.task_bytes / oracle_bytes)
    assert largest < max(room, 1) + 2
    assert largest > room / 2
    shared = cut(work._replace(oracle_per_seed=False), 0, 1, MEASURED)
    assert len(shared) == 1  # one instance for all takes no room


def test_a_last_task_has_the_shape_of_the_others() -> None:
    work = Work(["sgd"] * 10, seeds=28, devices=2, oracle_bytes=100, oracle_per_seed=False)
    shapes = {
        (len(piece.seed_rows), tuple(map(len, piece.method_rows)))
        for seeds in (36, 28, 3)
        for program in lay_out(work._replace(seeds=seeds, shaped_for=36), MEASURED)
        for piece in program.pieces
    }
    assert len(shapes) == 1


def test_pieces_of_one_size_are_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = Counter[str]()
    decide = layout._Decisions._products

    def counted(self: layout._Decisions, seeds: int, configurations: int) -> float:
        decided["products"] += 1
        return decide(self, seeds, configurations)

    monkeypatch.setattr(layout._Decisions, "_products", counted)
    few, many = (Work(["sgd"], seeds, 2, 1000, oracle_per_seed=False) for seeds in (96 * 3, 96 * 3000))
    (program,) = lay_out(few, MEASURED)
    asked = decided["products"]
    assert len(program.pieces) == 3
    (program,) = lay_out(many, MEASURED)
    assert len(program.pieces) == 3000
    assert decided["products"] == 2 * asked


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_the_instances_of_a_task_fit_into_the_bytes_a_task_may_take(share: float) -> None:
    """However long a task may last; a single piece goes to one task in any case."""
    costs = dataclasses.replace(MEASURED, task_seconds=1e9)
    work = Work(["sgd"], seeds=1000, devices=2, oracle_bytes=10_000_000, oracle_per_seed=True)
    costs = dataclasses.replace(costs, task_bytes=int(share * 500 * work.oracle_bytes))
    tasks = cut(work, steps=1000, dim=10, costs=costs)
    assert max(len(task.seeds) for task in tasks) * work.oracle_bytes <= costs.task_bytes
    assert len(tasks) <= 2 * work.seeds * work.oracle_bytes / costs.task_bytes + 1  # nor are they smaller than need be
    free = work._replace(oracle_per_seed=False)
    assert len(cut(free, steps=1000, dim=10, costs=costs)) == 1
