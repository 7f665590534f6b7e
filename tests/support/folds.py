"""Rows folded by the kernels alone: into sums, and into records of a learner where there are any."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.models import contention
from advisor.models.asked_points import room_of
from advisor.models.fold import ABSENT, KERNELS
from advisor.models.learner_layout import LearnerTable
from advisor.models.records import RecordTable
from advisor.models.table import Table

NO_CONTENTION = RecordTable(contention.FIELDS, contention.LAYOUT).words
ROOMS = {axes: room_of(axes) for axes in range(2, 6)}


class Changes(NamedTuple):
    """Changes of speed that a batch revealed (k,): their components, the rows of the batch, log2 of the ratios."""

    slots: np.ndarray
    rows: np.ndarray
    log2_ratio: np.ndarray


def fold(
    table: Table, learners: LearnerTable | None, slots: np.ndarray, x: np.ndarray, p: np.ndarray, t: np.ndarray,
    count: np.ndarray | None = None, machine: np.ndarray | None = None,
) -> Changes:  # fmt: skip
    """Fold rows; component i has the record i of `learners`. `x` is (n,), or (n, d) of more predictors."""
    n = len(slots)
    slots = np.array(slots, np.int64)
    predictors = np.array(x[:, None] if x.ndim == 1 else x, np.float64, order="C")
    axes = 1 + predictors.shape[1]
    counts = np.ones(n) if count is None else np.array(count, np.float64)
    machines = np.full(n, ABSENT) if machine is None else np.array(machine, np.int64)
    rows, ratios = np.empty(n, np.int64), np.empty(n)
    found = KERNELS.fold_rows(
        table.records, slots, *_records(learners, slots, axes), axes, predictors, np.array(p, np.float64),
        np.array(t, np.float64), counts, machines, NO_CONTENTION, np.full(n, ABSENT), np.zeros(n), *ROOMS[axes], rows,
        ratios,
    )  # fmt: skip
    return Changes(slots[rows[:found]], rows[:found], ratios[:found])


def _records(learners: LearnerTable | None, slots: np.ndarray, axes: int) -> tuple[np.ndarray, np.ndarray]:
    if learners is None:
        return LearnerTable(axes).words, np.full(len(slots), ABSENT)
    return learners.words, np.array(slots, np.int64)
