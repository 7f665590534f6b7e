"""The curves of a network's components as tables, solved in slices that let others have their turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, sqrt

import anyio.lowlevel
import numpy as np
from numpy.typing import NDArray

from advisor.domain.curves import TabulatedCurves
from advisor.engine import Advisor
from advisor.models.prediction import Model, predict_one
from advisor.models.student import quantile

Floats = NDArray[np.float64]
SOLVE_SLICE = 32  # components solved at a time, within 2 ms, before others have their turn
SPREAD_MAX = 3.0  # of log time: what is less known is unknown


async def tables_of(
    advisor: Advisor,
    boxes: Sequence[str],
    names: Mapping[str, str],
    load: Mapping[str, float],
    cores_max: int,
    level: float,
) -> TabulatedCurves:
    """Return T_c(p) of each box and its upper bound at `level`. Cost O(n) solves.

    Raises
    ------
    UnknownComponent, NotEnoughData, InvalidValue
    """
    counts = _counts(cores_max)
    elapsed: list[Floats] = []
    upper: list[Floats] = []
    for start in range(0, len(boxes), SOLVE_SLICE):
        part = boxes[start : start + SOLVE_SLICE]
        chosen = ({key: given[key] for key in part if key in given} for given in (names, load))
        curves = advisor.curves_of(part, *chosen)
        models = advisor.models([names.get(box, box) for box in part])
        seconds = curves.serial_s[:, None] + curves.parallel_s[:, None] / counts
        elapsed.append(seconds)
        upper.append(seconds * np.array([_ratios(model, counts, level) for model in models]))
        await anyio.lowlevel.checkpoint()
    return TabulatedCurves.of(counts, np.concatenate(elapsed), upper_s=np.concatenate(upper))


def _counts(cores_max: int) -> NDArray[np.int64]:
    """Return whole counts from 1 to `cores_max`, a quarter of a doubling apart."""
    return np.unique(
        np.round(2.0 ** np.append(np.arange(0, np.log2(max(cores_max, 1)), 0.25), np.log2(cores_max)))
    ).astype(np.int64)


def _ratios(model: Model, counts: NDArray[np.int64], level: float) -> list[float]:
    """Return upper bound over expectation of a curve, its own error alone, at the middle of the seen predictors."""
    x = 0.5 * (model.x_range[0] + model.x_range[1])
    reach = quantile(level, model.freedom)
    found: list[float] = []
    for p in counts.tolist():
        value, low, high, _ = predict_one(model, x, float(p), level)
        if model.p_range[0] >= model.p_range[1] and p != model.p_range[0]:
            found.append(min(high / value, exp(SPREAD_MAX)))  # the parallel fraction is unknown
            continue
        u, q = (x - model.origin) / model.scale, 1.0 / p
        own = max(model.own_variance(u, q), 0.0)
        found.append(exp(min(reach * model.deviation * sqrt(own) / value, SPREAD_MAX)))
    return found
