"""A resource server of S-Net's runtime in the test's own loop, with a clock that stands still; applications by their bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from live import PATIENCE_S

from advisor.engine import Engine
from advisor.service import load_config
from advisor.service.listeners import Listeners
from advisor.service.option_types import Address
from advisor.service.snet_resources import REFRESH_S, SnetResources


@dataclass
class Peer:
    """An application, by its bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    held: bytes = b""

    def say(self, words: str) -> None:
        self.writer.write(words.encode())

    async def reported(self) -> str:
        """Return the next message; an empty text where the connection is closed."""
        async with asyncio.timeout(PATIENCE_S):
            while (whole := self._whole()) is None:
                try:
                    data = await self.reader.read(4096)
                except ConnectionError:
                    data = b""
                if not data:
                    return ""
                self.held += data
        return whole

    def _whole(self) -> str | None:
        depth = 0
        for at, byte in enumerate(self.held):
            depth += (byte == ord("{")) - (byte == ord("}"))
            if byte == ord("}") and not depth:
                whole, self.held = self.held[: at + 1], self.held[at + 1 :]
                return whole.decode().strip()
        return None

    async def asks(self, words: str) -> str:
        self.say(words)
        return await self.reported()

    async def comes_after(self) -> None:
        """Wait until the server has read all that was said."""
        self.say("{ state }")
        assert (await self.reported()).startswith("{ state")


@dataclass
class Lender:
    """A resource server in this loop, with a clock that stands still."""

    resources: SnetResources
    ports: tuple[Address, ...]
    engine: Engine
    now: list[float]
    peers: list[Peer] = field(default_factory=list)

    async def peer(self, port: int = 0, *, hello: str = "") -> Peer:
        self.peers.append(Peer(*await asyncio.open_connection(*self.ports[port])))
        if hello:
            self.peers[-1].say(hello)
        return self.peers[-1]

    async def passes(self, seconds: float) -> None:
        """Let time pass, as the server's own loop would see it."""
        end = self.now[0] + seconds
        while self.now[0] < end:
            self.now[0] = min(self.now[0] + REFRESH_S, end)
            await self.resources.refresh()


@asynccontextmanager
async def lending(cores: int = 2, **options: Any) -> AsyncIterator[Lender]:
    config = load_config(**({"snet_resources": ["127.0.0.1:0"]} | options))
    engine, now = Engine(), [0.0]

    async def ask(method: str, **asked: Any) -> Any:
        """Answer as a service does."""
        return getattr(engine.advisor, method)(**asked).as_dict()

    resources = SnetResources(config.snet_resources, range(cores), ask, lambda: now[0])
    listeners = Listeners()
    ports = await resources.listen(listeners)
    lender = Lender(resources, ports, engine, now)
    try:
        yield lender
    finally:
        for peer in lender.peers:
            peer.writer.close()
        resources.close()
        listeners.close()
        for server in listeners.servers:
            await server.wait_closed()
