"""The command line: arguments in, tables or JSON out. Heavy imports wait until a command needs them."""

from gladstorm.cli import compare, diagnose, plan, simulate, suite, worst  # noqa: F401 - importing registers the commands
from gladstorm.cli.app import main

__all__ = ["main"]
