"""`python -m evidence untuned`."""

from typing import Annotated

import typer

from evidence.study import Out
from gladstorm.cli.job import computing

WORK = ("judging.run", "ablation.run")


def command(
    out: Out,
    budget: Annotated[list[int] | None, typer.Option(help="Stochastic gradients per run; repeatable.")] = None,
    problem: Annotated[list[str] | None, typer.Option(help="Run only this problem; repeatable.")] = None,
) -> None:
    """Judge the untuned method on registered problems, then change its parts one by one; what is there stays.

    Example: python -m evidence untuned --budget 1000 --problem "rankings, twenty players"
    """
    from evidence.untuned import ablation, judging
    from gladstorm.core.rules import COUNT

    for gradients in budget or ():
        COUNT.require("untuned", "budget", gradients)
    with computing(out, None, None):
        judging.require_known(problem or ())
        judging.run(out, problem or (), budget or judging.BUDGETS)
        if not problem:
            ablation.run(out)
