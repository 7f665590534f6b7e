"""Observations as columns, their validation row by row, and the receipt for a batch.

A row is (component, predictor x, cores p, elapsed_s t) and optional fields. A batch holds the rows as columns; `component`
is an index into a list of names. Bad rows are refused one by one: accepted + refused = sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from advisor.domain import limits, vectors
from advisor.domain.answers import Refusals
from advisor.domain.names import normalised_name
from advisor.domain.rows import BOUNDS, FIELDS, KILLED, REFUSALS, killed_code, killed_codes, texts_as_labels
from advisor.domain.vectors import Bools, Floats, Ints, Words
from advisor.errors import InvalidValue, shorten

UNRESOLVED = -1  # a name that no slot has been given yet


class ComponentNames:
    """A growing list of component names, numbered from 0, with the slot each has in one engine.

    `slots` is a cache that the engine fills: a name is resolved once per list, not once per row. The cache is of the engine
    that filled it, `owner`; another one begins it anew. A name that is no name keeps its number; its rows are refused.
    """

    __slots__ = ("names", "owner", "pairs", "slots", "valid")

    def __init__(self, names: Sequence[object] = ()) -> None:
        self.names: list[str] = []
        self.owner: object = None
        self.pairs: ComponentNames | None = None
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

    def paired(self, suffix: str) -> ComponentNames:
        """Return the list where name i has the number 2 i, and with a suffix, always the same, 2 i + 1."""
        found = self.pairs = self.pairs or ComponentNames()
        new = self.names[len(found) // 2 :]
        if new:
            found.names += [each for name in new for each in (name, name + suffix)]
            found.valid = np.repeat(self.valid, 2)
            found.slots = np.concatenate([found.slots, np.full(2 * len(new), UNRESOLVED, np.int64)])
        return found

    def subset(self, numbers: Ints) -> ComponentNames:
        """Return a list of some of the names, by their numbers int64 (n,)."""
        return ComponentNames.of([self.names[number] for number in numbers.tolist()], self.valid[numbers])

    @classmethod
    def of(cls, names: list[str], valid: Bools) -> ComponentNames:
        """Return a list of names in normal form, with whether they are legal."""
        found = cls.__new__(cls)
        found.owner = found.pairs = None
        found.names, found.valid, found.slots = names, valid, np.full(len(names), UNRESOLVED, np.int64)
        return found

    def extend(self, names: Sequence[object]) -> None:
        """Append names. Cost O(n); raises InvalidValue when they are no list of names at all."""
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

    codes: dict[str, Bools]
    values: dict[int, Any]

    def select_rows(self, rows: Any, n: int) -> Misread:
        """Return what is left of it in the given ones of `n` rows."""
        places = {old: new for new, old in enumerate(np.arange(n)[rows].tolist()) if old in self.values}
        return Misread(
            {code: mask[rows] for code, mask in self.codes.items()},
            {new: self.values[old] for old, new in places.items()},
        )


@dataclass(frozen=True, slots=True)
class Columns:
    """A batch of n observations."""

    components: ComponentNames
    index: Ints  # int64 array (n,): the component of each row, as its number in `components`
    # predictor, cores, elapsed_s: float64 arrays (n,): x (no unit, 0 to 2**60; the first value where it has several), p
    # (cores, fractions allowed) and t (seconds)
    predictor: Floats
    cores: Floats
    elapsed_s: Floats
    # int64 array (n,) or None: equal runs that each row stands for; t is then their mean. None means 1.
    count: Ints | None = None
    ok: Bools | None = None  # bool array (n,) or None: False marks a failed run: counted, not learned
    # bool array (n,) or None: True marks a run not yet ended, t being a lower bound: counted, not learned
    running: Bools | None = None
    # int64 array (n,) or None: 1 + the place in `rows.KILLED` of what a run was killed for, 0 where it was not; its time and
    # its measures are lower bounds
    killed: Ints | None = None
    # rows refused before their values were looked at; they keep their place, with any values
    misread: Misread | None = None
    # float64 array (n, 3) or None: the second to the fourth value of each predictor, NaN behind its last. None means
    # that no row has them.
    further: Floats | None = None
    # int64 array (n,) or None: where each row ran, as its number in `machines`; -1 where none was named. None means
    # that no row names one.
    machine: Ints | None = None
    # machines' names, normalised, each once, in the order of the rows that first name them
    machines: tuple[str, ...] = ()
    # mapping of str to float64 array (n,): what else was measured, by name (of `limits.MEASURES`); NaN where it was
    # not. Without columns that are NaN throughout.
    measures: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    # int64 array (n,) or None: the network that each row ran in, as its number in `networks`; -1 where none was named.
    # None: no row names one.
    network: Ints | None = None
    networks: tuple[str, ...] = ()  # as `machines`
    entered: Bools | None = None  # bool array (n,) or None: True: with this row its record entered the network
    # uint64 array (n,) or None: the replica, of the innermost split, that ran it. `vectors.ABSENT_U64` where there is none.
    replica: Words | None = None
    # float64 array (n,) or None: cores busy on the machine while the row ran, its own among them, on average; NaN where
    # nobody knows
    active_cores: Floats | None = None
    # bool array (n,) or None: True where a row has no predictor; `predictor` is 1 there. None: every row has one
    absent: Bools | None = None

    def __len__(self) -> int:
        return len(self.index)

    def select_rows(self, rows: Any) -> Columns:
        """Return the batch of the given rows (indices, mask or slice), for tests and cuts."""
        optional = {key: None if (v := getattr(self, key)) is None else v[rows] for key in _OPTIONAL_COLUMNS}
        return replace(
            self,
            index=self.index[rows],
            predictor=self.predictor[rows],
            cores=self.cores[rows],
            elapsed_s=self.elapsed_s[rows],
            measures={key: values[rows] for key, values in self.measures.items()},
            misread=self.misread and self.misread.select_rows(rows, len(self)),
            **optional,
        )

    def with_own_names(self) -> Columns:
        """Return the batch with a list of the names that its rows have, and no others."""
        present, index = np.unique(self.index, return_inverse=True)
        return replace(self, components=self.components.subset(present), index=index.astype(np.int64))


# The types of the optional columns of `Columns` that are not names, nor maps.
_KINDS: Mapping[str, Any] = {
    "count": np.int64, "ok": np.bool_, "running": np.bool_, "entered": np.bool_, "killed": np.int64, "replica": np.uint64,
    "active_cores": np.float64,
}  # fmt: skip
_OPTIONAL_COLUMNS = (*_KINDS, "further", "machine", "network", "absent")


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
    if columns.misread is not None and code in columns.misread.codes and row in columns.misread.values:
        return columns.misread.values[row]
    if code == "invalid_measure":
        measured = {name: values[row].item() for name, values in columns.measures.items()}
        return next(({name: t} for name, t in measured.items() if vectors.outside(t, *limits.MEASURES[name])), None)
    if code == "invalid_dimensions":
        return 1 if columns.further is None else 1 + int(np.count_nonzero(~np.isnan(columns.further[row])))
    if code == "invalid_predictor" and columns.further is not None:
        point = vectors.point(columns.predictor[row].item(), columns.further[row])
        return next((x for x in point if not 0.0 <= x <= limits.PREDICTOR_MAX), None)
    if code in ("invalid_name", "too_many_components"):
        return columns.components.names[int(columns.index[row])]
    values = getattr(columns, code.removeprefix("invalid_"), None)
    return None if values is None else values[row].item()


def bad_rows(columns: Columns) -> dict[str, Bools]:
    """Return, by code, the masks of rows whose values lie outside their domain; empty when all are good. Cost O(n).

    The masks are disjoint: a row counts under the first code it earns.
    """
    checks = _checks(columns)
    if not checks and columns.misread is None:
        return {}
    seen = np.zeros(len(columns), np.bool_)
    found: dict[str, Bools] = {}
    misread: Mapping[str, Bools] = {} if columns.misread is None else columns.misread.codes
    for code in REFUSALS:
        for mask in (masks[code] for masks in (misread, checks) if code in masks):
            new = mask & ~seen
            seen |= mask
            if new.any():
                found[code] = found[code] | new if code in found else new
    return found


def _checks(columns: Columns) -> dict[str, Bools]:
    """Return, by code, the masks of rows that one check finds bad, in the order of the checks; not disjoint."""
    found: dict[str, Bools] = {}
    if not columns.components.valid.all():
        found["invalid_name"] = ~columns.components.valid[columns.index]
    for code, (name, low, high) in BOUNDS.items():
        values = getattr(columns, name)
        if values is None or not len(values):
            continue
        # min and max find NaN as well: a comparison with NaN is False.
        if not (values.min() >= low and values.max() <= high):
            with np.errstate(invalid="ignore"):
                found[code] = ~((values >= low) & (values <= high))
        if name == "predictor" and columns.further is not None:
            wrong = vectors.bad_further(columns.further)
            if wrong.any():
                found[code] = found[code] | wrong if code in found else wrong
    busy = columns.active_cores
    if busy is not None and (wrong := vectors.outside(busy, 0.0, limits.CORES_MAX)).any():
        found["invalid_active_cores"] = wrong
    for name, values in columns.measures.items():
        wrong = vectors.outside(values, *limits.MEASURES[name])
        if wrong.any():
            found["invalid_measure"] = found.get("invalid_measure", False) | wrong
    return found


def columns_of(
    components: ComponentNames,
    index: ArrayLike,
    predictor: ArrayLike | None,
    cores: ArrayLike,
    elapsed_s: ArrayLike,
    **optional: Any,
) -> Columns:
    """Return a batch from arrays of one length; `predictor` None: no row has one.

    Raises InvalidValue when a column is no numeric vector of the length of `index`, or an index lies outside `components`.

    Parameters
    ----------
    predictor : array (n,) or (n, d), or (n * d,) with `dimensions` d
        Up to four values a row.
    **optional
        `count`, `ok`, `running`: vectors. `killed`: "memory", "time" or None, or 1, 2 and 0. `dimensions`: an integer.
        `machine`: names or None, or numbers of `labels` with -1 (or 2**32 - 1, as on the wire) for none. `measures`: a map
        of vectors, NaN where nothing
        was measured.
    """
    rows = vectors.vector("index", index, np.int64, None)
    n = len(rows)
    if n and not (rows.min() >= 0 and rows.max() < len(components)):
        worst = rows.min() if rows.min() < 0 else rows.max()
        raise InvalidValue("index", int(worst), f"a component's number from 0 to {len(components) - 1}")
    x, further = vectors.points("predictor", predictor, n, optional.pop("dimensions", None))
    counted: dict[str, Any] = {}
    for key, kind in _KINDS.items():
        if (values := optional.pop(key, None)) is None:
            continue
        if key == "replica":
            counted[key] = vectors.identities(key, values, n)
        else:
            counted[key] = vectors.vector(key, killed_codes(values) if key == "killed" else values, kind, n)
    if "killed" in counted:
        _refuse_killed(counted["killed"])
    named = named_columns(optional.pop("machine", None), optional.pop("network", None), optional.pop("labels", None), n)
    measures = vectors.measures(optional.pop("measures", None), n)
    if optional:
        unknown = min(optional)
        raise InvalidValue(unknown, optional[unknown], "absent: an observation has no such field")
    return Columns(
        components,
        rows,
        x,
        vectors.vector("cores", cores, np.float64, n),
        vectors.vector("elapsed_s", elapsed_s, np.float64, n),
        further=further,
        measures=measures,
        absent=np.ones(n, np.bool_) if predictor is None else None,
        **named,
        **counted,
    )


def _refuse_killed(codes: Ints) -> None:
    if len(codes) and not 0 <= codes.min() <= codes.max() <= len(KILLED):
        worst = codes.min() if codes.min() < 0 else codes.max()
        raise InvalidValue("killed", int(worst), f"0, {', '.join(f'{killed_code(why)} ({why})' for why in KILLED)}")


def columns_from_fields(fields: Mapping[str, Mapping[int, Any]], n: int) -> dict[str, Any]:
    """Return the optional columns of n rows, as `Columns` has them, from field -> row -> value as `checked_fields` has it."""
    texts = {key: [fields[key].get(row) for row in range(n)] for key in ("machine", "network") if key in fields}
    columns: dict[str, Any] = named_columns(texts.get("machine"), texts.get("network"), None, n)
    for key in _KINDS.keys() & fields.keys():
        values: Any = fields[key].values()
        column = columns[key] = np.full(n, FIELDS[key].absent, _KINDS[key])
        column[list(fields[key])] = [killed_code(why) for why in values] if key == "killed" else list(values)
    measures: dict[str, Any] = {name: np.full(n, np.nan) for name in limits.MEASURES}
    for row, given in fields.get("measures", {}).items():
        for name, value in given.items():
            measures[name][row] = value
    return columns | {"measures": vectors.measured(measures)}


def named_columns(machines: Any, networks: Any, labels: Any, n: int) -> dict[str, Any]:
    """Return `machine`, `machines`, `network`, `networks` and `misread` of n rows: names, or numbers of `labels`, or None.

    Raises InvalidValue when a column is neither, of another length, or a number has no label.
    """
    if machines is None and networks is None:
        return {"misread": None}
    labels = vectors.texts("labels", labels or ())
    given = texts_as_labels({"machine": machines, "network": networks, "labels": labels})
    known: list[str] = given["labels"]
    found: dict[str, Any] = {}
    misread = Misread({}, {})
    for field_name in ("machine", "network"):
        if (values := given.get(field_name)) is None:
            continue
        numbers = vectors.labelled(field_name, values, known, n)
        number, names, unnamed = vectors.named(known, numbers)
        found |= {field_name: number, f"{field_name}s": names}
        if unnamed is not None:
            misread.codes[f"invalid_{field_name}"] = unnamed
            for row in np.flatnonzero(unnamed)[: limits.FIRST_REFUSALS].tolist():
                misread.values.setdefault(row, shorten(known[int(numbers[row])]))
    return found | {"misread": misread if misread.codes else None}
