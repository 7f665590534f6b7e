"""What instances of task types take by the models of paper 2, over all runs: a record of constant size a type, by its name.

The ends of all runs come together, as they do for the component of the type's name.
Instances wait until a question or a snapshot needs them: when they are learned changes no byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from advisor.domain import elementary, limits, vectors
from advisor.domain.answers import Prediction, Receipt
from advisor.domain.observations import ComponentNames, bad_rows, columns_of
from advisor.domain.rows import bound_text
from advisor.domain.vectors import Floats, Ints
from advisor.engine import batches
from advisor.engine.cache import Cache
from advisor.engine.components import Components
from advisor.engine.guards import check_together, checked
from advisor.engine.kinds import RecordKind
from advisor.engine.slots import TIME
from advisor.errors import InvalidValue, NotEnoughData
from advisor.models.size_time import GATHERED_MAX, WORDS, Gathered, SizeTime
from advisor.models.type_verdict import SIZED_MODELS, TypeReport, predicted, report_of, spread

STATUS: Final = {"instances": "count", "sized": "sized"}
SIZE_LEAST: Final = 2.0**-60  # stands for a size of 0 where a distance is reported
BEYOND: Final = "instances_beyond"  # of the totals: instances of more task types than are learned


class TaskTypeModels(RecordKind[str, SizeTime]):
    """Records by name of the task type, at most `records_max`: later types are left out."""

    name, merges = "task_types", {"model": "approximate"}
    records_max = limits.TASK_TYPES_MAX

    def __init__(self, components: Components) -> None:
        super().__init__()
        self._components = components  # which learn instances, too
        self._gathered, self._waiting = (
            Gathered(),
            dict[str, int](),
        )  # instances that wait, and the numbers of their types
        self._reports = Cache[tuple[SizeTime, float, TypeReport]](
            limits.TASK_TYPES_MAX
        )  # of a record, at so many instances

    # -- learning ---------------------------------------------------------------------------------------------------------

    def observe_instances(
        self,
        *,
        types: Sequence[str],
        index: ArrayLike,
        elapsed_s: ArrayLike,
        size: ArrayLike | None = None,
        active_cores: ArrayLike | None = None,
        count: ArrayLike | None = None,
    ) -> Receipt:
        """Learn n instances of task types that ended, in order; row i is of type ``types[index[i]]``. Cost O(n).

        Each is a row of the component of its type's name, size as predictor, one core; and it teaches the models of paper 2
        that `predict` answers by name.

        Parameters
        ----------
        size : (n,), optional
            As the runtime gives it; what is no finite number above 0 is none, 1 to the component.
        active_cores : (n,), optional
            Workers that ran a task when the instance ended, its own among them; absent: 1.
        count : (n,), optional
            For so many instances each stands; absent: 1.

        Raises
        ------
        InvalidValue, TooLarge
            As `observe_columns`; rows outside of their domains are refused one by one and teach nothing.
        """
        n = np.size(elapsed_s)
        sizes = np.zeros(n) if size is None else vectors.vector("size", size, np.float64, n)
        sizes = np.where(np.isfinite(sizes) & (sizes > 0.0), sizes, 0.0)
        workers = np.ones(n) if active_cores is None else vectors.vector("active_cores", active_cores, np.float64, n)
        if not (np.isfinite(workers) & (workers >= 0.0) & (workers <= limits.CORES_MAX)).all():
            raise InvalidValue("active_cores", "a column with a bad value", bound_text("invalid_active_cores"))
        names = ComponentNames(types)
        x = np.where(sizes > 0.0, sizes, 1.0)
        columns = columns_of(names, index, x, np.ones(n), elapsed_s, count=count)
        good = ~np.logical_or.reduce([np.zeros(n, np.bool_), *bad_rows(columns).values()])
        stands = np.ones(n) if columns.count is None else columns.count.astype(np.float64)
        running = np.maximum(np.rint(workers), 1.0).astype(np.int64)
        self._gather(
            names.names, columns.index[good], sizes[good], columns.elapsed_s[good], running[good], stands[good]
        )
        return batches.learn_columns(self._components, columns)

    def _gather(
        self, names: Sequence[str], index: Ints, sizes: Floats, times: Floats, running: Ints, stands: Floats
    ) -> None:
        """Take n instances in order: of type ``names[index[i]]``, columns (n,) as in `SizeTime.learn_instances`. Cost O(n).

        The records are the same however instances are cut.
        """
        present, first = np.unique(index, return_index=True)
        number_of = np.full(len(names), -1, np.int64)
        for place in map(int, present[np.argsort(first)]):
            name = names[place]
            if name in self.known or len(self.known) < self.records_max:
                self.set_record(name, self.known.get(name) or SizeTime(np.zeros(WORDS)))
                number_of[place] = self._waiting.setdefault(name, len(self._waiting))
        numbers = number_of[index]
        known = numbers >= 0
        self._gathered.add_instances(numbers[known], sizes[known], times[known], running[known], stands[known])
        if self._gathered.count >= GATHERED_MAX:
            self.settle()
        if beyond := int(np.count_nonzero(~known)):
            self._components.totals[BEYOND] += beyond

    def settle(self) -> None:
        """Learn the instances that wait."""
        names, self._waiting = list(self._waiting), {}
        for number, columns in self._gathered.pop_by_type():
            self.known[names[number]].learn_instances(*columns)

    # -- questions --------------------------------------------------------------------------------------------------------

    def task_type(self, name: str) -> TypeReport:
        """Return what is known of a task type over all runs: its verdict, which model `predict` is to be asked for, and why.

        Cost O(cells^2) once instances came, then it is kept.

        Raises
        ------
        InvalidValue
            When no instances of it were learned.
        """
        if name not in self.known:
            known = ", ".join(sorted(self.known)[:8])
            raise InvalidValue("task_type", name, f"one with instances: {known or 'none was observed'}")
        return self._answering(name)[1]

    def reports(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return what is known of those of some types that had instances, in plain values, the one with most time first."""
        found = [(name, self.task_type(name)) for name in dict.fromkeys(names) if name in self.known]
        return {name: report.as_dict() for name, report in sorted(found, key=lambda each: -each[1].total_s)}

    def _answering(self, name: str) -> tuple[SizeTime, TypeReport]:
        self.settle()
        learned, kept = self.known[name], self._reports.get(name)
        count = learned.head_field("rows")
        if kept is None or kept[0] is not learned or kept[1] != count:
            kept = self._reports.store_value(name, (learned, count, report_of(learned)))
        return learned, kept[2]

    def status(self) -> list[dict[str, Any]]:
        """Return of each type how many instances were learned, and how many of them with a size, by name."""
        self.settle()
        return [
            {"task_type": name} | {key: round(learned.head_field(word)) for key, word in STATUS.items()}
            for name, learned in sorted(self.known.items())
        ]

    def predict(
        self, name: str, sizes: Any, cores: Any, level: float, model: str, machine: str | None, measure: str
    ) -> Prediction:
        """Predict instances of a type by a model of `MODELS`, as `Advisor.predict`; see `predicted` for their formulas.

        Size 0 is of an instance without one, and the interval predicted times exp(m ± z s), m and s of `spread`. Raises
        UnknownComponent, NotEnoughData, InvalidValue.
        """
        for field, value, absent in (("machine", machine, None), ("measure", measure, TIME)):
            if value != absent:
                raise InvalidValue(
                    field, value, f"absent with model {model!r}: instances tell neither machine nor measures"
                )
        if name not in self.known:
            self._components.slots.slot_of(name)  # one that nobody knows is reported so
            raise NotEnoughData(
                f"no instances of a task type {name!r}: {model} is learned from ends of task instances",
                field="component", value=name, bound=1, hint="send task_events, or observe_instances in process",
            )  # fmt: skip
        x, p = checked("predictor", sizes, "invalid_predictor"), checked("cores", cores, "invalid_cores")
        check_together(x, p)
        if np.any(np.asarray(p) != 1.0):
            raise InvalidValue("cores", cores, "1 for task types")
        learned, report = self._answering(name)
        if model in SIZED_MODELS and not report.sized:
            raise NotEnoughData(
                f"no instance of {name!r} came with a size, which {model} needs", field="component", value=name, bound=1,
                hint="send sizes, or ask for one_time or rate_by_workers",
            )  # fmt: skip
        shape = np.broadcast_shapes(np.shape(x), np.shape(p))
        flat = np.ascontiguousarray(np.broadcast_to(x, shape), np.float64).reshape(-1)
        time = predicted(learned, report, flat, model)
        mean, deviation = spread(learned, report, model)
        wide = NormalDist().inv_cdf(0.5 + 0.5 * level) * deviation
        found = time, time * elementary.exp(min(mean - wide, 0.0)), time * elementary.exp(max(mean + wide, 0.0))
        legal = [np.clip(values, limits.ELAPSED_MIN_S, limits.ELAPSED_MAX_S) for values in found]
        elapsed, low, high, outside = (
            values.reshape(shape) if shape else float(values[0]) for values in (*legal, _outside(learned, flat, model))
        )
        notes = () if model == report.ask else (f"{report.verdict}: its instances ask for {report.ask}",)
        return Prediction(elapsed, low, high, model, notes, report.count, outside)

    # -- as bytes ---------------------------------------------------------------------------------------------------------

    def encode_record(self, record: SizeTime) -> bytes:
        """Return a type's record as bytes."""
        return record.words.astype("<f8", copy=False).tobytes()

    def decode_record(self, key: str, data: bytes) -> SizeTime:
        """Return what was learned of a type by its record; raises ValueError where it is none, StateDamaged."""
        words = np.frombuffer(data, "<f8").astype(np.float64)
        if len(words) != WORDS:
            raise ValueError(f"{len(words)} words a task type")
        return SizeTime(words)

    def merged_record(self, key: str, mine: SizeTime, theirs: SizeTime) -> SizeTime:
        """Return the instances of both, see `SizeTime.merge`."""
        both = self.copy_record(key, mine)
        both.merge(theirs)
        return both

    def leave_out(self, record: SizeTime) -> None:
        """Count the instances of a type for which there is no room."""
        self._components.totals[BEYOND] += int(record.head_field("rows"))


def _outside(learned: SizeTime, sizes: Floats, model: str) -> Floats:
    """Return how far sizes, where the model goes by them, lie outside of those seen, in log2."""
    if model not in SIZED_MODELS:
        return np.zeros(len(sizes))
    at = elementary.log2(np.maximum(sizes, SIZE_LEAST))
    low, high = elementary.log2([learned.head_field("size_low"), learned.head_field("size_high")])
    return np.maximum(np.maximum(low - at, at - high), 0.0)
