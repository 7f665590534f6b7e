"""The front on a real socket: verbs, clients and errors as of one process, whatever shards do meanwhile."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from c_curves import Curves
from shards_here import Processes

from advisor import Advisor, AsyncClient
from advisor.cluster import hub as routing
from advisor.cluster.actors import Actors
from advisor.cluster.serving import serve
from advisor.domain.task_graphs import task_graph
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.errors import InvalidValue, Unavailable, UnknownComponent, Unsupported
from advisor.protocol.declaring import METHODS, Question, verb
from advisor.service import questions
from advisor.service.config import load_config

PATIENCE_S = 300.0  # nothing here depends on how busy the machine is
BOXES = [f"c{i}" for i in range(6)]
NETWORK = "c0 .. (c3 | c1) .. c4 .. c2 .. c5 .. c0"
OPTIONS: dict[str, Any] = {"cores": 16, "shares": [[0.25, 0.75]]}


def rows(start: int, n: int) -> list[tuple[str, float, float, float]]:
    return [
        (BOXES[i % 6], 1.0 + i % 17, 1.0 + i % 4, 0.01 * (1 + i % 6) * (1 + i % 17) / (1 + i % 4) ** 0.7)
        for i in range(start, start + n)
    ]


@asynccontextmanager
async def front(place: Path, processes: Processes, **options: Any) -> AsyncIterator[str]:
    """Serve shards; yield the address."""
    stale_s = options.pop("stale_s", routing.STALE_S)
    config = load_config(
        None, socket=place / "s", state=place / "state", engine="ray", compiled=False,
        **{"model_memory": MODEL_MEMORY_BYTES, **options},
    )  # fmt: skip
    stop = anyio.Event()
    async with anyio.create_task_group() as group:

        async def run(*, task_status: Any) -> None:
            processes.spared = True
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(routing, "STALE_S", stale_s)
                await serve(config, runtime_of=lambda _: processes, stop=stop, task_status=task_status)

        await group.start(run)
        processes.spared = False
        try:
            yield str(place / "s")
        finally:
            stop.set()


@asynccontextmanager
async def client_of_front(place: Path, processes: Processes, **options: Any) -> AsyncIterator[AsyncClient]:
    async with (
        front(place, processes, **options) as address,
        AsyncClient(address, producer="p", timeout_s=PATIENCE_S) as client,
    ):
        yield client


async def teach(start: int, n: int, client: AsyncClient, *advisors: Advisor, slow: float = 1.0) -> None:
    """Give all of them rows, in which c1 takes so much longer."""
    for name, x, p, t in rows(start, n):
        for each in (client, *advisors):
            each.observe(name, predictor=x, cores=p, elapsed_s=t * (slow if name == "c1" else 1.0))
    await client.flush()


async def test_answers_are_those_of_one_advisor(tmp_path: Path) -> None:
    one = Advisor()
    async with client_of_front(tmp_path, Processes()) as client:
        await teach(0, 240, client, one)
        shards = (await client.shards())["shards"]
        assert sum(each["rows"] for each in shards) == 240
        assert all(each["components"] for each in shards)
        for name in BOXES:
            assert await client.predict(name, 5.0, 2) == one.predict(name, predictor=5.0, cores=2)
            assert await client.choose_cores(name, 5.0, cores_max=8) == one.choose_cores(
                name, predictor=5.0, cores_max=8
            )
        jobs = [{"id": name, "component": name, "predictor": 5.0} for name in [*BOXES, "new"]]
        assert await client.choose_together(jobs, 8) == one.choose_together(jobs, 8)
        found, wanted = await client.allocate(NETWORK, **OPTIONS), one.allocate(NETWORK, **OPTIONS)
        assert found.as_dict() | {"id": None} == wanted.as_dict() | {"id": None}
        page = await client.export()
        exported = Advisor.from_bytes(page["state"])
        while page["next"] is not None:
            page = await client.export(page["next"])
            exported.merge(Advisor.from_bytes(page["state"]))
        assert exported.extract(parts=()) == one.extract(parts=())
        with pytest.raises(InvalidValue, match="after"):
            await client.export("0/99/")
        answer = await client.define_network(NETWORK, id="film")
        assert answer["components"][0] == "c0"
        assert (await client.allocate("film", **OPTIONS)).throughput_per_s == wanted.throughput_per_s
        with pytest.raises(UnknownComponent):
            await client.predict("nobody", 1.0, 1)
        with pytest.raises(InvalidValue):
            await client.predict("", 1.0, 1)
        status = await client.status(True)
        assert status["totals"]["rows_accepted"] == 240
        assert sorted((each["component"], each["rows"]) for each in status["components"]) == [
            (name, 40) for name in BOXES
        ]
        assert [each["component"] for each in (await client.status(True, offset=2, limit=3))["components"]] == [
            each["component"] for each in status["components"][2:5]
        ]
        assert {each["component"] for each in (await client.status(["c1", "c3"]))["components"]} == {"c1", "c3"}
        for advisor in (one, client):  # its answers rest on siblings in all shards
            advisor.observe("young", predictor=2.0, cores=4, elapsed_s=1.0)
        await client.flush()
        young = await client.predict("young", 5.0, 2)
        assert young == one.predict("young", predictor=5.0, cores=2)
        assert f"as of {len(BOXES)} other components" in young.notes[0]
    async with client_of_front(tmp_path, Processes()) as client:
        assert (await client.status())["totals"]["rows_accepted"] == 241
        assert (await client.allocate("film", **OPTIONS)).throughput_per_s == wanted.throughput_per_s
        assert await client.predict("c1", 5.0, 2) == one.predict("c1", predictor=5.0, cores=2)


async def test_times_of_tasks_are_predicted_by_all_shards(tmp_path: Path) -> None:
    one, names = Advisor(), BOXES[:3]
    graph = task_graph([0.0] * 3, [(0, 1)], types=names, columns={"type": [0, 1, 2], "size": [5.0, 2.0, 3.0]})
    async with client_of_front(tmp_path, Processes()) as client:
        await teach(0, 240, client, one)
        found = await client.simulate(graph, cores=2, predict_times=True)
        assert found == one.simulate(graph, cores=2, predict_times=True)


async def test_a_new_verb_about_all_components_is_answered_about_all(tmp_path: Path) -> None:
    class MadeUpCount(Question):
        """Return how many components are known."""

    with pytest.MonkeyPatch.context() as patch:
        for table in (METHODS, questions.ANSWERS):
            patch.setitem(table, "made_up_count", None)
        asked = verb("made_up_count", "read")(MadeUpCount)
        patch.setitem(questions.ANSWERS, "made_up_count", lambda engine, _: len(engine.advisor.components))
        async with client_of_front(tmp_path, Processes()) as client:
            await teach(0, 240, client)
            assert await client.ask(asked(), int) == len(BOXES)


async def test_plans_over_shards_are_those_of_one_advisor(tmp_path: Path) -> None:
    one = Advisor()
    async with client_of_front(tmp_path, Processes(), stale_s=3600.0) as client:

        async def same(*, fresh: bool = False, **asked: Any) -> bool:
            found = await client.allocate(NETWORK, **OPTIONS, **asked, fresh=fresh)
            return found.as_dict() | {"id": None} == one.allocate(NETWORK, **OPTIONS, **asked).as_dict() | {"id": None}

        await teach(0, 240, client, one)
        assert await same()
        assert await same(load={"c1": 9.0}, level=0.5, components={"c2": "c4"})
        await teach(240, 60, client, one, slow=4.0)
        assert not await same()  # within an hour
        assert await same(fresh=True)
        assert (await client.pin("c1", "two_step"))["component"] == "c1"
        one.pin("c1", "two_step")
        assert await same()
        with pytest.raises(UnknownComponent):
            await client.allocate("c0 .. nobody", cores=4)
        both = [{"network": "c0 .. c1", "name": "a"}, {"network": "c2 .. c3", "weight": 2.0}]
        found = await client.allocate_together(both, cores=12)
        assert found.as_dict() | {"id": None} == one.allocate_together(both, cores=12).as_dict() | {"id": None}


async def test_a_network_over_shards_is_watched(tmp_path: Path) -> None:
    async with client_of_front(tmp_path, Processes(), stale_s=0.01) as client:
        await teach(0, 240, client)
        watch = await client.watch("c0 .. c1 .. c5", 24)
        has = watch.allocation.cores
        shown = {key.rpartition(":")[2]: cores for key, cores in has.items()}

        async def slow() -> None:
            """Rows on the cores that were advised, in which c1 takes eight times as long, until the watch has told of it."""
            at = 0
            while True:
                for name, x, _, _ in rows(at, 60):
                    p = float(shown.get(name, 1))
                    t = 0.01 * (1 + BOXES.index(name)) * x / p**0.7 * (8.0 if name == "c1" else 1.0)
                    client.observe(name, predictor=x, cores=p, elapsed_s=t)
                await client.flush()
                at += 60

        teaching = asyncio.create_task(slow())
        advice = await asyncio.wait_for(anext(aiter(watch)), PATIENCE_S)
        teaching.cancel()
        await asyncio.gather(teaching, return_exceptions=True)
        slower = next(key for key in has if key.endswith("c1"))
        assert advice.allocation.cores[slower] > has[slower]


async def test_task_events_and_profiles_are_refused(tmp_path: Path) -> None:
    async with client_of_front(tmp_path, Processes()) as client:
        for asked in (
            client.task_events(b"", strings=[]), client.profile(),
            client.observe_run("prog", size=10.0, profile={"producer": "run"}),
        ):  # fmt: skip
            with pytest.raises(Unsupported, match="one process"):
                await asked
        client.observe("new", predictor=1.0, cores=1, elapsed_s=1.0)
        assert (await client.flush()).rows_accepted == 1


async def test_curves_of_all_components_are_gathered_and_those_that_changed(tmp_path: Path) -> None:
    async with client_of_front(tmp_path, Processes(), stale_s=0.01) as client:
        await teach(0, 240, client)
        first = await client.curves()
        assert sorted(Curves(first.bundle).names) == BOXES
        client.observe("new", predictor=1.0, cores=1, elapsed_s=1.0)
        await client.flush()
        assert "new" in Curves((await client.curves(since=first.version)).bundle).names


@pytest.mark.parametrize("stale_s", [3600.0, 0.01])
async def test_an_answer_may_lack_rows_for_a_while_and_a_fresh_one_lacks_none(tmp_path: Path, stale_s: float) -> None:
    one = Advisor()
    async with client_of_front(tmp_path, Processes(), stale_s=stale_s) as client:

        async def lacks(*, fresh: bool = False) -> int:
            answer = await client.predict("c1", 3.0, 1, fresh=fresh)
            return one.predict("c1", predictor=3.0, cores=1).observations - answer.observations

        await teach(0, 60, client, one)
        assert await lacks() == 0
        await teach(60, 180, client, one)
        if stale_s > 1.0:
            assert await lacks() == 30
            assert (await client.shards())["moves"]["replicas_behind_s"] > 0.0
            assert await lacks(fresh=True) == 0
        else:
            while await lacks():
                pass
        assert (await client.pin("c1", "two_step"))["component"] == "c1"
        one.pin("c1", "two_step")
        assert await client.predict("c1", 3.0, 1) == one.predict("c1", predictor=3.0, cores=1)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
async def test_clients_notice_neither_kills_nor_moves(tmp_path: Path, seed: int) -> None:
    processes = Processes(seed, kills=6, every=8)
    async with client_of_front(tmp_path, processes) as client:
        sizes, start = [3, 1, 2], 0
        while processes.kills_left or sizes:
            for name, x, p, t in rows(start, 40):
                client.observe(name, predictor=x, cores=p, elapsed_s=t)
            start += 40
            moved = asyncio.create_task(client.shards(sizes.pop(0) if sizes else 2))
            await client.flush()
            await client.predict("c1", 4.0, 2)
            await moved
        status = await client.status(True)
        assert status["totals"]["rows_accepted"] == start
        assert sum(each["rows"] for each in status["components"]) == start
        one = Advisor()
        for name, x, p, t in rows(0, start):
            one.observe(name, predictor=x, cores=p, elapsed_s=t)
        for name in BOXES:
            assert await client.predict(name, 5.0, 2, fresh=True) == one.predict(name, predictor=5.0, cores=2)
        assert processes.killed == 6


async def test_a_change_that_is_refused_among_rows_on_their_way_loses_and_doubles_none(tmp_path: Path) -> None:
    one = Advisor()
    async with (
        front(tmp_path, Processes(3, kills=3, every=8)) as address,
        AsyncClient(address, batch_rows=7, timeout_s=PATIENCE_S) as client,
    ):
        refused = []
        for start in range(0, 240, 40):
            for name, x, p, t in rows(start, 40):
                for each in (client, one):
                    each.observe(name, predictor=x, cores=p, elapsed_s=t)
            refused.append(asyncio.create_task(client.forget(f"nobody{start}")))
            await asyncio.sleep(0)
        found = await asyncio.gather(*refused, return_exceptions=True)
        assert {type(each) for each in found} == {UnknownComponent}
        await client.flush()
        moved = await client.shards(3)
        assert moved["moves"]["waiting_for"] == []
        assert (await client.status())["totals"]["rows_accepted"] == 240
        for name in BOXES:
            assert await client.predict(name, 5.0, 2, fresh=True) == one.predict(name, predictor=5.0, cores=2)


async def test_a_ray_that_is_not_there_is_reported_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable) as caught:
            await Actors(
                load_config(None, socket=tmp_path / "s", state=tmp_path, engine=f"ray://{address}", compiled=False)
            ).start()
    assert (caught.value.field, caught.value.value) == ("engine", address)
    assert "ray start --address" in str(caught.value)
