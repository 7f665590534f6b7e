"""The resource server of S-Net's runtime: lends this machine's cores to applications, by what is learned of their networks.

An application is bound to a network by the port that it comes to. What a port lends is one pool: `advisor.engine.granting`
decides, this room has the sockets and the clock.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, cast

import anyio
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from advisor.engine.granting import Granting
from advisor.errors import AdvisorError
from advisor.protocol import snet_resources as text
from advisor.service.listeners import Listeners
from advisor.service.logs import event
from advisor.service.metrics import family
from advisor.service.option_types import Address, SnetPort
from advisor.service.snet_machine import host_name

CLIENTS_MAX = 128  # twice the cores that there can be: the others would hold none
REFRESH_S = 0.5  # between looks at what was learned: grants follow it within a second or two
PLAN_SHARE = 0.25  # of the time that may go into plans, or into grants: after those that took long, others come first
TURN_BYTES = 2**8  # of one client that are read at a time: its commands take half a millisecond, and others go between
KEEPALIVE = {
    "TCP_KEEPIDLE": 30,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 3,
}  # a host gone is seen in one minute
UNSENT_BYTES_MAX = 2**16  # answers that a client may leave unread: beyond, it is not read either


class SnetResources:
    """The resource server of one service. One event loop, no locks.

    `processors`: to lend, by the numbers that the system has for them. `ask`: asks a verb of the service.
    """

    def __init__(
        self, ports: Sequence[SnetPort], processors: Sequence[int], ask: Callable[..., Awaitable[Any]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.granting = Granting(range(len(processors)))
        self.ends: Counter[str] = Counter()
        self.clients: set[Client] = set()
        self._ports, self._processors, self._ask, self._clock = ports, processors, ask, clock
        self._planned: dict[
            str, tuple[Any, list[float] | None]
        ] = {}  # by network: the plan on all cores, and the curve
        self._plan_at = self._balance_at = 0.0
        self._late = False  # grants wait for their time

    async def listen(self, listeners: Listeners) -> tuple[Address, ...]:
        """Accept applications; return where. Raises InvalidValue."""
        return tuple([
            await listeners.open_tcp("snet_resources", port.address, lambda port=port: Client(self, port))
            for port in self._ports
        ])  # fmt: skip

    async def run(self) -> None:
        """Follow what is learned, and part with clients that owe an answer, until cancelled."""
        while True:
            await anyio.sleep(REFRESH_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Look at what was learned of the networks of those who ask for cores, plan what changed, and grant by it."""
        now = self._clock()
        for name, owed in self.granting.overdue(now).items():
            cast("Client", name).close_now(owed)
        wanted = self.granting.networks
        if now >= self._plan_at:
            for network, cores in wanted.items():
                await self._plan(network, cores)
            self._plan_at = self._clock() + (self._clock() - now) * (1.0 / PLAN_SHARE - 1.0)
        curves = {name: self._planned[name][1] for name in wanted if name in self._planned}
        self.granting.learned({name: curve for name, curve in curves.items() if curve is not None})
        self.balance()

    async def _plan(self, network: str, cores: int) -> None:
        """Find what a network reaches on up to so many cores, where its plan is another than it was."""
        known = self._planned.get(network)
        try:
            plan = await self._ask("allocate", network=network, cores=cores)
            if known is not None and known[0] == plan:
                return
            curve = [0.0]
            for count in range(1, cores):
                fewer = await self._ask("allocate", network=network, cores=count)
                curve.append(max(curve[-1], fewer["throughput_per_s"]))
            self._planned[network] = plan, [*curve, max(curve[-1], plan["throughput_per_s"])]
        except AdvisorError as error:  # not defined yet, not known well enough yet: cores are shared by demand
            if known is None or known[1] is not None:
                event(logging.INFO, "no model of a network's cores", network=network, reason=error)
            self._planned[network] = None, None

    def collect(self) -> Iterator[Metric]:
        """Return what is lent, for Prometheus."""
        yield GaugeMetricFamily("advisor_snet_clients", "Applications connected for cores", value=len(self.clients))
        yield family(
            GaugeMetricFamily, "advisor_snet_cores", "state", "Cores to lend, by where they stand", self.granting.lent()
        )
        about = "Seconds that applications without a core have waited for one"
        waiting = GaugeMetricFamily("advisor_snet_waiting_seconds", about, labels=("network", "peer"))
        for name, waited in self.granting.waiting(self._clock()).items():
            client = cast("Client", name)
            waiting.add_metric([client.network or "", client.peer], waited)
        yield waiting
        for name, label, about, counts in (
            ("advisor_snet_events", "event", "Cores moved, and clients' faults", self.granting.counts),
            ("advisor_snet_clients_ended", "how", "Applications gone, by how", self.ends),
        ):
            yield family(CounterMetricFamily, name, label, about, counts)

    def balance(self) -> None:
        """Send what brings cores to where they should be: at once, or a little later where that took long before."""
        now = self._clock()
        if now >= self._balance_at:
            self._balance()
        elif not self._late:
            self._late = True
            asyncio.get_running_loop().call_later(self._balance_at - now, self._balance)

    def _balance(self) -> None:
        self._late = False
        now = self._clock()
        for order in self.granting.balance(now):
            cast("Client", order.app).send((text.grant if order.verb == "grant" else text.revoke)(order.cores))
        ended = self._clock()
        self._balance_at = ended + (ended - now) * (1.0 / PLAN_SHARE - 1.0)

    def add_client(self, client: Client, port: SnetPort) -> bool:
        """Take a client in; False when there are too many."""
        if len(self.clients) >= CLIENTS_MAX:
            self.ends["too many clients"] += 1
            return False
        self.clients.add(client)
        self.granting.add_app(client, port.network)
        return True

    def remove_client(self, client: Client, how: str) -> None:
        """Forget a client; its cores are free."""
        if client not in self.clients:
            return
        self.clients.discard(client)
        self.ends[how] += 1
        freed = self.granting.remove_app(client)
        event(logging.INFO, "resource client gone", peer=client.peer, reason=how, cores=freed)
        self.balance()

    def handle_message(self, client: Client, command: text.ResourceCommand) -> None:
        """Do what one message says; raises nothing."""
        granting, (verb, numbers) = self.granting, command
        if verb in ("accept", "return") and numbers[0] == text.SYSTEM:
            if verb == "accept":
                granting.accept(client, numbers[1:], self._clock())
            else:
                granting.give_back(client, numbers[1:])
        elif verb == "local":
            granting.local(client, numbers[0])
        elif verb == "access":
            granting.access(client, text.SYSTEM in numbers)
        elif verb == "topology" and numbers[0] == text.SYSTEM:
            client.send(text.system(host_name(socket.gethostname()), self._processors))
        elif verb == "list":
            client.send(text.systems())
        elif verb == "state":
            client.send(text.state(granting.has(client)))
        elif verb == "quit":
            client.close_now("quit")
        elif verb != "remote":  # there is no other system whose cores could be lent
            granting.counts["another system" if verb != "shutdown" else "shutdown, not obeyed"] += 1

    def close(self) -> None:
        """Part with all clients."""
        for client in list(self.clients):
            client.close_now("service stopped")


