"""The engine: an advisor and its producers; the sole owner of state behind a service. Events in, state and answers out.

Exactly once: a producer is (name, incarnation); its batches are numbered from 1. Only applied + 1 is folded; a number applied
before is not folded again; a gap is an error that names the number expected. The applied numbers travel in the same commit as
what they changed: an entry of the journal (`take_entry`), or a snapshot of the pages that changed (`snapshot`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.answers import Receipt
from advisor.domain.observations import Columns
from advisor.domain.task_events import TaskEvents
from advisor.engine import pieces, restoring
from advisor.engine.advisor import Advisor
from advisor.engine.components import Event
from advisor.engine.journal import Book, Entry, Forgotten, Journal, Limits, Pinned, decode
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.engine.pages import base_pages, record_pages
from advisor.engine.plain import PLAIN_ROWS_MAX, PlainRows
from advisor.engine.profiles import ANONYMOUS, Profiles, refusals
from advisor.engine.snapshot import Snapshot
from advisor.errors import InvalidValue, SequenceGap, TooLarge
from advisor.profile.profiler import Folded

Producer = tuple[str, bytes]
RUN_NEEDS = ("size", "workers", "elapsed_s", "work_s", "delay_s", "no_work_s", "creates", "waits")


class Engine:
    """State behind a service.

    Parameters
    ----------
    timer_noise_s, components_max, model_memory_bytes
        As for `Advisor`.
    producers_max : int
        Producers remembered; further ones are refused until some are evicted.

    Attributes
    ----------
    underway : Batch or None
        The batch that is folded piece by piece, and is not whole yet.
    told : callable or None
        Called with plain rows when they are folded, see `take_rows`.
    """

    def __init__(
        self,
        *,
        timer_noise_s: float = 1e-6,
        components_max: int = limits.COMPONENTS_MAX,
        producers_max: int = limits.PRODUCERS_MAX,
        model_memory_bytes: int = MODEL_MEMORY_BYTES,
    ) -> None:
        self.advisor = Advisor(timer_noise_s, components_max, model_memory_bytes)
        self.profiles = Profiles()
        self.producers_max = producers_max
        self.producers: dict[Producer, int] = {}
        self._producers_changed: dict[Producer, None] = {}
        self._producers_gone: dict[Producer, None] = {}
        self.underway: pieces.Batch | None = None
        self._names_taken = 0  # names 0 .. are in an earlier snapshot
        self._journal: Journal | None = None
        self._plain = PlainRows(self.advisor.components)
        self._defect: Exception | None = None
        self.told: Callable[[Columns], None] | None = None

    @property
    def totals(self) -> Mapping[str, int]:
        """Exact counters, see `Components.totals`."""
        self.flush()
        return self.advisor.components.totals

    @property
    def state_bytes(self) -> int:
        """Bytes of the tables."""
        return self.advisor.components.bytes

    # -- events -----------------------------------------------------------------------------------------------------------

    def observe(self, columns: Columns) -> Receipt:
        """Fold a batch without a number: at most once."""
        return self._fold(columns)

    def observe_batch(self, producer: str, incarnation: bytes, sequence: int, columns: Columns) -> Receipt:
        """Fold a numbered batch once.

        Raises
        ------
        SequenceGap
            When the number is beyond the next; nothing is changed.
        TooLarge
            When the producer is new and there is no room for it.
        """
        key = (producer, incarnation)
        if self._is_replay(key, sequence):
            return Receipt(0, sequence=sequence, replayed=True)
        receipt = self._fold(columns)
        self._advance(key, sequence)
        return Receipt(receipt.accepted, receipt.refused, sequence)

    def begin(
        self, columns: Columns, producer: Producer | None = None, sequence: int | None = None
    ) -> pieces.Batch | None:
        """Begin to fold a batch piece by piece, numbered where a producer is given; None: its number was applied before.

        Until its last piece is folded the engine answers questions and takes other batches, one at a time may be folded
        so, and there is no snapshot and no entry: it would hold rows without their number.

        Raises
        ------
        SequenceGap, TooLarge
            As `observe_batch`.
        """
        assert self.underway is None
        if producer is not None and sequence is not None and self._is_replay(producer, sequence):
            return None

        def done() -> None:
            self.underway = None
            if producer is not None and sequence is not None:
                self._advance(producer, sequence)

        self.underway = pieces.Batch(self._fold, columns, done)
        return self.underway

    def give_up(self) -> None:
        """Take what was folded of the batch under way for the whole of it: the rest of it cannot be folded."""
        self.underway = None

    def take_rows(self, key: Producer, sequence: int, rows: Sequence[Any]) -> bool:
        """Take a batch of plain rows ``[component, predictor, cores, elapsed_s]``, all of which are then accepted.

        They are folded with others before anything else is done (`flush`); a question to the advisor itself must flush
        first. False: nothing was taken, `observe_batch` has the words. Cost O(rows).
        """
        if self.producers.get(key) != sequence - 1:
            return False
        plain = self._plain
        if plain.components is not self.advisor.components:
            plain = self._plain = PlainRows(self.advisor.components)
        if not plain.take(rows):
            return False
        self._advance(key, sequence)
        if len(plain.rows) >= PLAIN_ROWS_MAX:
            self.flush()
        return True

    def flush(self) -> None:
        """Fold the plain rows that were taken. Cost O(rows)."""
        if not self._plain.rows:
            return
        columns = self._plain.columns()
        try:
            receipt = self._fold_noted(columns)
            assert not receipt.refused.count, receipt.refused
        except Exception as defect:  # of ours: they count as accepted, and so nothing may be acknowledged any more
            self._defect = defect
            raise
        if self.told is not None:
            self.told(columns)

    def _fold(self, columns: Columns) -> Receipt:
        self.flush()
        return self._fold_noted(columns)

    def _fold_noted(self, columns: Columns) -> Receipt:
        """Fold rows, and note them."""
        journal, components = self._journal, self.advisor.components
        if journal is None:
            return self.advisor.fold(columns)
        try:
            receipt = self.advisor.fold(columns)
        except BaseException:
            journal.beyond = True  # a defect of ours: nobody knows how much of it was folded
            raise
        journal.rows(columns, columns.components.slots_of(components)[columns.index], components.names)
        return receipt

    def forget(self, component: str, keep: float) -> dict[str, Any]:
        """Forget as an event without a number; the errors of `Advisor.forget`."""
        self.flush()
        self._plain.forget()
        answer = self.advisor.forget(component, keep)
        if self._journal is not None:
            self._journal.note(Forgotten(component, keep))
        return answer

    def pin(self, component: str, model: str | None) -> dict[str, Any]:
        """Pin as an event without a number; the errors of `Advisor.pin`."""
        self.flush()
        try:
            answer = self.advisor.pin(component, model)
        except TooLarge:
            self._beyond_journal()  # that there was no room is counted
            raise
        if self._journal is not None:
            self._journal.note(Pinned(component, model))
        return answer

    def forget_batch(
        self, producer: str, incarnation: bytes, sequence: int, component: str, keep: float
    ) -> dict[str, Any]:
        """Forget as a numbered event; the errors of `observe_batch` and `Advisor.forget`."""
        told = {"component": component, "keep": keep}
        return self._numbered(producer, incarnation, sequence, told, lambda: self.forget(component, keep))

    def pin_batch(
        self, producer: str, incarnation: bytes, sequence: int, component: str, model: str | None
    ) -> dict[str, Any]:
        """Pin as a numbered event; the errors of `observe_batch` and `Advisor.pin`."""
        told = {"component": component, "model": model}
        return self._numbered(producer, incarnation, sequence, told, lambda: self.pin(component, model))

    def define_network(self, network: Any, **named: Any) -> dict[str, Any]:
        """Keep a network by id; as `Advisor.define_network`."""
        self.flush()
        self._beyond_journal()
        return self.advisor.define_network(network, **named)

    def forget_program_batch(self, producer: str, incarnation: bytes, sequence: int, program: str) -> dict[str, Any]:
        """Forget a program as a numbered event; the errors of `observe_batch` and `forget_program`."""
        return self._numbered(
            producer, incarnation, sequence, {"program": program}, lambda: self.forget_program(program)
        )

    def forget_profile_batch(
        self, producer: str, incarnation: bytes, sequence: int, profile: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Forget profiles as a numbered event; the errors of `observe_batch` and `Profiles.forget`."""
        told = {"profile": {"producer": profile["producer"]}}
        return self._numbered(producer, incarnation, sequence, told, lambda: self.forget_profile(profile))

    def forget_program(self, program: str) -> dict[str, Any]:
        """Forget a program, and count it; the errors of `Advisor.forget_program`."""
        self._beyond_journal()
        answer = self.advisor.forget_program(program)
        self.totals_add("programs_forgotten")
        self.advisor.components.events.append(Event("forget_program", program, answer["runs"], "asked to"))
        return answer

    def forget_profile(self, profile: Mapping[str, Any]) -> dict[str, Any]:
        """Forget the profiles that a producer, and perhaps an incarnation, names; the errors of `Profiles.forget`."""
        self._beyond_journal()
        answer = self.profiles.forget(**profile)
        self.totals_add("profiles_forgotten", answer["runs"])
        happened = Event("forget_profile", answer["producer"], answer["events"], "asked to")
        self.advisor.components.events.append(happened)
        return {"profile": answer}

    def _numbered(
        self,
        producer: str,
        incarnation: bytes,
        sequence: int,
        told: dict[str, Any],
        change: Callable[[], dict[str, Any]],
    ) -> dict[str, Any]:
        """Make a change once."""
        key = (producer, incarnation)
        if self._is_replay(key, sequence):
            return told | {"sequence": sequence, "replayed": True}
        answer = change()
        self._advance(key, sequence)
        return answer | {"sequence": sequence}

    def run_batch(self, producer: str, incarnation: bytes, sequence: int, run: Mapping[str, Any]) -> dict[str, Any]:
        """Learn a run as a numbered event; the errors of `observe_batch` and `Advisor.observe_run`."""
        told = {"program": run["program"]}
        return self._numbered(producer, incarnation, sequence, told, lambda: self.observe_run(run))

    def observe_run(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """Learn a run; where it names a `profile` by its producer, what that says fills in what is not given.

        Raises
        ------
        InvalidValue, TooLarge
            As `Advisor.observe_run`.
        """
        given = {key: value for key, value in run.items() if value is not None}
        named = given.pop("profile", None)
        measured = self.profiles.run_of(**named) if named else {}
        missing = [each for each in RUN_NEEDS if each not in given and each not in measured]
        if missing:
            raise InvalidValue(
                missing[0], None, "given, or measured by a profile", "name the producer of its task events"
            )
        self._beyond_journal()
        self.totals_add("runs_observed")
        return self.advisor.observe_run(**(measured | given))

    def fold_events(self, events: TaskEvents) -> dict[str, Any]:
        """Fold task events without a number: at most once, into one profile of all that comes so."""
        return self._fold_events(ANONYMOUS, events)

    def events_batch(self, producer: str, incarnation: bytes, sequence: int, events: TaskEvents) -> dict[str, Any]:
        """Fold numbered task events once; the errors of `observe_batch` and `Profiler.fold`."""
        key = (producer, incarnation)
        if self._is_replay(key, sequence):
            return {"accepted": 0, "refused": refusals(None), "late": 0, "sequence": sequence, "replayed": True}
        answer = self._fold_events(key, events)
        self._advance(key, sequence)
        return answer | {"sequence": sequence}

    def _fold_events(self, key: Producer, events: TaskEvents) -> dict[str, Any]:
        self._beyond_journal()
        folded = self.profiles.fold(key, events)
        self.totals_add("events_accepted", folded.accepted)
        for code, count in folded.refused.items():
            self.totals_add(f"events_refused.{code}", count)
        self.totals_add("events_late", folded.late)
        self.totals_add("events_dropped", folded.dropped)
        self.totals_add("tasks_ended", len(folded.ended) + folded.summed)
        self._learn_tasks(key, folded)
        return {
            "accepted": folded.accepted, "refused": refusals(folded), "late": folded.late, "waiting": folded.waiting,
        }  # fmt: skip

    def _learn_tasks(self, key: Producer, folded: Folded) -> None:
        """Teach each task type its instances, see `Advisor.observe_instances`."""
        rows, names = self.profiles.instances(key, folded)
        if len(rows):
            numbers, index = np.unique(rows.types, return_inverse=True)
            receipt = self.advisor.observe_instances(
                types=[names[number] for number in numbers.tolist()], index=index, elapsed_s=rows.times, size=rows.sizes,
                active_cores=rows.running, count=rows.counts,
            )  # fmt: skip
            self.totals_add("tasks_learned", receipt.accepted)

    def applied(self, producer: str, incarnation: bytes) -> int:
        """Return the last number taken of a producer, 0 for an unknown one."""
        return self.producers.get((producer, incarnation), 0)

    def resume_producer(self, producer: str, incarnation: bytes, applied: int) -> None:
        """Take `applied` as the last number folded: the producer says so, and our state of it is older or lost.

        Raises
        ------
        InvalidValue
            When it would go back.
        TooLarge
            When the producer is new and there is no room for it.
        """
        key = (producer, incarnation)
        if applied < self.applied(*key):
            raise InvalidValue("resume_at", applied, f"at least {self.applied(*key)}, which is applied")
        self._make_room(key)
        self.totals_add("producers_resumed")
        self._advance(key, applied)

    def evict_producers(self, producers: Iterable[Producer]) -> None:
        """Drop producers that the caller knows to be idle."""
        for key in producers:
            if self.producers.pop(key, None) is not None:
                self._producers_changed.pop(key, None)
                self._producers_gone[key] = None
                if self._journal is not None:
                    self._journal.evict(key)

    def _is_replay(self, key: Producer, sequence: int) -> bool:
        self._make_room(key)
        applied = self.applied(*key)
        if sequence <= applied:
            self.totals_add("batches_replayed")
            return True
        if sequence != applied + 1:
            self.totals_add("gaps")
            raise SequenceGap(sequence, applied + 1)
        return False

    def _make_room(self, key: Producer) -> None:
        if key not in self.producers and len(self.producers) >= self.producers_max:
            raise TooLarge(
                "producers", len(self.producers) + 1, self.producers_max, "reuse a producer's name and incarnation"
            )

    def totals_add(self, name: str, n: int = 1) -> None:
        """Count an event of the face that drives this engine among the durable totals."""
        self.advisor.components.totals[name] += n
        if self._journal is not None:
            self._journal.count(name, n)

    def _advance(self, key: Producer, sequence: int) -> None:
        self.producers[key] = sequence
        self._producers_changed[key] = None
        self._producers_gone.pop(key, None)
        if self._journal is not None:
            self._journal.advance(key, sequence)

    # -- snapshots --------------------------------------------------------------------------------------------------------

    def keep_journal(self) -> None:
        """From now on note what happens, for `take_entry`: somebody keeps it. What was before needs a snapshot."""
        self._journal = Journal()
        self._journal.restart(len(self.advisor.components))

    def _settle(self) -> None:
        """Fold what was taken; raises what an earlier fold of it has raised."""
        assert self.underway is None
        self.flush()
        if self._defect is not None:
            raise self._defect

    def _beyond_journal(self) -> None:
        if self._journal is not None:
            self._journal.beyond = True

    def take_entry(self) -> Entry | None:
        """Return what has happened since the last entry or snapshot, and count it as taken; None where that takes a snapshot.

        Cost O(1): the rows are not copied. Not while a batch is under way.
        """
        self._settle()
        journal = self._journal
        if journal is None or journal.beyond:
            return None
        memory = self.advisor.components.learners.memory_bytes
        return journal.take(Limits(self.advisor.components.components_max, memory))

    def put_back(self, entry: Entry) -> None:
        """Count an entry as not taken: its commit failed, and the next one must hold what it held."""
        if self._journal is not None:
            self._journal.put_back(entry)

    def snapshot(self) -> Snapshot:
        """Return copies of all that changed since the last snapshot, and count it as taken. Cost O(changed pages).

        Not while a batch is under way.
        """
        slices = self.snapshot_in_slices()
        while True:
            try:
                next(slices)
            except StopIteration as whole:
                return whole.value

    def snapshot_in_slices(self) -> Generator[None, None, Snapshot]:
        """Take a snapshot slice by slice, a millisecond or so each; nothing may change the state between them."""
        self._settle()
        components = self.advisor.components
        n = len(components)
        found = [(yield from base_pages(components.table, n))]
        for name, table in components.records.items():
            found.append((yield from record_pages(name, table)))
        found += self.profiles.pages()
        found += self.advisor.programs.pages()
        found += self.advisor.task_types.pages()
        tables = tuple(pages for pages in found if pages is not None)
        names = tuple(enumerate(components.names[self._names_taken :], self._names_taken))
        self._names_taken = n
        producers = {key: self.producers[key] for key in self._producers_changed}
        gone = tuple(self._producers_gone)
        self._producers_changed, self._producers_gone = {}, {}
        documents, lost = components.flows.take_changed()
        totals = dict(components.totals)
        if self._journal is not None:
            self._journal.restart(n)
        return Snapshot(components.timer_noise_s, tables, names, producers, gone, totals, documents, lost)

    def mark_changed(self, snapshot: Snapshot) -> None:
        """Count a snapshot as not taken: its commit failed, and the next one must hold what it held."""
        self._beyond_journal()
        restoring.mark(self.advisor, self.profiles, snapshot)
        if snapshot.names:
            self._names_taken = min(self._names_taken, snapshot.names[0][0])
        for key in snapshot.producers:
            if key in self.producers:
                self._producers_changed[key] = None
        for key in snapshot.producers_gone:
            if key not in self.producers:
                self._producers_gone[key] = None

    @classmethod
    def restore(
        cls,
        snapshot: Snapshot,
        *,
        components_max: int = limits.COMPONENTS_MAX,
        producers_max: int = limits.PRODUCERS_MAX,
        model_memory_bytes: int = MODEL_MEMORY_BYTES,
    ) -> Engine:
        """Return the engine whose snapshots, put together, gave `snapshot`, and to which its journal then happened.

        Raises
        ------
        StateTooNew
            When a table has a layout, or the journal a format, that this version does not read.
        StateDamaged
            When a table has words that no rows lead to.
        InvalidValue
            When names or pages do not fit together.
        """
        engine = cls(
            timer_noise_s=snapshot.timer_noise_s, components_max=components_max, producers_max=producers_max,
            model_memory_bytes=model_memory_bytes,
        )  # fmt: skip
        restoring.put(engine.advisor, engine.profiles, snapshot)
        engine.producers = dict(snapshot.producers)
        engine._names_taken = len(snapshot.names)
        engine._replay(snapshot.journal, Limits(components_max, model_memory_bytes))
        return engine

    def _replay(self, journal: Iterable[bytes], now: Limits) -> None:
        """Let happen again what was noted, under the limits of then."""
        components = self.advisor.components
        book = Book(components.names)
        for data in journal:
            entry = decode(data, book)
            restoring.limit(self.advisor, entry.limits)
            for event in entry.events:
                restoring.repeat(self.advisor, event)
            components.totals.update(entry.counts)
            self.evict_producers(entry.producers_gone)
            for key, number in entry.producers.items():
                self._advance(key, number)
        restoring.limit(self.advisor, now)
        components.events.clear()  # they were told when they happened
