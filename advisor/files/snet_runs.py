"""Runs of S-Net programs as rows: what monitor logs tell of boxes, records and their ways, once for each run of a box.

A run of a box lasts from the message of its record to the next such message, or to the stop of its task that waits for input;
what the task was blocked in between is not its own. A record that a task gives out is made of the one that it took in last:
so each is followed back to the record that entered the network.

A row is numbered by its place among the runs that begin in its log file; the file is known by its first bytes. So the same
file teaches the same rows under the same numbers, however it is cut, wherever it lies, and whatever the others tell meanwhile.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import merge
from pathlib import Path

from advisor.errors import InvalidValue
from advisor.files.run_files import Row
from advisor.files.snet_logs import Entries, Place, Stop, place_of, stop_of

CHUNK_BYTES = 2**16
STOPS_TOGETHER = 256  # taken in between looks for rows that are known by them
WAITING = "IAZ"  # states in which a task has done with its record: it waits for input, for anything, or has ended
OUTSIDE = (-1, -1)  # the task of what feeds the network
ENDED = "Z"  # the state of a task that has ended
LATE_NS = 60 * 10**9  # a file of 4 KiB buffers is behind by less, unless its worker has next to nothing to do
MADE_MAX = 2**20  # records on their way, or gone: 200 bytes each; beyond, those that wait longest are taken for gone
_WORKER = re.compile(r"mon_(?:n\d+_)?worker\d+\.log")
_LOG, _MAP = re.compile(r"mon_(?:n(\d+)_)?.*\.log"), re.compile(r"n(\d+)_tasks\.map")


class _SnetRun:
    """A run of a box, or of what else takes records and gives them out."""

    __slots__ = (
        "begun_ns", "closed", "entered", "entry", "id", "maker", "ran_ns", "resolved", "size", "task",
    )  # fmt: skip

    def __init__(self, task: tuple[int, int], record: str, size: int, begun_ns: int, maker: _SnetRun | None) -> None:
        self.task, self.id, self.size, self.begun_ns, self.maker = task, record, size, begun_ns, maker
        self.ran_ns, self.closed, self.resolved = 0, False, False
        self.entry = -1  # which of the records that entered, from 0; -1 where nobody knows
        self.entered = False


class _Log:
    """One log file: how far it was read, and the runs that begin in it."""

    def __init__(self, name: str, node: int) -> None:
        self.name, self.node = name, node
        self.entries = Entries(name)
        self.runs: deque[_SnetRun] = deque()
        self.sequence = 0
        self.identity = ""
        # of one task with a thread of its own: it may end without an end entry
        self.of_task = _WORKER.fullmatch(name) is None
        self.started = self.ended = False
        self.reached_ns = -1  # end of its last stop that was read

    def stops(self, chunks: Iterable[bytes]) -> Iterator[tuple[_Log, Stop]]:
        """Yield the stops that the file tells of; raises InvalidValue, TooLarge."""
        digest = blake2b(self.name.encode(), digest_size=10)
        for entry in (entry for data in chunks for entry in self.entries.feed(data)):
            if not self.identity:
                digest.update(entry + b"#")
            found = stop_of(entry, self.name)
            if isinstance(found, str):
                self.started, self.ended = self.started or found == "start", self.ended or found == "end"
                continue
            if not self.identity and any(message.taken for message in found.messages):
                self.identity = digest.hexdigest()
            self.reached_ns = found.end_ns
            self.ended = self.ended or (self.of_task and found.state == ENDED)
            yield self, found

    @property
    def producer(self) -> str:
        return f"snet:{self.identity}"

    @property
    def grows(self) -> bool:
        """True while it is seen to be unfinished."""
        return self.entries.partial or (self.started and not self.ended)


class SnetRun:
    """All logs and maps of one run of a program, read once.

    Parameters
    ----------
    files : mapping
        The run's files by name, each as its bytes in pieces; others are left alone.
    network : str
        The network that its rows name.
    predictors : mapping, optional
        By box, the predictor of each record that enters, in order; "" has it for boxes that have no entry. Absent: bytes.

    Raises
    ------
    InvalidValue, TooLarge
        For an entry that is none, here or when `rows` reads it.
    """

    def __init__(
        self, files: Mapping[str, Iterable[bytes]], network: str, predictors: Mapping[str, Sequence[float]] | None = None
    ) -> None:  # fmt: skip
        self._network = network
        self._predictors = predictors or {}
        self._places: dict[tuple[int, int], Place] = {}
        self._open: dict[tuple[int, int], _SnetRun] = {}
        self._made: dict[str, _SnetRun] = {}  # records given out and not yet taken in, by whom
        self._entries = 0  # records that entered
        self.bytes_read = 0
        self.unmapped = 0  # runs left out because no map tells which box they are of
        named = [(name, _LOG.fullmatch(name), self._counted(chunks)) for name, chunks in files.items()]
        self._logs = {_Log(name, int(log[1] or 0)): chunks for name, log, chunks in named if log}
        self._cut_maps = [self._read_map(name, int(found[1]), chunks) for name, _, chunks in named
                          if (found := _MAP.fullmatch(name))]  # fmt: skip

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for data in chunks:
            self.bytes_read += len(data)
            yield data

    def _read_map(self, name: str, node: int, chunks: Iterable[bytes]) -> bool:
        """Take in what the tasks of a node are; return whether the map ends in the middle of an entry."""
        entries = Entries(name)
        for entry in (entry for data in chunks for entry in entries.feed(data)):
            task = place_of(entry, name)
            if task is not None:
                self._places[node, task[0]] = task[1]
        return entries.partial

    @property
    def grows(self) -> bool:
        """True where what was read ends in the middle of an entry, or a worker has started and not ended."""
        return any(log.grows for log in self._logs) or any(self._cut_maps)

    def rows(self, *, ended: bool = False) -> Iterator[Row]:
        """Give the rows, by the beginning of their runs as far as the files allow.

        `ended`: the run is over, though its files do not say so. Until it is over a row waits while its run goes on, its task
        is in no map, or it is not known where its record came from; so do those that began after it in the same log.
        """
        for count, (log, stop) in enumerate(self._stops(ended=ended), 1):
            self._take(log, stop)
            if count % STOPS_TOGETHER == 0:
                yield from self._known_rows(final=False)
        yield from self._known_rows(final=ended or not self.grows)

    def _stops(self, *, ended: bool) -> Iterator[tuple[_Log, Stop]]:
        """Yield stops in the order of their ends, as far as no file may have earlier ones when it has grown.

        A task that was blocked may go on with another worker, whose file is written later. One that has said nothing for
        `LATE_NS` is taken for idle.
        """
        limit = math.inf  # beyond, a file that was read and has not ended may have more

        def read(log: _Log, chunks: Iterable[bytes]) -> Iterator[tuple[_Log, Stop]]:
            nonlocal limit
            yield from log.stops(chunks)
            limit = limit if log.ended else min(limit, log.reached_ns)

        held: deque[tuple[_Log, Stop]] = deque()
        for each in merge(
            *(read(log, chunks) for log, chunks in self._logs.items()), key=lambda found: found[1].end_ns
        ):
            held.append(each)
            while held and held[0][1].end_ns <= max(limit, each[1].end_ns - LATE_NS):
                yield held.popleft()
        if ended or not self.grows:
            yield from held

    def _known_rows(self, *, final: bool) -> Iterator[Row]:
        """Give the rows that are known by what was taken in; `final`: nothing more comes."""
        while True:
            ready = [log for log in self._logs if self._ready(log, final=final)]
            if not ready:
                return
            log = min(ready, key=lambda each: each.runs[0].begun_ns)
            run = log.runs.popleft()
            place = self._places[run.task]
            log.sequence += 1
            known = {
                "network": self._network, "entered": run.entered or None, "replica": place.replica,
                "running": None if run.closed else True,
            }  # fmt: skip
            more = {key: value for key, value in known.items() if value is not None}
            x = self._predictor(place.name, run)
            yield Row(log.producer, log.sequence, place.name, x, 1.0, run.ran_ns / 1e9, more)

    def _predictor(self, box: str, run: _SnetRun) -> float | None:
        """Return the value of what the caller named, of the record that entered; bytes where it named nothing."""
        values = self._predictors.get(box, self._predictors.get("", None))
        if values is None:
            return float(run.size)
        found = values[run.entry] if 0 <= run.entry < len(values) else math.nan
        return found if found == found else None  # noqa: PLR0124 - NaN is not itself

    # -- stops to runs ----------------------------------------------------------------------------------------------------

    def _take(self, log: _Log, stop: Stop) -> None:
        task = (log.node, stop.task)
        place = self._places.get(task)
        run = self._open.pop(task, None)
        since = stop.end_ns - stop.ran_ns
        for message in stop.messages:
            if place is not None and place.outside:
                if self._made.pop(message.record, None) is None:  # it comes in here; those that leave are done with
                    source = self._made[message.record] = _SnetRun(OUTSIDE, "", 0, 0, None)
                    source.entry, self._entries = self._entries, self._entries + 1
            elif message.taken:
                if run is not None:
                    run.ran_ns += message.at_ns - since
                    run.closed = True
                since = message.at_ns
                run = _SnetRun(task, message.record, message.size, since, self._made.pop(message.record, None))
                if place is None or place.box:
                    log.runs.append(run)
            elif run is not None:
                self._made[message.record] = run
        while len(self._made) > MADE_MAX:
            del self._made[next(iter(self._made))]
        if run is not None:
            run.ran_ns += stop.end_ns - since
            run.closed = stop.state in WAITING
            if not run.closed:
                self._open[task] = run

    # -- runs to rows -----------------------------------------------------------------------------------------------------

    def _ready(self, log: _Log, *, final: bool) -> bool:
        """Return whether the first of a log's runs makes a row now; leave out what is of no box."""
        while log.runs:
            run = log.runs[0]
            place = self._places.get(run.task)
            if place is None and not final:
                return False
            if place is None or not place.box:
                self.unmapped += place is None
                log.runs.popleft()
                continue
            return (run.closed or final) and self._resolve(run, final=final)
        return False

    def _resolve(self, run: _SnetRun, *, final: bool) -> bool:
        """Find the record that entered and became what a run took in; return whether that is settled."""
        chain, seen = [run], {run}
        while not chain[-1].resolved:
            last = chain[-1]
            if last.maker is None:
                last.maker = self._made.pop(last.id, None)
            if last.maker in seen:  # logs that say so are wrong: no record comes of itself
                last.maker = None
            if last.maker is None or last.maker.task == OUTSIDE:
                if not self._begin(last, final=final):
                    return False
                break
            chain.append(last.maker)
            seen.add(last.maker)
        entry = chain[-1].entry
        for each in chain:
            each.resolved, each.entry, each.maker = True, entry, None
        return True

    def _begin(self, run: _SnetRun, *, final: bool) -> bool:
        """Settle a run whose record nobody is known to have made."""
        place = self._places.get(run.task)
        outside = run.maker is not None
        if place is None or not (outside or (place.first and not self._predictors) or final):
            return False
        run.entry = run.maker.entry if run.maker is not None else -1
        if outside or place.first or not any(place.surely_after(box) for box in self._boxes()):
            run.entered = True
        return True

    def _boxes(self) -> set[Place]:
        return {place for place in self._places.values() if place.box}


