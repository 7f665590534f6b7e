"""Runs of S-Net programs as rows: what monitor logs tell of boxes, records and their ways, once for each run of a box.

A run of a box lasts from the message of its record to the next such message, or to the stop of its task that waits for input;
what the task was blocked in between is not its own. A record that a task gives out is made of the one that it took in last:
so each is followed back to the record that entered the network.

A row is numbered by its place among the runs that begin in its log file; the file is known by its first bytes. So the same
file teaches the same rows under the same numbers, however it is cut, wherever it lies, and whatever the others tell meanwhile.
"""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from advisor.errors import InvalidValue
from advisor.files.run_files import Row
from advisor.files.snet_logs import Entries, Place, Stop, place_of, stop_of

CHUNK_BYTES = 2**16
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
    """One log file: what is read of it, and the runs that begin in it."""

    def __init__(self, name: str, node: int) -> None:
        self.name, self.node = name, node
        self.entries = Entries(name)
        self.stops: deque[Stop] = deque()
        self.runs: deque[_SnetRun] = deque()
        self.sequence = 0
        self.identity = ""
        self.of_task = (
            _WORKER.fullmatch(name) is None
        )  # of one task with a thread of its own: it may end without an end entry
        self.started = self.ended = False
        self.reached_ns = -1  # end of its last stop that was read
        self.more = True  # there is more of it to be read now
        self._hash = blake2b(name.encode(), digest_size=10)

    def feed(self, data: bytes) -> None:
        for entry in self.entries.feed(data):
            if not self.identity:
                self._hash.update(entry + b"#")
            found = stop_of(entry, self.name)
            if isinstance(found, str):
                self.started, self.ended = self.started or found == "start", self.ended or found == "end"
                continue
            if not self.identity and any(message.taken for message in found.messages):
                self.identity = self._hash.hexdigest()
            self.stops.append(found)
            self.reached_ns = found.end_ns
            self.ended = self.ended or (self.of_task and found.state == ENDED)

    @property
    def producer(self) -> str:
        return f"snet:{self.identity}"

    @property
    def grows(self) -> bool:
        """True while it is seen to be unfinished."""
        return self.entries.partial or (self.started and not self.ended)


class SnetRun:
    """All logs and maps of one run of a program.

    Parameters
    ----------
    network : str
        The network that its rows name.
    predictors : mapping, optional
        By box, the predictor of each record that enters, in order; "" has it for boxes that have no entry. Absent: bytes.
    """

    def __init__(self, network: str, predictors: Mapping[str, Sequence[float]] | None = None) -> None:
        self._network = network
        self._predictors = predictors or {}
        self._logs: dict[str, _Log] = {}
        self._maps: dict[str, Entries] = {}
        self._places: dict[tuple[int, int], Place] = {}
        self._open: dict[tuple[int, int], _SnetRun] = {}
        self._made: dict[str, _SnetRun] = {}  # records given out and not yet taken in, by whom
        self._entries = 0  # records that entered
        self.unmapped = 0  # runs left out because no map tells which box they are of

    def feed(self, name: str, data: bytes, *, more: bool = False) -> bool:
        """Take in the next bytes of a file, by its name; `more`: there is more of it. Return whether it is one of a run's.

        Raises InvalidValue, TooLarge.
        """
        found = _MAP.fullmatch(name)
        if found is not None:
            for entry in self._maps.setdefault(name, Entries(name)).feed(data):
                task = place_of(entry, name)
                if task is not None:
                    self._places[int(found[1]), task[0]] = task[1]
            return True
        found = _LOG.fullmatch(name)
        if found is None:
            return False
        log = self._logs.get(name)
        if log is None:
            log = self._logs[name] = _Log(name, int(found[1] or 0))
        log.more = more
        log.feed(data)
        return True

    @property
    def grows(self) -> bool:
        """True while a file is seen to be unfinished: an entry is not whole, or a worker has started and not ended."""
        return any(log.grows for log in self._logs.values()) or any(each.partial for each in self._maps.values())

    def hungry(self, name: str) -> bool:
        """Return whether more of a file is to be read now: where it is not ahead of others of which there is more."""
        log = self._logs.get(name)
        if log is None or not log.stops or not log.more:
            return True
        return log.reached_ns <= min(each.reached_ns for each in self._logs.values() if each.more)

    def rows(self, *, final: bool) -> Iterator[Row]:
        """Give the rows that are known by now, by the beginning of their runs as far as the files allow.

        `final`: nothing more comes. Until then a row waits while its run goes on, its task is in no map, or it is not known
        where its record came from; so do those that began after it in the same log.
        """
        self._advance(final=final)
        while True:
            ready = [log for log in self._logs.values() if self._ready(log, final=final)]
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

    def _advance(self, *, final: bool) -> None:
        """Take in the stops that were read, in the order of their ends, as far as no file may have earlier ones.

        A task that was blocked may go on with another worker, whose file is written later. One that has said nothing for
        `LATE_NS` is taken for idle.
        """
        newest = max((log.reached_ns for log in self._logs.values()), default=0)
        reached = [
            log.reached_ns if log.more else max(log.reached_ns, newest - LATE_NS)
            for log in self._logs.values()
            if log.more or not (final or log.ended)
        ]
        limit = min(reached, default=None)
        logs = [log for log in self._logs.values() if log.stops]
        while logs:
            log = min(logs, key=lambda each: each.stops[0].end_ns)
            if limit is not None and log.stops[0].end_ns > limit:
                return
            self._take(log, log.stops.popleft())
            if not log.stops:
                logs.remove(log)

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


