"""Tables for plans: each component's expected time by cores at its observed load, by what answers for it.

E[T(x, p)] over the load is taken on few predictors: T(x, 1) is asked at every point of the load sketch, but speedups
T(x, p) / T(x, 1) only at `NODES` of them, between which they are linear in logs: they change slowly with x.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain.curves import TabulatedCurves
from advisor.engine.asking import Asking
from advisor.engine.checks import checked, is_number
from advisor.engine.components import Components
from advisor.engine.learners import ANY_MACHINE, Learners, Solved
from advisor.engine.shaped import Shaped
from advisor.engine.solved import SolvedModels
from advisor.errors import InvalidValue, NotEnoughData
from advisor.models import prediction, process, sketch
from advisor.models.cells import PITCHES
from advisor.models.fold import KERNELS
from advisor.models.learner_layout import CELLS, ZERO
from advisor.models.prediction import SD_MAX, Model
from advisor.models.student import quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALL_COUNTS, PER_DOUBLING = (
    16,
    4,
)  # every count so far, then counts 2**(1/4) apart: Amdahl's curve is met to 0.1 % between
NODES = 6  # predictors of the load at which speedups are asked for
LOG_LEAST = 1e-9  # of two times: closer ones are one
WITHIN_MAX = 2.0  # variance of log time inside a cell: beyond, its mean is a guess about the tail
LOG_LEAST_S, LOG_MOST_S = -20.7, 20.7  # ln of the legal times
NORMAL = NormalDist()
TABLES_KEPT = 16_384  # components' tables kept for reuse, about 1.5 KB each
NETWORKS_KEPT = 16  # networks whose tables are kept together
PEAK = "peak_bytes"


def counts_of(cores_max: int) -> Ints:
    """Return the core counts of tables, from 1 to the first that is not below `cores_max`."""
    counts = list(range(1, ALL_COUNTS + 1))
    step = 1
    while counts[-1] < cores_max:
        counts.append(round(ALL_COUNTS * 2.0 ** (step / PER_DOUBLING)))
        step += 1
    return np.array(counts[: max(int(np.searchsorted(counts, cores_max)) + 1, 2)], np.int64)


@dataclass(frozen=True, slots=True)
class _Table:
    """One component's table, and of how many rows."""

    rows: tuple[int, int]  # of the component and of its peak_bytes
    elapsed: Floats
    upper: Floats
    variation: float
    peak_bytes: float


@dataclass(frozen=True, slots=True)
class _Load:
    """Predictors (n, d), their shares (n,), and the sd (d,) of their logs about each of them, where they stand for cells."""

    predictors: Floats
    share: Floats
    inside: Floats | None = None


