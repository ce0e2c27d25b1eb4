"""Options that describe a problem: objective and noise of `simulate` and `compare`, constants of `plan` and `worst`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

if TYPE_CHECKING:
    from gladstorm.problems.oracles import Recipe

DEFAULT_NOISE = {"B": 0.5, "G": 1.0}

ObjectiveText = Annotated[
    str,
    Option(
        "--objective",
        help="The function to minimise, as NAME(argument=value, …), for short NAME:value,…: power:3, "
        "phase-retrieval, quadratic:1,10, dro, …; a problem with noise of its own, such as streaming-least-squares; or "
        "your own, MODULE:NAME(…), from a module in the current folder.",
    ),
]
OracleText = Annotated[
    str | None,
    Option(
        "--oracle",
        help="The noise of the gradients, written in the same way: blum-gladyshev, full-rank, skewed(q=0.1), "
        "finite-sum, which draws examples, or your own, MODULE:NAME(…). --B and --G give "
        "numbers that are left out. "
        "[default: the objective's own noise if it has any, else blum-gladyshev]",
    ),
]
Growth = Annotated[
    float | None, Option("--B", help="Growth of the noise: its variance is B²‖x−x⁰‖² + G². [default: 0.5]")
]
AtStart = Annotated[float | None, Option("--G", help="Standard deviation of the noise at the start x⁰. [default: 1.0]")]
Dimension = Annotated[int | None, Option("--dim", help="Dimension of x. [default: the objective's own]")]
Start = Annotated[
    float | None, Option("--start", help="Every coordinate of x⁰. [default: the objective's own start, mostly random]")
]
Instance = Annotated[int, Option("--instance", help="Seed that the objective's data and start are drawn from.")]
Page = Annotated[
    Path | None, Option("--page", help="Write a page to explore the runs by sliders, offline, to this file (html).")
]

# What a theorem is about.
COVERED_METHOD = Argument(help="nsgdm or nstorm.")
PLANNED_METHOD = Argument(help="sgd, nsgdm or nstorm.")
ALPHA = Option(help="α in [0, 1]: curvature grows like ‖∇f‖^α; with 0 it does not grow.")
B = Option("--B", help="Growth of the noise: its variance is at most B²‖x−x⁰‖² + G²; 0 for bounded variance.")
G = Option("--G", help="Standard deviation of the noise at the start x⁰; 0 with B = 0 for exact gradients.")
GAP = Option(help="Δ, an upper bound on f(x⁰) − inf f.")
L0 = Option("--L0", help="Smoothness constant of f (nsgdm) or of its oracle (nstorm).")
L1 = Option("--L1", help="How fast curvature grows with the gradient, for alpha > 0.")
L = Option("--L", help="Mean-square smoothness, for nstorm with alpha = 0: √(L0² + B²) if noise is added to f.")
NOISE_POWER = Option("--growth", help="a: the variance of the noise grows like ‖x−x⁰‖^a. [default: 2]")
NORM = Option(help="The norm of a step: euclid, sign(d), spectral(m, n) or layers(w * norm, …). [default: euclid]")
CONSTANTS = Option(help="Whose constants are given, in another norm: norm, or euclid to convert Euclidean ones.")
DECAY = Option(help="λ of weights that decay to a point c: x ← x − γ(d + λ(x − c)).")
DECAY_START = Option(help="‖x⁰ − c‖, at most 1/λ. [default: 0]")
INWARD = Option(help="ϑ, if f does not fall outwards from ‖x − c‖ = ϑ/λ on: then the bound is on ‖∇f‖ itself.")
BATCH = Option(help="one; or for sgd sigma or sigma2: batches that grow like the noise's deviation or variance.")
EXCESS = Option(help="How many samples such batches may take beyond the fewest, in units of them.")
HORIZON = Option(help="T, the number of iterates.")
GAMMA0 = Option(help="Step constant γ0; default: the best the theorem admits.")
ETA0 = Option(help="Momentum constant η0 in (0, 1]; default 1.")


def read_oracle(
    owner: str, objective: str, text: str | None, B: float | None, G: float | None
) -> "tuple[str, Recipe, dict[str, Any]]":
    """The text of --oracle, what it stands for, and its B and G if it has them: defaults of methods and batch rules.

    Where no text is given, it is that of the objective's own noise, or of the paper's; --B and --G give the numbers it
    leaves out.
    """
    from gladstorm.core.calls import Defaults
    from gladstorm.problems import objectives, oracles

    text = objectives.own_oracle(objective) or "blum-gladyshev" if text is None else text
    given = {name: number for name, number in (("B", B), ("G", G)) if number is not None}
    left_out = Defaults(DEFAULT_NOISE | given)
    recipe = oracles.read(text, left_out)
    for name, number in given.items():
        require_used(owner, f"--{name}", number, name in left_out.taken, f"the oracle {text} has its own noise")
    return text, recipe, {name: number for name, number in recipe.numbers.items() if name in ("B", "G")}


def require_used(owner: str, option: str, given: Any, used: bool, why: str) -> None:
    """Raise a ValueError if an option of a command was given, that is not None, and nothing uses it: `why` says why."""
    if given is not None and not used:
        shown = " ".join(map(str, given)) if isinstance(given, list) else given
        raise ValueError(f"{owner}: {option} must be left out, nothing uses it: {why}; got {option} {shown}.")


def command_of(name: str, given: Mapping[str, Any]) -> "Callable[[Any, Mapping[str, float], str], dict[str, Any]]":
    """Return a function for pages, from a configuration's numbers and its method's text to the command that runs it.

    `given` has the options by name; None if left out. Those of numbers that methods share stand for these numbers.

    >>> command_of("simulate", {"objective": "power:3", "eta": [0.1, 0.2]})({}, {"eta": 0.1, "gamma": 0.5}, "sgd")
    {'options': [['gladstorm simulate', ''], ['--objective', 'power:3'], ['--eta', '0.1']], 'method': 'sgd(gamma=0.5)'}
    """

    from gladstorm.simulation.configurations import fill_in

    def command(_setting: Any, numbers: Mapping[str, float], text: str) -> dict[str, Any]:
        options = {
            key: value for key, value in given.items() if value not in (None, False) and not isinstance(value, list)
        }
        text, others = fill_in(text, {field: repr(number) for field, number in numbers.items()})
        for field, number in others.items():
            short = field.rpartition(".")[2]
            if short in given:
                options[short] = number
            elif field == short:
                text = f"{text[:-1]},{short}={number})" if text.endswith(")") else f"{text}({short}={number})"
        written = {f"--{key.replace('_', '-')}": "" if value is True else str(value) for key, value in options.items()}
        return {"options": [[f"gladstorm {name}", ""], *map(list, written.items())], "method": text}

    return command
