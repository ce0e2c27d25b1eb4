"""Print what to install to test with the oldest or the newest dependencies that pyproject.toml allows.

The bounds are said there and nowhere else. PyTorch is the one of requirements.txt either way: another is gigabytes.
"""

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent.parent
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "hatchling", "editables")  # what runs the tests


def declared() -> list[Requirement]:
    """What the package and its extras ask for."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return [Requirement(line) for line in lines if not line.startswith("gladstorm")]  # an extra may name others


def pinned(*files: str) -> dict[str, Requirement]:
    """What `make test` and `make test-integrations` run with, by name."""
    named = files or ("requirements.txt", "requirements-integrations.txt")
    lines = [line for file in named for line in (HERE / file).read_text().splitlines()]
    every = [Requirement(line) for line in lines if not line.startswith("#")]
    return {canonicalize_name(wanted.name): wanted for wanted in every}


def at_lower_bound(wanted: Requirement) -> str:
    """The same package at the version after >=.

    >>> at_lower_bound(Requirement("typer>=0.19,<0.25"))
    'typer==0.19'
    """
    (version,) = (each.version for each in wanted.specifier if each.operator == ">=")
    return f"{wanted.name}=={version}"


def main() -> None:
    """Print one requirement per line, for pip's -r."""
    pins, oldest = pinned("requirements.txt"), sys.argv[1] == "oldest"
    for wanted in (
        each for each in declared() if each.name in pins
    ):  # the integrations have an environment of their own
        print(pins["torch"] if wanted.name == "torch" else at_lower_bound(wanted) if oldest else wanted)
    for name in TOOLS:
        print(pins[name] if oldest else name)


if __name__ == "__main__":
    main()
