"""Tables for plans: each component's expected time by cores at its observed load, by what answers for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil, inf
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from advisor.domain import elementary
from advisor.domain.curves import VALUES, Growth, Seen, TabulatedCurves
from advisor.domain.rows import is_number
from advisor.domain.vectors import Floats, Ints
from advisor.engine.asking import LEARNER, Asking
from advisor.engine.cache import Cache
from advisor.engine.components import Components
from advisor.engine.guards import checked
from advisor.engine.learners import Solved
from advisor.engine.load import Load, load_of
from advisor.engine.siblings import Borrowed
from advisor.errors import InvalidValue
from advisor.models import prediction
from advisor.models.layout import AT
from advisor.models.load_table import KERNELS, POINTS_MAX, scratch_of
from advisor.models.prediction import LEVEL, SD_MAX, Model
from advisor.models.student import quantile

# every count so far, then counts 2**(1/4) apart: Amdahl's curve is met to 0.1 % between
ALL_COUNTS, PER_DOUBLING = 8, 4
NORMAL = NormalDist()
TABLES_CACHED = 16_384  # components' tables kept for reuse, about 1.5 KB each
ROWS_OF_TABLE = 16  # interpreted, a table takes as long as so many rows
PEAK = "peak_bytes"
NONE_GIVEN: Mapping[str, Any] = {}
ROWS, UNFINISHED, DIMENSIONS, LEAST, MOST = (
    AT[name].start for name in ("rows", "unfinished", "dimensions", "p_low", "p_high")
)


@lru_cache(64)
def counts_of(cores_max: int) -> Ints:
    """Return the core counts of tables, from 1 to the first that is not below `cores_max`."""
    counts = list(range(1, ALL_COUNTS + 1))
    step = 1
    while counts[-1] < cores_max:
        counts.append(round(ALL_COUNTS * 2.0 ** (step / PER_DOUBLING)))
        step += 1
    found = np.array(counts[: max(int(np.searchsorted(counts, cores_max)) + 1, 2)], np.int64)
    found.flags.writeable = False  # whoever asks gets the same
    return found


class _Table(NamedTuple):
    """One component's table: what `TabulatedCurves` and `Seen` have of each, in their order."""

    elapsed: Floats
    upper: Floats
    variation: float
    contention: float
    peak_bytes: float
    model: str
    runs: int
    least: float
    most: float
    growth: Growth


KINDS = *(np.float64,) * 5, object, np.int64, *(np.float64,) * 3


