"""What all tests share. Two CPU devices, as the command line has on two cores, so that spreading runs is tested.

JAX_NUM_CPU_DEVICES=4 takes four; tests/simulation/test_other_machines.py does.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

# Before NumPy and torch start: every core has a process of its own, and threads beside it wait for each other. Tests
# of torch take a seventh of the time.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import jax
import pytest
from hypothesis import settings
from jax.experimental.compilation_cache import compilation_cache

from gladstorm import devices
from gladstorm.simulation import engine

OPTIONAL = {
    "numpyro": [
        "src/gladstorm/numpyro.py",
        "src/gladstorm/integrations/numpyro",
        "docs/numpyro.md",
        "evidence/posteriors",
    ],
    "pymc": ["src/gladstorm/pymc.py", "src/gladstorm/integrations/pymc.py"],
    "transformers": ["src/gladstorm/transformers.py", "src/gladstorm/integrations/transformers.py"],
    "lightning": ["src/gladstorm/lightning.py", "src/gladstorm/integrations/lightning.py"],
}
collect_ignore = [path for package, paths in OPTIONAL.items() if not find_spec(package) for path in paths]

# Two thirds of the tests' time would be the compiler's optimizations, which none of the laws tested depends on, a
# quarter of the rest its newer way to emit fused loops, and a fifth of what is left LLVM's expensive passes and making
# programs ready for threads.
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_enable_concurrency_optimized_scheduler=false"
)
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
)  # for evidence
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_TO_COMPILE}".strip()
devices.tune()
engine.MOST_PROGRAMS = 10**6  # tests have many shapes and share them
jax.config.update("jax_num_cpu_devices", int(os.environ.get("JAX_NUM_CPU_DEVICES", 2)))
# The files that take longest, a quarter of a minute of CPU time and more each (the browser's, of waiting): begun last,
# one of them would leave the other core idle.
LONGEST_FIRST = (
    "test_verification.py",
    "test_lower_bound_search.py",
    "test_cluster.py",
    "test_numpyro.py",
    "test_numpyro_fit.py",
    "test_simulate.py",
    "test_numpyro_failures.py",
    "test_theory_plan.py",
    "test_every_command.py",
    "test_interrupts.py",
    "test_scale_batch.py",
    "test_norms.py",
    "test_reproduce.py",
    "test_optax.py",
    "test_closed_truths.py",
    "test_hard_instances.py",
)
# No deadline: the first call compiles. The same examples every time: a red build can be repeated.
settings.register_profile("gladstorm", deadline=None, derandomize=True)
settings.load_profile("gladstorm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def pytest_collection_finish() -> None:
    """The garbage collector looks at what tests make, and seldom: the modules and what JAX keeps had cost 4 %."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def _programs_are_shared_by_all_processes_of_this_run_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[None]:
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", str(shared))  # where the command line looks: the user's is left alone
        jax.config.update("jax_compilation_cache_dir", str(shared / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # the short ones are many
        compilation_cache.reset_cache()  # importing the tests has compiled something: JAX decided then
        yield


@pytest.fixture(autouse=True)
def _files_go_to_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it for its workers; tables obey it


@pytest.fixture(params=["CPU", "device"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where torch computes. Values on a device are not looked at; the CPU stands for one."""
    if request.param == "device":
        from gladstorm.torch import norms

        monkeypatch.setattr(norms, "readable", lambda tensor: False)
    return str(request.param)


Command = Callable[..., tuple[int, str, str]]


def _in_this_process(
    name: str, main: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.setattr(devices, "tune", lambda: None)  # JAX has started: it is too late, and done above

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfd.readouterr()
        return int(end.value.code or 0), out, err

    return command


@pytest.fixture
def gladstorm(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process: exit code, standard output, standard error."""
    from gladstorm import cli

    return _in_this_process("gladstorm", cli.main, monkeypatch, capfd)


@pytest.fixture
def evidence(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """`python -m evidence` in this process: exit code, standard output, standard error."""
    from evidence.app import app
    from gladstorm import cli

    return _in_this_process("python -m evidence", lambda: cli.main(app), monkeypatch, capfd)
