"""The service: listeners, HTTP, metrics, the clock, and the wiring of storage to the engine."""

from __future__ import annotations

from advisor.service.config import KEYS, Address, Config, load_config
from advisor.service.server import Bound, run, serve

__all__ = ["KEYS", "Address", "Bound", "Config", "load_config", "run", "serve"]
