"""Tables of observations in CSV: columns component, x, p, t (or component, predictor, cores, elapsed_s), and others.

Optional columns are x2, x3, x4 (further values of the predictor), machine, peak_bytes and energy_j; an empty cell, or
nan, says nothing. Columns of other names are ignored.

The reader streams: its memory is one chunk, whatever the size of the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from advisor.domain.limits import FIRST_REFUSALS, MEASURES, PREDICTOR_MAX
from advisor.domain.observations import Columns
from advisor.domain.rows import row_of
from advisor.errors import InvalidValue
from advisor.files.lines import BadCell, CsvTable
from advisor.protocol.rows import NameBook, columns_of_rows

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
        self._width = max(self._columns.values()) + 1
        self._further = [self._columns[field] for field in FURTHER if field in self._columns]
        self._measures = {field: self._columns[field] for field in MEASURES if field in self._columns}

    def chunks(self, rows: int = ROWS_CHUNK) -> Iterator[Columns]:
        """Yield the table's good rows in order, at most `rows` at a time.

        Raises TooLarge when a line is longer than LINE_BYTES_MAX: such a file is no table.
        """
        given, book = self.table.rows(), NameBook()
        while batch := list(islice(given, rows)):
            good = [row for each in batch if (row := self._row(*each)) is not None]
            if good:
                self.rows += len(good)
                yield columns_of_rows(good, book)

    def _row(self, line: int, text: str, cells: Sequence[str] | None) -> list[Any] | None:
        """Return a row as the protocol has it; None where it is refused."""
        here, number = self._columns, self.table.number_of
        if cells is None or len(cells) < self._width:
            bound = "a line whose quotes are closed" if cells is None else f"a row of {self._width} fields or more"
            return self._refuse(BadCell(line, "all", text[:80], bound))
        point = [number(cells[here["predictor"]])] if "predictor" in here else []
        if self._further:
            further = [self._optional(cells[place]) for place in self._further]
            while further and further[-1] is None:
                further.pop()
            point += [math.nan if value is None else value for value in further]
        more: dict[str, Any] = {}
        if MACHINE in here:
            more[MACHINE] = cells[here[MACHINE]].strip() or None
        if self._measures:
            more["measures"] = {field: self._optional(cells[place]) for field, place in self._measures.items()}
        x: Any = point if len(point) > 1 else point[0] if point else None
        try:
            return row_of(
                cells[here["component"]], x, number(cells[here["cores"]]), number(cells[here["elapsed_s"]]), more
            )
        except InvalidValue as error:
            field = str(error.field).rpartition(".")[2]
            if field == "predictor":
                field = ("predictor", *FURTHER)[next(at for at, x in enumerate(point) if not 0.0 <= x <= PREDICTOR_MAX)]
            return self._refuse(
                BadCell(line, self.table.titles[here[field]], cells[here[field]][:80], str(error.bound))
            )

    def _optional(self, text: str) -> float | None:
        """Return the number in a cell that may be empty; infinity, which is refused, for what is none."""
        value = self.table.number_of(text)
        return value if value == value else None if text.strip().lower() in ("", "nan") else math.inf  # noqa: PLR0124

    def _refuse(self, cell: BadCell) -> None:
        self.refused += 1
        if len(self.first_refused) < FIRST_REFUSALS:
            self.first_refused.append(cell)
