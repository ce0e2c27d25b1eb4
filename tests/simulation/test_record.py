"""Records: what each way of taking some of one leaves, tidy tables, and files that are whole or absent."""

import base64
import dataclasses
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from gladstorm import BlumGladyshev, Method, Record, compare, finite_sum, nsgdm, sgd, sweep, theory
from gladstorm.core import screen
from gladstorm.methods.averages import ScheduleFreeAverage, TailAverage
from gladstorm.methods.batches import FirstLarge
from gladstorm.methods.estimators import Fresh
from gladstorm.methods.steps import PowerNormalized
from gladstorm.problems import objectives
from gladstorm.simulation.configurations import Configuration, expand
from gladstorm.simulation.one_run import CURVES
from gladstorm.simulation.tables import MARKS, POINTS

SEEDS = [3, 9, 4]


def oracle(B: float = 0.5) -> BlumGladyshev:
    return BlumGladyshev(objectives.named("cauchy", dim=3, start=1.0), B, 1.0)


def simulated(oracle: Any, seeds: list[int]) -> Record:
    averaged = dataclasses.replace(sgd([0.1, 0.2]), average=TailAverage())
    return sweep(oracle, {"NSGDM": nsgdm(0.1, 0.1), "SGD": averaged}, steps=30, seeds=seeds, records=5)


@pytest.fixture(scope="module")
def record() -> Record:
    return simulated(oracle(), SEEDS)


@pytest.fixture(scope="module")
def own() -> Record:
    """An oracle for each seed, and numbers that are neither all equal nor all different."""
    grid = {"NSGDM": nsgdm([0.1, 0.1, 0.2, 0.2], [0.3, 0.4, 0.3, 0.4]), "SGD": sgd([0.1, 0.2])}
    return sweep([oracle(B) for B in (0.1, 0.2, 0.1)], grid, steps=30, seeds=SEEDS, records=5)


def require_same(one: Record, other: Record, *, of_two_programs: bool = False) -> None:
    """Fail if some field differs; two programs may contract the sum of errors differently, as docs/cluster.md says."""
    for field in dataclasses.fields(Record):
        wanted, found = getattr(one, field.name), getattr(other, field.name)
        if field.name == "mean_error" and of_two_programs:
            np.testing.assert_allclose(wanted, found, rtol=1e-15)
        elif isinstance(wanted, np.ndarray):
            np.testing.assert_array_equal(wanted, found, err_msg=field.name)
            assert wanted.dtype == found.dtype, field.name
        else:
            assert wanted == found, field.name


# Some of the runs: every way of taking them leaves a record that a smaller sweep would have left.


def test_numbers_select_one_after_the_other_as_all_at_once(record: Record, own: Record) -> None:
    for each in (record, own):
        require_same(each.where(), each)
    both = own.where(gamma=0.2, eta=0.3)
    assert both.labels == ("NSGDM (eta=0.3, gamma=0.2)",)
    require_same(own.where(gamma=0.2).where(eta=0.3), both)
    require_same(own.where(eta=0.3).where(gamma=0.2), both)
    assert own.where(gamma=0.1).labels == (
        "NSGDM (eta=0.3, gamma=0.1)",
        "NSGDM (eta=0.4, gamma=0.1)",
        "SGD (gamma=0.1)",
    )
    with pytest.raises(ValueError, match=r"Record\.where: some configuration must have these numbers; got .*0\.3"):
        own.where(gamma=0.3)


def test_selected_configurations_keep_all_that_is_theirs(own: Record) -> None:
    require_same(own.select(range(len(own))), own)
    turned = own.select([5, 0])
    assert list(turned.config["methods"]) == list(turned.labels) == [own.labels[5], own.labels[0]]
    for name in (*CURVES, *MARKS, *POINTS):
        np.testing.assert_array_equal(getattr(turned, name), getattr(own, name)[[5, 0]], err_msg=name)


@pytest.mark.parametrize("own_oracles", [False, True])
def test_the_first_seeds_of_a_record_are_a_sweep_on_them_and_joined_they_are_the_record(own_oracles: bool) -> None:
    oracles: Any = [oracle(B) for B in (0.1, 0.2, 0.1)] if own_oracles else oracle()
    parts = [simulated(oracles[i : i + 1] if own_oracles else oracles, [seed]) for i, seed in enumerate(SEEDS)]
    whole = simulated(oracles, SEEDS)
    require_same(Record.joined(parts), whole, of_two_programs=True)
    for count in (1, 2, 3):
        fewer = simulated(oracles[:count] if own_oracles else oracles, SEEDS[:count])
        require_same(whole.on_seeds(count), fewer, of_two_programs=True)
    with pytest.raises(ValueError, match=r"Record\.joined: the records must have the same labels; got .*'SGD"):
        Record.joined([parts[0], parts[1]["SGD"]])


