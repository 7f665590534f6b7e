"""A service from start to stop: open the state, listen, serve; then stop accepting, drain, commit, close."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from advisor import __version__, kernels
from advisor.domain.limits import PRODUCERS_MAX
from advisor.engine import Engine
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.errors import InvalidValue
from advisor.protocol.snet_resources import LOGICAL_MAX
from advisor.service import listeners
from advisor.service.access import tls_context
from advisor.service.config import Config
from advisor.service.connection import Connection
from advisor.service.http import HttpFace
from advisor.service.hub import Hub
from advisor.service.listeners import Listeners
from advisor.service.local_backend import LocalBackend
from advisor.service.local_client import LocalClient
from advisor.service.logs import event, to_stderr
from advisor.service.option_types import Address
from advisor.service.snet_machine import usable_processors
from advisor.service.snet_resources import SnetResources
from advisor.storage import Store

SWEEPS_PER_STALL = 4  # a stalled peer is dropped at most a quarter of `stall_s` late
SWEEP_MAX_S = 5.0
# A read is decoded into ten thousand lists that live for a millisecond: to look for cycles among them, as Python does after
# each 700, costs more than to decode them (coalesced singles 1.4 instead of 3.4 times the per-row service).
GC_OBJECTS = 100_000
SWITCH_S = 0.0005  # that the writer may keep the loop waiting: Python's 5 ms are the whole time of a question
MODEL_MEMORY_SHARE = 100  # one part in so many of the machine: 64 GiB have room for 180,000 learners
SHUTDOWN_S = (
    10.0  # of an orderly stop: what is owed is sent within milliseconds, a commit takes a second on a poor disk
)
DRAIN_POLL_S = 0.01  # between looks at whether everything owed is sent


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a running service listens: what port 0 became."""

    socket: Path | None
    tcp: Address | None
    http: Address | None
    snet: tuple[Address, ...] = ()


