"""How much memory is free, and the error if something does not fit."""

from pathlib import Path

NUMBER = 8  # bytes
VECTORS = 12  # of x's size that a run has at once: x, ∇f, v, what is remembered and drawn, before and after a step
MEMINFO = Path("/proc/meminfo")  # Linux only: elsewhere nothing is known, and nothing refused


def available() -> int | None:
    """Bytes a process can still get without others being paged out; None where that is not known."""
    try:
        lines = MEMINFO.read_text("ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def require_free_memory(owner: str, what: str, needed: int, way_out: str) -> None:
    """Raise a ValueError if so many bytes are not there.

    >>> require_free_memory("example", "the data", 10**18, "take less of it")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: example: the data must fit in memory; it would take 1 EB, and ... free: take less of it.
    """
    there = available()
    if there is not None and needed > there:
        sizes = f"it would take {in_words(needed)}, and {in_words(there)} are free"
        raise ValueError(f"{owner}: {what} must fit in memory; {sizes}: {way_out}.")


def require_memory_for_a_run(owner: str, dim: int) -> None:
    """Raise a ValueError if not even one run fits, before the first vector of this dimension is made."""
    require_free_memory(owner, f"a run with x of dimension {dim:,}", VECTORS * NUMBER * dim, "choose a smaller dim")


def in_words(count: int) -> str:
    """A number of bytes for people.

    >>> in_words(480_000_000_000), in_words(12)
    ('480 GB', '12 bytes')
    """
    units = {18: "EB", 15: "PB", 12: "TB", 9: "GB", 6: "MB", 3: "kB"}
    power = next((power for power in units if count >= 10**power), None)
    return f"{count} bytes" if power is None else f"{count / 10**power:.3g} {units[power]}"
