"""Bounds of every method, growth, norm and decay as plain functions, from the research notes alone: no import of ours.

Letters are the notes': N1, N2, N7 and N8 for runs without weight decay, W1 and W2 with it, S and H for plain SGD, A9
and B9 with their closed forms. `tests/theory/test_every_setting.py` compares them with the package.
"""

import math
from typing import Any

INFINITE = math.inf


def mean_of_powers(updates: float, h: float) -> float:
    """m_K: the mean of k^h, k = 0..K, at most."""
    return float((updates if h <= 1 else updates + 1.0) ** h / (1 + h))


def forgotten(eta: float, T: int) -> float:
    """φ."""
    if eta >= 1:
        return 1 / T
    return float(-math.expm1(T * math.log1p(-eta)) / (eta * T))


def way(gamma: float, lam: float, R: float, T: int) -> float:
    """r̄: the mean of R(1 − (1 − γλ)^k) over k < T."""
    kept = gamma * lam
    return float(R * (1 - forgotten(kept, T)))


def class_one(L0: float, L1: float, alpha: float, s: float) -> tuple[float, float]:
    """Lemma 4(iv)."""
    if alpha == 0:
        return L0, 0.0
    return L0 + (1 - alpha) * L1 * s**alpha, alpha * L1 * s ** (alpha - 1)


def momentum(p: dict[str, Any], gamma: float, eta: float, T: int, b0: float, s: float = 1.0) -> float:
    """N1, N7 and, with decay, W1 and its form for (S_1): a bound on E‖∇f‖_*, or on Ψ where ϑ is not known."""
    tau, h, lam = p["tau"], p["a"] / 2, p["lam"]
    L0, L1 = class_one(p["L0"], p["L1"], p["alpha"], s)
    step = 2.0 if lam else 1.0
    E = math.exp(step * L1 * gamma)
    if lam:
        R = 1 / lam + p["r0"]
        away = way(gamma, lam, R, T) ** h if h <= 1 else R**h
        if gamma * lam > 1:
            return INFINITE
        c = 1 - (p["theta"] or 0.0) - L1 * gamma * E * (4 * (1 - eta) / eta + 2)
        bent = 4 * L0 * E * gamma * (1 - eta) / eta + 2 * L0 * E * gamma
    else:
        away = gamma**h * mean_of_powers(T - 1.0, h)
        c = 1 - L1 * gamma * E * (2 * (1 - eta) / eta + 0.5)
        bent = 2 * L0 * E * gamma * (1 - eta) / eta + L0 * E * gamma / 2
    noise = 2 * math.sqrt(eta / (2 - eta)) * (tau * p["G"] + tau * p["B"] * away)
    right = p["gap"] / (gamma * T) + 2 * b0 * forgotten(eta, T) + bent + noise
    return right / c if c > 0 else INFINITE


def storm(p: dict[str, Any], gamma: float, eta: float, T: int, b0: float, s: float = 1.0) -> float:
    """N2 for α = 0 with ℓ = νL and L0 = τL, N8 for α > 0; with decay W2 and its form for (E_1)."""
    tau, kappa, nu, h, lam = p["tau"], p["kappa"], p["nu"], p["a"] / 2, p["lam"]
    K, B, G = T - 1.0, p["B"], p["G"]
    root = math.sqrt(eta * (2 - eta))
    start = p["gap"] / (gamma * T) + 2 * b0 * forgotten(eta, T)
    M0, M1 = (p["L"], 0.0) if p["alpha"] == 0 else class_one(p["L0"], p["L1"], p["alpha"], s)
    E = math.exp((2 if lam else 1) * M1 * gamma)
    if lam:
        R = 1 / lam + p["r0"]
        if gamma * lam > 1:
            return INFINITE
        mean = way(gamma, lam, R, T)
        Q = G + B * (mean**h if h <= 1 else R**h)
        if p["alpha"] == 0:
            Q = min(Q, G + nu * M0 * mean)  # mean-square smooth samples: also G + ℓr
        c = 1 - (p["theta"] or 0.0) - 2 * kappa * tau * M1 * gamma * E * (2 * nu / eta + 1)
        right = (
            start
            + 2 * tau * (2 * nu * gamma * E * (M0 + M1 * Q) + eta * Q) / root
            + 2 * tau * gamma * E * (M0 + M1 * Q)
        )
        return right / c if c > 0 else INFINITE
    before = max(0.0, K - 1)
    Q, last = G + B * gamma**h * mean_of_powers(before, h), G + B * gamma**h * mean_of_powers(K, h)
    if p["alpha"] == 0:
        Q = min(Q, G + nu * M0 * gamma * before / 2)
        return float(start + 2 * tau * (nu * M0 * gamma + eta * Q) / root + tau * M0 * gamma / 2)
    c = 1 - kappa * tau * M1 * gamma * E * (2 * nu / eta + 0.5)
    right = start + 2 * tau * (nu * gamma * E * (M0 + M1 * Q) + eta * Q) / root + tau * gamma * E * (M0 + M1 * last) / 2
    return right / c if c > 0 else INFINITE


