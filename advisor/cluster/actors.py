"""Shards as Ray actors. The only module of the service that imports Ray, when it begins to serve."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from importlib import import_module
from typing import Any, Final

from advisor.cluster.connections import Gone
from advisor.cluster.shard import Shard
from advisor.errors import AdvisorError, Unavailable, from_dict
from advisor.service.config import Config
from advisor.service.option_types import LOOPBACK

CORES_A_SHARD: Final = 1.0  # of a node, where nodes are others' too; a Ray of our own shares out what there is
LOCAL_STORE_BYTES: Final = 2**27  # of a Ray that we start ourselves: batches and moved buckets pass through it
NAMESPACE: Final = "advisor"
KNOCK_S: Final = 5.0  # for a head of Ray to take a connection
OWN: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # its word for: listen on loopback only, also on Linux


class Process:
    """What an actor runs: nothing, until it opens a shard."""

    def __init__(self, compiled: bool) -> None:
        self._shard: Shard | None = None
        from advisor import kernels  # noqa: PLC0415

        if compiled:
            kernels.load_filled()
        else:
            kernels.stay_interpreted()

    def call(self, method: str, *args: Any) -> tuple[bool, Any]:
        """Open a shard, or call a method of it; an error of the package comes back as a value. Without a shard: None."""
        found = None
        try:
            if method == "open":
                self._shard = Shard(*args)
            elif self._shard is not None:
                found = getattr(self._shard, method)(*args)
        except AdvisorError as error:
            return False, error.as_dict()
        return True, found


class Actor:
    """An actor, called from an event loop."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor

    async def call(self, method: str, *args: Any) -> Any:
        """As `Handle`."""
        try:
            good, found = await self._actor.call.remote(method, *args)
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.RayTaskError) as error:
            text = str(error).strip()
            raise Gone(text.splitlines()[-1] if text else type(error).__name__) from None
        if not good:
            raise from_dict(found)
        return found

    def kill(self) -> None:
        """As `Handle`."""
        self._ray.kill(self._actor, no_restart=True)


class Actors:
    """Starts and ends actors. They are of this process: Ray ends them when it ends, however it does.

    `engine` of the configuration: ``ray``: a Ray of our own, on this machine; ``ray://HOST:PORT``: the one whose head listens
    there, of which this machine is a node. `compiled`: whether kernels are compiled.
    """

    def __init__(self, config: Config) -> None:
        self._address = address_of(config.engine)
        self._compiled = config.compiled
        self._ray: Any = None
        self._class: Any = None

    async def start(self) -> None:
        """Join Ray, or start one; raises Unavailable when there is no Ray, here or there."""
        self._ray = await asyncio.to_thread(begun, self._address)
        self._class = self._ray.remote(Process).options(
            num_cpus=CORES_A_SHARD if self._address else 0.0,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):  # before them Ray would write a stack to standard error
                signal.signal(number, signal.getsignal(number) or signal.SIG_DFL)
                signal.siginterrupt(number, False)

    async def spawn(self) -> Actor:
        """As `Runtime`."""
        actor = Actor(self._ray, self._class.remote(self._compiled))
        try:
            await actor.call("ready")
        except BaseException:  # nobody waits for it any more: it must not take a place later
            actor.kill()
            raise
        return actor

    def places(self) -> int | None:
        """As `Runtime`; a Ray of our own has room for any number."""
        return int(self._ray.cluster_resources().get("CPU", 0) // CORES_A_SHARD) if self._address else None

    async def stop(self) -> None:
        """As `Runtime`."""
        await asyncio.to_thread(self._ray.shutdown)


def address_of(engine: str) -> str | None:
    """Return where the head of Ray listens; None: it is to be one of our own."""
    return engine.removeprefix("ray").removeprefix("://") or None


def begun(address: str | None) -> Any:
    """Return Ray, after joining or starting one; raises Unavailable."""
    if address:
        _knock(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it reports to its makers
    for name, value in ({} if address else OWN).items():
        os.environ.setdefault(name, value)
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise Unavailable("Ray is not installed", field="engine", value="ray", hint="pip install ray") from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    own = {"include_dashboard": False, "object_store_memory": LOCAL_STORE_BYTES, "_node_ip_address": LOOPBACK}
    where: dict[str, Any] = {"address": address} if address else {"address": "local", **own}
    try:
        ray.init(
            namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **where
        )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise _unreachable(error, address or "ray") from error
    return ray


def _knock(address: str) -> None:
    """See that somebody listens there: Ray itself tries for minutes, in a thread that nobody can end."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
    except OSError as error:
        raise _unreachable(error, address) from error


def _unreachable(error: Exception, address: str) -> Unavailable:
    return Unavailable(
        f"Ray cannot be reached: {error}", field="engine", value=address,
        hint="ray start --address=HOST:PORT on this machine first; RAY_AUTH_MODE=token where its head wants tokens; "
        "--engine ray starts one of its own",
    )  # fmt: skip
