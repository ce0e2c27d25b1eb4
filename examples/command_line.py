"""The command line of an example that makes a page of docs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def read(module: str, description: str, epilog: str, arguments: Sequence[str] | None) -> tuple[Path, bool]:
    """Where to write, and whether a quick run will do."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="where to write (default: out)")
    parser.add_argument("--quick", action="store_true", help="everything once, badly trained, to see that it works")
    options = parser.parse_args(arguments)
    return options.out, options.quick
