"""Words that an older version wrote, in the layout of this one: fields keep their names, new ones begin empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.models import weighting
from advisor.models.layout import AT, FIELDS, LAYOUT, WORDS, empty_record

# Fields that a layout had not, of those in `FIELDS`; all others stood in the same order.
LACKING: Mapping[str, frozenset[str]] = {
    "base-1": frozenset(
        (
            "w_cores", "drift_centre", "drift_rate", "drift_levels", "drift_rise", "drift_fall", "drift_sum",
            "drift_square", "changes", "outliers", "changed_at", "changed_by", "running_high",
        )
    ),
    LAYOUT: frozenset(),
}  # fmt: skip
READABLE = frozenset(LACKING)


def words_of(layout: str) -> int:
    """Return the words a component has in a readable layout."""
    return sum(words for name, words, _, _ in FIELDS if name not in LACKING[layout])


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
    for name, count, _, _ in FIELDS:
        if name not in LACKING[layout]:
            new[..., AT[name], :] = old[..., start : start + count, :]
            start += count
    _know_cores(new)
    return new.view(words.dtype)


def _know_cores(words: NDArray[np.uint64]) -> None:
    floats = words.view(np.float64)
    low, high = (floats[..., AT[name].start, :] for name in ("p_low", "p_high"))
    solved = floats[..., AT["w_floor"].start, :] > 0
    some = weighting.packed_cores(np.where(solved, low, 0.0), np.where(solved, high, 0.0))
    words[..., AT["w_cores"].start, :] = some.view(np.uint64)