def mean_sigma(p: dict[str, Any], D: float, q: int) -> float:
    """⟨σ^q⟩ = ∫₀¹ σ(D√t)^q dt for q = 0, 1, 2, σ(r) = G + B r^h."""
    h, G, far = p["a"] / 2, p["G"], p["B"] * D ** (p["a"] / 2)
    if q == 0:
        return 1.0
    return float(G + far / (1 + h / 2) if q == 1 else G * G + 2 * G * far / (1 + h / 2) + far * far / (1 + h))


def plain_holds(p: dict[str, Any], gamma: float, v: float, T: int) -> bool:
    """Condition of Theorem S with the sum summed, for moderate T."""
    L, D, h = p["L0"], p["gap"], p["a"] / 2
    if gamma > (1 + 1e-12) / L:
        return False
    rho = math.sqrt((1 + v) / (1 - L * gamma / 2)) + math.sqrt(2 * v / (L * gamma * T))
    total = sum((p["G"] + p["B"] * (rho * math.sqrt(gamma * k * D)) ** h) ** 2 for k in range(T))
    if h == 0:
        total = T * (p["G"] + p["B"]) ** 2
    return bool(L * gamma**2 * total <= 2 * D * v * (1 + 1e-9))


def plain_bound(p: dict[str, Any], gamma: float, v: float, T: int) -> float:
    """Theorem S."""
    return float(math.sqrt((1 + v) * p["gap"] / ((1 - p["L0"] * gamma / 2) * gamma * T)))


def plain_batches(p: dict[str, Any], eps: float, q: int, excess: float) -> dict[str, Any]:
    """Theorem H with z = 1/excess: steps T, γ, c, samples, and the mean of the largest batch."""
    L, D = p["L0"], p["gap"]
    far = 2 * D / eps + math.sqrt(2 * D / L)
    S0, z = 2 * L * D / eps**2, 1 / excess
    c = mean_sigma(p, far, 2 - q) / (z * eps**2)
    T = math.ceil(S0 * (1 + z))
    return {
        "T": T,
        "gamma": 2 * D / (eps**2 * T),
        "c": c,
        "samples": T * (1 + c * mean_sigma(p, far, q)),
        "largest": 1 + c * (p["G"] + p["B"] * (far + math.sqrt(2 * D / L)) ** (p["a"] / 2)) ** q,
    }


def uniform_momentum(p: dict[str, Any], eps: float) -> dict[str, Any]:
    """A9, and with decay its form of growth.md section 5."""
    tau, h, lam = p["tau"], p["a"] / 2, p["lam"]
    left = eps * (1 - p["theta"]) if lam else eps
    Q = tau * (p["G"] + p["B"] * ((1 / lam + p["r0"]) if lam else 4 * p["gap"] / eps) ** h)
    Lam = p["L0"] + (p["L1"] * eps ** p["alpha"] if p["alpha"] else 0.0)
    eta = (left / (8 * Q)) ** 2
    gamma = eta * left / (16 * Lam) if lam else eps**3 / (512 * Lam * Q * Q)
    N = max(1, math.ceil(256 * (tau * p["G"] / left) ** 2))
    cap = 1 + 256 * (tau * p["G"] / left) ** 2 + (4096 if lam else 2048) * p["gap"] * Lam * Q * Q / left**4
    return {"eta": eta, "gamma": gamma, "N": N, "T": math.ceil(4 * p["gap"] / (left * gamma)), "samples": cap}


def uniform_storm(p: dict[str, Any], eps: float) -> dict[str, Any]:
    """B9, and with decay its form of growth.md section 5."""
    tau, kappa, nu, h, lam = p["tau"], p["kappa"], p["nu"], p["a"] / 2, p["lam"]
    left = eps * (1 - p["theta"]) if lam else eps
    Q = p["G"] + p["B"] * ((1 / lam + p["r0"]) if lam else 4 * p["gap"] / eps) ** h
    grown = p["L"] if p["alpha"] == 0 else p["L0"] + p["L1"] * (kappa * tau * Q) ** p["alpha"]
    Lam = tau * nu * grown
    eta = (left / (8 * tau * Q)) ** 2
    gamma = (1 - p["theta"]) * left**2 / (1280 * tau * Q * Lam) if lam else eps**2 / (560 * tau * Q * Lam)
    N = max(1, math.ceil(256 * (tau * p["G"] / left) ** 2))
    price = 10240 / ((1 - p["theta"]) * left**3) if lam else 4480 / eps**3
    cap = 1 + 256 * (tau * p["G"] / left) ** 2 + price * p["gap"] * tau * Q * Lam
    return {"eta": eta, "gamma": gamma, "N": N, "T": math.ceil(4 * p["gap"] / (left * gamma)), "samples": cap}


