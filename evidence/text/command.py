"""`python -m evidence text`."""

from evidence.study import Out, Quick
from gladstorm.cli.app import AsJson
from gladstorm.cli.job import keep_in


def command(
    out: Out,
    quick: Quick = False,
    as_json: AsJson = False,  # noqa: ARG001 - for StudyCommand
) -> None:
    """Train AdamW, SGD, NSGDM, NSTORM and Steered on the documentation of Python, character by character.

    It takes about 15 minutes of one core, and a minute with --quick. After Ctrl-C the same command goes on.

    Example: python -m evidence text --out docs/evidence/text
    """
    import torch

    from evidence.text import study

    kept = out / "results.json"
    keep_in(kept)
    torch.set_num_threads(1)  # these networks are too small to share
    size = study.QUICK if quick else study.FULL
    study.finish(study.begun(size, kept), size, kept)
