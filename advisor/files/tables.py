"""Tables of observations in CSV: columns component, x, p, t (or component, predictor, cores, elapsed_s), and others.

Optional columns are x2, x3, x4 (further values of the predictor), machine, peak_bytes and energy_j; an empty cell, or
nan, says nothing. Columns of other names are ignored.

The reader streams: its memory is one chunk, whatever the size of the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from advisor.domain import vectors
from advisor.domain.limits import FIRST_REFUSALS, MEASURES, NAME_IDS_MAX, PREDICTOR_MAX
from advisor.domain.observations import Columns, ComponentNames, bad_rows, columns_of
from advisor.domain.rows import BOUNDS, bound_text, measure_bound
from advisor.errors import InvalidValue, UnknownKey, closest
from advisor.files.csv_rows import CsvRows
from advisor.files.row_batches import BadCell, Batch

ROWS_CHUNK = 16_384  # rows held at a time: about 10 MB as text, and a progress bar that moves

# What a column may be called, by the field it fills: the paper's letter, or the name used everywhere else.
HEADINGS = {
    "component": ("component",),
    "predictor": ("x", "predictor"),
    "cores": ("p", "cores"),
    "elapsed_s": ("t", "elapsed_s"),
}
FURTHER = ("x2", "x3", "x4")
MACHINE = "machine"
OPTIONAL = (*FURTHER, MACHINE, *MEASURES)
COLUMNS_HINT = (
    f"the columns are component,x,p,t (or component,predictor,cores,elapsed_s), and optional ones {','.join(OPTIONAL)}; "
    "others are ignored. Columns of other names: --columns component=job,x=size_mb,p=threads,t=seconds"
)


class TableReader:
    """Reads a table in chunks of bounded size; bad rows are refused and counted, with the first of them kept.

    Raises InvalidValue when the file cannot be opened, or its header lacks a column or has one twice.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` reads standard input.
    headings : mapping, optional
        What columns of the file are called, by the names used here: ``{"component": "job", "x": "size_mb"}``.
    """

    def __init__(self, path: str | Path, headings: Mapping[str, str] | None = None) -> None:
        headings = checked_headings(headings or {})
        self.name = "standard input" if str(path) == "-" else str(path)
        self._source = CsvRows(path, self.name)
        # rows, refused: what was read so far: good rows, refused rows
        self.rows = 0
        self.refused = 0
        self.first_refused: list[BadCell] = []  # the first eight refused rows
        self._ids: dict[str, int] = {}
        self._names = ComponentNames()
        try:
            self._columns = places_of(self._source.titles, f"{self.name}, header", self._source.header, headings)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; standard input is left open."""
        self._source.close()

    @property
    def separator(self) -> str:
        """What stands between fields: a comma, a semicolon, a tab or a bar, as the header has it."""
        return self._source.separator

    @property
    def bytes_total(self) -> int | None:
        """The size of the file; None where it has none (a pipe)."""
        return self._source.total

    @property
    def bytes_read(self) -> int:
        """So much of it was read."""
        return self._source.read

    def chunks(self, rows: int = ROWS_CHUNK) -> Iterator[Columns]:
        """Yield the table's good rows in order, at most `rows` at a time.

        Raises TooLarge when a line is longer than LINE_BYTES_MAX: such a file is no table.
        """
        for batch in self._source.batches(self._columns.values(), rows):
            chunk = self._parse(batch)
            if len(chunk):
                self.rows += len(chunk)
                yield chunk

    def _parse(self, batch: Batch) -> Columns:
        at = self._columns
        names, index = self._index(batch.texts(at["component"]))
        x = batch.numbers(at["predictor"]) if "predictor" in at else None
        machine = [text.strip() or None for text in batch.texts(at[MACHINE])] if MACHINE in at else None
        measures = {field: _numbers_or_empty(batch, at[field]) for field in MEASURES if field in at}
        optional = {name: value for name, value in ((MACHINE, machine), ("measures", measures)) if value}
        columns = columns_of(names, index, x, batch.numbers(at["cores"]), batch.numbers(at["elapsed_s"]), **optional)
        if "x2" in at:
            further = np.full((len(columns), len(FURTHER)), np.nan)
            for place, field in enumerate(FURTHER):
                if field in at:
                    further[:, place] = _numbers_or_empty(batch, at[field])
            columns = replace(columns, further=None if np.isnan(further).all() else further)
        bad = self._bad_cells(columns, batch)
        refused = sorted([*batch.refused, *bad.values()], key=lambda cell: cell.line)
        self.refused += len(refused)
        self.first_refused += refused[: FIRST_REFUSALS - len(self.first_refused)]
        if not bad:
            return columns
        return replace(columns.select_rows(np.delete(np.arange(len(columns)), list(bad))), misread=None)

    def _index(self, names: Sequence[str]) -> tuple[ComponentNames, NDArray[np.int64]]:
        if len(self._ids) > NAME_IDS_MAX:  # a list of names is a cache: begin a new one rather than grow with the file
            self._ids, self._names = {}, ComponentNames()
        new = [name for name in dict.fromkeys(names) if name not in self._ids]
        self._ids |= {name: place for place, name in enumerate(new, len(self._ids))}
        self._names.extend(new)
        return self._names, np.fromiter((self._ids[name] for name in names), np.int64, len(names))

    def _bad_cells(self, columns: Columns, batch: Batch) -> dict[int, BadCell]:
        found: dict[int, BadCell] = {}
        texts = cache(batch.texts)
        for code, mask in bad_rows(columns).items():
            for row in np.flatnonzero(mask).tolist():
                field = _culprit(columns, row, code)
                heading = HEADINGS[field][0] if field in HEADINGS else field
                bound = measure_bound(field) if field in MEASURES else bound_text(code)
                found[row] = BadCell(batch.lines[row], heading, texts(self._columns[field])[row][:80], bound)
        return found


def _numbers_or_empty(batch: Batch, place: int) -> NDArray[np.float64]:
    """Return a column whose cells may be empty: NaN there, and infinity, which is refused, where there is no number."""
    values = batch.numbers(place)
    empty: list[int] = np.flatnonzero(np.isnan(values)).tolist()
    texts = batch.texts(place) if empty else ()
    for row in empty:
        if texts[row].strip().lower() not in ("", "nan"):
            values[row] = np.inf
    return values


def places_of(titles: Sequence[str], where: str, header: str, given: Mapping[str, str]) -> dict[str, int]:
    """Return where the fields stand among columns of these titles; `given`: what some are called, as `checked_headings` has it.

    Raises InvalidValue where one is missing, or there twice.
    """
    for heading in given.values():
        if titles.count(heading) != 1:
            raise InvalidValue(
                where, header, f"a header with one column {heading!r}, as --columns says", closest(heading, titles)
            )
    fields = {heading: field for field, heading in given.items()}
    instead = {name for names in HEADINGS.values() if names[0] in given for name in names} | {*given}
    names = [fields.get(name) or ("" if name.lower() in instead else name.lower()) for name in titles]
    found: dict[str, int] = {}
    for field, headings in HEADINGS.items():
        places = [place for place, name in enumerate(names) if name in headings]
        if len(places) == 1:
            found[field] = places[0]
        elif places or field != "predictor":  # a table without predictor says that every run is alike
            raise InvalidValue(where, header, f"a CSV header with one column {' or '.join(headings)}", COLUMNS_HINT)
    for field in OPTIONAL:
        if names.count(field) > 1:
            raise InvalidValue(where, header, f"a CSV header with at most one column {field}")
        if field in names:
            found[field] = names.index(field)
    for before, field in itertools.pairwise(("predictor", *FURTHER)):
        if field in found and before not in found:
            raise InvalidValue(where, header, f"a CSV header with a column before {field}: x, x2, …")
    return found


def checked_headings(given: Mapping[str, str]) -> dict[str, str]:
    """Return what columns are called by the paper's letters: ``predictor`` and ``x`` are one.

    Raises UnknownKey for what no table has, with the nearest; InvalidValue for a column that is named twice.
    """
    fields = {name: headings[0] for headings in HEADINGS.values() for name in headings} | {
        name: name for name in OPTIONAL
    }
    found: dict[str, str] = {}
    for name, heading in given.items():
        field = fields.get(name.lower())
        if field is None:
            raise UnknownKey(
                f"a table has no column {name[:40]!r}", field="columns", value=name, bound=", ".join(fields),
                hint=closest(name, tuple(fields)),
            )  # fmt: skip
        if field in found or heading in found.values():
            raise InvalidValue("columns", f"{name}={heading}", "each column once")
        found[field] = heading
    return found


def _culprit(columns: Columns, row: int, code: str) -> str:
    """Return the field for which a row was refused."""
    if code == "invalid_machine":
        return MACHINE
    if code == "invalid_measure":
        return next(name for name, t in columns.measures.items() if vectors.outside(t[row], *MEASURES[name]))
    if code == "invalid_predictor" and columns.further is not None:
        point = vectors.point(columns.predictor[row].item(), columns.further[row])
        bad = next(place for place, x in enumerate(point) if not 0.0 <= x <= PREDICTOR_MAX)
        return ("predictor", *FURTHER)[bad]
    return BOUNDS[code][0] if code in BOUNDS else "component"
