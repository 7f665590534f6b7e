"""Networks and curves -> allocations of cores: `plan`."""

from __future__ import annotations

from advisor.planning.plans import plan
from advisor.planning.requests import OBJECTIVES, Request

__all__ = ["OBJECTIVES", "Request", "plan"]
