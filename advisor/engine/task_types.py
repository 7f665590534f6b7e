"""What instances of task types take by the models of paper 2, over all runs: a record of constant size a type, by its name.

A profile knows the types of one run; here the ends of all runs come together, as they do for the component of the type's name.
Instances wait until a question or a snapshot needs them: when they are learned changes no byte.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from advisor.domain import limits
from advisor.domain.answers import Prediction
from advisor.domain.names import normalised_name
from advisor.domain.rows import bound_text, is_number
from advisor.domain.vectors import Floats, Ints
from advisor.engine.blobs import Paged
from advisor.engine.checks import check_together, checked
from advisor.engine.components import EVIDENCE_LEAST
from advisor.engine.snapshot import TablePages
from advisor.errors import InvalidValue, NotEnoughData, StateDamaged
from advisor.models.record_domains import strange_type
from advisor.models.size_time import WORDS, SizeTime
from advisor.models.type_verdict import MODELS, SIZED_MODELS, TypeReport, predicted, report_of, spread

if TYPE_CHECKING:
    from advisor.profile.task_types import TaskTypes


LAYOUT: Final = f"tasktype-1-{WORDS}"
NAME_BYTES: Final = 208  # of a record: the length of a name of at most 200 bytes, and the name
RECORD_BYTES: Final = NAME_BYTES + 8 * WORDS
STATUS: Final = {"instances": "count", "sized": "sized"}
SIZE_LEAST: Final = 2.0**-60  # stands for a size of 0 where a distance is told


class TaskTypeModels:
    """Records by name of the task type, at most `limits.TASK_TYPES_MAX`: later types are left out."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}  # of each name, the number of its record and of its table
        self.touched: dict[str, None] = {}  # names of those that changed, or went, since somebody took note
        self._made: TaskTypes | None = None
        self._solved: dict[int, tuple[SizeTime, TypeReport]] = {}  # of records as they are: see `SizeTime.solved`
        self.paged = Paged("tasktype", LAYOUT, self.put_record)

    # -- learning ---------------------------------------------------------------------------------------------------------

    @property
    def _types(self) -> TaskTypes:
        """The records, made at the first instance: few advisors learn any, and profiles need not be loaded for the others."""
        if self._made is None:
            from advisor.profile.task_types import TaskTypes  # noqa: PLC0415

            self._made = TaskTypes()
        return self._made

    def fold(
        self, names: Sequence[str], index: Ints, sizes: Floats, times: Floats, running: Ints, stands: Floats
    ) -> int:
        """Take n instances in order: of type ``names[index[i]]``, and columns (n,) as `SizeTime.fold` has them. Cost O(n).

        Returns how many are of types beyond the cap, and left out. The records are the same however instances are cut.
        """
        present, first = np.unique(index, return_index=True)
        number_of = np.full(len(names), -1, np.int64)
        for place in map(int, present[np.argsort(first)]):
            number = self.numbers.get(names[place])
            if number is None and len(self.numbers) < limits.TASK_TYPES_MAX:
                number = self._new(names[place])
            if number is not None:
                number_of[place] = number
                self._touch(number, names[place])
        numbers = number_of[index]
        known = numbers >= 0
        if known.any():
            self._types.gather(numbers[known], sizes[known], times[known], running[known], stands[known])
        return int(len(known) - known.sum())

    def merge(self, other: TaskTypeModels) -> int:
        """Add what another one has learned, see `SizeTime.merge`; return how many instances are of types beyond the cap."""
        other._types.settle()
        self._types.settle()
        beyond = 0
        for name, theirs in sorted(other.numbers.items()):
            added = other._types.models[theirs]
            if name not in self.numbers and len(self.numbers) >= limits.TASK_TYPES_MAX:
                beyond += int(added.number("rows"))
                continue
            number = self.numbers.get(name)
            if number is None:
                number = self._new(name)
                self._types.models[number] = SizeTime(added.words.copy())
            else:
                self._types.models[number].merge(added)
            self._touch(number, name)
        return beyond

    def forget(self, name: str, keep: float) -> None:
        """Keep the share `keep` of what was learned of a type, where there is one; with next to nothing left all goes."""
        number = self.numbers.get(name)
        if number is None:
            return
        self._types.settle()
        self._touch(number, name)
        if keep * self._types.models[number].number("count") >= EVIDENCE_LEAST:
            self._types.models[number].forget(keep)
            return
        del self.numbers[name], self._types.models[number]
        self.paged.drop(number)

    def _new(self, name: str) -> int:
        self.numbers[name] = self.paged.new()
        return self.numbers[name]

    def _touch(self, number: int, name: str) -> None:
        self._solved.pop(number, None)
        self.touched[name] = None
        self.paged.touch(number)

    # -- questions --------------------------------------------------------------------------------------------------------

    def __contains__(self, name: object) -> bool:
        """Return whether instances of a type were learned."""
        return name in self.numbers

    @property
    def bytes(self) -> int:
        """Bytes of the records."""
        return RECORD_BYTES * len(self.numbers)

    def report(self, name: str) -> TypeReport:
        """Return what is known of a type that was learned: its verdict, the model to ask for and why.

        Cost O(cells^2) once instances came, then it is kept.
        """
        return self._answering(name)[1]

    def _answering(self, name: str) -> tuple[SizeTime, TypeReport]:
        number = self.numbers[name]
        self._types.settle()
        if number not in self._solved:
            learned = self._types.models[number].solved()
            self._solved[number] = learned, report_of(learned)
        return self._solved[number]

    def status(self) -> list[dict[str, Any]]:
        """Return of each type how many instances were learned, and how many of them with a size, by name."""
        self._types.settle()
        models = self._types.models
        return [
            {"task_type": name} | {key: round(models[number].number(word)) for key, word in STATUS.items()}
            for name, number in sorted(self.numbers.items())
        ]

    def predict(self, name: str, sizes: Any, cores: Any, workers: float | None, level: float, model: str) -> Prediction:
        """Predict instances of a type by a model of `MODELS`; see `predicted` for their formulas.

        Raises InvalidValue for a value outside of its domain; NotEnoughData when no instance was learned, or none with a size
        and the model needs sizes.

        Parameters
        ----------
        sizes : float or array
            0: of an instance without size.
        cores : float or array
            1: an instance runs on one core.
        workers : float, optional
            Workers that run a task meanwhile, its own among them.
        level : float
            Share of instances that the interval holds: predicted times exp(m ± z s), m and s of `spread`.
        """
        if name not in self.numbers:
            raise NotEnoughData(
                f"no instances of a task type {name!r}: {model} is learned from ends of task instances",
                field="component", value=name, bound=1, hint="send task_events, or observe_instances in process",
            )  # fmt: skip
        if workers is not None:
            workers = _checked_workers(workers)
        x, p = checked("predictor", sizes, "invalid_predictor"), checked("cores", cores, "invalid_cores")
        check_together(x, p)
        if np.any(np.asarray(p) != 1.0):
            raise InvalidValue("cores", cores, "1 for task types", "active_cores says how many workers run tasks")
        learned, report = self._answering(name)
        if model in SIZED_MODELS and not report.sized:
            raise NotEnoughData(
                f"no instance of {name!r} came with a size, which {model} needs", field="component", value=name, bound=1,
                hint="send sizes, or ask for one_time or rate_by_workers",
            )  # fmt: skip
        shape = np.broadcast_shapes(np.shape(x), np.shape(p))
        flat = np.ascontiguousarray(np.broadcast_to(x, shape), np.float64).reshape(-1)
        time = predicted(learned, report, flat, model, workers)
        mean, deviation = spread(learned, report, model, workers)
        wide = NormalDist().inv_cdf(0.5 + 0.5 * level) * deviation
        found = time, time * np.exp(min(mean - wide, 0.0)), time * np.exp(max(mean + wide, 0.0))
        legal = [np.clip(values, limits.ELAPSED_MIN_S, limits.ELAPSED_MAX_S) for values in found]
        elapsed, low, high, outside = (
            values.reshape(shape) if shape else float(values[0])
            for values in (*legal, _outside(learned, report, flat, model, workers))
        )
        return Prediction(elapsed, low, high, model, _notes(report, model, workers), report.count, outside)

    # -- as bytes ---------------------------------------------------------------------------------------------------------

    def records(self, names: Container[str] | None = None) -> list[bytes]:
        """Return the record of each type, or of those named, by name: equal states give equal bytes."""
        self._types.settle()
        return [
            _record_of(name, self._types.models[number])
            for name, number in sorted(self.numbers.items())
            if names is None or name in names
        ]

    def put_record(self, data: bytes, number: int | None = None) -> None:
        """Take a type back from its record, under a number that is free; raises ValueError where it is none."""
        name = data[1 : 1 + data[0]].decode()
        if normalised_name(name) != name or len(data) < RECORD_BYTES:
            raise ValueError("no record of a task type")
        words = np.frombuffer(data, "<f8", WORDS, NAME_BYTES).astype(np.float64)
        if (strange := strange_type(words)) is not None:
            raise StateDamaged(
                f"task type {name!r}: {strange} is what no instances lead to",
                components=(name,),
                hint="restore a backup",
            )
        self.numbers[name] = self.paged.new() if number is None else number
        self.touched[name] = None
        self._types.models[self.numbers[name]] = SizeTime(words)

    def pages(self) -> list[TablePages]:
        """Return the changed pages of changed records, and count them as taken."""
        self._types.settle()
        name_of = {number: name for name, number in self.numbers.items()}
        return self.paged.pages(lambda number: _record_of(name_of[number], self._types.models[number]))


