"""Rows of Parquet: numbers and texts, a null is an empty cell. Read by pyarrow, which the extra `ray` brings."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue, Unavailable
from advisor.files.csv_rows import number_of
from advisor.files.row_batches import Batch

MAGIC: Final = b"PAR1"
NUMBERS: Final = ("int", "uint", "float", "double", "halffloat")


def is_parquet(path: str | Path) -> bool:
    """Return whether a file begins as Parquet does; False where it cannot be read, which its reader tells."""
    try:
        with Path(path).open("rb") as file:
            return str(path) != "-" and file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class ParquetRows:
    """A Parquet file as `CsvRows`; lines are rows, `read` and `total` count rows, too. Batches end where groups of rows do.

    Raises Unavailable without pyarrow; InvalidValue when the file cannot be read, or is damaged.
    """

    separator = ","

    def __init__(self, path: str | Path) -> None:
        try:
            arrow: Any = import_module("pyarrow.parquet")
        except ImportError as error:
            raise Unavailable(
                "Parquet is read by pyarrow", field="table", value=str(path), hint="pip install pyarrow"
            ) from error
        try:
            self._file = arrow.ParquetFile(path)
        except (OSError, ValueError) as error:
            raise InvalidValue("table", str(path), "Parquet that can be read", str(error).partition("\n")[0]) from error
        self.titles: list[str] = [field.name for field in self._file.schema_arrow]
        self.header = ",".join(self.titles)
        self.total: int | None = self._file.metadata.num_rows or None
        self.read = 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def batches(self, places: Collection[int], rows: int) -> Iterator[Batch]:
        """Yield its rows as `CsvRows.batches`."""
        wanted = [self.titles[place] for place in places]
        for number in range(self._file.num_row_groups):
            group = self._file.read_row_group(number, columns=wanted)
            for start in range(0, len(group), rows):
                yield self._batch(group.slice(start, rows))

    def _batch(self, part: Any) -> Batch:
        line = self.read + 1
        self.read += len(part)

        def texts(place: int) -> list[str]:
            return ["" if value is None else str(value) for value in part[self.titles[place]].to_pylist()]

        def numbers(place: int) -> NDArray[np.float64]:
            column = part[self.titles[place]]
            if str(column.type).startswith(NUMBERS):
                return np.array(column.cast("float64", safe=False).to_numpy(), np.float64)
            return np.fromiter(map(number_of, texts(place)), np.float64, len(part))

        return Batch(range(line, line + len(part)), texts, numbers)
