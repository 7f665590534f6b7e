"""Networks and curves -> allocations of cores: `plan`."""

from __future__ import annotations

from advisor.domain.sharing import Together
from advisor.planning.plans import plan, plan_request
from advisor.planning.requests import OBJECTIVES, Request, request_about, request_of
from advisor.planning.shares import Share
from advisor.planning.together import plan_together

__all__ = [
    "OBJECTIVES",
    "Request",
    "Share",
    "Together",
    "plan",
    "plan_request",
    "plan_together",
    "request_about",
    "request_of",
]
