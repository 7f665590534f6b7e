"""Files in which runtimes report runs that ended: each run as a row, bad ones named, failed ones marked.

A reader of a format yields, line by line, a run, a cell that is none, or why a line is no run. `RunFile` numbers what it yields
by its place, and knows a file by its format and its first bytes: the same file teaches the same rows under the same numbers,
wherever it lies, and when it has grown only what is new.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from advisor.domain.limits import FIRST_REFUSALS, MEASURES
from advisor.domain.names import checked_name
from advisor.domain.rows import BOUNDS, bound_text, measure_bound
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
    failed: int = 0  # runs that failed: counted, not learned
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
            bad = entry if isinstance(entry, BadCell) else bad_cell(entry)
            if bad is not None:
                self.refused += 1
                if len(self.first_refused) < FIRST_REFUSALS:
                    self.first_refused.append(bad)
                continue
            assert isinstance(entry, Ran)
            self.rows += 1
            more: dict[str, Any] = {} if entry.ok else {"ok": False}
            more |= {"killed": entry.killed} if entry.killed else {}
            self.failed += not entry.ok
            if entry.peak_bytes is not None and entry.ok:
                more["measures"] = {"peak_bytes": entry.peak_bytes}
            yield Row(producer, self.rows, entry.component, entry.predictor, entry.cores, entry.elapsed_s, more)
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


def bad_cell(ran: Ran) -> BadCell | None:
    """Return the first field of a run that lies outside its domain; None where all are legal."""
    try:
        checked_name("component", ran.component)
    except InvalidValue as error:
        return BadCell(ran.line, *_cell(ran, "component", ran.component), str(error.bound))
    for code, value in (
        ("invalid_elapsed_s", ran.elapsed_s), ("invalid_cores", ran.cores), ("invalid_predictor", ran.predictor),
    ):  # fmt: skip
        name, low, high = BOUNDS[code]
        if not low <= value <= high:
            return BadCell(ran.line, *_cell(ran, name, value), bound_text(code))
    low, high = MEASURES["peak_bytes"]
    if ran.peak_bytes is not None and not low <= ran.peak_bytes <= high:
        return BadCell(ran.line, *_cell(ran, "peak_bytes", ran.peak_bytes), measure_bound("peak_bytes"))
    return None


def _cell(ran: Ran, name: str, value: Any) -> tuple[str, str]:
    column, text = ran.cells.get(name, (name, str(value)))
    return column, text[:80]


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
