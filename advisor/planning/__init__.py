"""Networks and curves -> allocations of cores: `plan`."""

from __future__ import annotations

from advisor.domain.sharing import Together
from advisor.planning.asked.requests import OBJECTIVES, Request
from advisor.planning.combining import Share
from advisor.planning.plans import plan
from advisor.planning.sentences import sentences
from advisor.planning.sweeping import evaluate, sweep
from advisor.planning.together import plan_together
from advisor.planning.waiting import Taking, wait_or_take

__all__ = [
    "OBJECTIVES", "Request", "Share", "Taking", "Together", "evaluate", "plan", "plan_together", "sentences", "sweep",
    "wait_or_take",
]  # fmt: skip
