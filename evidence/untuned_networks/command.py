"""`python -m evidence untuned_networks`."""

from evidence.study import Out, Quick

WORK = ("study.run",)


def command(out: Out, quick: Quick = False) -> None:
    """Train eight small networks for 300, 1,000 and 4,000 steps with eleven optimizers, those with a rate tuned.

    It takes about two hours of one core, and seconds with --quick. After Ctrl-C the same command goes on.

    Example: python -m evidence untuned_networks --out docs/evidence/untuned_networks
    """
    from evidence.networks.study import ROUNDS
    from evidence.untuned_networks import study

    study.run(study.QUICK if quick else study.FULL, out / "results.json", 2 if quick else ROUNDS)
