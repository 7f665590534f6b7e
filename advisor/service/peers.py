"""What peers make the service keep, in bytes: half-received messages, numbered names, producers. One bound for all of it."""

from __future__ import annotations

from collections import Counter

from advisor.domain.limits import LARGE_MESSAGES_MAX, MESSAGE_BYTES_MAX, ROWS_BYTES_MAX
from advisor.errors import Unavailable
from advisor.service.connection import Connection

PRODUCER_BYTES = 850  # of a producer that a connection speaks for
NAME_BYTES = 215  # of a name, beside its characters
# All large messages, and as much again for halves of smaller ones, or for a million names.
PEER_BYTES_MAX = 2 * LARGE_MESSAGES_MAX * MESSAGE_BYTES_MAX
SHARE = 4  # one connection may have a quarter: one alone keeps nobody out


class Peers:
    """Bytes kept for each connection, and which ones send a large message: `LARGE_MESSAGES_MAX` at a time, the others wait."""

    def __init__(self) -> None:
        self.bytes_max = PEER_BYTES_MAX
        self.bytes = 0  # of all connections together
        self._of: Counter[Connection] = Counter()
        self._large: dict[Connection, bool] = {}  # whether it waits; in the order of coming

    def count_bytes(self, peer: Connection, by: int) -> bool:
        """Count bytes that are there already, or are gone; return whether they are more than there may be."""
        self.bytes += by
        self._of[peer] += by
        return by > 0 and self.bytes > self.bytes_max

    def unfinished(self, peer: Connection, size: int) -> None:
        """A message of which so many bytes are here goes on, or has ended (0): a large one may have to wait for others."""
        if size <= ROWS_BYTES_MAX:
            self._leave_large(peer)
        elif peer not in self._large:
            self._large[peer] = len(self._large) >= LARGE_MESSAGES_MAX
            if self._large[peer]:
                peer.pause_reading()

    def _leave_large(self, peer: Connection) -> None:
        if self._large.pop(peer, True):
            return
        following = next((each for each, waits in self._large.items() if waits), None)
        if following is not None:
            self._large[following] = False
            following.resume_reading()

    def keep(self, peer: Connection, what: str, more: int) -> None:
        """Count bytes that are to be kept until the peer leaves.

        Raises Unavailable when all peers together, or this one, would have more than there may be.
        """
        own = self._of[peer] + more
        if self.bytes + more > self.bytes_max or own > self.bytes_max // SHARE:
            raise Unavailable(
                f"no memory for the {what} of this connection", field="peer_memory", value=max(own, self.bytes + more),
                bound=self.bytes_max // SHARE if own > self.bytes_max // SHARE else self.bytes_max,
                hint="number fewer names, use fewer producers, or close connections that are done",
            )  # fmt: skip
        self.count_bytes(peer, more)

    def release(self, peer: Connection) -> None:
        """The peer has left."""
        self.bytes -= self._of.pop(peer, 0)
        self._leave_large(peer)
