"""Tables of observations as Parquet: the columns of `advisor.files.tables`, of numbers and texts; a null is an empty cell.

Read by pyarrow, which the extra `ray` brings, one group of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.domain.observations import Columns
from advisor.errors import InvalidValue, Unavailable
from advisor.files.tables import ROWS_CHUNK, Span, TableReader

MAGIC: Final = b"PAR1"


def is_parquet(path: str | Path) -> bool:
    """Return whether a file begins as Parquet does; False where it cannot be read, which its reader tells."""
    try:
        with Path(path).open("rb") as file:
            return str(path) != "-" and file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class ParquetReader(TableReader):
    """Reads Parquet as `TableReader` does CSV; lines are rows, `bytes_read` and `bytes_total` count rows, too.

    Chunks end where groups of rows do. Its spans are groups of rows. Raises Unavailable without pyarrow; InvalidValue as
    `TableReader`, and when the file is damaged.
    """

    def _open(self, path: str | Path) -> tuple[Any, int | None]:
        try:
            arrow: Any = import_module("pyarrow.parquet")
        except ImportError as error:
            raise Unavailable(
                "Parquet is read by pyarrow", field="table", value=str(path), hint="pip install pyarrow"
            ) from error
        try:
            file = arrow.ParquetFile(path)
        except (OSError, ValueError) as error:
            raise InvalidValue("table", str(path), "Parquet that can be read", str(error).partition("\n")[0]) from error
        return file, file.metadata.num_rows or None

    def _read_header(self) -> dict[str, int]:
        names: list[str] = [field.name for field in self._file.schema_arrow]
        return self._places(names, ",".join(names))

    def spans(self) -> list[Span]:
        """Return its groups of rows."""
        found: list[Span] = []
        for group in range(self._file.num_row_groups):
            before = found[-1].rows + found[-1].own if found else 0
            found.append(Span(group, before, before, self._file.metadata.row_group(group).num_rows))
        return found

    def chunks(self, rows: int = ROWS_CHUNK, within: Span | None = None) -> Iterator[Columns]:
        """As `TableReader.chunks`."""
        wanted = [self._file.schema_arrow.names[place] for place in self._columns.values()]
        for span in self.spans() if within is None else (within,):
            group = self._file.read_row_group(span.start, columns=wanted)
            for start in range(0, len(group), rows):
                part = group.slice(start, rows)
                self._line = span.rows + start
                self.bytes_read += len(part)
                chunk = self._parse(range(self._line + 1, self._line + 1 + len(part)), part, ())
                if len(chunk):
                    self.rows += len(chunk)
                    yield chunk

    def _column(self, cells: Any, field: str) -> Any:
        return cells[self._file.schema_arrow.names[self._columns[field]]]

    def _texts(self, cells: Any, field: str) -> list[str]:
        values: Sequence[Any] = self._column(cells, field).to_pylist()
        return ["" if value is None else str(value) for value in values]

    def _numbers(self, cells: Any, field: str) -> NDArray[np.float64]:
        column = self._column(cells, field)
        if str(column.type).startswith(("int", "uint", "float", "double", "halffloat")):
            return np.array(column.cast("float64", safe=False).to_numpy(), np.float64)
        return super()._numbers(cells, field)
