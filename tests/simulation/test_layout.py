"""The plan of a sweep: every run once, equal work on every device, decided from numbers alone."""

import dataclasses
import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gladstorm.simulation import layout
from gladstorm.simulation.layout import MEASURED, Sizes, lay_out, split_into_tasks

SIZES = st.builds(
    Sizes,
    structures=st.lists(st.sampled_from("abc"), min_size=1, max_size=40).map(tuple),
    seeds=st.integers(1, 70),
    devices=st.sampled_from([1, 2, 4]),
    oracle_bytes=st.sampled_from([1_000, 10_000_000]),
    oracle_per_seed=st.booleans(),
    padded_seeds=st.none(),
)


@given(SIZES)
@settings(max_examples=60)
def test_every_configuration_runs_on_every_seed_and_devices_have_equal_work(sizes: Sizes) -> None:
    runs: Counter[tuple[int, int]] = Counter()
    for chunk in lay_out(sizes, MEASURED):
        for stack, size in zip(chunk.stacks, chunk.sizes, strict=True):
            assert len({sizes.structures[row] for row in stack}) == 1
            assert set(stack[:size]) == set(stack)  # padding comes after the runs
            runs.update((row, seed) for row in stack[:size] for seed in chunk.seeds[: chunk.seed_count])
        if chunk.cut == "seeds":
            assert len(chunk.seeds) % chunk.devices == 0
        else:
            assert all(len(stack) % chunk.devices == 0 for stack in chunk.stacks)
        assert chunk.devices in (1, sizes.devices)
    asked = {(row, seed) for row in range(len(sizes.structures)) for seed in range(sizes.seeds)}
    assert set(runs) == asked
    assert set(runs.values()) == {1}


@given(SIZES)
@settings(max_examples=20)
def test_seeds_of_all_chunks_one_after_the_other_are_the_seeds(sizes: Sizes) -> None:
    seeds: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for chunk in lay_out(sizes, MEASURED):
        real = tuple(stack[:size] for stack, size in zip(chunk.stacks, chunk.sizes, strict=True))
        seeds.setdefault(real, []).extend(chunk.seeds[: chunk.seed_count])
    assert all(each == list(range(sizes.seeds)) for each in seeds.values())


def test_where_products_decide_the_cost_methods_share_them() -> None:
    sizes = Sizes(("storm", "storm", "sgd"), seeds=5, devices=2, oracle_bytes=10_000_000, oracle_per_seed=False)
    (chunk,) = lay_out(sizes, MEASURED)
    assert chunk.stacks == ((0, 1), (2,))
    apart = lay_out(sizes._replace(oracle_bytes=1_000), MEASURED)
    assert [[set(stack) for stack in chunk.stacks] for chunk in apart] == [[{0, 1}], [{2}]]


def test_no_product_is_wider_than_the_costs_say() -> None:
    narrow = dataclasses.replace(MEASURED, most_columns=4)
    sizes = Sizes(("sgd",) * 9, seeds=3, devices=1, oracle_bytes=10_000_000, oracle_per_seed=True)
    stacks = {chunk.stacks: chunk.sizes for chunk in lay_out(sizes, narrow)}
    assert list(stacks.values()) == [(4,), (4,), (1,)]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_plan_can_be_read(devices: int) -> None:
    sizes = Sizes(("sgd",) * 2, seeds=3, devices=devices, oracle_bytes=10_000_000, oracle_per_seed=False)
    text = "\n".join(map(str, lay_out(sizes, MEASURED)))
    assert "2 configurations" in text
    assert "seeds 0 to 2" in text
    assert f"over {devices} device" in text


@given(SIZES, st.sampled_from([0, 100, 10_000, 10**7]), st.sampled_from([1, 100]))
@settings(max_examples=60)
def test_the_tasks_of_a_sweep_are_every_configuration_on_every_seed_once(sizes: Sizes, steps: int, dim: int) -> None:
    tasks = split_into_tasks(sizes, steps, dim, MEASURED)
    runs = Counter((row, seed) for task in tasks for row in task.configurations for seed in task.seeds)
    asked = {(row, seed) for row in range(len(sizes.structures)) for seed in range(sizes.seeds)}
    assert set(runs) == asked
    assert set(runs.values()) == {1}
    for task in tasks:
        assert len(task.seeds) <= task.padded_seeds <= sizes.seeds
        assert len(task.seeds) == task.padded_seeds or task.seeds.stop == sizes.seeds  # only a last one is smaller


@given(SIZES, st.sampled_from([100, 10**6]))
@settings(max_examples=20)
def test_a_laptop_and_a_worker_with_one_core_cut_a_sweep_alike(sizes: Sizes, steps: int) -> None:
    alike = [split_into_tasks(sizes._replace(devices=devices), steps, 1, MEASURED) for devices in (1, 2)]
    assert alike[0] == alike[1]


