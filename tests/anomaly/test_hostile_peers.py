"""Peers that break the protocol, stall, flood, crowd or never read: bounded memory, and other clients notice nothing."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import msgpack
import pytest
from live import PATIENCE_S, Live, Peer, refused, resident_bytes, rows_of, running

from advisor.client import AsyncClient
from advisor.domain import limits
from advisor.service import peers, producers

pack = msgpack.packb


async def taught(live: Live) -> Peer:
    witness = await live.peer()
    await witness.call("observe_rows", {"rows": rows_of(60)})
    return witness


async def serves(peer: Peer) -> None:
    assert (await peer.call("predict", "c0", 4.0, 2))["observations"] == 20


# Bytes that break the protocol, the code of the error, and the msgid that it answers; others: unit/protocol/test_connection.py.
VIOLATIONS: dict[str, tuple[bytes, str, int | None]] = {
    "a byte that MessagePack does not use": (b"\xc1", "malformed", None),
    "an extension type": (pack([0, 7, "status", [msgpack.ExtType(5, b"x")]]), "malformed", 7),
    "very deep nesting": (b"\x94\x00\x0a\xa7predict" + b"\x91" * 600 + b"\xc0", "too_large", 10),
}


@pytest.mark.parametrize("kind", VIOLATIONS)
async def test_a_violation_is_answered_and_closes_its_connection_only(tmp_path: Path, kind: str) -> None:
    data, code, msgid = VIOLATIONS[kind]
    async with running(tmp_path) as live:
        witness, peer = await taught(live), await live.peer()
        await peer.send(pack([0, 77, "predict", ["c0", 4.0, 2]]) + data + pack([0, 78, "status", [{}]]))
        first, last = await peer.closed()
        assert first[1:3] == [77, None]
        assert (last[:2], last[2]["code"]) == ([1, msgid], code)
        await serves(witness)


@pytest.mark.parametrize(
    "head",
    [b"\x94\x00", *(b"\x94\x00\x0c\xa7predict" + kind + b"\xff" * 4 for kind in (b"\xdd", b"\xdf", b"\xdb", b"\xc6"))],
)
async def test_what_stalls_inside_a_message_is_dropped(tmp_path: Path, head: bytes) -> None:
    """Also arrays, maps, texts and binaries that announce four billion items or bytes: refused when met, or dropped."""
    async with running(tmp_path, stall_s=0.1) as live:
        witness = await taught(live)
        peer = await live.peer()
        await peer.send(head)
        assert all(message[2] for message in await peer.closed())
        await serves(witness)  # who is idle between messages is left alone


async def test_a_peer_that_does_not_read_is_dropped_and_costs_bounded_memory(tmp_path: Path) -> None:
    """It asks for 200 answers of 1 MB each and reads none."""
    async with running(tmp_path, stall_s=0.3) as live:
        witness = await taught(live)
        peer = await live.peer(limit=1024)  # what its own buffer takes
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        before = resident_bytes()
        points = [float(1 + i % 7) for i in range(20_000)]
        request = pack([0, 1, "predict", [{"component": "c0", "predictor": points, "cores": 2}]])
        peer.writer.write(request * 200)
        while peer.writer.transport.get_write_buffer_size():  # until the service has dropped it
            await serves(witness)
            if peer.writer.transport.is_closing():
                break
        assert resident_bytes() - before < 100 * 2**20
        await serves(witness)


async def test_at_the_limit_of_connections_the_one_that_stalls_gives_way(tmp_path: Path) -> None:
    async with running(tmp_path, connections_max=20) as live:
        witness = await taught(live)
        for _ in range(100):
            peer = await live.peer()
            await peer.send(b"\x94\x00")
        newcomer = await live.peer()
        await serves(newcomer)
        await serves(witness)


async def test_beyond_the_limit_of_connections_a_newcomer_is_turned_away(tmp_path: Path) -> None:
    async with running(tmp_path, connections_max=3) as live:
        witness = await taught(live)
        others = [await live.peer() for _ in range(2)]
        for other in others:
            await other.call("status", {})
        assert await (await live.peer()).closed() == []
        others[0].close()
        await serves(witness)
        await serves(await live.peer())


async def test_half_sent_megabytes_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 connections hold back 4 MiB each: beyond the bound the oldest go, the service stays."""
    monkeypatch.setattr(peers, "PEER_BYTES_MAX", 16 * 2**20)
    head = b"\x94\x00\x01\xafobserve_columns\x91\x81\xa5index\xc6" + (7 * 2**20).to_bytes(4, "big")
    async with running(tmp_path) as live:
        witness = await taught(live)
        ends = []
        for _ in range(40):
            peer = await live.peer()
            peer.writer.write(head + bytes(4 * 2**20))
            ends.append(asyncio.create_task(peer.closed()))
        waiting = set(ends)
        while len(waiting) > 16 // 4:
            done, waiting = await asyncio.wait(waiting, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            assert done
            assert all(end.result() == [] for end in done)
            await serves(witness)
        for peer in live.peers:
            peer.close()
        await asyncio.gather(*waiting)


async def test_numbered_names_of_a_connection_are_bounded(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        for start in range(0, limits.NAME_IDS_MAX, 500):
            await peer.call("names", start, [f"n{start + i}" for i in range(500)])
        error = await refused("too_large", peer.call("names", limits.NAME_IDS_MAX, ["one more"]))
        assert error.bound == limits.NAME_IDS_MAX


async def test_producers_are_bounded_and_those_that_speak_keep_their_place(tmp_path: Path) -> None:
    async with running(tmp_path, producers_max=5) as live:
        peer = await live.peer()
        for number in range(5):
            await peer.call("observe_rows", {"producer": f"p{number}", "sequence": 1, "rows": []})
        newcomer = {"producer": "q", "sequence": 1, "rows": []}
        error = await refused("unavailable", peer.call("observe_rows", newcomer))
        assert (error.bound, error.retry) == (5, True)
        await peer.call("hello", {"producer": "p3", "retire": True})
        await peer.call("observe_rows", newcomer)
        assert (await peer.call("status", {}))["service"]["producers"] == 5


async def test_the_producer_that_is_silent_longest_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "SPARED_S", 0.0)
    async with running(tmp_path, producers_max=5) as live:
        speaks = await live.peer()
        await speaks.call("observe_rows", {"producer": "speaks", "sequence": 1, "rows": []})
        for number in range(12):
            peer = await live.peer()
            await peer.call("observe_rows", {"producer": f"p{number}", "sequence": 1, "rows": rows_of(1)})
            peer.close()
            while (await speaks.call("status", {}))["service"]["connections"] > 1:
                pass
        assert (await speaks.call("hello", {"producer": "speaks"}))["sequence"] == 1
        known = [(await speaks.call("hello", {"producer": f"p{number}"}))["sequence"] for number in range(12)]
        assert known == [0] * 8 + [1] * 4


async def test_client_objects_without_number_leave_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path, producers_max=3, state=tmp_path / "state") as live:
        witness = await live.peer()
        for number in range(20):
            async with AsyncClient(str(live.bound.socket)) as client:
                await client.observe("c0", 1.0, 1, 1.0 + number)
            status = await witness.call("status", {})
            assert status["service"]["producers"] == 0, "a client that was closed is still remembered"
        assert status["totals"]["rows_accepted"] == 20