def test_records_of_different_infima_have_none_together(record: Record) -> None:
    lower = dataclasses.replace(record, config=record.config | {"f_inf": -1.0})
    assert Record.joined([lower, lower]).config["f_inf"] == -1.0
    assert Record.joined([record, lower]).config["f_inf"] is None


def test_until_a_step_a_record_is_that_of_a_run_which_ends_there() -> None:
    wild = BlumGladyshev(objectives.named("double-well", start=3.0), 5.0, 1.0)
    methods = {"SGD": sgd([0.01, 10.0])}
    whole = sweep(wild, methods, steps=12, seeds=3)
    assert 0 < whole.diverged.max() < 12
    for k in range(13):
        short, some = sweep(wild, methods, steps=k, seeds=3), whole.until(k)
        for name in ("steps", "path", *CURVES, *MARKS):
            np.testing.assert_array_equal(getattr(some, name), getattr(short, name), err_msg=f"{name} until {k}")
        for j in range(13):
            require_same(some.until(j), whole.until(min(j, k)))
    require_same(whole.until(10**6), whole)


def test_the_path_is_recorded_where_x_is_one_or_two_numbers(record: Record, tmp_path: Path) -> None:
    start = np.array([3.0, -1.0])
    for d in (1, 2):
        wild = BlumGladyshev(objectives.DoubleWell(start[:d]), 0.5, 1.0)
        whole = sweep(wild, {"SGD": sgd([0.01, 10.0])}, steps=12, seeds=3)
        assert whole.path.shape == (2, 3, 13, d)
        np.testing.assert_array_equal(whole.path[:, :, 0], np.broadcast_to(start[:d], (2, 3, d)))
        np.testing.assert_array_equal(whole.path[0, :, -1], whole.last[0])
        np.testing.assert_allclose(((whole.path - start[:d]) ** 2).sum(-1)[0], whole.drift2[0], rtol=1e-12)
        assert whole.diverged[1].min() > 0
        np.testing.assert_array_equal(np.isnan(whole.path[..., 0]), np.isnan(whole.grad_norm))
        whole.save(tmp_path / "runs.parquet")
        require_same(Record.load(tmp_path / "runs.parquet"), whole)
        table = whole.to_pandas()
        assert [name for name in table.columns if name in ("x1", "x2")] == ["x1", "x2"][:d]
        np.testing.assert_array_equal(table[f"x{d}"], whole.path[..., d - 1].ravel())
        np.testing.assert_array_equal(whole.to_xarray()[f"x{d}"], whole.path[..., d - 1])
    assert record.path.shape == (*record.grad_norm.shape, 0)
    assert "x1" not in record.to_pandas().columns


def test_a_configuration_comes_back_from_json_that_has_no_infinite_numbers() -> None:
    whole = Configuration("SGD", {"gamma": 0.1, "cap": math.inf, "shift": -math.inf}, ("gamma",))
    assert Configuration.from_dict(json.loads(json.dumps(whole.as_dict(), allow_nan=False))) == whole


def test_numbers_of_one_name_in_two_parts_of_a_method_are_kept_under_the_names_of_both() -> None:
    method = Method(Fresh(), PowerNormalized(1.0, [0.1, 0.2]), average=ScheduleFreeAverage([0.3, 0.4]))
    kept = [each.configuration for each in expand({"both": method})]
    numbers = [{"gamma": 1.0, "step.beta": a, "size": 1.0, "average.beta": b} for a, b in ((0.1, 0.3), (0.2, 0.4))]
    assert [each.numbers for each in kept] == numbers
    assert [each.label for each in kept] == [
        "both (step.beta=0.1, average.beta=0.3)",
        "both (step.beta=0.2, average.beta=0.4)",
    ]


def cut_short(record: Record, reached: list[list[int]]) -> Record:
    return dataclasses.replace(record, reached=np.array(reached))


def test_finished_are_the_configurations_of_which_every_run_ended(record: Record) -> None:
    require_same(record.finished(), record)
    some = cut_short(record, [[30, 30, 30], [30, 12, 30], [-1, -1, -1]])
    assert some.finished().labels == record.labels[:1]
    begun = some.select([0, 1])
    assert begun.until(12).finished().labels == begun.labels  # of the step 12, which is recorded, and 18
    assert begun.until(13).finished().labels == begun.labels[:1]
    assert begun.until(18).finished().labels == begun.labels[:1]
    assert begun.until(18).reached.tolist() == [[18, 18, 18], [18, 12, 18]]


