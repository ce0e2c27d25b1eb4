"""How runs lie side by side: every run once, equal work on every device."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gladstorm.simulation import layout
from gladstorm.simulation.layout import Sizes, lay_out, split_into_tasks

SIZES = st.builds(
    Sizes,
    structures=st.lists(st.sampled_from("abc"), min_size=1, max_size=120).map(tuple),
    seeds=st.integers(1, 70),
    devices=st.sampled_from([1, 2, 4]),
    oracle_bytes=st.sampled_from([1_000, 10_000_000]),
    oracle_per_seed=st.booleans(),
    padded_seeds=st.none() | st.just(80),
)


@given(SIZES)
@settings(max_examples=80)
def test_every_run_is_simulated_once_and_devices_have_equal_work(sizes: Sizes) -> None:
    runs: Counter[tuple[int, int]] = Counter()
    for chunk in lay_out(sizes):
        for stack, size in zip(chunk.stacks, chunk.sizes, strict=True):
            assert len({sizes.structures[row] for row in stack}) == 1
            runs.update(itertools.product(stack[:size], chunk.seeds[: chunk.seed_count]))
        axis = [chunk.seeds] if chunk.cut == "seeds" else chunk.stacks
        assert all(len(each) % chunk.devices == 0 for each in axis)
        assert chunk.devices <= sizes.devices
    assert runs == Counter(dict.fromkeys(itertools.product(range(len(sizes.structures)), range(sizes.seeds)), 1))


@given(SIZES, st.sampled_from([0, 100, 10_000, 10**7]), st.sampled_from([1, 100]))
@settings(max_examples=60)
def test_tasks_are_every_run_once_and_one_core_cuts_as_two_do(sizes: Sizes, steps: int, dim: int) -> None:
    tasks = split_into_tasks(sizes, steps, dim)
    runs = Counter(run for task in tasks for run in itertools.product(task.configurations, task.seeds))
    assert runs == Counter(dict.fromkeys(itertools.product(range(len(sizes.structures)), range(sizes.seeds)), 1))
    for task in tasks:  # only a last one has fewer seeds
        assert len(task.seeds) == task.padded_seeds or task.seeds.stop == sizes.seeds
    alike = [split_into_tasks(sizes._replace(devices=devices), steps, dim) for devices in (1, 2)]
    assert alike[0] == alike[1]


@given(SIZES)
@settings(max_examples=60)
def test_no_product_is_wider_than_the_caches_and_each_has_a_power_of_two_as_columns(sizes: Sizes) -> None:
    sizes = sizes._replace(oracle_bytes=10**7)
    for chunk in lay_out(sizes):
        columns = sum(map(len, chunk.stacks)) * (1 if sizes.oracle_per_seed else len(chunk.seeds))
        columns //= 1 if sizes.oracle_per_seed and chunk.cut == "seeds" else chunk.devices
        assert columns & (columns - 1) == 0
        stacks = len(chunk.stacks)  # each is padded to a multiple of the devices
        assert columns <= layout.COLUMNS or (chunk.cut == "configurations" and columns <= 2 * (layout.COLUMNS + stacks))


def test_a_cheap_problem_has_no_more_runs_side_by_side_than_the_caches_hold() -> None:
    for configurations, seeds in itertools.product((1, 7, 90, 1000), (1, 5, 100)):
        sizes = Sizes(("sgd",) * configurations, seeds, devices=2, oracle_bytes=100, oracle_per_seed=False)
        assert max(sum(c.sizes) * c.seed_count for c in lay_out(sizes)) <= layout.RUNS
        assert max(chunk.runs for chunk in lay_out(sizes)) <= layout.RUNS + 16


def test_methods_share_a_product_and_have_programs_of_their_own_where_there_is_none() -> None:
    sizes = Sizes(("storm", "storm", "sgd"), seeds=5, devices=2, oracle_bytes=10_000_000, oracle_per_seed=False)
    assert [len(chunk.stacks) for chunk in lay_out(sizes)] == [2]
    assert [len(chunk.stacks) for chunk in lay_out(sizes._replace(oracle_bytes=1_000))] == [1, 1]


def test_a_task_takes_about_two_seconds_and_holds_no_more_instances_than_it_has_room_for() -> None:
    sizes = Sizes(("sgd",) * 10, seeds=100, devices=2, oracle_bytes=100, oracle_per_seed=False)
    counts = [len(split_into_tasks(sizes, steps, 1)) for steps in (1_000, 100_000, 1_000_000)]
    assert counts == [1, 3, 12]  # the last of 9 seeds each: as many runs as lie side by side
    for size in (1_000, 10**6, 10**7, 10**9):
        own = Sizes(("sgd",), seeds=1000, devices=2, oracle_bytes=size, oracle_per_seed=True)
        largest = max(len(task.seeds) for task in split_into_tasks(own, 0, 1))
        most = min(1000, layout.TASK_BYTES / size)
        assert most / 2 < largest < max(most, 1) + 2
        assert len(split_into_tasks(own._replace(oracle_per_seed=False), 0, 1)) == 1  # one instance for all


@pytest.mark.parametrize("bytes_each", [100, 10**7])
def test_a_last_task_has_the_shape_of_the_others(bytes_each: int) -> None:
    sizes = Sizes(("sgd",) * 10, seeds=28, devices=2, oracle_bytes=bytes_each, oracle_per_seed=False)
    chunks = (chunk for n in (36, 28, 3) for chunk in lay_out(sizes._replace(seeds=n, padded_seeds=36)))
    assert len({(len(chunk.seeds), tuple(map(len, chunk.stacks))) for chunk in chunks}) == 1