class CurveTables:
    """The tables of one engine's components, kept until rows come."""

    def __init__(self, components: Components, asking: Asking) -> None:
        self._components = components
        self._asking = asking
        self._cached = Cache[tuple[list[tuple[int, Borrowed]], _Table]](TABLES_CACHED)  # each with what it stands for
        self._scratch = scratch_of()

    def clear_tables(self) -> None:
        """Forget all tables: their components changed otherwise than by new rows."""
        self._cached.discard_where()

    def curves(
        self,
        boxes: Sequence[str],
        components: Mapping[str, str] = NONE_GIVEN,
        load: Mapping[str, float] = NONE_GIVEN,
        *,
        cores_max: int,
        level: float = LEVEL,
    ) -> TabulatedCurves:
        """Return the table of each box up to `cores_max` cores, at the observed load or at the predictor that `load` gives.

        The tables reach the fewest cores that each was seen on: on fewer, a promise rests on the work of those runs.
        `upper_s` is the bound below which the expectation lies with probability `level`. Cost: some microseconds for
        a component that was asked for since its last row, else about 2 ms interpreted.

        Raises UnknownComponent, NotEnoughData, InvalidValue.
        """
        for box, value in load.items():
            if not is_number(value):
                raise InvalidValue(f"load[{box}]", value, "a number")
        unknown = sorted((components.keys() | load.keys()) - set(boxes))
        if unknown:
            raise InvalidValue("components" if unknown[0] in components else "load", unknown[0], "a box of the network")
        known = self._components.slots
        named = [components.get(box, box) for box in boxes]
        places = known.by_name
        slots = [places[name] if type(name) is str and name in places else known.slot_of(name) for name in named]
        counts = counts_of(self._reach(slots, cores_max))
        tables = [self._table(slot, load.get(box), box, counts, level) for slot, box in zip(slots, boxes, strict=True)]
        if len(self._cached) > TABLES_CACHED:
            self._cached.trim()
        columns: list[Any] = list(map(np.array, zip(*tables, strict=True) if tables else [()] * len(KINDS), KINDS))
        elapsed, upper = (one.reshape(-1, len(counts)) for one in columns[:2])
        own: Any = None
        if self._components.allowed.known:
            own = tuple(self._components.allowed.known.get(self._components.slots.owner(slot)) for slot in slots)
        curves = object.__new__(TabulatedCurves)  # what a table holds is legal, and is not checked again
        vars(curves).update(zip(VALUES, (elapsed, upper, *columns[2:5]), strict=True), cores=counts,
                            seen=Seen(*columns[5:]), allowed=own if own and any(own) else None)  # fmt: skip
        return curves

    def missing(
        self, boxes: Sequence[str], components: Mapping[str, str], load: Mapping[str, Any], cores_max: int, level: float
    ) -> int:
        """Return how many tables of known components would have to be made; what is wrong with a load is said elsewhere."""
        wanted = {(self._components.slots.components.get(components.get(box, box), -1), load.get(box)) for box in boxes}
        counts = counts_of(self._reach([slot for slot, _ in wanted if slot >= 0], cores_max))
        cores = float(counts[-1])
        found = 0
        for slot, x in wanted:
            kept = self._cached.get((slot, len(counts), level, x))
            found += slot >= 0 and (kept is None or kept[0] != self._stands_for(slot, cores))
        return found

    def reach(self, boxes: Sequence[str], components: Mapping[str, str], cores_max: int) -> int:
        """Return the cores that the tables of boxes have in one answer; components that nobody knows are left out."""
        known = self._components.slots.components
        slots = (known.get(components.get(box, box)) for box in boxes)
        return self._reach([slot for slot in slots if slot is not None], cores_max)

    def _reach(self, slots: Sequence[int], cores_max: int) -> int:
        words = self._components.table.records.item
        least = max((some for slot in slots if (some := words(slot, LEAST)) < inf), default=1.0)  # inf: of no run
        return max(cores_max, ceil(least))

    def _beside(self, slot: int) -> list[int]:
        """Return the slots of a component's runs without predictor and of its `peak_bytes`: its table rests on them, too."""
        slots = self._components.slots
        found = (slots.without(slot), slots.of_measure(slot, PEAK)) if slots.hidden else ()
        return [each for each in found if each is not None]

    def _stands_for(self, slot: int, cores: float) -> list[tuple[int, Borrowed]]:
        """Return what a table up to so many cores rests on: rows, unfinished ones with them, and what siblings lend."""
        words, siblings = self._components.table.records_whole, self._components.siblings
        return [
            (int(words[each, ROWS] + words[each, UNFINISHED]), siblings.borrowed(each, cores))
            for each in (slot, *self._beside(slot))
        ]

    def _table(self, slot: int, x: float | None, box: str, counts: Ints, level: float) -> _Table:
        key = (slot, len(counts), level, x)
        rests = self._stands_for(slot, float(counts[-1]))
        kept = self._cached.get(key)
        if kept is not None and kept[0] == rests:
            return kept[1]
        apart = self._components.slots.without(slot) if x is None and self._components.slots.hidden else None
        if apart is not None and not self._asking.learned(slot) and self._asking.learned(apart):
            table = self._table(apart, None, box, counts, level)  # all that was learned
            return self._cached.store_value(key, (rests, table))[1]
        base, components = self._components.table, self._components
        if not KERNELS.ready:
            KERNELS.count(ROWS_OF_TABLE)
        found: Solved | Model | None = self._asking.learners.solved(slot, base)
        if found is None or found.pin:
            found = self._asking.answering(slot, None)
        if found is None:
            raise self._asking.no_rows(slot)
        if x is None and base.records_whole[slot, DIMENSIONS] <= 1:
            predictors, share = np.empty((2, POINTS_MAX))
            points = KERNELS.load_points(base.records[slot], predictors, share)
            given = Load(predictors[:points, None], share[:points])
        else:
            given = load_of(components, slot, found) if x is None else self._load_at(slot, found, x, box)
        at = counts.astype(np.float64)
        kappa = components.contention(slot).kappa
        peak = self._peak(slot, given, level) if components.slots.hidden else 0.0
        if isinstance(found, Solved):
            elapsed, upper, variation = self._of_learner(found, given, at, level)
            model, count = LEARNER, found.runs
        else:
            elapsed, upper, variation = _of_form(found, given, at, level)
            model, count = found.name, int(base.runs(slot))
        if apart is not None and base.evidence(apart) > 0:
            beside = self._table(apart, None, box, counts, level)
            runs = base["cell_runs"][:, [slot, apart]].sum(axis=0)
            share = runs / runs.sum()
            variation = _variation(
                np.array([elapsed[0], beside.elapsed[0]]), share, 1.0 + np.array([variation, beside.variation])
            )
            elapsed, upper = (
                elementary.weighted(share, [elapsed, beside.elapsed]),
                elementary.weighted(share, [upper, beside.upper]),
            )
        table = _Table(
            elapsed, upper, variation, kappa, peak, model, count, float(base.records[slot, LEAST]),
            float(base.records[slot, MOST]), rests[0][1].growth,
        )  # fmt: skip
        self._cached[key] = rests, table
        return table

    def _load_at(self, slot: int, found: Solved | Model, x: float, box: str) -> Load:
        """Return the load of one predictor value."""
        dimensions = self._components.dimensions(slot)
        if isinstance(found, Solved) and dimensions > 1:
            raise InvalidValue(f"load[{box}]", x, f"left out: its predictors have {dimensions} values")
        return Load(np.array([[float(checked(f"load[{box}]", x, "invalid_predictor"))]]), np.ones(1))

    def _of_learner(self, found: Solved, load: Load, counts: Floats, level: float) -> tuple[Floats, Floats, float]:
        """Return expected times (m,), their upper bounds (m,) and a run's squared coefficient of variation."""
        table, room, out = found.table, found.room, np.empty((2, len(counts)))
        inside = np.zeros(table.axes - 1) if load.inside is None else load.inside
        variation = KERNELS.load_table(
            table.words, found.place, table.axes, load.predictors, load.share, inside, counts, _bound_learned(level),
            found.solution, room.scratch, room.point, room.out, *self._scratch, out,
        )  # fmt: skip
        return out[0], out[1], variation

    def _peak(self, slot: int, load: Load, level: float) -> float:
        """Return the most memory that a run of the load takes, on the fewest or most cores seen, at `level`; 0: not learned."""
        measured = self._components.slots.of_measure(slot, PEAK)
        if measured is None or not self._asking.learned(measured):
            return 0.0
        table = self._components.table
        seen = np.array([table["p_low"][measured], table["p_high"][measured]])
        x, dimensions = load.predictors, self._components.dimensions(measured)
        if x.shape[1] != dimensions:
            x = load_of(self._components, measured, self._asking.answering(measured, None)).predictors
            x = np.pad(x, ((0, 0), (0, dimensions - x.shape[1])), constant_values=1.0)  # forms know a product alone
        if dimensions == 1:
            x = x[:, 0]
        name = self._components.slots.owner(slot)
        high = [self._asking.predict(name, x, cores, level, None, None, PEAK).high_s for cores in seen.tolist()]
        return float(np.max(high))


