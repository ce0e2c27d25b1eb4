"""The application the commands register with, and how it ends."""

from __future__ import annotations

import sys

import typer

app = typer.Typer(
    name="gladstorm",
    help="Stochastic optimization when gradient noise grows with the distance travelled.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command line: exit 0, 1 if a check failed, 2 with one sentence on bad usage, 130 on Ctrl-C."""
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as problem:
        if not isinstance(problem, ValueError | OSError) and not hasattr(problem, "format_message"):
            raise
        message = problem.format_message() if hasattr(problem, "format_message") else str(problem)
        typer.echo(f"Error: {message}", err=True)
        sys.exit(2)
    sys.exit(code)
