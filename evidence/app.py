"""The command line of the studies, each of which is a command."""

import importlib
from typing import Any

import typer

from evidence.study import StudyCommand, about, names
from gladstorm.cli.app import Commands


class Studies(Commands):
    """All studies; only the one that is started is imported."""

    def list_commands(self, _ctx: Any) -> list[str]:
        """List the names of all studies."""
        return names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the command of a study."""
        if cmd_name in names() and cmd_name not in self.commands:
            study = typer.Typer(add_completion=False, rich_markup_mode=None)
            command = importlib.import_module(f"evidence.{cmd_name}.command").command
            study.command(cmd_name, cls=StudyCommand, short_help=about(cmd_name))(command)
            self.commands[cmd_name] = typer.main.get_command(study)
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    name="python -m evidence",
    cls=Studies,
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
