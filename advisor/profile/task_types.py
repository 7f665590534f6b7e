"""Ends of instances, sampled by task type for the models of task types and of components."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary, limits
from advisor.models.size_time import rows_by_type
from advisor.profile import layout as at

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TYPES_MAX: Final = limits.TASK_TYPES_MAX
NS: Final = 1e-9
LEARNED_ALL: Final = 1_024  # instances of a type that are handed on each; then one in two, in four … stands for as many


class Instances(NamedTuple):
    """Instances that ended, as columns (n,) to learn from."""

    types: Ints  # numbers of the strings that name their types
    times: Floats  # seconds
    sizes: Floats  # as they were given, 0 where none was
    running: Ints  # workers that ran a task when the instance ended, its own among them
    counts: Ints  # instances that each stands for


class InstanceSample:
    """Chooses which instances of a run are learned, in memory that does not grow with them."""

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}  # instances of each type that were looked at

    def sample_ended(self, ended: Ints, sizes: Floats) -> Instances:
        """Return rows to learn: all of a type's first instances, then fewer and fewer, each for as many.

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
        times = np.maximum(ended[:, at.ENDED_NS], 1) * NS
        return Instances(kinds[taken], times[taken], sizes[taken], ended[taken, at.ENDED_RUNNING], stands[taken])
