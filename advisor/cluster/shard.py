"""One shard: an engine, the state file it is kept in, and what the front asks of it. Calls come one after the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from advisor.domain.buckets import bucket_of
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Engine
from advisor.engine import events as e
from advisor.engine.exactly_once import Producer
from advisor.errors import AdvisorError, StateDamaged
from advisor.service.exporting import page
from advisor.storage import Store

EMPTY = columns_of(ComponentNames(), [], [], [], [])
FILE: Final = "state"
EVICTED = "evicted"  # in the place of an event: forget the producer
Answer = dict[str, Any]
Item = tuple[Producer | None, int | None, tuple[Any, ...]]  # producer, sequence, events


class Shard:
    """A part of the state, in a folder.

    Raises StateDamaged where the folder has no state and has to have one; StateLocked where another process has it.

    `limits`: as `Engine` takes them. `state`: "any", "required", or "none": what the folder holds is removed.
    """

    def __init__(self, number: int, folder: str, limits: Mapping[str, Any], state: str = "any") -> None:
        self.number = number
        if state == "none":
            shutil.rmtree(folder, ignore_errors=True)
        self._store = Store.open(Path(folder) / FILE)
        stored = self._store.load()
        if stored is None and state == "required":
            self._store.close()
            raise StateDamaged(
                f"{folder} has no state, and rows of it were acknowledged",
                hint="every node must reach the folder of the state; restore it where it was lost",
            )
        self._engine = Engine(**limits) if stored is None else Engine.restore(stored, **limits)
        if stored is None:  # from now on there is one
            self._store.save(self._engine.take_image())
        self._engine.journal.keep()
        self._names = ComponentNames()  # of all rows so far: what each is in the engine and in the log is found once
        self._numbers: dict[str, int] = {}

    def _commit(self) -> None:
        """Make what was applied durable. Raises StorageFailed: the engine is ahead of the file then, and the process ends."""
        entry = self._engine.take_entry()
        if entry is None or self._store.image_due:
            self._store.save(self._engine.take_image())
        else:
            self._store.append(entry.encode())

    def report(self) -> Answer:
        """Return what the front must know of it."""
        components = self._engine.advisor.components
        learners = components.learners
        return {
            "commits": self._store.last.number, "components": len(components.slots.components),
            "bytes": components.bytes, "model_bytes": learners.used_bytes, "model_bytes_max": learners.memory_bytes,
            "ledger": self._engine.advisor.ledger(), "totals": dict(self._engine.totals),
        }  # fmt: skip

    def producers(self) -> dict[Producer, int]:
        """Return the last number applied of each producer."""
        return dict(self._engine.producers)

    # -- changes ----------------------------------------------------------------------------------------------------------

    def apply_items(self, items: Sequence[Item]) -> tuple[list[Answer], Answer]:
        """Apply items in their order and commit them together; return the answer of each, and the report.

        An item is (producer, sequence, events); one whose number was applied is not applied again. Raises StorageFailed.
        """
        answers = [self._applied(*item) for item in items]
        self._commit()
        return answers, self.report()

    def _applied(self, key: Producer | None, sequence: int | None, events: tuple[Any, ...]) -> Answer:
        try:
            if EVICTED in events and key is not None:
                self._engine.ledger.remove_record(key)
                return {}
            if key is not None and sequence is not None and sequence <= self._engine.applied(*key):
                return self._engine.apply_event(key, sequence, events[0] if events else EMPTY)
            found: Answer = {}
            for event in events or (EMPTY,):
                answer = self._engine.apply_event(key, sequence, self._by_known_names(event))
                found = found or answer
                key = sequence = None  # the first, which is of rows where there are some, has taken the number
            return found
        except AdvisorError as error:
            return {"error": error.as_dict()}

    def _by_known_names(self, event: Any) -> e.Event:
        """Return rows by the numbers of the names that are known here."""
        rows = event.rows if isinstance(event, e.Travels) else event
        if not isinstance(rows, Columns) or not rows.components.valid.all():
            return event
        known, names = self._numbers, rows.components.names
        new = [name for name in dict.fromkeys(names) if name not in known]
        known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
        self._names.extend(new)
        own = np.array([known[name] for name in names], np.int64)
        rows = replace(rows, components=self._names, index=own[rows.index])
        return e.Travels(rows) if isinstance(event, e.Travels) else rows

    def receive_part(self, part: bytes | None, producers: Mapping[Producer, int]) -> Answer:
        """Take in buckets, and numbers of producers where they are greater; commit."""
        if part is not None:
            self._engine.replace_part(Engine.from_bytes(part))
        for key, number in producers.items():
            self._resume(key, number)
        self._commit()
        return self.report()

    def _resume(self, key: Producer, sequence: int) -> None:
        if sequence > self._engine.applied(*key):
            self._engine.ledger.set_record(key, sequence)

    def give(self, buckets: Collection[int]) -> bytes:
        """Return all that buckets hold."""
        return self._engine.extract(*self._names_in(buckets.__contains__))

    def keep(self, buckets: Collection[int]) -> Answer:
        """Remove what other buckets hold: another shard has it; commit."""
        names, parts = self._names_in(lambda bucket: bucket not in buckets)
        if names or any(parts.values()):
            self._engine.remove_part(names, parts)
            self._commit()
        return self.report()

    def _names_in(self, wanted: Callable[[int], bool]) -> tuple[list[str], dict[str, list[str]]]:
        """Return the components of some buckets, and the networks and programs."""
        advisor = self._engine.advisor
        kinds = advisor.components.slots.components, advisor.components.flows.known, advisor.programs.known
        names, networks, programs = ([name for name in kind if wanted(bucket_of(name))] for kind in kinds)
        return names, {"networks": networks, "programs": programs}

    # -- questions --------------------------------------------------------------------------------------------------------

    def extract_part(self, names: Collection[str], networks: Collection[str], programs: Collection[str]) -> bytes:
        """Return what is known of them, see `Engine.extract`."""
        return self._engine.extract(names, {"networks": networks, "programs": programs})

    def exported(self, after: str | None) -> tuple[bytes, str | None]:
        """Return a page of what was learned, see `exporting.page`."""
        return page(self._engine, after)

    def names(self) -> list[str]:
        """Return the names of all components."""
        return list(self._engine.advisor.components.slots.components)

    def siblings(self, groups: Sequence[tuple[str, int]]) -> list[list[str]]:
        """Return the components of this shard that lend to each group, see `Siblings.members`."""
        return self._engine.advisor.components.siblings.members(groups)

    def networks(self) -> bytes:
        """Return all networks of this shard."""
        return self._engine.extract((), ("networks",))

    def status(self, components: Sequence[str] | None, offset: int, limit: int) -> Answer:
        """Return a page of the status, see `Advisor.status`."""
        return {**self._engine.advisor.status(components=components, offset=offset, limit=limit)}

    def close(self) -> None:
        """Close the state file; nothing committed depends on it."""
        self._store.close()
