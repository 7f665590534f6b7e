"""The state on disk: an image of checksummed blocks, a log of what was applied since, and a marker of the last commit."""

from __future__ import annotations

from advisor.storage.reading import read_state
from advisor.storage.store import Store

__all__ = ["Store", "read_state"]
