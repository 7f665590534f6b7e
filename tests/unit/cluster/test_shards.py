"""Shards through kills at any point, moves of buckets, and fronts that begin anew: rows exact, states equal to the byte."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shards_here import Processes

from advisor.cluster import connections, shard_set
from advisor.cluster.connections import ShardConnection
from advisor.cluster.layout import Layout, moves
from advisor.cluster.shard import EMPTY
from advisor.cluster.shard_set import ShardSet
from advisor.domain.buckets import BUCKETS
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Engine
from advisor.engine.events import ComponentForgotten
from advisor.errors import StateDamaged, StorageFailed, Unavailable
from advisor.storage import Store, store

LIMITS = {"components_max": 1000, "model_memory_bytes": 2**22, "producers_max": 100}
PRODUCERS = [(f"p{i}", bytes([i]) * 16) for i in range(3)]


def batch(producer: int, number: int) -> Columns:
    """Return a batch of components that this producer alone has, and of a network whose boxes they are."""
    rng = np.random.default_rng([producer, number])
    n = int(rng.integers(1, 12))
    names = [f"p{producer}-c{i}" for i in range(7)]
    return columns_of(
        ComponentNames(names), rng.integers(0, 7, n), rng.uniform(1, 100, n), rng.choice([1.0, 2.0, 4.0], n),
        rng.uniform(0.1, 1.0, n), network=[f"n{producer}"] * n, entered=np.arange(n) % 3 == 0,
    )  # fmt: skip


def alone(upto: Sequence[int]) -> Engine:
    """Return an engine that was told the same and never killed."""
    engine = Engine(**LIMITS)
    for producer, last in enumerate(upto):
        for number in range(1, last + 1):
            engine.apply_event(PRODUCERS[producer], number, batch(producer, number))
    return engine


async def together(shards: ShardSet) -> Engine:
    """Return all that the shards have, in one engine."""
    found = Engine(**LIMITS)
    for part in await shards.each("give", range(BUCKETS)):
        found.merge(Engine.from_bytes(part))
    return found


def same(found: Engine, wanted: Engine) -> None:
    names = wanted.advisor.components.slots.components
    assert sorted(found.advisor.components.slots.components) == sorted(names)
    assert found.extract(names, ("networks",)) == wanted.extract(names, ("networks",))


class Front:
    """Shards, and clients that send again what was not acknowledged when they began anew."""

    def __init__(self, folder: Path, processes: Processes, count: int = 2) -> None:
        self.folder, self.processes, self.count = folder, processes, count
        self.acknowledged = [0, 0, 0]
        self.shards = self._shards()

    def _shards(self) -> ShardSet:
        return ShardSet(self.processes, self.folder, self.count, LIMITS)

    async def start(self) -> None:
        self.processes.spared = True
        await self.processes.start()
        await self.shards.start()
        self.processes.spared = False
        for producer, key in enumerate(PRODUCERS):
            assert self.shards.durable.get(key, 0) >= self.acknowledged[producer]

    async def restart(self) -> None:
        """The front is killed, and its shards with it; another one begins."""
        for task in self.shards._tasks:
            task.cancel()
        self.shards = self._shards()
        await self.start()

    def sends(self, producer: int, number: int) -> asyncio.Future[dict[str, Any]]:
        done = asyncio.get_running_loop().create_future()

        def reported(answer: dict[str, Any]) -> None:
            if not done.done():
                done.set_result(answer)

        self.shards.send(PRODUCERS[producer], number, batch(producer, number), reported)
        return done

    async def send_to(self, producer: int, last: int) -> None:
        """Send what is not acknowledged up to a number, and wait until all is."""
        first = self.shards.durable.get(PRODUCERS[producer], 0) + 1
        for number, sent in [(number, self.sends(producer, number)) for number in range(first, last + 1)]:
            answer = await sent
            assert "error" not in answer, answer
            assert answer["sequence"] == number
            assert answer["refused"]["count"] == 0
            self.acknowledged[producer] = number


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    """Two shards that nobody kills, with room for more."""
    made = Front(tmp_path, Processes())
    await made.start()
    yield made
    await made.shards.stop()


async def through_kills(tmp_path: Path, seed: int, kills: int, fronts: int) -> Front:
    processes = Processes(seed, kills)
    front = Front(tmp_path, processes)
    rng = random.Random(seed)
    await front.start()
    last, sizes = 0, [3]
    while processes.kills_left or fronts or last < 50:
        last += rng.randint(1, 9)
        work = [asyncio.create_task(front.send_to(producer, last)) for producer in range(3)]
        if fronts and rng.random() < 0.3:
            fronts -= 1
            for _ in range(rng.randint(0, 60)):
                await asyncio.sleep(0)
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await front.restart()
            work = [asyncio.create_task(front.send_to(producer, last)) for producer in range(3)]
        if sizes and last > 30:
            size = sizes.pop()
            work.append(asyncio.create_task(front.shards.scale(size)))  # type: ignore[arg-type]
        await asyncio.gather(*work)
    assert processes.killed == kills
    same(await together(front.shards), alone(front.acknowledged))
    totals = front.shards.totals()
    assert totals["rows_accepted"] == sum(
        len(batch(producer, number)) for producer in range(3) for number in range(1, last + 1)
    )
    return front


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))])
async def test_rows_are_exact_and_states_equal_to_the_byte_through_kills_of_shards_and_fronts(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # images are written again and again
        monkeypatch.setattr(store, "LOG_ENTRIES_MAX", 7)
    front = await through_kills(tmp_path, seed, kills=20 if seed > 1 else 10, fronts=2)
    await front.shards.scale(2)
    same(await together(front.shards), alone(front.acknowledged))
    await front.shards.stop()
    other = Front(tmp_path, Processes())
    other.acknowledged = front.acknowledged
    await other.start()
    same(await together(other.shards), alone(front.acknowledged))
    await other.send_to(0, front.acknowledged[0] + 3)
    await other.shards.stop()


async def test_without_numbers_kills_lose_rows_or_count_them_twice(tmp_path: Path) -> None:
    processes = Processes(1, 10, every=4)
    front = Front(tmp_path, processes)
    await front.start()
    for number in range(1, 60):
        answer: dict[str, Any] = {"error": None}
        while "error" in answer:
            done = asyncio.get_running_loop().create_future()
            front.shards.send(None, None, batch(0, number), done.set_result)
            answer = await done
    assert processes.killed == 10
    assert front.shards.totals()["rows_accepted"] != sum(len(batch(0, number)) for number in range(1, 60))
    await front.shards.stop()


async def test_a_full_disk_stops_acknowledgements_until_there_is_room(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    await front.send_to(0, 5)
    append, full = Store.append, [True]

    def no_room(self: Store, *given: Any) -> None:
        if full[0]:
            raise StorageFailed("no space left on device", field="state")
        append(self, *given)

    monkeypatch.setattr(Store, "append", no_room)
    sending = asyncio.create_task(front.send_to(0, 9))
    while not all(shard.failure for shard in front.shards.shards):  # status says so
        await asyncio.sleep(0)
    assert front.shards.durable[PRODUCERS[0]] == front.acknowledged[0] == 5
    full[0] = False
    await sending
    same(await together(front.shards), alone(front.acknowledged))
    await front.restart()
    same(await together(front.shards), alone(front.acknowledged))


async def test_an_event_of_one_shard_takes_its_number_everywhere_and_an_empty_batch_that_of_a_refused_one(
    front: Front,
) -> None:
    await front.send_to(0, 4)
    key = PRODUCERS[0]

    async def sent(number: int, event: Any) -> dict[str, Any]:
        done = asyncio.get_running_loop().create_future()
        front.shards.send(key, number, event, done.set_result)
        return await done

    assert (await sent(5, ComponentForgotten("nobody")))["error"]["code"] == "unknown_component"
    assert front.shards.durable[key] == 4
    assert front.shards.uneven == {key}, "one shard lacks the number: buckets do not move meanwhile"
    scaling = asyncio.create_task(front.shards.scale(3))
    assert (await sent(5, EMPTY))["sequence"] == 5
    await scaling
    assert [each[key] for each in await front.shards.each("producers")] == [5, 5, 5]
    forgotten = ComponentForgotten("p0-c1")
    assert (await sent(6, forgotten))["component"] == "p0-c1"
    assert (await sent(6, forgotten))["replayed"]
    await front.shards.scale(2)
    await front.send_to(0, 9)  # 5 and 6 were the other events: 7 to 9
    assert front.shards.durable[key] == 9
    await front.restart()
    assert front.shards.durable[key] == 9


@pytest.mark.parametrize("lost", ["shard-0", "layout"])
async def test_a_state_that_lacks_what_was_acknowledged_is_refused(tmp_path: Path, lost: str) -> None:
    front = Front(tmp_path, Processes())
    await front.start()
    await front.send_to(0, 3)
    await front.shards.stop()
    shutil.rmtree(tmp_path / lost) if lost != "layout" else (tmp_path / lost).unlink()
    with pytest.raises(StateDamaged, match="restore"):
        await Front(tmp_path, Processes()).start()


@pytest.mark.parametrize("method", ["give", "receive_part", "keep"])
async def test_a_front_that_is_killed_while_buckets_move_leaves_each_at_one_shard(front: Front, method: str) -> None:
    for producer in range(3):
        await front.send_to(producer, 9)
    ask, count = ShardConnection.ask, [0]

    async def cut(self: ShardConnection, name: str, *args: Any) -> Any:
        found = await ask(self, name, *args)
        count[0] += name == method
        if count[0] == 9:
            await asyncio.Event().wait()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShardConnection, "ask", cut)
        scaling = asyncio.create_task(front.shards.scale(3))
        while count[0] < 9:
            await asyncio.sleep(0)
        scaling.cancel()
    await front.restart()
    names = [name for each in await front.shards.each("names") for name in each]
    assert len(names) == len(set(names))
    same(await together(front.shards), alone(front.acknowledged))
    await front.shards.scale(3)
    for producer in range(3):
        await front.send_to(producer, 12)
    same(await together(front.shards), alone(front.acknowledged))


def test_moves_are_the_fewest_and_leave_the_shards_even() -> None:
    layout = Layout.even(2)
    for shards in (3, 5, 1, 4, 2, 256, 7):
        due = moves(layout.owner, shards)
        before = Counter(layout.owner)
        for move in due:
            assert all(layout.owner[bucket] == move.source for bucket in move.buckets)
            layout = layout.moved(move)
        counts = Counter(layout.owner)
        assert sorted(counts) == list(range(shards))
        assert max(counts.values()) - min(counts.values()) <= 1
        assert sum(len(move.buckets) for move in due) == sum(max(0, before[s] - counts[s]) for s in before)
        layout = layout.after(shards=shards)


def test_a_layout_is_read_back_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    layout = Layout.even(3)
    assert Layout.load(tmp_path) is None
    later = layout.moved(moves(layout.owner, 2)[0]).after(shards=3, removed={"rows_accepted": 4})
    layout.save(tmp_path)
    later.save(tmp_path)
    assert Layout.load(tmp_path) == later
    data = (tmp_path / "layout").read_bytes()
    for damaged in (b"{", b"{}", data[:-1], data[:-1] + b"5"):
        (tmp_path / "layout").write_bytes(damaged)
        with pytest.raises(StateDamaged, match="layout"):
            Layout.load(tmp_path)


@pytest.mark.parametrize("known", [True, False], ids=["more-than-cores", "others-have-the-cores"])
async def test_more_shards_than_places_are_refused_in_words_and_rows_go_on(
    front: Front, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    monkeypatch.setattr(shard_set, "PLACE_S", 0.01)
    processes = front.processes
    if known:
        processes.most = 3
    else:
        processes.may_start.clear()
    scaling = asyncio.create_task(front.shards.scale(6))
    await front.send_to(0, 5)  # with a scale under way, or refused
    with pytest.raises(Unavailable, match="not every shard has a place") as refused:
        await scaling
    assert (refused.value.field, refused.value.value) == ("shards", 6)
    await front.send_to(1, 5)
    assert front.shards.layout.shards == len(front.shards.shards) == 2
    processes.most = None
    processes.may_start.set()
    await front.shards.scale(4)
    await front.send_to(2, 5)
    same(await together(front.shards), alone(front.acknowledged))
    await front.shards.stop()
    assert all(each.gone for each in processes.there)


async def test_a_shard_that_gets_no_place_again_says_so_and_serves_when_there_is_one(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PLACE_S", 0.01)
    processes = front.processes
    await front.send_to(0, 5)
    processes.may_start.clear()
    front.shards.shards[1].handle.kill()
    sending = asyncio.create_task(front.send_to(1, 8))
    while front.shards.shards[1].failure is None:
        await asyncio.sleep(0)
    assert "no process has started" in str(front.shards.shards[1].failure)
    processes.may_start.set()
    await sending
    assert front.shards.shards[1].failure is None
    same(await together(front.shards), alone(front.acknowledged))


async def test_a_start_with_more_shards_than_places_is_refused(tmp_path: Path) -> None:
    processes = Processes()
    processes.most = 1
    with pytest.raises(Unavailable, match="not every shard has a place: there are cores for 1"):
        await ShardSet(processes, tmp_path, 2, LIMITS).start()
