"""What a component demands of its cores at its observed load."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.models import sketch
from advisor.models.layout import COEFFICIENTS
from advisor.models.table import Table

Floats = NDArray[np.float64]


def expected_load(part: Table, serial: Floats, parallel: Floats) -> tuple[Floats, Floats]:
    """Return E[A(u)] and E[B(u)] (n,) in seconds, expectations over the load sketch.

    Parameters
    ----------
    serial, parallel : float64 arrays (4, n)
        A_j and B_j. Their polynomials are positive on the seen range in sum; a negative one is cut at 0.
    """
    x, share = sketch.points(part)
    scale = np.where(part["scale"] > 0, part["scale"], 1.0)
    u = (x - np.where(np.isfinite(part["origin"]), part["origin"], 0.0)) / scale
    found: list[Floats] = []
    for c in (serial, parallel):
        value = np.zeros_like(u) + c[COEFFICIENTS - 1]
        for j in reversed(range(COEFFICIENTS - 1)):
            value = value * u + c[j]
        found.append(np.maximum((value * share).sum(axis=0), 0.0))
    return found[0], found[1]