class Client(asyncio.BufferedProtocol):
    """One application's connection."""

    def __init__(self, resources: SnetResources, port: SnetPort) -> None:
        self._resources = resources
        self._port = port
        self._frames = text.Frames()
        self._read = memoryview(bytearray(TURN_BYTES))
        self.peer = ""
        self._transport: asyncio.Transport

    @property
    def network(self) -> str | None:
        """The network that it runs, by the port that it came to."""
        return self._port.network

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join, or be turned away."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(UNSENT_BYTES_MAX)
        address: Any = transport.get_extra_info("peername")
        self.peer = f"{address[0]}:{address[1]}"
        own = transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):
                own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if not self._resources.add_client(self, self._port):
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to read into."""
        return self._read

    def buffer_updated(self, nbytes: int) -> None:
        """Do what the bytes say, then grant."""
        for found in self._frames.receive(bytes(self._read[:nbytes])):
            if self._transport.is_closing():
                return
            if isinstance(found, text.ResourceCommand):
                self._resources.handle_message(self, found)
            elif isinstance(found, text.BadCommand):
                self.close_now(found.reason)
                return
            else:
                self._resources.granting.counts["unknown command"] += 1
        self._resources.balance()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave: cores are free at once."""
        self._resources.remove_client(self, "error" if exc else "closed")

    def pause_writing(self) -> None:
        """The peer does not read: it is not read either, and what it owes runs out of time."""
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The peer has read."""
        self._transport.resume_reading()

    def send(self, message: bytes) -> None:
        """Send a message."""
        if not self._transport.is_closing():
            self._transport.write(message)

    def close_now(self, reason: str) -> None:
        """Close, and leave at once; what a peer has not read for a while it will not read now."""
        (self._transport.abort if self._transport.get_write_buffer_size() else self._transport.close)()
        self._resources.remove_client(self, reason)
