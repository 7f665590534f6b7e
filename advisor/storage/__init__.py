"""The state file: an engine's state in one SQLite database, checked bit by bit, committed whole or not at all."""

from __future__ import annotations

from advisor.storage.damage import Damage
from advisor.storage.store import Store

__all__ = ["Damage", "Store"]
