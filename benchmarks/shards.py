"""What shards on Ray cost: rows a CPU second beside an advisor in the program, recoveries of killed shards.

    python benchmarks/shards.py rows [--rows 2000000] [--batch 20000] [--components 10000] [--turns 5]
    python benchmarks/shards.py recoveries [--kills 20] [--components 10000]
    python benchmarks/shards.py costs    # what benchmarks/scale.py is fed with

CPU time is of whole processes, threads of Ray among it, from /proc; so a busy machine disturbs the ratios little. Turns of
all contestants are interleaved. Times of recoveries are of the clock: they want a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from advisor import Advisor, kernels
from advisor.cluster.actors import Actors
from advisor.cluster.shard import Shard
from advisor.cluster.shard_set import ShardSet
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Engine
from advisor.protocol.columns import ConnectionNames, columns_of_bins
from advisor.protocol.verbs import check_params

LIMITS = {"components_max": 200_000, "model_memory_bytes": 2**30, "producers_max": 1000}
KEY = ("benchmark", bytes(16))
TICKS = os.sysconf("SC_CLK_TCK")
SMALL = 100  # rows of a small batch: what a batch costs beside its rows is seen there
AHEAD = 4  # batches that wait at a shard: a producer's window


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and all its threads so far."""
    reported = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(reported[11]) + int(reported[12])) / TICKS


def batches(rows: int, batch: int, components: int, seed: int) -> Iterator[Columns]:
    """Yield batches of rows of all components, as a client's columns are: each has a list of names of its own."""
    rng = np.random.default_rng(seed)
    names = ComponentNames([f"c{i}" for i in range(components)])
    for _ in range(rows // batch):
        x, p = rng.uniform(1.0, 1000.0, batch), 2.0 ** rng.integers(0, 6, batch)
        t = 1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0.0, 0.1, batch)
        yield columns_of(names, rng.integers(0, components, batch), x, p, t)


class Rows:
    """Shards that are sent rows under numbers."""

    def __init__(self, shards: ShardSet) -> None:
        self.shards, self.number = shards, 0

    async def send(self, work: Iterator[Columns]) -> None:
        """Send batches, a few at a time, until all are acknowledged."""
        most = AHEAD * len(self.shards.shards)
        room = asyncio.Semaphore(most)
        for columns in work:
            await room.acquire()
            self.number += 1

            def done(answer: dict[str, Any]) -> None:
                assert "error" not in answer, answer
                room.release()

            self.shards.send(KEY, self.number, columns, done)
        for _ in range(most):
            await room.acquire()

    async def pids(self) -> list[int]:
        """Return the process of each shard."""
        return [await shard.handle.get("pid") for shard in self.shards.shards]  # type: ignore[attr-defined]

    def summed(self, key: str) -> int:
        """Return a sum over the reports of the shards."""
        return sum(shard.report[key] for shard in self.shards.shards)


@asynccontextmanager
async def shards_of(count: int, runtime: Actors, place: Path) -> Any:
    """Shards below a folder of this machine."""
    shards = ShardSet(runtime, place, count, LIMITS)
    await shards.start()
    try:
        yield Rows(shards)
    finally:
        for shard in shards.shards:
            await shard.handle.call("close")


def reported(name: str, values: list[float], form: str) -> str:
    return f"{name:<34} {statistics.median(values):{form}}   [{min(values):{form}} – {max(values):{form}}]"


async def rows(given: argparse.Namespace, place: Path) -> None:
    """Feed an advisor here, one shard and two shards in turn; tell the CPU microseconds a row of each, and the ratios."""
    runtime = Actors("ray", compiled=True)
    await runtime.start()
    advisor = Advisor(LIMITS["components_max"], LIMITS["model_memory_bytes"])
    async with shards_of(1, runtime, place / "1") as single, shards_of(2, runtime, place / "2") as pair:
        found: dict[str, list[float]] = {}
        for turn in range(given.turns + 1):
            cost: dict[str, float] = {}
            n = given.rows // given.batch * given.batch
            for columns in (work := list(batches(given.rows, given.batch, given.components, turn))):
                columns.components.slots_of(None)
            began = time.process_time()
            for columns in work:
                advisor.fold(columns)
            cost["embedded"] = (time.process_time() - began) / n
            for name, rows_of in (("one shard", single), ("two shards", pair)):
                work = list(batches(given.rows, given.batch, given.components, turn))
                pids = await rows_of.pids()
                before, own = [cpu_s(pid) for pid in pids], time.process_time()
                await rows_of.send(iter(work))
                cost[f"{name}, the front"] = (time.process_time() - own) / n
                cost[name] = sum(cpu_s(pid) - was for pid, was in zip(pids, before, strict=True)) / n
            if turn:  # the first one fills the tables
                for name, each in cost.items():
                    found.setdefault(name, []).append(each)
        for name, each in found.items():
            print(reported(f"{name}, CPU µs a row", [1e6 * cost for cost in each], "6.3f"))
        for name in ("one shard", "two shards"):
            ratios = [ours / theirs for ours, theirs in zip(found["embedded"], found[name], strict=True)]
            print(reported(f"{name} / embedded, rows a CPU s", ratios, "6.3f"))
        commits = [shard.report["commits"] for shard in single.shards.shards]
        size = sum(each.stat().st_size for each in (place / "1").rglob("*") if each.is_file()) / 1e6
        print(f"{single.number} batches, {commits} commits; files {size:.0f} MB")
        print(f"{single.summed('bytes') / given.components:.0f} bytes a component of tables in memory")


