"""The state behind a service: an advisor, profiles of runs, and numbers of producers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from advisor.engine import state_bytes
from advisor.engine.advisor import Advisor
from advisor.engine.exactly_once import ProducerLedger
from advisor.engine.frames import Block
from advisor.engine.kinds import RecordKind
from advisor.engine.profiles import Profiles


class State:
    """All that events change."""

    advisor: Advisor
    profiles: Profiles
    ledger: ProducerLedger

    @property
    def kinds(self) -> tuple[RecordKind[Any, Any], ...]:
        """What is kept by key, beside components."""
        return *self.advisor.kinds, self.ledger, self.profiles

    def count_total(self, name: str, n: int = 1) -> None:
        """Count something among the durable totals that the log has otherwise."""
        self.advisor.components.totals[name] += n

    def totals_add(self, name: str, n: int = 1) -> None:
        """Count something among the durable totals that no event tells."""
        raise NotImplementedError

    def blocks(self) -> Iterator[Block]:
        """Yield all of the state, each slot where it is, for the state on disk. Nothing may change it meanwhile."""
        return state_bytes.encode(self.advisor.components, self.advisor.components.totals, self.kinds)
