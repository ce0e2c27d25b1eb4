"""The architecture as the tree shows it: who may import whom, what is heavy, what is public."""

import ast
import subprocess
import sys
from pathlib import Path

import gladstorm

SOURCE = Path(gladstorm.__file__).parent

# Each module imports only what stands above it.
LAYERS = [
    "rules",
    "constants",
    "parts",
    "schedules",
    "norms",
    "objectives",
    "fair_coins",
    "oracles",
    "finite_sums",
    "noise_laws",
    "hard_instances",
    "estimators",
    "steps",
    "batches",
    "methods",
    "one_run",
    "engine",
    "layout",
    "progress",
    "provenance",
    "files",
    "programs",
    "record",
    "simulate",
    "theory",
    "scheduled",
    "optax",
    "torch",
    "analysis",
    "compositions",
    "experiments",
    "compare",
    "verification",
    "figures",
    "drawing",
    "report",
    "publish",
    "devices",
    "cli",
    "__main__",
]


def imported(path: Path) -> set[str]:
    """The gladstorm modules a file imports, wherever in it the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("gladstorm.")}
    return found


def test_imports_point_upwards() -> None:
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if module == "__init__":
            continue
        below = imported(path) - set(LAYERS[: LAYERS.index(module) + 1])
        assert not below & set(LAYERS), f"{path.name} imports {below}, which stands below {module}"


def test_importing_the_package_and_asking_for_help_loads_nothing_heavy() -> None:
    heavy = ("jax", "numpy", "pandas", "pyarrow")
    code = f"import sys, gladstorm, gladstorm.cli; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_public_name_exists_and_is_listed() -> None:
    for name in gladstorm.__all__:
        assert getattr(gladstorm, name) is not None
    assert set(dir(gladstorm)) == set(gladstorm.__all__)
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    typed = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gladstorm")
        for alias in node.names
    }
    assert typed == set(gladstorm.__all__)
    assert not hasattr(gladstorm, "nadam")


def test_the_core_stands_on_nothing_random_or_global() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "np.random.seed" not in text
        assert path.name == "devices.py" or "config.update" not in text
