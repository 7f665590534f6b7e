"""The state behind a service: an advisor, profiles of runs, and numbers of producers; its parts, and what changed in it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from advisor.domain.json_bytes import read_json
from advisor.engine import advisor as whole
from advisor.engine import state_bytes
from advisor.engine.advisor import Advisor
from advisor.engine.exactly_once import ProducerLedger
from advisor.engine.kinds import RecordKind
from advisor.engine.profiles import Profiles
from advisor.engine.state_bytes import Block, Decoded
from advisor.engine.versions import Versions
from advisor.errors import StateDamaged, StateTooNew

PARTS = (*whole.PARTS, "producers", "profiles")  # of a state, beside what is of one component
NAMES_A_FRAME: Final = 256  # of changes, about a megabyte: what is done again after a cut
COMPONENTS: Final = "components"


@dataclass(slots=True)
class State:
    """All that events change."""

    advisor: Advisor
    profiles: Profiles
    ledger: ProducerLedger

    @property
    def kinds(self) -> tuple[RecordKind[Any], ...]:
        """What is kept by key, beside components."""
        return *self.advisor.kinds, self.ledger.kind, self.profiles.kind

    def restore_records(self, found: Decoded) -> None:
        """Let what was decoded stand in the place of an empty state; raises StateDamaged."""
        self.advisor = Advisor.from_state(found)
        for kind in (self.ledger.kind, self.profiles.kind):
            whole.restore_records(kind, found)

    def count_total(self, name: str, n: int = 1) -> None:
        """Count something among the durable totals."""
        self.advisor.components.totals[name] += n

    # -- as bytes ---------------------------------------------------------------------------------------------------------

    def blocks(self) -> Iterator[Block]:
        """Yield all of it, each slot where it is, for the state on disk. Nothing may change it meanwhile."""
        components = self.advisor.components
        return state_bytes.encode(components, components.totals, [(kind, None) for kind in self.kinds])

    def to_bytes(self) -> bytes:
        """Return all of it."""
        components = self.advisor.components
        blocks = state_bytes.encode(components.compact(), components.totals, [(kind, None) for kind in self.kinds])
        return state_bytes.to_bytes(blocks)

    def extract(self, names: Iterable[str] | None, parts: Collection[str]) -> bytes:
        """Return components with their task types, all where no names are given, and what spans components."""
        totals, kinds = self.advisor.parts(names, parts)
        kinds += [(kind, None) for kind in (self.ledger.kind, self.profiles.kind) if kind.name in parts]
        return state_bytes.to_bytes(state_bytes.encode(self.advisor.copy_components(names), totals, kinds))

    def extract_records(self, keys: Mapping[str, Collection[Any]], totals: Mapping[str, int] | None = None) -> bytes:
        """Return what stands at keys, by kind, those known; components with their task types."""
        names = keys.get(COMPONENTS, ())
        by_kind = {"task_types": names, "allowed": names, **keys}
        kinds = [(kind, frozenset(by_kind.get(kind.name, ()))) for kind in self.kinds]
        return state_bytes.to_bytes(state_bytes.encode(self.advisor.copy_components(names), totals or {}, kinds))

    # -- by key -----------------------------------------------------------------------------------------------------------

    def known_keys(self) -> dict[str, Mapping[Any, Any]]:
        """Return what there is by key, by kind."""
        return {COMPONENTS: self.advisor.components.slots.components} | {kind.name: kind.known for kind in self.kinds}

    def remove_records(self, gone: Mapping[str, Collection[Any]]) -> None:
        """Take away what stands at keys, by kind. Totals stay."""
        self.advisor.remove_components((*gone.get(COMPONENTS, ()), *gone.get("task_types", ())))
        for kind in self.kinds:
            for key in list(gone.get(kind.name, ())):
                kind.remove_record(key)

    def merge(self, other: State) -> None:
        """Add what another has learned; a producer's greater number stays, of two profiles that with more events."""
        self.advisor.merge(other.advisor)
        applied = self.ledger.applied
        self.ledger.set_applied({key: n for key, n in other.ledger.applied.items() if n > applied.get(key, 0)})
        self.profiles.merge_newer_runs(other.profiles)

    def replace_records(self, part: State) -> None:
        """Let a part stand in the place of what is here of the same names."""
        theirs, ours = part.advisor.components, self.advisor.components
        kept = {name: own for name in theirs.flows.kept if (own := ours.flows.kept.get(name))}
        self.remove_records({kind: part.known_keys()[kind] for kind in ("networks", "programs", "profiles")})
        before = dict(theirs.totals or ours.totals)
        self.ledger.set_applied(part.ledger.applied)
        self.advisor.replace_components(part.advisor)
        ours.flows.read_as(kept)
        self.profiles.merge_newer_runs(part.profiles)
        ours.totals.clear()
        ours.totals.update(before)

    # -- what changed -----------------------------------------------------------------------------------------------------

    def sweep(self, versions: Versions) -> int:
        """Give what changed since the last sweep the next version; return the version of the state as it is."""
        components = self.advisor.components
        flags = {COMPONENTS: components.table.changed[: len(components)]}
        flags |= {name: table.changed for name, table in components.records.items()}
        touched = {COMPONENTS: components.slots.dropped} | {kind.name: kind.touched for kind in self.kinds}
        touched[self.ledger.kind.name] = self.ledger.touched()
        count = versions.sweep(flags, touched)
        for keys in touched.values():
            keys.clear()
        return count

    def changes(self, versions: Versions, since: int, reported: int) -> Iterator[bytes]:
        """Yield what changed after a version, as payloads of frames: a head in JSON with what is gone, parts, the version.

        Parts stand in the place of what the reader has of the same names, so that they may come twice. `since`: a count of
        `versions`; -1: all of the state. `reported`: the version that the last payload tells.
        """
        components, there = self.advisor.components, self.known_keys()
        touched: dict[str, list[Any]] = {kind: versions.keys(kind, since) for kind in there}
        gone = {kind: [key for key in touched[kind] if key not in there[kind]] for kind in there}
        yield _head(since < 0, gone)
        slots = versions.changed(COMPONENTS, since, len(components))
        for name, table in components.records.items():
            owners = table.int_field("component")[: table.size][versions.changed(name, since, table.size)]
            slots[owners[owners >= 0]] = True
        names = {components.slots.owner(slot): None for slot in np.flatnonzero(slots).tolist()}
        names.pop("", None)  # of free slots
        due = [*names, *(name for name in touched["task_types"] if name not in names)]
        for start in range(0, len(due), NAMES_A_FRAME):
            yield self.extract_records({COMPONENTS: due[start : start + NAMES_A_FRAME]})
        now = {kind: {key for key in touched[kind] if key in there[kind]} for kind in there}
        yield self.extract_records(now | {COMPONENTS: (), "task_types": ()}, components.totals)
        yield json.dumps({"version": reported}).encode()


