"""Tasks on a Dask cluster: the numbers of one process, whatever dies; and a sentence for what cannot work."""

import contextlib
import os
import pickle
import queue
import random
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import Any
from unittest import mock

import cloudpickle
import jax.numpy as jnp
import numpy as np
import pytest
from typing_extensions import override

import gladstorm as gs
from benchmarks import faults
from evidence.verification.checks import PartResult
from gladstorm.core.parts import Array
from gladstorm.jobs import interrupts
from gladstorm.jobs.provenance import source_of, versions
from gladstorm.jobs.tasks import Here, Task, results
from gladstorm.methods.steps.step import Memoryless
from gladstorm.simulation import cluster, devices, layout, processes, worker

distributed = pytest.importorskip("distributed")

ORACLE = gs.BlumGladyshev(gs.objectives.named("power:3", start=5.0), B=0.5, G=0.5)
METHODS = {"SGD": gs.sgd([0.01, 0.02]), "NSGDM": gs.nsgdm(0.01, 0.1)}
SMALL = layout.Costs(task_seconds=1e-9, runs_at_once=1)  # tasks of one seed each
CHANCE = random.Random(0)
ARRAYS = ("grad_norm", "value", "sfo", "last", "sampled", "diverged", "reached", "steps", "seeds")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers of one thread each."""
    local = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL")
    with local, distributed.Client(local) as connected:
        yield connected


@pytest.fixture
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MEASURED", SMALL)


def _require_same(one: gs.Record, other: gs.Record) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.config == other.config


@gs.part
class Damped(Memoryless):
    """x − γ v/(1 + ‖v‖): a part of a user's own script."""

    gamma: float

    @override
    def __call__(self, x: Array, v: Array) -> Array:
        moved: Array = x - self.gamma * v / (1 + jnp.linalg.norm(v))
        return moved


@pytest.mark.usefixtures("_small_tasks")
def test_a_cluster_gives_the_numbers_of_this_process(client: Any, tmp_path: Path) -> None:
    here = gs.sweep(ORACLE, METHODS, steps=60, seeds=3)
    _require_same(gs.sweep(ORACLE, METHODS, steps=60, seeds=3, executor=client), here)
    _require_same(gs.sweep(ORACLE, METHODS, steps=60, seeds=3, executor=client, store=tmp_path), here)
    # What is kept there was brought back by this process, which now needs no worker for it.
    _require_same(gs.sweep(ORACLE, METHODS, steps=60, seeds=3, store=tmp_path, executor=_Idle()), here)


class _Idle(Here):
    @override
    def compute(self, tasks: Any) -> Any:
        assert not list(tasks), "what is kept is not dispatched"
        return iter(())


def test_a_part_and_a_function_of_a_users_script_travel(client: Any) -> None:
    objective = gs.objectives.from_function(lambda x: jnp.sum(x**4), np.ones(2))
    oracle, method = (
        gs.BlumGladyshev(objective, B=0.1, G=0.1),
        gs.Method(gs.estimators.Fresh(), Damped(0.2), gs.batches.Fixed(1)),
    )
    by_value = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(by_value)  # as a script's classes are: workers cannot import them
    try:
        there = gs.run(oracle, method, steps=40, seeds=2, executor=client)
    finally:
        cloudpickle.unregister_pickle_by_value(by_value)
    np.testing.assert_allclose(there.last, gs.run(oracle, method, steps=40, seeds=2).last, rtol=1e-12)


def test_a_worker_that_dies_costs_its_task_and_nothing_else(client: Any, tmp_path: Path) -> None:
    marks = [tmp_path / str(number) for number in range(4)]
    tasks = [Task(f"task {n}", n, partial(_die_the_first_time, mark, n)) for n, mark in enumerate(marks)]
    found = dict(results(tasks, None, cluster.OnDask(client)))
    assert [found[n].rows for n in range(4)] == [{"table": [{"number": n}]} for n in range(4)]


def _die_the_first_time(mark: Path, number: int) -> PartResult:
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return PartResult(rows={"table": [{"number": number}]})


def test_a_sweep_whose_worker_or_client_is_killed_has_the_bytes_of_an_undisturbed_one(client: Any) -> None:
    assert faults.survives_a_killed_worker(cluster.OnDask(client), lambda: list(client.run(os.getpid).values()), CHANCE)
    assert list(faults.killing_clients(1, CHANCE)) == [True]


