"""A fit: its parameters, how good it is, and draws from it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gladstorm.core.rules import COUNT
from gladstorm.core.screen import html_table
from gladstorm.variational.arrays import Arrays
from gladstorm.variational.check import ChainCheck
from gladstorm.variational.programs import Exported, Sampler
from gladstorm.variational.weights import efficiency, is_near, khat, khat_in_words, smoothed

if TYPE_CHECKING:
    from gladstorm.plotting.figures import Figure

Draws = dict[str, np.ndarray]  # by site, the draws along the first axis
SUMMARIZED = 4000  # draws behind a summary
WEIGHED, WEIGHED_SEED = 16_384, 2**32 - 1  # draws with importance weights, and their seed
_FORMAT = "gladstorm fit 4"
_CURVES = ("curve", "noise", "steps", "elbos", "skipped")
_NUMBERS = ("elbo", "elbo_error")
_ABOUT = ("family", "gradients", "config")
_PARAMETER = "parameter "


class Summary(dict[str, dict[str, np.ndarray]]):
    """Mean, standard deviation, median and a central interval of every site; prints as numpyro's `print_summary`."""

    def rows(self) -> list[list[str]]:
        """A line for each number, after one with the headings."""
        headings = ["", *next(iter(self.values()), {})]
        lines = [headings]
        for site, statistics in self.items():
            for at in np.ndindex(np.shape(next(iter(statistics.values())))):
                name = site + (f"[{','.join(map(str, at))}]" if at else "")
                lines.append([name, *(f"{value[at]:.2f}" for value in statistics.values())])
        return lines

    def __str__(self) -> str:
        rows = self.rows()
        wide = max(len(row[0]) for row in rows)
        return "\n".join(" ".join([f"{row[0]:>{wide}}", *(f"{cell:>9}" for cell in row[1:])]) for row in rows)