@lru_cache(64)
def _bound_learned(level: float) -> float:
    """Return what `_bound` does, of a normal distribution."""
    return NORMAL.inv_cdf(level) if level > 0.5 else 0.0


def _bound(level: float, freedom: float) -> float:
    """Return the standard deviations that an expectation exceeds with probability 1 - level at most; none below a half."""
    return quantile(2.0 * level - 1.0, freedom) if level > 0.5 else 0.0


def _of_form(found: Model, load: Load, counts: Floats, level: float) -> tuple[Floats, Floats, float]:
    """Return what `_of_learner` does, exactly, from a form of the exact sums."""
    x = load.predictors[:, :1] if load.predictors.shape[1] == 1 else load.predictors.prod(axis=1, keepdims=True)
    times = prediction.values(found, x, counts[None, :])
    edge = np.clip(x, *found.x_range)
    u, q = np.broadcast_arrays((edge - found.origin) / found.scale, 1.0 / counts[None, :])
    spread = found.deviation * np.sqrt(np.maximum(found.own_variance(u, q), 0.0)) / times
    elapsed = elementary.weighted(load.share, times)
    reach = _bound(level, found.freedom)
    upper = elementary.weighted(load.share, times * elementary.exp(np.minimum(reach * spread, SD_MAX)))
    noise = 1.0 + min(found.deviation, 1.0) ** 2
    return elapsed, np.maximum(upper, elapsed), _variation(times[:, 0], load.share, noise)


def _variation(times: Floats, share: Floats, noise: Any) -> float:
    """Return Var[T] / E[T]^2 of runs whose mean times have these shares, each with E[T^2] = noise times its square."""
    relative = times / float(times.max())
    return max(
        elementary.weighted(share, relative * relative * noise) / elementary.weighted(share, relative) ** 2 - 1.0, 0.0
    )
