"""Kills a service at random moments under several pipelining producers, and counts what it remembers.

Every producer has components of its own and shares some. Each batch can be made again from its number, so at any time it is
known what the state must be: all batches up to the durable number, each row once, and on a producer's own components the
same bits as an engine that was never killed.

Run by itself: ``PYTHONPATH=.:tests/support python tests/support/kill_harness.py --kills 100``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from live import PATIENCE_S, Closed, Peer

from advisor.domain.observations import ComponentNames, columns_of
from advisor.engine import Engine
from advisor.errors import AdvisorError
from advisor.kernels.source import mode_told
from advisor.storage import Store

PROGRAM = "import sys, json; from advisor.service import load_config, run; run(load_config(**json.loads(sys.argv[1])))"
COMMAND = (sys.executable, "-X", "faulthandler", "-c")  # a service that hangs says where, when it is aborted
LOG_LINES = 200  # of a service, in what a failure says
WINDOW = 12  # batches sent and not answered yet
SHARED = ("shared-0", "shared-1", "shared-2")
Row = tuple[str, float, float, float]


class Miscounted(AssertionError):
    """The service forgot what it acknowledged, or counted something twice."""


def batch_rows(producer: int, number: int) -> list[Row]:
    """Return the rows of a batch; the same for the same number, always."""
    rng = random.Random(producer * 1_000_003 + number)
    names = (*(f"own-{producer}-{i}" for i in range(4)), *SHARED)
    rows: list[Row] = []
    for _ in range(rng.randint(1, 60)):
        x, p = float(rng.randint(1, 100)), float(rng.choice((1, 2, 4, 8)))
        rows.append((rng.choice(names), x, p, 1e-3 * x / p * rng.uniform(0.8, 1.2)))
    return rows


def rows_by_component(producer: int, last: int) -> Counter[str]:
    """Return how many rows of each component the batches 1 .. last hold."""
    return Counter(row[0] for number in range(1, last + 1) for row in batch_rows(producer, number))


def request(producer: int, number: int, *, numbered: bool) -> bytes:
    """Return a batch on the wire: as rows or as columns, by its number."""
    rows = batch_rows(producer, number)
    keys = {"producer": f"producer-{producer}", "incarnation": bytes([producer]) * 16, "sequence": number}
    params: dict[str, Any] = keys if numbered else {}
    if number % 3:
        return msgpack.packb([0, number, "observe_rows", [params | {"rows": rows}]])
    names = sorted({row[0] for row in rows})
    x, p, t = (np.array(column).tobytes() for column in list(zip(*rows, strict=True))[1:])
    index = np.array([names.index(row[0]) for row in rows], "<u4").tobytes()
    columns = {"components": names, "index": index, "predictor": x, "cores": p, "elapsed_s": t}
    return msgpack.packb([0, number, "observe_columns", [params | columns]])


@dataclass
class Producer:
    """A client that keeps its numbers itself, pipelines, re-sends and misbehaves."""

    index: int
    harness: Harness
    rng: random.Random
    acked: int = 0
    sent: int = 0

    async def run(self) -> None:
        while not self.harness.enough or self.acked < self.sent:
            peer = await self.harness.connect()
            try:
                await self._session(peer)
            except (Closed, ConnectionError):
                continue
            except TimeoutError as error:
                where = await self.harness.where_it_hangs()
                raise Miscounted(f"producer {self.index}, {self.acked} of {self.sent} acknowledged: {where}") from error
            finally:
                peer.writer.transport.abort()

    async def hello(self, peer: Peer) -> int:
        await peer.send(msgpack.packb([0, 0, "hello", [self.identity]]))
        answer = await peer.answer(0)
        return int(answer["sequence"])

    @property
    def identity(self) -> dict[str, Any]:
        return {"producer": f"producer-{self.index}", "incarnation": bytes([self.index]) * 16}

    async def _session(self, peer: Peer) -> None:
        durable = await self.hello(peer) if self.harness.numbered else self.acked
        if durable < self.acked:
            raise Miscounted(f"producer {self.index}: batch {self.acked} was acknowledged, {durable} is remembered")
        # Some batches again that the service may have, as a client does that has lost its own notes.
        following = max(1, durable + 1 - self.rng.randrange(6))
        waiting: set[int] = set()
        superseded = False
        while waiting or not self.harness.enough or following <= self.sent:
            while len(waiting) < WINDOW and not superseded and (not self.harness.enough or following <= self.sent):
                await peer.send(request(self.index, following, numbered=self.harness.numbered))
                waiting.add(following)
                self.sent = max(self.sent, following)
                following += 1
                if self.harness.numbered and self.rng.random() < 0.02:
                    superseded = await self._misbehave(peer, following)
            if not waiting:
                return
            _, number, error, result = await peer.message()
            if number > 2**31:  # a gap that was asked for
                if error is None or error["code"] not in ("sequence_gap", "unavailable"):
                    raise Miscounted(f"producer {self.index}: a gap was answered by {error or result}")
                continue
            waiting.discard(number)
            if error is not None:
                if superseded and error["code"] in ("unavailable", "sequence_gap"):
                    continue  # another connection of ours has taken over; the next session sends it again
                raise Miscounted(f"producer {self.index}: batch {number} was refused: {error}")
            if not result.get("replayed") and result["accepted"] != len(batch_rows(self.index, number)):
                raise Miscounted(f"producer {self.index}: batch {number} has the receipt {result}")
            if number > self.acked:
                self.acked = number
                self.harness.progressed()
        return

    async def _misbehave(self, peer: Peer, following: int) -> bool:
        """Send a gap, or let a second connection speak for this producer, as after a fork; return whether it took over."""
        if self.rng.random() < 0.5:
            far = request(self.index, max(following, self.sent) + 5, numbered=True)
            message = msgpack.unpackb(far)
            message[1] = 2**31 + following
            await peer.send(msgpack.packb(message))
            return False
        fork = await self.harness.connect()
        try:
            durable = await self.hello(fork)
            if durable < self.acked:
                raise Miscounted(f"producer {self.index}: {self.acked} was acknowledged, {durable} is remembered")
            # What the other half of a fork has in its buffers: the same batches, under the same numbers.
            for number in range(durable + 1, following):
                await fork.send(request(self.index, number, numbered=True))
        except (Closed, ConnectionError):
            pass
        finally:
            fork.writer.transport.abort()
        return True


@dataclass
class Harness:
    """One run: a directory, a service that is killed, producers."""

    directory: Path
    kills: int
    producers: int = 3
    numbered: bool = True
    seed: int = 0
    enough: bool = False
    acks: int = 0
    process: asyncio.subprocess.Process | None = None
    log: deque[bytes] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    drained: asyncio.Task[None] | None = None
    up: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> dict[str, int]:
        """Return what happened; raise Miscounted when the service did not keep its word."""
        rng = random.Random(self.seed)
        streams = [Producer(i, self, random.Random(self.seed * 100 + i)) for i in range(self.producers)]
        await self._start()
        try:
            async with asyncio.TaskGroup() as group:
                for stream in streams:
                    group.create_task(stream.run())
                for _ in range(self.kills):
                    await self._progress(rng.randint(1, 40))
                    await asyncio.sleep(rng.uniform(0.0, 0.02))  # the random moment
                    await self._kill()
                    await self._start(lambda: self._check(streams))
                await self._progress(20)
                self.enough = True
                self.progressed()
            await self._stop()
        finally:
            if self.process is not None and self.process.returncode is None:
                self.process.kill()
                await self.process.wait()
        self._compare_with_an_undisturbed_engine(streams)
        return {"kills": self.kills, "batches": sum(s.acked for s in streams), "acknowledgements": self.acks}

    async def connect(self) -> Peer:
        while True:
            await self.up.wait()
            try:
                return Peer(*await asyncio.open_unix_connection(self.directory / "s"))
            except OSError:
                await asyncio.sleep(0)

    def progressed(self) -> None:
        self.acks += 1
        self.news.set()

    async def _progress(self, by: int) -> None:
        goal = self.acks + by
        while self.acks < goal:
            self.news.clear()
            await self.news.wait()

    async def _start(self, check: Any = None) -> None:
        options = {"socket": str(self.directory / "s"), "state": str(self.directory / "state")}
        self.process = await asyncio.create_subprocess_exec(
            *COMMAND, PROGRAM, json.dumps(options), stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"ADVISOR_KERNELS": mode_told()},  # it folds many rows
        )  # fmt: skip
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            if b'"serving"' in line:
                break
        else:
            raise Miscounted("the service does not start again")
        self.drained = asyncio.create_task(self._drain(self.process.stderr))
        if check is not None:
            await check()
        self.up.set()

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self.log.append(line)

    async def where_it_hangs(self) -> str:
        """End a service that does not answer; return its last words, and where its threads were."""
        assert self.process is not None
        assert self.drained is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGABRT)
        await self.drained
        return f"no answer in {PATIENCE_S} s\n{b''.join(self.log).decode(errors='replace')}"

    async def _kill(self) -> None:
        assert self.process is not None
        self.up.clear()
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def _stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        if await self.process.wait() != 0:
            raise Miscounted("the service did not stop in order")

    async def _check(self, streams: list[Producer]) -> None:
        """After a start: what is durable is at least what was acknowledged, and is counted exactly once."""
        if not self.numbered:
            return
        peer = Peer(*await asyncio.open_unix_connection(self.directory / "s"))
        try:
            expected: Counter[str] = Counter()
            for stream in streams:
                durable = await stream.hello(peer)
                if not stream.acked <= durable <= stream.sent:
                    raise Miscounted(
                        f"producer {stream.index}: acknowledged {stream.acked}, remembered {durable}, sent {stream.sent}"
                    )
                expected += rows_by_component(stream.index, durable)
            status = await peer.call("status", {"components": True, "limit": 1000})
            found = {entry["component"]: entry["rows"] for entry in status["components"]}
            if found != dict(expected) or status["totals"].get("rows_accepted", 0) != expected.total():
                raise Miscounted(f"counted {found}, {expected} were sent")
        finally:
            peer.writer.transport.abort()

    def _compare_with_an_undisturbed_engine(self, streams: list[Producer]) -> None:
        with Store.open(self.directory / "state", read_only=True) as store:
            snapshot = store.load()
        assert snapshot is not None
        survivor = Engine.restore(snapshot).advisor.components
        fresh = Engine()
        expected: Counter[str] = Counter()
        for stream in streams:
            expected += rows_by_component(stream.index, stream.acked)
            for number in range(1, stream.acked + 1):
                names, x, p, t = (list(column) for column in zip(*batch_rows(stream.index, number), strict=True))
                fresh.apply(None, None, columns_of(ComponentNames(names), np.arange(len(names)), x, p, t))
        undisturbed = fresh.advisor.components
        for name, rows in expected.items():
            slot, other = survivor.slots.of(name), undisturbed.slots.of(name)
            if survivor.table.count("rows")[slot] != rows:
                raise Miscounted(f"{name}: {survivor.table.count('rows')[slot]} rows are counted, {rows} were sent")
            bits = [table.words[at].tobytes() for table, at in ((survivor.table, slot), (undisturbed.table, other))]
            if name not in SHARED and bits[0] != bits[1]:
                raise Miscounted(f"{name}: its sums differ from those of an engine that was never killed")
        if survivor.totals["rows_accepted"] != expected.total():
            raise Miscounted(f"{survivor.totals['rows_accepted']} rows are counted, {expected.total()} were sent")


async def harness(directory: Path, **options: Any) -> dict[str, int]:
    """Run the harness; raise Miscounted itself, not a group of it."""
    try:
        return await Harness(directory, **options).run()
    except* (Miscounted, AdvisorError) as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
    raise Miscounted(str(first)) from first


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unnumbered", action="store_true", help="without sequence checks: must fail")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(asyncio.run(harness(Path(place), kills=asked.kills, seed=asked.seed, numbered=not asked.unnumbered)))
