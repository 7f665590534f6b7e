"""Files as lines, whatever their format: a line is a row, for no legal field holds a line break. And rows that are wrong."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from advisor.errors import InvalidValue, TooLarge, UnknownKey, closest

LINE_BYTES_MAX = 65_536  # of one row: a name and three numbers need less than 300, extra columns may need more
WHOLE_BYTES_MAX = 2**30  # of a file that is read whole: a task graph of ten million tasks in JSON
SEPARATORS = ",;\t|"  # between fields: what a table's header has most of


@dataclass(frozen=True, slots=True)
class BadCell:
    """A row that was refused, by the first of its cells that is no legal value."""

    line: int
    column: str
    value: str
    bound: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.value!r} is not {self.bound}"


class Lines:
    """The lines of a file, with their numbers from 1, for one reading; ``-`` is standard input.

    `read`: bytes of it so far. `unended`: the last line of a file that is `growing` has no end yet, and is left out.
    """

    def __init__(self, path: str | Path, *, growing: bool = True) -> None:
        self.path = Path(path)
        self.read = 0
        self.unended, self._growing = False, growing
        self.name = "standard input" if str(path) == "-" else str(path)

    @property
    def total(self) -> int:
        """The size of the file, 0 where nobody knows."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def __iter__(self) -> Iterator[tuple[int, str]]:
        try:
            with self._opened() as file:
                number = 0
                while raw := file.readline(LINE_BYTES_MAX + 1):
                    number += 1
                    self.read += len(raw)
                    if len(raw) > LINE_BYTES_MAX:
                        field = f"{self.name}, line {number}, bytes"
                        raise TooLarge(field, len(raw), LINE_BYTES_MAX, "is it a file with one row a line?")
                    if self._growing and not raw.endswith(b"\n") and number > 1:
                        self.unended = True  # the rest of this line is to come
                        return
                    yield number, text_of(raw, first=number == 1).rstrip("\r\n")
        except OSError as error:
            raise self._unread(error) from error

    def first(self) -> str:
        """Return the first line, an empty one where there is none."""
        return next(iter(Lines(self.path)), (1, ""))[1]

    def whole(self, most: int = WHOLE_BYTES_MAX) -> bytes:
        """Return the whole file, of at most so many bytes; raises InvalidValue, TooLarge."""
        try:
            with self._opened() as file:
                data = file.read(most + 1)
        except OSError as error:
            raise self._unread(error) from error
        if len(data) > most:
            raise TooLarge(f"{self.name}, bytes", max(self.total, len(data)), most)
        self.read = len(data)
        return data

    def _opened(self) -> AbstractContextManager[BinaryIO]:
        return nullcontext(sys.stdin.buffer) if str(self.path) == "-" else self.path.open("rb")

    def _unread(self, error: OSError) -> InvalidValue:
        return InvalidValue("file", self.name, "a file that can be read", error.strerror or "")

    def by_column(
        self, delimiter: str, needed: Collection[str], hint: str, renamed: Mapping[str, str] = MappingProxyType({})
    ) -> Iterator[tuple[int, dict[str, str]] | BadCell]:
        """Yield the number and the cells of each line by the columns that the first line names, or that they do not fit.

        Raises InvalidValue.

        Parameters
        ----------
        needed : collection
            Columns that must be there; `hint` says what to do where they are not.
        renamed : mapping
            Names of columns by names that other versions of the format give them.
        """
        lines = iter(self)
        columns = [renamed.get(name, name) for name in next(lines, (1, ""))[1].split(delimiter)]
        if missing := next((column for column in needed if column not in columns), None):
            bound = f"one with a column {missing}"
            raise InvalidValue(f"{self.path}, header", delimiter.join(columns)[:80], bound, hint)
        for number, line in lines:
            cells = line.split(delimiter)
            if len(cells) == len(columns):
                yield number, dict(zip(columns, cells, strict=True))
            elif line.strip():
                yield BadCell(number, "all", "", f"a row of {len(columns)} columns")


class CsvTable:
    """A table in CSV: what separates its columns, their titles, and its rows; raises as `Lines`."""

    def __init__(self, path: str | Path) -> None:
        self.lines = Lines(path, growing=False)
        self._rest = iter(self.lines)
        self.header = next(self._rest, (1, ""))[1]
        self.separator = max(SEPARATORS, key=self.header.count)
        self.titles = [title.strip() for title in self._cells(self.header) or []]

    def rows(self) -> Iterator[tuple[int, str, list[str] | None]]:
        """Yield number, text and cells of each line that is not empty; None for cells where a quote is not closed."""
        for number, line in self._rest:
            if line.strip():
                yield number, line, self._cells(line)

    def places(
        self, known: Mapping[str, Sequence[str]], needed: Collection[str], given: Mapping[str, str], hint: str
    ) -> dict[str, int]:
        """Return where the fields stand among the columns.

        Raises InvalidValue where one is missing, or there twice; UnknownKey for a name in `given` that no table has.

        Parameters
        ----------
        known : mapping
            Fields, and what their columns may be called, in small letters.
        needed : collection
            Fields that must be there; `hint` says what to do where they are not.
        given : mapping
            What columns of the file are called, by the names used here: ``{"component": "job", "x": "size_mb"}``.
        """
        fields = {name: field for field, names in known.items() for name in names}
        own: dict[str, str] = {}  # heading -> field
        where = f"{self.lines.name}, header"
        for name, heading in given.items():
            field = fields.get(name.lower())
            if field is None:
                raise UnknownKey(
                    f"a table has no column {name[:40]!r}", field="columns", value=name, bound=", ".join(fields),
                    hint=closest(name, tuple(fields)),
                )  # fmt: skip
            if field in own.values() or heading in own:
                raise InvalidValue("columns", f"{name}={heading}", "each column once")
            if self.titles.count(heading) != 1:
                bound = f"a header with one column {heading!r}, as --columns says"
                raise InvalidValue(where, self.header, bound, closest(heading, self.titles))
            own[heading] = field
        found: dict[str, int] = {}
        for place, title in enumerate(self.titles):
            field = own.get(title) or fields.get(title.lower(), "")
            if not field or (title not in own and field in own.values()):
                continue
            if field in found:
                raise InvalidValue(
                    where, self.header, f"a CSV header with one column {' or '.join(known[field])}", hint
                )
            found[field] = place
        for field in needed:
            if field not in found:
                raise InvalidValue(
                    where, self.header, f"a CSV header with one column {' or '.join(known[field])}", hint
                )
        return found

    def _cells(self, line: str) -> list[str] | None:
        if '"' not in line:
            return line.split(self.separator)
        try:
            return next(csv.reader((line,), strict=True, delimiter=self.separator))
        except csv.Error:
            return None

    def number_of(self, text: str) -> float:
        """Return the number, or NaN for anything else: NaN lies in no domain, so the row is refused with its text.

        Where commas do not separate columns, one in a number is its decimal comma: "1,5" is 1.5, "1.234,5" is no number.
        """
        if self.separator != "," and text.count(",") == 1 and "." not in text:
            text = text.replace(",", ".")
        try:
            return float(text) if "_" not in text else math.nan  # float() reads 1_000 as 1000: a spoilt cell
        except ValueError:
            return math.nan


def number_of(text: str) -> float:
    """Return a number; NaN for anything else."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def text_of(raw: bytes, *, first: bool = True) -> str:
    """Return text in UTF-8, after its mark where it is the `first` of a file; what is no UTF-8 is read as Latin-1."""
    try:
        return raw.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
