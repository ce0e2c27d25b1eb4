"""Tasks in other processes and on a Dask cluster: the numbers of one process, whatever dies, or one sentence."""

import contextlib
import os
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import cloudpickle
import jax.numpy as jnp
import numpy as np
import pytest
from typing_extensions import override

import gladstorm as gs
from evidence.verification.checks import PartResult
from gladstorm.core.parts import Array
from gladstorm.jobs.tasks import Here, Task, results
from gladstorm.methods.steps.step import Memoryless
from gladstorm.simulation import cluster, layout

distributed = pytest.importorskip("distributed")

ORACLE = gs.BlumGladyshev(gs.objectives.named("power:3", start=5.0), B=0.5, G=0.5)
METHODS = {"SGD": gs.sgd([0.01, 0.02]), "NSGDM": gs.nsgdm(0.01, 0.1)}
ARRAYS = ("grad_norm", "value", "error", "mean_error", "sfo", "last", "sampled", "reached", "steps", "seeds")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers of one thread each."""
    local = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL")
    with local, distributed.Client(local) as connected:
        yield connected


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    """What --workers 2 gives."""
    with cluster.open_executor(2, None) as executor:
        yield executor


@pytest.fixture(params=["two", "client"])
def executor(request: pytest.FixtureRequest) -> Any:
    """Each of the two."""
    return cluster.choose_executor(request.getfixturevalue(request.param))


@pytest.fixture
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "TASK_SECONDS", 1e-9)
    monkeypatch.setattr(layout, "RUNS", 1)


def _require_same(one: gs.Record, other: gs.Record) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.config == other.config


@pytest.mark.usefixtures("_small_tasks")
def test_every_executor_gives_the_bytes_of_this_process_and_what_is_kept_is_sent_nowhere(
    executor: Any, tmp_path: Path
) -> None:
    here = gs.sweep(ORACLE, METHODS, steps=60, seeds=3)
    _require_same(gs.sweep(ORACLE, METHODS, steps=60, seeds=3, executor=executor, store=tmp_path), here)

    class Idle(Here):
        @override
        def compute(self, tasks: Any) -> Any:
            assert not list(tasks)
            return iter(())

    _require_same(gs.sweep(ORACLE, METHODS, steps=60, seeds=3, executor=Idle(), store=tmp_path), here)


def _numbered(number: int) -> PartResult:
    return PartResult(rows={"table": [{"number": number}]})


def _die_the_first_times(folder: Path, times: int, number: int) -> PartResult:
    deaths = len(list(folder.glob("died *")))
    if number == 1 and deaths < times:
        (folder / f"died {deaths}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _numbered(number)


def test_a_death_costs_the_tasks_under_way_and_no_result(two: Any, tmp_path: Path) -> None:
    times = 3  # as often as processes are made again
    tasks = [Task(f"task {n}", n, partial(_die_the_first_times, tmp_path, times, n)) for n in range(6)]
    pairs = list(results(tasks, None, two))
    assert sorted(pairs, key=lambda pair: pair[0]) == [(n, _numbered(n)) for n in range(6)]
    assert len(list(tmp_path.glob("died *"))) == times


def test_a_worker_of_dask_that_dies_costs_its_task(client: Any, tmp_path: Path) -> None:
    tasks = [Task(f"task {n}", n, partial(_die_the_first_times, tmp_path, 1, n)) for n in range(4)]
    assert dict(results(tasks, None, cluster.choose_executor(client))) == {n: _numbered(n) for n in range(4)}


def test_who_dies_again_and_again_ends_the_job_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "nowhere")  # no Python starts
    with (
        cluster.open_executor(1, None) as executor,
        pytest.raises(ChildProcessError, match=r"must live to compute; 4 times one died, .* with task under way"),
    ):
        list(results([Task("task", 0, PartResult)], None, executor))


def _fail() -> PartResult:
    raise ZeroDivisionError("on purpose")


def test_a_task_that_fails_ends_the_job_as_it_does_here_and_leaves_nothing_to_the_next(executor: Any) -> None:
    bad = [Task("bad", 0, _fail), *(Task(f"task {n}", n, partial(_numbered, n)) for n in range(1, 6))]
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        list(results(bad, None, executor))
    good = [Task(f"task {n}", n, partial(_numbered, n)) for n in range(8)]
    first = results(good, None, executor)
    next(first)
    first.close()  # type: ignore[attr-defined]  # a generator
    assert dict(results(good, None, executor)) == {n: _numbered(n) for n in range(8)}


def test_what_cannot_be_sent_is_named(executor: Any) -> None:
    task = Task("SGD, seeds 0–9", 0, partial(print, threading.Lock()))
    with pytest.raises(ValueError, match=r"must be picklable, and SGD, seeds 0–9 is not \(.*lock.*in a module that"):
        list(results([task], None, executor))  # type: ignore[type-var]  # not even a result


def test_other_versions_or_source_on_a_worker_are_said() -> None:
    there = cluster._made_with() | {"jax": "0.0.1", "source": "other"}
    with pytest.raises(ValueError, match=r"one has jax .* where 0\.0\.1 asks, source .* where other asks\."):
        cluster._compute_there(b"", there)


@gs.part
class Damped(Memoryless):
    """x − γ v/(1 + ‖v‖): a part of a user's own script."""

    gamma: float

    @override
    def __call__(self, x: Array, v: Array) -> Array:
        moved: Array = x - self.gamma * v / (1 + jnp.linalg.norm(v))
        return moved


