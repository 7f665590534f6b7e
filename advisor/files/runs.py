"""Tables of whole-program runs as CSV: a column for each value of a run, named as in `advisor.domain.runs.ProgramRun`."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from advisor.domain.runs import ProgramRun
from advisor.errors import InvalidValue, UnknownKey, closest
from advisor.files.csv_rows import number_of, separator_of

RUNS_MAX = 1_000_000  # of one table: each is learned in a fifth of a millisecond
TEXTS = ("program", "transform")


def read_runs(
    path: Path, program: str | None = None, headings: Mapping[str, str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the runs of a table as `observe_run` takes them; an empty cell says nothing, other columns are ignored.

    Raises InvalidValue when the file cannot be read, a column is missing or a cell is no number; names the line; UnknownKey
    for a heading of a column that no run has.

    Parameters
    ----------
    program : str, optional
        Only runs of this program; where the table has no column of that name, of all of whose runs it is.
    headings : mapping, optional
        What columns of the file are called, by the names used here: ``{"size": "elements"}``. Separators and
        decimal commas are those of `TableReader`.
    """
    given = {heading: _checked(name) for name, heading in (headings or {}).items()}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = next(file, "")
            separator = separator_of(first)
            reader = csv.DictReader(itertools.chain([first], file), delimiter=separator)
            titles = [name.strip() for name in reader.fieldnames or ()]
            for heading in given.keys() - set(titles):
                raise InvalidValue(
                    "runs", f"{path}, first line", f"a column {heading!r}, as --columns says", closest(heading, titles)
                )
            reader.fieldnames = [given.get(name, "" if name in given.values() else name) for name in titles]
            _check_header(path, reader.fieldnames, program)
            for row in reader:
                if reader.line_num > RUNS_MAX:
                    raise InvalidValue("runs", f"{path}", f"at most {RUNS_MAX} lines")
                run = _run(path, reader.line_num, row, separator)
                if program is None or run.setdefault("program", program) == program:
                    yield run
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidValue("runs", str(path), "a CSV file that can be read", str(error)) from error


def _checked(name: str) -> str:
    known = tuple(each.name for each in fields(ProgramRun))
    if name not in known:
        raise UnknownKey(
            f"a run has no {name[:40]!r}",
            field="columns",
            value=name,
            bound=", ".join(known),
            hint=closest(name, known),
        )
    return name


def _check_header(path: Path, header: Any, program: str | None) -> None:
    needed = [each.name for each in fields(ProgramRun) if each.default is MISSING]
    missing = [name for name in needed if name not in header and not (name == "program" and program)]
    if missing:
        raise InvalidValue("runs", f"{path}, first line", f"a column {missing[0]}; a run has {', '.join(needed)}",
                           "columns of other names: --columns size=elements,workers=threads")  # fmt: skip


def _run(path: Path, line: int, row: dict[str, Any], separator: str) -> dict[str, Any]:
    run: dict[str, Any] = {}
    for each in fields(ProgramRun):
        text = row.get(each.name)
        if not text:
            continue
        run[each.name] = text if each.name in TEXTS else number_of(text, separator)
        if run[each.name] != run[each.name]:
            raise InvalidValue(each.name, text, f"a number ({path}, line {line})")
    return run
