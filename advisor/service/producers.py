"""Who speaks for a producer: one live connection each, the newer wins; and since when nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from advisor.errors import TooLarge, Unavailable
from advisor.service.connection import Connection

Key = tuple[str, bytes]
SPOKEN_MAX = 1_000  # producers that one connection speaks for: when it ends, each is seen to
SPARED_S = 600.0  # a producer silent for less may come back with batches on their way: it does not give way


class Producers:
    """The live connection of each producer.

    A batch is taken from the newest connection that has spoken for its producer: bytes of an older one that were still
    on their way cannot overtake.
    """

    def __init__(self, known: Iterable[Key] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.speakers: dict[Key, Connection] = {}  # the connection that speaks for each
        self._spoken: dict[int, set[Key]] = {}
        self._silent_since: dict[Key, float] = dict.fromkeys(known, clock())

    def __len__(self) -> int:
        return len(self.speakers)

    def speak(self, key: Key, connection: Connection) -> None:
        """Take `connection` as the one that speaks for `key`.

        Raises Unavailable when a newer connection does; TooLarge when it speaks for too many.
        """
        current = self.speakers.get(key)
        if current is connection:
            return
        if current is not None and current.number > connection.number:
            raise Unavailable(
                f"a newer connection speaks for producer {key[0]!r}",
                field="producer",
                value=key[0],
                hint="close this connection; two programs must not share a producer's name and incarnation",
            )
        spoken = self._spoken.setdefault(connection.number, set())
        if len(spoken) >= SPOKEN_MAX:
            raise TooLarge("producers of a connection", len(spoken) + 1, SPOKEN_MAX, "open another connection")
        if current is not None:
            self._spoken[current.number].discard(key)
        self.speakers[key] = connection
        spoken.add(key)
        self._silent_since.pop(key, None)

    def retire(self, key: Key) -> None:
        """Forget a producer that is done."""
        speaker = self.speakers.pop(key, None)
        if speaker is not None:
            self._spoken[speaker.number].discard(key)
        self._silent_since.pop(key, None)

    def longest_silent(self) -> Key | None:
        """Return, and forget, the producer that nobody has spoken for in the longest time, if that is long."""
        key = next(iter(self._silent_since), None)  # in the order of their falling silent
        if key is None or self._silent_since[key] > self._clock() - SPARED_S:
            return None
        del self._silent_since[key]
        return key

    def release_producer(self, connection: Connection) -> None:
        """The connection is gone."""
        for key in self._spoken.pop(connection.number, ()):
            del self.speakers[key]
            self._silent_since[key] = self._clock()
