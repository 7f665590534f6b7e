"""What peers make the service keep for them, of all kinds together: one budget, so that their bounds need not be added up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable

from advisor.errors import Unavailable

PRODUCER_KEPT_BYTES = 850  # of a producer that a connection speaks for
NAME_KEPT_BYTES = 215  # of a name, beside its characters
SHARE = 4  # of the budget one connection may have a quarter: one alone keeps nobody out


class Peers:
    """Bytes kept for each connection, by what they are for.

    `messages` half received, `names` numbered, the `lists` of names of last batches, `producers` spoken for.

    `bytes_max`: of all connections together.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.kept: Counter[str] = Counter()  # bytes by what they are for
        self._of: defaultdict[Hashable, Counter[str]] = defaultdict(Counter[str])

    def add(self, peer: Hashable, what: str, by: int) -> bool:
        """Count bytes that are there already, or are gone; return whether they are more than there may be."""
        self.bytes += by
        self.kept[what] += by
        self._of[peer][what] += by
        return by > 0 and self.bytes > self.bytes_max

    def keep(self, peer: Hashable, what: str, more: int) -> None:
        """Count bytes that are to be kept until the peer leaves.

        Raises Unavailable when all peers together, or this one, would have more than there may be.
        """
        own = self._of[peer].total() + more
        if self.bytes + more > self.bytes_max or own > self.bytes_max // SHARE:
            raise Unavailable(
                f"no room for the {what} of this connection", field="peer_memory", value=max(own, self.bytes + more),
                bound=self.bytes_max // SHARE if own > self.bytes_max // SHARE else self.bytes_max,
                hint="number fewer names, use fewer producers; or raise peer_memory",
            )  # fmt: skip
        self.add(peer, what, more)

    def replace(self, peer: Hashable, what: str, size: int) -> bool:
        """Count bytes in place of those that were there for the same; return whether there are more than there may be."""
        self.add(peer, what, size - self._of[peer][what])
        return size > 0 and (self.bytes > self.bytes_max or self._of[peer].total() > self.bytes_max // SHARE)

    def release(self, peer: Hashable) -> None:
        """The peer has left."""
        of = self._of.pop(peer, Counter[str]())
        self.kept.subtract(of)
        self.bytes -= of.total()
