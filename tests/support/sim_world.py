"""A world in virtual time: the real service and real clients on a network and a disk that fail, all drawn from one seed.

The service is put together as `advisor.service.server` does, without sockets, threads and processes. What it wrote to its peers
is what it promised; what clients wrote to it is what an engine that was never disturbed, the twin, is told.

Run by itself: ``PYTHONPATH=.:tests/support python tests/support/sim_world.py 10000 [first seed]``.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgpack
import numpy as np
from sim_clock import VirtualLoop, VirtualWriter, virtual_time
from sim_disk import Disk, disk_under
from sim_network import Network, Stream

from advisor.client import AsyncClient
from advisor.domain.observations import ComponentNames, columns_of
from advisor.engine import Engine
from advisor.engine.events import ComponentForgotten, ComponentPinned
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.errors import AdvisorError, StateDamaged, StorageFailed
from advisor.protocol.rows import columns_of_rows
from advisor.service import load_config, server
from advisor.service.connection import Connection
from advisor.storage import store

TOKENS = {"owner": "o" * 32, "foreign": "f" * 32}
TOKENS_FILE = f"""
[[token]]
name = "owner"
secret = "{TOKENS["owner"]}"
scope = "admin"
[[token]]
name = "foreign"
secret = "{TOKENS["foreign"]}"
scope = "write"
producers = ["foreign"]
"""
SHARED = ("shared-0", "shared-1")
CLIENTS = 3
WORK_S = 30.0  # that a client's rows are spread over
CALM_S = 7200.0  # after the last trouble: whatever is not acknowledged then never is
LOG_ENTRIES = 20  # behind which an image is written, a few blocks at a time
STEP_BYTES = 2**12
TRACE_TOLD = 40  # last steps of a world that fails
Key = tuple[str, bytes]


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass
class Life:
    """A service from its start to its end."""

    hub: Any
    store: Any
    over: bool = False
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    def spawn(self, work: Callable[..., Any], *args: Any) -> None:
        if not self.over:
            self.tasks.append(asyncio.get_running_loop().create_task(work(*args)))


class World:
    """All that happens under one seed.

    Attributes
    ----------
    damage : bool
        The disk loses or changes what it has synced: a start may refuse, and must where anything is missing.
    trace : list of tuple
        What has happened, in its order.
    """

    def __init__(self, seed: int, folder: Path, *, damage: bool | None = None) -> None:
        self.rng = random.Random(seed)
        self.damage = self.rng.random() < 0.25 if damage is None else damage
        self.loop = VirtualLoop()
        self.trace: list[tuple[Any, ...]] = []
        self.folder = folder
        self.disk = Disk(folder, random.Random(seed + 1), self.told)
        self.network = self.loop.network = Network(
            self.loop, random.Random(seed + 2), self.told, self.rng.choice((1e-4, 1e-3, 0.05))
        )
        self.network.opened = self._overhear
        self.sent: dict[tuple[Key, int], tuple[str, dict[str, Any]]] = {}  # by producer and number
        self.promised: Counter[Key] = Counter()
        self.applied: list[tuple[Key, int]] = []  # in the order of the service, those lost in a crash taken back
        self.twin: tuple[Engine, list[tuple[Key, int]]] = Engine(), []  # never disturbed, and what it was told
        self.offered = 0  # rows
        self.connections = 0  # of clients
        self.former: list[dict[str, bytes]] = []  # images of the disk
        self.life: Life | None = None
        self.refused = False  # a start has said that something is missing
        self.defects: list[str] = []

    def told(self, *what: Any) -> None:
        self.trace.append((self.loop.now, *what))

    # -- promises

    def _overhear(self, ours: Stream, theirs: Stream) -> None:
        """Note what a client sends, and what the service promises."""
        asked: dict[int, Key] = {}
        there, back = (msgpack.Unpacker(max_buffer_size=2**30, strict_map_key=False) for _ in range(2))

        def sent(data: bytes) -> None:
            there.feed(data)
            for message in there:
                _, msgid, method, params = message if len(message) == 4 else (2, None, *message[1:])
                given = params[0] if params and isinstance(params[0], dict) else {}
                if "producer" not in given:
                    continue
                key = given["producer"], given.get("incarnation", bytes(16))
                asked[msgid] = key
                if "sequence" in given:
                    number = given["sequence"]
                    before = self.sent.get((key, number), (method, given))
                    if (
                        before != (method, given) and given.get("rows") != []
                    ):  # in the place of what is refused for ever
                        raise Broken(f"{key[0]} sends {method} under the number {number} of {before[0]}")
                    self.sent[key, number] = method, given

        def answered(data: bytes) -> None:
            back.feed(data)
            for message in back:
                if message[0] == 1 and message[2] is None and message[1] in asked and "sequence" in message[3]:
                    key = asked[message[1]]
                    self.promised[key] = max(self.promised[key], message[3]["sequence"])

        if not getattr(ours._protocol, "foreign", False):
            self.connections += 1
            ours.heard = sent
            theirs.heard = answered

    def _check(self, engine: Engine) -> None:
        """Hold what a start has found against what was promised, and against a twin."""
        durable = engine.producers
        for key, number in self.promised.items():
            if durable.get(key, 0) < number:
                raise Broken(f"{key[0]}: {number} was acknowledged, {durable.get(key, 0)} is remembered")
        kept = [(key, number) for key, number in self.applied if number <= durable.get(key, 0)]
        if kept != self.applied[: len(kept)]:
            raise Broken("what was applied later survives, what was applied before does not")
        if Counter(key for key, _ in kept) != Counter(durable):
            raise Broken(f"numbers {dict(durable)} are remembered, {len(kept)} batches were applied")
        self.applied = kept
        twin, known = self.twin
        if known != kept[: len(known)]:  # a damaged disk may lack what was durable and not promised
            twin, known = Engine(), []
        for key, number in kept[len(known) :]:
            if (key, number) not in self.sent:
                raise Broken(f"{key[0]}: nobody has sent the batch {number}")
            _apply(twin, key, number, *self.sent[key, number])
        self.twin = twin, list(kept)
        totals, never = dict(engine.totals), dict(twin.totals)
        for counted in ("batches_replayed", "gaps"):  # of what was sent again
            twin.advisor.components.totals[counted] = engine.totals.get(counted, 0)
            totals.pop(counted, None)
            never.pop(counted, None)
        if totals != never:
            raise Broken(f"totals {totals}, undisturbed {never}")
        for counted in ("batches_replayed", "gaps"):
            if not engine.totals.get(counted, 0):
                twin.advisor.components.totals.pop(counted, None)
        if engine.advisor.to_bytes() != twin.advisor.to_bytes():
            raise Broken("the state is not that of a twin that was never disturbed")
        self.told("checked", len(kept))

    # -- the service

    def start(self) -> bool:
        """Start a service on what the disk has; False where it is down at once again."""
        config = load_config(
            tcp="127.0.0.1:1", state=self.folder / "state", tokens=self.folder / "tokens", stall_s=30.0,
            model_memory=MODEL_MEMORY_BYTES,
        )  # fmt: skip
        store = server._open(config)
        hub = server._hub(config, store, self.rng.choice((1, 100, 10_000)))
        life = Life(hub, store)
        if self.disk.image is not None:  # power went in the midst of the start
            self._bury(life)
            return False
        self._check(hub.engine)
        advance = hub.engine.state.ledger.advance

        def applied(key: Key, number: int) -> None:
            self.applied.append((key, number))
            advance(key, number)

        hub.engine.state.ledger.advance = applied
        committer = hub.committer
        committer._writer = VirtualWriter(
            self.loop, self.rng, lambda: self._down(life), self.rng.choice((1e-4, 1e-3, 0.3))
        )
        hub.background.spawn = life.spawn
        life.tasks = [self.loop.create_task(work) for work in (committer.run(), hub.watching.run(), self._sweep(hub))]
        life.tasks[0].add_done_callback(lambda ended: self._given_up(life, ended))
        self.life = life
        self.network.serves = lambda: Connection(hub)
        return True

    async def _sweep(self, hub: Any) -> None:
        while True:
            await asyncio.sleep(5.0)
            hub.sweep()

    def _given_up(self, life: Life, ended: asyncio.Task[Any]) -> None:
        if not life.over and not ended.cancelled():
            self.defects.append(f"the service has given up: {ended.exception()!r}")

    def _down(self, life: Life) -> bool:
        """Return whether a life is over; it is when the disk has no power."""
        if self.disk.image is not None and not life.over:
            self._bury(life)
        return life.over

    def _bury(self, life: Life) -> None:
        """End a service as kill -9 does; nothing of it is told to anybody, but that its connections are gone."""
        life.over = True
        self.network.serves = None
        if self.disk.image is None:
            self.disk.crash(power=self.rng.random() < 0.6)
        for stream in [each for each in self.network.streams if isinstance(each._protocol, Connection)]:
            stream.vanish()
        for task in life.tasks:
            task.cancel()
        life.store.close()
        if life.hub.measures.errors["defect"]:
            self.defects.append("a request met a defect")
        self.life = None

    async def _stop(self, life: Life) -> None:
        """End a service in order."""
        committer = life.hub.committer
        life.hub.background.stopping = True
        committer.want_image()
        while committer.unsaved:
            await asyncio.sleep(0.01)
            if life.over:
                return
        self._bury(life)

    # -- trouble

    async def _trouble(self, until_s: float) -> None:
        """Let things go wrong for so long."""
        rng, network, disk = self.rng, self.network, self.disk
        while self.loop.now < until_s:
            await asyncio.sleep(rng.expovariate(1 / 2.0))
            match rng.randrange(8):
                case 0 | 1:
                    network.cut_one()
                case 2:
                    network.frozen_until = self.loop.now + rng.choice((0.5, 5.0, 50.0))
                case 3:
                    disk.trouble = rng.choice(("full", "sync"))
                    self.loop.call_later(rng.choice((0.2, 2.0)), self._well)
                case 4:
                    self.clock.wall_s += rng.choice((-1e6, -1.0, 3600.0))
                case 5:
                    self.loop.now += rng.choice((0.1, 20.0, 3600.0))  # the machine was asleep
                case 6:
                    self.loop.create_task(self._intrude())
                case _:
                    disk.crash_after = rng.randrange(60)

    def _well(self) -> None:
        self.disk.trouble = ""

    async def _intrude(self) -> None:
        """Come as somebody who may write as `foreign` alone, and speak for others."""
        with suppress(OSError):
            stream, _ = await self.network.connect(_Foreign, 1)
            stream.write(msgpack.packb([0, 1, "hello", [{"token": TOKENS["foreign"]}]]))
            for key in list(self.promised):
                ahead = self.promised[key] + self.rng.randrange(1, 4)
                said = {"producer": key[0], "incarnation": key[1]}
                stream.write(msgpack.packb([0, 2, "hello", [said | {"resume_at": ahead}]]))
                stream.write(
                    msgpack.packb([0, 3, "observe_rows", [said | {"sequence": ahead, "rows": [_row(self.rng, 9)]}]])
                )
            stream.write(self.rng.randbytes(self.rng.randrange(40)))
            await asyncio.sleep(self.rng.random())
            stream.abort()

    def _damage(self) -> None:
        """Let the disk have lost, or changed, what it had said was safe."""
        image, rng = self.disk.image, self.rng
        assert image is not None
        self.former.append(dict(image))
        name = rng.choice([name for name, data in image.items() if data and not name.endswith("-marker")] or [""])
        if not name or rng.random() < 0.3:
            return
        data = image[name]
        match rng.randrange(4):
            case 0:
                at = rng.randrange(len(data))
                image[name] = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
            case 1:
                image[name] = data[: rng.randrange(len(data))]
            case 2:
                image[name] = rng.choice(self.former).get(name, b"")
            case _:
                if "-log-" in name:
                    del image[name]
        self.told("damaged", name)

    # -- clients

    async def _client(self, number: int) -> None:
        """Teach some rows; when all is well they must be acknowledged in time."""
        rng = random.Random(self.rng.random())
        async with AsyncClient(
            "tcp://127.0.0.1:1", producer=f"client-{number}", token=TOKENS["owner"],
            batch_rows=rng.choice((3, 40)), window=rng.choice((2, 64)), linger_s=0.02,
        ) as client:  # fmt: skip
            await self._teach(client, number, rng)
            await self.calm.wait()
            try:
                await client.flush(CALM_S)
            except AdvisorError as error:
                raise Broken(f"not acknowledged when all was well for {CALM_S} s: {error}") from error
            self.told("flushed", number)
            self.flushed.release()
            await self.ended.wait()

    async def _teach(self, client: AsyncClient, number: int, rng: random.Random) -> None:
        """Teach some rows, change something now and then, and ask."""
        for _ in range(rng.randrange(10, 40)):
            await asyncio.sleep(rng.expovariate(30 / WORK_S))
            rows = [_row(rng, number) for _ in range(rng.choice((1, 2, 37, 64, 90)))]
            self.offered += len(rows)
            match rng.randrange(10):
                case 0:
                    index = np.array([int(row[0][-1]) if row[0] in SHARED else 2 for row in rows], "<u4")
                    x, p, t = (np.array([row[at] for row in rows]) for at in (1, 2, 3))
                    names = [*SHARED, f"own-{number}"]
                    await client.observe_columns(components=names, index=index, predictor=x, cores=p, elapsed_s=t)
                case 1:
                    await client.observe_rows(rows)
                    self._later(client.forget(f"own-{number}", keep=0.5))
                case 2:
                    await client.observe_rows(rows)
                    self._later(client.pin(f"own-{number}", rng.choice(("two_step", None))))
                case 3:
                    await client.observe_rows(rows)
                    self._later(client.predict(f"own-{number}", 3.0, 2))
                case _:
                    await client.observe_rows(rows)

    def _later(self, asked: Any) -> None:
        async def ask() -> None:
            with suppress(AdvisorError):  # too late, or of a component that was not heard of yet
                await asked

        self.loop.create_task(ask())

    # -- the whole

    async def _play(self) -> None:
        (self.folder / "tokens").write_text(TOKENS_FILE)
        (self.folder / "tokens").chmod(0o600)
        self.disk.crash(power=False)
        self.disk.restart()
        self.calm, self.ended, self.flushed = asyncio.Event(), asyncio.Event(), asyncio.Semaphore(0)
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._client(number))
            trouble = group.create_task(self._trouble(self.loop.now + WORK_S))
            while not trouble.done() and not self.refused:
                await self._live(self.rng.uniform(1.0, WORK_S))
            trouble.cancel()
            self.disk.crash_after, self.network.frozen_until = None, 0.0
            self._well()
            if not self.refused:
                await self._end()
            if self.refused:
                self.told("refused")
                raise _Refused

    async def _live(self, for_s: float) -> None:
        """Have a service for so long, or until power goes; and then none for a while."""
        try:
            up = self.life is not None or self.start()
        except StorageFailed:
            up = False  # it is tried again
        except StateDamaged:
            if not self.damage:
                raise
            self.refused = True
            return
        if up:
            life, end_s = self.life, self.loop.now + for_s
            assert life is not None
            while self.loop.now < end_s and not self._down(life):
                await asyncio.sleep(0.1)
            if not life.over:
                if self.rng.random() < 0.2:
                    await self._stop(life)
                else:
                    self._bury(life)
        if self.disk.image is None:
            self.disk.crash(power=False)
        if self.damage:
            self._damage()
        self.disk.restart()
        await asyncio.sleep(self.rng.expovariate(1.0))

    async def _end(self) -> None:
        """All is well: everything is acknowledged in time, and there, each row once."""
        self.told("calm")
        if self.damage:
            self.former.clear()
        await asyncio.sleep(1.0)  # a client that was connecting while the machine slept gives up, and begins again
        with suppress(StateDamaged) if self.damage else ExitStack():
            self.start()
        life = self.life
        if life is None:
            self.refused = True
            return
        self.calm.set()
        before = self.connections
        for _ in range(CLIENTS):
            await self.flushed.acquire()
        if self.connections > before + CLIENTS:  # they have none when the service starts
            raise Broken("a client has had no answer, and connected again, when all was well")
        await self._stop(life)
        self.disk.restart()
        self.start()
        assert self.life is not None
        counted = self.life.hub.engine.totals["rows_accepted"]
        if counted != self.offered:
            raise Broken(f"{self.offered} rows were given, {counted} are counted")
        self._bury(self.life)
        self.ended.set()

    def _failed(self, _: Any, context: dict[str, Any]) -> None:
        self.defects.append(f"{context.get('message')}: {context.get('exception')!r}")

    def play(self) -> None:
        """Let all of it happen; raise Broken where a promise was not kept."""
        before = random.getstate()
        random.seed(self.rng.random())  # clients' waiting times
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(self._failed)
        try:
            with virtual_time(self.loop) as self.clock, disk_under(self.disk, random.Random(self.rng.random())):
                try:
                    self.loop.run_until_complete(self._play())
                except* _Refused:
                    pass
                finally:
                    if self.life is not None:
                        self._bury(self.life)
        finally:
            random.setstate(before)
            asyncio.set_event_loop(None)
            self.loop.close()
        if self.defects:
            raise Broken("; ".join(self.defects))


class _Refused(Exception):
    """The world ends: the disk has lost something, and the service does not start."""


class _Foreign(asyncio.Protocol):
    """An end that listens to nobody."""

    foreign = True


def _row(rng: random.Random, number: int) -> list[Any]:
    x, p = float(rng.randint(1, 100)), float(rng.choice((1, 2, 4, 8)))
    return [rng.choice((*SHARED, f"own-{number}")), x, p, 1e-3 * x / p * rng.uniform(0.9, 1.1)]


def _apply(engine: Engine, key: Key, number: int, verb: str, given: dict[str, Any]) -> None:
    """Tell an engine what a client has sent."""
    if verb == "observe_rows":
        engine.apply(key, number, columns_of_rows(given["rows"]))
    elif verb == "observe_columns":
        kinds = {"index": "<u4", "predictor": "<f8", "cores": "<f8", "elapsed_s": "<f8"}
        columns = (np.frombuffer(given[name], kind) for name, kind in kinds.items())
        engine.apply(key, number, columns_of(ComponentNames(given["components"]), *columns))
    elif verb == "pin":
        engine.apply(key, number, ComponentPinned(given["component"], given["model"]))
    else:
        engine.apply(key, number, ComponentForgotten(given["component"], given["keep"]))


def played(seed: int, **options: Any) -> World:
    """Return a world that has ended; what is broken in it names its seed."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with (
        tempfile.TemporaryDirectory(dir=memory) as folder,
        patch.multiple(store, LOG_ENTRIES_MAX=LOG_ENTRIES, STEP_BYTES=STEP_BYTES),
    ):
        world = World(seed, Path(folder), **options)
        try:
            world.play()
        except Exception as error:
            first: BaseException = error
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            last = "\n".join(map(str, world.trace[-TRACE_TOLD:]))
            first.add_note(f"seed {seed}; python tests/support/sim_world.py 1 {seed}\n{last}")
            raise first from error
    return world


if __name__ == "__main__":
    count, first = int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0])
    refusals = sum(played(seed).refused for seed in range(first, first + count))
    print(f"{count} worlds held, {refusals} starts refused what was damaged")
