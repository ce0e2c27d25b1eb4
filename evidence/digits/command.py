"""`python -m evidence digits`."""

from evidence.study import Out, Quick

WORK = ("study.run",)


def command(out: Out, quick: Quick = False) -> None:
    """Train NSGDM, NSTORM, Untuned, SGD, SGD + clipping and Adam on scikit-learn's digits, in PyTorch and in JAX.

    It takes about 15 minutes of one core, and a minute with --quick. After Ctrl-C the same command goes on.

    Example: python -m evidence digits --out docs/evidence/digits
    """
    from evidence.digits import study

    study.run(study.QUICK if quick else study.FULL, out / "results.json")
