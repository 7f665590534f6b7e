"""Advisor: learns run times from a stream, answers how many cores to give to what.

Names are handed out lazily: importing `advisor.client` in an adapter loads neither the engine nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.client import AsyncClient, SyncClient
    from advisor.domain.answers import Allocation, CoreChoice, Prediction
    from advisor.engine import Advisor
    from advisor.errors import AdvisorError
    from advisor.models.bundle import Bundle

__version__ = "0.1.0"

_HOMES = {
    "Advisor": "advisor.engine",
    "AsyncClient": "advisor.client",
    "Bundle": "advisor.models.bundle",
    "SyncClient": "advisor.client",
    "AdvisorError": "advisor.errors",
    "Allocation": "advisor.domain.answers",
    "CoreChoice": "advisor.domain.answers",
    "Prediction": "advisor.domain.answers",
}

__all__ = ["Advisor", "AdvisorError", "Allocation", "AsyncClient", "Bundle", "CoreChoice", "Prediction", "SyncClient"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'advisor' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
