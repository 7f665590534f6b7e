"""The state behind a service: an advisor, profiles of runs, and numbers of producers; its parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from advisor.engine import advisor as whole
from advisor.engine import state_bytes
from advisor.engine.advisor import Advisor
from advisor.engine.exactly_once import ProducerLedger
from advisor.engine.frames import Block
from advisor.engine.kinds import RecordKind
from advisor.engine.profiles import Profiles
from advisor.engine.state_bytes import COMPONENTS, Decoded

PARTS = (*whole.PARTS, "producers", "profiles")  # of a state, beside what is of one component


@dataclass(slots=True)
class State:
    """All that events change."""

    advisor: Advisor
    profiles: Profiles
    ledger: ProducerLedger

    @property
    def kinds(self) -> tuple[RecordKind[Any, Any], ...]:
        """What is kept by key, beside components."""
        return *self.advisor.kinds, self.ledger, self.profiles

    def restore_records(self, found: Decoded) -> None:
        """Let what was decoded stand in the place of an empty state; raises StateDamaged."""
        self.advisor = Advisor.from_state(found)
        for kind in (self.ledger, self.profiles):
            whole.restore_records(kind, found)

    def count_total(self, name: str, n: int = 1) -> None:
        """Count something among the durable totals."""
        self.advisor.components.totals[name] += n

    # -- as bytes ---------------------------------------------------------------------------------------------------------

    def blocks(self) -> Iterator[Block]:
        """Yield all of it, each slot where it is, for the state on disk. Nothing may change it meanwhile."""
        components = self.advisor.components
        return state_bytes.encode(components, components.totals, self.kinds)

    def to_bytes(self) -> bytes:
        """Return all of it."""
        return state_bytes.whole_state(self.advisor.components, self.kinds)

    def extract(self, keys: state_bytes.Keys) -> bytes:
        """Return what stands at keys, see `state_bytes.part_of_state`."""
        return state_bytes.part_of_state(self.advisor.components, self.kinds, keys)

    # -- by key -----------------------------------------------------------------------------------------------------------

    def remove_records(self, gone: Mapping[str, Collection[Any]]) -> None:
        """Take away what stands at keys, by kind. Totals stay."""
        self.advisor.remove_components((*gone.get(COMPONENTS, ()), *gone.get("task_types", ())))
        for kind in self.kinds:
            for key in list(gone.get(kind.name, ())):
                kind.remove_record(key)

    def merge(self, other: State) -> None:
        """Add what another has learned; a producer's greater number stays, of two profiles that with more events."""
        self.advisor.merge(other.advisor)
        self.ledger.merge(other.ledger)
        self.profiles.merge(other.profiles)

    def replace_records(self, part: State) -> None:
        """Let a part stand in the place of what is here of the same names; totals as of the part, where it has such."""
        totals = self.advisor.components.totals
        before = dict(part.advisor.components.totals or totals)
        self.advisor.replace_records(part.advisor)
        self.ledger.merge(part.ledger, replacing=True)
        self.profiles.merge(part.profiles, replacing=True)
        totals.clear()
        totals.update(before)
