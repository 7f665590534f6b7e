"""What a storage keeps of an engine, in memory: an image and a log behind it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from advisor.engine import state_bytes
from advisor.engine.frames import Block
from advisor.engine.journal import Entry


class Stored:
    """What a restart finds."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.journal: list[bytes] = []

    def append(self, entry: Entry) -> None:
        if not entry.empty:
            self.journal.append(entry.encode())

    def commit(self, blocks: Iterable[Block]) -> None:
        self.blocks = [block.data for block in blocks]
        self.journal.clear()

    def stored(self) -> state_bytes.Stored:
        return state_bytes.Stored(deque(self.blocks), tuple(self.journal), sum(map(len, self.blocks)))