class CurveTables:
    """The tables of one engine's components, kept until rows come."""

    def __init__(self, components: Components, solved: SolvedModels, asking: Asking) -> None:
        self._components = components
        self._solved = solved
        self._asking = asking
        self._kept: OrderedDict[tuple[Any, ...], _Table] = OrderedDict()
        # Of whole networks: the slots that they stand on, and how many rows these had.
        self._together: OrderedDict[tuple[Any, ...], tuple[Ints, Ints, TabulatedCurves]] = OrderedDict()

    def drop(self) -> None:
        """Forget all tables: their components changed otherwise than by new rows."""
        self._kept.clear()
        self._together.clear()

    def curves(
        self,
        boxes: Sequence[str],
        components: Mapping[str, str],
        load: Mapping[str, float],
        cores_max: int,
        level: float,
    ) -> TabulatedCurves:
        """Return the table of each box up to `cores_max` cores, at the observed load or at the predictor that `load` gives.

        `upper_s` is the bound below which the expectation lies with probability `level`. Cost: O(n) for components that were
        asked for since their last row, else about 2 ms each.

        Raises
        ------
        UnknownComponent, NotEnoughData, InvalidValue
        """
        unknown = sorted((set(components) | set(load)) - set(boxes))
        if unknown:
            raise InvalidValue("components" if unknown[0] in components else "load", unknown[0], "a box of the network")
        for box, value in load.items():
            if not is_number(value):
                raise InvalidValue(f"load[{box}]", value, "a number")
        asked = (
            tuple(boxes), tuple(components.items()), tuple(load.items()), cores_max, level, self._components.measures
        )  # fmt: skip
        together = self._together.get(asked)
        if together is not None and np.array_equal(self._components.table.integers("rows")[together[0]], together[1]):
            return together[2]
        slots = [self._components.slot(components.get(box, box)) for box in boxes]
        self._solved.require_rows(slots)
        counts = counts_of(cores_max)
        tables = [self._table(slot, load.get(box), box, counts, level) for box, slot in zip(boxes, slots, strict=True)]
        peaks = [peak for slot in slots if (peak := self._components.measure_slot(slot, PEAK)) is not None]
        watched = np.array([*slots, *peaks], np.int64)
        found = TabulatedCurves(
            counts,
            np.array([table.elapsed for table in tables]).reshape(-1, len(counts)),
            np.array([table.upper for table in tables]).reshape(-1, len(counts)),
            np.array([table.variation for table in tables]),
            np.array([contention_of(self._components, slot) for slot in slots], np.float64),
            np.array([table.peak_bytes for table in tables]),
        )
        self._together[asked] = watched, self._components.table.integers("rows")[watched], found
        if len(self._together) > NETWORKS_KEPT:
            self._together.popitem(last=False)
        return found

    def missing(
        self, boxes: Sequence[str], components: Mapping[str, str], load: Mapping[str, Any], cores_max: int, level: float
    ) -> int:
        """Return how many tables of known components would have to be made; what is wrong with a load is said elsewhere."""
        counts = len(counts_of(cores_max))
        wanted = {(self._components.slot_of.get(components.get(box, box), -1), load.get(box)) for box in boxes}
        found = 0
        for slot, x in wanted:
            table = None if slot < 0 else self._kept.get((slot, counts, level, x))
            found += slot >= 0 and (table is None or table.rows != self._rows(slot))
        return found

    def _rows(self, slot: int) -> tuple[int, int]:
        rows = self._components.table.integers("rows")
        peak = self._components.measure_slot(slot, PEAK)
        return int(rows[slot]), 0 if peak is None else int(rows[peak])

    def _table(self, slot: int, x: float | None, box: str, counts: Ints, level: float) -> _Table:
        key = (slot, len(counts), level, x)
        rows = self._rows(slot)
        kept = self._kept.get(key)
        if kept is not None and kept.rows == rows:
            return kept
        found = self._asking.answering(slot, None)
        if found is None:  # `curves` has looked
            raise NotEnoughData(f"component {self._components.names[slot]!r} has no learned run")
        if isinstance(found, Shaped):  # a plan prices what is not known, which a shape does not tell
            found = found.solved
        if x is None:
            given = self._load(slot, found)
        else:
            dimensions = self._asking.dimensions(slot)
            if isinstance(found, Solved) and dimensions > 1:
                raise InvalidValue(f"load[{box}]", x, f"left out: its predictors have {dimensions} values")
            value = float(checked(f"load[{box}]", x, "invalid_predictor"))
            given = _Load(np.array([[value]]), np.ones(1))
        at = counts.astype(np.float64)
        if isinstance(found, Solved):
            elapsed, upper, variation = _of_learner(self._components.learners, found, given, at, level)
        else:
            elapsed, upper, variation = _of_form(found, given, at, level)
        table = self._kept[key] = _Table(rows, elapsed, upper, variation, self._peak(slot, given, level))
        self._kept.move_to_end(key)
        if len(self._kept) > TABLES_KEPT:
            self._kept.popitem(last=False)
        return table

    def _load(self, slot: int, found: Solved | Model) -> _Load:
        """Return the observed load: of the sketch, or where predictors have several values, of the cells."""
        if isinstance(found, Solved) and self._asking.dimensions(slot) > 1:
            frame, points, _, _ = found.solution
            d, count = int(frame[process.AXES]) - 1, int(frame[process.CELLS_USED])
            runs = found.table.floats("runs")[found.place][:count]
            # Cells of x = 0 stand below the least positive one.
            centres = found.table.floats("centre")[found.place].reshape(-1, CELLS)[:d, :count]
            where = np.where(centres <= ZERO, 0.0, np.exp(points[:d, :count]))
            places, inverse = np.unique(where.T, axis=0, return_inverse=True)
            share = np.bincount(inverse.reshape(-1), runs, len(places))
            return _Load(places, share / float(share.sum()), _inside(found, d))
        x, share = sketch.points(self._components.table.gather(np.array([slot], np.int64)))
        x, inverse = np.unique(x[share > 0], return_inverse=True)
        return _Load(x[:, None], np.bincount(inverse, share[share > 0], len(x)).astype(np.float64))

    def _peak(self, slot: int, load: _Load, level: float) -> float:
        """Return the most memory that a run of the load takes, on the fewest or most cores seen, at `level`; 0: not learned."""
        measured = self._components.measure_slot(slot, PEAK)
        if measured is None or not self._solved.learned(measured):
            return 0.0
        table = self._components.table
        seen = np.array([table["p_low"][measured], table["p_high"][measured]])
        x = load.predictors if load.predictors.shape[1] == self._asking.dimensions(measured) else load.predictors[:, 0]
        if x.shape[-1] == 1:
            x = x[:, 0]
        name = self._components.names[slot]
        high = [self._asking.predict(name, x, cores, level, None, None, PEAK).high_s for cores in seen.tolist()]
        return float(np.max(high))


