"""The state behind a service: an advisor, profiles of runs, and numbers of producers; its parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.engine import advisor as whole
from advisor.engine import state_bytes
from advisor.engine.advisor import Advisor
from advisor.engine.exactly_once import ProducerLedger
from advisor.engine.kinds import RecordKind
from advisor.engine.profiles import Profiles
from advisor.engine.state_bytes import Block, Decoded

PARTS = (*whole.PARTS, "producers", "profiles")  # of a state, beside what is of one component
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
