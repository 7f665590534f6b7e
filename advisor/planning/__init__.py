"""Networks and curves -> allocations of cores: `plan`."""

from __future__ import annotations

from advisor.domain.sharing import Together
from advisor.planning.answers import evaluate
from advisor.planning.asked import Asked, asked_of
from advisor.planning.plans import plan, plan_request
from advisor.planning.requests import OBJECTIVES, Request, request_of
from advisor.planning.shares import Share
from advisor.planning.together import plan_together

__all__ = [
    "OBJECTIVES",
    "Asked",
    "Request",
    "Share",
    "Together",
    "asked_of",
    "evaluate",
    "plan",
    "plan_request",
    "plan_together",
    "request_of",
]