def chen(L0: float, L1: float, alpha: float) -> tuple[float, float, float]:
    """The constants K0, K1, K2 that the paper takes for f, as in theory.md."""
    p = alpha / (1 - alpha)
    power = 2 ** (alpha**2 / (1 - alpha))
    return L0 * (power + 1), L1 * power * 3**alpha, L1 ** (1 + p) * power * 3**alpha * (1 - alpha) ** p


def momentum_long_step(p: dict[str, Any], gamma: float, eta: float, T: int, b0: float) -> float:
    """N3 in the paper's constants of the class, with its φ ≤ 1/(ηT) and (η/(2 − η))^½ ≤ √η."""
    alpha, h = p["alpha"], p["a"] / 2
    q = alpha / (1 - alpha)
    K0, K1, K2 = chen(p["L0"], p["L1"], alpha)
    c = 0.75 - gamma / (4 * eta)
    if c <= 0 or gamma > 1:
        return INFINITE
    C = K2 + 0.5 * (1 - alpha) * (2 * alpha) ** q * K1 ** (1 + q)
    Ct = K0 + K2 + (1 - alpha) * (8 * alpha) ** q * K1 ** (1 + q)
    noise = p["tau"] * (p["G"] + p["B"] * gamma**h * mean_of_powers(T - 1.0, h))
    first = p["gap"] / (gamma * T) + 2 * b0 / (eta * T) + 2 * Ct * gamma / eta
    return float((first + 2 * math.sqrt(eta) * noise + K0 * gamma / 2 + C * gamma ** (1 + q)) / c)


def storm_powers(p: dict[str, Any], gamma: float, eta: float, T: int, b0: float) -> float:
    """N4, with (G + B(Tγ)^h)^α not split."""
    alpha, tau, kappa = p["alpha"], p["tau"], p["kappa"]
    q = alpha / (1 - alpha)
    K0, K1, K2 = chen(p["L0"], p["L1"], alpha)
    K0, K2, Lam = tau * p["nu"] * K0, tau * p["nu"] * K2, tau * p["nu"] * kappa**alpha * K1
    young = (1 - alpha) * alpha**q * Lam * (eta / (8 * Lam * gamma)) ** -q
    Q = p["G"] + p["B"] * (T * gamma) ** (p["a"] / 2)
    start = 4 * p["gap"] / (gamma * T) + 8 * b0 / (eta * T)
    differences = 8 * gamma / math.sqrt(eta) * (K0 + young + Lam * (Q / kappa) ** alpha + K2 * gamma**q)
    last = 2 * gamma * (K0 + young + 2 * K2 * gamma**q) + 2 * Lam * gamma * (Q / kappa) ** alpha
    return float(start + differences + 8 * math.sqrt(eta) * tau * Q + last)


def momentum_batches(p: dict[str, Any], gamma: float, eta: float, batches: list[int], b0: float) -> float:
    """Theorem G for NSGDM, f smooth or of (S_1), for batches that do not fall."""
    N = sum(batches)
    beta, last, h = sum(b * b for b in batches) / N, batches[-1], p["a"] / 2
    L1 = p["L1"] if p["alpha"] else 0.0
    E = math.exp(L1 * gamma * last)
    c = 1 - 2 * L1 * gamma * E / eta - L1 * gamma * E * last / 2
    noise = p["tau"] * (p["G"] + p["B"] * (gamma * N) ** h / (1 + h))
    right = p["gap"] / (gamma * N) + 2 * b0 * min(1, 1 / (eta * N)) + p["L0"] * E * gamma * (2 / eta - 1.5 * beta)
    right += 2 * math.sqrt(eta / (2 - eta * last)) * noise
    return right / c if c > 0 else INFINITE


def storm_batches(p: dict[str, Any], gamma: float, eta: float, batches: list[int], b0: float) -> float:
    """Theorem G for NSTORM with mean-square smooth samples, ℓ = νL; noise also at most G + ℓr."""
    N = sum(batches)
    beta, last, h, ell = sum(b * b for b in batches) / N, batches[-1], p["a"] / 2, p["nu"] * p["L"]
    Q = p["G"] + min(p["B"] * (gamma * N) ** h / (1 + h), ell * gamma * N / 2)
    right = p["gap"] / (gamma * N) + 2 * b0 * min(1, 1 / (eta * N)) + p["tau"] * p["L"] * gamma * beta / 2
    return float(right + 2 * p["tau"] * (ell * gamma + eta * Q) / math.sqrt(eta * (2 - eta * last)))