def _inside(found: Solved, dimensions: int) -> Floats:
    """Return the sd (d,) of the logs of predictors inside cells, spread evenly over their width; 0 where cells are points."""
    coarseness = found.table.integers("coarseness")[found.place][:dimensions]
    begun = found.table.empty_record().view(np.int64)[found.table.at["coarseness"]][:dimensions]
    return np.where(coarseness > begun, 1.0 / PITCHES[coarseness] / 12.0**0.5, 0.0)


def contention_of(components: Components, slot: int) -> float:
    """Return kappa of a component, 0 where it is not learned."""
    return components.contentions.of(slot).kappa


def _bound(level: float, freedom: float) -> float:
    """Return the standard deviations that an expectation exceeds with probability 1 - level at most; none below a half."""
    return quantile(2.0 * level - 1.0, freedom) if level > 0.5 else 0.0


def _of_learner(
    learners: Learners, found: Solved, load: _Load, counts: Floats, level: float
) -> tuple[Floats, Floats, float]:
    """Return expected times (m,), their upper bounds (m,) and a run's squared coefficient of variation.

    E[t] = f = e**mean and E[t**2] = f**2 (1 + s**2) + tau**2 at a predictor, taken over the load.
    """
    table, room = found.table, learners.room(found.table.axes)
    noise = [float(table.column(name)[found.place]) for name in ("relative", "absolute")]
    reach = NORMAL.inv_cdf(level) if level > 0.5 else 0.0

    def at(predictors: Floats, cores: Floats, *, spread: bool) -> tuple[Floats, Floats]:
        out = np.empty((len(cores), 2))
        KERNELS.predict_points(
            table.words, found.place, table.axes, np.array(predictors, order="C"), cores, ANY_MACHINE, spread,
            found.solution, room.scratch, room.point, out,
        )  # fmt: skip
        return np.exp(np.clip(out[:, 0], LOG_LEAST_S, LOG_MOST_S)), np.sqrt(out[:, 1])

    ones = np.ones(len(load.share))
    single, _ = at(load.predictors, ones, spread=False)
    if load.inside is not None:
        # What lies about a centre, evenly in the logs, takes exp(v / 2) times as long on the mean, v = sum (slope sd)^2.
        within = np.zeros(len(ones))
        for axis in np.flatnonzero(load.inside).tolist():
            aside = load.predictors.copy()
            aside[:, axis] *= np.exp(load.inside[axis])
            within += np.square(np.log(at(aside, ones, spread=False)[0] / single))
        single = single * np.exp(0.5 * np.minimum(within, WITHIN_MAX))
    work = single * load.share
    nodes, weights = _nodes(single, work)
    m = len(counts)
    times, more = at(np.repeat(load.predictors[nodes], m, axis=0), np.tile(counts, len(nodes)), spread=reach > 0.0)
    ratios = np.log(times.reshape(-1, m) / times.reshape(-1, m)[:, :1])
    shares = work[:, None] * np.exp(weights @ ratios)
    upper = (shares * np.exp(np.minimum(reach * (weights @ more.reshape(-1, m)), SD_MAX))).sum(axis=0)
    elapsed = shares.sum(axis=0)
    mean = float(work.sum())
    squares = float(load.share @ np.square(single / mean)) * (1.0 + noise[0]) + noise[1] / (mean * mean)
    return elapsed, np.maximum(upper, elapsed), max(squares - 1.0, 0.0)


