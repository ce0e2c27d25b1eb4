"""Records: tidy tables, files that are whole or absent, and sentences for files that are not records."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gladstorm import BlumGladyshev, FirstLarge, Record, TailAverage, finite_sum, nsgdm, sgd, sweep, theory
from gladstorm.problems import objectives
from gladstorm.simulation.configurations import Configuration


@pytest.fixture(scope="module")
def record() -> Record:
    oracle = BlumGladyshev(objectives.named("cauchy", dim=3, start=1.0), 0.5, 1.0)
    averaged = dataclasses.replace(sgd([0.1, 0.2]), average=TailAverage())
    return sweep(oracle, {"NSGDM": nsgdm(0.1, 0.1), "SGD": averaged}, steps=30, seeds=[3, 9], records=5)


def test_a_saved_record_loads_as_it_was(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path / "runs.parquet")
    loaded = Record.load(tmp_path / "runs.parquet")
    for field in dataclasses.fields(Record):
        saved, read = getattr(record, field.name), getattr(loaded, field.name)
        if isinstance(saved, np.ndarray):
            np.testing.assert_array_equal(saved, read, err_msg=field.name)
            assert saved.dtype == read.dtype, field.name
        else:
            assert saved == read, field.name


def test_a_diverged_record_survives_its_file(tmp_path: Path) -> None:
    oracle = BlumGladyshev(objectives.named("double-well", start=3.0), 5.0, 1.0)
    wild = sweep(oracle, {"SGD": sgd(10.0)}, steps=30)
    wild.save(tmp_path / "wild.parquet")
    loaded = Record.load(tmp_path / "wild.parquet")
    assert loaded.diverged.tolist() == wild.diverged.tolist()
    assert loaded.diverged[0, 0] > 0
    np.testing.assert_array_equal(loaded.grad_norm, wild.grad_norm)


def test_saving_twice_writes_the_same_bytes(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path / "a.parquet")
    record.save(tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_saved_record_is_as_readable_as_any_new_file(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path / "runs.parquet")
    (tmp_path / "plain").touch()
    assert (tmp_path / "runs.parquet").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_table_has_one_row_per_method_seed_and_step(record: Record) -> None:
    table = record.to_pandas()
    assert len(table) == 3 * 2 * record.steps.size
    assert not table.duplicated(["method", "gamma", "seed", "step"]).any()
    row = table[
        (table["method"] == "SGD") & (table["gamma"] == 0.2) & (table["seed"] == 9) & (table["step"] == 30)
    ].iloc[0]
    assert row["grad_norm"] == record.grad_norm[2, 1, -1]
    assert row["gap"] == record.gap[2, 1, -1]
    assert row["last"].tolist() == record.last[2, 1].tolist()
    assert row["reported"].tolist() == record.reported[2, 1].tolist() != row["last"].tolist()
    assert row["reported_value"] == record.reported_value[2, 1, -1] != row["value"]
    assert row["sampled_step"] == record.sampled_step[1]


def test_config_and_versions_travel_in_the_file(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path / "runs.parquet")
    config = json.loads(pq.read_schema(tmp_path / "runs.parquet").metadata[b"gladstorm"])["config"]
    assert config["oracle"]["B"] == 0.5
    assert config["methods"]["NSGDM"]["step"] == {"type": "Normalized", "gamma": 0.1}
    assert config["seeds"] == [3, 9]
    assert set(config["versions"]) == {"gladstorm", "jax", "numpy", "python"}


def test_without_a_known_infimum_the_gap_is_not_a_number(record: Record) -> None:
    unknown = dataclasses.replace(record, config=record.config | {"f_inf": None})
    assert np.isnan(unknown.gap).all()


def test_places_and_numbers_select_configurations(record: Record) -> None:
    chosen = record.select([2, 0])
    np.testing.assert_array_equal(chosen.grad_norm, record.grad_norm[[2, 0]])
    assert list(chosen.config["methods"]) == list(chosen.labels) == ["SGD (gamma=0.2)", "NSGDM"]
    assert record.where(gamma=0.2).labels == ("SGD (gamma=0.2)",)
    with pytest.raises(ValueError, match=r"Record\.where: some configuration must have these numbers; got .*0\.3"):
        record.where(gamma=0.3)


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
    table = record.to_pandas()
    assert table["method"].unique().tolist() == ["NSGDM", "SGD"]
    per_configuration = record.seeds.size * record.steps.size
    assert table["gamma"].to_numpy()[::per_configuration].tolist() == record.numbers("gamma").tolist()


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


def test_a_record_with_rows_missing_is_damaged(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    record.save(path)
    table = pq.read_table(path)
    pq.write_table(table.slice(0, len(table) - 3), path)
    with pytest.raises(ValueError, match="was changed or damaged"):
        Record.load(path)
    with pytest.raises(ValueError, match="rows are not"):
        Record.from_arrow(record.to_arrow()[:-3], record.metadata())


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.parquet"
    path.write_text("earlier")

    def fails(writer: pq.ParquetWriter, table: pa.Table) -> None:
        assert len(list(tmp_path.iterdir())) == 2  # the new one has begun
        raise KeyboardInterrupt

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fails)
    with pytest.raises(KeyboardInterrupt):
        record.save(path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("runs.parquet", "earlier")]


def renamed(record: Record, *names: str) -> Record:
    configurations = tuple(map(Configuration, names, [each.numbers for each in record.configurations]))
    methods = dict(zip(names, record.config["methods"].values(), strict=True))
    return dataclasses.replace(record, configurations=configurations, config=record.config | {"methods": methods})


def test_a_record_shows_itself_on_a_screen(record: Record) -> None:
    many = Record.stacked([renamed(record, *(f"{'long' * 30} {i} {row}" for row in range(3))) for i in range(30)])
    for shown in (record, many):
        lines = repr(shown).splitlines()
        assert len(lines) <= 25
        assert max(map(len, lines)) <= 100
    assert repr(record).splitlines()[0].startswith("Record: 3 configurations × 2 seeds, ")
    assert f"{record.grad_norm[0, :, -1].mean():.4g}" in repr(record).splitlines()[2]
    assert "… and 69 more" in repr(many)


def test_a_notebook_gets_a_table(record: Record) -> None:
    odd = renamed(record, "<b>", "NSGDM", "SGD")
    page = odd._repr_html_()
    assert page.count("<tr>") == 4
    assert "<td>&lt;b&gt;</td>" in page
    assert "<b>" not in page


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


def test_a_plot_without_matplotlib_says_what_to_install(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gladstorm.plotting.figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"matplotlib must be installed; pip install 'gladstorm\[report\]'"):
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
