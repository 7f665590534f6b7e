"""While an image of the state is copied, requests that change the state wait; questions go on."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol


class Pausable(Protocol):
    """A connection, as the gate uses it."""

    def wait(self) -> None: ...
    def resume(self) -> None: ...


class ChangeGate:
    """Closed while an image is copied: nothing may change the state then."""

    def __init__(self) -> None:
        self.closed = False
        self._waiting: list[Pausable] = []

    def hold_back(self, connection: Pausable) -> None:
        """Let a connection wait until the gate opens."""
        connection.wait()
        self._waiting.append(connection)

    @contextmanager
    def closing(self) -> Generator[None]:
        """Close the gate inside the block, then let the waiting connections go on."""
        self.closed = True
        try:
            yield
        finally:
            self.closed = False
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.resume()
