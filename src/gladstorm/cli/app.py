"""The application the commands register with, the options they share, and how it ends.

No module of this folder postpones its annotations: typer would compile each of them twice before it answers --help.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from gladstorm import __version__
from gladstorm.cli.output import replace_missing_characters, show_json, until_the_pipe_is_closed
from gladstorm.core.extras import MissingExtraError, needing_extras
from gladstorm.jobs import interrupts


class Commands(TyperGroup):
    """All commands; what they print may end anywhere: at a closed pipe, or on a terminal without their characters."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command under one name: help and shell completion are the same for `python -m gladstorm`."""
        return super().main(*arguments, **{"prog_name": self.name, **options})

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the command line; help and version are printed here."""
        replace_missing_characters()
        with until_the_pipe_is_closed():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with until_the_pipe_is_closed():
            return super().invoke(ctx)


app = typer.Typer(
    name="gladstorm",
    cls=Commands,
    help="Stochastic optimization when gradient noise grows with the distance travelled.",
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _be_quiet(ctx: Any, _option: Any, quiet: bool) -> None:
    if quiet:
        from gladstorm.jobs.progress import quietly  # not before: it loads rich, which --help does without

        ctx.with_resource(quietly())


class CommandWithProgress(TyperCommand):
    """A command that shows its progress, unless --quiet is given."""

    def __init__(self, *arguments: Any, params: list[Any], **options: Any) -> None:
        quiet = TyperOption(
            param_decls=["--quiet", "-q"],
            is_flag=True,
            expose_value=False,
            callback=_be_quiet,
            help="Show no progress and no remarks on standard error, only errors.",
        )
        super().__init__(*arguments, params=[*params, quiet], **options)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
StoreFolder = Annotated[
    Path | None,
    typer.Option("--store", help="Folder that keeps finished parts: the same command computes only what is missing."),
]
Workers = Annotated[int | None, typer.Option("--workers", help="Compute in this many processes of this machine.")]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", help="Compute on the Dask cluster at this address, such as tcp://host:8786."),
]


@app.callback()
def gladstorm(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --version: print what a report of a fault needs, as JSON.")
    ] = False,
) -> None:
    """Show the help where no command is named."""
    if as_json and not version:
        raise ValueError("gladstorm: --json must follow a command, or stand beside --version; got it alone.")
    if version:
        show_json(_environment(), indent=1) if as_json else typer.echo(f"gladstorm {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def _environment() -> dict[str, Any]:
    """Return what a report of a fault needs: the versions of all that gladstorm can use, and the machine."""
    import os
    import platform
    import re
    from importlib import metadata

    packages = {re.split(r"[^\w-]", requirement)[0] for requirement in metadata.requires("gladstorm") or []}
    installed = {each.name.replace("_", "-"): each.version for each in metadata.distributions()}
    return {
        "gladstorm": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: installed.get(name) for name in sorted(packages - {"gladstorm"})},
        "processor": {"cores": os.cpu_count(), "machine": platform.machine()},
    }


def main(application: typer.Typer = app) -> None:
    """Run a command line: exit 0, 1 if a check failed, 2 with one sentence on bad usage, 130 or 143 on a signal."""
    with interrupts.handle_signals():
        interrupts.check()
        try:
            with needing_extras("this command"):
                code = application(standalone_mode=False)
        except typer.Abort:
            raise KeyboardInterrupt from None
        except Exception as problem:
            of_usage = hasattr(problem, "format_message")  # Click's
            if not of_usage and not isinstance(problem, ValueError | OSError | MissingExtraError):
                raise
            from gladstorm.core.screen import harmless

            message = problem.format_message() if of_usage else str(problem)  # type: ignore[attr-defined]
            typer.echo(f"Error: {harmless(' '.join(message.split()))}", err=True)  # one line, whatever it quotes
            sys.exit(2)
        if code == interrupts.CODE:  # what Typer makes of KeyboardInterrupt
            raise KeyboardInterrupt
        sys.exit(code)
