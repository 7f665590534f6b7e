"""What a component demands of its cores at its observed load."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.domain.limits import ELAPSED_MIN_S
from advisor.models import sketch
from advisor.models.candidates import FLOOR_SHARE
from advisor.models.layout import COEFFICIENTS
from advisor.models.table import Table

Floats = NDArray[np.float64]


def expected_load(part: Table, serial: Floats, parallel: Floats) -> tuple[Floats, Floats]:
    """Return (serial_s, parallel_s) (n,): E[A(u)] and E[B(u)] over the load sketch, as the planner can take them.

    The planner's curves fall with p. One that rises (E[B] < 0) becomes the constant of its time on the fewest cores seen: more
    would only cost. A negative E[A] is cut at 0: the time is then overestimated where cores are many.

    Parameters
    ----------
    serial, parallel : float64 arrays (4, n)
        A_j and B_j.
    """
    x, share = sketch.points(part)
    scale = np.where(part["scale"] > 0, part["scale"], 1.0)
    u = (x - np.where(np.isfinite(part["origin"]), part["origin"], 0.0)) / scale
    found: list[Floats] = []
    for c in (serial, parallel):
        value = np.zeros_like(u) + c[COEFFICIENTS - 1]
        for j in reversed(range(COEFFICIENTS - 1)):
            value = value * u + c[j]
        found.append((value * share).sum(axis=0))
    fewest = np.where(np.isfinite(part["p_low"]), part["p_low"], 1.0)
    rises = found[1] < 0
    serial_s = np.where(rises, found[0] + found[1] / fewest, found[0])
    serial_s, parallel_s = np.maximum(serial_s, 0.0), np.where(rises, 0.0, found[1])
    # A curve below the timer's noise everywhere is as short as a run can have been.
    shortest = FLOOR_SHARE * np.where(np.isfinite(part["t_low"]), part["t_low"], ELAPSED_MIN_S)
    return np.where(serial_s + parallel_s > 0, serial_s, shortest), parallel_s
