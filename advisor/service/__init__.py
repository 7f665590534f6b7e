"""The service: listeners, HTTP, metrics, the clock, and the wiring of storage to the engine.

Names are handed out lazily: a worker process needs none of the servers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.service.config import KEYS, Address, Config, load_config
    from advisor.service.server import Bound, run, serve

_HOMES = {
    "KEYS": "advisor.service.config",
    "Address": "advisor.service.config",
    "Config": "advisor.service.config",
    "load_config": "advisor.service.config",
    "Bound": "advisor.service.server",
    "run": "advisor.service.server",
    "serve": "advisor.service.server",
}

__all__ = ["KEYS", "Address", "Bound", "Config", "load_config", "run", "serve"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'advisor.service' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
