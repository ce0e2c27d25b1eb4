"""How tables are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def show(*tables: Table) -> None:
    """Print tables as wide as the terminal; a file or a pipe has no width to fit."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = 120
    for table in tables:
        console.print(table)
