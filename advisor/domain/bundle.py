"""The bundle: curves of named components as flat bytes, for schedulers that cannot wait for an answer. Layout and checks.

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
`advisor.models.bundled` says how they are evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.domain.allowed_cores import AllowedCores
from advisor.domain.limits import ALLOWED_COUNTS_MAX, CORES_MAX, CORES_MIN
from advisor.errors import MalformedMessage, UnknownComponent

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
SEEN_MOST = 16  # as many as a component keeps
RUNS_MOST = 2.0**53  # on one count
NOISE_MOST = 2.0**232  # as large as a sum of a learner may be

X_KNOTS_MAX = 1024  # 128 octaves in steps of an eighth
P_KNOTS_MAX = 128  # all counts to 16 and 2**(1/4) apart up to 2**20, and below 1: 90
# What keeps every step of an evaluation finite, far beyond what the service writes.
LOG_BOUND = 2.0**12  # of every logarithm in a record: what a double can be, and more
LOG_ERROR = 1e-9  # of the log2 of a knot
STEP_LEAST = 2.0**-10


class BundleRecord(NamedTuple):
    """One component's record, before it is packed, or as it was read."""

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


class Directory:
    """The components of a bundle, checked once, so that whoever evaluates it needs no further check.

    Raises MalformedMessage when the bytes are no bundle, or break a rule of the format. Cost O(bytes).

    Attributes
    ----------
    version : int
        Of the service's curves: what `since` takes.
    level : float
        Share of runs that the intervals hold.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < HEADER.size or len(data) % WORD:
            raise _malformed("bytes", len(data))
        magic, form, count, self.version, size, self.level, names_at = HEADER.unpack_from(data)
        if magic != MAGIC:
            raise _malformed("magic", magic)
        if form != FORMAT:
            raise _malformed("format", form)
        if size != len(data):
            raise _malformed("bytes", size)
        if names_at != HEADER.size + PLACE.size * count or names_at > size:
            raise _malformed("components", count)
        if not 0.0 < self.level < 1.0:
            raise _malformed("level", self.level)
        self.words: Floats = np.frombuffer(data, "<f8").astype(np.float64)  # float64 array: the whole bundle
        names: list[bytes] = []
        starts: list[int] = []
        for i in range(count):
            name_at, length, at = PLACE.unpack_from(data, HEADER.size + PLACE.size * i)
            name = data[names_at + name_at : names_at + name_at + length]
            if not length or len(name) != length or (names and name <= names[-1]):
                raise _malformed("name", i)
            if at % WORD or at < names_at or at + WORD * HEAD_WORDS > size:
                raise _malformed("record", i)
            names.append(name)
            starts.append(at // WORD)
            _check_record(self.words[at // WORD :], i)
        try:
            self.names = tuple(name.decode() for name in names)
        except UnicodeDecodeError as error:
            raise _malformed("name", str(error)) from error
        self.starts = tuple(starts)  # of each component, in order of its name: where its record begins in `words`
        self._places = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        """Return how many components it has."""
        return len(self.names)

    def __iter__(self) -> Iterator[BundleRecord]:
        """Yield the records."""
        for name, start in zip(self.names, self.starts, strict=True):
            yield BundleRecord(name, self.words[start : start + length_of(self.words[start : start + HEAD_WORDS])])

    def start(self, name: str) -> int:
        """Return where a component's record begins in `words`; raises UnknownComponent."""
        place = self._places.get(name)
        if place is None:
            raise UnknownComponent(name)
        return self.starts[place]


def tables_end(head: Sequence[float] | Floats) -> int:
    """Return where the tables of a record end, from its head; listed counts follow."""
    if head[KIND] == ASK:
        return HEAD_WORDS
    nx, count = int(head[X_KNOTS]), int(head[P_KNOTS])
    return HEAD_WORDS + 2 * count + 3 * nx * count


def length_of(head: Floats) -> int:
    """Return the words of a record from its head."""
    return seen_at(head) + 2 * int(head[SEEN])


def seen_at(head: Sequence[float] | Floats) -> int:
    """Return where the counts that were seen begin in a record, from its head; the runs on each follow."""
    return tables_end(head) + int(head[ALLOWED_LISTED])


