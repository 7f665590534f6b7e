"""The shapes a run time may have: non-negative sums of terms in predictors and cores, one line a shape.

A shape is fitted to a learner's cells by non-negative least squares of relative errors, from its Gram matrix alone, when it is
asked for by name (`advisor.engine.shaped`). To add one, add its line: the law suite takes it in; `PINS` of
`advisor.engine.asking` needs its name at the end.

A term is a product of one entry of `WORK` and one of `CORES`, written "work * cores"; either may be left out. With
v_j = x_j / highest x_j seen, v is the product of all v_j; w the product of v_j**b_j with powers b that the points suggest;
"each" stands for one term a predictor, v_1 .. v_d, and "pairs" for one a pair, v_1 v_2 ..: shapes with these are for d >= 2.

Sources: Ernest (Venkataraman et al., NSDI 2016); paper 1 of this project (Amdahl with a sequential time in x); paper 3's
intermediate models and Extra-P's performance model normal form (n log n, powers); Universal Scalability Law for contention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from advisor.domain.vectors import Bools, Floats, Ints

Entry = Callable[[Floats], Floats]

TERMS_MAX = 10  # columns of a shape: 1, four predictors and the four over p fit
FARTHEST = 100.0  # |log v| stays below: v**3 log v of any two predictors 2**-60 .. 2**60 apart is finite
LEAST = 1e-300  # of a sum of terms: its logarithm is finite
SWAPS = 24  # of columns in and out of the active set; 6 on the mean, 18 at most on public measurements
SINGLE_AFTER = 4  # exchanges of whole blocks before single columns are exchanged, which cannot cycle
RIDGE = 1e-9  # of an equilibrated diagonal: columns that the points cannot tell apart share
SLACK = 1e-10  # a gradient or coefficient this small is zero


def _log(v: Floats) -> Floats:
    return np.log1p(v * 1023.0)  # v log v from v = 1/1024 up; 0 at 0


WORK: Mapping[str, Entry] = {
    "1": lambda v: v * 0.0 + 1.0,
    "v": lambda v: v,
    "v^2": lambda v: v * v,
    "v^3": lambda v: v * v * v,
    "sqrt v": np.sqrt,
    "v log v": lambda v: v * _log(v),
    "v^2 log v": lambda v: v * v * _log(v),
    "v loglog v": lambda v: v * np.log1p(_log(v)),
}
CORES: Mapping[str, Entry] = {
    "1": lambda p: p * 0.0 + 1.0,
    "1/p": lambda p: 1.0 / p,
    "1/sqrt p": lambda p: 1.0 / np.sqrt(p),
    "log p": lambda p: np.log(p + 1.0),
    "p": lambda p: p,
    "(p-1)^2/p": lambda p: (p - 1.0) * (p - 1.0) / p,
}
POWERS, EACH, PAIRS = "w", "each", "pairs"

SHAPES: Mapping[str, str] = {
    "constant": "1",
    "ernest": "1, v * 1/p, log p, p",
    "linear amdahl": "1, v, 1/p, v * 1/p",
    "cubic amdahl": "v, v * 1/p, v^2, v^2 * 1/p, v^3, v^3 * 1/p, 1/p, 1",
    "contention": "v, v * 1/p, v * log p, v * p, v * (p-1)^2/p",
    "n log n": "1, v, v * 1/p, v log v, v log v * 1/p, v^2 log v * 1/p, v loglog v * 1/p",
    "roots": "1, sqrt v, sqrt v * 1/p, v * 1/sqrt p, v, v * 1/p",
    "sum": "1, each, each * 1/p",
    "pairs": "1, v, v * 1/p, pairs * 1/p",
    "powers": "1, w, 1/p, w * 1/p, w * log p, w * p",
}


@dataclass(frozen=True, slots=True)
class Family:
    """The shapes for a number of predictors, their terms as places in two lists of entries.

    Attributes
    ----------
    names : tuple of str
    work, cores : int64 arrays (shapes, terms)
        Places of a term's two factors in `Scale.work_at` and `CORES`.
    there : bool array (shapes, terms)
        Terms that exist.
    """

    names: tuple[str, ...]
    work: Ints
    cores: Ints
    there: Bools

    def columns(self, work: Floats, cores: Floats) -> Floats:
        """Return the terms (shapes, terms, n) from entries (.., n); missing terms are zero."""
        columns = work[self.work]
        columns *= cores[self.cores]
        columns *= self.there[:, :, None]
        return columns


@lru_cache(maxsize=8)
def family_of(predictors: int) -> Family:
    """Return the shapes for so many predictors. Cost O(shapes) once.

    Raises
    ------
    ValueError
        Where a shape has an unknown entry or more than `TERMS_MAX` terms.
    """
    vector = [POWERS, *(f"{EACH} {j}" for j in range(predictors))]
    vector += [f"{PAIRS} {i} {j}" for i, j in combinations(range(predictors), 2)]
    places = {name: place for place, name in enumerate([*WORK, *(vector if predictors > 1 else ())])}
    shapes = {name: _terms(name, text, places) for name, text in SHAPES.items()}
    shapes = {name: terms for name, terms in shapes.items() if terms}
    widest = max(len(terms) for terms in shapes.values())
    work, cores = np.zeros((2, len(shapes), widest), np.int64)
    there = np.zeros(work.shape, np.bool_)
    for i, terms in enumerate(shapes.values()):
        work[i, : len(terms)], cores[i, : len(terms)] = np.array(terms).T
        there[i, : len(terms)] = True
    return Family(tuple(shapes), work, cores, there)


def _terms(name: str, text: str, places: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return a shape's terms as places, none where it is for more predictors."""
    in_cores = {entry: place for place, entry in enumerate(CORES)}
    found: list[tuple[int, int]] = []
    for term in text.split(","):
        factors = [factor.strip() for factor in term.split("*")]
        work = "1" if factors[0] in in_cores and factors[0] != "1" else factors.pop(0)
        cores = factors[0] if factors else "1"
        if work in (POWERS, EACH, PAIRS) and POWERS not in places:
            return []
        met = [place for entry, place in places.items() if entry == work or entry.startswith(work + " ")]
        met = met if work in (EACH, PAIRS) else [place for entry, place in places.items() if entry == work]
        if not met or cores not in in_cores or len(factors) > 1:
            raise ValueError(f"shape {name!r}: no term {term.strip()!r}")
        found += [(place, in_cores[cores]) for place in met]
    if len(found) > TERMS_MAX:
        raise ValueError(f"shape {name!r}: {len(found)} terms, at most {TERMS_MAX}")
    return found


