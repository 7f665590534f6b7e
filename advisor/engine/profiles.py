"""The profiles of runs: task events of producers in, each run's profile out; kept in pages like any other table."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

import numpy as np

from advisor.domain import limits
from advisor.domain.names import normalised_name
from advisor.domain.task_events import EVENTS_BATCH_MAX, TaskEvents
from advisor.engine.blobs import Paged
from advisor.engine.events import Ended
from advisor.engine.snapshot import TablePages
from advisor.engine.state_bytes import PROFILE_LAYOUT
from advisor.errors import InvalidValue
from advisor.profile import layout as at
from advisor.profile.checkpoint import from_bytes, to_bytes
from advisor.profile.diagnosis import diagnose
from advisor.profile.profiler import Folded, Profiler
from advisor.profile.view import notes_of, profile_of
from advisor.profile.whole_run import run_of

Key = tuple[str, bytes]

LAYOUT: Final = PROFILE_LAYOUT
ANONYMOUS: Final[Key] = ("", bytes(16))


class Run:
    """One producer's run."""

    __slots__ = ("number", "profiler")

    def __init__(self, number: int, profiler: Profiler) -> None:
        self.number = number  # of its table; a run that gave way leaves it to another
        self.profiler = profiler

    @property
    def silence(self) -> tuple[int, int]:
        """What comes first was silent longer; who was before this was kept speaks in the order of numbers."""
        return self.profiler.spoken, self.number


class Profiles:
    """Profiles by producer.

    Parameters
    ----------
    runs_max : int
        Runs kept; the one that was silent longest gives way.
    """

    def __init__(self, runs_max: int = limits.PROFILES_MAX) -> None:
        self.runs_max = runs_max
        self.runs: dict[Key, Run] = {}
        self.gave_way = 0
        self.touched: dict[Key, None] = {}  # of runs that changed, or went, since somebody took note
        self.paged = Paged("profile", LAYOUT, self._put_record)

    def fold(self, key: Key, events: TaskEvents) -> Folded:
        """Fold a batch of a producer; raises as `Profiler.fold`."""
        run = self.runs.get(key)
        if run is None:
            profiler = Profiler()
            folded = profiler.fold(events)  # before anything is kept: a refused batch leaves no trace
            run = self._placed(profiler)
        else:
            folded = run.profiler.fold(events)
        run.profiler.spoken = 1 + max((each.profiler.spoken for each in self.runs.values()), default=0)
        run.profiler.ended = events.ended
        self.runs[key], self.touched[key] = run, None
        self.paged.touch(run.number)
        return folded

    def forget(self, producer: str, incarnation: bytes | None = None) -> dict[str, Any]:
        """Forget the profiles of a producer's runs, or of the one named, their task types with them.

        A run that has not ended goes on: its profile begins anew with its next events, and is not told before. Raises
        InvalidValue when there is none.

        Returns
        -------
        dict
            producer; runs and events: how many are forgotten.
        """
        self._key(producer, incarnation)
        keys = [key for key in self._told_keys() if key[0] == producer and incarnation in (None, key[1])]
        events = 0
        for key in keys:
            run, self.touched[key] = self.runs[key], None
            events += run.profiler.accepted
            if run.profiler.ended:
                self.drop(key)
            else:
                run.profiler = run.profiler.emptied()  # and the first to give way
                self.paged.touch(run.number)
        return {"producer": producer, "runs": len(keys), "events": events}

    def answer(
        self, producer: str | None, incarnation: bytes | None, *, nodes: bool, diagnosis: bool, ended: bool = False
    ) -> dict[str, Any]:
        """Return the profile of a producer's newest run, or of the one named; without producer, which runs there are.

        With `ended`, what waits for other threads' events is in it, up to `EVENTS_BATCH_MAX` of them: a producer that was
        killed could not say that its run is over. Nothing is changed by it. Raises InvalidValue when there is none.
        """
        if producer is None:
            return {"runs": [self._told(key, self.runs[key]) for key in reversed(self._told_keys())]}
        key = self._key(producer, incarnation)
        run = self.runs[key]
        whole = ended and len(run.profiler.window) <= EVENTS_BATCH_MAX
        profile = profile_of(run.profiler.as_if_ended() if whole else run.profiler)
        answer: dict[str, Any] = {**self._told(key, run), "measures": profile.measures.as_dict()}
        if nodes:
            answer["profile"] = profile.as_dict()
        if diagnosis:
            answer["diagnosis"] = [finding.as_dict() for finding in diagnose(profile)]
        return answer

    def run(self, producer: str, incarnation: bytes | None = None) -> tuple[dict[str, Any], Profiler]:
        """Return what is told of a producer's newest run, or of the one named, and its profiler, to be read.

        Raises InvalidValue when there is none.
        """
        key = self._key(producer, incarnation)
        return self._told(key, self.runs[key]), self.runs[key].profiler

    def ended(self, key: Key, folded: Folded) -> Ended:
        """Return the instances of a batch that component models learn; once, for which these are is counted."""
        return _ended(self.runs[key].profiler, folded)

    def foretold(self, key: Key, events: TaskEvents) -> Ended:
        """Return what `ended` will say once a batch is folded; nothing is changed. Cost O(state of the run); raises as it."""
        run = self.runs.get(key)
        profiler = Profiler() if run is None else run.profiler.copied()
        return _ended(profiler, profiler.fold(events))

    def run_of(self, producer: str, incarnation: bytes | None = None) -> dict[str, Any]:
        """Return what the profile of a producer's newest run, or of the one named, says of it as a whole.

        Raises InvalidValue when there is none.
        """
        return run_of(profile_of(self.runs[self._key(producer, incarnation)].profiler))

    def _key(self, producer: str, incarnation: bytes | None) -> Key:
        keys = [key for key in self._told_keys() if key[0] == producer and incarnation in (None, key[1])]
        if not keys:
            known = sorted({name for name, _ in self._told_keys()})
            raise InvalidValue("producer", producer, f"one that sent task events: {', '.join(known) or 'none did yet'}")
        return keys[-1]

    def _told_keys(self) -> list[Key]:
        """Return the runs, who spoke last at the end, but for those of which nothing came since they were forgotten."""
        told: list[Key] = []
        for key, run in sorted(self.runs.items(), key=lambda item: item[1].silence):
            profiler = run.profiler
            if profiler.accepted or len(profiler.window) or profiler.waiting_lost:
                told.append(key)
        return told

    def held(self) -> dict[str, int]:
        """Return what all profiles hold: runs, nodes, instances, events_waiting, bytes; and how many gave way. Cost O(runs)."""
        profilers = [run.profiler for run in self.runs.values()]
        return {
            "runs": len(profilers),
            "gave_way": self.gave_way,
            "nodes": sum(int(each.tables.g[at.NODES]) for each in profilers),
            "instances": sum(each.tables.instances for each in profilers),
            "events_waiting": sum(len(each.window) for each in profilers),
            "bytes": sum(each.tables.bytes + each.window.bytes for each in profilers),
        }

    def _told(self, key: Key, run: Run) -> dict[str, Any]:
        return {
            "producer": key[0], "incarnation": key[1], "events": run.profiler.accepted, "notes": notes_of(run.profiler),
        }  # fmt: skip

    def _placed(self, profiler: Profiler) -> Run:
        if len(self.runs) >= self.runs_max:
            gone = min(self.runs, key=lambda key: self.runs[key].silence)
            old, self.touched[gone] = self.runs.pop(gone), None
            self.gave_way += 1
            return Run(old.number, profiler)
        return Run(self.paged.new(), profiler)

    # -- snapshots --------------------------------------------------------------------------------------------------------

    def _put_record(self, data: bytes, number: int) -> None:
        key, profiler = _read(data)
        self.runs[key], self.touched[key] = Run(number, profiler), None

    def drop(self, key: Key) -> None:
        """Take a run away."""
        run = self.runs.pop(key, None)
        if run is not None:
            self.touched[key] = None
            self.paged.drop(run.number)

    def take(self, other: Profiles) -> None:
        """Take another's runs that are new here, or have more events there."""
        for key, run in other.runs.items():
            mine = self.runs.get(key)
            if mine is None or mine.profiler.accepted < run.profiler.accepted:
                self.put(*other.records((key,)))

    def records(self, keys: Container[Key] | None = None) -> list[bytes]:
        """Return the runs, or those named, as bytes, in the order of their keys."""
        return [_bytes_of(key, run) for key, run in sorted(self.runs.items()) if keys is None or key in keys]

    def put(self, data: bytes) -> None:
        """Take a run from its bytes, in the place of the one that its producer had."""
        key, profiler = _read(data)
        self.drop(key)
        self.runs[key], self.touched[key] = self._placed(profiler), None
        self.paged.touch(self.runs[key].number)

    def pages(self) -> list[TablePages]:
        """Return the changed pages of changed runs, and count them as taken."""
        by_number = {run.number: (key, run) for key, run in self.runs.items()}
        return self.paged.pages(lambda number: _bytes_of(*by_number[number]))


