"""`python -m evidence untuned_networks`."""

from typing import Annotated

import typer

from evidence.study import Out, Quick

WORK = ("study.run", "development.run")


def command(
    out: Out,
    part: Annotated[
        list[str] | None, typer.Argument(help="Which of judgement, development; the judgement if none.")
    ] = None,
    quick: Quick = False,
) -> None:
    """Train eight small networks for 300, 1,000 and 4,000 steps with eleven optimizers, those with a rate tuned.

    It takes about two hours of one core, and seconds with --quick. After Ctrl-C the same command goes on. The part
    `development` is what was tried on other trainings, whose results were known: a quarter of an hour.

    Example: python -m evidence untuned_networks --out docs/evidence/untuned_networks
    """
    from evidence.networks.study import ROUNDS
    from evidence.untuned_networks import development, study

    parts = part or ["judgement"]
    if unknown := [name for name in parts if name not in ("judgement", "development")]:
        raise ValueError(f"untuned_networks: parts are judgement, development; got {unknown[0]!r}.")
    if "judgement" in parts:
        study.run(study.QUICK if quick else study.FULL, out / "results.json", 2 if quick else ROUNDS)
    if "development" in parts:
        development.run(out / "development.json", quick=quick)
