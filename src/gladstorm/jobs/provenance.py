"""What a result depends on besides its inputs: the versions, and the source of the modules its computation imports.

Imports are read from the text, wherever in a module they stand, and followed inside this package and the packages that
joined it (`follow`). Nothing is imported and nothing is run. Comments and docstrings do not count. What a package's
`__init__` only passes on is looked up by name, in its stub if it has one, so that importing one name from a package
does not depend on the rest of the package. An import from a later layer is not followed: it is for people, such as a
record's picture, and no result comes from it.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import platform
import sys
from collections.abc import Iterable, Iterator
from functools import cache, partial
from importlib.util import resolve_name
from pathlib import Path
from types import MethodType
from typing import Any, NamedTuple

import gladstorm

# The packages of gladstorm, in the order data goes through them. A package imports from those before it only: the test
# of layers, the table in CONTRIBUTING.md and the hash of a job's source use this list.
LAYERS = {
    "core": "parts, rules, texts, constants, statistics, references",
    "jobs": "long work: files, store, tasks, progress, provenance",
    "problems": "objectives, oracles (their stochastic gradients), problems with noise of their own, hard instances",
    "theory": "the theorems: plain Python, no JAX; one family per file",
    "methods": "estimators, steps, batches, averages, schedules; named compositions; methods by theorem and as text",
    "simulation": "one run, the compiled program, how runs lie on devices, run and sweep, the record",
    "plotting": "colours, lines and figures; nothing above it draws",
    "diagnosis": "from probes of a loss to estimates, verdicts and advice: NumPy and theory only, no JAX",
    "torch": "the methods as PyTorch optimizers: torch and theory only, no JAX",
    "optax": "the methods as Optax transformations",
    "variational": "fits of Gaussians to densities",
    "integrations": "the methods inside Lightning, the Hugging Face Trainer and numpyro",
    "comparison": "methods at equal cost: budgets, tuning, scores, intervals",
    "suite": "common methods on common problems: run, tables, figures",
    "worst": "the worst problem that a theorem covers: search, audit, figures",
    "cli": "the command line: thin, one file per family of commands",
}
_DIGITS = 16


def versions() -> dict[str, str]:
    """The versions a result depends on."""
    import jax  # not before: the layers and the source of a job are known without it
    import numpy as np

    return {
        "gladstorm": gladstorm.__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def digest(data: bytes) -> str:
    """The first digits of the SHA-256 of some bytes: enough to tell files apart."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


_FOLLOWED = ["gladstorm"]  # packages, in the order of their layers
_NESTED = ("body", "orelse", "finalbody", "handlers", "cases")  # where statements hold statements


def follow(package: str) -> None:
    """Take a package's own source for known, as this package's is: its `__init__` calls this with its name."""
    if package not in _FOLLOWED:
        _FOLLOWED.append(package)


def is_followed(module: str) -> bool:
    """Whether a module is of a package whose source is known.

    >>> is_followed("gladstorm.theory"), is_followed("numpy")
    (True, False)
    """
    return module.partition(".")[0] in _FOLLOWED


def source_of(*values: Any) -> str:
    """A hash of the source that functions, classes and objects made of them are computed with.

    Args:
        values: Functions, classes, partial calls, and parts or other dataclasses with what they hold.

    Returns:
        The hash. It depends on the modules that these come from and on all that they import; a class or function that
        is not of a followed package adds nothing.
    """
    return _digest_of(frozenset(_modules_of(values)))


def modules_of(*values: Any) -> set[str]:
    """The names of the modules that `source_of` reads."""
    return _closure(frozenset(_modules_of(values)))


@cache
def source_digest() -> str:
    """A hash of every byte of all followed source: taken in a hundredth of the time, for what may be made again."""
    files = [(path, root) for root in map(_folder, _FOLLOWED) for path in sorted(root.rglob("*.py"))]
    return digest(b"".join(str(path.relative_to(root)).encode() + path.read_bytes() for path, root in files))


def _modules_of(value: Any) -> Iterator[str]:
    """The followed modules in which the functions and classes that a value consists of are defined."""
    if isinstance(value, tuple | list | set | frozenset):
        for entry in value:
            yield from _modules_of(entry)
    elif isinstance(value, dict):
        yield from _modules_of(list(value.values()))
    elif isinstance(value, partial):
        yield from _modules_of([value.func, value.args, value.keywords])
    elif isinstance(value, MethodType):
        yield from _modules_of([value.__func__, value.__self__])
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _modules_of([type(value), *(getattr(value, field.name) for field in dataclasses.fields(value))])
    defined = value if hasattr(value, "__qualname__") else type(value)
    for base in getattr(defined, "__mro__", (defined,)):
        if is_followed(str(base.__module__)):
            yield base.__module__


