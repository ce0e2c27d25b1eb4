"""`python -m evidence text`."""

from evidence.study import Out, Quick

WORK = ("study.run",)


def command(out: Out, quick: Quick = False) -> None:
    """Train AdamW, SGD, NSGDM, NSTORM and Untuned on the documentation of Python, character by character.

    It takes about 15 minutes of one core, and a minute with --quick. After Ctrl-C the same command goes on.

    Example: python -m evidence text --out docs/evidence/text
    """
    from evidence.text import study

    study.run(study.QUICK if quick else study.FULL, out / "results.json")
