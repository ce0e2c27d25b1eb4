"""The problems of the suite: one declaration each.

Methods are chosen on the development problems; prototypes of methods have been tried on all of these. The held-out ones
judge a choice, and nothing is to be chosen on them.
"""

from __future__ import annotations

from gladstorm.suite import networks
from gladstorm.suite.problem import EVEN_ABOUT_ZERO, SuiteProblem, named

PROBLEMS = {
    each.name: each
    for each in (
        SuiteProblem(
            "cubic",
            "|x|³ with the paper's noise, B = G = 0.5",
            named("power:3", "blum-gladyshev(B=0.5, G=0.5)"),
            "development",
            far=True,
            even_about=EVEN_ABOUT_ZERO,
        ),
        SuiteProblem(
            "least-squares",
            "streaming least squares, σ = 1, Σ = I",
            named("streaming-least-squares", dim=100),
            "development",
            far=True,
            even_about="optimum",
        ),
        SuiteProblem(
            "full-rank",
            "variational inference of a Gaussian by one with any covariance",
            named("variational-gaussian:full-rank", dim=5),
            "development",
        ),
        SuiteProblem(
            "sampled-phases",
            "phase retrieval with fresh measurements, σ = 1",
            named("sampled-phase-retrieval", dim=10),
            "development",
        ),
        SuiteProblem(
            "counts",
            "Poisson regression with the log link",
            named("poisson-regression:0.5", dim=5, stretch=1.5),
            "development",
        ),
        SuiteProblem(
            "values",
            "TD(0) on a chain of ten states, discount 0.9, three features",
            named("temporal-differences"),
            "development",
            even_about="solution",
        ),
        SuiteProblem(
            "ill-conditioned",
            "streaming least squares, σ = 1, eigenvalues from 1 to 1/100",
            named("streaming-least-squares:1,100", dim=30, stretch=0.2),
            "held-out",
            even_about="optimum",
        ),
        SuiteProblem(
            "mean-field",
            "mean-field variational inference of a Gaussian, precisions from 1 to 10",
            named("variational-gaussian:mean-field,10", dim=25),
            "held-out",
        ),
        SuiteProblem(
            "robust-regression",
            "distributionally robust regression on 200 examples",
            named("dro:200", "finite-sum", dim=10),
            "held-out",
        ),
        SuiteProblem(
            "double-well",
            "a quartic with a ring of minima, noise of full rank, B = 0.3, G = 1",
            named("double-well", "full-rank(B=0.3, G=1)", dim=20, stretch=3.0),
            "held-out",
            far=True,
        ),
        SuiteProblem(
            "network-regression",
            "six tanh units that learn from a teacher, 100 examples",
            networks.regression,
            "held-out",
        ),
        SuiteProblem(
            "network-classification",
            "ten tanh units that tell two interlocking arcs apart, 100 examples",
            networks.classification,
            "held-out",
        ),
    )
}
