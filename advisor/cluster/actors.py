"""Shards as Ray actors. The only module of the service that imports Ray, when it begins to serve."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from advisor.cluster.lanes import Gone, Handle
from advisor.cluster.shard import Shard
from advisor.errors import AdvisorError, Unavailable, from_dict
from advisor.service.key_kinds import LOOPBACK
from advisor.service.logs import event

CORES_A_SHARD: Final = 1.0  # of a node, where nodes are others' too; a Ray of our own shares out what there is
LOCAL_STORE_BYTES: Final = 2**27  # of a Ray that we start ourselves: batches and moved buckets pass through it
PREFIX: Final = "advisor-"
KNOCK_S: Final = 5.0  # for a head of Ray to take a connection, or an actor to say which shard it is
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

    def number(self) -> int | None:
        """Return which shard it is."""
        return None if self._shard is None else self._shard.number

    def pid(self) -> int:
        """Return the process's number."""
        return os.getpid()

    def call(self, method: str, *args: Any) -> tuple[bool, Any]:
        """Open a shard, or call a method of it; an error of the package comes back as a value."""
        try:
            if method == "open":
                self._shard = Shard(*args)
                return True, None
            if self._shard is None:
                return False, Unavailable("this process is no shard").as_dict()
            return True, getattr(self._shard, method)(*args)
        except AdvisorError as error:
            return False, error.as_dict()


class Actor:
    """An actor, called from an event loop."""

    def __init__(self, ray: Any, actor: Any, name: str) -> None:
        self._ray = ray
        self.actor = actor
        self.name = name

    async def get(self, method: str, *args: Any) -> Any:
        """Return what a method of the process itself returns; raises Gone."""
        try:
            return await getattr(self.actor, method).remote(*args)
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.RayTaskError) as error:
            text = str(error).strip()
            raise Gone(text.splitlines()[-1] if text else type(error).__name__) from None

    async def call(self, method: str, *args: Any) -> Any:
        """As `Handle`."""
        good, found = await self.get("call", method, *args)
        if not good:
            raise from_dict(found)
        return found

    def kill(self) -> None:
        """As `Handle`."""
        self._ray.kill(self.actor, no_restart=True)


class Actors:
    """Starts, finds and ends actors.

    `engine`: ``ray``: a Ray of our own, on this machine; ``ray://HOST:PORT``: the one whose head listens there, of which this
    machine is a node. `folder`: of the state: actors of one are not found by the front of another. `compiled`: whether
    kernels are compiled.
    """

    def __init__(self, engine: str, folder: Path, *, compiled: bool) -> None:
        self._address = address_of(engine)
        self._namespace = PREFIX + hashlib.blake2b(str(folder.absolute()).encode(), digest_size=8).hexdigest()
        self._compiled = compiled
        self._ray: Any = None
        self._class: Any = None

    async def start(self) -> None:
        """Join Ray, or start one; raises Unavailable when there is no Ray, here or there."""
        self._ray = await asyncio.to_thread(begun, self._address, self._namespace)
        self._class = self._ray.remote(Process)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):  # before them Ray would write a stack to standard error
                signal.signal(number, signal.getsignal(number) or signal.SIG_DFL)
                signal.siginterrupt(number, False)

    async def spawn(self) -> Actor:
        """As `Runtime`."""
        name = PREFIX + uuid.uuid4().hex
        making = asyncio.ensure_future(asyncio.to_thread(self._make, name))
        try:
            actor = Actor(self._ray, await asyncio.shield(making), name)
            await actor.get("number")
        except BaseException:  # nobody waits for it any more: it must not take a place later
            making.add_done_callback(lambda made: self._ray.kill(made.result(), no_restart=True))
            raise
        return actor

    def places(self) -> int | None:
        """As `Runtime`; a Ray of our own has room for any number."""
        return int(self._ray.cluster_resources().get("CPU", 0) // CORES_A_SHARD) if self._address else None

    def _make(self, name: str) -> Any:
        return self._class.options(
            name=name, lifetime="detached", num_cpus=CORES_A_SHARD if self._address else 0.0, max_restarts=0,
            max_task_retries=0, scheduling_strategy="SPREAD",
        ).remote(self._compiled)  # fmt: skip

    async def found(self) -> list[tuple[Handle, int | None]]:
        """As `Runtime`."""
        there = await self._there()
        if there:
            event(logging.INFO, "shards that a former front has left", processes=len(there))
        return [(actor, number) for actor, number in there]

    async def _there(self) -> list[tuple[Actor, int | None]]:
        there: list[tuple[Actor, int | None]] = []
        for name in await asyncio.to_thread(self._ray.util.list_named_actors):
            with contextlib.suppress(ValueError):  # it is ending
                there.append((Actor(self._ray, await asyncio.to_thread(self._ray.get_actor, name), name), None))
        numbers = await asyncio.gather(*(self._number(actor) for actor, _ in there))
        return [(actor, number) for (actor, _), number in zip(there, numbers, strict=True)]

    async def _number(self, actor: Actor) -> int | None:
        """Return which shard an actor is; None where it is none, or has no place yet and so does not answer."""
        try:
            return await asyncio.wait_for(actor.get("number"), KNOCK_S)
        except (Gone, TimeoutError):
            return None

    async def stop(self) -> None:
        """As `Runtime`."""
        if self._address:  # one of our own ends with all that it runs, also when a signal to all has ended half
            for actor, _ in await self._there():
                actor.kill()
        await asyncio.to_thread(self._ray.shutdown)


class RayTasks:
    """Functions that Ray runs; as `offline.Tasks`.

    Raises Unavailable when there is no Ray, here or there.

    `engine`: as of `Actors`.
    """

    def __init__(self, engine: str) -> None:
        self._ray = begun(address_of(engine), PREFIX + "offline")

    def cores(self) -> int:
        """Return how many tasks Ray runs at a time."""
        return int(self._ray.cluster_resources().get("CPU", 1))

    def run(self, work: Callable[..., Any], *args: Any, parts: int = 1) -> Any:
        """As `Tasks`."""
        return self._ray.remote(work).options(num_returns=parts).remote(*args)

    def values(self, results: Sequence[Any]) -> list[Any]:
        """As `Tasks`; raises Unavailable, too, where a task's process was killed again and again."""
        try:
            return self._ray.get(list(results))
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, AdvisorError):
                raise error.cause from None
            raise
        except self._ray.exceptions.RayError as error:
            raise Unavailable(
                f"a task on Ray failed: {error}", field="engine", hint="more memory a node, or fewer tasks"
            ) from error

    def close(self) -> None:
        """Leave Ray; one of our own ends."""
        self._ray.shutdown()


def address_of(engine: str) -> str | None:
    """Return where the head of Ray listens; None: it is to be one of our own."""
    return engine.removeprefix("ray").removeprefix("://") or None


def begun(address: str | None, namespace: str) -> Any:
    """Return Ray, after joining or starting one; raises Unavailable."""
    if address:
        _knock(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would be told to strangers
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
            namespace=namespace, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **where
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
