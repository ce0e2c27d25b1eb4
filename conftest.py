"""What all tests share. Two CPU devices, as the command line has on two cores, so that spreading runs is tested."""

from pathlib import Path

import jax
import pytest
from hypothesis import settings

jax.config.update("jax_num_cpu_devices", 2)
# No deadline: the first call compiles. The same examples every time: a red build can be repeated.
settings.register_profile("gladstorm", deadline=None, derandomize=True)
settings.load_profile("gladstorm")


@pytest.fixture(autouse=True)
def _files_go_to_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
