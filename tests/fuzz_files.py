"""Damage the files Gladstorm reads back, and see that each is refused in a sentence or read as it was.

python -m tests.fuzz_files --count 1000 --seed 0
"""

import argparse
import pickle
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evidence.reproduction.results import Results
from evidence.verification.checks import AtMost, Check, PartResult
from gladstorm import BlumGladyshev, nsgdm, sgd, sweep
from gladstorm.comparison import compared as comparison
from gladstorm.core.statistics import Mean
from gladstorm.jobs.files import load_table
from gladstorm.problems import objectives
from gladstorm.simulation.record import Record

Bytes = Callable[[bytearray, random.Random], bytearray]


def flip_a_bit(data: bytearray, chance: random.Random) -> bytearray:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def flip_a_bit_of_the_end(data: bytearray, chance: random.Random) -> bytearray:
    """Where parquet's schema, metadata and digest are."""
    data[-1 - chance.randrange(min(len(data), 3000))] ^= 1 << chance.randrange(8)
    return data


def cut(data: bytearray, chance: random.Random) -> bytearray:
    return data[: chance.randrange(len(data))]


def swap_blocks(data: bytearray, chance: random.Random) -> bytearray:
    size = chance.choice([1, 8, 64, 512])
    a, b = (chance.randrange(max(1, len(data) - size)) for _ in range(2))
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    return data


def zero_a_range(data: bytearray, chance: random.Random) -> bytearray:
    size, at = chance.choice([1, 16, 256, 4096]), chance.randrange(len(data))
    data[at : at + size] = bytes(len(data[at : at + size]))
    return data


def repeat_a_range(data: bytearray, chance: random.Random) -> bytearray:
    size, at = chance.choice([1, 16, 256]), chance.randrange(len(data))
    return data[:at] + data[at : at + size] + data[at:]


def change_a_digit(data: bytearray, chance: random.Random) -> bytearray:
    """What an editor would leave: still well-formed."""
    digits = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    data[chance.choice(digits)] = 48 + chance.randrange(10)
    return data


DAMAGES: list[Bytes] = [
    flip_a_bit,
    flip_a_bit_of_the_end,
    cut,
    swap_blocks,
    zero_a_range,
    repeat_a_range,
    change_a_digit,
]


def written(folder: Path) -> dict[Path, Callable[[Path], Any]]:
    """One file of every kind, small, with the function that reads it."""
    oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), 0.5, 1.0)
    record = sweep(oracle, {"NSGDM": nsgdm(0.1, 0.1)}, steps=30, seeds=2, records=20)
    by_gamma = sweep(oracle, {"main, SGD": sgd([0.1, 0.2])}, steps=30, seeds=2, records=20)
    check = Check("regime", "instance", "bound", 10, Mean(1.25, 0.5, 30), AtMost(3.5))
    compared = {"NSGDM": comparison.Compared(record, record, 30)}
    kinds: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any]]] = {
        "record": (record.save, Record.load),
        "results": (Results({"B": 0.5}, {("main", "SGD"): by_gamma}).save, Results.load),
        "comparison": (
            lambda path: comparison.save(compared, path, {"budget": 30}),
            lambda path: load_table("compare", path, comparison.COMPARISON_FORMAT)[0].to_pylist(),
        ),
        "verification part": (PartResult([check] * 9, {"table": [{"gap": 0.125, "B": None}]}).save, PartResult.load),
    }
    for name, (save, _) in kinds.items():
        save(folder / name)
    return {folder / name: load for name, (_, load) in kinds.items()}


def damaged_files(count: int, seed: int, folder: Path) -> Counter[str]:
    """What became of `count` damaged copies."""
    chance = random.Random(seed)
    files = written(folder)
    whole = {path: (path.read_bytes(), pickle.dumps(load(path))) for path, load in files.items()}
    counts: Counter[str] = Counter()
    damaged = folder / "damaged"
    for number in range(count):
        path = list(files)[number % len(files)]
        damage = DAMAGES[number // len(files) % len(DAMAGES)]
        data, content = whole[path]
        damaged.write_bytes(damage(bytearray(data), chance))
        try:
            same = pickle.dumps(files[path](damaged)) == content
            counts["identical" if same else "silently different"] += 1
        except ValueError as problem:
            one_sentence = str(damaged) in str(problem) and "\n" not in str(problem)
            counts["refused" if one_sentence else "tracebacks"] += 1
        except Exception:
            counts["tracebacks"] += 1
    return counts


def summary_line(counts: Counter[str]) -> str:
    """All in one line."""
    kinds = ("refused", "identical", "silently different", "tracebacks")
    return f"{counts.total()} damaged files: " + ", ".join(f"{counts[kind]} {kind}" for kind in kinds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = damaged_files(given.count, given.seed, Path(temporary))
    sys.stdout.write(summary_line(found) + "\n")
    sys.exit(bool(found["silently different"] or found["tracebacks"]))
