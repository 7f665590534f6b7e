"""The engine: an advisor, its profiles and its producers; the sole owner of state behind a service. Events in, answers out.

`apply` is the one way by which anything changes. `KINDS` says of each type of event how it is folded, what a number that was
applied before is answered, and whether the journal holds it. The applied numbers travel in the same commit as what they
changed: an entry of the journal (`take_entry`), or a snapshot of the pages that changed (`snapshot`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from advisor.domain import limits
from advisor.domain.observations import Columns, bad_rows
from advisor.domain.runs import ProgramRun, checked_run
from advisor.domain.task_events import TaskEvents
from advisor.engine import advisor as whole
from advisor.engine import batches, restoring, slices, state_bytes
from advisor.engine import events as e
from advisor.engine.advisor import Advisor
from advisor.engine.changes import NAMES_A_FRAME, framed, frames, head, head_of, version_of
from advisor.engine.components import ModelEvent as Happened
from advisor.engine.exactly_once import Producer, ProducerLedger
from advisor.engine.following import COUNT_MASK, ORIGIN_BITS
from advisor.engine.journal import Book, Entry, Journal, Limits, RowsEvent, decode
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.engine.pages import BASE, table_pages
from advisor.engine.plain import PLAIN_ROWS_MAX, PlainRows
from advisor.engine.profiles import ANONYMOUS, Profiles, refusals
from advisor.engine.slots import SEPARATOR
from advisor.engine.snapshot import Snapshot
from advisor.engine.versions import Versions
from advisor.errors import AdvisorError, InvalidValue, StateDamaged, TooLarge

Answer = dict[str, Any]

PARTS = (*whole.PARTS, "producers", "profiles")
RUN_NEEDS = ("size", "workers", "elapsed_s", "work_s", "delay_s", "no_work_s", "creates", "waits")


class EventType(NamedTuple):
    """What there is to know of a type of event."""

    # takes the engine, the producer and the event; changes the state; returns the answer, and the event as the journal
    # notes it, None where only pages hold what it changed
    fold: Callable[[Engine, Producer | None, Any], tuple[Answer, e.Event | None]]
    again: Callable[[Any], Answer]  # what is answered, beside the number, to an event whose number was applied before


class Engine:
    """State behind a service.

    Parameters
    ----------
    components_max, model_memory_bytes
        As for `Advisor`.
    producers_max : int
        Producers remembered; further ones are refused until some are evicted.
    """

    def __init__(
        self,
        *,
        components_max: int = limits.COMPONENTS_MAX,
        producers_max: int = limits.PRODUCERS_MAX,
        model_memory_bytes: int = MODEL_MEMORY_BYTES,
    ) -> None:
        self.advisor = Advisor(components_max, model_memory_bytes)
        self.profiles = Profiles()
        self.ledger = ProducerLedger(producers_max, self.totals_add)
        # mapping of (name, incarnation) to int: their applied numbers
        self.producers: Mapping[Producer, int] = self.ledger.applied
        self.underway: slices.Batch | None = None  # the batch that is folded piece by piece, and is not whole yet
        self._versions = Versions()
        self._taken = 0  # the version of the last snapshot
        self._names_taken = 0  # names 0 .. are in an earlier snapshot
        self._journal: Journal | None = None
        self.plain = PlainRows(self.advisor.components)  # rows taken, and not folded yet
        self._defect: Exception | None = None
        # called with plain rows when they are folded, see `take_rows`
        self.told: Callable[[Columns], None] | None = None

    @property
    def totals(self) -> Mapping[str, int]:
        """Exact counters, see `Components.totals`."""
        self.flush()
        return self.advisor.components.totals

    @property
    def origin(self) -> int:
        """Which tells this run's versions from another's, see `Bundles`."""
        return self.advisor.bundles.origin

    @property
    def tables_bytes(self) -> int:
        """Bytes of the tables."""
        return self.advisor.components.bytes

    # -- events -----------------------------------------------------------------------------------------------------------

    def apply(self, producer: Producer | None, sequence: int | None, event: e.Event) -> Answer:
        """Let an event happen: exactly once where a producer numbers it, else at most once.

        Raises SequenceGap when the number is beyond the next; nothing is changed; TooLarge when the producer, or what the
        event is about, is new and there is no room for it; AdvisorError: whatever else is wrong with the event; its number is
        then not taken.

        Parameters
        ----------
        producer, sequence
            Both, or neither.
        event
            See `advisor.engine.events`.

        Returns
        -------
        dict
            As on the wire; with ``sequence`` where there is one, and ``replayed`` where it was applied before.
        """
        if producer is None or sequence is None:
            return self._happen(None, event)
        if self.ledger.replays(producer, sequence):
            return KINDS[type(event)].again(event) | {"sequence": sequence, "replayed": True}
        answer = self._happen(producer, event)
        self.advance(producer, sequence)
        return answer | {"sequence": sequence}

    def begin(self, producer: Producer | None, sequence: int | None, columns: Columns) -> slices.Batch | Answer:
        """Begin to fold a batch piece by piece, numbered where a producer is given; the answer, where it was applied before.

        Until its last piece is folded the engine answers questions and takes other events, one batch at a time may be folded
        so, and there is no snapshot and no entry: it would hold rows without their number. Raises SequenceGap, TooLarge as
        `apply`.
        """
        assert self.underway is None
        if producer is not None and sequence is not None and self.ledger.replays(producer, sequence):
            return NOTHING | {"sequence": sequence, "replayed": True}

        def done() -> None:
            self.underway = None
            if producer is not None and sequence is not None:
                self.advance(producer, sequence)

        young = partial(batches.young, self.advisor.components)
        self.underway = slices.Batch(lambda part: self._happen(None, part), young, columns, done, sequence)
        return self.underway

    def give_up(self) -> None:
        """Take what was folded of the batch under way for the whole of it: the rest of it cannot be folded."""
        self.underway = None

    def take_rows(self, key: Producer, sequence: int, rows: Sequence[Any]) -> bool:
        """Take a batch of plain rows ``[component, predictor, cores, elapsed_s]``, all of which are then accepted.

        They are folded with others before anything else is done (`flush`); a question to the advisor itself must flush
        first. False: nothing was taken, `apply` has the words. Cost O(rows).
        """
        if self.producers.get(key) != sequence - 1:
            return False
        plain = self.plain
        if plain.components is not self.advisor.components:
            plain = self.plain = PlainRows(self.advisor.components)
        if not plain.take(rows):
            return False
        self.advance(key, sequence)
        if len(plain.rows) >= PLAIN_ROWS_MAX:
            self.flush()
        return True

    def flush(self) -> None:
        """Fold the plain rows that were taken. Cost O(rows)."""
        if not self.plain.rows:
            return
        columns = self.plain.columns()
        try:
            self.advisor.fold_plain(columns)
            if self._journal is not None:
                self._journal.note(columns, self.advisor.components)
        except Exception as defect:  # of ours: they count as accepted, and so nothing may be acknowledged any more
            self._defect = defect
            self._beyond_journal()
            raise
        if self.told is not None:
            self.told(columns)

    def _happen(self, producer: Producer | None, event: e.Event) -> Answer:
        """Fold an event, and note it."""
        self.flush()
        try:
            answer, noted = KINDS[type(event)].fold(self, producer, event)
        except BaseException as error:
            # That there was no room is counted; and of a defect of ours nobody knows how much was folded.
            if isinstance(error, TooLarge) or not isinstance(error, AdvisorError):
                self._beyond_journal()
            raise
        if noted is None:
            self._beyond_journal()
        elif self._journal is not None:
            self._journal.note(noted, self.advisor.components)
        return answer

    # -- producers --------------------------------------------------------------------------------------------------------

    def applied(self, producer: str, incarnation: bytes) -> int:
        """Return the last number taken of a producer, 0 for an unknown one."""
        return self.producers.get((producer, incarnation), 0)

    def resume_producer(self, producer: str, incarnation: bytes, applied: int) -> None:
        """Take `applied` as the last number folded; as `ProducerLedger.resume`."""
        self.ledger.resume((producer, incarnation), applied)
        if self._journal is not None:
            self._journal.advance((producer, incarnation), applied)

    def evict_producers(self, producers: Iterable[Producer]) -> None:
        """Drop producers that the caller knows to be idle."""
        for key in self.ledger.evict(producers):
            if self._journal is not None:
                self._journal.evict(key)

    def totals_add(self, name: str, n: int = 1) -> None:
        """Count an event of the face that drives this engine among the durable totals."""
        self.advisor.components.totals[name] += n
        if self._journal is not None:
            self._journal.count(name, n)

    def advance(self, key: Producer, sequence: int) -> None:
        """Take a number as applied: a producer's, or one by which whoever drives this engine counts."""
        self.ledger.advance(key, sequence)
        if self._journal is not None:
            self._journal.advance(key, sequence)

    # -- parts and changes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the whole state with its producers' numbers and profiles; `from_bytes` gives an equal engine."""
        return state_bytes.dump(self.advisor.components, self._parts(None, PARTS))

    @classmethod
    def from_bytes(cls, data: bytes, *, producers_max: int = limits.PRODUCERS_MAX) -> Engine:
        """Return the engine of a state, of an advisor's, too, which knows of no producers; raises as `Advisor.from_bytes`."""
        components, parts = state_bytes.load(data)
        engine = cls(producers_max=producers_max)
        engine.advisor = Advisor.of(components, parts)
        for record in parts.profiles:
            engine.profiles.paged.put_record(record)
        engine.ledger.put(parts.producers or {})
        return engine

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def extract(self, names: Iterable[str] | None = None, parts: Collection[str] = PARTS) -> bytes:
        """Return a part of the state, see `Advisor.extract`; `parts` may name ``producers`` and ``profiles``, too.

        Notes
        -----
        The law of each part that spans components, when a state merges it: ``totals`` add; ``flows`` add, a network that is
        known on one side is copied; ``programs`` add to rounding, or are copied; of ``producers`` the greater number
        stays; of ``profiles`` that with more events.
        """
        advisor = self.advisor
        self.flush()
        names = [*advisor.components.slots.components, *advisor.task_types.numbers] if names is None else list(names)
        return state_bytes.dump(advisor.components.part(names), self._parts(frozenset(names), parts))

    def _parts(self, names: Collection[str] | None, parts: Collection[str]) -> state_bytes.Parts:
        self.flush()
        return replace(
            self.advisor.parts(names, parts), producers=self.producers if "producers" in parts else {},
            profiles=self.profiles.paged.records() if "profiles" in parts else (),
        )  # fmt: skip

    def merge(self, other: Engine) -> None:
        """Add what another engine has learned, see `Advisor.merge` and the laws of `extract`."""
        self.flush()
        self._beyond_journal()
        self.advisor.merge(other.advisor)
        self.ledger.put({key: number for key, number in other.producers.items() if number > self.applied(*key)})
        self.profiles.take(other.profiles)

    def changes(self, since: int | None = None) -> bytes:
        """Return what changed after a version, for `apply_changes` of another engine; all, where it is none of ours.

        Any number of readers may ask, each since the version that it has come to: nothing is cleared. Cost O(components) to
        look, then O(what changed).
        """
        self._settle()
        version = self._swept()
        known = since is not None and since >> ORIGIN_BITS == self.origin and self._versions.floor <= since & COUNT_MASK
        at = since & COUNT_MASK if since is not None and known and since <= version else -1
        return framed(self._changed(at, version))

    def _known(self) -> dict[str, Mapping[Any, Any]]:
        """Return what there is by key, by kind."""
        advisor = self.advisor
        return {
            "components": advisor.components.slots.by_name, "networks": advisor.components.flows.kept,
            "programs": advisor.programs.programs, "task_types": advisor.task_types.numbers,
            "producers": self.producers, "profiles": self.profiles.runs,
        }  # fmt: skip

    def _changed(self, at: int, version: int) -> Iterator[bytes]:
        advisor, components, there = self.advisor, self.advisor.components, self._known()
        touched: dict[str, list[Any]] = {kind: self._versions.keys(kind, at) for kind in there}
        yield head(at < 0, {kind: [key for key in touched[kind] if key not in there[kind]] for kind in there})
        slots = self._versions.changed("base", at, len(components))
        for name, table in components.records.items():
            owners = table.count("component")[: table.size][self._versions.changed(name, at, table.size)]
            slots[owners[owners >= 0]] = True
        names = {components.slots.names[slot].partition(SEPARATOR)[0]: None for slot in np.flatnonzero(slots).tolist()}
        names.pop("", None)  # of free slots
        due = [*names, *(name for name in touched["task_types"] if name not in names)]
        for start in range(0, len(due), NAMES_A_FRAME):
            yield self.extract(due[start : start + NAMES_A_FRAME], ())
        now = {kind: {key for key in touched[kind] if key in there[kind]} for kind in there}
        yield state_bytes.dump(components.part(()), state_bytes.Parts(
            components.totals, components.flows.documents(now["networks"]), advisor.programs.paged.records(now["programs"]),
            (), {key: self.producers[key] for key in now["producers"]}, self.profiles.paged.records(now["profiles"]),
        ))  # fmt: skip
        yield json.dumps({"version": version}).encode()

    def apply_changes(self, data: bytes) -> int | None:
        """Take in what another engine's `changes` gave; return the version that this one has come to, None where it was cut.

        What comes stands in the place of what is here of the same names, so that the same may come twice; after a cut the
        changes since the same version are asked for again. Raises StateDamaged, StateTooNew, TooLarge.
        """
        self._settle()
        self._beyond_journal()
        found = frames(bytes(data))
        first = next(found, None)
        if first is None:
            return None
        whole, gone = head_of(first)
        self._forget_gone(self._known() if whole else gone)
        for payload in found:
            if payload[:1] == b"{":
                return version_of(payload)
            self.put(Engine.from_bytes(payload))
        return None

    def part(
        self, names: Collection[str], networks: Collection[str] = (), programs: Collection[str] = (),
        profiles: Collection[Producer] = (),
    ) -> bytes:  # fmt: skip
        """Return components with their task types, networks, programs, profiles, those known, for `put` of another engine."""
        self._settle()
        components = self.advisor.components
        return state_bytes.dump(components.part(names), replace(
            self.advisor.parts(names, ()), producers={}, documents=components.flows.documents(networks),
            programs=self.advisor.programs.paged.records(set(programs)), profiles=self.profiles.paged.records(profiles),
        ))  # fmt: skip

    def leave(
        self, names: Collection[str], networks: Collection[str] = (), programs: Collection[str] = (),
        profiles: Collection[Producer] = (),
    ) -> None:  # fmt: skip
        """Let what `part` told go: another engine has it now. Totals stay."""
        self._settle()
        self._beyond_journal()
        self._forget_gone({
            "components": names, "networks": networks, "programs": programs, "task_types": names, "profiles": profiles,
        })  # fmt: skip

    def _forget_gone(self, gone: Mapping[str, Collection[Any]]) -> None:
        names, networks, programs, types, producers, profiles = (list(gone.get(kind, ())) for kind in self._known())
        self.advisor.drop((*names, *types))
        for kind, drop in ((networks, self.advisor.components.flows.drop), (programs, self.advisor.programs.drop),
                           (profiles, self.profiles.drop)):  # fmt: skip
            for key in kind:
                drop(key)
        self.evict_producers(producers)

    def put(self, part: Engine) -> None:
        """Let a part stand in the place of what is here of the same names; raises as `merge`."""
        self._settle()
        self._beyond_journal()
        theirs, totals = part.advisor, self.advisor.components.totals
        kept = {
            name: own for name in theirs.components.flows.kept if (own := self.advisor.components.flows.kept.get(name))
        }
        self._forget_gone({kind: part._known()[kind] for kind in ("networks", "programs", "profiles")})
        before = dict(theirs.components.totals or totals)
        self.ledger.put(part.producers)
        self.advisor.put(theirs)
        self.advisor.components.flows.read_as(kept)
        self.profiles.take(part.profiles)
        totals.clear()
        totals.update(before)

    def _swept(self) -> int:
        """Return the version of the state as it is."""
        components, advisor = self.advisor.components, self.advisor
        flags = {"base": components.table.changed[: len(components)]}
        flags |= {name: table.changed for name, table in components.records.items()}
        kinds = {
            "components": components.slots.dropped, "networks": components.flows.touched,
            "programs": advisor.programs.paged.touched, "task_types": advisor.task_types.paged.touched,
            "producers": self.ledger.touched(), "profiles": self.profiles.paged.touched,
        }  # fmt: skip
        count = self._versions.sweep(flags, kinds)
        for touched in kinds.values():
            touched.clear()
        return self.origin << ORIGIN_BITS | count

    # -- snapshots --------------------------------------------------------------------------------------------------------

    def keep_journal(self) -> None:
        """From now on note what happens, for `take_entry`: somebody keeps it. What was before needs a snapshot."""
        self._journal = Journal()
        self._journal.restart(self.advisor.components)

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
        return journal.take(Limits(self.advisor.components.slots.components_max, memory))

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
        before = self._taken
        self._taken = self._swept() & COUNT_MASK
        found = [(yield from table_pages(BASE, components.table, self._versions.changed(BASE, before, n)))]
        for name, table in components.records.items():
            found.append((yield from table_pages(name, table, self._versions.changed(name, before, len(table.words)))))
        for paged in (self.profiles.paged, self.advisor.programs.paged, self.advisor.task_types.paged):
            found += paged.pages()
        tables = tuple(pages for pages in found if pages is not None)
        renamed = (
            (slot, components.slots.names[slot]) for slot in components.slots.renamed if slot < self._names_taken
        )
        names = (*enumerate(components.slots.names[self._names_taken :], self._names_taken), *renamed)
        components.slots.renamed.clear()
        self._names_taken = n
        producers, gone = self.ledger.take_changed()
        documents, lost = components.flows.take_changed()
        totals = dict(components.totals)
        if self._journal is not None:
            self._journal.restart(components)
        return Snapshot(tables, names, producers, gone, totals, documents, lost, version=before)

    def mark_changed(self, snapshot: Snapshot) -> None:
        """Count a snapshot as not taken: its commit failed, and the next one must hold what it held."""
        self._beyond_journal()
        self.count_again(snapshot)

    def count_again(self, snapshot: Snapshot) -> None:
        """Have the next snapshot hold what this one held; what happened until it was taken is in the journal still."""
        self._taken = min(self._taken, snapshot.version)
        restoring.mark(self.advisor, self.profiles, snapshot)
        if snapshot.names:
            self._names_taken = min(self._names_taken, *(slot for slot, _ in snapshot.names))
        self.ledger.mark_changed((*snapshot.producers, *snapshot.producers_gone))

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

        Raises StateTooNew when a table has a layout, or the journal a format, that this version does not read; StateDamaged
        when a table has words that no rows lead to; InvalidValue when names or pages do not fit together.
        """
        engine = cls(
            components_max=components_max, producers_max=producers_max,
            model_memory_bytes=model_memory_bytes,
        )  # fmt: skip
        restoring.put(engine.advisor, engine.profiles, snapshot)
        engine.ledger.applied.update(snapshot.producers)
        engine._names_taken = len(snapshot.names)
        engine._replay(snapshot.journal, Limits(components_max, model_memory_bytes))
        return engine

    def _replay(self, journal: Iterable[bytes], now: Limits) -> None:
        """Let happen again what was noted, under the limits of then."""
        components = self.advisor.components
        book = Book(components.slots.names)
        for data in journal:
            entry = decode(data, book)
            restoring.limit(self.advisor, entry.limits)
            for event in entry.events:  # it happened before: nothing is refused that was not then
                try:
                    self._happen(None, event.event if isinstance(event, RowsEvent) else event)
                except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
                    raise StateDamaged(f"what the journal tells cannot have happened: {error!r}") from error
            components.totals.update(entry.counts)
            self.evict_producers(entry.producers_gone)
            for key, number in entry.producers.items():
                self.advance(key, number)
        restoring.limit(self.advisor, now)
        components.events.clear()  # they were told when they happened


def _fold_rows(engine: Engine, _: Producer | None, columns: Columns) -> tuple[Answer, e.Event]:
    return engine.advisor.fold(columns).as_dict(), columns


def _fold_travels(engine: Engine, _: Producer | None, event: e.Travels) -> tuple[Answer, e.Event]:
    rows = event.rows
    engine.advisor.components.flows.fold(rows, bad_rows(rows))
    return NOTHING, event


def _fold_events(engine: Engine, key: Producer | None, events: TaskEvents) -> tuple[Answer, None]:
    answer, ended = _profiled(engine, key or ANONYMOUS, events)
    _fold_ended(engine, None, ended)
    return answer, None


def _fold_profile(engine: Engine, key: Producer | None, event: e.Profiled) -> tuple[Answer, None]:
    return _profiled(engine, key or ANONYMOUS, event.events)[0], None


def _profiled(engine: Engine, key: Producer, events: TaskEvents) -> tuple[Answer, e.Ended]:
    """Fold task events into the profile of their producer's run, those without a number into one of all that come so."""
    folded = engine.profiles.fold(key, events)
    engine.totals_add("events_accepted", folded.accepted)
    for code, count in folded.refused.items():
        engine.totals_add(f"events_refused.{code}", count)
    engine.totals_add("events_late", folded.late)
    engine.totals_add("events_dropped", folded.dropped)
    engine.totals_add("tasks_ended", len(folded.ended) + folded.summed)
    return {
        "accepted": folded.accepted, "refused": refusals(folded), "late": folded.late, "waiting": folded.waiting,
    }, engine.profiles.ended(key, folded)  # fmt: skip


