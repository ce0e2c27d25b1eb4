"""The wheel as users install it, in empty environments (`make test-wheel`): an extra brings what it needs, no more."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TORCH = next(line for line in (ROOT / "requirements.txt").read_text().splitlines() if line.startswith("torch=="))
PLAN = "plan nstorm --alpha 0 --L 1 --B 0.1 --G 0.5 --gap 1 --horizon 1000"
SIMULATE = (
    "simulate --objective power:3 --dim 10 --B 0.5 --G 0.5 --method nsgdm(gamma=5e-3,eta=0.01) --steps 50 --seeds 2"
)
TRAIN = """
import torch
import gladstorm.torch
from gladstorm.torch import diagnose
torch.manual_seed(0)
data, model = torch.randn(256, 4), torch.nn.Linear(4, 1)
batches = list(data.split(32))
loss_of = lambda model, batch: (model(batch).squeeze(1) - batch.sum(1)).square().mean()
offered = [getattr(gladstorm.torch, name) for name in gladstorm.torch.__all__]
for kind in (kind for kind in offered if hasattr(kind, "needs_closure") and not kind.needs_closure):
    optimizer = kind(model.parameters(), **({"horizon": 9} if kind is gladstorm.torch.Untuned else {}))
    before = model.weight.detach().clone()
    loss_of(model, batches[0]).backward()
    optimizer.step()
    assert not torch.equal(before, model.weight)
print(diagnose(loss_of, model, batches, 48))
print(diagnose(loss_of, model, batches, 96, checkpoint=torch.nn.Linear(4, 1).state_dict()))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make dist` fills."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Callable[..., Callable[..., str]]:
    """An empty environment with the wheel and some extras; what runs a program in it."""

    def install(extras: str, *first: str) -> Callable[..., str]:
        subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
        python = str(tmp_path / "env/bin/python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for wanted in (*first, f"gladstorm[{extras}] @ {wheel.as_uri()}"):
            subprocess.run([*pip, wanted], check=True)

        def run(*words: str) -> str:
            done = subprocess.run([python, *words], capture_output=True, text=True, cwd=tmp_path, check=False)
            return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr}"

        return run

    return install


def packages(run: Callable[..., str]) -> set[str]:
    listed = run("-c", "import importlib.metadata as m; print(*{d.name.lower() for d in m.distributions()})")
    return set(listed.split())


def test_the_wheel_has_the_library_and_neither_evidence_nor_tests(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gladstorm"}
    assert "gladstorm/core/references.bib" in zipfile.ZipFile(wheel).namelist()


def test_the_source_archive_has_tests_and_evidence(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        tops = {name.split("/")[1] for name in files.getnames() if "/" in name}
    assert {"src", "tests", "evidence", "docs", "README.md", "LICENSE", "pyproject.toml"} <= tops


def test_pypi_shows_the_readme_with_links_that_lead_somewhere(built: Path, wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        (name,) = [each for each in files.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = email.message_from_string(files.read(name).decode())
    homepage = metadata["Project-URL"].removeprefix("Homepage, ")
    text = str(metadata.get_payload())
    links = [link or picture for link, picture in re.findall(r'\]\(([^)]+)\)|src="([^"]+)"', text)]
    assert len(links) > 10
    assert all(link.startswith(("https://", "#")) for link in links)
    assert f"]({homepage}/docs/diagnosis.md)" in text
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = str(tmp_path / "env/bin/python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "twine", "readme-renderer[md]"], check=True)
    subprocess.run([python, "-m", "twine", "check", "--strict", *map(str, built.iterdir())], check=True)
    (tmp_path / "description.md").write_text(text, "utf-8")
    render = "from readme_renderer.markdown import render; print(render(open('description.md').read()))"
    shown = subprocess.run([python, "-c", render], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    shown_links = re.findall(r'(?:href|src)="([^"]*)"', shown)
    assert [link for link in shown_links if not link.startswith("#")] == [link for link in links if link[0] != "#"]


def test_core_only_plans_and_says_which_extra_the_rest_needs(installed: Callable[..., Callable[..., str]]) -> None:
    run = installed("")
    assert not {"jax", "scipy", "pandas", "pyarrow", "torch", "matplotlib"} & packages(run)
    assert "guarantee" in run("-m", "gladstorm", *PLAN.split()) or "bound" in run("-m", "gladstorm", *PLAN.split())
    assert "--horizon" in run("-m", "gladstorm", "plan", "--help")
    told = run("-m", "gladstorm", *SIMULATE.split())
    assert told.startswith("exit 2: Error: ")
    assert "pip install 'gladstorm[sim]'" in told
    assert len(told.strip().splitlines()) == 1
    assert "pip install 'gladstorm[sim]'" in run("-c", "import gladstorm as gs; gs.run")
    assert "pip install 'gladstorm[torch]'" in run("-c", "import gladstorm.torch")
    assert "pip install 'gladstorm[optax]'" in run("-c", "import gladstorm.optax")


def test_torch_only_trains_and_diagnoses(installed: Callable[..., Callable[..., str]]) -> None:
    run = installed("torch", TORCH)
    assert not {"jax", "scipy", "pandas", "pyarrow", "matplotlib"} & packages(run)
    told = run("-c", TRAIN)
    assert not told.startswith("exit"), told


def test_sim_only_simulates(installed: Callable[..., Callable[..., str]]) -> None:
    run = installed("sim")
    assert not {"pandas", "torch", "matplotlib", "optax"} & packages(run)
    assert "nsgdm" in run("-m", "gladstorm", *SIMULATE.split())
