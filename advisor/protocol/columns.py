"""Batches off the wire as columns. The service's side: with `rows` the only module of the protocol that imports numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits, vectors
from advisor.domain.observations import Columns, ComponentNames, killed_column, named_columns
from advisor.errors import InvalidValue, TooLarge, UnknownNameId
from advisor.protocol import verbs

_FLAGS = frozenset(("ok", "running", "entered"))
_OPTIONAL: Mapping[str, str] = {  # columns and their types on the wire
    **dict.fromkeys(("count", "machine", "network"), "<u4"), **dict.fromkeys((*sorted(_FLAGS), "killed"), "u1"),
    "replica": "<u8", "active_cores": "<f8",
}  # fmt: skip
_KEPT_AS: Mapping[str, Any] = {"<u4": np.int64, "u1": np.int64, "<u8": np.uint64, "<f8": np.float64}


class ConnectionNames:
    """The names that one connection has numbered, and the last list that it sent inside a batch."""

    __slots__ = ("_last", "_last_names", "numbered")

    def __init__(self) -> None:
        self.numbered = ComponentNames()
        self._last: list[str] | None = None
        self._last_names = self.numbered

    def number_names(self, params: verbs.Names) -> int:
        """Number names; return how many are numbered now. Numbers follow on; what is known may be said again.

        Raises InvalidValue when a number would be left out, or given to another name; TooLarge beyond NAME_IDS_MAX.
        """
        known = len(self.numbered)
        end = params.first_id + len(params.names)
        if params.first_id > known:
            raise InvalidValue("first_id", params.first_id, f"at most {known}, the next number")
        if end > limits.NAME_IDS_MAX:
            raise TooLarge("names of a connection", end, limits.NAME_IDS_MAX)
        again = ComponentNames(params.names[: known - params.first_id]).names
        for number, name in enumerate(again, params.first_id):
            if self.numbered.names[number] != name:
                raise InvalidValue("names", name, f"{self.numbered.names[number]!r}, which has number {number}")
        self.numbered.extend(params.names[known - params.first_id :])
        return len(self.numbered)

    def names_of(self, components: list[str] | None) -> ComponentNames:
        """Return the names that a batch's index counts in: those it brings, or those numbered before."""
        if components is None:
            return self.numbered
        if components != self._last:
            self._last, self._last_names = components, ComponentNames(components)
        return self._last_names


def columns_of_bins(params: verbs.ObserveColumns, names: ComponentNames | ConnectionNames) -> Columns:
    """Return the batch of `observe_columns`. Cost O(n); numbers are read in place.

    Raises InvalidValue when a column is no vector of the length of `index`, or a label's number has no label; TooLarge beyond
    ROWS_BATCH_MAX rows; UnknownNameId when `index` counts beyond the names; after `names` the same batch may be sent again.
    """
    if isinstance(names, ConnectionNames):
        names = names.names_of(params.components)
    elif params.components is not None:
        names = ComponentNames(params.components)
    index = np.frombuffer(params.index, "<u4").astype(np.int64)
    n = len(index)
    if n > limits.ROWS_BATCH_MAX:
        raise TooLarge("rows", n, limits.ROWS_BATCH_MAX, "cut the batch")
    if n and index.max() >= len(names):
        raise UnknownNameId(
            f"index {int(index.max())} has no name: {len(names)} are known", field="index", value=int(index.max()),
            bound=len(names) - 1, hint="send names, then the batch again",
        )  # fmt: skip
    x, further = _points(params, n)
    given = {key: _column(key, data, code, n) for key, code in _OPTIONAL.items()
             if (data := getattr(params, key)) is not None}  # fmt: skip
    for key in _FLAGS & given.keys():
        if n and given[key].max() > 1:
            raise InvalidValue(key, int(given[key].max()), "0 or 1")
    machine, network = given.pop("machine", None), given.pop("network", None)
    more: dict[str, Any] = {key: values.astype(_KEPT_AS[_OPTIONAL[key]], copy=False) for key, values in given.items()}
    more |= {key: values.astype(np.bool_) for key, values in given.items() if key in _FLAGS}
    if "killed" in more:
        more["killed"] = killed_column(more["killed"])
    return Columns(
        names, index, x,
        _column("cores", params.cores, "<f8", n).astype(np.float64, copy=False),
        _column("elapsed_s", params.elapsed_s, "<f8", n).astype(np.float64, copy=False),
        further=further,
        measures=_measures(params.measures, n) if params.measures else {},
        absent=np.ones(n, np.bool_) if params.predictor is None else None,
        **more, **named_columns(machine, network, params.labels, n),
    )  # fmt: skip


def _points(params: verbs.ObserveColumns, rows: int) -> tuple[vectors.Floats, vectors.Floats | None]:
    values = None if params.predictor is None else np.frombuffer(params.predictor, "<f8")
    return vectors.points("predictor", values, rows, params.dimensions)


def _measures(measures: Mapping[str, bytes], rows: int) -> dict[str, vectors.Floats]:
    columns = {key: _column(f"measures.{key}", data, "<f8", rows) for key, data in measures.items()}
    return vectors.measured({key: values.astype(np.float64, copy=False) for key, values in columns.items()})


def _column(field: str, data: bytes, dtype: str, rows: int) -> NDArray[Any]:
    values = np.frombuffer(data, dtype)
    if len(values) != rows:
        raise InvalidValue(field, len(values), f"{rows} values, as index has")
    return values
