"""Bytes that are no protocol: a clear error or a counted refusal, and other clients notice nothing."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import msgpack
import pytest
from live import Peer, refused, rows_of, running

from advisor import Advisor
from advisor.domain import limits

pack = msgpack.packb


# Name -> bytes that break the protocol, the code of the error, the msgid that it answers (None: not known).
VIOLATIONS = {
    "a byte that MessagePack does not use": (b"\xc1", "malformed", None),
    "a number": (pack(7), "malformed", None),
    "an empty array": (pack([]), "malformed", None),
    "a response": (pack([1, 1, None, None]), "malformed", None),
    "an unknown kind": (pack([9, 1, "status", []]), "malformed", None),
    "a msgid that is text": (pack([0, "1", "status", []]), "malformed", None),
    "a method that is a number": (pack([0, 5, 5, []]), "malformed", 5),
    "parameters that are a map": (pack([0, 6, "status", {}]), "malformed", 6),
    "an extension type": (pack([0, 7, "status", [msgpack.ExtType(5, b"x")]]), "malformed", 7),
    "a timestamp": (b"\x94\x00\x08\xa6status\x91" + b"\xd6\xff" + bytes(4), "malformed", 8),
    "bad UTF-8": (b"\x94\x00\x09\xa2\xff\xfe\x90", "malformed", 9),
    "very deep nesting": (b"\x94\x00\x0a\xa7predict" + b"\x91" * 600 + b"\xc0", "too_large", 10),
    "nesting beyond the limit": (b"\x94\x00\x0b\xa7predict" + b"\x91" * 40 + b"\xc0", "too_large", 11),
    "an extension of four gigabytes": (b"\x94\x00\x10\xa7predict\xc9" + b"\xff" * 4 + b"\x01", "malformed", 16),
}

# Name -> a request that is refused by itself: its connection lives on.
REFUSALS = {
    "an unknown method": (["no_such_method"], "unknown_method"),
    "a reserved method": (["merge", {}], "unsupported"),
    "an unknown key": (["predict", {"component": "c0", "core": 2}], "unknown_key"),
    "a missing key": (["predict", {}], "invalid"),
    "too many values": (["predict", "c0", 1, 1, 1, 1], "invalid"),
    "a component that is a number": (["predict", 5, 1, 1], "invalid"),
    "cores of NaN": (["predict", "c0", 1, float("nan")], "invalid"),
    "cores of infinity": (["predict", "c0", 1, float("inf")], "invalid"),
    "a predictor that is text": (["predict", "c0", "1", 1], "invalid"),
    "rows that are no array": (["observe_rows", {"rows": 5}], "invalid"),
    "a sequence without producer": (["observe_rows", {"rows": [], "sequence": 1}], "invalid"),
    "a sequence of zero": (["observe_rows", {"rows": [], "producer": "p", "sequence": 0}], "invalid"),
    "a short incarnation": (
        ["observe_rows", {"rows": [], "producer": "p", "sequence": 1, "incarnation": b"1"}],
        "invalid",
    ),
    "columns of uneven length": (
        ["observe_columns", {"components": ["a"], "index": bytes(8), "cores": bytes(8), "elapsed_s": bytes(16)}],
        "invalid",
    ),
    "a column of half numbers": (
        ["observe_columns", {"components": ["a"], "index": bytes(4), "cores": bytes(7), "elapsed_s": bytes(8)}],
        "invalid",
    ),
    "an index beyond the names": (
        ["observe_columns", {"components": ["a"], "index": b"\xff" * 4, "cores": bytes(8), "elapsed_s": bytes(8)}],
        "unknown_name_id",
    ),
    "more rows than a batch may have": (
        [
            "observe_columns",
            {
                "components": ["a"],
                "index": bytes(4 * (limits.ROWS_BATCH_MAX + 1)),
                "cores": bytes(8 * (limits.ROWS_BATCH_MAX + 1)),
                "elapsed_s": bytes(8 * (limits.ROWS_BATCH_MAX + 1)),
            },
        ],
        "too_large",
    ),
    "a forget that keeps more than all": (["forget", {"component": "c0", "keep": 2.0}], "invalid"),
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


@pytest.mark.parametrize("kind", REFUSALS)
async def test_a_refused_request_leaves_its_connection_alive(tmp_path: Path, kind: str) -> None:
    (method, *params), code = REFUSALS[kind]
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(60)})
        error = await refused(code, peer.call(method, *params))
        assert error.message
        await serves(peer)
        totals = (await peer.call("status", {}))["totals"]
        assert totals["rows_accepted"] == 60


# Name -> the beginning of a message that announces more than any message may hold.
LIES = {
    "an array of four billion": b"\x94\x00\x0c\xa7predict\xdd" + b"\xff" * 4,
    "a map of four billion": b"\x94\x00\x0d\xa7predict\xdf" + b"\xff" * 4,
    "a text of four gigabytes": b"\x94\x00\x0e\xa7predict\xdb" + b"\xff" * 4,
    "a bin of four gigabytes": b"\x94\x00\x0f\xa7predict\xc6" + b"\xff" * 4,
}

BAD_ROWS = {
    "not a row": (5, "invalid_row"),
    "short": (["c0", 1.0, 1.0], "invalid_row"),
    "long": (["c0", 1.0, 1.0, 1.0, {}, 1], "invalid_row"),
    "a name that is a number": ([5, 1.0, 1.0, 1.0], "invalid_row"),
    "an empty name": (["", 1.0, 1.0, 1.0], "invalid_name"),
    "a name of 201 bytes": (["x" * 201, 1.0, 1.0, 1.0], "invalid_name"),
    "a name with a control character": (["a\nb", 1.0, 1.0, 1.0], "invalid_name"),
    "a predictor of NaN": (["c0", float("nan"), 1.0, 1.0], "invalid_predictor"),
    "a predictor below zero": (["c0", -1.0, 1.0, 1.0], "invalid_predictor"),
    "a predictor of 1e300": (["c0", 1e300, 1.0, 1.0], "invalid_predictor"),
    "no cores": (["c0", 1.0, 0.0, 1.0], "invalid_cores"),
    "cores of infinity": (["c0", 1.0, float("inf"), 1.0], "invalid_cores"),
    "no time": (["c0", 1.0, 1.0, 0.0], "invalid_elapsed_s"),
    "a time below zero": (["c0", 1.0, 1.0, -1.0], "invalid_elapsed_s"),
    "a time of NaN": (["c0", 1.0, 1.0, float("nan")], "invalid_elapsed_s"),
    "an unknown field": (["c0", 1.0, 1.0, 1.0, {"color": 1}], "unknown_key"),
    "a count of zero": (["c0", 1.0, 1.0, 1.0, {"count": 0}], "invalid_count"),
    "five dimensions": (["c0", [1.0] * 5, 1.0, 1.0], "invalid_row"),
    "dimensions that the predictor has not": (["c0", [1.0, 2.0], 1.0, 1.0, {"dimensions": 3}], "invalid_row"),
    "a second value of NaN": (["c0", [1.0, float("nan")], 1.0, 1.0], "invalid_predictor"),
    "an array in a predictor": (["c0", [1.0, [2.0]], 1.0, 1.0], "invalid_row"),
    "a machine without name": (["c0", 1.0, 1.0, 1.0, {"machine": ""}], "invalid_machine"),
    "a machine that is a number": (["c0", 1.0, 1.0, 1.0, {"machine": 5}], "invalid_row"),
    "less than no memory": (["c0", 1.0, 1.0, 1.0, {"measures": {"peak_bytes": -1}}], "invalid_measure"),
    "energy without end": (["c0", 1.0, 1.0, 1.0, {"measures": {"energy_j": float("inf")}}], "invalid_measure"),
    "true for cores": (["c0", 1.0, True, 1.0], "invalid_row"),
}


async def test_bad_rows_are_refused_one_by_one_and_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        good = rows_of(20)
        for kind, (row, code) in BAD_ROWS.items():
            receipt = await peer.call("observe_rows", {"rows": [*good, row]})
            assert receipt["accepted"] == 20, kind
            assert receipt["refused"]["by_code"] == {code: 1}, kind
            assert receipt["refused"]["first"][0][:2] == [20, code], kind
        mixed = await peer.call("observe_rows", {"rows": [row for row, _ in BAD_ROWS.values()] * 50})
        assert mixed["accepted"] == 0
        assert mixed["refused"]["count"] == 50 * len(BAD_ROWS)
        assert len(mixed["refused"]["first"]) == limits.FIRST_REFUSALS
        library = Advisor()  # has seen the good rows alone
        for component, x, p, t in good * len(BAD_ROWS):
            library.observe(component, predictor=x, cores=p, elapsed_s=t)
        answer = await peer.call("predict", "c0", 4.0, 2)
        assert answer == library.predict("c0", predictor=4.0, cores=2).as_dict()


async def test_garbage_never_hurts(tmp_path: Path) -> None:
    """Random bytes, and valid streams with random damage: each connection ends or is answered; a witness lives on."""
    rng = random.Random(5)
    stream = b"".join(
        pack([0, i, method, params])
        for i, (method, params) in enumerate(
            [
                ("hello", [{"producer": "g"}]),
                ("observe_rows", [{"rows": rows_of(5)}]),
                ("names", [0, ["a", "b"]]),
                ("predict", ["c0", 1, [1, 2]]),
                ("status", [{"components": True}]),
            ]
        )
    )
    async with running(tmp_path) as live:
        witness = await live.peer()
        await witness.call("observe_rows", {"rows": rows_of(60)})
        for trial in range(120):
            data = bytearray(stream) if trial % 3 else bytearray(rng.randbytes(200))
            for _ in range(trial % 3):
                data[rng.randrange(len(data))] = rng.randrange(256)
            peer = await live.peer()
            peer.writer.write(bytes(data))
            peer.writer.write_eof()
            for message in await peer.closed():
                assert message[0] == 1
        await serves(witness)


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
