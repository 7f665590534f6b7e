"""How a component's first rows lean on its siblings: their slopes in the place of those believed of every component. Kernel.

The prior mean of ln t gets the siblings' mean coefficients b of the straight features phi (`covariance.place_point`: slopes
in ln x and ln p, Amdahl's saturation): residuals are taken about b'phi, and b is added to what they say. The record itself,
and what it learns, never depends on siblings.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from advisor import kernels
from advisor.domain.vectors import Floats
from advisor.models.cells import COUNT
from advisor.models.covariance import HIGHS, LEVEL, LOWS, RESIDUAL, STRAIGHT, features_at, further_at
from advisor.models.fold import room_of
from advisor.models.learner_layout import LearnerTable
from advisor.models.process import lay_out, solve_laid_out

YIELDED: Final = 5  # learned rows from which a component stands alone, and is a sibling itself


def refresh_leaning(learners, place, axes, slopes, solution, scratch):
    """Solve a record as `fold.refresh_one` does, with prior coefficients `slopes` (axes + 2,) of the straight features."""
    frame, points, _, _ = solution
    r = learners[place]
    n = r.view(np.int64)
    lay_out(r, n, axes, frame, points)
    first, residual, count = features_at(axes), further_at(axes) + RESIDUAL, n[COUNT]
    level = 0.0
    for cell in range(count):
        for feature in range(axes + 2):
            points[residual, cell] -= slopes[feature] * points[first + feature, cell]
        level += points[residual, cell] / count
    for cell in range(count):
        points[residual, cell] -= level
    frame[LEVEL] += level
    solve_laid_out(r, n, solution, scratch)
    for feature in range(axes + 2):
        frame[STRAIGHT + 1 + feature] += slopes[feature]


class Leaning(NamedTuple):
    """What a component's first rows lean on."""

    slopes: tuple[float, ...]  # (axes + 2,): prior coefficients of the straight features
    note: str  # what is assumed, and who the siblings are


def slopes_of(frame: Floats, axes: int) -> tuple[Floats, Floats]:
    """Return what a solution says of the straight features: their coefficients, and 1 where the cells differ there, else 0."""
    spread = frame[HIGHS : HIGHS + axes] > frame[LOWS : LOWS + axes]
    known = np.append(spread, [spread[-1], spread[-1]]).astype(np.float64)
    return frame[STRAIGHT + 1 : STRAIGHT + 3 + axes] * known, known


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which the kernel is called."""
    solution, scratch, _, _ = room_of(2)
    yield "refresh_leaning", (LearnerTable(2, 1).words, 0, 2, np.zeros(4), solution, scratch)


KERNELS = kernels.Source(__name__, (refresh_leaning,), _examples)
