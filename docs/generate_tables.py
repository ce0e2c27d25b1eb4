"""Write the tables of methods and parts in README.md and docs/methods.md from the declarations:

python docs/generate_tables.py
"""

from __future__ import annotations

from pathlib import Path

from gladstorm import scheduled  # noqa: F401 - importing it makes its methods known
from gladstorm.methods import markdown, parts_markdown

DOCS = Path(__file__).parent
NOTE = "written by docs/generate_tables.py; a test compares it with the code"


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
    return next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))


def readme(text: str) -> str:
    """The README with its table renewed."""
    return with_table(text, "methods", markdown("method", "estimator", "step", "batch", "sfo"))


def methods(text: str) -> str:
    """docs/methods.md with its tables renewed."""
    return with_table(with_table(text, "methods", markdown()), "parts", parts_markdown())


if __name__ == "__main__":
    for path, renewed in ((DOCS.parent / "README.md", readme), (DOCS / "methods.md", methods)):
        path.write_text(renewed(path.read_text()))
