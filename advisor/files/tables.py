"""Tables of observations as CSV: columns component, x, p, t (or component, predictor, cores, elapsed_s), and optional ones.

The optional columns are x2, x3, x4 (further values of the predictor), machine, peak_bytes and energy_j; an empty cell, or
nan, says nothing. Columns of other names are ignored.

A physical line is a row: no legal field holds a line break, so an unclosed quote spoils its own line and no other. The
reader streams: its memory is one chunk, whatever the size of the file.
"""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self, TextIO

import numpy as np
from numpy.typing import NDArray

from advisor.domain import vectors
from advisor.domain.limits import FIRST_REFUSALS, MEASURES, NAME_IDS_MAX, PREDICTOR_MAX
from advisor.domain.observations import Columns, ComponentNames, bad_rows, columns_of
from advisor.domain.rows import BOUNDS, bound_text, measure_bound
from advisor.errors import InvalidValue, TooLarge, UnknownKey, closest

ROWS_CHUNK = 16_384  # rows held at a time: about 10 MB as text, and a progress bar that moves
LINE_BYTES_MAX = 65_536  # of one row: a name and three numbers need less than 300, extra columns may need more

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
NUMBERS = ("predictor", "cores", "elapsed_s")
HEADER = ("component", "x", "p", "t")
SEPARATORS = {
    ",": "a comma",
    ";": "a semicolon",
    "\t": "a tab",
    "|": "a bar",
}  # between fields: what the header has most of


@dataclass(frozen=True, slots=True)
class BadCell:
    """A row that was refused, by the first of its cells that is no legal value."""

    line: int
    column: str
    value: str
    bound: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.value!r} is not {self.bound}"


class Span(NamedTuple):
    """A part of a table: whole rows."""

    start: int  # where it begins, as a place of its file: a byte, or a row of Parquet
    # lines, rows: lines of the file before it, the header among them; and those of them that are rows, good or bad
    lines: int
    rows: int
    own: int  # its rows