def _fold_ended(engine: Engine, _: Producer | None, ended: e.Ended) -> tuple[Answer, None]:
    """Teach each task type its instances, see `Advisor.observe_instances`."""
    if len(ended):
        receipt = engine.advisor.observe_instances(
            types=ended.types, index=ended.index, elapsed_s=ended.elapsed_s, size=ended.size,
            active_cores=ended.active_cores, count=ended.count,
        )  # fmt: skip
        engine.totals_add("tasks_learned", receipt.accepted)
    return NOTHING, None


def _observe_run(engine: Engine, _: Producer | None, event: e.RunObserved) -> tuple[Answer, e.Event]:
    """Learn a run; where it names a `profile` by its producer, what that says fills in what is not given."""
    told = {key: value for key, value in event.run.items() if value is not None}
    named = told.pop("profile", None)
    measured = engine.profiles.run_of(**named) if named else {}
    missing = [each for each in RUN_NEEDS if each not in told and each not in measured]
    if missing:
        raise InvalidValue(missing[0], None, "given, or measured by a profile", "name the producer of its task events")
    return _learn_run(engine, None, checked_run(**(measured | told)))


def _learn_run(engine: Engine, _: Producer | None, run: ProgramRun) -> tuple[Answer, e.Event]:
    engine.advisor.components.totals["runs_observed"] += 1
    return engine.advisor.programs.observe(run), run