@dataclass(frozen=True, slots=True)
class Scale:
    """In what predictors and times are measured: the highest predictors seen, the powers suggested, the longest time.

    Attributes
    ----------
    highest, powers : tuples of float
        log of the highest value, and exponent in w, of each predictor.
    top : float
        log of the longest time.
    """

    highest: tuple[float, ...]
    powers: tuple[float, ...]
    top: float

    @property
    def family(self) -> Family:
        """The shapes for as many predictors."""
        return family_of(len(self.highest))

    def entries(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the entries in work (.., n) and in cores (.., n) at points z (n, axes) in natural logs."""
        u = z[:, :-1] - self.highest
        v = np.exp(np.clip(u.sum(axis=1), -FARTHEST, FARTHEST))
        p = np.exp(z[:, -1])
        work = [entry(v) for entry in WORK.values()]
        if len(self.highest) > 1:
            each = np.exp(np.clip(u, -FARTHEST, FARTHEST)).T
            work.append(np.exp(np.clip(u @ self.powers, -FARTHEST, FARTHEST)))
            work += [*each, *(each[i] * each[j] for i, j in combinations(range(len(each)), 2))]
        return np.array(work), np.array([entry(p) for entry in CORES.values()])


@dataclass(frozen=True, slots=True)
class Shape:
    """A fitted shape: log t = top + log sum_k c_k work_k(z) cores_k(z), c >= 0."""

    scale: Scale
    terms: tuple[tuple[float, int, int], ...]  # (c, place in work, place in cores), c > 0

    def __call__(self, z: Floats) -> Floats:
        """Return log times at points z (n, axes)."""
        work, cores = self.scale.entries(z)
        total = np.zeros(work.shape[1])
        for c, i, j in self.terms:
            total += c * work[i] * cores[j]
        return np.log(np.maximum(total, LEAST)) + self.scale.top


def fit(scale: Scale, z: Floats, y: Floats, weight: Floats) -> list[tuple[str, Shape, Floats]]:
    """Return all shapes fitted to log times y at points z: (name, shape, its log times at z). Cost O(shapes n TERMS_MAX^2)."""
    family = scale.family
    columns = family.columns(*scale.entries(z))
    coefficients = fitted(columns, np.exp(y - scale.top), weight)
    sums = (coefficients[:, None, :] @ columns)[:, 0, :]
    logs = np.log(np.maximum(sums, LEAST)) + scale.top
    lists = zip(coefficients.tolist(), family.work.tolist(), family.cores.tolist(), strict=True)
    found: list[tuple[str, Shape, Floats]] = []
    for name, at_z, (c, work, cores) in zip(family.names, logs, lists, strict=True):
        terms = tuple(term for term in zip(c, work, cores, strict=True) if term[0] > 0.0)
        if terms:
            found.append((name, Shape(scale, terms), at_z))
    return found


def fitted(columns: Floats, t: Floats, weight: Floats) -> Floats:
    """Return the coefficients (shapes, terms) >= 0 that minimise sum w ((t - f) / t)**2, for all shapes at once.

    Parameters
    ----------
    columns : float64 array (shapes, terms, n)
    t : float64 array (n,)
        Times at the points.
    weight : float64 array (n,)
        Weights of the squared relative errors.
    """
    root = np.sqrt(weight)
    scaled = columns * (root / t)
    right = scaled @ root
    gram = scaled @ scaled.transpose(0, 2, 1)
    stack, k = right.shape
    size = np.sqrt(gram.reshape(stack, -1)[:, :: k + 1])
    there = size > 0
    size[~there] = 1.0
    gram /= size[:, :, None]
    gram /= size[:, None, :]
    return nonnegative(gram, right / size, there) / size


def nonnegative(gram: Floats, right: Floats, there: Bools) -> Floats:
    """Return c >= 0 minimising c' G c / 2 - c' r, for a stack of equilibrated problems, by block principal pivoting.

    Parameters
    ----------
    gram : float64 array (s, k, k)
        Unit diagonals.
    right : float64 array (s, k)
    there : bool array (s, k)
        Columns that exist.

    Notes
    -----
    Portugal, Judice and Vicente (1994). After `SWAPS` exchanges negative coefficients are cut to zero: none was seen.
    """
    stack, k = right.shape
    unit = np.eye(k)
    ridged = gram + RIDGE * unit
    active = there.copy()
    found = np.zeros((stack, k))
    for swap in range(SWAPS):
        matrix = np.where(active[:, :, None] & active[:, None, :], ridged, unit)
        column = np.linalg.solve(matrix, (right * active)[:, :, None])
        found = column[:, :, 0]
        gradient = (gram @ column)[:, :, 0] - right
        wrong = np.where(active, found, gradient) < -SLACK
        wrong &= there
        if not np.count_nonzero(wrong):
            break
        if swap >= SINGLE_AFTER:
            last = k - 1 - wrong[:, ::-1].argmax(axis=1)
            single = np.zeros_like(wrong)
            single[np.arange(stack), last] = True
            wrong &= single
        active ^= wrong
    return np.where(active, np.maximum(found, 0.0), 0.0)
