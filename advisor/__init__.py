"""Advisor: learns run times from a stream, answers how many cores to give to what.

Five verbs of `Advisor` do most of the work: `observe`, `predict`, `choose_cores`, `choose_together` and `allocate`. A program
that shares what was learned uses the same verbs of `SyncClient` or `AsyncClient`.

Names are handed out lazily: importing `advisor.client` in an adapter loads neither the engine nor numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from advisor.version import VERSION

if TYPE_CHECKING:
    from advisor.client import AsyncClient, SyncClient
    from advisor.domain.allocations import Allocation
    from advisor.domain.answers import CoreChoice, Prediction, Suggestion
    from advisor.engine.advisor import Advisor
    from advisor.engine.replay import replay_answer
    from advisor.errors import *

__version__ = VERSION

__all__ = [
    "Advisor", "AdvisorError", "Allocation", "AsyncClient", "CallerError", "ConcurrentUse",
    "ConnectionFailed", "CoreChoice", "ImpossibleTarget", "InvalidValue", "MalformedMessage", "Mismatch",
    "MissingShares", "NetworkSyntax", "NotAnswered", "NotEnoughData", "Prediction", "RowsRefused", "SequenceGap",
    "ServiceError", "StateDamaged", "StateError", "StateLocked", "StateTooNew", "StorageFailed", "Suggestion",
    "SyncClient", "TargetNotReached", "TooLarge", "Unauthorized", "Unavailable", "UnknownComponent", "UnknownKey",
    "UnknownMethod", "UnknownNameId", "UnknownNetwork", "UnknownProgram", "Unsupported", "WorkFailed", "replay_answer",
]  # fmt: skip

# Where each is; the others are errors.
_HOMES = dict.fromkeys(__all__, "advisor.errors") | {
    "Advisor": "advisor.engine.advisor",
    "AsyncClient": "advisor.client",
    "SyncClient": "advisor.client",
    "Allocation": "advisor.domain.allocations",
    "replay_answer": "advisor.engine.replay",
    **dict.fromkeys(("CoreChoice", "Prediction", "Suggestion"), "advisor.domain.answers"),
}


def handing_out(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``: each name is loaded from the module that `homes` tells when it is first asked for."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


__getattr__ = handing_out(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(
        {*__all__, *(name for name in globals() if name.startswith("__"))}
    )  # what is offered, not what is imported
