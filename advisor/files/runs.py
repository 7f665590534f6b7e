"""Tables of whole-program runs as CSV: a column for each value of a run, named as in `advisor.domain.runs.ProgramRun`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from advisor.domain.runs import ProgramRun
from advisor.errors import InvalidValue

RUNS_MAX = 1_000_000  # of one table: each is learned in a fifth of a millisecond
TEXTS = ("program", "transform")


def read_runs(path: Path, program: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the runs of a table as `observe_run` takes them; an empty cell says nothing, other columns are ignored.

    Parameters
    ----------
    program : str, optional
        Only runs of this program; where the table has no column of that name, of all of whose runs it is.

    Raises
    ------
    InvalidValue
        When the file cannot be read, a column is missing or a cell is no number; names the line.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            _check_header(path, reader.fieldnames or (), program)
            for row in reader:
                if reader.line_num > RUNS_MAX:
                    raise InvalidValue("runs", f"{path}", f"at most {RUNS_MAX} lines")
                run = _run(path, reader.line_num, row)
                if program is None or run.setdefault("program", program) == program:
                    yield run
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidValue("runs", str(path), "a CSV file that can be read", str(error)) from error


def _check_header(path: Path, header: Any, program: str | None) -> None:
    needed = [each.name for each in fields(ProgramRun) if each.default is MISSING]
    missing = [name for name in needed if name not in header and not (name == "program" and program)]
    if missing:
        raise InvalidValue("runs", f"{path}, first line", f"a column {missing[0]}; a run has {', '.join(needed)}")


def _run(path: Path, line: int, row: dict[str, Any]) -> dict[str, Any]:
    run: dict[str, Any] = {}
    for each in fields(ProgramRun):
        text = row.get(each.name)
        if not text:
            continue
        try:
            run[each.name] = text if each.name in TEXTS else float(text)
        except ValueError:
            raise InvalidValue(each.name, text, f"a number ({path}, line {line})") from None
    return run
