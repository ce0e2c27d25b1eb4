"""`python -m evidence untuned`."""

from typing import Annotated

import typer

from evidence.study import Out
from gladstorm.cli.app import AsJson
from gladstorm.cli.job import computing


def command(
    out: Out,
    role: Annotated[str, typer.Option(help="Which problems: development or held-out.")] = "development",
    budget: Annotated[list[int] | None, typer.Option(help="Stochastic gradients per run; repeatable.")] = None,
    problem: Annotated[list[str] | None, typer.Option(help="Run only this problem; repeatable.")] = None,
    as_json: AsJson = False,  # noqa: ARG001 - for StudyCommand
) -> None:
    """Run the untuned method and its tuned rivals; what is in --out already is not run again.

    Example: python -m evidence untuned --role development --budget 1000 --problem "cubic, d = 1, wrapper"
    """
    from evidence.untuned.running import run

    if role not in ("development", "held-out"):
        raise ValueError(f"untuned: --role must be development or held-out; got {role!r}.")
    with computing(out, None, None):
        run(out, role, budget or [1000], problem or [])
