"""Tables as documents have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table in Markdown; a bar inside a cell is escaped.

    >>> print(markdown_table(["x", "|x|"], [["-1", "1"]]))
    | x | \|x\| |
    | --- | --- |
    | -1 | 1 |
    """
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
