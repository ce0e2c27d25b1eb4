"""`python -m evidence batches`."""

from evidence.study import Out, Quick

WORK = ("study.run",)


def command(out: Out, quick: Quick = False) -> None:
    """Train six small networks with batches 1, 2, 4, 8 and 16 times as large, by `scale_batch` and by the usual rules.

    It takes about half an hour of one core, and seconds with --quick. After Ctrl-C the same command goes on.

    Example: python -m evidence batches --out docs/evidence/batches
    """
    from evidence.batches import study

    study.run(study.QUICK if quick else study.FULL, out / "results.json")
