"""Rows of CSV. A line is a row: no legal field holds a line break, so an unclosed quote spoils its own line and no other."""

from __future__ import annotations

import csv
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue, TooLarge
from advisor.files.row_batches import BadCell, Batch

LINE_BYTES_MAX = 65_536  # of one row: a name and three numbers need less than 300, extra columns may need more
SEPARATORS = {
    ",": "a comma",
    ";": "a semicolon",
    "\t": "a tab",
    "|": "a bar",
}  # between fields: what the header has most of


class CsvRows:
    """A CSV file: `titles` of its columns, `total` bytes (None of a pipe), `read` so far, what separates its fields.

    Raises InvalidValue when it cannot be opened, TooLarge for a line beyond LINE_BYTES_MAX.
    """

    def __init__(self, path: str | Path, name: str) -> None:
        self.name = name
        self._file, self.total = opened(path)
        self.read = self._line = 0
        self.header = self._read_line() or ""
        self.separator = separator_of(self.header)
        self.titles = [title.strip() for title in _split(self.header, self.separator) or []]

    def close(self) -> None:
        """Close the file; standard input is left open."""
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def batches(self, places: Collection[int], rows: int) -> Iterator[Batch]:
        """Yield its rows in order, at most so many at a time.

        `places`: of the columns that are read; a line that lacks one is no row.
        """
        while lines := self._read_lines(rows):
            yield self._batch(lines, max(places) + 1)

    def _read_lines(self, rows: int) -> list[tuple[int, str]]:
        lines: list[tuple[int, str]] = []
        while len(lines) < rows and (line := self._read_line()) is not None:
            if line.strip():
                lines.append((self._line, line))
        return lines

    def _read_line(self) -> str | None:
        raw = self._file.readline(LINE_BYTES_MAX + 1)
        if not raw:
            return None
        self._line += 1
        self.read += len(raw)
        if len(raw) > LINE_BYTES_MAX:
            field = f"{self.name}, line {self._line}, bytes"
            raise TooLarge(field, len(raw), LINE_BYTES_MAX, "is it a CSV table with one row a line?")
        # A byte that is no UTF-8 becomes a surrogate, which no name may hold: that row is refused, not the file.
        return raw.decode("utf-8-sig" if self._line == 1 else "utf-8", "surrogateescape").rstrip("\r\n")

    def _batch(self, lines: Sequence[tuple[int, str]], fields: int) -> Batch:
        numbers: list[int] = []
        cells: list[list[str]] = []
        refused: list[BadCell] = []
        for number, line in lines:
            row = _split(line, self.separator)
            if row is None or len(row) < fields:
                wanted = "a line whose quotes are closed" if row is None else f"a row of {fields} fields or more"
                refused.append(BadCell(number, "all", line[:80], wanted))
                continue
            numbers.append(number)
            cells.append(row)

        def texts(place: int) -> list[str]:
            return [row[place] for row in cells]

        def values(place: int) -> NDArray[np.float64]:
            return np.fromiter((number_of(row[place], self.separator) for row in cells), np.float64, len(cells))

        return Batch(numbers, texts, values, refused)


def separator_of(header: str) -> str:
    """Return what separates the columns of a table: what its header has most of."""
    return max(SEPARATORS, key=header.count)


def opened(path: str | Path) -> tuple[BinaryIO, int | None]:
    if str(path) == "-":
        return sys.stdin.buffer, None
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - the reader owns and closes it
    except OSError as error:
        raise InvalidValue("table", str(path), "a file that can be read", error.strerror or "") from error
    size = Path(path).stat().st_size
    return file, size or None


def _split(line: str, separator: str) -> list[str] | None:
    """Return the fields of one line, or None where a quote is not closed."""
    if '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader((line,), strict=True, delimiter=separator))
    except csv.Error:
        return None


def number_of(text: str, separator: str = ",") -> float:
    """Return the number, or NaN for anything else: NaN lies in no domain, so the row is refused with its text.

    Where commas do not separate columns, one in a number is its decimal comma: "1,5" is 1.5, "1.234,5" is no number.
    """
    if separator != "," and text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    try:
        # float() reads 1_000 as 1000; in a table that is a spoilt cell.
        return float(text) if "_" not in text else float("nan")
    except ValueError:
        return float("nan")