def _head(everything: bool, gone: Mapping[str, Collection[Any]]) -> bytes:
    keys = {
        kind: [key if isinstance(key, str) else [key[0], key[1].hex()] for key in each] for kind, each in gone.items()
    }
    return json.dumps({"format": state_bytes.FORMAT, "whole": everything, "gone": keys}, ensure_ascii=False).encode()


def head_of(data: bytes) -> tuple[bool, dict[str, list[Any]]]:
    """Return whether changes are all of a state, and what is gone by kind; raises StateTooNew, StateDamaged."""
    reported = _read(data)
    if reported.get("format") != state_bytes.FORMAT:
        raise StateTooNew(
            f"changes of format {reported.get('format')}; this version reads {state_bytes.FORMAT}", field="format",
            value=reported.get("format"), bound=state_bytes.FORMAT, hint="use the version that wrote them",
        )  # fmt: skip
    try:
        gone: dict[str, list[Any]] = {
            kind: [key if isinstance(key, str) else (str(key[0]), bytes.fromhex(key[1])) for key in keys]
            for kind, keys in reported["gone"].items()
        }
        return reported["whole"] is True, gone
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise StateDamaged(f"the head of changes does not read: {error!r}") from error


def version_of(data: bytes) -> int:
    """Return the version that changes end with; raises StateDamaged."""
    version = _read(data).get("version")
    if not isinstance(version, int):
        raise StateDamaged("changes end without a version")
    return version


def _read(data: bytes) -> Mapping[str, Any]:
    try:
        reported = read_json(data)
    except (ValueError, RecursionError) as error:
        raise StateDamaged(f"changes do not read: {error}") from error
    return cast("Mapping[str, Any]", reported) if isinstance(reported, dict) else {}