def _ended(profiler: Profiler, folded: Folded) -> Ended:
    rows = profiler.types.sample(folded.ended, folded.sizes)
    names = {number: normalised_name(profiler.name(number)) for number in set(rows.types.tolist())}
    named = {number: name for number, name in names.items() if name is not None}
    rows = rows if len(named) == len(names) else rows.of(list(named))
    numbers, index = np.unique(rows.types, return_inverse=True)
    types = tuple(named[number] for number in numbers.tolist())
    return Ended(types, index.ravel(), rows.times, rows.sizes, rows.running, rows.counts)


def _bytes_of(key: Key, run: Run) -> bytes:
    name = key[0].encode()
    head = len(name).to_bytes(8, "little") + key[1] + name + b"\0" * (-len(name) % 8)
    return head + to_bytes(run.profiler)


def _read(data: bytes) -> tuple[Key, Profiler]:
    length = int.from_bytes(data[:8], "little")
    if length > limits.NAME_BYTES_MAX:
        raise InvalidValue("profile", length, f"a name of at most {limits.NAME_BYTES_MAX} bytes")
    start = 24 + length + (-length % 8)
    return (data[24 : 24 + length].decode(), data[8:24]), from_bytes(data[start:], Profiler())


def refusals(folded: Folded | None) -> Mapping[str, Any]:
    """Return the refusals of a batch as the wire has them: the first with the time of the event, why, and in words."""
    if folded is None:
        return {"count": 0, "by_code": {}, "first": []}
    return {
        "count": sum(folded.refused.values()),
        "by_code": dict(folded.refused),
        "first": [[time, code, text] for time, code, text in folded.first],
    }
