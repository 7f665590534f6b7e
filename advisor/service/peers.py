"""What peers make the service keep, in bytes: half-received messages, numbered names, producers. One bound for all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from advisor.errors import Unavailable

PRODUCER_BYTES = 850  # of a producer that a connection speaks for
NAME_BYTES = 215  # of a name, beside its characters
# 32 messages of MESSAGE_BYTES_MAX, or a million names: far above what honest clients need, far below a machine's memory.
PEER_BYTES_MAX = 2**28
SHARE = 4  # one connection may have a quarter: one alone keeps nobody out


class Peers:
    """Bytes kept for each connection."""

    def __init__(self) -> None:
        self.bytes_max = PEER_BYTES_MAX
        self.bytes = 0  # of all connections together
        self._of: Counter[Hashable] = Counter()

    def add(self, peer: Hashable, by: int) -> bool:
        """Count bytes that are there already, or are gone; return whether they are more than there may be."""
        self.bytes += by
        self._of[peer] += by
        return by > 0 and self.bytes > self.bytes_max

    def keep(self, peer: Hashable, what: str, more: int) -> None:
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
        self.add(peer, more)

    def release(self, peer: Hashable) -> None:
        """The peer has left."""
        self.bytes -= self._of.pop(peer, 0)
