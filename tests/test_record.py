"""Records: tidy tables, files that are whole or absent, and sentences for files that are not records."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gladstorm import BlumGladyshev, Record, nsgdm, objectives, sgd, sweep


@pytest.fixture(scope="module")
def record() -> Record:
    oracle = BlumGladyshev(objectives.named("cauchy", dim=3, start=1.0), 0.5, 1.0)
    return sweep(oracle, {"NSGDM": nsgdm(0.1, 0.1), "SGD": sgd([0.1, 0.2])}, steps=30, seeds=[3, 9], records=5)


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
    assert not table.duplicated(["method", "seed", "step"]).any()
    row = table[(table["method"] == "SGD (gamma=0.2)") & (table["seed"] == 9) & (table["step"] == 30)].iloc[0]
    assert row["grad_norm"] == record.grad_norm[2, 1, -1]
    assert row["gap"] == record.gap[2, 1, -1]
    assert row["last"] == record.last[2, 1].tolist()
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


def test_only_selects_labels(record: Record) -> None:
    chosen = record.only("SGD (gamma=0.2)", "NSGDM")
    np.testing.assert_array_equal(chosen.grad_norm, record.grad_norm[[2, 0]])
    assert list(chosen.config["methods"]) == ["SGD (gamma=0.2)", "NSGDM"]
    with pytest.raises(ValueError, match=r"Record\.only: labels must be among .* got 'Adam'"):
        record.only("Adam")


def test_damaged_and_foreign_files_are_named(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    record.save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"runs\.parquet is damaged or not a parquet file"):
        Record.load(path)
    path.write_text("method,seed\n")
    with pytest.raises(ValueError, match="not a parquet file"):
        Record.load(path)
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(ValueError, match="is not a 'gladstorm record 1' file; got None"):
        Record.load(path)
    with pytest.raises(FileNotFoundError):
        Record.load(tmp_path / "absent.parquet")


def test_a_record_with_rows_missing_is_damaged(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    record.save(path)
    table = pq.read_table(path)
    pq.write_table(table.slice(0, len(table) - 3), path)
    with pytest.raises(ValueError, match=r"is damaged: .* rows"):
        Record.load(path)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.parquet"
    path.write_text("earlier")

    def fails(table: pa.Table, where: str, **_: str) -> None:
        Path(where).write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(pq, "write_table", fails)
    with pytest.raises(KeyboardInterrupt):
        record.save(path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("runs.parquet", "earlier")]
