"""What people are shown of a component: its curve over cores with an interval, the runs that it rests on, how it fares.

Plain maps and lists, as a page draws them and a file holds them. Nothing is changed, and what is told of one component is
bounded, whatever was learned: about 1 KB for a small picture, 12 KB for a large one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.vectors import Floats, Ints
from advisor.engine.advisor import Advisor
from advisor.engine.asking import load_of
from advisor.engine.components import SEPARATOR
from advisor.errors import NotEnoughData, UnknownComponent
from advisor.models import counts
from advisor.models.learner_layout import CELLS, ZERO
from advisor.models.prediction import LEVEL

QUANTILES = (0.5, 0.1, 0.9)  # of the observed load, at which curves are drawn: the typical one first
COUNTS_EACH = 16  # of cores drawn one by one; beyond, evenly in their logarithm
COUNTS_MORE = 14
COUNTS_CARD = 9  # of a small picture
PREDICTORS_DRAWN = 17
BEYOND = 2.0  # times the most cores seen: so far a curve is drawn
CARD_CELLS = 24  # points of a small picture, those of most runs
ORDERS = ("runs", "error", "name", "newest")


def found(advisor: Advisor, text: str, order: str, known: int) -> Ints:
    """Return the slots (n,) of the components that have a text in their name, in an order of `ORDERS`. Cost O(components).

    Nothing but names and exact counts is read: a component is solved when it is shown. Of the first `known` slots, which
    stay as they are while others are added: the search may run beside folds.
    """
    components = advisor.components
    wanted = text.strip().lower()
    names = components.names[:known]
    plain = not components.measures
    chosen = [i for i, name in enumerate(names) if (plain or SEPARATOR not in name) and wanted in name.lower()]
    slots = np.array(chosen, np.int64)
    if order == "name":
        return np.array(sorted(chosen, key=names.__getitem__), np.int64)
    if order == "newest":
        return slots[::-1]
    table = components.table
    if order == "runs":
        return slots[np.argsort(-counts.runs(table, slots), kind="stable")]
    return slots[np.argsort(-_errors(advisor, slots, known), kind="stable")]


def card(advisor: Advisor, component: str) -> dict[str, Any]:
    """Return a small picture of a component: name, runs, error, one curve and its points; raises UnknownComponent."""
    slot = _slot(advisor, component)
    told: dict[str, Any] = {
        "component": component,
        "runs": int(counts.runs(advisor.components.table, slot)),
        **_error(advisor, slot),
    }
    if not _learned(advisor, slot):
        return told
    where = _places(advisor, slot)[:1]
    low, high = _seen(advisor, slot)
    told |= {"seen": short([low, high]), "curve": _curve(advisor, component, where[0], _counts(low, high, COUNTS_CARD))}
    told["cells"] = _cells(advisor, component, slot, told["curve"]["cores"][0], CARD_CELLS)
    return told


def view(advisor: Advisor, component: str) -> dict[str, Any]:
    """Return all that is shown of a component: what `status` tells of it, curves at typical predictors, its cells, advice.

    Raises UnknownComponent.

    Returns
    -------
    dict
        component, runs, error; status: as `Advisor.status` tells; seen: the fewest and most cores; curves: maps of lists
        (n,) `cores`, `elapsed_s`, `low_s`, `high_s` at a `predictor`, the typical one first; cells: lists (k,) `predictor`,
        `cores`, `runs`, `mean_s`, `deviation_s`, and of what is predicted there now, `elapsed_s`, `low_s`, `high_s`, and
        `fewest_s` on the fewest cores drawn; growth: a curve over
        predictors on the `cores` of most runs, or None; advice: what `choose_cores` says of the typical predictor.
    """
    slot = _slot(advisor, component)
    told: dict[str, Any] = {
        "component": component,
        "runs": int(counts.runs(advisor.components.table, slot)),
        **_error(advisor, slot),
        "status": advisor.status(components=[component], limit=1)["components"][0],
    }
    if not _learned(advisor, slot):
        return told
    low, high = _seen(advisor, slot)
    drawn = _counts(low, high)
    places = _places(advisor, slot)
    told |= {"seen": short([low, high]), "curves": [_curve(advisor, component, x, drawn) for x in places]}
    told["cells"] = _cells(advisor, component, slot, drawn[0])
    told["growth"] = _growth(advisor, component, slot)
    cores_max = int(max(1.0, np.ceil(high)))
    choice = advisor.choose_cores(component, predictor=_asked(places[0]), cores_max=cores_max)
    told["advice"] = {"cores_max": cores_max, "predictor": short(places[0]), **choice.as_dict()}
    return told


def _slot(advisor: Advisor, component: str) -> int:
    slot = advisor.components.slot_of.get(component)
    if slot is None or SEPARATOR in component:
        raise UnknownComponent(component, advisor.components.nearest(component))
    return slot


def _learned(advisor: Advisor, slot: int) -> bool:
    try:
        advisor.model(advisor.components.names[slot])
    except NotEnoughData:
        return advisor.learner(advisor.components.names[slot]) is not None
    return True


def _errors(advisor: Advisor, slots: Ints, known: int) -> Floats:
    """Return the errors (n,) that `_error` tells of components, -1 where nothing was scored."""
    components = advisor.components
    scored = counts.scored(components.table, slots)
    found = np.full(known, -1.0)
    found[slots] = np.where(scored > 0, components.table["error"][slots] / np.maximum(scored, 1), -1.0)
    for name, table in list(components.learners.tables.items()):
        if name.count("-") == 1:  # of elapsed times
            n = table.size
            owner, scores = table.count("component")[:n], table.count("scores")[:n]
            mine = (owner >= 0) & (owner < known) & (scores > 0)
            found[owner[mine]] = table.column("error")[:n][mine] / scores[mine]
    return found[slots]


def _error(advisor: Advisor, slot: int) -> dict[str, Any]:
    """Return how a component's predictions have fared: by its learner, else by the exact sums."""
    record = advisor.components.learners.find(slot)
    if record is not None and record[0].count("scores")[record[1]]:
        table, place = record
        scores = int(table.count("scores")[place])
        covered = int(table.count("covered")[place])
        return {"error": float(table.column("error")[place]) / scores, "coverage": covered / scores}
    scored = int(counts.scored(advisor.components.table, slot))
    error = float(advisor.components.table["error"][slot]) / scored if scored else None
    return {"error": error, "coverage": None}