def allowed_words(allowed: AllowedCores) -> tuple[Floats, Floats]:
    """Return the four words of a record's head that say which counts are allowed, and those listed behind its tables."""
    listed = allowed.few_members
    head = allowed.least, allowed.most, 1 if listed else allowed.multiple_of, len(listed)
    return np.array(head, np.float64), np.array(listed, np.float64)


def allowed_of(words: Sequence[float], at: int) -> AllowedCores:
    """Return the counts that the record at a place allows."""
    least, most, step, count = (int(words[at + ALLOWED_LEAST + k]) for k in range(4))
    end = at + tables_end(words[at : at + HEAD_WORDS]) if count else 0
    return AllowedCores(least, most, step, listed=tuple(int(word) for word in words[end : end + count]))


def _check_record(words: Floats, i: int) -> None:
    head = words[:HEAD_WORDS]
    kind, nx, count = head[KIND], head[X_KNOTS], head[P_KNOTS]
    _check_allowed(words, i)
    if kind == ASK:
        return
    if kind != GRID or not np.isfinite(head).all():
        raise _malformed("kind", i)
    if not (2 <= nx <= X_KNOTS_MAX and nx % 1 == 0 and 2 <= count <= P_KNOTS_MAX and count % 1 == 0):
        raise _malformed("knots", i)
    if length_of(head) > len(words):
        raise _malformed("record", i)
    _check_listed(words[tables_end(head) : seen_at(head)], head, i)
    _check_seen(words[seen_at(head) : length_of(head)], i)
    body = words[HEAD_WORDS : tables_end(head)]
    n = int(count)
    knots, logs = body[:n], body[n : 2 * n]
    if not (knots[0] >= CORES_MIN and knots[-1] <= CORES_MAX and (np.diff(knots) > 0).all()):
        raise _malformed("cores", i)
    whole = knots[knots >= 1.0]
    if not len(whole) or whole[0] != 1.0 or (whole % 1 != 0).any() or not (np.diff(logs) > 0).all():
        raise _malformed("cores", i)
    if not ((np.abs(body[2 * n :]) <= LOG_BOUND).all() and (np.abs(logs - elementary.log2(knots)) <= LOG_ERROR).all()):
        raise _malformed("tables", i)
    if not (STEP_LEAST <= head[X_STEP] <= LOG_BOUND and (np.abs(head[[X_ZERO, X_FIRST]]) <= LOG_BOUND).all()):
        raise _malformed("predictors", i)


def _check_allowed(words: Floats, i: int) -> None:
    least, most, step, listed = words[ALLOWED_LEAST : ALLOWED_LISTED + 1].tolist()
    whole = all(1.0 <= each <= CORES_MAX and each % 1 == 0 for each in (least, most, step))
    few = 0.0 <= listed <= ALLOWED_COUNTS_MAX and listed % 1 == 0 and not (listed and words[KIND] == ASK)
    if not (whole and few and least <= most and least % step == 0 and most % step == 0):
        raise _malformed("allowed", i)
    if not (words[LAST] == 0.0 or CORES_MIN <= words[LAST] <= CORES_MAX):
        raise _malformed("last", i)
    seen = words[SEEN]
    few = 0.0 <= seen <= SEEN_MOST and seen % 1 == 0 and not (seen and words[KIND] == ASK)
    if not (few and 0.0 <= words[NOISE] <= NOISE_MOST):
        raise _malformed("seen", i)


def _check_listed(listed: Floats, head: Floats, i: int) -> None:
    if len(listed) and not (
        listed[0] == head[ALLOWED_LEAST] and listed[-1] == head[ALLOWED_LEAST + 1] and head[ALLOWED_LEAST + 2] == 1.0
        and (listed % 1 == 0).all() and (np.diff(listed) > 0).all()
    ):  # fmt: skip
        raise _malformed("allowed", i)
    if not CORES_MIN <= head[P_LOW] <= head[P_HIGH] <= CORES_MAX:
        raise _malformed("cores", i)


def _check_seen(words: Floats, i: int) -> None:
    counts, runs = words.reshape(2, -1)
    good = (counts >= CORES_MIN) & (counts <= CORES_MAX) & (runs >= 1.0) & (runs <= RUNS_MOST)
    if not (good.all() and (np.diff(counts) > 0).all()):
        raise _malformed("seen", i)


def _malformed(what: str, value: object) -> MalformedMessage:
    return MalformedMessage(f"bytes that are no bundle of curves: {what}", field=f"bundle.{what}", value=value)
