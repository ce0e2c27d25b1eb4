"""`python -m evidence networks`."""

from evidence.study import Out, Quick

WORK = ("study.run",)


def command(out: Out, quick: Quick = False) -> None:
    """Train eleven small networks with seven optimizers, each tuned on one seed and reported on others.

    It takes about an hour of one core, and seconds with --quick. After Ctrl-C the same command goes on.

    Example: python -m evidence networks --out docs/evidence/networks
    """
    from evidence.networks import study

    study.run(study.QUICK if quick else study.FULL, out / "results.json", rounds=2 if quick else study.ROUNDS)
