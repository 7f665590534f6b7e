"""Observations as columns, their validation row by row, and the receipt for a batch.

A row is (component, predictor x, cores p, elapsed_s t) and optional fields. A batch holds the rows as columns; `component`
is an index into a list of names. Bad rows are refused one by one: accepted + refused = sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.domain import limits
from advisor.domain.answers import Refusals
from advisor.domain.names import NAME_BOUND, normalised_name
from advisor.errors import InvalidValue, TooLarge, Unsupported, shorten

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Optional fields that this version learns from, and those that it carries and counts only.
LEARNED_FIELDS = ("count",)
COUNTED_FIELDS = ("ok", "running")
CARRIED_FIELDS = ("network", "record", "entered", "machine", "active_cores", "measures")
OPTIONAL_FIELDS = (*LEARNED_FIELDS, *COUNTED_FIELDS, "dimensions", *CARRIED_FIELDS)

UNRESOLVED = -1  # a name that no slot has been given yet


class ComponentNames:
    """A growing list of component names, numbered from 0, with the slot each has in one engine.

    `slots` is a cache that the engine fills: a name is resolved once per list, not once per row. The cache is of the engine
    that filled it, `owner`; another one begins it anew. A name that is no name keeps its number; its rows are refused.
    """

    __slots__ = ("names", "owner", "slots", "valid")

    def __init__(self, names: Sequence[object] = ()) -> None:
        self.names: list[str] = []
        self.owner: object = None
        self.slots: Ints = np.empty(0, np.int64)
        self.valid: Bools = np.empty(0, np.bool_)
        self.extend(names)

    def __len__(self) -> int:
        return len(self.names)

    def slots_of(self, owner: object) -> Ints:
        """Return the cache of `owner`'s slots, to be filled by it."""
        if self.owner is not owner:
            self.owner = owner
            self.slots = np.full(len(self.names), UNRESOLVED, np.int64)
        return self.slots

    def extend(self, names: Sequence[object]) -> None:
        """Append names. Cost O(n).

        Raises
        ------
        InvalidValue
            When they are no list of names at all.
        """
        if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
            raise InvalidValue("components", names, "a list of names")
        names = list(names)
        normal = [normalised_name(name) for name in names]
        # What is no name is kept as it may be shown in an error.
        self.names += [str(shorten(raw)) if name is None else name for raw, name in zip(names, normal, strict=True)]
        self.valid = np.concatenate([self.valid, np.array([name is not None for name in normal], np.bool_)])
        self.slots = np.concatenate([self.slots, np.full(len(normal), UNRESOLVED, np.int64)])


@dataclass(frozen=True, slots=True)
class Misread:
    """Rows that came in no readable form: masks (n,) by code, disjoint, and what the first of them were."""

    codes: Mapping[str, Bools]
    values: Mapping[int, Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """A batch of n observations.

    Attributes
    ----------
    components : ComponentNames
    index : int64 array (n,)
        The component of each row, as its number in `components`.
    predictor, cores, elapsed_s : float64 arrays (n,)
        x (no unit, 0 to 2**60), p (cores, fractions allowed) and t (seconds).
    count : int64 array (n,) or None
        Equal runs that each row stands for; t is then their mean. None means 1.
    ok : bool array (n,) or None
        False marks a failed run: counted, not learned.
    running : bool array (n,) or None
        True marks a run not yet ended, t being a lower bound: counted, not learned.
    carried : mapping
        Per optional field that is not learned yet, how many rows had it.
    misread : Misread or None
        Rows refused before their values were looked at; they keep their place, with any values.
    """

    components: ComponentNames
    index: Ints
    predictor: Floats
    cores: Floats
    elapsed_s: Floats
    count: Ints | None = None
    ok: Bools | None = None
    running: Bools | None = None
    carried: Mapping[str, int] = field(default_factory=dict[str, int])
    misread: Misread | None = None
    further: Floats | None = None
    machine: Ints | None = None
    machines: tuple[str, ...] = ()
    measures: Mapping[str, Floats] = field(default_factory=dict[str, Floats])

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: Any) -> Columns:
        """Return the batch of the given rows (indices, mask or slice), for tests and cuts."""
        optional = {key: None if (v := getattr(self, key)) is None else v[rows] for key in ("count", "ok", "running")}
        return replace(
            self,
            index=self.index[rows],
            predictor=self.predictor[rows],
            cores=self.cores[rows],
            elapsed_s=self.elapsed_s[rows],
            carried={},
            misread=self.misread and Misread({code: mask[rows] for code, mask in self.misread.codes.items()}, {}),
            **optional,
        )


# One line a check: code, what is bad about a row. In order: the first that matches names the refusal.
BOUNDS: Mapping[str, tuple[str, float, float]] = {
    "invalid_predictor": ("predictor", 0.0, limits.PREDICTOR_MAX),
    "invalid_cores": ("cores", limits.CORES_MIN, limits.CORES_MAX),
    "invalid_elapsed_s": ("elapsed_s", limits.ELAPSED_MIN_S, limits.ELAPSED_MAX_S),
    "invalid_count": ("count", 1, limits.COUNT_MAX),
}


def bound_text(code: str) -> str:
    """Return the bound that a refusal code stands for, in words."""
    if code in BOUNDS:
        _, low, high = BOUNDS[code]
        return f"a finite number from {low:g} to {high:g}"
    return _BOUND_TEXTS.get(code, code)


_BOUND_TEXTS: Mapping[str, str] = {
    "invalid_name": NAME_BOUND,
    "too_many_components": "a known component, or fewer components",
    "invalid_row": "[component, predictor, cores, elapsed_s, {optional}]: a name, numbers, a map of known fields",
    "unknown_key": f"one of {', '.join(OPTIONAL_FIELDS)}",
    "unsupported": "one predictor value a row",
}


