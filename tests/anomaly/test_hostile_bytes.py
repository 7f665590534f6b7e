"""Bytes that are no protocol: a clear error or a counted refusal, and other clients notice nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import msgpack
import pytest
from live import Peer, rows_of, running

pack = msgpack.packb


# Name -> bytes that break the protocol, the code of the error, the msgid that it answers (None: not known).
VIOLATIONS = {  # all others: tests/unit/protocol/test_connection.py
    "a byte that MessagePack does not use": (b"\xc1", "malformed", None),
    "an extension type": (pack([0, 7, "status", [msgpack.ExtType(5, b"x")]]), "malformed", 7),
    "very deep nesting": (b"\x94\x00\x0a\xa7predict" + b"\x91" * 600 + b"\xc0", "too_large", 10),
}


async def serves(peer: Peer) -> None:
    """Another client notices nothing."""
    assert (await peer.call("predict", "c0", 4.0, 2))["observations"] > 0


@pytest.mark.parametrize("kind", VIOLATIONS)
async def test_a_violation_is_answered_and_closes_its_connection_only(tmp_path: Path, kind: str) -> None:
    data, code, msgid = VIOLATIONS[kind]
    async with running(tmp_path) as live:
        witness, peer = await live.peer(), await live.peer()
        await witness.call("observe_rows", {"rows": rows_of(60)})
        await peer.send(pack([0, 77, "predict", ["c0", 4.0, 2]]) + data + pack([0, 78, "status", [{}]]))
        first, last, *more = await peer.closed()
        assert first[1] == 77
        assert first[2] is None
        assert last[:2] == [1, msgid]
        assert last[2]["code"] == code
        assert not more
        await serves(witness)


# Name -> the beginning of a message that announces more than any message may hold.
LIES = {
    "an array of four billion": b"\x94\x00\x0c\xa7predict\xdd" + b"\xff" * 4,
    "a map of four billion": b"\x94\x00\x0d\xa7predict\xdf" + b"\xff" * 4,
    "a text of four gigabytes": b"\x94\x00\x0e\xa7predict\xdb" + b"\xff" * 4,
    "a bin of four gigabytes": b"\x94\x00\x0f\xa7predict\xc6" + b"\xff" * 4,
}


async def test_a_stream_cut_at_any_byte_is_the_same_stream(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(60)})
        request = pack([0, 900, "predict", ["c0", 4.0, 2]])
        whole = await peer.call("predict", "c0", 4.0, 2)
        for cut in range(1, len(request)):
            await peer.send(request[:cut])
            await peer.send(request[cut:])
            assert await peer.answer(900) == whole


@pytest.mark.parametrize("head", LIES)
async def test_a_length_beyond_all_limits_waits_for_nothing(tmp_path: Path, head: str) -> None:
    """What can never become a message is refused when it is met, or dropped when it stalls."""
    async with running(tmp_path, stall_s=0.2) as live:
        witness, peer = await live.peer(), await live.peer()
        await witness.call("observe_rows", {"rows": rows_of(60)})
        await peer.send(LIES[head])
        await peer.closed()
        await serves(witness)


async def test_length_prefixes_that_lie_are_not_believed(tmp_path: Path) -> None:
    """A header that announces what never comes costs nothing: 200 connections announce 8 MiB each."""
    async with running(tmp_path, connections_max=400) as live:
        witness = await live.peer()
        await witness.call("observe_rows", {"rows": rows_of(60)})
        for _ in range(200):
            peer = await live.peer()
            await peer.send(b"\x94\x00\x01\xaaobserve_ro\x91\x81\xa5index\xc6" + struct.pack(">I", 8 * 2**20))
        await serves(witness)
