"""Tables of observations in CSV: columns component, x, p, t (or component, predictor, cores, elapsed_s), and others.

Optional columns are x2, x3, x4 (further values of the predictor), machine, peak_bytes and energy_j; an empty cell, or
nan, says nothing. Columns of other names are ignored.

The reader streams: its memory is one chunk, whatever the size of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain import vectors
from advisor.domain.limits import FIRST_REFUSALS, MEASURES, PREDICTOR_MAX
from advisor.domain.observations import Columns, ComponentNames, bad_rows, columns_of
from advisor.domain.rows import BOUNDS, bound_text, measure_bound
from advisor.errors import InvalidValue
from advisor.files.lines import BadCell, CsvTable

ROWS_CHUNK = 16_384  # rows held at a time: about 10 MB as text, and a progress bar that moves

FURTHER = ("x2", "x3", "x4")
MACHINE = "machine"
OPTIONAL = (*FURTHER, MACHINE, *MEASURES)
# What a column may be called, by the field it fills: the paper's letter, or the name used everywhere else.
HEADINGS: Mapping[str, Sequence[str]] = {
    "component": ("component",), "predictor": ("x", "predictor"), "cores": ("p", "cores"), "elapsed_s": ("t", "elapsed_s"),
    **{name: (name,) for name in OPTIONAL},
}  # fmt: skip
NEEDED = ("component", "cores", "elapsed_s")  # a table without predictor says that every run is alike
COLUMNS_HINT = (
    f"the columns are component,x,p,t (or component,predictor,cores,elapsed_s), and optional ones {','.join(OPTIONAL)}; "
    "others are ignored. Columns of other names: --columns component=job,x=size_mb,p=threads,t=seconds"
)
Cells = Sequence[tuple[int, Sequence[str]]]  # of rows, with the numbers of their lines


class TableReader:
    """Reads a table in chunks of bounded size; bad rows are refused and counted, with the first of them kept.

    Raises InvalidValue when the file cannot be opened, or its header lacks a column or has one twice; UnknownKey.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` reads standard input.
    headings : mapping, optional
        What columns of the file are called, by the names used here: ``{"component": "job", "x": "size_mb"}``.
    """

    def __init__(self, path: str | Path, headings: Mapping[str, str] | None = None) -> None:
        self.table = CsvTable(path)
        self.lines, self.name = self.table.lines, self.table.lines.name
        # rows, refused: what was read so far: good rows, refused rows
        self.rows = 0
        self.refused = 0
        self.first_refused: list[BadCell] = []  # the first eight refused rows
        self._columns = self.table.places(HEADINGS, NEEDED, headings or {}, COLUMNS_HINT)
        for before, field in pairwise(("predictor", *FURTHER)):
            if field in self._columns and before not in self._columns:
                bound = f"a CSV header with a column before {field}: x, x2, …"
                raise InvalidValue(f"{self.name}, header", self.table.header, bound)

    def chunks(self, rows: int = ROWS_CHUNK) -> Iterator[Columns]:
        """Yield the table's good rows in order, at most `rows` at a time.

        Raises TooLarge when a line is longer than LINE_BYTES_MAX: such a file is no table.
        """
        given, fields = self.table.rows(), max(self._columns.values()) + 1
        while batch := list(islice(given, rows)):
            refused = [
                BadCell(number, "all", line[:80],
                        "a line whose quotes are closed" if cells is None else f"a row of {fields} fields or more")
                for number, line, cells in batch if cells is None or len(cells) < fields
            ]  # fmt: skip
            whole = [(number, cells) for number, _, cells in batch if cells is not None and len(cells) >= fields]
            chunk = self._parse(whole, refused)
            if len(chunk):
                self.rows += len(chunk)
                yield chunk

    def _parse(self, cells: Cells, refused: list[BadCell]) -> Columns:
        names = self._texts(cells, "component")
        number = {name: place for place, name in enumerate(dict.fromkeys(names))}
        given: Any = (self._numbers(cells, field) for field in ("predictor", "cores", "elapsed_s"))
        optional: dict[str, object] = {
            "measures": {
                field: found for field in MEASURES if (found := self._numbers(cells, field, empty=True)) is not None
            }
        }
        if MACHINE in self._columns:
            optional[MACHINE] = [text.strip() or None for text in self._texts(cells, MACHINE)]
        index = np.fromiter(map(number.__getitem__, names), np.int64, len(names))
        columns = columns_of(ComponentNames([*number]), index, *given, **optional)
        further = np.full((len(columns), len(FURTHER)), np.nan)
        for place, field in enumerate(FURTHER):
            if (found := self._numbers(cells, field, empty=True)) is not None:
                further[:, place] = found
        columns = replace(columns, further=None if np.isnan(further).all() else further)
        bad = {row: self._bad_cell(columns, cells, row, code)
               for code, mask in bad_rows(columns).items() for row in np.flatnonzero(mask).tolist()}  # fmt: skip
        refused = sorted([*refused, *bad.values()], key=lambda cell: cell.line)
        self.refused += len(refused)
        self.first_refused += refused[: FIRST_REFUSALS - len(self.first_refused)]
        if not bad:
            return columns
        return replace(columns.select_rows(np.delete(np.arange(len(columns)), list(bad))), misread=None)

    def _texts(self, cells: Cells, field: str) -> list[str]:
        place = self._columns[field]
        return [row[place] for _, row in cells]

    def _numbers(self, cells: Cells, field: str, *, empty: bool = False) -> NDArray[np.float64] | None:
        """Return a column, None where the table has none; NaN where there is no number.

        Where cells may be `empty` NaN stands for these: what is no number is then infinity, which is refused.
        """
        if field not in self._columns:
            return None
        texts = self._texts(cells, field)
        values = np.fromiter(map(self.table.number_of, texts), np.float64, len(texts))
        for row in np.flatnonzero(np.isnan(values)).tolist() if empty else ():
            if texts[row].strip().lower() not in ("", "nan"):
                values[row] = np.inf
        return values

    def _bad_cell(self, columns: Columns, cells: Cells, row: int, code: str) -> BadCell:
        field = _culprit(columns, row, code)
        line, texts = cells[row]
        bound = measure_bound(field) if field in MEASURES else bound_text(code)
        place = self._columns[field]
        return BadCell(line, self.table.titles[place], texts[place][:80], bound)


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
