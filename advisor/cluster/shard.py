"""One shard: an engine, where it is kept, and what the front asks of it. Calls come one after the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.cluster.keeping import COMMITS, Keeping
from advisor.cluster.layout import bucket_of_producer
from advisor.domain.buckets import bucket_of
from advisor.domain.curves import TabulatedCurves
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.domain.task_events import TaskEvents
from advisor.engine import Engine
from advisor.engine import events as e
from advisor.engine.exactly_once import Producer
from advisor.engine.profiles import ANONYMOUS
from advisor.errors import AdvisorError, StateDamaged, StorageFailed, Unavailable
from advisor.profile.checkpoint import to_bytes
from advisor.service.exporting import page

EMPTY = columns_of(ComponentNames(), [], [], [], [])
Answer = dict[str, Any]
Named = tuple[str, bool]  # a name as it was sent, and whether it is one


class Shard:
    """A part of the state.

    Raises StateDamaged when the folders have not all that was acknowledged.

    `folders`: where it is kept, see `Keeping`. `limits`: as `Engine` takes them. `least`: commits that were acknowledged: a
    state that has seen fewer is an older one. `anew`: remove what the folders hold.
    """

    def __init__(
        self, number: int, places: Sequence[str], limits: Mapping[str, Any], least: int = 0, anew: bool = False
    ) -> None:
        self.number = number
        self._keeping = Keeping(places, dict(limits), anew=anew)
        self._whole = True  # what was applied is committed
        self._engine = self._keeping.engine
        self._version = 0
        self._session = ""
        self._names = ComponentNames()
        if self._keeping.level < least:
            level = self._keeping.level
            self.close()
            raise StateDamaged(
                f"shard {number} has seen {level} commits, and {least} were acknowledged",
                hint="its folder is of another node, or an older one: start where it is, or with its copy",
            )

    def join(self, version: int, session: str) -> Answer:
        """Serve a front from now on, under a layout; return what it must know. What earlier fronts send is refused."""
        if not self._whole:
            raise StorageFailed(f"shard {self.number} has applied what it could not write", field="state")
        if not self._keeping.level:
            self._commit()  # from now on there is a state
        self._version, self._session, self._names = version, session, ComponentNames()
        numbers = {key: number for key, number in self._engine.producers.items() if key != COMMITS}
        return self.told() | {"producers": numbers, "mended": self._keeping.mended}

    def _commit(self) -> None:
        self._whole = False
        self._keeping.commit()
        self._whole = True

    def told(self) -> Answer:
        """Return how the shard stands."""
        components = self._engine.advisor.components
        learners = components.learners
        return {
            "shard": self.number, "level": self._keeping.level, "version": self._version,
            "components": len(components.slots.components), "bytes": components.bytes,
            "model_bytes": learners.used_bytes, "model_bytes_max": learners.memory_bytes,
            "ledger": self._engine.advisor.ledger(), "totals": dict(self._engine.totals),
            "profiles": self._engine.profiles.held(),
        }  # fmt: skip

    # -- rows -------------------------------------------------------------------------------------------------------------

    def take(
        self, session: str, version: int, first: int, names: Sequence[Named], items: Sequence[tuple[Any, ...]]
    ) -> tuple[list[Answer], Answer]:
        """Let items happen in their order and commit them together; return the answer of each, and how the shard stands.

        Raises Unavailable when another front has taken over, or the layout is another one; StorageFailed when it could not be
        committed: the shard must end, and be opened anew.

        `first`, `names`: the names that rows go by, numbered from `first` on. `items`: sequence of (producer, sequence,
        events), rows with the numbers of `names` in the place of names. An item whose number was applied is not applied
        again.
        """
        if session != self._session or version != self._version:
            raise Unavailable(
                f"shard {self.number} serves another front, or another layout", field="version", value=version
            )
        _learn(self._names, first, names)
        self._whole = False
        answers = [self._applied(*item) for item in items]
        self._commit()
        return answers, self.told()

    def _applied(self, key: Producer | None, sequence: int | None, events: Sequence[Any]) -> Answer:
        try:
            if events and isinstance(events[0], str):
                return self._of_producer(events[0], key, sequence)
            if key is not None and sequence is not None and sequence <= self._engine.applied(*key):
                return self._engine.apply(key, sequence, EMPTY)
            found: Answer = {}
            for event in events or (EMPTY,):
                answer = self._engine.apply(key, sequence, self._named(event))
                found = found or answer
                key = sequence = None  # the first, which is of rows where there are some, has taken the number
            return found
        except AdvisorError as error:
            return {"error": error.as_dict()}

    def _named(self, event: Any) -> e.Event:
        """Give rows their names again."""
        if isinstance(event, e.Travels):
            return e.Travels(replace(event.rows, components=self._names))
        return replace(event, components=self._names) if isinstance(event, Columns) and len(event) else event

    def _of_producer(self, what: str, key: Any, sequence: int | None) -> Answer:
        if what == "evict":
            self._engine.evict_producers([key])
        elif sequence is not None and sequence > self._engine.applied(*key):
            self._engine.resume_producer(key[0], key[1], sequence)
        return {}

    # -- questions --------------------------------------------------------------------------------------------------------

    def part(
        self, names: Collection[str], networks: Collection[str], programs: Collection[str]
    ) -> tuple[bytes, Answer]:
        """Return what is known of them, see `Engine.part`, and how the shard stands."""
        return self._engine.part(names, networks, programs), self.told()

    def exported(self, after: str | None) -> tuple[bytes, str | None]:
        """Return a page of what was learned, see `exporting.page`."""
        return page(self._engine, after)

    def names(self) -> list[str]:
        """Return the names of all components."""
        return list(self._engine.advisor.components.slots.components)

    def networks(self) -> bytes:
        """Return all networks of this shard."""
        return self._engine.part((), self._engine.advisor.components.flows.kept)

    def status(self, components: bool | list[str], offset: int, limit: int) -> Answer:
        """Return the page of the status."""
        asked = {True: None, False: ()}[components] if isinstance(components, bool) else components
        return {**self._engine.advisor.status(components=asked, offset=offset, limit=limit)}

    def tables(
        self, boxes: Sequence[str], names: Mapping[str, str], load: Mapping[str, float], cores_max: int, level: float
    ) -> TabulatedCurves:
        """Return what a plan must know of components, see `Advisor.tables_of`."""
        return self._engine.advisor.tables_of(boxes, names, load, cores_max=cores_max, level=level)

    # -- profiles ---------------------------------------------------------------------------------------------------------

    def foretold(self, key: Producer | None, sequence: int | None, events: TaskEvents) -> e.Ended | None:
        """Return what a batch of task events will say has ended, see `Profiles.foretold`; None where its number was taken."""
        if key is not None and sequence is not None and sequence <= self._engine.applied(*key):
            return None
        return self._engine.profiles.foretold(key or ANONYMOUS, events)

    def profile(self, asked: Mapping[str, Any]) -> Answer:
        """Return a profile, or which there are, see `Profiles.answer`."""
        return self._engine.profiles.answer(**asked)

    def profiler(self, producer: str, incarnation: bytes | None) -> tuple[Answer, bytes]:
        """Return the summary of a run, and the bytes of its profile."""
        told, profiler = self._engine.profiles.run(producer, incarnation)
        return told, to_bytes(profiler)

    def run_of(self, named: Mapping[str, Any]) -> Answer:
        """Return what a profile says of its run as a whole, see `Profiles.run_of`."""
        return self._engine.profiles.run_of(**named)

    # -- moves ------------------------------------------------------------------------------------------------------------

    def _of_buckets(self, buckets: Collection[int]) -> tuple[list[str], list[str], list[str], list[Producer]]:
        wanted, advisor = frozenset(buckets), self._engine.advisor
        names = dict.fromkeys([*advisor.components.slots.components, *advisor.task_types.numbers])
        found = names, advisor.components.flows.kept, advisor.programs.programs
        of: list[list[str]] = [[name for name in kind if bucket_of(name) in wanted] for kind in found]
        return of[0], of[1], of[2], [key for key in self._engine.profiles.runs if bucket_of_producer(key[0]) in wanted]

    def give(self, buckets: Collection[int]) -> bytes:
        """Return all that buckets hold."""
        return self._engine.part(*self._of_buckets(buckets))

    def receive(self, part: bytes | None, producers: Mapping[Producer, int]) -> Answer:
        """Take buckets in, and the numbers that their rows have come to; commit."""
        self._whole = False
        if part is not None:
            self._engine.put(Engine.from_bytes(part))
        for key, number in producers.items():
            if number > self._engine.applied(*key):
                self._engine.advance(key, number)
        self._commit()
        return self.told()

    def let_go(self, buckets: Collection[int]) -> Answer:
        """Forget what buckets hold: another shard has it; commit."""
        names = self._of_buckets(buckets)
        if any(names):
            self._whole = False
            self._engine.leave(*names)
            self._commit()
        return self.told()

    def close(self) -> None:
        """Let go of the folders."""
        self._keeping.close()


def _learn(known: ComponentNames, first: int, names: Sequence[Named]) -> None:
    """Append names as the front has read them, those that are there already left out."""
    new = names[len(known) - first :] if first <= len(known) else None
    if new is None:
        raise Unavailable("names are missing", field="names", value=first, bound=len(known))
    known.names += [name for name, _ in new]
    known.valid = np.concatenate([known.valid, np.array([valid for _, valid in new], np.bool_)])
    known.slots = np.concatenate([known.slots, np.full(len(new), -1, np.int64)])