def is_model(name: object) -> bool:
    """Return whether a name is that of a model of task types."""
    return name in MODELS


def _checked_workers(value: Any) -> float:
    """Return how many workers run tasks: at least the one that runs the instance."""
    if not is_number(value) or not 0.0 <= value <= limits.CORES_MAX:
        raise InvalidValue("active_cores", value, bound_text("invalid_active_cores"))
    return max(float(value), 1.0)


def _record_of(name: str, learned: SizeTime) -> bytes:
    text = name.encode()
    head = bytes([len(text)]) + text
    return head + b"\0" * (NAME_BYTES - len(head)) + learned.words.astype("<f8", copy=False).tobytes()


def _outside(learned: SizeTime, report: TypeReport, sizes: Floats, model: str, workers: float | None) -> Floats:
    """Return how far sizes, where the model goes by them, and running workers lie outside of those seen, in log2."""
    far = np.zeros(len(sizes))
    if model in SIZED_MODELS:
        at = np.log2(np.maximum(sizes, SIZE_LEAST))
        low, high = np.log2([learned.number("size_low"), learned.number("size_high")])
        far = np.maximum(np.maximum(low - at, at - high), 0.0)
    if workers is not None and report.verdict == "contended":
        low, high = report.rates[0].workers_low, report.rates[-1].workers_high
        far = np.maximum(far, max(np.log2(low / workers), np.log2(workers / high), 0.0))
    return far


def _notes(report: TypeReport, model: str, workers: float | None) -> tuple[str, ...]:
    told: list[str] = []
    if model != report.ask:
        told.append(f"{report.verdict}: its instances ask for {report.ask}")
    if report.verdict == "contended" and workers is None:
        told.append("contended: give active_cores; this is the mean over the running workers that were seen")
    if report.verdict != "contended" and workers is not None:
        told.append("active_cores changes nothing: the type is not contended")
    return tuple(told)
