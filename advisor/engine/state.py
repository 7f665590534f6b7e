"""The state behind a service: an advisor, profiles of runs, and numbers of producers; its parts, and what changed in it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.engine import advisor as whole
from advisor.engine import state_bytes
from advisor.engine.advisor import Advisor
from advisor.engine.changes import NAMES_A_FRAME, head
from advisor.engine.exactly_once import Producer, ProducerLedger
from advisor.engine.pages import BASE
from advisor.engine.profiles import Profiles
from advisor.engine.slots import SEPARATOR
from advisor.engine.versions import Versions

PARTS = (*whole.PARTS, "producers", "profiles")  # of a state, beside what is of one component


@dataclass(slots=True)
class State:
    """All that events change."""

    advisor: Advisor
    profiles: Profiles
    ledger: ProducerLedger

    def take(self, data: bytes) -> None:
        """Let bytes of `extract`, or of an advisor, which knows of no producers, stand in the place of an empty state."""
        components, parts = state_bytes.load(data)
        self.advisor = Advisor.of(components, parts)
        for record in parts.profiles:
            self.profiles.paged.put_record(record)
        self.ledger.put(parts.producers or {})

    def count(self, name: str, n: int = 1) -> None:
        """Count something among the durable totals."""
        self.advisor.components.totals[name] += n

    # -- as bytes ---------------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return all of it."""
        return state_bytes.dump(self.advisor.components, self._parts(None, PARTS))

    def extract(self, names: Iterable[str] | None, parts: Collection[str]) -> bytes:
        """Return components with their task types, all where no names are given, and what spans components."""
        components = self.advisor.components
        names = [*components.slots.components, *self.advisor.task_types.numbers] if names is None else list(names)
        return state_bytes.dump(components.part(names), self._parts(frozenset(names), parts))

    def _parts(self, names: Collection[str] | None, parts: Collection[str]) -> state_bytes.Parts:
        return replace(
            self.advisor.parts(names, parts), producers=self.ledger.applied if "producers" in parts else {},
            profiles=self.profiles.paged.records() if "profiles" in parts else (),
        )  # fmt: skip

    def part(
        self,
        names: Collection[str],
        networks: Collection[str],
        programs: Collection[str],
        profiles: Collection[Producer],
    ) -> bytes:
        """Return components with their task types, networks, programs, profiles, those known, without what spans them."""
        advisor, components = self.advisor, self.advisor.components
        return state_bytes.dump(components.part(names), replace(
            advisor.parts(names, ()), producers={}, documents=components.flows.documents(networks),
            programs=advisor.programs.paged.records(set(programs)), profiles=self.profiles.paged.records(profiles),
        ))  # fmt: skip

    # -- by key -----------------------------------------------------------------------------------------------------------

    def known(self) -> dict[str, Mapping[Any, Any]]:
        """Return what there is by key, by kind."""
        return {
            "components": self.advisor.components.slots.by_name, "networks": self.advisor.components.flows.kept,
            "programs": self.advisor.programs.programs, "task_types": self.advisor.task_types.numbers,
            "producers": self.ledger.applied, "profiles": self.profiles.runs,
        }  # fmt: skip

    def drop(self, gone: Mapping[str, Collection[Any]]) -> None:
        """Take away what stands at keys, by kind. Totals stay."""
        networks, programs, profiles = (list(gone.get(kind, ())) for kind in ("networks", "programs", "profiles"))
        self.advisor.drop((*gone.get("components", ()), *gone.get("task_types", ())))
        for keys, drop in ((networks, self.advisor.components.flows.drop), (programs, self.advisor.programs.drop),
                           (profiles, self.profiles.drop)):  # fmt: skip
            for key in keys:
                drop(key)
        self.ledger.evict(list(gone.get("producers", ())))

    def merge(self, other: State) -> None:
        """Add what another has learned; a producer's greater number stays, of two profiles that with more events."""
        self.advisor.merge(other.advisor)
        applied = self.ledger.applied
        self.ledger.put({key: n for key, n in other.ledger.applied.items() if n > applied.get(key, 0)})
        self.profiles.take(other.profiles)

    def put(self, part: State) -> None:
        """Let a part stand in the place of what is here of the same names."""
        theirs, ours = part.advisor.components, self.advisor.components
        kept = {name: own for name in theirs.flows.kept if (own := ours.flows.kept.get(name))}
        self.drop({kind: part.known()[kind] for kind in ("networks", "programs", "profiles")})
        before = dict(theirs.totals or ours.totals)
        self.ledger.put(part.ledger.applied)
        self.advisor.put(part.advisor)
        ours.flows.read_as(kept)
        self.profiles.take(part.profiles)
        ours.totals.clear()
        ours.totals.update(before)

    # -- what changed -----------------------------------------------------------------------------------------------------

    def sweep(self, versions: Versions) -> int:
        """Give what changed since the last sweep the next version; return the version of the state as it is."""
        components, advisor = self.advisor.components, self.advisor
        flags = {BASE: components.table.changed[: len(components)]}
        flags |= {name: table.changed for name, table in components.records.items()}
        kinds = {
            "components": components.slots.dropped, "networks": components.flows.touched,
            "programs": advisor.programs.paged.touched, "task_types": advisor.task_types.paged.touched,
            "producers": self.ledger.touched(), "profiles": self.profiles.paged.touched,
        }  # fmt: skip
        count = versions.sweep(flags, kinds)
        for touched in kinds.values():
            touched.clear()
        return count

    def changes(self, versions: Versions, since: int, told: int) -> Iterator[bytes]:
        """Yield what changed after a version, as payloads of frames: see `advisor.engine.changes`.

        `since`: a count of `versions`; -1: all of the state. `told`: the version that the last payload tells.
        """
        components, there = self.advisor.components, self.known()
        touched: dict[str, list[Any]] = {kind: versions.keys(kind, since) for kind in there}
        yield head(since < 0, {kind: [key for key in touched[kind] if key not in there[kind]] for kind in there})
        slots = versions.changed(BASE, since, len(components))
        for name, table in components.records.items():
            owners = table.count("component")[: table.size][versions.changed(name, since, table.size)]
            slots[owners[owners >= 0]] = True
        names = {components.slots.names[slot].partition(SEPARATOR)[0]: None for slot in np.flatnonzero(slots).tolist()}
        names.pop("", None)  # of free slots
        due = [*names, *(name for name in touched["task_types"] if name not in names)]
        for start in range(0, len(due), NAMES_A_FRAME):
            yield self.extract(due[start : start + NAMES_A_FRAME], ())
        now = {kind: {key for key in touched[kind] if key in there[kind]} for kind in there}
        yield state_bytes.dump(components.part(()), state_bytes.Parts(
            components.totals, components.flows.documents(now["networks"]),
            self.advisor.programs.paged.records(now["programs"]), (),
            {key: self.ledger.applied[key] for key in now["producers"]}, self.profiles.paged.records(now["profiles"]),
        ))  # fmt: skip
        yield json.dumps({"version": told}).encode()
