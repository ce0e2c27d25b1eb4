"""What commands that run a study have in common: where its tasks are computed, and the files that come of it."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gladstorm.jobs import interrupts

if TYPE_CHECKING:
    from gladstorm.jobs.tasks import Executor


def keep_in(folder: Path | None) -> None:
    """Declare that an interrupt leaves what has finished in a folder, if there is one."""
    if folder is not None:
        interrupts.keeping(f"what had finished is in {folder}; the same command goes on from there")


@contextlib.contextmanager
def computing(store: Path | None, workers: int | None, scheduler: str | None) -> "Iterator[Executor]":
    """Where tasks are computed whose results a folder keeps: JAX made ready in this process, or a cluster."""
    from gladstorm import devices
    from gladstorm.simulation import cluster, programs

    keep_in(store)
    devices.tune()
    programs.enable_program_cache()
    with cluster.opened(workers, scheduler) as executor:
        yield executor


def write_study(
    out: Path, file: str, form: str, result: dict[str, Any], draw: Mapping[str, Callable[[dict[str, Any]], Any]]
) -> None:
    """Write a study's numbers as JSON, and the figures drawn from them, into a folder."""
    from gladstorm.jobs.files import save_json
    from gladstorm.plotting import figures

    out.mkdir(parents=True, exist_ok=True)
    save_json(out / file, form, result)
    for name, figure in draw.items():
        figures.save(figure(result), out / name)