def test_a_part_and_a_function_of_a_users_script_travel(client: Any) -> None:
    objective = gs.objectives.from_function(lambda x: jnp.sum(x**4), np.ones(2))
    oracle = gs.BlumGladyshev(objective, B=0.1, G=0.1)
    method = gs.Method(gs.estimators.Fresh(), Damped(0.2), gs.batches.Fixed(1))
    by_value = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(by_value)  # as a script's classes are: workers cannot import them
    try:
        there = gs.run(oracle, method, steps=40, seeds=2, executor=client)
    finally:
        cloudpickle.unregister_pickle_by_value(by_value)
    np.testing.assert_allclose(there.last, gs.run(oracle, method, steps=40, seeds=2).last, rtol=1e-12)


def _surroundings() -> PartResult:
    ignored = "SigIgn" if not Path("/proc/self/status").exists() else Path("/proc/self/status").read_text()
    blocked = re.search(r"SigBlk:\s*[0-9a-f]*[2367abef]\b", ignored)  # SIGINT is bit 1
    return PartResult(rows={"table": [{"stderr": sys.stdout is sys.stderr, "deaf": bool(blocked), "pid": os.getpid()}]})


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_processes_print_on_standard_error_and_do_not_hear_ctrl_c(two: Any) -> None:
    ((_, there),) = results([Task("task", 0, _surroundings)], None, two)
    (row,) = there.rows["table"]
    assert row["stderr"]
    assert row["deaf"]


def test_processes_end_with_the_command_that_is_killed() -> None:
    script = (
        "import os, time\nfrom functools import partial\nfrom gladstorm.jobs.tasks import Task, results\n"
        "from gladstorm.simulation import cluster\n"
        "if __name__ == '__main__':\n"
        "    with cluster.open_executor(1, None) as executor:\n"
        "        ((_, pid),) = results([Task('pid', 0, os.getpid)], None, executor)\n"
        "        print(pid, flush=True)\n"
        "        list(results([Task('long', 0, partial(time.sleep, 600))], None, executor))\n"
    )
    Path("script.py").write_text(script)
    with subprocess.Popen([sys.executable, "script.py"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.05)


def test_what_is_no_executor_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be a dask\.distributed\.Client, or None for this process; got 3"):
        gs.run(ORACLE, gs.sgd(0.1), steps=2, executor=3)


SIMULATE = "simulate --objective cauchy --method sgd --gamma 0.1".split()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--workers 0", "cluster: workers must be a whole number ≥ 1; got workers=0."),
        ("--workers 1000000", "cluster: 1,000,000 workers must fit in memory; it would take 300 TB"),
        ("--workers 2 --scheduler tcp://127.0.0.1:1", "--workers and --scheduler exclude each other"),
        ("--scheduler nowhere", "must be the address of a Dask scheduler that answers within 1 seconds; got 'nowhere'"),
        ("--scheduler tcp://127.0.0.1:1", "that answers within 1 seconds; got 'tcp://127.0.0.1:1'"),
    ],
)
def test_a_cluster_that_cannot_be_is_one_sentence(
    gladstorm: Any, monkeypatch: pytest.MonkeyPatch, options: str, sentence: str
) -> None:
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 1)
    code, out, err = gladstorm(*SIMULATE, *options.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_an_address_where_another_kind_of_server_answers_is_one_sentence(gladstorm: Any) -> None:
    class Greeting(socketserver.BaseRequestHandler):
        @override
        def handle(self) -> None:
            with contextlib.suppress(OSError):  # the client goes without a word
                self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                while self.request.recv(1024):
                    pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as server:
        threading.Thread(target=server.serve_forever).start()
        code, out, err = gladstorm(*SIMULATE, "--scheduler", f"tcp://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--scheduler: must be the address of a Dask scheduler that answers within" in err


def test_without_dask_one_sentence_says_what_to_install(gladstorm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    code, _, err = gladstorm(*SIMULATE, "--scheduler", "tcp://a:1")
    assert (code, err.count("\n")) == (2, 1)
    assert "pip install 'gladstorm[dask]'" in err


def test_the_command_line_prints_the_same_bytes_with_processes(gladstorm: Any, tmp_path: Path) -> None:
    command = [*SIMULATE, *"--steps 50 --seeds 3 --quiet --json".split()]
    spread = ["--workers", "2", "--store", str(tmp_path / "store")]
    ended = subprocess.run([sys.executable, "-m", "gladstorm", *command, *spread], capture_output=True, check=True)
    assert ended.stderr == b""
    assert ended.stdout.decode() == gladstorm(*command)[1]
    assert list((tmp_path / "store").glob("*/*/*.parquet"))


@pytest.mark.usefixtures("_small_tasks")
def test_the_code_of_the_page_on_clusters_runs(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a shorter sweep, and two processes in place of the scheduler and of Slurm."""
    page = (Path(__file__).parent.parent.parent / "docs/cluster.md").read_text("utf-8")
    fenced = r"<!-- run by the tests, on a local cluster -->\n```python\n(.*?)```"
    by_address, by_slurm = re.findall(fenced, page, re.DOTALL)
    monkeypatch.setattr("dask.distributed.Client", lambda _: client)
    monkeypatch.setitem(sys.modules, "dask_jobqueue", mock.MagicMock())
    here = gs.sweep(ORACLE, METHODS, steps=60, seeds=3)
    for code in (by_address, by_slurm):
        names: dict[str, Any] = {"gs": gs, "oracle": ORACLE, "methods": METHODS}
        exec(code.replace("steps=100_000, seeds=100", "steps=60, seeds=3"), names)
        _require_same(names["record"], here)
        shutil.rmtree("kept")  # or the second block would only read what the first has left
