"""What `import gladstorm as gs` offers: `dir(gs)` is complete, everything in it resolves, and importing is light."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gladstorm as gs
from gladstorm.methods import METHODS, averages, batches, estimators, schedules, steps
from gladstorm.problems import objectives, oracles

# Public where they stand, not here: protocols and bases of parts, states, registries, tables of the documents.
DELIBERATELY_NOT = {
    "foundation.parts": {
        "require_single_numbers",
        "C",
        "Data",
        "Varying",
        "as_data",
        "check",
        "describe",
        "discover",
        "in_float64",
        "is_part",
    },
    "methods": {"METHODS", "Declaration", "declared", "markdown", "part_rows", "parts_markdown", "rows"},
    "methods.averages": {"registry"},
    "methods.batches": {"BatchRule", "registry"},
    "methods.estimators": {"Grad", "registry"},
    "methods.schedules": {"Clock", "adaptive", "registry", "resolved"},
    "methods.steps": {"registry"},
    "oracles": {"Point", "Recipe", "named", "names", "read", "registry"},
    "pages": set(),
    "simulation.record": set(),
    "simulation.simulate": set(),
    "studies.comparison": {
        "against_first",
        "briefly",
        "configured",
        "methods_from",
        "save",
    },
}


def public_names(module: ModuleType) -> set[str]:
    """What a module says is public; where it says nothing, the functions and classes it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return set(listed)
    own = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    return {name for name in own if not name.startswith("_")}


@pytest.mark.parametrize("name", dir(gs))
def test_every_name_shown_resolves(name: str) -> None:
    assert getattr(gs, name) is not None


def test_nothing_else_resolves() -> None:
    assert not hasattr(gs, "nadam")


def test_names_shown_are_those_of_the_stub_each_once_and_in_order() -> None:
    stub = ast.parse(Path(gs.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    listed = [(node.module, alias.name, alias.asname) for node in imports for alias in node.names]
    assert [name for _, name, _ in listed] == [shown for _, _, shown in listed] == gs.__all__  # `as` re-exports a name
    assert sorted(set(listed)) == listed
    assert set(dir(gs)) == {*gs.__all__, "__version__"}


def test_a_star_imports_what_is_shown_and_nothing_else() -> None:
    namespace: dict[str, object] = {}
    exec("from gladstorm import *", namespace)
    imported = {name: value for name, value in namespace.items() if name != "__builtins__"}
    assert imported == {name: getattr(gs, name) for name in dir(gs) if name != "__version__"}


def test_a_public_name_of_a_module_is_shown_or_deliberately_not() -> None:
    homes = {name: module.removeprefix("gladstorm.") for name, module in vars(gs)["_MODULE_OF"].items()}
    modules = {name for name in homes if isinstance(getattr(gs, name), ModuleType)}
    assert set(DELIBERATELY_NOT) == {home for name, home in homes.items() if name not in modules}
    for module, hidden in DELIBERATELY_NOT.items():
        shown = {name for name, home in homes.items() if home == module}
        assert public_names(importlib.import_module(f"gladstorm.{module}")) == shown | hidden, module


def test_every_method_part_oracle_and_objective_is_shown() -> None:
    assert set(METHODS) <= set(dir(gs))
    parts = [cls for module in (averages, batches, estimators, schedules, steps) for cls in module.registry().values()]
    for cls in (*parts, *oracles.registry().values()):
        assert getattr(gs, cls.__name__) is cls
    for objective in objectives.registry().values():
        assert getattr(objectives, objective.__name__, None) is objective


@pytest.mark.parametrize(
    "code",
    [
        "import gladstorm, sys; assert not {'jax', 'numpy', 'pandas'} & set(sys.modules)",
        "import gladstorm; gladstorm.devices.tune(); import jax; assert jax.device_count() >= 1",
        "import gladstorm.comparison.compare, gladstorm.cli, gladstorm as gs; assert callable(gs.compare)",
        "import gladstorm as gs; gs.compare; import gladstorm.cli.compare; assert callable(gs.compare)",
    ],
)
def test_a_process_of_its_own_agrees_in_any_order_of_imports(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)
