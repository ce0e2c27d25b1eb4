"""The works this package implements or builds on: one entry each, which tables, methods and docs cite.

An entry printed is its citation, `f"{CUTKOSKY_MEHTA_2020}"` being "Cutkosky and Mehta 2020". Not a BibTeX file: pybtex
takes 90 ms to import, whenever a method is used, and a misspelt key would fail only when read.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote_plus


@dataclass(frozen=True)
class Reference:
    """One work. `venue` says where it appeared, with volume and pages where there are any."""

    authors: tuple[str, ...]  # "Given Family"; a family name of several words is joined by ~
    title: str
    venue: str
    year: int
    shown: int | None = None  # the year it is cited by, if it was known before it appeared

    def __str__(self) -> str:
        """Author and year, as in "Cutkosky and Mehta 2020"."""
        families = [name.rsplit(" ", 1)[-1].replace("~", " ") for name in self.authors]
        named = families[0] if len(families) == 1 else " and ".join(families) if len(families) == 2 else None
        return f"{named or f'{families[0]} et al.'} {self.shown or self.year}"

    @property
    def link(self) -> str:
        """Its page on arXiv where the venue says which, else a search for its title."""
        if self.venue.startswith("arXiv "):
            return f"https://arxiv.org/abs/{self.venue.removeprefix('arXiv ')}"
        return f"https://scholar.google.com/scholar?q={quote_plus(self.title)}"

    @property
    def full(self) -> str:
        """Everything, as a bibliography has it."""
        authors = ", ".join(name.replace("~", " ") for name in self.authors)
        return f"{authors}. {self.title}. {self.venue}, {self.year}."


MANN_1953 = Reference(
    ("W. Robert Mann",), "Mean value methods in iteration", "Proceedings of the AMS 4(3), 506–510", 1953
)
ROBBINS_MONRO_1951 = Reference(
    ("Herbert Robbins", "Sutton Monro"),
    "A stochastic approximation method",
    "Annals of Mathematical Statistics 22(3), 400–407",
    1951,
)
BLUM_1954 = Reference(
    ("Julius R. Blum",),
    "Approximation methods which converge with probability one",
    "Annals of Mathematical Statistics 25(2), 382–386",
    1954,
)
KRASNOSELSKII_1955 = Reference(
    ("M. A. Krasnosel'skii",),
    "Two remarks on the method of successive approximations",
    "Uspekhi Matematicheskikh Nauk 10(1), 123–127",
    1955,
)
KESTEN_1958 = Reference(
    ("Harry Kesten",),
    "Accelerated stochastic approximation",
    "Annals of Mathematical Statistics 29(1), 41–59",
    1958,
)
GLADYSHEV_1965 = Reference(
    ("E. G. Gladyshev",),
    "On stochastic approximation",
    "Theory of Probability and Its Applications 10(2), 275–278",
    1965,
)
HALPERN_1967 = Reference(
    ("Benjamin Halpern",), "Fixed points of nonexpanding maps", "Bulletin of the AMS 73(6), 957–961", 1967
)
HALL_1988 = Reference(
    ("Peter Hall",),
    "On symmetric bootstrap confidence intervals",
    "Journal of the Royal Statistical Society, Series B 50(1), 35–45",
    1988,
)
RAO_WU_1988 = Reference(
    ("J. N. K. Rao", "C. F. J. Wu"),
    "Resampling inference with complex survey data",
    "Journal of the American Statistical Association 83(401), 231–241",
    1988,
)
MARSAGLIA_TSANG_2000 = Reference(
    ("George Marsaglia", "Wai Wan Tsang"),
    "A simple method for generating gamma variables",
    "ACM Transactions on Mathematical Software 26(3), 363–372",
    2000,
)
DOLAN_MORE_2002 = Reference(
    ("Elizabeth D. Dolan", "Jorge J. Moré"),
    "Benchmarking optimization software with performance profiles",
    "Mathematical Programming 91, 201–213",
    2002,
)
RAKHLIN_2012 = Reference(
    ("Alexander Rakhlin", "Ohad Shamir", "Karthik Sridharan"),
    "Making gradient descent optimal for strongly convex stochastic optimization",
    "ICML",
    2012,
)
SHAMIR_ZHANG_2013 = Reference(
    ("Ohad Shamir", "Tong Zhang"),
    "Stochastic gradient descent for non-smooth optimization: convergence results and optimal averaging schemes",
    "ICML",
    2013,
)
JOHNSON_ZHANG_2013 = Reference(
    ("Rie Johnson", "Tong Zhang"),
    "Accelerating stochastic gradient descent using predictive variance reduction",
    "NeurIPS",
    2013,
)
DEFAZIO_2014 = Reference(
    ("Aaron Defazio", "Francis Bach", "Simon Lacoste-Julien"),
    "SAGA: a fast incremental gradient method with support for non-strongly convex composite objectives",
    "NeurIPS",
    2014,
)
KINGMA_BA_2015 = Reference(
    ("Diederik P. Kingma", "Jimmy Ba"), "Adam: a method for stochastic optimization", "ICLR", 2015
)
NGUYEN_2017 = Reference(
    ("Lam M. Nguyen", "Jie Liu", "Katya Scheinberg", "Martin Takáč"),
    "SARAH: a novel method for machine learning problems using stochastic recursive gradient",
    "ICML",
    2017,
)
FANG_2018 = Reference(
    ("Cong Fang", "Chris Junchi Li", "Zhouchen Lin", "Tong Zhang"),
    "SPIDER: near-optimal non-convex optimization via stochastic path-integrated differential estimator",
    "NeurIPS",
    2018,
)
ZHOU_2018 = Reference(
    ("Dongruo Zhou", "Pan Xu", "Quanquan Gu"),
    "Stochastic nested variance reduction for nonconvex optimization",
    "NeurIPS",
    2018,
)
DOMKE_2019 = Reference(
    ("Justin Domke",), "Provable gradient variance guarantees for black-box variational inference", "NeurIPS", 2019
)
DOMKE_2020 = Reference(
    ("Justin Domke",), "Provable smoothness guarantees for black-box variational inference", "ICML", 2020
)
CUTKOSKY_ORABONA_2019 = Reference(
    ("Ashok Cutkosky", "Francesco Orabona"),
    "Momentum-based variance reduction in non-convex SGD",
    "NeurIPS",
    2019,
)
WANG_2019 = Reference(
    ("Zhe Wang", "Kaiyi Ji", "Yi Zhou", "Yingbin Liang", "Vahid Tarokh"),
    "SpiderBoost and momentum: faster variance reduction algorithms",
    "NeurIPS",
    2019,
)
ZHANG_2019 = Reference(
    ("Jingzhao Zhang", "Tianxing He", "Suvrit Sra", "Ali Jadbabaie"),
    "Why gradient clipping accelerates training: a theoretical justification for adaptivity",
    "ICLR",
    2020,
    shown=2019,
)
CARMON_2020 = Reference(
    ("Yair Carmon", "John C. Duchi", "Oliver Hinder", "Aaron Sidford"),
    "Lower bounds for finding stationary points I",
    "Mathematical Programming 184, 71–120",
    2020,
)
CUTKOSKY_MEHTA_2020 = Reference(("Ashok Cutkosky", "Harsh Mehta"), "Momentum improves normalized SGD", "ICML", 2020)
LI_2021 = Reference(
    ("Zhize Li", "Hongyan Bao", "Xiangliang Zhang", "Peter Richtárik"),
    "PAGE: a simple and optimal probabilistic gradient estimator for nonconvex optimization",
    "ICML",
    2021,
)
LEVY_2021 = Reference(
    ("Kfir Y. Levy", "Ali Kavis", "Volkan Cevher"),
    "STORM+: fully adaptive SGD with momentum for nonconvex optimization",
    "NeurIPS",
    2021,
)
CRAWSHAW_2022 = Reference(
    ("Michael Crawshaw", "Mingrui Liu", "Francesco Orabona", "Wei Zhang", "Zhenxun Zhuang"),
    "Robustness to unbounded smoothness of generalized SignSGD",
    "NeurIPS",
    2022,
)
ARJEVANI_2023 = Reference(
    ("Yossi Arjevani", "Yair Carmon", "John C. Duchi", "Dylan J. Foster", "Nathan Srebro", "Blake Woodworth"),
    "Lower bounds for non-convex stochastic optimization",
    "Mathematical Programming 199, 165–214",
    2023,
)
CHEN_2023 = Reference(
    ("Ziyi Chen", "Yi Zhou", "Yingbin Liang", "Zhaosong Lu"),
    "Generalized-smooth nonconvex optimization is as efficient as smooth nonconvex optimization",
    "ICML",
    2023,
)
DEFAZIO_MISHCHENKO_2023 = Reference(
    ("Aaron Defazio", "Konstantin Mishchenko"), "Learning-rate-free learning by D-Adaptation", "ICML", 2023
)
KHALED_2023 = Reference(
    ("Ahmed Khaled", "Konstantin Mishchenko", "Chi Jin"),
    "DoWG unleashed: an efficient universal parameter-free gradient descent method",
    "NeurIPS",
    2023,
)
IVGI_2023 = Reference(
    ("Maor Ivgi", "Oliver Hinder", "Yair Carmon"),
    "DoG is SGD's best friend: a parameter-free dynamic step size schedule",
    "ICML",
    2023,
)
HUBLER_2024 = Reference(
    ("Florian Hübler", "Junchi Yang", "Xiang Li", "Niao He"),
    "Parameter-agnostic optimization under relaxed smoothness",
    "AISTATS",
    2024,
)
DEFAZIO_2024 = Reference(
    ("Aaron Defazio", "Xingyu Yang", "Harsh Mehta", "Konstantin Mishchenko", "Ahmed Khaled", "Ashok Cutkosky"),
    "The road less scheduled",
    "NeurIPS",
    2024,
)
MISHCHENKO_DEFAZIO_2024 = Reference(
    ("Konstantin Mishchenko", "Aaron Defazio"),
    "Prodigy: an expeditiously adaptive parameter-free learner",
    "ICML",
    2024,
)
SCHAIPP_2024 = Reference(
    ("Fabian Schaipp", "Ruben Ohana", "Michael Eickenberg", "Aaron Defazio", "Robert M. Gower"),
    "MoMo: momentum models for adaptive learning rates",
    "ICML",
    2024,
)
TAKEZAWA_2024 = Reference(
    ("Yuki Takezawa", "Han Bao", "Ryoma Sato", "Kenta Niwa", "Makoto Yamada"),
    "Parameter-free clipped gradient descent meets Polyak",
    "NeurIPS",
    2024,
)
KHIRIRAT_2025 = Reference(
    ("Sarit Khirirat", "Abdurakhmon Sadiev", "Artem Riabinin", "Eduard Gorbunov", "Peter Richtárik"),
    "Error feedback under (L0, L1)-smoothness: normalization and momentum",
    "NeurIPS",
    2025,
)
REISIZADEH_2025 = Reference(
    ("Amirhossein Reisizadeh", "Haochuan Li", "Subhro Das", "Ali Jadbabaie"),
    "Variance-reduced clipping for non-convex optimization",
    "ICASSP",
    2025,
)
YUAN_2025 = Reference(
    ("Huizhuo Yuan", "Yifeng Liu", "Shuang Wu", "Xun Zhou", "Quanquan Gu"),
    "MARS: unleashing the power of variance reduction for training large models",
    "ICML",
    2025,
)
FAZLA_2026 = Reference(
    ("Arda Fazla", "Ege C. Kaya", "Antesh Upadhyay", "Abolfazl Hashemi"),
    "Lower bounds and proximally anchored SGD for non-convex minimization under unbounded variance",
    "arXiv 2604.16620",
    2026,
)
KIM_ALACAOGLU_2026 = Reference(
    ("Kim", "Alacaoglu"),
    "Improving the last-iterate guarantees of anytime algorithms for stochastic monotone variational inequalities",
    "preprint",
    2026,
)
THIS_PAPER = Reference(
    ("Antesh Upadhyay", "Arda Fazla", "Abolfazl Hashemi"),
    "Beyond bounded variance: variance-reduced normalized methods for nonconvex optimization under "
    "Blum–Gladyshev noise",
    "arXiv 2605.15314",
    2026,
)

REFERENCES = {name: value for name, value in list(globals().items()) if isinstance(value, Reference)}


def markdown() -> str:
    """All works as a list for a document, by citation, each with a link that finds it."""
    return "\n".join(
        f"- **{each}**. {each.full} [Find it]({each.link})." for each in sorted(REFERENCES.values(), key=str)
    )