def test_a_long_sweep_is_cut_so_that_little_is_lost_with_a_task() -> None:
    sizes = Sizes(("sgd",) * 10, seeds=100, devices=2, oracle_bytes=100, oracle_per_seed=False)
    assert len(split_into_tasks(sizes, 1_000, 1, MEASURED)) == 1
    assert len(split_into_tasks(sizes, 1_000_000, 1, MEASURED)) == 12  # of 9 seeds: 96 runs advance together
    many = sizes._replace(structures=("sgd",) * 1000, seeds=1)
    assert {len(task.configurations) for task in split_into_tasks(many, 10_000_000, 1, MEASURED)} == {90, 91}


@pytest.mark.parametrize("oracle_bytes", [1_000, 10**6, 3 * 10**6, 10**7, 10**9])
def test_a_task_holds_no_more_instances_than_it_has_room_for_and_not_fewer_than_it_could(oracle_bytes: int) -> None:
    """Whole chunks, of a seed for each device or of one: the last of them may be begun before the memory is full."""
    sizes = Sizes(("sgd",), seeds=1000, devices=2, oracle_bytes=oracle_bytes, oracle_per_seed=True)
    largest = max(len(task.seeds) for task in split_into_tasks(sizes, 0, 1, MEASURED))
    most = min(sizes.seeds, MEASURED.task_bytes / oracle_bytes)
    assert largest < max(most, 1) + 2
    assert largest > most / 2
    shared = split_into_tasks(sizes._replace(oracle_per_seed=False), 0, 1, MEASURED)
    assert len(shared) == 1  # one instance for all takes no memory


def test_a_last_task_has_the_shape_of_the_others() -> None:
    sizes = Sizes(("sgd",) * 10, seeds=28, devices=2, oracle_bytes=100, oracle_per_seed=False)
    shapes = {
        (len(chunk.seeds), tuple(map(len, chunk.stacks)))
        for seeds in (36, 28, 3)
        for chunk in lay_out(sizes._replace(seeds=seeds, padded_seeds=36), MEASURED)
    }
    assert len(shapes) == 1


def test_chunks_of_one_size_are_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = Counter[str]()
    decide = layout._Decisions._products

    def counted(self: layout._Decisions, seeds: int, configurations: int) -> float:
        decided["products"] += 1
        return decide(self, seeds, configurations)

    monkeypatch.setattr(layout._Decisions, "_products", counted)
    few, many = (Sizes(("sgd",), seeds, 2, 1000, oracle_per_seed=False) for seeds in (96 * 3, 96 * 3000))
    assert len(lay_out(few, MEASURED)) == 3
    asked = decided["products"]
    assert len(lay_out(many, MEASURED)) == 3000
    assert decided["products"] == 2 * asked
    assert lay_out(many, MEASURED) is lay_out(many, MEASURED)  # what the memory is checked with is what is simulated


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_the_instances_of_a_task_fit_into_the_bytes_a_task_may_take(share: float) -> None:
    """However long a task may last; a single chunk goes to one task in any case."""
    costs = dataclasses.replace(MEASURED, task_seconds=1e9)
    sizes = Sizes(("sgd",), seeds=1000, devices=2, oracle_bytes=10_000_000, oracle_per_seed=True)
    costs = dataclasses.replace(costs, task_bytes=int(share * 500 * sizes.oracle_bytes))
    tasks = split_into_tasks(sizes, steps=1000, dim=10, costs=costs)
    assert max(len(task.seeds) for task in tasks) * sizes.oracle_bytes <= costs.task_bytes
    assert (
        len(tasks) <= 2 * sizes.seeds * sizes.oracle_bytes / costs.task_bytes + 1
    )  # nor are they smaller than need be
    free = sizes._replace(oracle_per_seed=False)
    assert len(split_into_tasks(free, steps=1000, dim=10, costs=costs)) == 1


def test_a_last_chunk_has_a_program_of_its_own_if_it_costs_less_than_four_fifths_of_a_whole_one() -> None:
    own = []
    for configurations, seeds in itertools.product((1, 3, 5, 12), range(2, 80)):
        sizes = Sizes(("sgd",) * configurations, seeds, devices=2, oracle_bytes=10**7, oracle_per_seed=False)
        first, *_, last = (*lay_out(sizes, MEASURED), lay_out(sizes, MEASURED)[-1])
        if (rest := last.seed_count) < (whole := first.seed_count):
            cost = layout._Decisions(sizes, MEASURED).cost
            own.append(cost(rest, configurations) < 0.8 * cost(whole, configurations))
            assert (len(last.seeds) < len(first.seeds)) == own[-1]
    assert set(own) == {True, False}
