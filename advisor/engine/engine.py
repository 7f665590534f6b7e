"""The engine: an advisor, its profiles and its producers; the sole owner of state behind a service. Events in, answers out.

`apply_event` is the one way by which anything changes; `advisor.engine.effects` says what each type of event does, and
`advisor.engine.journal` what is written then: the applied numbers travel in the same commit as what they changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from typing import Any

from advisor.domain import limits
from advisor.engine import advisor as whole
from advisor.engine import events as e
from advisor.engine import state_bytes
from advisor.engine.advisor import Advisor
from advisor.engine.batches import PLAIN_ROWS_MAX, PlainRows, fold_plain_rows
from advisor.engine.effects import KINDS, Answer, answer_again
from advisor.engine.exactly_once import Producer, ProducerLedger
from advisor.engine.frames import Block
from advisor.engine.journal import Entry, Journal, Limits, LoggedRows, decode
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.engine.profiles import Profiles
from advisor.engine.state import State
from advisor.errors import AdvisorError, StateDamaged

NO_PARTS: Mapping[str, Collection[Any]] = {}
PARTS = (*whole.PARTS, "producers", "profiles")  # of a state, beside what is of one component


class Engine(State):
    """State behind a service.

    `components_max`, `model_memory_bytes`: as for `Advisor`. `producers_max`: producers remembered; further ones are refused
    until some are evicted.
    """

    def __init__(
        self,
        *,
        components_max: int = limits.COMPONENTS_MAX,
        producers_max: int = limits.PRODUCERS_MAX,
        model_memory_bytes: int = MODEL_MEMORY_BYTES,
    ) -> None:
        self.advisor = Advisor(components_max, model_memory_bytes)  # `fold_plain_rows` comes before its questions
        self.profiles = Profiles(lambda names: self.advisor.task_types.reports(names))  # noqa: PLW0108 - may be replaced
        self.ledger = ProducerLedger(producers_max, self.totals_add)
        self.journal = Journal(self)
        self._plain = PlainRows()  # rows taken, and not folded yet
        self._defect: Exception | None = None
        # called when plain rows were folded that changed a model, or while somebody follows, see `take_plain_batch`
        self.reported: Callable[[], None] | None = None
        self.followers: Sized = ()

    @property
    def producers(self) -> Mapping[Producer, int]:
        """The last number applied of each (name, incarnation)."""
        return self.ledger.applied

    @property
    def totals(self) -> Mapping[str, int]:
        """Exact counters, see `Components.totals`."""
        self.fold_plain_rows()
        return self.advisor.components.totals

    # -- events -----------------------------------------------------------------------------------------------------------

    def apply_event(self, producer: Producer | None, sequence: int | None, event: e.Event) -> Answer:
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
            return answer_again(event, sequence)
        answer = self._happen(producer, event)
        self.ledger.set_record(producer, sequence)
        return answer | {"sequence": sequence}

    def take_plain_batch(self, key: Producer, sequence: int, rows: Sequence[Any]) -> bool:
        """Take a batch of plain rows, all of which are then accepted. Cost O(rows).

        They are folded with others before anything else is done (`flush`); a question to the advisor itself must flush
        first. False: nothing was taken, `apply_event` has the words.

        `rows`: each ``[component, predictor, cores, elapsed_s]``.
        """
        ledger, plain = self.ledger, self._plain
        if ledger.applied.get(key) != sequence - 1:
            return False
        if not plain.append_plain_rows(self.advisor.components, rows):
            return False
        ledger.set_record(key, sequence)
        if plain.count >= PLAIN_ROWS_MAX:
            self.fold_plain_rows()
        return True

    def fold_plain_rows(self) -> None:
        """Fold the plain rows that were taken; raises what an earlier fold of such has raised. Cost O(rows)."""
        if self._defect is not None:
            raise self._defect
        if not self._plain.count:
            return
        components = self.advisor.components
        columns = self._plain.pop_columns(components)
        try:
            fold_plain_rows(components, columns)
            self.journal.note_event(columns)
        except Exception as defect:  # of ours: they count as accepted, and so nothing may be acknowledged any more
            self._defect = defect
            self.journal.beyond = True
            raise
        if self.reported is not None and self.followers:
            self.reported()

    def _happen(self, producer: Producer | None, event: e.Event) -> Answer:
        """Fold an event, and note it."""
        self.fold_plain_rows()
        before = Counter(self.advisor.components.totals)
        try:
            answer, *logged = KINDS[type(event)](self, producer, event)
        except AdvisorError:  # what was refused is counted, and nothing else changed
            for name, n in (self.advisor.components.totals - before).items():
                self.journal.note_count(name, n)
            raise
        except BaseException:  # of a defect of ours nobody knows how much was folded
            self.journal.beyond = True
            raise
        for each in logged:
            self.journal.note_event(each)
        return answer

    # -- producers --------------------------------------------------------------------------------------------------------

    def applied(self, producer: str, incarnation: bytes) -> int:
        """Return the last number taken of a producer, 0 for an unknown one."""
        return self.producers.get((producer, incarnation), 0)

    def totals_add(self, name: str, n: int = 1) -> None:
        """Count an event of the face that drives this engine among the durable totals."""
        self.count_total(name, n)
        self.journal.note_count(name, n)

    # -- as bytes, and by key ---------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the whole state with its producers' numbers and profiles; `from_bytes` gives an equal engine."""
        self.fold_plain_rows()
        return state_bytes.whole_state(self.advisor.components, self.kinds)

    @classmethod
    def from_bytes(cls, data: bytes, *, producers_max: int = limits.PRODUCERS_MAX) -> Engine:
        """Return the engine of a state, of an advisor's, too, which knows of no producers; raises as `Advisor.from_bytes`."""
        engine = cls(producers_max=producers_max)
        engine._restore_records(state_bytes.from_bytes(data))
        return engine

    def _restore_records(self, found: state_bytes.Decoded) -> None:
        """Let what was decoded stand in the place of an empty state; raises StateDamaged."""
        self.advisor = Advisor.from_state(found)
        for kind in (self.ledger, self.profiles):
            whole.restore_records(kind, found)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def extract(self, names: Iterable[str] | None = None, parts: state_bytes.Parts = PARTS) -> bytes:
        """Return a part of the state, see `Advisor.extract`; `parts` may name ``producers`` and ``profiles``, too.

        Notes
        -----
        The law of each part that spans components, when a state merges it: ``totals`` add; ``networks`` add, a network that is
        known on one side is copied; ``programs`` add to rounding, or are copied; of ``producers`` the greater number
        stays; of ``profiles`` that with more events.
        """
        self.fold_plain_rows()
        keys = state_bytes.keys_of_parts(names, parts)
        return state_bytes.part_of_state(self.advisor.components, self.kinds, keys)

    def merge(self, other: Engine) -> None:
        """Add what another engine has learned, see `Advisor.merge` and the laws of `extract`."""
        self.fold_plain_rows()
        self.journal.beyond = True
        self.advisor.merge(other.advisor)
        self.ledger.set_records(self.ledger.merged_records(other.ledger))
        self.profiles.set_records(self.profiles.merged_records(other.profiles))

    def remove_part(self, names: Collection[str], parts: Mapping[str, Collection[Any]] = NO_PARTS) -> None:
        """Remove components with what is of them, and what `parts` names: another engine has it now. Totals stay."""
        self.fold_plain_rows()
        self.journal.beyond = True
        self.advisor.remove_components(names)
        for kind in self.kinds:
            for key in list(parts.get(kind.name, ())):
                kind.remove_record(key)

    def replace_part(self, part: Engine) -> None:
        """Let a part stand in the place of what is here of the same names, its totals too if it has any; raises as `merge`."""
        theirs, totals = part.advisor, self.advisor.components.totals
        before = dict(theirs.components.totals or totals)
        names = {*theirs.components.slots.components, *theirs.task_types.known}
        self.remove_part(
            names, {kind.name: kind.known for kind in (theirs.components.flows, theirs.programs, part.profiles)}
        )
        self.merge(part)
        totals.clear()
        totals.update(before)

    # -- commits ----------------------------------------------------------------------------------------------------------

    def take_entry(self) -> Entry | None:
        """Return what was applied since the last entry or image, for the log; see `Journal.pop_entry`."""
        self.fold_plain_rows()
        return self.journal.pop_entry()

    def take_image(self) -> list[Block]:
        """Return all of the state, see `Journal.pop_image`."""
        self.fold_plain_rows()
        return self.journal.pop_image()

    def allow(self, to: Limits) -> None:
        """Allow so many components, or as many as there are, and so much memory."""
        components = self.advisor.components
        components.slots.components_max = max(to.components_max, len(components))
        components.learners.memory_bytes = to.model_memory_bytes

    @classmethod
    def restore(
        cls,
        stored: state_bytes.Stored,
        *,
        components_max: int | None = limits.COMPONENTS_MAX,
        producers_max: int = limits.PRODUCERS_MAX,
        model_memory_bytes: int | None = MODEL_MEMORY_BYTES,
    ) -> Engine:
        """Return the engine whose image and log a state on disk holds; it takes the blocks out of `stored`.

        `components_max`: None: as many as there are, but at least the default. `model_memory_bytes`: None: as before.

        Raises StateTooNew when a part has a layout that this version does not read; StateDamaged when a table has words that no
        rows lead to, or parts do not fit together.
        """
        engine = cls(producers_max=producers_max)
        found = state_bytes.decode(stored.blocks, stored.bytes)
        profiles: dict[Producer, bytes | None] = {**found.records.pop(engine.profiles.name, {})}
        engine._restore_records(found)
        known_max = limits.COMPONENTS_MAX if components_max is None else components_max
        engine._replay(stored.log, profiles)
        learners = engine.advisor.components.learners
        engine.allow(Limits(known_max, learners.memory_bytes if model_memory_bytes is None else model_memory_bytes))
        return engine

    def _replay(self, log: Iterable[bytes], profiles: dict[Producer, bytes | None]) -> None:
        """Apply again what the log has, under the limits of then; `profiles`: the records of runs before it."""
        components = self.advisor.components
        for data in log:
            entry = decode(data)
            self.allow(entry.limits)
            try:  # it was applied before: nothing is refused that was not then
                for logged in entry.events:
                    event = logged.as_event(components.slots) if isinstance(logged, LoggedRows) else logged
                    self._happen(None, event)
            except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
                raise StateDamaged(f"what the log tells cannot have been applied: {error!r}") from error
            components.totals.update(entry.counts)
            profiles |= entry.profiles
            for key in entry.producers_gone:
                self.ledger.remove_record(key)
            for key, number in entry.producers.items():
                self.ledger.set_record(key, number)
        for key, record in profiles.items():
            if record is not None:
                self.profiles.restore_record(key, record)
