"""`python -m evidence posterior`."""

from evidence.study import Out, Quick
from gladstorm.cli.app import AsJson

WORK = ("study.measure",)


def command(
    out: Out,
    quick: Quick = False,
    as_json: AsJson = False,  # noqa: ARG001 - for StudyCommand
) -> None:
    """Run NSGDM, NSTORM, SGD, Adam and ClippedAdam in numpyro's SVI over four decades of learning rates.

    It takes about a minute on two cores.

    Example: python -m evidence posterior --out docs/evidence/posterior
    """
    from evidence.posterior import study
    from evidence.results import save

    save(out / "results.json", study.measure(study.QUICK if quick else study.FULL))