async def test_what_peers_make_the_service_keep_has_one_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and lists of names by the megabyte, from many connections: beyond it they are refused, others are served."""
    monkeypatch.setattr(peers, "PEER_BYTES_MAX", 16 * 2**20)
    async with running(tmp_path) as live:
        witness = await taught(live)
        before = resident_bytes()
        refusals = 0
        for number in range(30):
            peer = await live.peer()
            for first in range(0, 8192, 512):
                answer = await peer.post("names", first, [f"{number} {first + i} {'x' * 180}" for i in range(512)])
                refusals += (await answer_of(peer, answer))[2] is not None
            listed = [f"{number} listed {i} {'x' * 180}" for i in range(512)]
            columns = {"index": b"", "cores": b"", "elapsed_s": b"", "components": listed}
            await peer.call("observe_columns", columns)
            kept = (await witness.call("status", {}))["service"]["peer_memory"]
            assert kept["bytes"] <= kept["bytes_max"] == 16 * 2**20
        assert refusals > 100
        assert resident_bytes() - before < 64 * 2**20
        await serves(witness)
        for peer in live.peers[1:]:
            peer.close()
        while (kept := (await witness.call("status", {}))["service"])["connections"] > 1:
            pass
        assert kept["peer_memory"]["bytes"] == 0


async def test_large_messages_beyond_their_number_wait_for_others_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "LARGE_MESSAGES_MAX", 2)
    async with running(tmp_path) as live:
        witness = await taught(live)
        whole = pack([0, 1, "simulate", [{"graph": {"times": bytes(3 * 2**20)}, "wrong": 0}]])
        halves = [await live.peer() for _ in range(2)]
        for half in halves:
            await half.send(whole[: 2 * 2**20])
        while (await witness.call("status", {}))["service"]["peer_memory"]["bytes"] < 4 * 2**20:
            pass
        third = await live.peer()
        third.writer.write(whole)
        for _ in range(100):  # turns of the loop in which it could be read
            await serves(witness)
        assert (await witness.call("status", {}))["service"]["peer_memory"]["bytes"] < 6 * 2**20
        halves[0].close()
        assert (await answer_of(third, 1))[2]["code"] == "unknown_key"
        await halves[1].send(whole[2 * 2**20 :])
        assert (await answer_of(halves[1], 1))[2]["code"] == "unknown_key"


async def answer_of(peer: Peer, msgid: int) -> list[Any]:
    while (message := await peer.message())[1] != msgid:
        pass
    return message


async def test_producers_that_one_connection_speaks_for_are_bounded(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        witness, peer = await taught(live), await live.peer()
        hellos = b"".join(pack([0, i, "hello", [{"producer": f"p{i}"}]]) for i in range(5 * producers.SPOKEN_MAX))
        peer.writer.write(hellos)
        found = [(await peer.message())[2] for _ in range(5 * producers.SPOKEN_MAX)]
        assert [error["code"] for error in found if error] == ["too_large"] * 4 * producers.SPOKEN_MAX
        peer.close()
        while (service := (await witness.call("status", {}))["service"])["connections"] > 1:
            pass
        assert service["producers_live"] == service["peer_memory"]["bytes"] == 0


async def test_unanswered_requests_stop_the_reading_not_the_service(tmp_path: Path) -> None:
    """10,000 numbered batches are sent without reading one answer; all are answered, each is counted once."""
    async with running(tmp_path, state=tmp_path / "state") as live:
        witness = await taught(live)
        peer = await live.peer()
        count = 10_000
        frames = b"".join(
            pack([0, n, "observe_rows", [{"producer": "p", "sequence": n, "rows": rows_of(1)}]])
            for n in range(1, count + 1)
        )
        peer.writer.write(frames)
        assert [(await peer.message())[1] for _ in range(count)] == list(range(1, count + 1))
        assert (await witness.call("status", {}))["totals"]["rows_accepted"] == 60 + count


async def test_a_peer_that_sends_no_more_is_told_the_end_of_long_answers(tmp_path: Path) -> None:
    """It reads only after its last word was read here: the answers fill the socket's buffers, and some of ours."""
    async with running(tmp_path) as live:
        witness = await taught(live)
        answer = len(pack([1, 1000, None, await witness.call("predict", "c0", 1.0, 1.0)]))
        count, loop = 400_000 // answer, asyncio.get_running_loop()
        silent = socket.socket(socket.AF_UNIX)
        silent.setblocking(False)
        await loop.sock_connect(silent, str(tmp_path / "s"))
        await loop.sock_sendall(
            silent, b"".join(pack([0, 1000 + i, "predict", ["c0", 1.0, 1.0]]) for i in range(count))
        )
        silent.shutdown(socket.SHUT_WR)
        for _ in range(50):  # turns of the loop that it shares with the service
            await serves(witness)
        live.peers.append(Peer(*await asyncio.open_unix_connection(sock=silent)))
        assert len(await live.peers[-1].closed()) == count