async def recoveries(given: argparse.Namespace, place: Path) -> None:
    """Kill a shard while rows come, again and again; tell how long each took until all rows were acknowledged."""
    runtime = Actors("ray", compiled=True)
    await runtime.start()
    async with shards_of(2, runtime, place) as rows:
        await rows.send(batches(200_000, 20_000, given.components, 0))
        took = list[float]()
        for kill in range(given.kills):
            pid = (await rows.pids())[kill % 2]
            sending = asyncio.create_task(rows.send(batches(40_000, 1_000, given.components, kill + 1)))
            await asyncio.sleep(0.05)
            os.kill(pid, signal.SIGKILL)
            began = time.perf_counter()
            await sending
            took.append(time.perf_counter() - began)
        total = rows.shards.totals()["rows_accepted"]
        print(reported(f"{len(took)} recoveries, seconds", took, "5.2f"))
        print(f"{total:,} rows, sent {200_000 + 40_000 * given.kills:,}; load {os.getloadavg()[0]:.1f}")


async def costs(given: argparse.Namespace, place: Path) -> None:
    """Tell what a row, a batch, a component, a producer and a start cost, as `scale.MEASURED` has them."""
    runtime = Actors("ray", compiled=True)
    await runtime.start()
    told_of: dict[str, Any] = {}
    async with shards_of(1, runtime, place) as fleet:
        await fleet.send(batches(2_000_000, 20_000, given.components, 0))
        (pid,) = await fleet.pids()
        found: dict[int, list[tuple[float, float]]] = {}
        for turn in range(given.turns):
            for size in (SMALL, given.batch):
                work = list(batches(min(given.rows, 2_000 * size), size, given.components, turn))
                n, before, own = len(work) * size, cpu_s(pid), time.process_time()
                await fleet.send(iter(work))
                each = (time.process_time() - own) / n, (cpu_s(pid) - before) / n
                found.setdefault(size, []).append(each)
        for at, name in enumerate(("front", "shard")):
            few, many = (statistics.median(each[at] for each in found[size]) for size in (SMALL, given.batch))
            batch_s = (few - many) / (1.0 / SMALL - 1.0 / given.batch)
            told_of |= {f"{name}_batch_s": batch_s, f"{name}_row_s": many - batch_s / given.batch}
        told_of["state_bytes"] = fleet.summed("bytes") / given.components
    part = Shard(0, str(place / "shard-0"), LIMITS)
    names = [f"c{i}" for i in range(100)]
    told_of["part_bytes"] = len(part.part(names, (), ())) / len(names)
    part.close()
    alone = place / "alone"
    made = Shard(0, str(alone), LIMITS)
    made.receive(None, {(f"producer {i}", bytes(16)): 1 for i in range(1_000)})
    engine = Engine(**LIMITS)
    for columns in batches(1_000_000, 20_000, 100_000, 0):
        engine.apply(None, None, columns)
    made.receive(engine.to_bytes(), {})
    made.close()
    began = time.perf_counter()
    Shard(0, str(alone), LIMITS).close()
    told_of["open_component_s"] = (time.perf_counter() - began) / 100_000
    told_of["read_row_s"] = _read_s(given.batch)
    for name, value in told_of.items():
        print(f"    {name}={value:.3g},")


def _read_s(batch: int) -> float:
    """Return the seconds a row in which a message of columns becomes columns."""
    columns = next(batches(batch, batch, 1_000, 0))
    bins = {key: getattr(columns, key).astype("<f8").tobytes() for key in ("predictor", "cores", "elapsed_s")}
    message = {"components": columns.components.names, "index": columns.index.astype("<u4").tobytes(), **bins}
    names, took = ConnectionNames(), list[float]()
    for _ in range(50):
        began = time.process_time()
        columns_of_bins(check_params("observe_columns", [message]), names)
        took.append(time.process_time() - began)
    return statistics.median(took) / batch


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["rows", "recoveries", "costs"])
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--batch", type=int, default=20_000)
    arguments.add_argument("--components", type=int, default=10_000)
    arguments.add_argument("--turns", type=int, default=5)
    arguments.add_argument("--kills", type=int, default=20)
    given = arguments.parse_args()
    kernels.load_filled()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}")
    place = Path(tempfile.mkdtemp(prefix="shards-"))
    try:
        asyncio.run({"rows": rows, "recoveries": recoveries, "costs": costs}[given.what](given, place))
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