def _seen(advisor: Advisor, slot: int) -> tuple[float, float]:
    """Return the fewest and the most cores that a component ran on."""
    low, high = advisor.model(advisor.components.names[slot]).p_range
    return float(low), float(high)


def _counts(low: float, high: float, most: int | None = None) -> list[float]:
    """Return the counts of cores at which curves are drawn, ascending: from the fewest seen, or one, to beyond the most."""
    start, end = min(low, 1.0), min(max(BEYOND * high, 2.0), float(limits.CORES_MAX))
    if most is not None:
        return sorted({start, high, *_spaced(start, end, most)})
    each = [float(p) for p in range(1, COUNTS_EACH + 1) if start <= p <= end]
    return sorted({start, low, high, *each, *_spaced(start, end, COUNTS_MORE)})


def _spaced(low: float, high: float, n: int) -> list[float]:
    """Return n counts, or fewer, evenly spaced in their logarithm; whole ones from one on."""
    found: list[float] = np.geomspace(low, high, n).tolist()
    return [float(round(p)) if p >= 1.0 else p for p in found]


def _places(advisor: Advisor, slot: int) -> list[Floats]:
    """Return the predictors (d,) of the observed load at `QUANTILES`, each once."""
    solved = advisor.learner(advisor.components.names[slot])
    where = _where(advisor, slot)
    if where is not None:
        points, runs = where[0], where[2]
        points, inverse = np.unique(np.round(points, 12), axis=0, return_inverse=True)
        share = np.bincount(inverse.reshape(-1), runs, len(points))
    else:
        load = load_of(advisor.components, slot, solved)
        points, share = load.predictors, load.share
    if not len(share):
        return [np.ones(advisor.components.dimensions(slot))]
    order = np.argsort(points.prod(axis=1), kind="stable")
    reached = np.cumsum(share[order]) / share.sum()
    chosen = [int(order[min(int(np.searchsorted(reached, quantile)), len(order) - 1)]) for quantile in QUANTILES]
    return [points[place] for place in dict.fromkeys(chosen)]