async def serve(
    config: Config,
    *,
    stop: anyio.Event | None = None,
    hub_of: Callable[[Config], Hub] | None = None,
    task_status: TaskStatus[Bound] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Run a service until `stop` is set, then stop it in order; cancelling it stops it the same way.

    `hub_of` makes the hub where the state is not in this process. `task_status` gets a `Bound` once clients are
    served: ``await task_group.start(serve, config)``. Raises StateError when the state file is locked, damaged or too new;
    StorageFailed, InvalidValue, Unavailable, Mismatch when it cannot be opened, or an address cannot be listened on.

    Worker processes read the program's main module again, as those of `multiprocessing` do: what it does by itself belongs
    behind ``if __name__ == "__main__":``.
    """
    if config.sharded and hub_of is None:
        raise InvalidValue("engine", config.engine, "here", "advisor.cluster.serving.serve runs shards on Ray")
    stop = stop or anyio.Event()
    room = listeners.raise_descriptors(config.connections_max)
    if room < config.connections_max:
        event(logging.WARNING, "fewer connections, for want of descriptors", connections_max=room, hint="ulimit -n")
        config = replace(config, connections_max=room)
    if config.compiled:  # half a second before anybody is served, rather than beside those who are
        await to_thread.run_sync(kernels.load_filled)
    store: Store | None = None
    if config.state is not None and hub_of is None:
        store = await to_thread.run_sync(partial(Store.open, config.state, accept_damage=config.accept_damage))
    hub: Hub | None = None
    try:
        hub = await to_thread.run_sync(_hub, config, store) if hub_of is None else hub_of(config)
        await _Service(config, hub).run(stop, task_status)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_close, hub, store)
    event(logging.INFO, "stopped")


def run(config: Config, serve: Callable[..., Awaitable[None]] = serve) -> None:
    """Run a service in this process until SIGTERM or SIGINT; logs go to standard error. Raises as `serve`."""
    logs = to_stderr(config.log_level)
    if not config.compiled:
        kernels.stay_interpreted()
    gc.freeze()
    gc.set_threshold(GC_OBJECTS, 20, 20)
    sys.setswitchinterval(SWITCH_S)

    async def main() -> None:
        stop = anyio.Event()

        def obey(number: signal.Signals) -> None:
            event(logging.INFO, "stopping", signal=number.name)
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, obey, number)
        await serve(config, stop=stop)

    try:
        anyio.run(main)
    finally:
        logs.flush()  # before a command says what went wrong


def _close(hub: Hub | None, store: Store | None) -> None:
    if hub is not None:
        hub.committer.close()
    if store is not None:
        store.close()


def _hub(config: Config, store: Store | None) -> Hub:
    stored = store.load() if store is not None else None
    limits = {
        "components_max": config.components_max,
        "producers_max": PRODUCERS_MAX,
        "model_memory_bytes": model_memory_bytes(config.model_memory),
    }
    engine = Engine(**limits) if stored is None else Engine.restore(stored, **limits)
    if store is not None and store.damaged:
        event(logging.WARNING, "started without what was damaged", parts="; ".join(store.damaged))
    return Hub(config, engine, partial(LocalBackend, store))


def model_memory_bytes(given: int | None) -> int:
    """Return the bytes for learners: those given, else 1 % of the machine's memory, at least what an `Advisor` takes."""
    if given is not None:
        return given
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(MODEL_MEMORY_BYTES, machine // MODEL_MEMORY_SHARE)


def _reported(source: kernels.Source) -> None:
    """Say that kernels have come, or why they do not."""
    if source.ready:
        event(logging.INFO, "kernels are compiled", source=source.module)
    else:
        event(logging.WARNING, "kernels stay interpreted", source=source.module, reason=source.reason)


class _Service:
    """One run of a service."""

    def __init__(self, config: Config, hub: Hub) -> None:
        self._config = config
        self._hub = hub
        self._listeners = Listeners()
        self._work: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
        self._http: HttpFace | None = None
        self._snet: SnetResources | None = None

    async def run(self, stop: anyio.Event, task_status: TaskStatus[Bound]) -> None:
        try:
            bound = await self._listen()
            async with anyio.create_task_group() as group:
                group.start_soon(self._hub.committer.commit_changes)
                group.start_soon(self._sweep)
                group.start_soon(self._hub.heavy.warm)
                group.start_soon(self._hub.watching.run)
                if self._config.compiled:
                    kernels.start(_reported)
                group.start_soon(self._start_work, group)
                self._hub.background.spawn = self._spawn
                if self._snet is not None:
                    group.start_soon(self._snet.run)
                if self._http is not None:
                    group.start_soon(self._http.advice.run)
                self._log_start(bound)
                task_status.started(bound)
                try:
                    await stop.wait()
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._stop()
                    group.cancel_scope.cancel()
        finally:
            self._listeners.close()

    def _spawn(self, *work: Any) -> None:
        """Start work in the background: a callable and its arguments."""
        self._work.put_nowait(work)

    async def _start_work(self, group: TaskGroup) -> None:
        """Start what connections ask for. They are callbacks outside any task, where anyio may not know which loop runs."""
        while True:
            group.start_soon(*await self._work.get())

    async def _listen(self) -> Bound:
        config, hub, listeners = self._config, self._hub, self._listeners
        tls = tls_context(config)
        tcp = http = None
        snet: tuple[Address, ...] = ()
        if config.snet_resources:
            lent = usable_processors()[: LOGICAL_MAX + 1]
            self._snet = SnetResources(config.snet_resources, lent, LocalClient(hub).ask)
            snet = await self._snet.listen(listeners)
        if config.tcp is not None:
            tcp = await listeners.open_tcp("tcp", config.tcp, lambda: Connection(hub), tls)
        if config.http is not None:
            self._http = face = HttpFace(hub, [] if self._snet is None else [self._snet])
            http = await listeners.open_tcp("http", config.http, face.connection, tls if config.http_guarded else None)
        if config.socket is not None:
            await listeners.open_unix(config.socket, int(config.socket_mode, 8), lambda: Connection(hub))
        return Bound(config.socket, tcp, http, snet)

    def _log_start(self, bound: Bound) -> None:
        event(
            logging.INFO,
            "serving",
            version=__version__,
            socket=bound.socket,
            tcp=bound.tcp,
            http=bound.http,
            snet=", ".join(map(str, bound.snet)) or None,
            state=self._config.state,
            components=len(self._hub.engine.advisor.components),
            producers=len(self._hub.engine.producers),
        )
        if self._config.state is None:
            event(logging.WARNING, "no state: all that is learned ends with the service", hint="serve --state FILE")

    async def _sweep(self) -> None:
        every = min(self._config.stall_s / SWEEPS_PER_STALL, SWEEP_MAX_S)
        while True:
            await anyio.sleep(every)
            self._hub.sweep()

    async def _stop(self) -> None:
        """Stop accepting, drain, commit, close; all of it within `SHUTDOWN_S`."""
        hub = self._hub
        hub.background.stopping = True
        self._listeners.stop()
        if self._snet is not None:
            self._snet.close()
        for connection in hub.connections.values():
            connection.stop_reading()
        with anyio.move_on_after(SHUTDOWN_S) as limit:
            # The committer goes on: it is what drains the answers that wait.
            while hub.committer.unsaved or any(not connection.idle for connection in hub.connections.values()):
                await anyio.sleep(DRAIN_POLL_S)
            for connection in list(hub.connections.values()):
                connection.finish()
            while hub.connections or hub.committer.unsaved:
                await anyio.sleep(DRAIN_POLL_S)
        if limit.cancelled_caught:
            open_still, unsaved = len(hub.connections), hub.committer.unsaved
            event(logging.WARNING, "stopped before all was drained", connections=open_still, unsaved=unsaved)
        for connection in list(hub.connections.values()):
            connection.close_now("service stopped")
        if self._http is not None:
            await self._http.stop()
