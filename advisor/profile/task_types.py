"""Ends of instances, gathered by task type for the models of paper 2, and handed on for those of components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary, limits
from advisor.models.size_time import GATHERED_MAX, WORDS, Gathered, SizeTime, rows_by_type
from advisor.models.type_verdict import TypeReport, report_of
from advisor.profile import layout as at

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TYPES_MAX: Final = limits.TASK_TYPES_MAX
NS: Final = 1e-9
LEARNED_ALL: Final = 1_024  # instances of a type that are handed on each; then one in two, in four … stands for as many


@dataclass(frozen=True, slots=True)
class Instances:
    """Instances that ended, as rows to learn from."""

    types: Ints  # int64 array (n,): numbers of the strings that name their types
    # sizes, times: float64 arrays (n,): size, 0 where none was given; seconds
    sizes: Floats
    times: Floats
    running: Ints  # int64 array (n,): workers that ran a task when the instance ended, its own among them
    counts: Ints  # int64 array (n,): instances that each stands for

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.types)

    def of_types(self, types: list[int]) -> Instances:
        """Return those of some types."""
        kept = np.isin(self.types, types)
        return Instances(self.types[kept], self.sizes[kept], self.times[kept], self.running[kept], self.counts[kept])


class TaskTypes:
    """Models of the task types of one run, in memory that does not grow with the instances."""

    def __init__(self) -> None:
        self.models: dict[int, SizeTime] = {}
        self.ended: dict[int, int] = {}  # instances of each type that were looked at by `sample`
        self.beyond = 0  # instances of types beyond the cap
        self._gathered = Gathered()

    def learn_ended(self, ended: Ints, sizes: Floats) -> None:
        """Take rows of ended instances, see `layout`, and their sizes; 0: none was given."""
        if not len(ended):
            return
        stands = ended[:, at.ENDED_STANDS].astype(np.float64)
        self._gathered.add_instances(ended[:, at.ENDED_TYPE].copy(), *_columns(ended, sizes), stands)
        if self._gathered.count >= GATHERED_MAX:
            self.settle()

    def settle(self) -> None:
        """Learn what was gathered."""
        for number, columns in self._gathered.pop_by_type():
            model = self.models.get(number)
            if model is None:
                if len(self.models) >= TYPES_MAX:
                    self.beyond += len(columns[0])
                    continue
                model = self.models[number] = SizeTime(np.zeros(WORDS))
            model.learn_instances(*columns)

    def sample(self, ended: Ints, sizes: Floats) -> Instances:
        """Return rows for component models: all of a type's first instances, then fewer and fewer, each for as many.

        Which ones is decided by their count in the run: the same stream gives the same rows, however it is cut. One that the
        producer chose of many (`ENDED_STANDS`) stands for all of these.
        """
        kinds = ended[:, at.ENDED_TYPE]
        taken = np.zeros(len(ended), np.bool_)
        stands = np.ones(len(ended), np.int64)
        for number, rows in rows_by_type(kinds):
            before = self.ended.get(number, 0)
            if number not in self.ended and len(self.ended) >= TYPES_MAX:
                continue
            self.ended[number] = before + len(rows)
            places = before + np.arange(len(rows))
            stands[rows] = 2 ** np.maximum(elementary.log2(np.maximum(places / LEARNED_ALL, 1.0)).astype(np.int64), 0)
            taken[rows] = places % stands[rows] == 0
        stands = np.minimum(stands * ended[:, at.ENDED_STANDS], limits.COUNT_MAX)
        sizes, times, running = _columns(ended, sizes)
        return Instances(kinds[taken], sizes[taken], times[taken], running[taken], stands[taken])

    def reports(self, names: Sequence[str]) -> dict[str, TypeReport]:
        """Return what is known of each type, by its name, the one with most time first."""
        self.settle()
        found: dict[str, TypeReport] = {}
        for number, model in self.models.items():
            reported = names[number]
            found[reported if reported not in found else f"{reported} #{number}"] = report_of(model)
        return dict(sorted(found.items(), key=lambda each: -each[1].total_s))

    def copied(self) -> TaskTypes:
        """Return a copy, to learn on apart."""
        made = TaskTypes()
        header, words = self.to_words()
        made.restore_words(header, words)
        return made

    def to_words(self) -> tuple[dict[str, Any], Floats]:
        """Return a header and the records, one after the other: what a checkpoint keeps."""
        self.settle()
        header = {
            "types": list(self.models),
            "ended": [list(pair) for pair in self.ended.items()],
            "beyond": self.beyond,
        }
        return header, np.concatenate([np.zeros(0), *(model.words for model in self.models.values())])

    def restore_words(self, header: dict[str, Any], words: Floats) -> None:
        """Take back what `to_words` gave."""
        records = words.reshape(len(header["types"]), WORDS)
        self.models = {int(number): SizeTime(records[row].copy()) for row, number in enumerate(header["types"])}
        self.ended = {int(number): int(count) for number, count in header["ended"]}
        self.beyond = int(header["beyond"])


def _columns(ended: Ints, sizes: Floats) -> tuple[Floats, Floats, Ints]:
    """Return sizes, 0 where one is no number above 0, seconds, and running workers of rows of ended instances."""
    known = np.where(np.isfinite(sizes) & (sizes > 0.0), sizes, 0.0)
    return known, np.maximum(ended[:, at.ENDED_NS], 1) * NS, ended[:, at.ENDED_RUNNING].copy()