def _define_network(engine: Engine, _: Producer | None, event: e.NetworkDefined) -> tuple[Answer, e.Event]:
    answer = engine.advisor.define_network(event.network, id=event.id, read=event.read)
    definition = engine.advisor.components.flows.definition(answer["id"])
    return answer, e.NetworkDefined(definition, answer["id"])


def _forget(engine: Engine, _: Producer | None, event: e.ComponentForgotten) -> tuple[Answer, e.Event]:
    engine.plain.forget()
    return engine.advisor.forget(event.component, event.keep), event


def _drop(engine: Engine, _: Producer | None, event: e.Drop) -> tuple[Answer, e.Event]:
    return {"dropped": engine.advisor.drop(event.components)}, event


def _none_dropped(_: e.Drop) -> Answer:
    return {"dropped": 0}


def _pin(engine: Engine, _: Producer | None, event: e.ComponentPinned) -> tuple[Answer, e.Event]:
    return engine.advisor.pin(event.component, event.model), event


def _forget_program(engine: Engine, _: Producer | None, event: e.ProgramForgotten) -> tuple[Answer, e.Event]:
    answer, components = engine.advisor.forget_program(event.program), engine.advisor.components
    components.totals["programs_forgotten"] += 1
    components.events.append(Happened("forget_program", event.program, answer["runs"], "asked to"))
    return answer, event


