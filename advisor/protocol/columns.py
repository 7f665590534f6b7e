"""Batches off the wire as columns. The service's side: with `rows` the only module of the protocol that imports numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.domain.rows import FIELDS
from advisor.errors import InvalidValue, TooLarge, UnknownNameId
from advisor.protocol import verbs


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


def columns_of_bins(params: verbs.ObserveColumns, connection: ConnectionNames) -> Columns:
    """Return the batch of `observe_columns`. Cost O(n); numbers are read in place.

    Raises InvalidValue when a column is no vector of the length of `index`, or a label's number has no label; TooLarge beyond
    ROWS_BATCH_MAX rows; UnknownNameId when `index` counts beyond the names; after `names` the same batch may be sent again.
    """
    names = connection.names_of(params.components)
    index = np.frombuffer(params.index, "<u4")
    n = len(index)
    if n > limits.ROWS_BATCH_MAX:
        raise TooLarge("rows", n, limits.ROWS_BATCH_MAX, "cut the batch")
    if n and index.max() >= len(names):
        raise UnknownNameId(
            f"index {int(index.max())} has no name: {len(names)} are known", field="index", value=int(index.max()),
            bound=len(names) - 1, hint="send names, then the batch again",
        )  # fmt: skip
    optional: dict[str, Any] = {"dimensions": params.dimensions, "labels": params.labels}
    for key, field in FIELDS.items():
        data = getattr(params, key) if field.column else None
        if data is None:
            continue
        optional[key] = np.frombuffer(data, field.column)
        if isinstance(field.absent, bool):
            if n and optional[key].max(initial=0) > 1:
                raise InvalidValue(key, int(optional[key].max()), "0 or 1")
            optional[key] = optional[key].astype(np.bool_)
    measures = {key: np.frombuffer(data, "<f8") for key, data in (params.measures or {}).items()}
    x = None if params.predictor is None else np.frombuffer(params.predictor, "<f8")
    cores, elapsed_s = np.frombuffer(params.cores, "<f8"), np.frombuffer(params.elapsed_s, "<f8")
    return columns_of(names, index, x, cores, elapsed_s, measures=measures, **optional)