class TableReader:
    """Reads a table in chunks of bounded size; bad rows are refused and counted, with the first of them kept.

    Raises InvalidValue when the file cannot be opened, or its header lacks a column or has one twice.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` reads standard input.
    headings : mapping, optional
        What columns of the file are called, by the names used here: ``{"component": "job", "x": "size_mb"}``.

    Attributes
    ----------
    bytes_total : int or None
        Size of the file; None where it has none (a pipe).
    """

    def __init__(self, path: str | Path, headings: Mapping[str, str] | None = None) -> None:
        self._headings = checked_headings(headings or {})
        self.separator = ","  # between fields, as the header has it: a comma, a semicolon, a tab or a bar
        self.name = "standard input" if str(path) == "-" else str(path)
        self._file, self.bytes_total = self._open(path)
        # bytes_read, rows, refused: what was read so far: bytes, good rows, refused rows
        self.bytes_read = 0
        self.rows = 0
        self.refused = 0
        self.first_refused: list[BadCell] = []  # the first eight refused rows
        self._line = 0
        self._ids: dict[str, int] = {}
        self._names = ComponentNames()
        try:
            self._columns = self._read_header()
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
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def chunks(self, rows: int = ROWS_CHUNK, within: Span | None = None) -> Iterator[Columns]:
        """Yield the table's good rows in order, at most `rows` at a time; or only the chunks that begin in a span.

        Chunks are cut at every so many rows of the file, good and bad, so those of all spans are those of the whole. Raises
        TooLarge when a line is longer than LINE_BYTES_MAX: such a file is no table.
        """
        left: float = inf
        if within is not None:
            self._file.seek(within.start)
            self._line = within.lines
            first, left = -(-within.rows // rows), -(-(within.rows + within.own) // rows)
            left -= first
            self._read_lines(first * rows - within.rows)
        while left > 0 and (lines := self._read_lines(rows)):
            left -= 1
            numbers, cells, refused = self._cells(lines)
            chunk = self._parse(numbers, cells, refused)
            if len(chunk):
                self.rows += len(chunk)
                yield chunk

    def _open(self, path: str | Path) -> tuple[Any, int | None]:
        return opened(path)

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
        self.bytes_read += len(raw)
        if len(raw) > LINE_BYTES_MAX:
            field = f"{self.name}, line {self._line}, bytes"
            raise TooLarge(field, len(raw), LINE_BYTES_MAX, "is it a CSV table with one row a line?")
        # A byte that is no UTF-8 becomes a surrogate, which no name may hold: that row is refused, not the file.
        return raw.decode("utf-8-sig" if self._line == 1 else "utf-8", "surrogateescape").rstrip("\r\n")

    def _read_header(self) -> dict[str, int]:
        header = self._read_line() or ""
        self.separator = separator_of(header)
        return self._places([name.strip() for name in (_split(header, self.separator) or [])], header)

    def _places(self, titles: Sequence[str], header: str) -> dict[str, int]:
        """Return where the fields stand among the columns of these names."""
        for heading in self._headings.values():
            if titles.count(heading) != 1:
                raise InvalidValue(
                    f"{self.name}, header", header, f"a header with one column {heading!r}, as --columns says",
                    closest(heading, titles),
                )  # fmt: skip
        given = {heading: field for field, heading in self._headings.items()}
        instead = {name for names in HEADINGS.values() if names[0] in self._headings for name in names} | {
            *self._headings
        }
        names = [given.get(name) or ("" if name.lower() in instead else name.lower()) for name in titles]
        found: dict[str, int] = {}
        for field, headings in HEADINGS.items():
            places = [place for place, name in enumerate(names) if name in headings]
            if len(places) == 1:
                found[field] = places[0]
            elif places or field != "predictor":  # a table without predictor says that every run is alike
                raise InvalidValue(
                    f"{self.name}, header", header, f"a CSV header with one column {' or '.join(headings)}",
                    f"the columns are component,x,p,t (or component,predictor,cores,elapsed_s), and optional ones "
                    f"{','.join(OPTIONAL)}; others are ignored. Columns of other names: --columns "
                    "component=job,x=size_mb,p=threads,t=seconds",
                )  # fmt: skip
        for field in OPTIONAL:
            if names.count(field) > 1:
                raise InvalidValue(f"{self.name}, header", header, f"a CSV header with at most one column {field}")
            if field in names:
                found[field] = names.index(field)
        for before, field in itertools.pairwise(("predictor", *FURTHER)):
            if field in found and before not in found:
                raise InvalidValue(
                    f"{self.name}, header", header, f"a CSV header with a column before {field}: x, x2, …"
                )
        return found

    def _cells(self, lines: Sequence[tuple[int, str]]) -> tuple[list[int], list[list[str]], list[BadCell]]:
        """Return the numbers and the cells of lines, and those that are no rows."""
        last = max(self._columns.values())
        numbers: list[int] = []
        cells: list[list[str]] = []
        refused: list[BadCell] = []
        for number, line in lines:
            row = _split(line, self.separator)
            if row is None or len(row) <= last:
                wanted = "a line whose quotes are closed" if row is None else f"a row of {last + 1} fields or more"
                refused.append(BadCell(number, "all", line[:80], wanted))
                continue
            numbers.append(number)
            cells.append(row)
        return numbers, cells, refused

    def _parse(self, numbers: Sequence[int], cells: Any, refused: Sequence[BadCell]) -> Columns:
        names, index = self._index(self._texts(cells, "component"))
        x, p, t = (self._numbers(cells, field) if field in self._columns else None for field in NUMBERS)
        assert p is not None
        assert t is not None
        columns = columns_of(names, index, x, p, t, **self._optional(cells))
        if "x2" in self._columns:
            columns = replace(columns, further=self._further(cells, len(numbers)))
        bad = self._bad_cells(columns, numbers, cells)
        self._refuse([*refused, *bad.values()])
        return (
            columns
            if not bad
            else replace(columns.select_rows(np.delete(np.arange(len(columns)), list(bad))), misread=None)
        )

    def _optional(self, cells: Any) -> dict[str, Any]:
        """Return the machines and measures of the rows, for the columns that the table has."""
        found: dict[str, Any] = {}
        if MACHINE in self._columns:
            found[MACHINE] = [text.strip() or None for text in self._texts(cells, MACHINE)]
        measures = {field: self._maybe(cells, field) for field in MEASURES if field in self._columns}
        return found | {"measures": measures} if measures else found

    def _further(self, cells: Any, rows: int) -> NDArray[np.float64] | None:
        further = np.full((rows, len(FURTHER)), np.nan)
        for column, field in enumerate(FURTHER):
            if field in self._columns:
                further[:, column] = self._maybe(cells, field)
        return None if np.isnan(further).all() else further

    def _maybe(self, cells: Any, field: str) -> NDArray[np.float64]:
        """Return a column whose cells may be empty: NaN there, and infinity, which is refused, where there is no number."""
        values = self._numbers(cells, field)
        empty: list[int] = np.flatnonzero(np.isnan(values)).tolist()
        texts = self._texts(cells, field) if empty else ()
        for row in empty:
            if texts[row].strip().lower() not in ("", "nan"):
                values[row] = np.inf
        return values

    def _index(self, names: Sequence[str]) -> tuple[ComponentNames, NDArray[np.int64]]:
        if len(self._ids) > NAME_IDS_MAX:  # a list of names is a cache: begin a new one rather than grow with the file
            self._ids, self._names = {}, ComponentNames()
        new = [name for name in dict.fromkeys(names) if name not in self._ids]
        self._ids |= {name: place for place, name in enumerate(new, len(self._ids))}
        self._names.extend(new)
        return self._names, np.fromiter((self._ids[name] for name in names), np.int64, len(names))

    def _texts(self, cells: Any, field: str) -> list[str]:
        """Return a column as it was written."""
        return [row[self._columns[field]] for row in cells]

    def _numbers(self, cells: Any, field: str) -> NDArray[np.float64]:
        """Return a column as numbers, NaN where it has none. The array is the caller's."""
        texts = self._texts(cells, field)
        return np.fromiter((number_of(text, self.separator) for text in texts), np.float64, len(texts))

    def _bad_cells(self, columns: Columns, numbers: Sequence[int], cells: Any) -> dict[int, BadCell]:
        found: dict[int, BadCell] = {}
        for code, mask in bad_rows(columns).items():
            for row in np.flatnonzero(mask).tolist():
                field = _culprit(columns, row, code)
                heading = HEADINGS[field][0] if field in HEADINGS else field
                bound = measure_bound(field) if field in MEASURES else bound_text(code)
                text = self._texts(cells[row : row + 1], field)[0]
                found[row] = BadCell(numbers[row], heading, text[:80], bound)
        return found

    def _refuse(self, cells: Sequence[BadCell]) -> None:
        self.refused += len(cells)
        room = FIRST_REFUSALS - len(self.first_refused)
        self.first_refused += sorted(cells, key=lambda cell: cell.line)[:room]


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


def separator_of(header: str) -> str:
    """Return what separates the columns of a table: what its header has most of."""
    return max(SEPARATORS, key=header.count)


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


def write_table(target: str | Path | TextIO, batches: Iterable[Columns]) -> int:
    """Write observations as a table that `TableReader` reads back to the same bits; return the rows written."""
    if isinstance(target, (str, Path)):
        with Path(target).open("w", encoding="utf-8", newline="") as file:
            return write_table(file, batches)
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(HEADER)
    written = 0
    for batch in batches:
        names = batch.components.names
        places: list[int] = batch.index.tolist()
        component = [names[place] for place in places]
        numbers = (map(repr, column.tolist()) for column in (batch.predictor, batch.cores, batch.elapsed_s))
        writer.writerows(zip(component, *numbers, strict=True))
        written += len(batch)
    return written


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