def _forget_profile(engine: Engine, _: Producer | None, event: e.ProfileForgotten) -> tuple[Answer, None]:
    answer = engine.profiles.forget(event.producer, event.incarnation)
    engine.totals_add("profiles_forgotten", answer["runs"])
    happened = Happened("forget_profile", answer["producer"], answer["events"], "asked to")
    engine.advisor.components.events.append(happened)
    return {"profile": answer}, None


NOTHING = {"accepted": 0, "refused": refusals(None)}


def _nothing(event: Columns | e.Travels | TaskEvents | e.Profiled | e.Ended) -> Answer:
    return NOTHING | {"late": 0} if isinstance(event, (TaskEvents, e.Profiled)) else NOTHING


def _named(*names: str) -> Callable[[Any], Answer]:
    return lambda event: {name: getattr(event, name) for name in names}


KINDS: Mapping[type, EventType] = {
    Columns: EventType(_fold_rows, _nothing),
    e.Travels: EventType(_fold_travels, _nothing),
    TaskEvents: EventType(_fold_events, _nothing),
    e.Profiled: EventType(_fold_profile, _nothing),
    e.Ended: EventType(_fold_ended, _nothing),
    ProgramRun: EventType(_learn_run, _named("program")),
    e.RunObserved: EventType(_observe_run, _named("program")),
    e.NetworkDefined: EventType(_define_network, _named("id")),
    e.ComponentForgotten: EventType(_forget, _named("component", "keep")),
    e.Drop: EventType(_drop, _none_dropped),
    e.ComponentPinned: EventType(_pin, _named("component", "model")),
    e.ProgramForgotten: EventType(_forget_program, _named("program")),
    e.ProfileForgotten: EventType(_forget_profile, _named("profile")),
}
