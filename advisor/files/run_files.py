"""Files in which runtimes report runs that ended: each run as a row, bad ones named, failed ones marked.

A reader of a format yields, line by line, a run, a cell that is none, or why a line is no run. `RunFile` numbers what it yields
by its place, and knows a file by its format and its first bytes: the same file teaches the same rows under the same numbers,
wherever it lies, and when it has grown only what is new.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from advisor.domain.limits import FIRST_REFUSALS
from advisor.domain.rows import row_of
from advisor.errors import InvalidValue
from advisor.files.lines import BadCell, Lines

ZERO: Final = "with a run time of 0: none was measured"
KIB: Final = 1024.0
BYTES: Final = {"B": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
SECONDS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
WHOLE: Final = frozenset({"wfformat"})  # formats known by all of a file: its first lines are alike in each
NAMED: Final = frozenset({"snakemake"})  # known by the file's name, too: a run without number or date
# Formats of which the first row may be of a run that has not ended, where they have a column: known by the cells that stay.
UNENDED: Final = {"sacct": ("End", ("JobID", "JobName"))}
_BYTES = re.compile(r"(\d+(?:[.,]\d+)?)\s*(?:([KMGTPE])i?B?|B)?", re.IGNORECASE)
_SPAN = re.compile(r"(\d+(?:[.,]\d+)?)\s*(ms|s|m|h|d)")


class Row(NamedTuple):
    """A run, with its producer and its number there."""

    producer: str
    sequence: int
    component: str
    predictor: float | None
    cores: float
    elapsed_s: float
    more: dict[str, Any]

    def plain(self) -> list[Any]:
        """Return the row as the protocol has it."""
        return [self.component, self.predictor, self.cores, self.elapsed_s, self.more]


class Ran(NamedTuple):
    """A run as a file tells it; `cells` says in which columns its fields stand, for who must name one."""

    line: int
    component: str
    predictor: float
    cores: float
    elapsed_s: float
    cells: Mapping[str, tuple[str, str]]  # field -> (column, text)
    peak_bytes: float | None = None
    ok: bool = True
    killed: str | None = None  # for "memory" or "time"


class Passed(NamedTuple):
    """A line that is no run, and why: not ended yet, taken from a cache, …"""

    line: int
    why: str


RunEntry = Ran | BadCell | Passed
Reader = Callable[[Lines], Iterator[RunEntry]]


@dataclass(slots=True)
class RunFile:
    """A file of runs of one format."""

    path: Path
    kind: str
    reader: Reader
    known_as: str = ""  # what its rows are numbered under; absent: what its format knows a file by
    # rows, refused: legal runs, failed ones among them; lines that were no legal run; `first_refused` are the first of
    # them
    rows: int = 0
    refused: int = 0
    first_refused: list[BadCell] = field(default_factory=list[BadCell])
    passed: Counter[str] = field(default_factory=Counter[str])  # lines that were no run at all, by why
    lines: Lines = field(init=False)

    def __post_init__(self) -> None:
        self.lines = Lines(self.path)

    @property
    def name(self) -> str:
        """The file, for who tells of it."""
        return str(self.path)

    def read(self) -> Iterator[Row]:
        """Yield the file's runs, each with its number.

        Raises InvalidValue, TooLarge when the file cannot be read, or is of another format.
        """
        producer = f"{self.kind}:{self.known_as or self._identity()}"
        for entry in self.reader(self.lines):
            if isinstance(entry, Passed):
                self.passed[entry.why] += 1
                continue
            row = entry if isinstance(entry, BadCell) else row_of_run(entry)
            if isinstance(row, BadCell):
                self.refused += 1
                if len(self.first_refused) < FIRST_REFUSALS:
                    self.first_refused.append(row)
                continue
            self.rows += 1
            component, x, cores, elapsed_s, *more = row
            yield Row(producer, self.rows, component, x, cores, elapsed_s, more[0] if more else {})
        if self.lines.unended:
            self.passed["without an end of line: still being written?"] += 1

    def _identity(self) -> str:
        """Return what the file is known by: its first two lines, the header and a run; or more, as its format needs."""
        digest, head = blake2b(digest_size=12), Lines(self.path)
        if self.kind in NAMED:
            digest.update(self.path.name.encode() + b"\n")
        if self.kind in WHOLE:
            digest.update(head.whole())
        else:
            lines = [line for _, line in islice(head, 2)]
            column, cells = UNENDED.get(self.kind, ("", ()))
            delimiter = delimiter_of(lines[0] if lines else "")
            names = lines[0].split(delimiter) if column and lines else []
            if column in names and len(lines) == 2:
                first = dict(zip(names, lines[1].split(delimiter), strict=False))
                # 4102 of 4102_[3-9], whose tasks begin one by one
                lines[1] = delimiter.join(re.split(r"[_+.]", first.get(cell, ""))[0] for cell in cells)
            digest.update("".join(f"{line}\n" for line in lines).encode())
        return digest.hexdigest()


def delimiter_of(header: str) -> str:
    """Return what stands between the columns that a header names."""
    return next((each for each in "|\t;," if each in header), "|")


def row_of_run(ran: Ran) -> list[Any] | BadCell:
    """Return a run as a row of the protocol, or its first field that lies outside its domain."""
    more: dict[str, Any] = {"ok": ran.ok, "killed": ran.killed}
    if ran.peak_bytes is not None:
        peak = math.inf if math.isnan(ran.peak_bytes) else ran.peak_bytes  # NaN would say that it was not measured
        more["measures"] = {"peak_bytes": peak}
    try:
        row = row_of(ran.component, ran.predictor, ran.cores, ran.elapsed_s, more)
    except InvalidValue as error:
        name = str(error.field).rpartition(".")[2]
        column, text = ran.cells.get(name, (name, str(error.value)))
        return BadCell(ran.line, column, text[:80], str(error.bound))
    if not ran.ok:
        row[4].pop("measures", None)  # of a failed run
    return row


def bytes_of(text: str) -> float:
    """Return the bytes of a size as people read it, in powers of 1024: 35.4 GB, 35,4 GB, 512K; NaN for anything else."""
    found = _BYTES.fullmatch(text.strip())
    return float(found[1].replace(",", ".")) * KIB ** BYTES[(found[2] or "B").upper()] if found else float("nan")


def span_of(text: str) -> float:
    """Return the seconds of a span as people read it: 1h 9m 9s, 931ms, 2d 3h, 8,5s; NaN for anything else."""
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text).strip():
        return float("nan")
    return sum(float(number.replace(",", ".")) * SECONDS[unit] for number, unit in parts)


def clock_of(text: str) -> float:
    """Return the seconds of ``[days-]hours:minutes:seconds``, or of minutes and seconds; NaN for anything else."""
    days, _, rest = text.strip().rpartition("-")
    try:
        seconds = 0.0
        for part in rest.split(":"):
            seconds = seconds * 60.0 + float(part)
        return seconds + 86400.0 * float(days or 0)
    except ValueError:
        return float("nan")