def refusals_of(codes: Mapping[str, Bools], columns: Columns) -> Refusals:
    """Return the refusals for `codes` (code -> mask of rows (n,), disjoint), with the first rows' values."""
    by_code = {code: int(np.count_nonzero(mask)) for code, mask in codes.items()}
    by_code = {code: n for code, n in by_code.items() if n}
    if not by_code:
        return Refusals()
    earliest = sorted(
        (int(row), code) for code in by_code for row in np.flatnonzero(codes[code])[: limits.FIRST_REFUSALS]
    )
    first = tuple((row, code, _offending(columns, row, code)) for row, code in earliest[: limits.FIRST_REFUSALS])
    return Refusals(sum(by_code.values()), by_code, first)


def _offending(columns: Columns, row: int, code: str) -> Any:
    if columns.misread is not None and row in columns.misread.values:
        return columns.misread.values[row]
    if code in BOUNDS:
        values = getattr(columns, BOUNDS[code][0])
        return None if values is None else values[row].item()
    return columns.components.names[int(columns.index[row])]


def bad_rows(columns: Columns) -> dict[str, Bools]:
    """Return, by code, the masks of rows whose values lie outside their domain; empty when all are good. Cost O(n).

    The masks are disjoint: a row counts under the first code it earns.
    """
    checks: dict[str, Bools] = {}
    if not columns.components.valid.all():
        checks["invalid_name"] = ~columns.components.valid[columns.index]
    for code, (name, low, high) in BOUNDS.items():
        values = getattr(columns, name)
        if values is None or not len(values):
            continue
        # min and max find NaN as well: a comparison with NaN is False.
        if not (values.min() >= low and values.max() <= high):
            with np.errstate(invalid="ignore"):
                checks[code] = ~((values >= low) & (values <= high))
    if not checks and columns.misread is None:
        return {}
    seen = np.zeros(len(columns), np.bool_)
    found: dict[str, Bools] = {}
    misread: Mapping[str, Bools] = {} if columns.misread is None else columns.misread.codes
    for code, mask in chain(misread.items(), checks.items()):
        new = mask & ~seen
        seen |= mask
        if new.any():
            found[code] = found[code] | new if code in found else new
    return found


def columns_of(
    components: ComponentNames,
    index: ArrayLike,
    predictor: ArrayLike | None,
    cores: ArrayLike,
    elapsed_s: ArrayLike,
    **optional: Any,
) -> Columns:
    """Return a batch from arrays of one length; `predictor` None means 1 everywhere.

    Raises
    ------
    InvalidValue
        When a column is no numeric vector of the length of `index`, or an index lies outside `components`.
    TooLarge
        Beyond ROWS_BATCH_MAX rows.
    Unsupported
        When `dimensions` is given and not 1.
    """
    rows = _vector("index", index, np.int64, None)
    n = len(rows)
    if n > limits.ROWS_BATCH_MAX:
        raise TooLarge("rows", n, limits.ROWS_BATCH_MAX, "cut the batch")
    if n and not (rows.min() >= 0 and rows.max() < len(components)):
        worst = rows.min() if rows.min() < 0 else rows.max()
        raise InvalidValue("index", int(worst), f"a component's number from 0 to {len(components) - 1}")
    dimensions = optional.pop("dimensions", None)
    if dimensions is not None and not _all_one(dimensions):
        raise Unsupported(
            f"dimensions is {shorten(dimensions)!r}: vector predictors are not learned by this version",
            field="dimensions", value=dimensions, bound=1, hint="send one predictor value a row",
        )  # fmt: skip
    count, ok, running = (optional.pop(key, None) for key in ("count", "ok", "running"))
    unknown = sorted(set(optional) - set(CARRIED_FIELDS))
    if unknown:
        raise InvalidValue(unknown[0], optional[unknown[0]], "absent: an observation has no such field")
    return Columns(
        components,
        rows,
        np.ones(n) if predictor is None else _vector("predictor", predictor, np.float64, n),
        _vector("cores", cores, np.float64, n),
        _vector("elapsed_s", elapsed_s, np.float64, n),
        count=None if count is None else _vector("count", count, np.int64, n),
        ok=None if ok is None else _vector("ok", ok, np.bool_, n),
        running=None if running is None else _vector("running", running, np.bool_, n),
        carried={key: n for key, value in optional.items() if value is not None},
    )


def _all_one(values: ArrayLike) -> bool:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        return False
    return array.dtype.kind in "iu" and bool((array == 1).all())


def _vector(name: str, values: ArrayLike, dtype: Any, length: int | None) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidValue(name, "a masked array", "a vector without a mask", "leave the masked rows out")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InvalidValue(name, values, "a vector of numbers") from error
    if array.size == 0:
        array = array.astype(dtype)
    kinds = {np.float64: "fiu", np.int64: "iu", np.bool_: "b"}[dtype]
    if array.ndim != 1 or array.dtype.kind not in kinds:
        wanted = {np.float64: "numbers", np.int64: "integers", np.bool_: "booleans"}[dtype]
        raise InvalidValue(name, values, f"a vector of {wanted}")
    if length is not None and len(array) != length:
        raise InvalidValue(name, len(array), f"a vector of {length} values, as index has")
    if dtype is np.int64 and array.dtype == np.uint64 and array.size and array.max() > np.uint64(2**63 - 1):
        raise InvalidValue(name, int(array.max()), "an integer below 2**63")
    with np.errstate(over="ignore"):  # a wider float beyond this one's range becomes infinite: its row is refused
        return np.ascontiguousarray(array, dtype)
