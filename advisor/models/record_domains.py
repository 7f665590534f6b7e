"""What the words of a task type's record, or of a program's, may be: what rows lead to, and no computation trips over.

Checksums do not tell who wrote; a record is looked at when it is taken back from bytes. Bounds are wide: sums are rounded,
merged and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from advisor.domain.limits import CORES_MAX, ELAPSED_MAX_S, PROGRAM_SIZE_MAX
from advisor.domain.vectors import Bools, Floats
from advisor.models.log_cells import HIGH, LEVEL, LOW, RANGE_WORDS, SEEN
from advisor.models.program_model import ROOT_WEIGHTED, SCORED_AT, SCORES, ProgramModel
from advisor.models.program_terms import INTERMEDIATE
from advisor.models.size_time import CELLS, LOG, RATE_CELLS, SIZE, TIME, N, SizeTime

WHOLE_MOST = 2.0**62  # instances, runs
SUM_MOST = 1e60  # seconds, or sizes, of as many at the greatest
LEVEL_MOST, KEY_MOST = 16, 2**16  # of cells in log2, for all that a double can be
ROUNDED = 1.0 + 1e-9

Checks = Iterator[tuple[str, bool | np.bool_ | Bools]]


def strange_type(words: Floats) -> str | None:
    """Return the first field of a task type's record that no instances lead to; None where all is well. Cost O(words)."""
    return _first(words, _of_type(SizeTime(words)))


def strange_program(words: Floats) -> str | None:
    """Return the first field of a program's record that no runs lead to; None where all is well. Cost O(words)."""
    return _first(words, _of_program(ProgramModel(words)))


def _first(words: Floats, checks: Checks) -> str | None:
    if not np.isfinite(words).all():
        return "a number"
    return next((name for name, good in checks if not np.all(good)), None)


def _of_type(record: SizeTime) -> Checks:
    number = record.head_field
    yield "count", 0.0 < number("count") <= WHOLE_MOST
    yield "total", 0.0 < number("total") <= SUM_MOST
    for name in ("log_squares", "sized_total", "first", "size_low", "size_high"):
        yield name, 0.0 <= number(name) <= SUM_MOST
    yield "logs", abs(number("logs")) <= SUM_MOST
    for name in ("rows", "sized_rows"):
        yield name, number(name) == np.floor(number(name)) and 0.0 <= number(name) <= WHOLE_MOST
    yield "sized", 0.0 <= number("sized") <= ROUNDED * number("count")
    sized = number("sized_rows") > 0.0
    yield "size_low", number("size_low") <= number("size_high") and sized == (number("size_low") > 0.0)
    yield from _of_range("range", record.field_array("range"), CELLS, there=sized)
    cells = record.field_array("cells")
    yield "cells", (np.abs(cells) <= SUM_MOST) & ((cells >= 0.0) | (np.arange(len(cells))[:, None] == LOG))
    used = record.cells
    yield "cells", used[[N, SIZE, TIME]] > 0.0
    yield "cells", sized == (used.shape[1] > 0)
    means = used[SIZE] / used[N]
    yield "cells", used[TIME] / used[N] <= ROUNDED * ELAPSED_MAX_S
    yield "cells", np.diff(means) >= -1e-9 * means[1:]
    yield "cells", (means * ROUNDED >= number("size_low")) & (means <= ROUNDED * number("size_high"))
    yield from _of_range("rate_range", record.field_array("rate_range"), RATE_CELLS, there=number("rows") > 0.0)
    yield "rates", (record.field_array("rates") >= 0.0) & (record.field_array("rates") <= WHOLE_MOST)
    yield "rates", record.rates[1].sum() > 0.0
    yield "workers", (record.field_array("workers") >= 0.0) & (record.field_array("workers") <= SUM_MOST)


def _of_range(name: str, words: Floats, cells: int, *, there: bool) -> Checks:
    yield (
        name,
        len(words) == RANGE_WORDS and bool(words[SEEN] == 1.0) == there and bool((words == np.floor(words)).all()),
    )
    yield name, 0 <= words[LEVEL] <= LEVEL_MOST and bool((np.abs(words[[LOW, HIGH]]) <= KEY_MOST).all())
    level, low, high = (int(words[at]) for at in (LEVEL, LOW, HIGH))
    yield name, 0 <= (high >> level) - (low >> level) < cells


def _of_program(record: ProgramModel) -> Checks:
    number = record.head_field
    for name in ("runs", "spans", "scored_from"):
        yield name, number(name) == np.floor(number(name)) and 0.0 <= number(name) <= WHOLE_MOST
    yield "runs", number("runs") > 0.0
    for name in ("elapsed", "accounted", *SCORES):
        yield name, 0.0 <= number(name) <= SUM_MOST
    for kept, there in (("", True), ("kept_", number("scored_from") > 0.0)):
        for axis, most in (("n", PROGRAM_SIZE_MAX), ("p", CORES_MAX)):
            low, high = number(f"{kept}{axis}_low"), number(f"{kept}{axis}_high")
            yield f"{kept}{axis}_low", 0.0 < low <= high <= most if there else low == high == 0.0
    yield "scored_from", number("scored_from") == 0.0 or SCORED_AT <= number("scored_from") <= number("runs")
    for name in INTERMEDIATE:
        folds = record.folds(name)
        yield name, np.abs(folds) <= 1e300
        squares = np.sqrt(np.diagonal(folds, axis1=1, axis2=2))  # NaN where one is negative
        yield name, np.abs(folds) <= ROUNDED * squares[:, :, None] * squares[:, None, :]
        yield name, folds == folds.transpose(0, 2, 1)
        yield name, name in ROOT_WEIGHTED or folds[:, -2, -2] == np.floor(folds[:, -2, -2])
    for name, fit in record.kept().items():
        yield f"fit of {name}", (fit.weights >= 0.0) & (fit.weights <= 1e300) & (0.0 <= fit.error <= SUM_MOST)