def test_a_task_that_fails_three_times_is_told_and_the_others_go_on(
    client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [Task(f"task {n}", n, partial(_fail, tmp_path / "tries", n)) for n in range(3)]
    found: list[int] = []
    come = (number for number, _ in results(tasks, None, cluster.OnDask(client)))
    with pytest.raises(worker.TasksFailedError, match=r"1 tasks failed 3 times each, and all others are.*is task 1"):
        found.extend(come)
    assert sorted(found) == [0, 2]
    assert (tmp_path / "tries").read_text() == "xxx"
    said = capsys.readouterr().err
    assert "task 1 failed 3 times:" in said
    assert "ZeroDivisionError: on purpose" in said
    assert "in _fail" in said  # the traceback of the worker


def _fail(tries: Path, number: int) -> PartResult:
    if number == 1:
        with tries.open("a") as file:
            file.write("x")
        raise ZeroDivisionError("on purpose")
    return PartResult()


def test_other_versions_on_a_worker_are_said(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "versions", lambda: {"jax": "0.0.1"})
    with pytest.raises(worker.TasksFailedError):
        list(results([Task("task", 0, PartResult)], None, cluster.OnDask(client)))


def test_what_a_worker_says_of_other_versions() -> None:
    asked = versions() | {"jax": "0.0.1"}
    with pytest.raises(
        ValueError,
        match=r"workers must have the versions of the process that sends tasks; one has jax .* where 0\.0\.1 asks",
    ):
        worker.compute_on_worker(b"", asked)


def test_what_a_worker_says_of_other_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_FREE", free := queue.SimpleQueue[Any]())
    free.put(devices.available()[0])  # or who computes would wait for one
    with pytest.raises(ValueError, match=r"one has source \w{16} where of-other-code asks"):
        worker.compute_on_worker(pickle.dumps(PartResult), versions() | {"source": "of-other-code"})


def test_a_task_is_sent_with_the_versions_and_the_source_it_must_be_computed_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By both executors: a worker that is not told the source cannot see that its own is another one."""
    task = Task("task", 0, PartResult)
    wanted = versions() | {"source": source_of(PartResult)}
    assert worker.pack(task, pickle.dumps) == (pickle.dumps(PartResult), wanted)
    sender = object.__new__(processes._Worker)
    sender.joined, theirs = Pipe()
    sender.begin(processes._Attempt(0, task, worker.Tally()))
    assert theirs.recv() == (pickle.dumps(PartResult), wanted)
    client = mock.MagicMock(spec=distributed.Client)
    client.nthreads.return_value = {"worker": 1}
    monkeypatch.setattr(interrupts, "check", mock.Mock(side_effect=KeyboardInterrupt))  # as soon as it is sent
    with pytest.raises(KeyboardInterrupt):
        list(cluster.OnDask(client).compute([(0, task)]))
    assert client.submit.call_args.args[2] == wanted


@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_s_thread_computes_on_a_free_device_and_gives_it_back(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever becomes of the task: a thread that finds no free device waits for ever."""
    before, free = devices.available(), queue.SimpleQueue[Any]()
    free.put(before[1])
    monkeypatch.setattr(worker, "_FREE", free)
    compute = partial(_used_devices, fails)
    packed = worker.pack(Task("task", 0, compute), pickle.dumps)
    for _ in range(2):
        assert free.qsize() == 1
        with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext():
            assert worker.compute_on_worker(*packed) == ([before[1].id], 0)
    assert free.get_nowait() == before[1]
    assert devices.available() == before


def _used_devices(fails: bool) -> tuple[list[int], int]:
    if fails:
        raise ZeroDivisionError
    return [device.id for device in devices.available()], worker._FREE.qsize()


def test_what_cannot_be_sent_is_named(client: Any) -> None:
    lock = threading.Lock()
    task = Task("SGD, seeds 0–9", 0, partial(print, lock))
    with pytest.raises(
        ValueError, match=r"must be picklable, and SGD, seeds 0–9 is not .*in a module that the workers"
    ):
        list(results([task], None, cluster.OnDask(client)))  # type: ignore[type-var]  # not even a result


def test_an_objective_that_cannot_be_sent_is_named_by_class_and_field(client: Any) -> None:
    lock = threading.Lock()

    def guarded(x: Array) -> Array:
        with lock:
            return jnp.sum(x**2)

    oracle = gs.BlumGladyshev(gs.objectives.from_function(guarded, np.ones(2)), B=0.1, G=0.1)
    with pytest.raises(
        ValueError, match=r"must be picklable, and \w+\.\w+ is not \(.*lock.*\): define objectives"
    ) as told:
        gs.run(oracle, gs.sgd(0.1), steps=2, executor=client)
    assert f"and {type(oracle.objective).__name__}." in str(told.value)


def test_a_worker_gives_each_of_its_threads_a_device_of_its_own() -> None:
    assert len(devices.available()) == 2
    with devices.only(devices.available()[1:]):
        assert len(devices.available()) == 1
        record = gs.sweep(ORACLE, METHODS, steps=60, seeds=3)
    _require_same(record, gs.sweep(ORACLE, METHODS, steps=60, seeds=3))


def test_what_is_no_executor_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"executor: must be a dask\.distributed\.Client, or None for this process; got 3"
    ):
        gs.run(ORACLE, gs.sgd(0.1), steps=2, executor=3)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--workers 0", "cluster: workers must be a whole number ≥ 1; got workers=0."),
        ("--workers 1000000", "cluster: 1,000,000 workers must fit in memory; it would take 300 TB"),
        ("--workers 2 --scheduler tcp://127.0.0.1:1", "--workers and --scheduler exclude each other"),
        ("--scheduler nowhere", "a Dask scheduler must answer within 5 seconds; got 'nowhere'"),
        ("--scheduler tcp://127.0.0.1:1", "a Dask scheduler must answer within 5 seconds; got 'tcp://127.0.0.1:1'"),
    ],
)
def test_a_cluster_that_cannot_be_is_one_sentence(
    gladstorm: Any, monkeypatch: pytest.MonkeyPatch, options: str, sentence: str
) -> None:
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 5 if "5 seconds" in sentence else 1)
    code, out, err = gladstorm("simulate", *"--objective cauchy --method sgd --gamma 0.1".split(), *options.split())
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


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
        address = f"tcp://127.0.0.1:{server.server_address[1]}"
        command = "simulate --objective cauchy --method sgd --gamma 0.1 --scheduler".split()
        code, out, err = gladstorm(*command, address)
        server.shutdown()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "(what answers there is no scheduler; a dashboard's address is not its scheduler's)." in err


