"""How a component's first rows lean on its siblings: their slopes in the place of those believed of every component.

The prior mean of ln t gets the siblings' mean coefficients b of the straight features phi (`covariance.place_point`: slopes
in ln x and ln p, Amdahl's saturation): residuals are taken about b'phi, and b is added to what they say, by
`fold.refresh_leaning`. The record itself, and what it learns, never depends on siblings.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from advisor.domain.vectors import Floats
from advisor.models.covariance import HIGHS, LOWS, STRAIGHT

YIELDED: Final = 5  # learned rows from which a component stands alone, and is a sibling itself


class Leaning(NamedTuple):
    """What a component's first rows lean on."""

    slopes: tuple[float, ...]  # (axes + 2,): prior coefficients of the straight features
    note: str  # what is assumed, and who the siblings are


def slopes_of(frame: Floats, axes: int) -> tuple[Floats, Floats]:
    """Return what a solution says of the straight features: their coefficients, and 1 where the cells differ there, else 0."""
    spread = frame[HIGHS : HIGHS + axes] > frame[LOWS : LOWS + axes]
    known = np.append(spread, [spread[-1], spread[-1]]).astype(np.float64)
    return frame[STRAIGHT + 1 : STRAIGHT + 3 + axes] * known, known