def test_a_tree_has_every_point_as_the_arrays_that_x_consists_of() -> None:
    start = {"weights": np.zeros((2, 3)), "offset": np.ones(())}
    fit = finite_sum(lambda x, e: jnp.sum((x["weights"] @ e - x["offset"]) ** 2), np.arange(12.0).reshape(4, 3), start)
    record = sweep(fit, {"SGD": sgd([0.001, 0.002])}, steps=3, seeds=2)
    for name in POINTS:
        tree = record.tree(name)  # type: ignore[arg-type]  # a name, whichever
        assert {key: array.shape for key, array in tree.items()} == {"offset": (2, 2), "weights": (2, 2, 2, 3)}
        flat = np.concatenate([tree["offset"][..., None], tree["weights"].reshape(2, 2, 6)], axis=-1)
        np.testing.assert_array_equal(flat, getattr(record, name))
    with pytest.raises(ValueError, match=r"Record\.tree: name must be one of last, sampled, reported; got 'first'"):
        record.tree("first")  # type: ignore[arg-type]  # that is the point


# Tables and files.


@pytest.fixture
def uneven(own: Record) -> Record:
    """A record in which no two runs have the same marks."""
    marks = np.arange(18).reshape(6, 3)
    changed: dict[str, Any] = {"diverged": marks - 1, "reached": 30 - marks, "sampled_step": np.array([7, 2, 5])}
    return dataclasses.replace(own, config=own.config | {"f_inf": -2.0}, **changed)