@dataclass(frozen=True)
class Group:
    """Starts that ended at the same place."""

    size: int  #: how many starts
    elbo: float  #: of the best of them
    weight: float  #: its share, by exp(ELBO): what a mode has of the posterior, where q fits each mode
    location: tuple[float, ...]  #: the mean of q, in unconstrained space
    distance: float  #: from the first group, in standard deviations of the farthest coordinate


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """The best of several starts of variational inference.

    `elbo` ± `elbo_error` is in nats, and so is everything that is compared with it. `converged` is False if a larger
    ELBO of this family seems within reach, and `warnings` says why. It does not say that the family is large enough:
    that is what `khat` is for.
    """

    family: str  #: the family, or the guide
    parameters: dict[str, np.ndarray]  #: of q, or of the guide
    elbo: float  #: mean of log p(z, y) − log q(z), z from q
    elbo_error: float  #: its standard error
    log_weights: np.ndarray | None  #: log p(z) − log q(z) at 16,384 draws; None for subsampled data and a point
    warnings: tuple[str, ...]  #: why the fit may not be the best of its family
    gradients: int  #: how many were taken, by all starts together
    elbos: np.ndarray  #: of every start
    curve: np.ndarray  #: mean ELBO of every start along its run, (start, block)
    noise: np.ndarray  #: mean squared length of the gradient in standard deviations of q, (start, block)
    steps: np.ndarray  #: at the end of each block
    skipped: np.ndarray  #: gradients that were not finite, of every start
    config: dict[str, Any]  #: what was asked for, as JSON-ready data
    sampler: Sampler  #: what `sample` calls
    starts: tuple[Group, ...] = ()  #: groups of starts that ended apart, the best first; none for a guide of your own
    mixed: Fit | None = None  #: what `mixture` returns, where starts ended apart
    walk: Callable[..., ChainCheck] | None = None  #: what `check` calls

    @property
    def converged(self) -> bool:
        """Whether there is nothing to warn of."""
        return not self.warnings

    @property
    def location(self) -> np.ndarray:
        """The mean of q, in unconstrained space: sites in the order of their names, each row by row."""
        return self._parameter("loc")

    @property
    def scale_tril(self) -> np.ndarray:
        """L with LLᵀ the covariance of q, in unconstrained space."""
        return self._parameter("scale_tril")

    @cached_property
    def khat(self) -> float | None:
        """The shape of the tail of importance weights; None where there are none."""
        if self.log_weights is None:
            return None
        return khat(self.log_weights) if np.isfinite(self.log_weights).all() else math.inf

    @cached_property
    def efficiency(self) -> float | None:
        """The effective share of importance draws; None where there are no weights."""
        return None if self.log_weights is None else efficiency(self.log_weights)

    @property
    def near(self) -> bool | None:
        """Whether q is near the posterior where its draws are, by `khat` and `efficiency`; None without weights."""
        return None if self.khat is None or self.efficiency is None else is_near(self.khat, self.efficiency)

    def unravel(self, z: Any) -> dict[str, np.ndarray]:
        """Split unconstrained coordinates, such as `location` or rows of them, into the sites of the model."""
        z, sites, first = np.asarray(z), {}, 0
        for name, shape in self.config.get("sites", ()):
            last = first + math.prod(shape)
            sites[name], first = z[..., first:last].reshape((*z.shape[:-1], *shape)), last
        return sites

    def mass_matrix(self) -> np.ndarray:
        """Return the covariance of q in unconstrained space, which serves NUTS as inverse mass matrix."""
        return np.asarray(self.scale_tril @ self.scale_tril.T)

    def sample(self, n: int = 1000, seed: int = 0) -> Draws:
        """Draw sites of the model from q.

        Args:
            n: How many draws.
            seed: Which ones.

        Returns:
            For every site of the model, on its own scale, an array with the draws along the first axis.
        """
        return self.sampler(COUNT.whole("sample", "n", n), seed)

    def resample(self, n: int = 1000, seed: int = 0) -> Draws:
        """Draw by importance: n of 16,384 draws of q, with replacement, by their Pareto-smoothed weights.

        Their error is that of the posterior where `khat` is small and n is not above `efficiency` · 16,384.

        Raises:
            ValueError: If there are no weights.
        """
        if self.log_weights is None or not np.isfinite(self.log_weights).all():
            raise ValueError("resample: the fit must have finite importance weights; subsampled data have none.")
        rows = np.random.default_rng(seed).choice(
            WEIGHED, COUNT.whole("resample", "n", n), p=smoothed(self.log_weights)
        )
        return {site: draws[rows] for site, draws in self.sampler(WEIGHED, WEIGHED_SEED).items()}

    def mixture(self) -> Fit:
        """Return the mixture of all groups of `starts`, each with weight ∝ exp(ELBO); this fit if there is one group.

        Raises:
            ValueError: If starts ended apart, and the fit was loaded from a file, which has the best of them only.
        """
        if self.mixed is None and len(self.starts) > 1 and not self.family.startswith("mixture"):
            raise ValueError("mixture: the fit must be of this process or pickled; a file has its best start only.")
        return self.mixed or self

    def check(self, seed: int = 0) -> ChainCheck:
        """Move 128 draws of q by a few transitions of HMC, and say whether they drift away from q.

        A fit with the right means and deviations stays; one with wrong means, or deviations that are too small, drifts.
        It takes about as many gradients as a fit.

        Raises:
            ValueError: If there is no density to check with: subsampled data, a guide of your own, a loaded fit.
        """
        if self.walk is None:
            raise ValueError(
                "check: the fit must be a Gaussian of all data, as gladstorm.numpyro.fit or fit_logdensity returned it."
            )
        return self.walk(self.unravel, seed)

    def summary(self, prob: float = 0.9) -> Summary:
        """Mean, standard deviation, median and the central interval of probability `prob`, of every site."""
        tails = {f"{50 * (1 - prob):.1f}%": (1 - prob) / 2, f"{50 * (1 + prob):.1f}%": (1 + prob) / 2}
        return Summary(
            {
                site: {
                    "mean": draws.mean(axis=0),
                    "std": draws.std(axis=0, ddof=1),
                    "median": np.median(draws, axis=0),
                    **{name: np.quantile(draws, at, axis=0) for name, at in tails.items()},
                }
                for site, draws in self._draws.items()
            }
        )

    @property
    def khat_in_words(self) -> str:
        """The meaning of `khat` for this fit, as a sentence."""
        return khat_in_words(self.khat, self.efficiency, "more steps" if "Flow" in self.family else "guide=Flow()")

    def to_arviz(self, draws: Draws | None = None, *, dims: Any = None, coords: Any = None, **groups: Draws) -> Any:
        """Return draws and what is known of the fit as ArviZ has them: a DataTree, or before ArviZ 1 an InferenceData.

        Args:
            draws: What `sample` or `resample` returned; by default 1,000 draws.
            dims: The names of the axes of sites, as ArviZ takes them.
            coords: The labels along these axes.
            groups: More groups, such as `log_likelihood=numpyro.infer.log_likelihood(model, draws, data)`.

        Raises:
            ImportError: If ArviZ is not installed.
        """
        try:
            import arviz
            import xarray
        except ModuleNotFoundError:
            raise ImportError("Fit.to_arviz needs ArviZ, which is not installed: pip install arviz") from None
        every = {"posterior": self.sample() if draws is None else draws, **groups}
        chains = {
            group: {site: np.asarray(each)[None] for site, each in sites.items()} for group, sites in every.items()
        }
        along = {"curve": (("start", "block"), self.curve), "steps": ("block", self.steps)}
        numbers = {
            "family": self.family,
            "elbo": self.elbo,
            "elbo_error": self.elbo_error,
            "warnings": [*self.warnings],
        }
        numbers |= {name: value for name in ("khat", "efficiency") if (value := getattr(self, name)) is not None}
        fit = xarray.Dataset({**along, "elbos": ("start", self.elbos)}, attrs=numbers)
        if int(arviz.__version__.split(".")[0]) < 1:
            tree = arviz.from_dict(**chains, dims=dims, coords=coords)
            tree.add_groups({"fit": fit})
        else:
            tree = arviz.from_dict(chains, dims=dims, coords=coords)
            tree["fit"] = xarray.DataTree(fit)
        return tree

    def plot(self) -> Figure:
        """Draw the ELBO of every start, and the noise of its gradients, along the run; the best start is blue."""
        from gladstorm.plotting.figures import Figure  # matplotlib takes a second, and may be missing
        from gladstorm.plotting.styles import BLUE, GREY

        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        best = int(np.argmax(self.elbos))
        order = [start for start in range(len(self.elbos)) if start != best] + [best]
        for start in order:
            style = {"color": BLUE, "linewidth": 1.8} if start == best else {"color": GREY, "linewidth": 1.0}
            label = "best start" if start == best else ("other starts" if start == order[0] else None)
            left.plot(self.steps, self.curve[start], label=label, **style)
            right.semilogy(self.steps, self.noise[start], **style)
        late = self.curve[np.isfinite(self.curve)]
        if late.size and np.isfinite(self.elbo):
            low = max(late.min(), self.elbo - 20 * max(1.0, self.elbo - float(np.median(late))))
            left.set_ylim(low, max(late.max(), self.elbo) + 0.05 * (late.max() - low) + 1e-9)
        left.axhline(self.elbo, color="black", linestyle=":", linewidth=1, label="ELBO at the end")
        left.set(xlabel="steps", ylabel="ELBO, nats", title=f"{self.elbo:.2f} ± {self.elbo_error:.2g}")
        right.set(xlabel="steps", ylabel="squared length of the gradient, in sds of q", title="noise along the run")
        left.legend(frameon=False, fontsize=8)
        return figure

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit as one file, whole or not at all, with what draws from it in place of the model."""
        arrays = {f"{_PARAMETER}{name}": value for name, value in self.parameters.items()}
        arrays["sampler"] = np.frombuffer(self.sampler.sites.export().code, np.uint8)
        arrays |= {name: getattr(self, name) for name in (*_CURVES, *_NUMBERS)}
        arrays |= {} if self.log_weights is None else {"log_weights": self.log_weights}
        about = {name: getattr(self, name) for name in _ABOUT}
        about |= {"warnings": list(self.warnings), "starts": [asdict(each) for each in self.starts]}
        about |= {"arrays": list(arrays), "sampler": [self.sampler.noise_size, self.sampler.double]}
        Arrays(tuple(map(np.asarray, arrays.values())), about).save(Path(path), form=_FORMAT)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; all but `check` and `mixture` works as before."""
        loaded = Arrays.load(Path(path), form=_FORMAT)
        arrays = dict(zip(loaded.about["arrays"], loaded.values, strict=True))

        return cls(
            **{name: loaded.about[name] for name in _ABOUT},
            elbo=float(arrays["elbo"]),
            elbo_error=float(arrays["elbo_error"]),
            log_weights=arrays.get("log_weights"),
            warnings=tuple(loaded.about["warnings"]),
            starts=tuple(Group(**each | {"location": tuple(each["location"])}) for each in loaded.about["starts"]),
            parameters={
                name.removeprefix(_PARAMETER): value for name, value in arrays.items() if name.startswith(_PARAMETER)
            },
            sampler=Sampler(Exported(arrays["sampler"].tobytes()), *loaded.about["sampler"]),
            **{name: arrays[name] for name in _CURVES},
        )

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickle: the density, and with it `check`, is left out."""
        return self.__dict__ | {"walk": None}

    def __repr__(self) -> str:
        return "\n".join([self._title, *self._remarks])

    def _repr_html_(self) -> str:
        rows = self.summary().rows()
        more = [f"… {len(rows) - 51} more lines: fit.summary()"] if len(rows) > 51 else []
        return html_table(self._title, rows[:51], [*more, *self._remarks])

    @property
    def _title(self) -> str:
        return (
            f"{self.family}: ELBO {self.elbo:.2f} ± {self.elbo_error:.2g} after {self.gradients} gradients "
            f"({len(self.elbos)} {'starts' if len(self.elbos) > 1 else 'start'})"
        )

    @property
    def _remarks(self) -> list[str]:
        return [*(f"Warning: {warning}" for warning in self.warnings), self.khat_in_words]

    @cached_property
    def _draws(self) -> Draws:
        return self.sample(SUMMARIZED)

    def _parameter(self, name: str) -> np.ndarray:
        if name not in self.parameters:
            raise AttributeError(f"Fit: {name} is of Gaussian families; a guide of your own has fit.parameters.")
        return self.parameters[name]
