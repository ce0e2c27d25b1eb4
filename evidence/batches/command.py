"""`python -m evidence batches`."""

from evidence.study import Out, Quick

WORK = ("study.run", "auto.run")


def command(out: Out, quick: Quick = False) -> None:
    """Train six small networks with batches up to 16 times as large by several rules, and eight with `AutoBatch`.

    It takes about an hour of one core, and seconds with --quick. After Ctrl-C the same command goes on.

    Example: python -m evidence batches --out docs/evidence/batches
    """
    from evidence.batches import auto, study

    study.run(study.QUICK if quick else study.FULL, out / "results.json")
    auto.run(auto.QUICK if quick else auto.FULL, out / "auto.json")