def test_a_saved_record_loads_as_it_was(
    record: Record, uneven: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (record, uneven):
        for at_once in (250_000, 1, 2 * 3 * each.steps.size):  # configurations are written all, one, or two at a time
            monkeypatch.setattr("gladstorm.simulation.tables.ROWS_AT_ONCE", at_once)
            each.save(tmp_path / "runs.parquet")
            require_same(each, Record.load(tmp_path / "runs.parquet"))


def test_every_row_of_the_table_has_the_numbers_of_its_configuration_seed_and_step(uneven: Record) -> None:
    table, shape = uneven.to_pandas(), uneven.grad_norm.shape
    by_configuration = {name: uneven.numbers(name)[:, None, None] for name in uneven.swept}
    by_configuration["method"] = np.array([each.name for each in uneven.configurations])[:, None, None]
    by_seed = {"seed": uneven.seeds[:, None], "sampled_step": uneven.sampled_step[:, None]}
    wanted = by_configuration | by_seed | {"step": uneven.steps} | {name: getattr(uneven, name) for name in CURVES}
    wanted |= {name: getattr(uneven, name)[..., None] for name in MARKS} | {"gap": uneven.value + 2}
    assert set(table.columns) == {*wanted, *POINTS}
    for name, array in wanted.items():
        found = table[name].to_numpy().reshape(shape)
        np.testing.assert_array_equal(found, np.broadcast_to(array, shape), err_msg=name)
    for name in POINTS:  # a vector in the last row of a run
        ends = table[name].to_numpy().reshape(shape)[..., -1].ravel()
        np.testing.assert_array_equal(
            np.stack(ends.tolist()).reshape(*shape[:2], -1), getattr(uneven, name), err_msg=name
        )


def test_xarray_has_every_number_under_the_names_of_its_axes(record: Record, own: Record) -> None:
    xr = pytest.importorskip("xarray")
    for each in (record, own):
        found = each.to_xarray()
        assert isinstance(found, xr.Dataset)
        for name in (*CURVES, "gap"):
            assert found[name].dims == ("configuration", "seed", "step")
            np.testing.assert_array_equal(found[name], getattr(each, name))
        for name in (*MARKS, *POINTS, "sampled_step"):
            np.testing.assert_array_equal(found[name], getattr(each, name))
        assert set(found) == {*CURVES, "gap", *MARKS, *POINTS, "sampled_step"}
        chosen = found.sel(configuration=each.labels[-1], seed=9, step=30)
        assert float(chosen["grad_norm"]) == each[each.labels[-1]].grad_norm[0, 1, -1]
        assert str(chosen["method"].item()) == "SGD"
        assert float(chosen["gamma"]) == 0.2
        assert {"method", *each.swept} == set(found.coords) - {"configuration", "seed", "step"}


def test_without_xarray_one_sentence_says_what_to_install(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(
        ValueError, match=r"Record.to_xarray: xarray must be installed; pip install 'gladstorm\[xarray\]'"
    ):
        record.to_xarray()


def test_saving_twice_writes_the_same_bytes(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path / "a.parquet")
    record.save(tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_config_and_versions_travel_in_the_file(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path / "runs.parquet")
    config = json.loads(pq.read_schema(tmp_path / "runs.parquet").metadata[b"gladstorm"])["config"]
    assert config["oracle"]["B"] == 0.5
    assert config["methods"]["NSGDM"]["step"] == {"type": "Normalized", "gamma": 0.1, "norm": {"type": "Euclid"}}
    assert config["seeds"] == SEEDS
    assert set(config["versions"]) == {"gladstorm", "jax", "numpy", "python"}


def test_without_a_known_infimum_the_gap_is_not_a_number(record: Record) -> None:
    unknown = dataclasses.replace(record, config=record.config | {"f_inf": None})
    assert np.isnan(unknown.gap).all()


def test_steps_and_seeds_that_no_record_has_are_refused(record: Record) -> None:
    with pytest.raises(ValueError, match=r"Record.until: step must be a whole number from 0 .* got step=-1"):
        record.until(-1)
    with pytest.raises(ValueError, match=r"Record.on_seeds: count must be a whole number ≥ 1; got count=0"):
        record.on_seeds(0)


def test_a_record_knows_its_numbers_by_field(record: Record) -> None:
    assert record.swept == ["gamma"]
    assert record.numbers("gamma").tolist()[1:] == [0.1, 0.2]
    assert np.isnan(record.numbers("eta")).tolist() == [False, True, True]
    with pytest.raises(ValueError, match=r"Record: the field must be one of .*gamma.*; got 'lr'"):
        record.numbers("lr")


def test_damaged_and_foreign_files_are_named(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    record.save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"runs\.parquet was changed or damaged since it was written"):
        Record.load(path)
    path.write_text("method,seed\n")
    with pytest.raises(ValueError, match="not a parquet file"):
        Record.load(path)
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(ValueError, match=r"Record\.load: .* is damaged or not a parquet file that Gladstorm wrote"):
        Record.load(path)
    with pytest.raises(FileNotFoundError):
        Record.load(tmp_path / "absent.parquet")
    with pytest.raises(ValueError, match="rows are not"):
        Record.from_arrow(record.to_arrow()[:-3], record.metadata())


def renamed(record: Record, *names: str) -> Record:
    configurations = tuple(map(Configuration, names, [each.numbers for each in record.configurations]))
    methods = dict(zip(names, record.config["methods"].values(), strict=True))
    return dataclasses.replace(record, configurations=configurations, config=record.config | {"methods": methods})


def test_a_record_shows_itself_on_a_screen(record: Record) -> None:
    many = renamed(record, *(f"{'long' * 30} {row}" for row in range(3))).select([0, 1, 2] * 30)
    for shown in (record, many):
        lines = repr(shown).splitlines()
        assert len(lines) <= 25
        assert max(map(len, lines)) <= 100
    assert repr(record).splitlines()[0].startswith("Record: 3 configurations × 3 seeds, ")
    assert "… and 69 more" in repr(many)


def test_a_line_for_each_configuration_has_its_means_at_the_end(uneven: Record) -> None:
    for row, line in enumerate(repr(uneven).splitlines()[2:]):
        ends = [getattr(uneven, name)[row, :, -1].mean() for name in ("grad_norm", "mean_grad_norm", "best_grad_norm")]
        diverged = 2 if row == 0 else 3  # −1 is the first of all marks: at 0 a run has diverged
        wanted = [f"{uneven.sfo[row, :, -1].mean():,.6g}", *(f"{end:.4g}" for end in ends), str(diverged)]
        assert line.split()[-5:] == wanted
        assert "".join(f"<td>{cell}</td>" for cell in wanted) in uneven._repr_html_()


def test_a_notebook_gets_a_table_and_its_plot(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.image import imread

    odd = renamed(record, "<b>", "NSGDM", "SGD")
    page = odd._repr_html_()
    assert page.count("<tr>") == 4
    assert "<td>&lt;b&gt;</td>" in page
    assert "<b>" not in page
    table, _, picture = page.partition('<img alt="‖∇f‖ against stochastic gradients"')
    shown = imread(io.BytesIO(base64.b64decode(picture.partition("base64,")[2].partition('"')[0])))
    drawn = io.BytesIO()
    odd.plot().savefig(drawn, dpi=120)
    np.testing.assert_array_equal(shown, imread(io.BytesIO(drawn.getvalue())))
    monkeypatch.setattr(screen, "find_spec", lambda _name: None)  # without matplotlib
    assert odd._repr_html_() == table


def test_a_name_selects_its_configurations_and_a_label_one(record: Record) -> None:
    assert len(record) == 3
    assert record["SGD"].labels == ("SGD (gamma=0.1)", "SGD (gamma=0.2)")
    assert record["SGD (gamma=0.2)"].labels == ("SGD (gamma=0.2)",)
    np.testing.assert_array_equal(record["NSGDM"].grad_norm, record.grad_norm[:1])
    with pytest.raises(ValueError, match=r"Record: the name must be one of \['NSGDM', 'SGD'\] or a label; got 'SG'"):
        record["SG"]
    assert renamed(record, "SGD", "SGD (tuned)", "SGD, batch")["SGD"].labels == ("SGD",)


def test_a_plot_has_a_curve_for_each_configuration(record: Record) -> None:
    axes = record.plot().axes[0]
    assert [line.get_label() for line in axes.get_lines()] == list(record.labels)
    for row, line in enumerate(axes.get_lines()):
        np.testing.assert_allclose(np.asarray(line.get_xdata(), float), record.sfo[row].mean(0))
        np.testing.assert_allclose(np.asarray(line.get_ydata(), float), record.grad_norm[row].mean(0))


def test_a_notebook_shows_the_figure_of_a_record_although_pyplot_does_not_know_it(record: Record) -> None:
    from matplotlib import pyplot
    from matplotlib.image import imread

    figure = record.plot()
    picture = imread(io.BytesIO(figure._repr_png_()))  # type: ignore[attr-defined]  # what IPython asks for
    assert picture.shape[:2] == tuple((figure.get_size_inches() * figure.dpi)[::-1])
    assert np.ptp(picture[..., :3]) > 0.5
    assert not pyplot.get_fignums()


def test_what_compare_found_shows_itself_on_a_line_and_in_a_notebook() -> None:
    found = compare(oracle(), {"SGD": sgd([0.01, 0.1]), "<b>": nsgdm(0.1, 0.1)}, budget=20, seeds=3, progress=False)
    for each in found.values():
        page = each._repr_html_()
        assert len(repr(each)) <= 100
        for fact in (f"{each.grad_norm.mean():.4g}", f"{each.value.mean():.4g}", f"{each.diverged} of 3 seeds"):
            assert fact in repr(each)
            assert f"<td>{fact}</td>" in page
    assert found["SGD"].tuned in repr(found["SGD"])
    assert "tuned = nothing" in repr(found["<b>"])


def test_a_plot_without_matplotlib_says_what_to_install(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gladstorm.plotting.figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"matplotlib must be installed; pip install 'gladstorm\[plot\]'"):
        record.plot()


def test_methods_oracles_and_plans_show_themselves_on_a_screen() -> None:
    plan = theory.plan("nstorm", alpha=0.5, L0=1, L1=1, L=2, B=0.5, G=1, gap=1, horizon=1000, gamma0=0.1)
    far = theory.plan("nsgdm", alpha=0, L0=1, L1=3, B=0.5, G=1, gap=1, eps=1e-30)
    nested = nsgdm(np.geomspace(1e-4, 1, 10**5), list(np.linspace(0.1, 0.9, 999)), batch=FirstLarge(3, FirstLarge(4)))
    data = finite_sum(lambda x, e: x[0] * e["a"][0], {"a": np.ones((50, 60)), "b": np.arange(50)}, start=np.ones(300))
    for shown in (plan, far, nested, data, objectives.named("phase-retrieval:50", dim=20)):
        lines = repr(shown).splitlines()
        assert len(lines) <= 25
        assert max(map(len, lines)) <= 100
    assert "array of 100000 numbers, 0.0001 to 1" in repr(nested)
    assert "gamma = 0.000464159, eta = 0.00215443, n_init = 5" in repr(plan)
    assert repr(sgd(0.1)) == "Method(estimator=Fresh(), step=Plain(gamma=0.1), batch=Fixed(size=1), average=None)"


@pytest.mark.parametrize("name", [*CURVES, *MARKS, *POINTS])
def test_every_column_of_a_file_is_on_the_page_of_formats(name: str) -> None:
    page = (Path(__file__).parent.parent.parent / "docs/formats.md").read_text("utf-8")
    assert f"`{name}`" in page.partition("## Records")[2].partition("\n## ")[0]
