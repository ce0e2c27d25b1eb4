"""The architecture as the tree shows it: who may import whom, what is heavy, what is public."""

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import gladstorm

SOURCE = Path(gladstorm.__file__).parent
CONTRIBUTING = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text("utf-8")
# In the order of this table data goes through the packages: each imports only from those above it.
LAYERS = re.findall(r"^\| `(\w+)` \|", CONTRIBUTING.partition("<!-- packages:")[2].partition("\n\n")[0], re.MULTILINE)
PUBLIC_PATHS = ("lightning", "numpyro", "pymc", "transformers")  # modules that only name what `integrations` has

# A record and a plan draw themselves for people: the steps back, made when they are asked for.
STEPS_BACK = {("simulation/record.py", "plotting"), ("theory/plans.py", "plotting")}


def reached(code: str) -> set[str]:
    """The packages that some code reaches: by an import, by the name of a module as a string, by the public face."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {_home(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            modules |= {node.value} if re.fullmatch(r"gladstorm(\.\w+)+", node.value) else set()
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "gladstorm":
            modules |= {_home("gladstorm", node.attr)}
    return {name.split(".")[1] for name in modules if name.startswith("gladstorm.")} & set(LAYERS)


def _home(module: str, name: str) -> str:
    """Where a name of a module comes from; what the package shows comes from one inside it."""
    homes = vars(gladstorm)["_MODULE_OF"]
    return f"{homes[name]}.{name}" if module == "gladstorm" and name in homes else f"{module}.{name}"


def test_what_code_reaches_is_seen_however_it_is_written() -> None:
    for code in (
        "import gladstorm.plotting.figures",
        "def f():\n    from gladstorm.plotting import figures",
        "from gladstorm import plotting",
        "import gladstorm\ngladstorm.plotting.figures.save(figure, path)",
        "importlib.import_module('gladstorm.plotting.figures')",
    ):
        assert reached(code) == {"plotting"}, code
    nothing = "import gladstorm, numpy\nprint(gladstorm.__version__, 'gladstorm.plotting are', numpy.plotting)"
    assert reached(nothing) == set()


def test_a_package_reaches_only_the_packages_before_it() -> None:
    order, back = list(LAYERS), set()
    for path in SOURCE.rglob("*.py"):
        package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if package not in LAYERS:
            continue
        later = reached(path.read_text()) & set(order[order.index(package) + 1 :])
        back |= {(str(path.relative_to(SOURCE)), name) for name in later}
    assert back == STEPS_BACK


def test_modules_are_named_in_import_statements_and_not_in_strings() -> None:
    for path in SOURCE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        said = {  # the subject of a sentence: what the user imported
            argument
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "needing_extras"
            for argument in node.args
        }
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and node not in said]
        named = {text for text in texts if isinstance(text, str) and re.fullmatch(r"gladstorm(\.\w+)+", text)}
        its_package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        packages = {text.split(".")[1] for text in named if find_spec(text)} - {its_package}
        assert {(str(path.relative_to(SOURCE)), package) for package in packages} <= STEPS_BACK, (
            f"{path.name} names {named}"
        )


def test_every_file_is_in_a_package() -> None:
    packages = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    assert packages == {*LAYERS, "__init__", "__main__", *PUBLIC_PATHS}


def test_a_public_path_only_names_what_the_integrations_have() -> None:
    for name in PUBLIC_PATHS:
        about, *rest = ast.parse((SOURCE / f"{name}.py").read_text()).body
        assert isinstance(about, ast.Expr)
        assert {isinstance(node, ast.ImportFrom) and node.module for node in rest} == {f"gladstorm.integrations.{name}"}


def test_what_ships_does_not_know_the_evidence() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
            assert not [name for name in modules if re.fullmatch(r"evidence(\.\w+)*", name)], path


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
