"""The command line of the studies, each of which is a command."""

import importlib

import typer

from evidence.study import StudyCommand, about, names
from gladstorm.cli.app import Commands

app = typer.Typer(
    name="python -m evidence",
    cls=Commands,
    help="The studies behind what this project claims. Each writes its results, its figures and its page into --out. "
    "What is published is in docs/evidence.",
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def evidence(ctx: typer.Context) -> None:
    """List the studies where none is named."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


for name in names():
    command = importlib.import_module(f"evidence.{name}.command").command
    app.command(name, cls=StudyCommand, short_help=about(name))(command)
