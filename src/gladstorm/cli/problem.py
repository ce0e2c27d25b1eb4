"""What `simulate` and `compare` run methods on: the options for an objective and its noise."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gladstorm.problems.oracles import Recipe

DEFAULT_NOISE = {"B": 0.5, "G": 1.0}

ObjectiveText = Annotated[
    str,
    typer.Option(
        "--objective",
        help="The function to minimise, as NAME(argument=number, …), or NAME:NUMBER,… for short: power:3, "
        "phase-retrieval, quadratic:1,10, dro, …; a problem with noise of its own, such as streaming-least-squares; or "
        "your own, MODULE:NAME(…), from a module in the current folder.",
    ),
]
OracleText = Annotated[
    str | None,
    typer.Option(
        "--oracle",
        help="The noise of the gradients, as NAME(argument=number, …): blum-gladyshev, full-rank, skewed(q=0.1), "
        "gradient-coupled(scale=1), finite-sum, which draws examples, or your own, MODULE:NAME(…). --B and --G give "
        "numbers that are left out. "
        "[default: the objective's own noise if it has any, else blum-gladyshev]",
    ),
]
Growth = Annotated[
    float | None, typer.Option("--B", help="Growth of the noise: its variance is B²‖x−x⁰‖² + G². [default: 0.5]")
]
AtStart = Annotated[
    float | None, typer.Option("--G", help="Standard deviation of the noise at the start x⁰. [default: 1.0]")
]
Dimension = Annotated[int | None, typer.Option("--dim", help="Dimension of x. [default: the objective's own]")]
Start = Annotated[
    float | None,
    typer.Option("--start", help="Every coordinate of x⁰. [default: the objective's own start, mostly random]"),
]
Instance = Annotated[int, typer.Option("--instance", help="Seed that the objective's data and start are drawn from.")]


def read_oracle(owner: str, objective: str, text: str | None, B: float | None, G: float | None) -> "tuple[str, Recipe]":
    """The oracle's text, as given or the objective's own or the paper's, and what it says with --B and --G."""
    from gladstorm.core.calls import Defaults
    from gladstorm.problems import objectives, oracles

    text = objectives.own_oracle(objective) or "blum-gladyshev" if text is None else text
    given = {name: number for name, number in (("B", B), ("G", G)) if number is not None}
    left_out = Defaults(DEFAULT_NOISE | given)
    recipe = oracles.read(text, left_out)
    for name, number in given.items():
        require_used(owner, f"--{name}", number, name in left_out.taken, f"the oracle {text} has its own noise")
    return text, recipe


def require_used(owner: str, option: str, given: Any, used: bool, why: str) -> None:
    """Raise a ValueError if an option was given and nothing uses it: whoever gave it expects that it does something."""
    if given is not None and not used:
        shown = " ".join(map(str, given)) if isinstance(given, list) else given
        raise ValueError(f"{owner}: {option} must be left out, nothing uses it: {why}; got {option} {shown}.")


def require_all_used(owner: str, given: Mapping[str, Any], used: set[str], methods: list[str]) -> None:
    """The same for options that give methods the arguments that they leave out."""
    for name, value in given.items():
        why = f"no method of {', '.join(methods)} takes {name} and leaves it out"
        require_used(owner, f"--{name.replace('_', '-')}", value, name in used, why)


def noise_of(recipe: "Recipe") -> dict[str, Any]:
    """B and G of an oracle that has them: what methods and batch rules that leave theirs out are told."""
    return {name: number for name, number in recipe.numbers.items() if name in ("B", "G")}
