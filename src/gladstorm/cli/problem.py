"""What `simulate` and `compare` run methods on: the options for an objective and its noise."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gladstorm.problems.oracles import Recipe

ObjectiveText = Annotated[
    str,
    typer.Option(
        "--objective",
        help="The function to minimise, as NAME or NAME:NUMBER,…: power:3, phase-retrieval, quadratic:1,10, dro, …; or "
        "a problem with noise of its own, such as streaming-least-squares.",
    ),
]
OracleText = Annotated[
    str | None,
    typer.Option(
        "--oracle",
        help="The noise of the gradients, as NAME(argument=number, …): blum-gladyshev, full-rank, skewed(q=0.1), "
        "gradient-coupled(scale=1), or finite-sum, which draws examples. --B and --G give numbers that are left out. "
        "[default: the objective's own noise if it has any, else blum-gladyshev]",
    ),
]
Growth = Annotated[float, typer.Option("--B", help="Growth of the noise: its variance is B²‖x−x⁰‖² + G².")]
AtStart = Annotated[float, typer.Option("--G", help="Standard deviation of the noise at the start x⁰.")]
Dimension = Annotated[int | None, typer.Option("--dim", help="Dimension of x. [default: the objective's own]")]
Start = Annotated[
    float | None,
    typer.Option("--start", help="Every coordinate of x⁰. [default: the objective's own start, mostly random]"),
]
Instance = Annotated[int, typer.Option("--instance", help="Seed that the objective's data and start are drawn from.")]


def oracle_of(objective: str, given: str | None) -> str:
    """The oracle's text: as given, or the objective's own, or the paper's."""
    from gladstorm.problems import objectives

    return given or objectives.own_oracle(objective) or "blum-gladyshev"


def noise_of(recipe: "Recipe") -> dict[str, Any]:
    """B and G of an oracle that has them: what methods and batch rules that leave theirs out are told."""
    return {name: number for name, number in recipe.numbers.items() if name in ("B", "G")}
