"""What people are shown of a component: its curve over cores with an interval, the runs that it rests on, how it fares.

Plain maps and lists, as a page draws them and a file holds them. Nothing is changed, and what is shown of one component is
bounded, whatever was learned: about 1 KB for a row of the table, 10 KB for a view.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.domain import elementary, limits
from advisor.domain.vectors import Floats, Ints
from advisor.engine.advisor import Advisor
from advisor.engine.load import load_of
from advisor.errors import UnknownComponent
from advisor.models.prediction import LEVEL

QUANTILES = (0.5, 0.1, 0.9)  # of the observed load, at which curves are drawn: the typical one first
COUNTS_EACH = 16  # of cores drawn one by one; beyond, evenly in their logarithm
COUNTS_MORE = 14
PREDICTORS_DRAWN = 17
BEYOND = 2.0  # times the most cores seen: so far a curve is drawn
TINY = 1e-9  # of a predictor, whose logarithm is taken
ALIKE = 0.03  # relative difference of predictors up to which a cell is of a curve, and not only near it


def found(advisor: Advisor, text: str, known: int) -> Ints:
    """Return the slots (n,) of the components that have a text in their name, those of most runs first. Cost O(components).

    Nothing but names and exact counts is read: a component is solved when it is shown. Of the first `known` slots, which
    stay as they are while others are added: the search may run beside folds.
    """
    components = advisor.components
    wanted = text.strip().lower()
    slots = np.array(
        [slot for name, slot in components.slots.components.items() if slot < known and wanted in name.lower()],
        np.int64,
    )
    return slots[np.argsort(-components.table.runs(slots), kind="stable")]


def row(advisor: Advisor, component: str) -> dict[str, Any]:
    """Return a component's row in the table: name, runs, error, coverage, advice; raises UnknownComponent."""
    shown = _Shown(advisor, component)
    return shown.data | ({"advice": shown.advice()} if shown.learned else {})


def view(advisor: Advisor, component: str) -> dict[str, Any]:
    """Return all that is shown of a component: what `status` tells of it, curves at typical predictors, its cells, advice.

    Raises UnknownComponent.

    Returns
    -------
    dict
        component, runs, error; status: as `Advisor.status` tells; seen: the fewest and most cores; curves: maps of lists
        (n,) `cores`, `elapsed_s`, `low_s`, `high_s` at a `predictor`, the typical one first; cells: lists (k,) `predictor`,
        `cores`, `runs`, `mean_s`, `deviation_s`, the nearest `curve`, whether its predictor is `exact`; growth: a curve over
        predictors on the `cores` of most runs, or None; advice: what `choose_cores` says of the typical predictor.
    """
    shown = _Shown(advisor, component)
    data = shown.data | {"status": advisor.status(components=[component], limit=1)["components"][0]}
    if not shown.learned:
        return data
    drawn, places = _counts(shown.low, shown.high), shown.places()
    data |= {"seen": short([shown.low, shown.high]), "curves": [shown.curve(x, drawn) for x in places]}
    data |= {"cells": shown.cells_shown(), "growth": shown.growth()}
    return data | {"advice": shown.advice()}