def _where(advisor: Advisor, slot: int) -> tuple[Floats, Floats, Floats, Floats, Floats] | None:
    """Return predictors (n, d), cores (n,), runs (n,), mean times (n,) and deviations (n,) of a component's cells."""
    record = advisor.components.learners.find(slot)
    if record is None or not record[0].count("cells")[record[1]]:
        return None
    table, place = record
    n, d = int(table.count("cells")[place]), table.axes - 1
    centres = table.floats("centre")[place].reshape(-1, CELLS)[: d + 1, :n]
    points = np.where(centres[:d] <= ZERO, 0.0, np.exp(centres[:d])).T
    runs = table.floats("runs")[place][:n]
    spread = np.sqrt(table.floats("scatter")[place][:n] / np.maximum(runs - 1.0, 1.0))
    return points, np.exp(centres[d]), runs.copy(), table.floats("mean")[place][:n].copy(), spread


def _asked(point: Floats) -> Any:
    return float(point[0]) if len(point) == 1 else point


def _curve(advisor: Advisor, component: str, point: Floats, cores: list[float]) -> dict[str, Any]:
    """Return a component's curve over cores (n,) at one predictor (d,)."""
    x: Any = float(point[0]) if len(point) == 1 else np.broadcast_to(point, (len(cores), len(point)))
    answer = advisor.predict(component, predictor=x, cores=np.array(cores), level=LEVEL)
    times = {name: short(getattr(answer, name)) for name in ("elapsed_s", "low_s", "high_s")}
    return {"predictor": short(point), "cores": short(cores), **times, "notes": list(answer.notes)}


def _growth(advisor: Advisor, component: str, slot: int) -> dict[str, Any] | None:
    """Return the curve over predictors, on the cores of most runs; None where one was seen, or they have several values."""
    where = _where(advisor, slot)
    if where is None or where[0].shape[1] > 1:
        return None
    seen = where[0][:, 0]
    low, high = float(seen[seen > 0.0].min(initial=np.inf)), float(seen.max())
    if not low < high:
        return None
    counts_seen, inverse = np.unique(np.round(where[1], 6), return_inverse=True)
    cores = float(counts_seen[np.argmax(np.bincount(inverse.reshape(-1), where[2]))])
    points = np.geomspace(low, high, PREDICTORS_DRAWN)
    answer = advisor.predict(component, predictor=points, cores=cores, level=LEVEL)
    times = {name: short(getattr(answer, name)) for name in ("elapsed_s", "low_s", "high_s")}
    return {"cores": cores, "predictor": short(points), **times}


def _cells(advisor: Advisor, component: str, slot: int, fewest: float, most: int = CELLS) -> dict[str, list[Any]]:
    """Return what was observed, as far as it is kept, and what is predicted there now; of `most` cells, those of most runs."""
    where = _where(advisor, slot)
    if where is None:
        return {}
    chosen = np.argsort(-where[2], kind="stable")[:most]
    points, cores, runs, means, spread = (column[chosen] for column in where)
    x: Any = points[:, 0] if points.shape[1] == 1 else points
    there = advisor.predict(component, predictor=x, cores=cores, level=LEVEL)
    alone = advisor.predict(component, predictor=x, cores=np.full(len(cores), fewest), level=LEVEL)
    return {
        "predictor": [short(point) for point in points], "cores": short(cores), "runs": short(runs), "mean_s": short(means),
        "deviation_s": short(spread), "elapsed_s": short(there.elapsed_s), "low_s": short(there.low_s),
        "high_s": short(there.high_s), "fewest_s": short(alone.elapsed_s),
    }  # fmt: skip


def short(values: Any) -> list[float]:
    """Return numbers with the six digits that a picture shows."""
    return [float(f"{value:.6g}") for value in np.asarray(values, np.float64).tolist()]
