"""What `import gladstorm as gs` offers: `dir(gs)` is complete, everything in it resolves, and importing is light."""

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

import gladstorm as gs
import gladstorm.diagnosis
import gladstorm.optax
import gladstorm.torch
from gladstorm.methods import METHODS

# What a module has for others besides what is shown at the top: states, markers, checks, tables and files of a command.
DELIBERATELY_NOT = {
    "comparison.compare": {"ComparisonInterrupted", "configured", "from_random_starts", "methods_from"},
    "core.parts": {"C", "Data", "Varying", "as_data", "check", "describe", "in_float64", "is_part", "parts_of"},
    "simulation.record": set(),
    "simulation.simulate": set(),
}
PACKAGES = ("diagnosis", "lightning", "numpyro", "optax", "pymc", "torch", "transformers")
GROUPS: dict[str, ModuleType] = {name: each for name in gs.__all__ if isinstance(each := getattr(gs, name), ModuleType)}
PARTS = ("averages", "batches", "estimators", "norms", "objectives", "oracles", "schedules", "steps")
MOST = 34  # at the top: 24 names, and ten groups of all others


def public_names(module: ModuleType) -> set[str]:
    """What a module says is public; where it says nothing, the functions and classes it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return set(listed)
    own = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    return {name for name in own if not name.startswith("_")}


@pytest.mark.parametrize("name", dir(gs))
def test_every_name_shown_resolves(name: str) -> None:
    if name in ("lightning", "numpyro", "pymc", "transformers"):
        pytest.importorskip(name)
    assert getattr(gs, name) is not None


@pytest.mark.parametrize("name", PACKAGES)
def test_an_import_of_gladstorm_reaches_every_package_or_says_what_to_install(name: str) -> None:
    code = f"import gladstorm; assert 'torch' not in vars(gladstorm); print(gladstorm.{name}.__name__)"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    missing = re.search(rf"gladstorm\.{name} needs .* pip install", outcome.stderr)
    assert outcome.stdout == f"gladstorm.{name}\n" or missing, outcome.stderr


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("adam", "methods.adam"),
        ("clipped_sgd", "methods.clipped_sgd"),
        ("page", "methods.page"),
        ("Storm", "estimators.Storm"),
        ("Power", "objectives.Power"),
        ("TailAverage", "averages.TailAverage"),
        ("NSGDM", "torch.NSGDM"),
    ],
)
def test_a_name_that_is_in_a_group_is_said_to_be_there(name: str, place: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; it is gladstorm\.{place}$"):
        getattr(gs, name)
    assert getattr(getattr(gs, place.partition(".")[0]), name) is not None


def test_nothing_else_resolves() -> None:
    assert not hasattr(gs, "nadam")


def test_names_shown_are_those_of_the_stub_each_once_and_in_order() -> None:
    stub = ast.parse(Path(gs.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    listed = [(node.module, alias.name, alias.asname) for node in imports for alias in node.names]
    names = [name for _, name, _ in listed]
    assert names == [shown for _, _, shown in listed]  # `as` re-exports a name
    assert gs.__all__ == [name for name in names if name not in PACKAGES]
    assert sorted(set(listed)) == listed
    assert set(dir(gs)) == {*gs.__all__, *PACKAGES, "__version__"}


def test_a_star_imports_what_is_shown_and_nothing_else() -> None:
    namespace: dict[str, object] = {}
    exec("from gladstorm import *", namespace)
    imported = {name: value for name, value in namespace.items() if name != "__builtins__"}
    assert imported == {name: getattr(gs, name) for name in gs.__all__}


def test_a_public_name_of_a_module_is_shown_or_deliberately_not() -> None:
    modules = vars(gs)["_MODULE_OF"]
    homes = {name: modules[name].removeprefix("gladstorm.") for name in gs.__all__}
    groups = {module.__name__.removeprefix("gladstorm.") for module in GROUPS.values()}  # there all of it is shown
    assert set(DELIBERATELY_NOT) == {home for name, home in homes.items() if name not in GROUPS} - groups
    for module, hidden in DELIBERATELY_NOT.items():
        shown = {name for name, home in homes.items() if home == module}
        assert public_names(importlib.import_module(f"gladstorm.{module}")) == shown | hidden, module


@pytest.mark.parametrize("group", PARTS)
def test_every_part_is_in_its_group_under_its_own_name_and_so_is_what_one_s_own_inherits(group: str) -> None:
    module: Any = GROUPS[group]
    classes = list(module.registry().values())
    assert classes
    for cls in classes:
        assert getattr(module, cls.__name__) is cls
        assert cls.__name__ in public_names(module)
        bases = [base for base in cls.__mro__[1:] if vars(module).get(base.__name__) is base]
        assert bases or group == "objectives", cls  # an objective need not inherit


def test_every_method_is_in_its_group_and_is_found_by_its_name() -> None:
    assert set(METHODS) <= set(gs.methods.__all__)
    for name, declaration in METHODS.items():
        assert getattr(gs.methods, name) is declaration.make


def test_what_is_at_the_top_and_in_a_group_is_one_thing() -> None:
    twice = {(name, place) for place, group in GROUPS.items() for name in public_names(group) & set(gs.__all__)}
    assert {("nsgdm", "methods"), ("Step", "steps"), ("Oracle", "oracles"), ("BlumGladyshev", "oracles")} <= twice
    for name, place in twice:
        assert getattr(GROUPS[place], name) is getattr(gs, name), (name, place)


@pytest.mark.parametrize("place", ["the top", *GROUPS])
def test_no_two_names_of_one_place_differ_by_case_only(place: str) -> None:
    names = dir(gs) if place == "the top" else public_names(GROUPS[place])
    alike = [{*pair} for pair in itertools.combinations(sorted(names), 2) if pair[0].lower() == pair[1].lower()]
    assert alike == ([{"Plan", "plan"}] if place == "theory" else [])  # a class, and the function that returns one


def test_the_top_is_small_and_has_no_part_but_the_paper_s_oracle() -> None:
    assert len(gs.__all__) <= MOST
    parts = {cls for group in PARTS for cls in cast(Any, GROUPS[group]).registry().values()}
    assert [name for name in gs.__all__ if getattr(gs, name) in parts] == ["BlumGladyshev"]


def documented(module: ModuleType) -> Iterator[tuple[str, Any, set[str]]]:
    """Every public function and method of a module, with the fields of the class that it may make."""
    for name in public_names(module):
        value = getattr(module, name)
        if inspect.isfunction(value):
            yield name, value, set()
        elif inspect.isclass(value) and value.__module__.startswith("gladstorm"):
            if not dataclasses.is_dataclass(value) and "__init__" in vars(value):
                yield name, value, set()
            fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
            for attribute, function in vars(value).items():
                function = getattr(function, "__func__", function)
                if inspect.isfunction(function) and not attribute.startswith("_"):
                    yield f"{name}.{attribute}", function, fields


@pytest.mark.parametrize("module", [*GROUPS.values(), gladstorm.torch, gladstorm.optax, gladstorm.diagnosis])
def test_docstrings_are_google_style_and_explain_three_arguments_or_more(module: ModuleType) -> None:
    """What takes fewer says it in its first sentence; what makes an object of its fields says it beside the fields."""
    for name, function, fields in documented(module):
        text = inspect.getdoc(function) or ""
        given = {each for each in inspect.signature(function).parameters if not each.startswith("_")} - {"self", "cls"}
        listed = text.partition("Args:\n")[2].partition("\n\n")[0]
        explained = set(re.findall(r"^    \**(\w+(?:, \w+)*): ", listed, re.MULTILINE))
        explained = {each for names in explained for each in names.split(", ")}
        assert explained <= given, f"{name} explains {explained - given}, which it does not take"
        made_of_fields = bool(fields) and not explained
        if len(given) > 2 and not getattr(function, "__override__", False):
            known = fields | {"seed", "dim"} | set(re.findall(r"`(\w+)`", text)) if made_of_fields else explained
            assert given <= known, f"{name} must explain {given - known}"
        assert not re.search(r":(param|returns?|raises)\b|^\s*(Parameters|Returns)\n\s*-{3}", text, re.MULTILINE), name


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
