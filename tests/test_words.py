"""Words that a stranger can read: docstrings that stand alone, no participle as a variable, each class name once."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for tree in ("src", "evidence") for path in (ROOT / tree).rglob("*.py"))
BACK_REFERENCES = re.compile(
    r"(It|Its|They|Their|Them|Those|These|That|This one|The same|The other|The others|As above|As in|Of|None|Nothing"
    r"|What|Both|Also|Likewise|Ditto|For it|For them|From it|From the|To the|With the"
    r"|Where|Which|Who|And|Or|But|So|By|Not|Started|\w+ (it|them))\b"
)
SHORTEST = 13  # characters: "Length of x." has 12 and says less than it could
PARTICIPLES = {"agreed", "asked", "found", "kept", "known", "later", "moved", "said", "sought", "turned"}
OF_FILES = {"src/gladstorm/diagnosis/probes.py": {"moved"}}  # columns that files have
IN_TWO_PLACES = {"AutoBatch", "EvaluateAverage", "NoiseMonitor", "Untuned"}  # public: one for each library


def package(path: Path) -> str:
    """Return the package that a file belongs to, such as `gladstorm/theory` or `evidence/untuned`."""
    tree, *folders = path.relative_to(ROOT).parts[:-1]
    return "/".join(([tree] if tree == "evidence" else []) + folders[: 1 if tree == "evidence" else 2])


PACKAGES = sorted({package(path) for path in FILES})


def files(name: str) -> list[Path]:
    """Return the files of one package."""
    return [path for path in FILES if package(path) == name]


def documented(tree: ast.Module) -> list[tuple[int, str, str]]:
    """Line, name and docstring of each module, class and function that has one."""
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [
        (getattr(node, "lineno", 1), getattr(node, "name", "module"), text)
        for node in nodes
        if (text := ast.get_docstring(node))
    ]


def variables(tree: ast.Module) -> list[tuple[int, str]]:
    """Names that a file binds: variables, arguments, fields and attributes."""
    names: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.attr))
        elif isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
    return names


def first_sentence(docstring: str) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join(docstring.split()), maxsplit=1)[0]


def stands_alone(docstring: str) -> bool:
    sentence = first_sentence(docstring)
    return len(sentence) >= SHORTEST and not BACK_REFERENCES.match(sentence)


@pytest.mark.parametrize(
    ("docstring", "good"),
    [
        ("Length of the vector x.", True),
        ("Of x.", False),
        ("None.", False),
        ("Write them to a file.", False),
        ("By optimizer, the error.", False),
        ("What they tell.", False),
        ("Its number.", False),
        ("From the coarsest to the finest.", False),
        ("The same for a table: a list of numbers.", False),
        ("The label with each list replaced by the value that was used.", True),
        ("Items of the list, sorted by name.", True),
    ],
)
def test_the_rule_tells_good_first_sentences_from_bad_ones(docstring: str, good: bool) -> None:
    assert stands_alone(docstring) == good


@pytest.mark.parametrize("name", PACKAGES)
def test_a_first_sentence_is_understood_without_the_signature_above_it(name: str) -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{line} {owner}: {first_sentence(text)}"
        for path in files(name)
        for line, owner, text in documented(ast.parse(path.read_text()))
        if not stands_alone(text)
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", PACKAGES)
def test_no_participle_is_a_variable(name: str) -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{line} {variable}"
        for path in files(name)
        for line, variable in variables(ast.parse(path.read_text()))
        if variable in PARTICIPLES - OF_FILES.get(path.relative_to(ROOT).as_posix(), set())
    ]
    assert not faults, "\n".join(faults)


def test_a_class_name_occurs_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(package(path))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert set(twice) == IN_TWO_PLACES, twice