@cache
def _digest_of(roots: frozenset[str]) -> str:
    return digest("".join(f"{name} {_read(name).digest}\n" for name in sorted(_closure(roots))).encode())


def _closure(roots: Iterable[str]) -> set[str]:
    """These modules and all that they import, directly or through others."""
    modules: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in modules:
            modules.add(name)
            waiting += _imported(name)
    return modules


@cache
def _imported(name: str) -> set[str]:
    return {module for module in _read(name).imports if _layer(module) <= _layer(name)}


def _layer(module: str) -> int:
    """The number of a module's layer."""
    package, *inside = module.split(".")
    if package != _FOLLOWED[0]:
        return len(LAYERS) + _FOLLOWED.index(package)
    return list(LAYERS).index(inside[0]) if inside and inside[0] in LAYERS else -1


class _Text(NamedTuple):
    digest: str  # of its statements
    imports: frozenset[str]  # modules


def _read(name: str) -> _Text:
    return _parse(name, _file(name).read_bytes())


@cache
def _parse(name: str, text: bytes) -> _Text:
    tree = ast.parse(text)
    imports: set[str] = set()
    for local, module, attribute in list(_bindings(tree, name)):
        defined_in, within = _origin(module, attribute)
        if within is None and _is_package(defined_in):
            imports |= set(_read_from_package(tree, local, defined_in))
        elif _is_module(defined_in):
            imports.add(defined_in)
    return _Text(digest(ast.dump(tree).encode()), frozenset(imports))


def _origin(module: str, name: str | None) -> tuple[str, str | None]:
    """The module that defines a name of a module, and the name; no name if what is meant is a module itself."""
    while name and _is_package(module):
        if (source := _passed_on(module).get(name, (module, name))) == (module, name):
            break
        module, name = source
    return (f"{module}.{name}", None) if name and _is_module(f"{module}.{name}") else (module, name)


def _read_from_package(tree: ast.AST, local: str, package: str) -> Iterator[str]:
    """The modules whose names a text reads from a package that it knows by a local name, as in package.module.name."""
    inner = set()
    for node in ast.walk(tree):  # from the outside in: a.b.c comes before a.b
        if id(node) in inner or not isinstance(node, ast.Attribute | ast.Name):
            continue
        names: list[str] = []
        innermost: ast.AST = node
        while isinstance(innermost, ast.Attribute):
            names.insert(0, innermost.attr)
            innermost = innermost.value
            inner.add(id(innermost))
        if isinstance(innermost, ast.Name) and innermost.id == local:
            module, within = package, None
            while names and within is None and _is_package(module):
                module, within = _origin(module, names.pop(0))
            yield module
            if within is None and _is_package(module):  # the package as a value: anything may be read from it
                yield from filter(_is_module, {_origin(module, name)[0] for name in _passed_on(module)})


def _bindings(tree: ast.AST, name: str) -> Iterator[tuple[str, str, str | None]]:
    """Every import of a module: the local name, the module, the name in it. Docstrings are removed meanwhile."""
    for statement in _statements(tree):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield alias.asname or alias.name, alias.name, None
                if "." in alias.name and not alias.asname:  # import a.b binds a
                    yield alias.name.partition(".")[0], alias.name.partition(".")[0], None
        elif isinstance(statement, ast.ImportFrom):
            package = name if _is_package(name) else name.rpartition(".")[0]
            module = resolve_name("." * statement.level + (statement.module or ""), package)
            for alias in statement.names:
                yield alias.asname or alias.name, module, alias.name


def _statements(node: Any) -> Iterator[ast.stmt]:
    """All statements inside one, without docstrings, which are removed, and what only type checkers read."""
    for field in _NESTED:
        inside = getattr(node, field, None)
        if not isinstance(inside, list) or (field == "body" and _is_for_type_checkers(node)):
            continue
        inside[:] = [statement for statement in inside if not _is_docstring(statement)]
        for statement in inside:
            yield statement
            yield from _statements(statement)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@cache
def _passed_on(package: str) -> dict[str, tuple[str, str | None]]:
    """The names that a package imports from elsewhere, and from where: by its stub if it has one."""
    stub = _file(package).with_suffix(".pyi")
    tree = ast.parse((stub if stub.is_file() else _file(package)).read_bytes())
    return {local: (module, name) for local, module, name in _bindings(tree, package) if name}


def _folder(package: str) -> Path:
    return Path(str(sys.modules[package].__file__)).parent


@cache
def _file(module: str) -> Path:
    package, *inside = module.split(".")
    path = _folder(package).joinpath(*inside)
    return path / "__init__.py" if (path / "__init__.py").is_file() else path.with_suffix(".py")


def _is_module(name: str) -> bool:
    return is_followed(name) and _file(name).is_file()


def _is_package(name: str) -> bool:
    return _is_module(name) and _file(name).name == "__init__.py"
