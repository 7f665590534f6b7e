"""Words that an older version wrote, in the layout of this one: fields keep their names, new ones begin empty.

Support points of earlier versions held sums of log2 times in cells of the same kind; they become a learner's cells. Of a cell
of mean y and variance v of ln t the arithmetic mean is taken for e**(y + v / 2), as of log-normal times, and its scatter from
v; v is bounded, for the mean of wild times is a guess. Settings are chosen anew; intervals begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.models import contention, weighting
from advisor.models.fold import KERNELS, room_of
from advisor.models.layout import AT, COEFFICIENTS, FIELDS, FIRST_SOLVE, LAYOUT, WORDS, empty_record
from advisor.models.learner_layout import AXES_MAX, CELLS, MACHINES_MAX, ZERO, LearnerTable, key_bits
from advisor.models.logarithm import LN2, SHORT_ABOVE, short

# The weighting model before "base-5": coefficients of powers of v = (x - w_origin) / w_scale, in whole words.
_WHOLE_MODEL = (("w_coefficients", 2 * COEFFICIENTS), ("w_origin", 1), ("w_scale", 1))
# Fields that a layout had not, of those in `FIELDS`; all others stood in the same order.
_IN_4 = frozenset(("least_gram_more", "least_right_more"))
_IN_3 = _IN_4 | {"explored_s"}
LACKING: Mapping[str, frozenset[str]] = {
    "base-1": _IN_3 | {
        "w_cores", "drift_centre", "drift_rate", "drift_levels", "drift_rise", "drift_fall", "drift_sum", "drift_square",
        "changes", "outliers", "changed_at", "changed_by", "running_high", "dimensions",
    },
    "base-2": _IN_3,
    "base-3": _IN_4,
    "base-4": frozenset[str](),
    LAYOUT: frozenset(),
}  # fmt: skip
READABLE = frozenset(LACKING)


def words_of(layout: str) -> int:
    """Return the words a component has in a readable layout."""
    return sum(words for _, words in _fields_of(layout))


def _fields_of(layout: str) -> Iterator[tuple[str, int]]:
    """Yield (field, words) of a readable layout in their order."""
    for name, words, *_ in FIELDS:
        if name == "w_coefficients" and layout != LAYOUT:
            yield from _WHOLE_MODEL
        elif name not in LACKING[layout]:
            yield name, words


def upgraded(words: NDArray[Any], layout: str) -> NDArray[Any]:
    """Return words (..., w, n) of a readable layout as words (..., WORDS, n) of this one. Cost O(words).

    Where the weighting model was solved, the cores it knows are those seen, which the older layout did not keep apart. A test
    for change begins at its next solve.
    """
    if layout == LAYOUT:
        return words
    old = np.ascontiguousarray(words).view(np.uint64)
    new = np.empty((*old.shape[:-2], WORDS, old.shape[-1]), np.uint64)
    new[:] = empty_record().view(np.uint64)[:, None]
    start = 0
    model: dict[str, Any] = {}
    for name, count in _fields_of(layout):
        part = old[..., start : start + count, :]
        if name in dict(_WHOLE_MODEL):
            model[name] = part.view(np.float64)
        else:
            new[..., AT[name], :] = part
        start += count
    _keep_model(new, **model)
    if "w_cores" in LACKING[layout]:
        _know_cores(new)
    if not LACKING[layout]:
        return new.view(words.dtype)
    floats = new.view(np.float64)
    for name in _IN_4:  # what rows at the fewest cores would have added there
        floats[..., AT[name], :] = np.where(floats[..., AT["least_gram"].start, None, :] > 0.0, np.nan, 0.0)
    return new.view(words.dtype)


def _keep_model(words: NDArray[np.uint64], w_coefficients: Any, w_origin: Any, w_scale: Any) -> None:
    """Pack weighting models, of their values over the predictors seen."""
    floats = words.view(np.float64)
    scale = np.maximum(w_scale[..., 0, :], 1e-30)
    low, high = ((floats[..., AT[name].start, :] - w_origin[..., 0, :]) / scale for name in ("w_low", "w_high"))
    packed = np.vectorize(short, otypes=[np.uint64])
    powers = np.moveaxis(w_coefficients, -2, 0)
    for j in range(COEFFICIENTS):
        above, below = (
            packed(weighting.bernstein(c[0], c[1], c[2], c[3], low, high, j))
            for c in (powers[:COEFFICIENTS], powers[COEFFICIENTS:])
        )
        words[..., AT["w_coefficients"].start + j, :] = above << np.uint64(SHORT_ABOVE) | below


def _know_cores(words: NDArray[np.uint64]) -> None:
    floats = words.view(np.float64)
    low, high = (floats[..., AT[name].start, :] for name in ("p_low", "p_high"))
    solved = floats[..., AT["w_floor"].start, :] > 0
    unit, bits = weighting.CORES_UNIT, weighting.CORES_BITS
    some = np.floor(np.where(solved, low, 0.0) * unit).astype(np.int64) << bits
    some |= np.ceil(np.where(solved, high, 0.0) * unit).astype(np.int64)
    words[..., AT["w_cores"].start, :] = some.view(np.uint64)


def contentions(words: NDArray[Any]) -> NDArray[Any]:
    """Return records (n, w) of contention with the former model as records of now: what is known stays, epochs begin anew."""
    if words.shape[1] != contention.FORMER_WORDS:
        raise ValueError(f"{words.shape[1]} words a record of contention")
    new = np.zeros((len(words), contention.END), np.uint64)
    new[:, : contention.START] = words[:, : contention.START]
    rows = new[:, contention.ROWS].astype(np.uint64)
    new[:, contention.START], new[:, contention.SOLVE_AT] = rows, rows + np.uint64(FIRST_SOLVE)
    return new


# Support points, as the version before learners kept them: layout to number of axes, and (field, words) of a record.
SUPPORT_POINTS: Mapping[str, int] = {f"support-1-{axes}": axes for axes in range(2, AXES_MAX + 1)}
POINTS, SCORES, KEY_BITS = 48, 64, 12
ZERO_LOG2 = -61.0  # centres below stood for a predictor of 0
VARIANCE_MAX = 1.0
PINNED_BEFORE = ("component", "pin", "machines")  # words that keep their meaning


def _fields(axes: int) -> tuple[tuple[str, int], ...]:
    singles = ("component", "seen", "points", "scores", "covered", "pin", "machines", "error", "bias")
    return (
        *((name, 1) for name in singles), ("coarseness", axes), ("machine", MACHINES_MAX), ("key", POINTS), ("runs", POINTS),
        ("y", POINTS), ("yy", POINTS), ("low", POINTS), ("high", POINTS), ("z", POINTS * axes),
        ("zz", axes * (axes + 1) // 2), ("zy", axes), ("score", SCORES),
    )  # fmt: skip


def cells_of_points(words: NDArray[Any], there: NDArray[np.bool_], axes: int) -> NDArray[np.uint64]:
    """Return records (n, w) of support points over `axes` axes as records of a learner. Cost O(n cells**3)."""
    at: dict[str, slice] = {}
    start = 0
    for name, width in _fields(axes):
        at[name] = slice(start, start + width)
        start += width
    if words.shape[1] != start:
        raise ValueError(f"{words.shape[1]} words a record of support points")
    table, single, room = LearnerTable(axes, len(words)), LearnerTable(axes, 1), room_of(axes)
    for row in np.flatnonzero(there).tolist():
        old = np.ascontiguousarray(words[row])
        whole, floats = old.view(np.int64), old.view(np.float64)
        for name in PINNED_BEFORE:
            table.count(name)[row] = whole[at[name].start]
        table.integers("machine")[row] = whole[at["machine"]]
        points = int(whole[at["points"].start])
        runs, y, yy = (floats[at[name]][:points] for name in ("runs", "y", "yy"))
        centres = floats[at["z"]].reshape(axes, POINTS)[:, :points] / runs
        machines = whole[at["key"]][:points] >> (KEY_BITS * axes)
        mean = y / runs * LN2
        variance = np.clip(yy / runs * LN2 * LN2 - mean * mean, 0.0, VARIANCE_MAX)
        times = elementary.exp(np.clip(mean + 0.5 * variance, -20.7, 20.7))
        for cell in range(points):  # one by one: a learner has fewer cells, and makes them coarser where it must
            single.words[0] = single.empty_record()
            single.integers("machine")[0] = table.integers("machine")[row]
            single.count("machines")[0] = table.count("machines")[row]
            single.count("cells")[0], single.integers("key")[0, 0] = 1, int(machines[cell]) << (key_bits(axes) * axes)
            single.floats("runs")[0, 0], single.floats("mean")[0, 0] = runs[cell], times[cell]
            single.floats("scatter")[0, 0] = runs[cell] * times[cell] ** 2 * variance[cell]
            z = np.where(centres[:, cell] < ZERO_LOG2, ZERO, centres[:, cell] * LN2)
            single.floats("centre")[0].reshape(axes, CELLS)[:, 0] = z
            single.floats("least")[0, : axes - 1] = np.where(z[:-1] > ZERO, z[:-1], np.inf)
            KERNELS.merge_cells_of(table.words, row, single.words, 0, axes)
        if points:
            table.count("seen")[row] = whole[at["seen"].start]
            table.column("seen_runs")[row] = max(float(whole[at["seen"].start]), 1.0)
            KERNELS.settle_one(table.words, row, axes, room.solution, room.scratch)
    return table.words[: len(words)].view(np.uint64)
