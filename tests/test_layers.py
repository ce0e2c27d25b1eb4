"""The architecture as the tree shows it: who may import whom, what is heavy, what is public."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import gladstorm
from gladstorm.foundation import sources
from gladstorm.foundation.provenance import ROOMS

SOURCE = Path(gladstorm.__file__).parent

# A record draws itself for people, at the end of the line: the one step back, made when it is asked for.
STEPS_BACK = {("simulation/record.py", "pages")}


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


def test_a_room_imports_only_from_the_rooms_before_it() -> None:
    order = list(ROOMS)
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        later = imported(path) & set(order[order.index(room) + 1 :])
        back = {(str(path.relative_to(SOURCE)), each) for each in later}
        assert back <= STEPS_BACK, f"{path.name} imports {later}, which stand after {room}"


def test_modules_are_named_in_import_statements_and_not_in_strings() -> None:
    for path in SOURCE.rglob("*.py"):
        texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        named = {text for text in texts if isinstance(text, str) and re.fullmatch(r"gladstorm(\.\w+)+", text)}
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        rooms = {text.split(".")[1] for text in named if sources._is_module(text)} - {own}
        assert {(str(path.relative_to(SOURCE)), room) for room in rooms} <= STEPS_BACK, f"{path.name} names {named}"


def test_every_file_is_in_a_room() -> None:
    found = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    assert found == {*ROOMS, "__init__", "__main__"}


def test_importing_the_package_and_asking_for_help_loads_nothing_heavy() -> None:
    heavy = ("jax", "numpy", "pandas", "pyarrow")
    code = f"import sys, gladstorm, gladstorm.cli; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_core_stands_on_nothing_random_or_global() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "np.random.seed" not in text
        assert path.name == "devices.py" or "config.update" not in text


def test_who_implements_a_contract_says_so_with_override_and_not_with_noise() -> None:
    for path in (SOURCE / "methods").rglob("*.py"):
        text = path.read_text()
        assert "See the class" not in text, path
        assert "noqa" not in text, path