class _Shown:
    """A component that is shown: how its predictions have fared, by its learner, else by the exact sums; and its cells."""

    def __init__(self, advisor: Advisor, component: str) -> None:
        components = advisor.components
        slot = components.slots.components.get(component)
        if slot is None:
            raise UnknownComponent(component, components.slots.nearest(component))
        self.advisor, self.slot, self.component, base = advisor, slot, component, components.table
        self.learned = base.evidence(slot) > 0
        self.low, self.high = float(base["p_low"][slot]), float(base["p_high"][slot])  # the fewest and most cores seen
        record = components.learners.find_record(slot)
        cells = None if record is None else record[0].cells(record[1])
        self.cells = cells if cells is not None and len(cells.runs) else None
        scored, error, covered = int(base.scored(slot)), float(base["error"][slot]), None
        if record is not None and record[0].int_field("scores")[record[1]]:
            scored, covered, error = (
                record[0].column(name)[record[1]].item() for name in ("scores", "covered", "error")
            )
        self.data: dict[str, Any] = {
            "component": component, "runs": int(base.runs(slot)), "error": error / scored if scored else None,
            "coverage": None if covered is None else covered / scored,
        }  # fmt: skip

    def places(self) -> list[Floats]:
        """Return the predictors (d,) of the observed load at `QUANTILES`, each once."""
        if self.cells is not None:
            points, inverse = np.unique(np.round(self.cells.predictors, 12), axis=0, return_inverse=True)
            share = np.bincount(inverse.reshape(-1), self.cells.runs, len(points))
        else:
            load = load_of(self.advisor.components, self.slot, None)
            points, share = load.predictors, load.share
        if not len(share):
            return [np.ones(self.advisor.components.dimensions(self.slot))]
        order = np.argsort(points.prod(axis=1), kind="stable")
        reached = np.cumsum(share[order]) / share.sum()
        chosen = [int(order[min(int(np.searchsorted(reached, quantile)), len(order) - 1)]) for quantile in QUANTILES]
        return [points[place] for place in dict.fromkeys(chosen)]

    def advice(self) -> dict[str, Any]:
        """Return what `choose_cores` answers for the typical predictor, within the cores seen."""
        cores_max, point = int(max(1.0, np.ceil(self.high))), self.places()[0]
        x: Any = float(point[0]) if len(point) == 1 else point
        choice = self.advisor.choose_cores(self.component, predictor=x, cores_max=cores_max)
        return {"cores_max": cores_max, "predictor": short(point), **choice.as_dict()}

    def times(self, predictors: Floats, cores: Any) -> dict[str, list[float]]:
        """Return what is predicted at predictors (n, d) and cores, one number or (n,)."""
        x: Any = predictors[:, 0] if predictors.shape[1] == 1 else predictors
        answer = self.advisor.predict(self.component, predictor=x, cores=cores, level=LEVEL)
        self.notes = list(answer.notes)
        return {name: short(getattr(answer, name)) for name in ("elapsed_s", "low_s", "high_s")}

    def curve(self, point: Floats, cores: list[float]) -> dict[str, Any]:
        """Return the curve over cores (n,) at one predictor (d,)."""
        times = self.times(np.broadcast_to(point, (len(cores), len(point))), np.array(cores))
        return {"predictor": short(point), "cores": short(cores), **times, "notes": self.notes}

    def growth(self) -> dict[str, Any] | None:
        """Return the curve over predictors, on the cores of most runs; None where one was seen, or they have several values."""
        if self.cells is None or self.cells.predictors.shape[1] > 1:
            return None
        seen = self.cells.predictors[:, 0]
        low, high = float(seen[seen > 0.0].min(initial=np.inf)), float(seen.max())
        if not low < high:
            return None
        each: Floats = elementary.exp(self.cells.z[:, -1])
        counts, inverse = np.unique(np.round(each, 6), return_inverse=True)
        cores = float(counts[np.argmax(np.bincount(inverse.reshape(-1), self.cells.runs))])
        points = elementary.spaced(low, high, PREDICTORS_DRAWN)
        return {"cores": cores, "predictor": short(points), **self.times(points[:, None], cores)}

    def cells_shown(self) -> dict[str, Any]:
        """Return what was observed, as far as it is kept."""
        if self.cells is None:
            return {}
        z, points, runs, means, scatter = self.cells
        spread = np.sqrt(scatter / np.maximum(runs - 1.0, 1.0))
        drawn = np.array(self.places())
        sizes, sizes_drawn = (np.log(np.maximum(each, TINY)).sum(axis=1) for each in (points, drawn))
        curve = np.abs(sizes[:, None] - sizes_drawn).argmin(axis=1)
        exact = (np.abs(points - drawn[curve]) <= ALIKE * np.abs(drawn[curve])).all(axis=1)
        return {
            "curve": curve.tolist(), "exact": exact.tolist(),
            "predictor": [short(point) for point in points], "cores": short(elementary.exp(z[:, -1])),
            "runs": short(runs), "mean_s": short(means), "deviation_s": short(spread),
        }  # fmt: skip


def _counts(low: float, high: float) -> list[float]:
    """Return the counts of cores at which curves are drawn, ascending: from the fewest seen, or one, to beyond the most."""
    start, end = min(low, 1.0), min(max(BEYOND * high, 2.0), float(limits.CORES_MAX))
    each = [float(p) for p in range(1, COUNTS_EACH + 1) if start <= p <= end]
    more: list[float] = elementary.spaced(start, end, COUNTS_MORE).tolist()
    return sorted({start, low, high, *each, *(float(round(p)) if p >= 1.0 else p for p in more)})


def short(values: Any) -> list[float]:
    """Return numbers with the six digits that a picture shows."""
    return [float(f"{value:.6g}") for value in np.asarray(values, np.float64).tolist()]
