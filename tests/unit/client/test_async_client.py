"""The asynchronous client against a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import anyio.abc
import pytest
from live import PATIENCE_S

from advisor import AsyncClient
from advisor.client import aio, link
from advisor.errors import ConnectionFailed, NotAnswered, UnknownComponent
from advisor.protocol.connection import ServerConnection, encode_response


async def observe(client: AsyncClient, rows: int) -> None:
    for i in range(rows):
        assert await client.observe("c", predictor=1.0, cores=2, elapsed_s=1.0 + i) is True


async def test_rows_and_questions_share_a_connection(service) -> None:
    async with AsyncClient(service.address, batch_rows=10) as client:
        await observe(client, 105)
        answers: list[int] = []

        async def ask() -> None:
            answers.append((await client.predict("m", 1.0, 2)).observations)

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(ask)
        stats = await client.flush()
        assert (await client.forget("c")) == {"component": "c"}
    assert answers == [3] * 50
    assert stats.rows_accepted == 105
    assert stats.connections == 1
    assert sorted(row[1] for row in service.rows) == [1.0 + i for i in range(105)]


async def test_rows_that_do_not_fill_a_batch_go_by_themselves(service) -> None:
    async with AsyncClient(service.address, linger_s=0.001) as client:
        await observe(client, 3)
        with anyio.fail_after(PATIENCE_S):
            while client.stats().rows_acknowledged < 3:
                await client._link.progress.wait()
    assert service.rows.total() == 3


async def test_leaving_sends_what_is_held(service) -> None:
    async with AsyncClient(service.address, linger_s=60) as client:
        await observe(client, 3)
    assert service.rows.total() == 3
    with pytest.raises(ConnectionFailed, match="closed"):
        await client.predict("m")


async def test_the_program_goes_on_after_close(service) -> None:
    async with AsyncClient(service.address) as client:
        await observe(client, 3)
        await client.close()
        await anyio.lowlevel.checkpoint()
        assert await client.observe("c", 1, 1, 1.0) is False
        with pytest.raises(ConnectionFailed, match="closed"):
            await client.predict("m")
    assert service.rows.total() == 3
    assert client.stats().rows_dropped == 1


async def test_an_error_of_the_program_leaves_at_once(tmp_path) -> None:
    with pytest.raises(KeyError, match="mine"):  # noqa: PT012
        async with AsyncClient(str(tmp_path / "nobody"), close_s=60) as client:
            await observe(client, 3)
            raise KeyError("mine")


async def test_a_cancelled_program_leaves_at_once(tmp_path) -> None:
    with anyio.move_on_after(0.01) as scope:
        async with AsyncClient(str(tmp_path / "nobody"), close_s=60) as client:
            await client.predict("m", timeout_s=60)
    assert scope.cancelled_caught


async def test_an_error_of_the_service_is_raised_as_its_own_kind(service) -> None:
    async with AsyncClient(service.address) as client:
        with pytest.raises(UnknownComponent) as caught:
            await client.predict("unknown")
    assert caught.value.field == "component"
    assert not caught.value.retry


async def test_a_question_is_asked_again_after_a_cut(service) -> None:
    service.mute_after = [20]
    async with AsyncClient(service.address) as client:
        assert (await client.predict("m")).observations == 3
        assert client.stats().connections == 2


async def test_a_forgotten_component_is_forgotten_once_through_a_cut(service) -> None:
    async with AsyncClient(service.address) as client:
        size = len(str(await client.hello()))
        service.stop()
        service.mute_after = [size + 100]
        service.start()
        await client.forget("c")
    assert service.forgotten == ["c"]


async def test_a_full_buffer_drops_the_newest(tmp_path) -> None:
    async with AsyncClient(str(tmp_path / "nobody"), buffer_rows=10, batch_rows=3, close_s=0.0) as client:
        taken = [await client.observe("c", 1, 1, 1.0 + i) for i in range(15)]
        assert taken == [True] * 10 + [False] * 5
        assert client.stats().rows_dropped == 5
        assert await client.observe_rows([["c", 1, 1, 1.0]]) == 0


async def test_a_row_is_taken_whether_observe_is_awaited_or_not(service) -> None:
    async with AsyncClient(service.address) as client:
        for i in range(994):  # as a plain callback does
            client.observe("c", 1, 1, 1.0 + i)
        assert client.observe("c", 1, 1, 2000.0)
        taken = client.observe_rows([["c", 1, 1, 3000.0]] * 5)
        assert (int(taken), await taken, await taken) == (5, 5, 5)
        assert (await client.status())["rows"] == 1000


async def test_rows_that_wait_for_room_and_are_not_awaited_are_counted(service) -> None:
    async with AsyncClient(service.address, buffer_rows=10, batch_rows=2, when_full="block") as client:
        for i in range(30):
            client.observe("c", 1, 1, 1.0 + i)
        assert client.stats().rows_dropped == 20
        waits = client.observe_rows([["c", 1, 1, 100.0 + i] for i in range(15)])
        assert not waits
        assert await waits == 15
        stats = await client.flush()
    assert (service.rows.total(), stats.rows_accepted, stats.rows_dropped) == (25, 25, 20)


async def test_who_is_greeted_and_turned_away_comes_back_ever_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []
    enough = asyncio.Event()

    def backoff_s(attempt: int) -> float:
        attempts.append(attempt)
        if len(attempts) == 6:
            enough.set()
        return 0.0

    async def turn_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        [hello] = ServerConnection().receive_requests(await reader.read(2**16))
        writer.write(encode_response(hello.msgid, {"sequence": 0}))
        writer.close()

    monkeypatch.setattr(link, "backoff_s", backoff_s)
    async with (
        await asyncio.start_unix_server(turn_away, tmp_path / "s"),
        AsyncClient(str(tmp_path / "s"), close_s=0.0),
    ):
        async with asyncio.timeout(PATIENCE_S):
            await enough.wait()
    assert attempts[:6] == [1, 2, 3, 4, 5, 6]


async def test_a_service_that_hangs_up_late_without_a_greeting_is_reported_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "UNREACHABLE_S", 1e-3)
    looks = anyio.Event()

    async def greet_nobody(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await looks.wait()  # the question has been waited for once by then

    async with await anyio.create_unix_listener(tmp_path / "s") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, greet_nobody)
        async with AsyncClient(str(tmp_path / "s"), close_s=0.0) as client:
            with pytest.raises(NotAnswered, match=r"within 0\.002 s"):
                await client.predict("a", timeout_s=2e-3)
            looks.set()
            with pytest.raises(ConnectionFailed, match="predict was not answered: ") as caught:
                await client.predict("a", timeout_s=PATIENCE_S)
            assert "within" not in str(caught.value)
        group.cancel_scope.cancel()
