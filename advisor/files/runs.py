"""Tables of whole-program runs as CSV: a column for each value of a run, named as in `advisor.domain.runs.ProgramRun`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from advisor.domain.runs import ProgramRun
from advisor.errors import InvalidValue
from advisor.files.lines import CsvTable

RUNS_MAX = 1_000_000  # of one table: each is learned in a fifth of a millisecond
TEXTS = ("program", "transform")
NEEDED = tuple(each.name for each in fields(ProgramRun) if each.default is MISSING)
HINT = f"a run has {', '.join(NEEDED)}. Columns of other names: --columns size=elements,workers=threads"


def read_runs(
    path: Path, program: str | None = None, headings: Mapping[str, str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the runs of a table as `observe_run` takes them; an empty cell says nothing, other columns are ignored.

    Raises InvalidValue when the file cannot be read, a column is missing or a cell is no number; names the line; UnknownKey
    for a heading of a column that no run has; TooLarge.

    Parameters
    ----------
    program : str, optional
        Only runs of this program; where the table has no column of that name, of all of whose runs it is.
    headings : mapping, optional
        What columns of the file are called, by the names used here: ``{"size": "elements"}``. Separators and
        decimal commas are those of `TableReader`.
    """
    table = CsvTable(path)
    known = {each.name: (each.name,) for each in fields(ProgramRun)}
    needed = [name for name in NEEDED if not (name == "program" and program)]
    places = table.places(known, needed, headings or {}, HINT)
    for line, text, cells in table.rows():
        if cells is None or line > RUNS_MAX:
            raise InvalidValue(
                "runs", f"{path}, line {line}: {text[:40]}", f"one of at most {RUNS_MAX} rows, quotes closed"
            )
        run: dict[str, Any] = {}
        for name, place in places.items():
            if cell := cells[place].strip() if place < len(cells) else "":
                run[name] = cell if name in TEXTS else table.number_of(cell)
                if run[name] != run[name]:
                    raise InvalidValue(name, cell, f"a number ({path}, line {line})")
        if program is None or run.setdefault("program", program) == program:
            yield run
