"""The bundle: curves of named components as flat bytes, for schedulers that cannot wait for an answer. Layout.

All is little-endian; offsets count bytes from the begin, and are multiples of 8.

======  =====================================================================================
header  magic (8 bytes), format u32, components u32, version u64, bytes u64, level f64,
        names' offset u64, 16 bytes of 0
places  a component: name's offset from the names u32, its bytes u32, record's offset u64; in the order of the names' bytes
names   UTF-8, without separators, filled up with zeros
record  float64 words: the head below, then np knots p, their log2, then tables of nx rows of np: a table's log2 times,
        then how far log2 of the interval reaches down, and up; then the allowed counts, ascending, where they are listed;
        then the counts that were seen, ascending, and the runs on each
======  =====================================================================================

Kinds: `ASK` (no tables: more than one predictor, or nothing learned; ask the service) and `GRID` (tables).
`adapters/c/advisor.c` checks and evaluates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain.allowed_cores import AllowedCores

Floats = NDArray[np.float64]

MAGIC = b"ADVCURVE"
FORMAT = 5
HEADER = Struct("<8sIIQQdQ16x")
PLACE = Struct("<IIQ")
WORD = 8

ASK, GRID = 0.0, 1.0

# The head of a record, word by word.
FIELDS = (
    "kind", "x_knots", "p_knots",
    "version",  # rows learned when it was made
    "runs",
    "x_low", "x_high", "p_low", "p_high",  # seen
    "value_error", "width_error",  # largest difference from the model's log2 between knots, as measured when it was made
    "x_zero",  # log2 x is never below
    "x_first", "x_step",  # the knots in log2 x
    "log_x_low", "log_x_high", "log_p_low", "log_p_high",  # log2 of what was seen
    "predictors",  # values of one predictor
    "last",  # the cores of the last run; 0: not known
    "allowed_least", "allowed_most", "allowed_step", "allowed_listed",  # the counts that it allows: see below
    "noise",  # variance of ln t of a run
    "seen",  # counts that were seen; 0: nobody knows the noise
)  # fmt: skip
AT = {name: place for place, name in enumerate(FIELDS)}
HEAD_WORDS = len(FIELDS)
(
    KIND, X_KNOTS, P_KNOTS, VERSION, RUNS, X_LOW, X_HIGH, P_LOW, P_HIGH, VALUE_ERROR, WIDTH_ERROR, X_ZERO, X_FIRST, X_STEP,
    LOG_X_LOW, LOG_X_HIGH, LOG_P_LOW, LOG_P_HIGH, PREDICTORS, LAST, ALLOWED_LEAST, _, _, ALLOWED_LISTED, NOISE, SEEN,
) = range(HEAD_WORDS)  # fmt: skip


class BundleRecord(NamedTuple):
    """One component's record, before it is packed."""

    name: str
    words: Floats


def pack(records: Sequence[BundleRecord], version: int, level: float) -> bytes:
    """Return the bundle of records; names must differ. Cost O(bytes)."""
    ordered = sorted(((record.name.encode(), record.words) for record in records), key=lambda pair: pair[0])
    names = b"".join(name for name, _ in ordered)
    names += bytes(-len(names) % WORD)
    names_at = HEADER.size + PLACE.size * len(ordered)
    at = names_at + len(names)
    name_at = 0
    places: list[bytes] = []
    for name, words in ordered:
        places.append(PLACE.pack(name_at, len(name), at))
        name_at += len(name)
        at += WORD * len(words)
    head = HEADER.pack(MAGIC, FORMAT, len(ordered), version, at, level, names_at)
    return b"".join([head, *places, names, *(words.astype("<f8").tobytes() for _, words in ordered)])


def allowed_words(allowed: AllowedCores) -> tuple[Floats, Floats]:
    """Return the four words of a record's head that say which counts are allowed, and those listed behind its tables."""
    listed = allowed.listed
    head = allowed.least, allowed.most, 1 if listed else allowed.multiple_of, len(listed)
    return np.array(head, np.float64), np.array(listed, np.float64)
