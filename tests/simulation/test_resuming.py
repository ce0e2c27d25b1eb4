"""A sweep with a store: resumed it gives the same bytes, and what is kept is found by what was asked for."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import gladstorm as gs
from gladstorm.jobs import interrupts, provenance
from gladstorm.simulation import layout, runs
from gladstorm.simulation.fingerprint import fingerprint

ORACLE = gs.BlumGladyshev(gs.objectives.named("power:3", start=5.0), B=0.5, G=0.5)
METHODS = {"SGD": gs.sgd([0.01, 0.02]), "NSGDM": gs.nsgdm(0.01, 0.1)}
Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of one seed each."""
    costs = layout.Costs(task_seconds=1e-9, runs_at_once=1)
    monkeypatch.setattr(layout, "MEASURED", costs)


def _refused(self: runs.Runs) -> gs.Record:
    raise AssertionError("what is kept is not computed")


def _bytes(record: gs.Record, path: Path) -> bytes:
    record.save(path)
    return path.read_bytes()


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("look", [1, 4, 7])
def test_an_interrupted_sweep_resumes_to_the_bytes_of_an_uninterrupted_one(
    look: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gs.sweep(ORACLE, METHODS, steps=50, seeds=4)
    looks = iter(range(10**6))

    def check() -> None:
        if next(looks) == look + 8:  # it looks once for each of eight tasks in the store
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as during:
        during.setattr(interrupts, "check", check)
        with pytest.raises(gs.Interrupted):
            gs.sweep(ORACLE, METHODS, steps=50, seeds=4, store=tmp_path / "store")
    kept = len(list((tmp_path / "store").glob("*/*/*.parquet")))
    assert kept < 8
    resumed = gs.sweep(ORACLE, METHODS, steps=50, seeds=4, store=tmp_path / "store")
    assert _bytes(resumed, tmp_path / "resumed") == _bytes(whole, tmp_path / "whole")
    monkeypatch.setattr(runs.Runs, "__call__", _refused)
    again = gs.sweep(ORACLE, METHODS, steps=50, seeds=4, store=tmp_path / "store")
    assert _bytes(again, tmp_path / "again") == _bytes(whole, tmp_path / "whole")


def test_names_of_methods_decide_nothing_and_every_number_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gs.sweep(ORACLE, METHODS, steps=20, seeds=2, store=tmp_path)
    monkeypatch.setattr(runs.Runs, "__call__", _refused)
    renamed = {"a": METHODS["SGD"], "b": METHODS["NSGDM"]}
    assert gs.sweep(ORACLE, renamed, steps=20, seeds=2, store=tmp_path).labels[-1] == "b"
    changes: list[dict[str, Any]] = [{"steps": 21}, {"seeds": 3}, {"records": 9}]
    for change in changes:
        with pytest.raises(AssertionError, match="not computed"):
            gs.sweep(ORACLE, METHODS, **{"steps": 20, "seeds": 2, "store": tmp_path, **change})
    with pytest.raises(AssertionError, match="not computed"):
        gs.run(ORACLE, gs.nsgdm(0.01, 0.11), steps=20, seeds=2, store=tmp_path)
    other = gs.BlumGladyshev(ORACLE.objective, B=0.5, G=0.6)
    with pytest.raises(AssertionError, match="not computed"):
        gs.sweep(other, METHODS, steps=20, seeds=2, store=tmp_path)


@pytest.mark.parametrize(
    ("changed", "computed"),
    [
        ("simulation.engine", True),
        ("methods.estimators.estimator", True),
        ("problems.objectives.elementary", True),
        ("methods.estimators.two_point", False),
        ("theory.statement", False),
    ],
)
def test_other_source_of_the_engine_or_of_a_part_is_another_result(
    changed: str, computed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest_of(roots: frozenset[str]) -> str:
        return real(roots) + changed * (f"gladstorm.{changed}" in provenance._closure(roots))

    gs.run(ORACLE, gs.sgd(0.01), steps=20, seeds=2, store=tmp_path)
    real = provenance._digest_of
    monkeypatch.setattr(provenance, "_digest_of", digest_of)
    monkeypatch.setattr(runs.Runs, "__call__", _refused)
    with pytest.raises(AssertionError, match="not computed") if computed else nullcontext():
        gs.run(ORACLE, gs.sgd(0.01), steps=20, seeds=2, store=tmp_path)


SCALE = 1.0


def _own(captured: Any) -> gs.BlumGladyshev:
    objective = gs.objectives.from_function(lambda x: SCALE * jnp.sum((x - captured) ** 2), np.ones(3))
    return gs.BlumGladyshev(objective, B=0.5, G=1.0)


def test_what_a_users_function_does_decides_and_its_name_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed(captured: Any) -> str | None:
        return fingerprint(_own(captured), gs.sgd(0.1))

    first = hashed(np.zeros(3))
    assert first is not None
    assert hashed(np.zeros(3)) == first
    assert hashed(np.array([0.0, 0.0, 1e-9])) != first  # an array it captures
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0)
    assert hashed(np.zeros(3)) != first  # a global it reads
    assert fingerprint(ORACLE, gs.sgd(0.1)) is None  # this package's parts are known by source and numbers


def test_a_fingerprint_is_the_same_in_another_process() -> None:
    program = (
        "import jax.numpy as jnp, numpy as np, gladstorm as gs\n"
        "from gladstorm.simulation.fingerprint import fingerprint\n"
        "f = gs.objectives.from_function(lambda x: jnp.sum(jnp.abs(x) ** 1.5), np.ones(3))\n"
        "print(fingerprint(gs.BlumGladyshev(f, B=0.5, G=1.0), gs.nstorm(0.1, 0.1)))"
    )
    said = [subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(2)]
    assert said[0] == said[1] != b"None\n"


def test_compare_killed_half_way_and_resumed_prints_the_same_table(gladstorm: Said, tmp_path: Path) -> None:
    problem = "--objective power:3 --start 4.7 --B 0.5 --G 0.5 --budget 400 --seeds 3 --grid 1e-3,1e-1,3 --quiet"
    methods = "--method nstorm(eta=0.01) --method sgd --method nsgdm(eta=0.1)"
    command = ["compare", *problem.split(), *methods.split()]
    _, table, _ = gladstorm(*command)
    store = tmp_path / "store"
    process = subprocess.Popen(
        [sys.executable, "-m", "gladstorm", *command, "--store", str(store)], stdout=-1, stderr=-1
    )
    while process.poll() is None and not list(store.glob("*/*/*.parquet")):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    code, resumed, err = gladstorm(*command, "--store", str(store))
    assert (code, err) == (0, "")
    assert resumed == table
