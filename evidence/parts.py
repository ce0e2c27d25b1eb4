"""Parts of a long study: each is kept when it is finished, and a study that was killed goes on where it was."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gladstorm.jobs.files import load_json, save_json
from gladstorm.jobs.progress import Progress, annotate
from gladstorm.jobs.tasks import Executor, K, Store, Task, results

PART_FORMAT = "gladstorm evidence part 1"


@dataclass(frozen=True)
class Part:
    """The result of one task, JSON-ready."""

    content: dict[str, Any]

    def save(self, path: Path, *, key: str = "") -> None:
        """Write the result with its key in a store and a digest; whole or not at all."""
        save_json(path, PART_FORMAT, {"content": self.content}, key)

    @classmethod
    def load(cls, path: Path, *, key: str = "") -> Self:
        """Read what `save` wrote; a ValueError says when a file is damaged or another one."""
        return cls(load_json("Part.load", path, PART_FORMAT, key)["content"])


def gathered(
    doing: str, tasks: list[Task[K]], store: Store[K] | None, executor: Executor, *, notes: bool = True
) -> list[K]:
    """Return the results of all tasks, in their order. Progress is shown, with a note of what was finished last."""
    finished: dict[int, K] = {}
    with Progress(doing, len(tasks)) as shown:
        shown(0)
        for number, result in results(tasks, store, executor):
            finished[number] = result
            annotate(tasks[number].name if notes else "")
            shown(len(finished))
    return [finished[number] for number in range(len(tasks))]