def run_in(
    directory: Path, network: str, predictors: Mapping[str, Sequence[float]] | None = None
) -> tuple[SnetRun, int]:
    """Return the run whose files lie in a directory, and how many bytes they have.

    Raises InvalidValue when the directory cannot be read, or holds no log of a run.
    """
    try:
        paths = [path for path in directory.iterdir() if _LOG.fullmatch(path.name) or _MAP.fullmatch(path.name)]
        # Of a run that goes on, maps are read further than logs: they say what the tasks of the logs are.
        paths.sort(key=lambda path: (path.suffix == ".map", path.name))
        sizes = {path: path.stat().st_size for path in paths}
    except OSError as error:
        bound = "a directory that can be read"
        raise InvalidValue("directory", str(directory), bound, error.strerror or "") from error
    if not any(_LOG.fullmatch(path.name) for path in paths):
        raise InvalidValue("directory", str(directory), "a directory with mon_n00_worker00.log and the like")
    files = {path.name: _chunks(path, size) for path, size in sizes.items()}
    return SnetRun(files, network, predictors), sum(sizes.values())


def _chunks(path: Path, size: int) -> Iterator[bytes]:
    """Yield the first `size` bytes of a file, in pieces."""
    try:
        with path.open("rb") as file:
            while data := file.read(min(size, CHUNK_BYTES)):
                size -= len(data)
                yield data
    except OSError as error:
        raise InvalidValue("directory", str(path), "a file that can be read", error.strerror or "") from error