def _of_form(found: Model, load: _Load, counts: Floats, level: float) -> tuple[Floats, Floats, float]:
    """Return what `_of_learner` does, exactly, from a form of the exact sums."""
    x = load.predictors[:, :1] if load.predictors.shape[1] == 1 else load.predictors.prod(axis=1, keepdims=True)
    times = prediction.values(found, x, counts[None, :])
    edge = np.clip(x, *found.x_range)
    u, q = np.broadcast_arrays((edge - found.origin) / found.scale, 1.0 / counts[None, :])
    spread = found.deviation * np.sqrt(np.maximum(found.own_variance(u, q), 0.0)) / times
    elapsed = load.share @ times
    reach = _bound(level, found.freedom)
    upper = load.share @ (times * np.exp(np.minimum(reach * spread, SD_MAX)))
    noise = 1.0 + min(found.deviation, 1.0) ** 2
    return elapsed, np.maximum(upper, elapsed), _variation(times[:, 0], load.share, noise)


def _variation(times: Floats, share: Floats, noise: Any) -> float:
    """Return Var[T] / E[T]^2 of runs whose mean times have these shares, each with E[T^2] = noise times its square."""
    relative = times / float(times.max())
    return max(float(share @ (relative * relative * noise)) / float(share @ relative) ** 2 - 1.0, 0.0)


def _nodes(times: Floats, work: Floats) -> tuple[Ints, Floats]:
    """Return points (k,) that stand for the load, and each point's (n, k) weights of them: linear in log time between two.

    They are the shortest, the longest, and between them those at equal parts of work and of log time, taken half and half: work
    is where errors count, and where much log time lies speedups change.
    """
    order = np.argsort(times, kind="stable")
    logs = np.log(times)
    total = np.cumsum(work[order]) / work.sum()
    span = logs[order[-1]] - logs[order[0]]
    total: Floats = 0.5 * total + 0.5 * (logs[order] - logs[order[0]]) / (span if span > 0 else 1.0)
    places: Ints = np.searchsorted(total, np.linspace(0, float(total[-1]), NODES))
    places = np.unique(places.clip(0, len(times) - 1))
    ends = logs[order[places]]
    keep = np.concatenate([[True], np.diff(ends) > LOG_LEAST])
    nodes, ends = order[places[keep]], ends[keep]
    weights = np.zeros((len(times), len(nodes)))
    rows = np.arange(len(times))
    left = np.clip(np.searchsorted(ends, logs, "right") - 1, 0, max(len(ends) - 2, 0))
    if len(ends) == 1:
        weights[:, 0] = 1.0
        return nodes, weights
    w = np.clip((logs - ends[left]) / (ends[left + 1] - ends[left]), 0.0, 1.0)
    weights[rows, left] = 1.0 - w
    weights[rows, left + 1] += w
    return nodes, weights
