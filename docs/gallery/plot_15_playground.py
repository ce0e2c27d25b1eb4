"""
15. A page to explore
=====================

One sweep over four problems, growing noise of ten strengths and 36 configurations, as one HTML file that needs no
network: the playground of this site's front page. It takes about a minute.
"""

import itertools

import gladstorm as gs
from gladstorm.cli.problem import command_of
from gladstorm.methods.text import parse_method
from gladstorm.plotting.explore import explore

# As the command line writes them, so that the page can copy commands. x has two entries: its path can be drawn.
PROBLEMS = {
    "cubic, ‖x‖³": {"objective": "power:3", "dim": 2, "start": 2.0},
    "double well": {"objective": "double-well", "dim": 2, "start": 1.5},
    "least squares": {"objective": "quadratic:1,5", "dim": 2, "start": 3.0},
    "phase retrieval": {"objective": "phase-retrieval(m=60)", "dim": 2, "start": None},
}
GAMMA, ETA = "[0.003,0.01,0.03,0.1,0.3]", "[0.01,0.1,0.5]"
METHODS = (
    f"nsgdm(gamma={GAMMA},eta={ETA})",
    f"nstorm(gamma={GAMMA},eta={ETA})",
    f"sgd(gamma={GAMMA})",
    "untuned",
)
GROWTHS, AT_START = (0.0, 0.1, 0.3, 1.0, 3.0), (0.1, 1.0)
STEPS, SEEDS = 2000, 3
VIEW = {"problem": "least squares", "B": 0.3, "G": 0.1, "gamma": 0.01, "eta": 0.1}  # where the page opens
ABOUT = (
    "The noise of every stochastic gradient has variance B²‖x − x⁰‖² + G²: it grows with the distance from the start. "
    "Move B, and watch the path, the error and the gradient norm. "
    f"{STEPS:,} steps, {SEEDS} seeds; lines are means over seeds."
)

# %%
# Every record comes with the words and numbers that tell it from the others: each becomes a slider or a list.

pairs, oracles = [], []
for (name, text), B, G in itertools.product(PROBLEMS.items(), GROWTHS, AT_START):
    objective = gs.objectives.named(text["objective"], dim=text["dim"], start=text["start"])
    oracles.append(gs.BlumGladyshev(objective, B=B, G=G))
    methods = {method: parse_method(method) for method in METHODS}
    record = gs.sweep(oracles[-1], methods, steps=STEPS, seeds=SEEDS, progress=False)
    pairs.append(({"problem": name, "B": B, "G": G}, record))

# %%
# The page. Its button copies the command that runs one setting again.


def command(setting, numbers, method):
    """What the page copies for a setting, the numbers of a configuration and its method."""
    options = PROBLEMS[setting["problem"]] | {"B": setting["B"], "G": setting["G"], "steps": STEPS, "seeds": SEEDS}
    return command_of("simulate", options)(setting, numbers, method)


explore(
    pairs,
    "playground.html",
    title="Playground: what growing noise does",
    oracle=oracles,
    command=command,
    more={"view": VIEW, "about": ABOUT},
)

# %%
# Without a browser, a record draws itself.

figure = pairs[0][1].plot()
