"""Files that a released version has written are read, and mean the same: tests/fixtures/make.py wrote them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures import make
from gladstorm import Record
from gladstorm.diagnosis import Probes
from gladstorm.suite import SuiteResult
from gladstorm.variational import Fit

FOLDERS = sorted(path.parent for path in Path(make.__file__).parent.glob("*/facts.json"))
READ: dict[str, tuple[str, Callable[[Path], Any], Callable[[Any], make.Facts]]] = {
    "states": ("states.pt", lambda path: torch.load(path, weights_only=True), make.of_states),
    "record": ("record.parquet", Record.load, make.of_record),
    "fit": ("fit.parquet", Fit.load, make.of_fit),
    "probes": ("probes.parquet", Probes.load, make.of_probes),
    "suite": ("suite.json", SuiteResult.load, make.of_suite),
}


def leaves(tree: Any, name: str = "") -> dict[str, Any]:
    """What a tree of lists and dictionaries holds, by its place."""
    if isinstance(tree, dict | list):
        pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {key: leaf for place, part in pairs for key, leaf in leaves(part, f"{name}.{place}").items()}
    return {name: tree}


def test_there_are_files() -> None:
    assert FOLDERS


@pytest.mark.parametrize("what", READ)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.name))
def test_a_file_of_an_earlier_version_means_what_it_meant(folder: Path, what: str) -> None:
    file, load, facts_of = READ[what]
    before = leaves(json.loads((folder / "facts.json").read_text("utf-8"))[what])
    now = leaves(facts_of(load(folder / file)))
    assert before.keys() == now.keys()
    for name, value in before.items():
        expected = pytest.approx(value, rel=1e-6, abs=1e-9, nan_ok=True) if isinstance(value, float) else value
        assert now[name] == expected, name
