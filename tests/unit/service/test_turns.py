"""Fair folding: turns go round by identity and connection, whatever is queued."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from live import Live, Peer, rows_of, running

from advisor.protocol.connection import ServerConnection
from advisor.service import http, questions
from advisor.service.turns import Rounds

PATHS = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"))


@given(st.dictionaries(PATHS, st.integers(1, 9), min_size=1))
def test_each_who_waits_is_served_as_often_as_the_others_of_its_level(queues: dict[tuple[str, str], int]) -> None:
    rounds: Rounds[tuple[str, str, int]] = Rounds()
    for (grant, producer), length in queues.items():
        for number in range(length):
            rounds.push_work((grant, producer), (grant, producer, number))
    order = [rounds.pop_next() for _ in range(rounds.count)]
    assert rounds.count == 0
    for path, length in queues.items():
        assert [number for *own, number in order if tuple(own) == path] == list(range(length))
    for level in (0, 1):
        for mine, others in itertools.permutations({path[: level + 1] for path in queues}, 2):
            if mine[:level] == others[:level]:
                turns = [own[: level + 1] for own in order]
                until = min(len(turns) - 1 - turns[::-1].index(each) for each in (mine, others))  # both wait up to here
                served = [turns[: until + 1].count(each) for each in (mine, others)]
                assert abs(served[0] - served[1]) <= 1


async def fill(peer: Peer, producer: str, batches: int) -> list[int]:
    """Send many batches without waiting for an answer."""
    return [
        await peer.post("observe_rows", {"producer": producer, "sequence": n + 1, "rows": rows_of(100)})
        for n in range(batches)
    ]


@pytest.mark.parametrize("connections", [1, 3])
async def test_who_sends_much_does_not_keep_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connections: int
) -> None:
    """Each turn takes one batch: of two producers' batches, whoever sent many gets one turn before the other's."""
    monkeypatch.setattr("advisor.service.connection.SLICE_S", 0.0)
    monkeypatch.setattr("advisor.service.connection.NOTABLE_S", -1.0)
    async with running(tmp_path) as live:
        other = await live.peer()
        await other.call("observe_rows", {"producer": "one", "sequence": 1, "rows": rows_of(100)})
        greedy = [(await live.peer(), f"many-{i}") for i in range(connections)]
        for peer, producer in greedy:
            await fill(peer, producer, 300)
        await other.call("observe_rows", {"producer": "one", "sequence": 2, "rows": rows_of(100)})
        totals = (await other.call("status", {}))["totals"]
        assert totals["rows_accepted"] < 100 * (2 + 300 * connections)
        for peer, _ in greedy:
            await peer.answer(299)
        assert (await other.call("status", {}))["totals"]["rows_accepted"] == 100 * (2 + 300 * connections)


def counted(patch: pytest.MonkeyPatch, where: Any, name: str) -> list[Any]:
    """Have the calls of a function noted."""
    calls: list[Any] = []
    original: Callable[..., Any] = getattr(where, name)

    def noted(*args: Any, **more: Any) -> Any:
        calls.append(args)
        return original(*args, **more)

    patch.setattr(where, name, noted)
    return calls


async def stranger(live: Live) -> Peer:
    """Return a peer of another identity than those of the Unix socket."""
    assert live.bound.tcp is not None
    live.peers.append(Peer(*await asyncio.open_connection(*live.bound.tcp)))
    return live.peers[-1]


async def beside(honest: Peer, sequence: int, calls: list[Any]) -> int:
    """Wait until some call is made, then for an acknowledgement; return the calls meanwhile."""
    while not calls:
        await anyio.sleep(0)
    before = len(calls)
    await honest.call("observe_rows", {"producer": "one", "sequence": sequence, "rows": rows_of(10)})
    return len(calls) - before


BOTH = {"tcp": "127.0.0.1:0", "http": "127.0.0.1:0"}


async def test_questions_of_many_connections_do_not_keep_another_identity_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = counted(monkeypatch, questions, "status")
    async with running(tmp_path, **BOTH, socket=tmp_path / "s") as live:
        honest = await live.peer()
        await honest.call("observe_rows", {"producer": "one", "sequence": 1, "rows": rows_of(200, 200)})
        asked = [(peer, [await peer.post("status", {"components": True, "limit": 200}) for _ in range(8)])
                 for peer in [await stranger(live) for _ in range(20)]]  # fmt: skip
        assert await beside(honest, 2, slices) < 40  # of 2,000: each loop of all tasks would be 160 of them
        for peer, numbers in asked:
            for number in numbers:
                assert len((await peer.answer(number))["components"]) == 200


async def test_what_many_connections_send_at_once_is_decoded_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.service.turns.OUT_OF_TURN_S", 0.0)
    monkeypatch.setattr("advisor.service.connection.NOTABLE_S", -1.0)
    async with running(tmp_path, **BOTH, socket=tmp_path / "s") as live:
        honest = await live.peer()
        greedy = [await stranger(live) for _ in range(30)]
        decoded = counted(monkeypatch, ServerConnection, "receive_requests")
        for i, peer in enumerate(greedy):  # all of it is readable at once
            batch = {"producer": f"many-{i}", "sequence": 1, "rows": rows_of(100)}
            peer.writer.write(msgpack.packb([0, 0, "observe_rows", [batch]]))
        await honest.call("observe_rows", {"producer": "one", "sequence": 1, "rows": rows_of(10)})
        assert len(decoded) < 15
        for peer in greedy:
            assert (await peer.answer(0))["sequence"] == 1


async def test_peers_that_never_read_their_scrapes_are_answered_in_turns_and_no_more_than_is_buffered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = counted(monkeypatch, http, "choose_encoder")
    request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"
    options = {**BOTH, "socket": tmp_path / "s"}
    with contextlib.ExitStack() as closing:
        async with running(tmp_path, **options) as live:
            honest = await live.peer()
            deaf = [closing.enter_context(socket.socket()) for _ in range(40)]
            for each in deaf:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**12)
                each.setblocking(False)
                await asyncio.get_running_loop().sock_connect(each, live.bound.http)
                each.send(request * 400)
            assert await beside(honest, 1, answered) < 20
            before = -1
            while before < len(answered):
                before = len(answered)
                for _ in range(100):
                    await honest.call("status", {"components": False})
            size = len(await asyncio.to_thread(scraped, live))
            assert len(deaf) <= len(answered) <= len(deaf) * ((2 * http.UNREAD_BYTES + 2**17) // size + 2)


def scraped(live: Live) -> bytes:
    assert live.bound.http is not None
    with socket.create_connection(tuple(live.bound.http)) as one:
        one.sendall(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        return b"".join(iter(lambda: one.recv(2**16), b""))
