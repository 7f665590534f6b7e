"""The picture of a replayed table: how the error fell, and the curves that the table led to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from advisor.pictures.charts import Panel, Series, draw

Floats = NDArray[np.float64]
Row = tuple[str, float, float, float, float]  # component, predictor, cores, elapsed_s, predicted_s

COMPONENTS_SHOWN = 2  # those with the most rows, a panel each
TICKS_MAX = 10  # core counts named on an axis
PREDICTORS_SHOWN = 4  # curves a panel
CURVE_POINTS = 60


def draw_replay(
    path: Path,
    title: str,
    online: Mapping[str, tuple[Floats, Floats]],
    sample: Sequence[Row],
    predict: Callable[[str, Floats, Floats], Floats],
) -> Path:
    """Draw the online error, predicted against measured times, and curves of the components with the most rows.

    `online`: mapping of component to (rows, error), mean relative error in windows of the rows seen. `sample`: sequence of
    (component, predictor, cores, elapsed_s, predicted_s), rows of the table, in order. `predict`: (component, predictor (n,),
    cores (n,)) -> seconds (n,), by the models at the end.
    """
    panels = [_online(online), _scatter(sample)]
    names = [name for name, *_ in sample]
    most = sorted(set(names), key=lambda name: (-names.count(name), name))[:COMPONENTS_SHOWN]
    panels += [_curves(name, [row for row in sample if row[0] == name], predict) for name in most]
    return draw(path, title, panels)


def _online(online: Mapping[str, tuple[Floats, Floats]]) -> Panel:
    """Return the median over the components of each window, with the quartiles around it."""
    windows: dict[float, list[float]] = {}
    for rows, errors in online.values():
        for row, error in zip(rows.tolist(), errors.tolist(), strict=True):
            windows.setdefault(row, []).append(error)
    x = np.array(sorted(windows))
    low, middle, high = (np.array([np.quantile(windows[row], q) for row in x.tolist()]) for q in (0.25, 0.5, 0.75))
    lines = [Series("median component, quartiles", x, middle, band=(low, high))] if len(x) else []
    return Panel(
        f"Online error, {len(online)} component{'s' if len(online) > 1 else ''}: median and quartiles",
        "rows of a component seen", "mean relative error", lines, log_x=True, log_y=True, percent_y=True,
    )  # fmt: skip


def _scatter(sample: Sequence[Row]) -> Panel:
    pairs = np.array([(t, predicted) for *_, t, predicted in sample if predicted > 0]).reshape(-1, 2)
    lines = [Series("rows", pairs[:, 0], pairs[:, 1], style="points")]
    if len(pairs):
        ends = np.array([pairs.min(), pairs.max()])
        lines.append(Series("equal", ends, ends, style="dashes", colour=1))
    return Panel(
        "Each row, predicted before it was learned", "measured (s)", "predicted (s)", lines, log_x=True, log_y=True
    )


def _curves(name: str, rows: Sequence[Row], predict: Callable[[str, Floats, Floats], Floats]) -> Panel:
    """Return elapsed time over cores, at a few predictor values, with the rows measured nearest to each."""
    x, p, t = (np.array([row[place] for row in rows]) for place in (1, 2, 3))
    distinct = np.unique(x)
    chosen = np.unique(distinct[np.linspace(0, len(distinct) - 1, PREDICTORS_SHOWN).round().astype(int)])
    nearest = chosen[np.abs(x[:, None] - chosen).argmin(axis=1)]
    lines: list[Series] = []
    if p.min() == p.max():  # one core count: over the predictor instead
        grid = cast("Floats", np.linspace(x.min(), x.max(), CURVE_POINTS))
        curve = Series("model", grid, predict(name, grid, np.full(CURVE_POINTS, p[0])), "curve")
        lines = [Series("measured", x, t, style="points", colour=1), curve]
        return Panel(f"{name} on {p[0]:g} cores", "predictor", "elapsed time (s)", lines)
    grid = cast("Floats", np.geomspace(p.min(), p.max(), CURVE_POINTS))
    for number, size in enumerate(chosen.tolist()):
        here = (nearest == size) & (np.abs(x - size) <= 0.02 * size)
        curve = predict(name, np.full(CURVE_POINTS, size), grid)
        lines.append(Series(f"x = {size:g}", grid, curve, "curve", number))
        lines.append(Series("", p[here], t[here], style="points", colour=number))
    ticks = np.unique(p).tolist()
    return Panel(
        f"{name}: model and rows", "cores", "elapsed time (s)", lines, log_x=True, log_y=True,
        x_ticks=ticks if len(ticks) <= TICKS_MAX else (),
    )  # fmt: skip