class SnetFiles:
    """The files of one run in a directory, as far as they have grown.

    Raises InvalidValue when the directory cannot be read, or holds no log of a run.
    """

    def __init__(self, directory: Path, network: str, predictors: Mapping[str, Sequence[float]] | None = None) -> None:
        self.run = SnetRun(network, predictors)
        self._directory = directory
        self._at: dict[str, int] = {}
        self._inodes: dict[str, int] = {}
        self.bytes_read = 0
        if not any(_LOG.fullmatch(path.name) for path in self._files()):
            raise InvalidValue("directory", str(directory), "a directory with mon_n00_worker00.log and the like")

    @property
    def bytes_total(self) -> int:
        """Bytes of all files as they are now."""
        return sum(path.stat().st_size for path in self._files())

    def rows(self, *, final: bool = False) -> Iterator[Row]:
        """Give the rows of what the files hold beyond what was read of them; see `SnetRun.rows`.

        Raises InvalidValue, TooLarge.
        """
        while self._read():
            yield from self.run.rows(final=False)
        yield from self.run.rows(final=final)

    def _read(self) -> bool:
        """Read a little more of each file that the others wait for; return whether there was any."""
        some = False
        for path in self._files():
            name = path.name
            if _LOG.fullmatch(name) and not self.run.hungry(name):
                continue
            try:
                with path.open("rb") as file:
                    known = os.fstat(file.fileno())
                    file.seek(self._at.get(name, 0))
                    data = file.read(CHUNK_BYTES)
                    size = known.st_size
            except OSError as error:
                raise InvalidValue("directory", str(path), "a file that can be read", error.strerror or "") from error
            if size < self._at.get(name, 0) or self._inodes.setdefault(name, known.st_ino) != known.st_ino:
                raise InvalidValue(
                    "directory",
                    str(path),
                    "a file that grows: it was replaced",
                    "another run began here: learn it anew",
                )
            at = self._at[name] = self._at.get(name, 0) + len(data)
            self.bytes_read += len(data)
            self.run.feed(name, data, more=bool(data) and at < size)
            some = some or bool(data)
        return some

    def _files(self) -> list[Path]:
        try:
            # Maps come first: they say what the tasks of the logs are.
            return sorted(
                (path for path in self._directory.iterdir() if _LOG.fullmatch(path.name) or _MAP.fullmatch(path.name)),
                key=lambda path: (path.suffix != ".map", path.name),
            )
        except OSError as error:
            raise InvalidValue(
                "directory", str(self._directory), "a directory that can be read", error.strerror or ""
            ) from error
