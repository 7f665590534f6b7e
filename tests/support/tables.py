"""Tables of observations as CSV, for tests that read them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from advisor.domain.observations import Columns


def write_table(path: Path, batches: Iterable[Columns]) -> None:
    """Write a table whose numbers read back to the bit."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("component", "x", "p", "t"))
        for batch in batches:
            names = [batch.components.names[place] for place in batch.index.tolist()]
            numbers = (map(repr, column.tolist()) for column in (batch.predictor, batch.cores, batch.elapsed_s))
            writer.writerows(zip(names, *numbers, strict=True))
