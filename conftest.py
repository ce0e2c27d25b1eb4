"""What all tests share. Two CPU devices, as the command line has on two cores, so that spreading runs is tested."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest
from hypothesis import settings
from jax.experimental.compilation_cache import compilation_cache

from gladstorm import devices

# Two thirds of the tests' time would be the compiler's optimizations, which none of the laws tested depends on, and a
# quarter of the rest its newer way to emit fused loops.
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_TO_COMPILE}".strip()
devices.tune()
jax.config.update("jax_num_cpu_devices", 2)
# No deadline: the first call compiles. The same examples every time: a red build can be repeated.
settings.register_profile("gladstorm", deadline=None, derandomize=True)
settings.load_profile("gladstorm")


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


@pytest.fixture
def gladstorm(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: exit code, standard output, standard error."""
    from gladstorm import cli

    monkeypatch.setattr(devices, "tune", lambda: None)  # JAX has started: it is too late, and done above

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gladstorm", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capfd.readouterr()
        return int(end.value.code or 0), out, err

    return command
