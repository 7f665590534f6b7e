"""Tables replayed by many processes: a task a chunk reads, a task for each share of the names learns, states merge in a tree.

What is known of a component follows from its own rows in their order alone, so all its rows go to one task, chunk by chunk as
one process reads them: its state, its predictions and their errors are those of one advisor, to the bit. What spans components
here, counts, is exact and merges in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from advisor.domain.buckets import BUCKETS, bucket_of
from advisor.domain.limits import FIRST_REFUSALS, STATUS_PAGE_MAX
from advisor.domain.observations import Columns
from advisor.engine import Advisor
from advisor.files import BadCell, ComponentScore, Prequential, TableReader
from advisor.files.csv_rows import counted, cuts, spans_of
from advisor.files.row_batches import Span

TASK_BYTES = 2**24  # of a table that one task reads: 2 to 5 s
TOGETHER = 8  # states that one task merges


class Tasks(Protocol):
    """What runs functions, here or elsewhere; what they return stays there until it is asked for."""

    def run(self, work: Callable[..., Any], *args: Any, parts: int = 1) -> Any:
        """Call a function; return what stands for its result, which may be an argument; of `parts` many, a list of these."""
        ...

    def values(self, results: Sequence[Any]) -> list[Any]:
        """Return results, in their order; raises what a task has raised."""
        ...


@dataclass
class FileRead:
    """What was read of a file; attributes as of `TableReader`."""

    name: str
    separator: str
    rows: int = 0
    refused: int = 0
    first_refused: list[BadCell] = field(default_factory=list[BadCell])


class ReplayPiece(NamedTuple):
    """Rows of some components, of one chunk, in their order."""

    file: int
    line: int
    chunk: int
    rows: Columns


class Learned(NamedTuple):
    """What one task has learned: the state, and of each component the entry of its status and its score."""

    state: bytes
    components: list[tuple[dict[str, Any], ComponentScore]]


@dataclass(frozen=True)
class OfflineReplay:
    """What came of it; `states` stand for the parts of the state."""

    files: list[FileRead]
    components: list[tuple[dict[str, Any], ComponentScore]]
    states: list[Any]
    tasks: Tasks

    def state(self) -> bytes:
        """Return all that was learned, as `Advisor.extract` of one that has learned it all does, to the byte.

        Raises TooLarge for more components than one advisor takes.
        """
        states = list(self.states)
        while len(states) > 1:
            states = [
                self.tasks.run(merged, *states[start : start + TOGETHER]) for start in range(0, len(states), TOGETHER)
            ]
        return self.tasks.values(states)[0]


def replay(files: Sequence[str], headings: Mapping[str, str] | None, tasks: Tasks, shares: int) -> OfflineReplay:
    """Replay tables one after the other, as `advisor.files.replay` does in one process.

    Raises as the reader of tables.

    `shares`: tasks that learn, each the components of as many buckets.
    """
    read = [FileRead(str(file), "") for file in files]
    spans = _spans(files, headings, tasks)
    taken = [
        tasks.run(read_span, number, files[number], headings, span, shares, parts=shares + 1) for number, span in spans
    ]
    summaries: list[tuple[int, FileRead]] = tasks.values([each[-1] for each in taken])
    for number, own in summaries:
        whole = read[number]
        read[number] = FileRead(
            own.name, own.separator, whole.rows + own.rows, whole.refused + own.refused,
            sorted(whole.first_refused + own.first_refused, key=attrgetter("line"))[:FIRST_REFUSALS],
        )  # fmt: skip
    learned = [tasks.run(learn, *(each[share] for each in taken), parts=2) for share in range(shares)]
    components = [each for found in tasks.values([of for _, of in learned]) for each in found]
    return OfflineReplay(read, components, [state for state, _ in learned], tasks)


def _spans(files: Sequence[str], headings: Mapping[str, str] | None, tasks: Tasks) -> list[tuple[int, Span]]:
    """Return the parts of all files that tasks are to read, and which file each is of."""
    counts: dict[int, list[Any]] = {}
    found: list[tuple[int, Span]] = []
    for number, file in enumerate(files):
        with TableReader(file, headings) as reader:
            spans, begin, end = reader.spans(), reader.bytes_read, reader.bytes_total or 0
        found += [(number, span) for span in spans or ()]
        if spans is None:
            counts[number] = [tasks.run(counted, file, *cut) for cut in cuts(begin, end, TASK_BYTES)]
    for number, each in counts.items():
        found += [(number, span) for span in spans_of(tasks.values(each))]
    return sorted(found)


def read_span(number: int, file: str, headings: Mapping[str, str] | None, span: Span, shares: int) -> list[Any]:
    """Return the rows of a span by the share of their component, a list of pieces each, and after them what was read."""
    found: list[Any] = [[] for _ in range(shares)]
    known: dict[str, int] = {}
    with TableReader(file, headings) as reader:
        for chunk, rows in enumerate(reader.chunks(within=span)):
            names = rows.components.names
            present, places = np.unique(rows.index, return_inverse=True)
            there: list[int] = present.tolist()
            for place in there:
                if names[place] not in known:
                    known[names[place]] = bucket_of(names[place]) * shares // BUCKETS
            of = np.array([known[names[place]] for place in there])[places]
            for share in np.unique(of).tolist():
                found[share].append(
                    ReplayPiece(number, span.lines, chunk, rows.select_rows(of == share).with_own_names())
                )
        summary = FileRead(reader.name, reader.separator, reader.rows, reader.refused, reader.first_refused)
    return [*found, (number, summary)]


def learn(*pieces: Sequence[ReplayPiece]) -> Learned:
    """Predict and learn the rows of pieces in the order of their files."""
    advisor = Advisor()
    prequential = Prequential(advisor)
    for piece in sorted((one for each in pieces for one in each), key=lambda one: one[:3]):
        prequential.predict_and_learn(piece.rows)
    scores = prequential.scores[None]
    names = list(scores)
    entries: list[Any] = []
    for start in range(0, len(names), STATUS_PAGE_MAX):
        page = names[start : start + STATUS_PAGE_MAX]
        entries += advisor.status(components=page, limit=STATUS_PAGE_MAX)["components"]
    return Learned(advisor.extract(), [(entry, scores[entry["component"]]) for entry in entries])


def merged(*states: bytes) -> bytes:
    """Return the state of all together: no component is in two of them."""
    first, *others = map(Advisor.from_bytes, states)
    for other in others:
        first.merge(other)
    return first.extract()
