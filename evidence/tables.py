"""Write the tables of methods, parts, complexities and works in docs and CONTRIBUTING.md from what the code declares:

python -m evidence.tables
"""

from __future__ import annotations

from pathlib import Path

from gladstorm.core import references
from gladstorm.core.markdown import markdown_table
from gladstorm.jobs.provenance import LAYERS
from gladstorm.methods import markdown, parts_markdown
from gladstorm.theory import table

ROOT = Path(__file__).parent.parent
NOTE = "written by python -m evidence.tables; a test compares it with the code"


def with_table(text: str, name: str, table: str) -> str:
    """The text with the table after the comment of that name renewed."""
    comment = f"<!-- {name}: {NOTE} -->\n"
    before, found, after = text.partition(comment)
    if not found:
        raise ValueError(f"tables: a document must have the line {comment.strip()!r}; got none.")
    rest = "".join(after.splitlines(keepends=True)[_length(after) :])
    return f"{before}{comment}{table}\n{rest}"


def _length(text: str) -> int:
    lines = text.splitlines()
    return next((i for i, line in enumerate(lines) if not line.startswith(("|", "- "))), len(lines))


def methods(text: str) -> str:
    """docs/methods.md with its tables renewed."""
    return with_table(with_table(text, "methods", markdown()), "parts", parts_markdown())


def theory(text: str) -> str:
    """docs/theory.md with its table renewed."""
    return with_table(text, "complexity", table.markdown())


def bibliography(text: str) -> str:
    """docs/bibliography.md with its list renewed."""
    return with_table(text, "works", references.markdown())


def packages(text: str) -> str:
    """CONTRIBUTING.md with its table of packages renewed."""
    written = markdown_table(["package", "what is in it"], [[f"`{name}`", what] for name, what in LAYERS.items()])
    return with_table(text, "packages", written)


PAGES = {
    "CONTRIBUTING.md": packages,
    "docs/methods.md": methods,
    "docs/theory.md": theory,
    "docs/bibliography.md": bibliography,
}

if __name__ == "__main__":
    for name, renewed in PAGES.items():
        path = ROOT / name
        path.write_text(renewed(path.read_text()))