def test_without_dask_one_sentence_says_what_to_install(gladstorm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    code, _, err = gladstorm("simulate", *"--objective cauchy --method sgd --gamma 0.1 --scheduler tcp://a:1".split())
    assert (code, err.count("\n")) == (2, 1)
    assert "pip install 'gladstorm[dask]'" in err


def test_the_command_line_computes_in_processes(gladstorm: Any, tmp_path: Path) -> None:
    command = "simulate --objective cauchy --method sgd --gamma 0.1 --steps 50 --seeds 2 --quiet --json".split()
    spread = ["--workers", "1", "--store", str(tmp_path / "store")]
    said = subprocess.run([sys.executable, "-m", "gladstorm", *command, *spread], capture_output=True, check=True)
    assert said.stderr == b""
    assert said.stdout.decode() == gladstorm(*command)[1]
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


def test_a_worker_that_is_lost_while_it_is_made_ready_is_said_to_be() -> None:
    lost = mock.MagicMock(spec=distributed.Client)
    lost.register_plugin.side_effect = distributed.comm.CommClosedError("in <TCP> connection closed")
    with pytest.raises(ValueError, match=r"one was lost while it was made ready \(CommClosedError\('in <TCP> conn"):
        cluster.OnDask(lost)
    lost.register_plugin.side_effect = ModuleNotFoundError("No module named 'gladstorm'")
    with pytest.raises(ValueError, match=r"must be able to import this version of gladstorm; one says ModuleNotFound"):
        cluster.OnDask(lost)


def test_with_no_workers_the_job_waits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    local = distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0", silence_logs="CRITICAL")
    said = []

    def send_one(sentence: str) -> None:
        said.append(sentence)
        local.scale(1)

    monkeypatch.setattr(cluster, "log", send_one)
    with local, distributed.Client(local) as client:
        found = dict(results([Task("task", 0, PartResult)], None, cluster.OnDask(client)))
    assert found == {0: PartResult()}
    assert said == ["waiting for workers: the scheduler has none …"]
