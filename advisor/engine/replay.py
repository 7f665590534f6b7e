"""An answer computed again from its evidence alone."""

from __future__ import annotations

from typing import Any

from advisor.domain.answers import Basis
from advisor.engine.advisor import Advisor
from advisor.engine.evidence import answer_of


def advisor_of(basis: Basis) -> Advisor:
    """Return an advisor that knows what some evidence has, and nothing else; raises StateDamaged, StateTooNew."""
    return Advisor.from_bytes(basis.curves)


def replay_answer(basis: Basis) -> Any:
    """Return the answer to the request of some evidence, computed from nothing else.

    Raises
    ------
    InvalidValue, UnknownKey, StateDamaged, StateTooNew
        For evidence that is none, or was changed.
    """
    return answer_of(basis, advisor_of(basis))
