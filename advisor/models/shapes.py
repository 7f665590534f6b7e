"""The shapes a run time may have: non-negative sums of terms in predictors and cores, one line a shape.

A shape is fitted to a learner's cells by non-negative least squares of relative errors when it is asked for by name
(`advisor.engine.shaped`). To add one, add its line: the law suite takes it in; `PINS` of `advisor.engine.asking` needs its
name at the end.

A term is a product of one entry of `WORK` and one of `CORES`, written "work * cores"; either may be left out. With
v_j = x_j / highest x_j seen, v is the product of all v_j; w the product of v_j**b_j with powers b that the points suggest;
"each" stands for one term a predictor, v_1 .. v_d, and "pairs" for one a pair, v_1 v_2 ..: shapes with these are for d >= 2.

Sources: Ernest (Venkataraman et al., NSDI 2016); paper 1 of this project (Amdahl with a sequential time in x); paper 3's
intermediate models and Extra-P's performance model normal form (n log n, powers); Universal Scalability Law for contention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats
from advisor.models.nonnegative import solve

Entry = Callable[[Floats], Floats]
Term = tuple[str, tuple[int, ...], str]  # factor in work, the predictors it is of (none: all), factor in cores

TERMS_MAX = 10  # columns of a shape: 1, four predictors and the four over p fit
FARTHEST = 100.0  # |log v| stays below: v**3 log v of any two predictors 2**-60 .. 2**60 apart is finite
LEAST = 1e-300  # of a sum of terms: its logarithm is finite
RIDGE = 1e-9  # of a column's square: columns that the points cannot tell apart share


def _log(v: Floats) -> Floats:
    return elementary.log1p(v * 1023.0)  # v log v from v = 1/1024 up; 0 at 0


WORK: Mapping[str, Entry] = {
    "1": lambda v: v * 0.0 + 1.0,
    "v": lambda v: v,
    "v^2": lambda v: v * v,
    "v^3": lambda v: v * v * v,
    "sqrt v": np.sqrt,
    "v log v": lambda v: v * _log(v),
    "v^2 log v": lambda v: v * v * _log(v),
    "v loglog v": lambda v: v * elementary.log1p(_log(v)),
}
CORES: Mapping[str, Entry] = {
    "1": lambda p: p * 0.0 + 1.0,
    "1/p": lambda p: 1.0 / p,
    "1/sqrt p": lambda p: 1.0 / np.sqrt(p),
    "log p": lambda p: elementary.log(p + 1.0),
    "p": lambda p: p,
    "(p-1)^2/p": lambda p: (p - 1.0) * (p - 1.0) / p,
}
POWERS = "w"
OF = {"each": 1, "pairs": 2}  # of how many predictors a term is

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


@lru_cache(maxsize=64)
def terms_of(shape: str, predictors: int) -> tuple[Term, ...]:
    """Return the terms of a shape over so many predictors, none where it is for more; raises ValueError where one is none."""
    found: list[Term] = []
    for term in SHAPES[shape].split(","):
        work, _, cores = term.strip().partition(" * ")
        if not cores and work in CORES and work != "1":
            work, cores = "1", work
        cores = cores or "1"
        if work not in (POWERS, *OF, *WORK) or cores not in CORES:
            raise ValueError(f"shape {shape!r}: no term {term.strip()!r}")
        if work not in WORK and predictors < 2:
            return ()
        found += [(work, of, cores) for of in (combinations(range(predictors), OF[work]) if work in OF else [()])]
    if len(found) > TERMS_MAX:
        raise ValueError(f"shape {shape!r}: {len(found)} terms, at most {TERMS_MAX}")
    return tuple(found)


def names_of(predictors: int) -> tuple[str, ...]:
    """Return the names of the shapes over so many predictors."""
    return tuple(name for name in SHAPES if terms_of(name, predictors))


@dataclass(frozen=True, slots=True)
class Scale:
    """In what predictors and times are measured: the highest predictors seen, the powers suggested, the longest time.

    `highest` and `top` are natural logs; `powers` are the exponents in w.
    """

    highest: tuple[float, ...]
    powers: tuple[float, ...]
    top: float

    def columns(self, terms: Iterable[Term], z: Floats) -> Floats:
        """Return the terms (k, n) at points z (n, axes) in natural logs."""
        u, p = z[:, :-1] - self.highest, elementary.exp(z[:, -1])
        found: list[Floats] = []
        for work, of, cores in terms:
            powers = self.powers if work == POWERS else [float(not of or j in of) for j in range(u.shape[1])]
            v = elementary.exp(np.clip(elementary.weighted(powers, u.T), -FARTHEST, FARTHEST))
            found.append((WORK[work](v) if work in WORK else v) * CORES[cores](p))
        return np.array(found)


@dataclass(frozen=True, slots=True)
class Shape:
    """A fitted shape: log t = top + log sum_k c_k term_k(z), c_k > 0."""

    scale: Scale
    terms: tuple[Term, ...]
    coefficients: Floats

    def __call__(self, z: Floats) -> Floats:
        """Return log times at points z (n, axes)."""
        total = elementary.weighted(self.coefficients, self.scale.columns(self.terms, z))
        return elementary.log(np.maximum(total, LEAST)) + self.scale.top


def fit(name: str, scale: Scale, z: Floats, y: Floats, weight: Floats) -> Shape | None:
    """Return a shape fitted to log times y (n,) at z: c >= 0 of least sum w ((t - f) / t)**2; None: no term is in use."""
    terms = terms_of(name, len(scale.highest))
    root = np.sqrt(weight)
    columns = (scale.columns(terms, z) * (root / elementary.exp(y - scale.top))).T
    size = np.linalg.norm(columns, axis=0)
    size[size == 0.0] = 1.0
    matrix = np.concatenate([columns / size, RIDGE**0.5 * np.eye(len(terms))])
    found = solve(matrix, np.append(root, np.zeros(len(terms)))) / size
    used = np.flatnonzero(found > 0.0)
    return Shape(scale, tuple(terms[k] for k in used.tolist()), found[used]) if len(used) else None
