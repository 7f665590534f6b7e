"""The profiles of runs: task events of producers in, each run's profile out; a record each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from advisor.domain import limits
from advisor.domain.names import normalised_name
from advisor.domain.task_events import EVENTS_BATCH_MAX, TaskEvents
from advisor.engine.events import Ended
from advisor.engine.kinds import RecordKind
from advisor.errors import InvalidValue
from advisor.profile.checkpoint import from_bytes, to_bytes
from advisor.profile.diagnosis import diagnose
from advisor.profile.profiler import Folded, Profiler
from advisor.profile.tree import Profile
from advisor.profile.view import notes_of, profile_of
from advisor.profile.whole_run import run_of

Key = tuple[str, bytes]

ANONYMOUS: Final[Key] = ("", bytes(16))


class Profiles(RecordKind[Key, Profiler]):
    """The profiler of each producer's run, at most `runs_max`: the one that was silent longest gives way."""

    name, merges = "profiles", {"run": "more events"}

    def __init__(self, reports: Callable[[Iterable[str]], Mapping[str, Any]]) -> None:
        super().__init__()
        self.runs_max = limits.PROFILES_MAX
        self._reports = reports  # what is known of task types, by their names
        self.runs = self.known
        self.gave_way = 0

    def fold_events(self, key: Key, events: TaskEvents) -> Folded:
        """Fold a batch of a producer; raises as `Profiler.fold_batch`."""
        profiler = self.runs.get(key)
        if profiler is None:
            profiler = Profiler()
        folded = profiler.fold_batch(events)  # before anything is kept: a refused batch leaves no trace
        self.set_record(key, profiler)
        profiler.spoken = 1 + max(each.spoken for each in self.runs.values())
        return folded

    def answer(
        self, producer: str | None, incarnation: bytes | None, *, nodes: bool, diagnosis: bool, ended: bool = False
    ) -> dict[str, Any]:
        """Return the profile of a producer's newest run, or of the one named; without producer, which runs there are.

        With `ended`, what waits for other threads' events is in it, up to `EVENTS_BATCH_MAX` of them: a producer that was
        killed could not say that its run is over. Nothing is changed by it. Raises InvalidValue when there is none.
        """
        if producer is None:
            return {"runs": [self._reported(key, self.runs[key]) for key in reversed(self._keys())]}
        key = self._key(producer, incarnation)
        run, profile = self.runs[key], self.profile(key, ended=ended)
        answer: dict[str, Any] = {**self._reported(key, run), "measures": profile.measures.as_dict()}
        if nodes:
            answer["profile"] = profile.as_dict()
        if diagnosis:
            answer["diagnosis"] = [finding.as_dict() for finding in diagnose(profile)]
        return answer

    def profile(self, key: Key, *, ended: bool = False) -> Profile:
        """Return the profile of a run; `ended` as of `answer`."""
        run = self.runs[key]
        if ended and len(run.window) <= EVENTS_BATCH_MAX:
            run = run.as_if_ended()
        return profile_of(run, self._reports(run.strings[number] for number in run.sample.ended))

    def ended(self, key: Key, folded: Folded) -> Ended:
        """Return the instances of a batch that component models learn; once, for which these are is counted."""
        run = self.runs[key]
        rows = run.sample.sample_ended(folded.ended, folded.sizes)
        known: set[int] = set(rows.types.tolist())
        names = {number: normalised_name(run.strings[number]) for number in known}
        named = np.isin(rows.types, [number for number, name in names.items() if name is not None])
        types, *columns = (column[named] for column in rows)
        numbers, index = np.unique(types, return_inverse=True)
        return Ended(tuple(str(names[number]) for number in numbers.tolist()), index.ravel(), *columns)

    def run_of(self, producer: str, incarnation: bytes | None = None) -> dict[str, Any]:
        """Return what the profile of a producer's newest run, or of the one named, says of it as a whole.

        Raises InvalidValue when there is none.
        """
        return run_of(profile_of(self.runs[self._key(producer, incarnation)]))

    def _key(self, producer: str, incarnation: bytes | None) -> Key:
        keys = [key for key in self._keys() if key[0] == producer and incarnation in (None, key[1])]
        if not keys:
            known = sorted({name for name, _ in self._keys()})
            raise InvalidValue("producer", producer, f"one that sent task events: {', '.join(known) or 'none did yet'}")
        return keys[-1]

    def _keys(self) -> list[Key]:
        """Return the runs, the one that was silent longest first."""
        return sorted(self.runs, key=lambda key: (self.runs[key].spoken, key))

    def _reported(self, key: Key, run: Profiler) -> dict[str, Any]:
        return {"producer": key[0], "incarnation": key[1], "events": run.accepted, "notes": notes_of(run)}

    def _make_room(self, key: Key) -> None:
        if key not in self.runs and len(self.runs) >= self.runs_max:
            self.remove_record(self._keys()[0])
            self.gave_way += 1

    # -- as bytes ---------------------------------------------------------------------------------------------------------

    def encode_record(self, record: Profiler) -> bytes:
        """Return a run's bytes, without what is open in it."""
        return to_bytes(record)

    def decode_record(self, key: Key, data: bytes) -> Profiler:
        """Return a run of its bytes."""
        del key
        return from_bytes(data, Profiler())

    def merged_record(self, key: Key, mine: Profiler, theirs: Profiler) -> Profiler:
        """Return the run with more events."""
        return mine if mine.accepted >= theirs.accepted else self.decode_record(key, self.encode_record(theirs))

    def set_record(self, key: Key, record: Profiler) -> None:
        """Let a run stand in the place of what its key had."""
        self._make_room(key)
        super().set_record(key, record)

    def take_changed(self) -> dict[Key, bytes | None]:
        """Return the records of the runs that changed since they were taken last, for the log; None: it gave way.

        What is open in a run is in no record, and closes as lost at a restart; so a log of its events would not do.
        """
        changed, self.unlogged = self.unlogged or {}, None if self.unlogged is None else {}
        return {key: self.encode_record(self.runs[key]) if key in self.runs else None for key in changed}


def refusals(folded: Folded | None) -> Mapping[str, Any]:
    """Return the refusals of a batch as the wire has them: the first with the time of the event, why, and in words."""
    if folded is None:
        return {"count": 0, "by_code": {}, "first": []}
    return {
        "count": sum(folded.refused.values()),
        "by_code": dict(folded.refused),
        "first": [[time, code, text] for time, code, text in folded.first],
    }
