"""A network in memory and virtual time, under real protocols: streams that are late, stand still, and are cut anywhere.

Bytes of one stream keep their order, as in TCP; those of different streams come in any. What comes twice comes because a
client sends it again after a cut.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from sim_clock import VirtualLoop

CHUNK_MEAN_BYTES = 2000
HIGH, LOW = 2**16, 2**14


class _Socket:
    """What a service asks of a TCP peer's socket."""

    family = socket.AF_INET

    def setsockopt(self, *_: int) -> None:
        pass


class Stream(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, name: str, protocol: Any) -> None:
        super().__init__()
        self._network, self._protocol, self.name = network, protocol, name
        self.other: Stream = self
        self.heard: Callable[[bytes], None] = lambda _: None  # told of what is written
        self._high, self._low = HIGH, LOW
        self._unread = 0  # bytes written that the other end has not taken
        self._paused = False  # the protocol has been told to write no more
        self._reads = True
        self._on_its_way: deque[bytes | None] = deque()  # to here; None: the end
        self._arrived: deque[bytes | None] = deque()
        self._last_s = 0.0  # when what was written last arrives
        self._closing = False
        self.lost = False

    # what a protocol asks of its transport

    def write(self, data: Any) -> None:
        if not data or self.lost or self._closing:
            return
        data = bytes(data)
        self.heard(data)
        self._unread += len(data)
        while data:
            n = 1 + int(self._network.rng.expovariate(1 / CHUNK_MEAN_BYTES))
            self._send(data[:n])
            data = data[n:]
        if self._unread > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._send(None)
            self._network.at(self._last_s, self._lose, None)

    def abort(self) -> None:
        if not self.lost:
            self._closing = True
            self._network.cut(self)

    def is_closing(self) -> bool:
        return self._closing or self.lost

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        if not self._reads:
            self._reads = True
            self._network.loop.call_soon(self._take)

    def is_reading(self) -> bool:
        return self._reads

    def get_write_buffer_size(self) -> int:
        return self._unread

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": (self.name, 1), "sockname": (self.name, 2), "socket": _Socket()}.get(name, default)

    # what the network does

    def begin(self) -> None:
        self._protocol.connection_made(self)

    def _send(self, part: bytes | None) -> None:
        self._last_s = max(self._last_s, self._network.loop.now + self._network.delay_s())
        self.other._on_its_way.append(part)
        self._network.at(self._last_s, self.other._arrive)

    def _arrive(self) -> None:
        """Take the next part: timers of one moment ring in any order."""
        if self._network.frozen_until > self._network.loop.now:
            self._network.at(self._network.frozen_until, self._arrive)
        elif not self.lost:
            self._arrived.append(self._on_its_way.popleft())
            self._take()

    def _take(self) -> None:
        while self._arrived and self._reads and not self.lost and not self._closing:
            part = self._arrived.popleft()
            if part is None:
                if not self._protocol.eof_received():
                    self.close()
                return
            self._network.told("arrived", self.name, len(part))
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                while part:
                    room = self._protocol.get_buffer(-1)
                    n = min(len(part), len(room))
                    room[:n] = part[:n]
                    part = part[n:]
                    self.other._taken(n)
                    self._protocol.buffer_updated(n)
            else:
                self.other._taken(len(part))
                self._protocol.data_received(part)

    def _taken(self, n: int) -> None:
        self._unread -= n
        if self._paused and self._unread <= self._low and not self.lost:
            self._paused = False
            self._protocol.resume_writing()

    def _lose(self, error: Exception | None) -> None:
        if not self.lost:
            self.lost = True
            self._network.told("lost", self.name)
            self._network.streams.pop(self, None)
            self._protocol.connection_lost(error)

    def vanish(self) -> None:
        """Its process is dead: nobody is told here, and the other end is, some time."""
        self.lost = True
        self._network.streams.pop(self, None)
        self._network.at(self._network.loop.now + self._network.delay_s(), self.other._lose, ConnectionResetError())


class Network:
    """All connections of a world.

    Attributes
    ----------
    serves : callable or None
        Makes the protocol of a service's end; None while there is no service.
    opened : callable
        Told of the two ends of each new connection.
    """

    def __init__(self, loop: VirtualLoop, rng: random.Random, told: Callable[..., None], mean_s: float) -> None:
        self.loop, self.rng, self.told = loop, rng, told
        self.serves: Callable[[], Any] | None = None
        self.opened: Callable[[Stream, Stream], None] = lambda *_: None
        self.streams: dict[Stream, None] = {}
        self.frozen_until = 0.0
        self._mean_s = mean_s
        self._made = 0

    def delay_s(self) -> float:
        return self.rng.expovariate(1 / self._mean_s)

    def at(self, when_s: float, what: Callable[..., None], *args: Any) -> None:
        self.loop.call_at(when_s, what, *args)

    async def connect(self, made: Callable[[], Any], port: int) -> tuple[Stream, Any]:
        await asyncio.sleep(self.delay_s())
        if self.serves is None:
            raise ConnectionRefusedError
        self._made += 1
        ours = Stream(self, f"client-{self._made}", made())
        theirs = Stream(self, f"service-{self._made}", self.serves())
        ours.other, theirs.other = theirs, ours
        self.streams |= {ours: None, theirs: None}
        self.told("connected", self._made)
        self.opened(ours, theirs)
        theirs.begin()
        ours.begin()
        return ours, ours._protocol

    def cut(self, stream: Stream) -> None:
        """End a connection in the midst: each end is told in its own time, and what is on its way arrives or does not."""
        for end in (stream, stream.other):
            self.at(self.loop.now + self.delay_s(), end._lose, ConnectionResetError())

    def cut_one(self) -> None:
        if self.streams:
            self.cut(self.rng.choice(list(self.streams)))
