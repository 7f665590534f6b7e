"""Small batches on the short way: told, numbered, refused and made durable as on the long one, and folded together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest
from live import Live, Peer, refused, rows_of, running

from advisor.domain import limits
from advisor.engine import Engine
from advisor.protocol.plain import FEW_ROWS, encode_accepted
from advisor.protocol.rows import columns_of_rows
from advisor.service import learning
from advisor.storage import Store

FIRST = {"producer": "p", "sequence": 1, "rows": rows_of(30)}


async def numbered(live: Live) -> Peer:
    """Return a peer whose producer is known."""
    peer = await live.peer()
    await peer.call("observe_rows", FIRST)
    return peer


async def status(peer: Peer) -> dict[str, Any]:
    return (await peer.call("status", {}))["totals"]


@pytest.mark.parametrize("state", [False, True])
async def test_the_answer_is_that_of_the_long_way(tmp_path: Path, state: bool) -> None:
    async with running(tmp_path, **({"state": tmp_path / "state"} if state else {})) as live:
        peer = await numbered(live)
        for number, rows in ((2, 1), (3, FEW_ROWS), (4, FEW_ROWS + 1)):
            answer = await peer.call("observe_rows", {"producer": "p", "sequence": number, "rows": rows_of(rows)})
            refusals = {"count": 0, "by_code": {}, "first": []}
            assert answer == {"accepted": rows, "refused": refusals, "sequence": number}


@pytest.mark.parametrize(("msgid", "sequence"), [(0, 1), (37, 37), (127, 128), (2**32 - 1, 2**63 - 1)])
@pytest.mark.parametrize("rows", range(FEW_ROWS + 1))
def test_the_answer_s_bytes_are_messagepack(msgid: int, rows: int, sequence: int) -> None:
    told = {"accepted": rows, "refused": {"count": 0, "by_code": {}, "first": []}, "sequence": sequence}
    assert msgpack.unpackb(encode_accepted(msgid, rows, sequence)) == [1, msgid, None, told]


async def test_a_defect_of_ours_ends_the_connection_rather_than_keeping_its_peer_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also behind the first turn of the loop, where asyncio only logs what a callback raises."""
    monkeypatch.setattr(limits, "UNANSWERED_MAX", 4)
    monkeypatch.setattr(
        learning, "encode_accepted", lambda msgid, rows, at: encode_accepted(msgid, rows // abs(9 - at), at)
    )
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await numbered(live)
        batches = [{"producer": "p", "sequence": n, "rows": rows_of(37)} for n in range(2, 12)]
        await peer.send(b"".join(msgpack.packb([0, 1000 + b["sequence"], "observe_rows", [b]]) for b in batches))
        said = await peer.closed()
        assert [message[1] for message in said] == [1002, 1003, 1004, 1005]
        other = await live.peer()
        durable = (await other.call("hello", {"producer": "p"}))["sequence"]
        assert (await other.call("observe_rows", batches[7]))["sequence"] == 9
        assert durable <= 9


async def test_a_question_sees_the_rows_that_were_sent_before_it(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await numbered(live)
        before = (await peer.call("predict", "c0", 3, 2))["observations"]
        sent = [
            await peer.post("observe_rows", {"producer": "p", "sequence": n, "rows": [["c0", 3.0, 2, 0.5]]})
            for n in range(2, 22)
        ]
        assert (await peer.call("predict", "c0", 3, 2))["observations"] == before + 20
        for number, msgid in enumerate(sent, 2):
            assert (await peer.answer(msgid))["sequence"] == number


ODD = [
    [["c0", -1.0, 2.0, 0.5]], [["c0", 3.0, 2.0, float("nan")]], [["c0", 3.0, 0.0, 0.5]], [["c0", 3.0, 2.0, 0.0]],
    [["c0", "3", 2.0, 0.5]], [["c0", True, 2.0, 0.5]], [["c0", 3.0, 2.0]], [["c0", 3.0, 2.0, 0.5, {"count": 0}]],
    [[7, 3.0, 2.0, 0.5]], [["", 3.0, 2.0, 0.5]], [["c0", [3.0, 4.0], 2.0, 0.5]], ["c012"], [{"a": 1}], [None],
    [["c0", 3.0, 2.0, 0.5], ["c0", 3.0, 2.0, -1.0]],
]  # fmt: skip


@pytest.mark.parametrize("rows", ODD, ids=repr)
async def test_what_is_not_plain_is_refused_row_by_row_as_ever(tmp_path: Path, rows: list[Any]) -> None:
    async with running(tmp_path) as live:
        peer = await numbered(live)
        answer = await peer.call("observe_rows", {"producer": "p", "sequence": 2, "rows": rows})
        assert answer["refused"]["count"] == 1
        assert answer["accepted"] == len(rows) - 1
        assert answer["refused"]["first"][0][0] == len(rows) - 1
        totals = await status(peer)
        assert (totals["rows_accepted"], totals["rows_refused"]) == (30 + len(rows) - 1, 1)


async def test_rows_of_new_components_vectors_and_none_are_learned(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await numbered(live)
        odd = [["new", 3.0, 2.0, 0.5], ["c1", None, 2.0, 0.5], ["v", [1.0, 2.0], 2, 0.5], ["c1", 3, 2, 1, {"count": 2}]]
        for number, row in enumerate(odd, 2):
            answer = await peer.call("observe_rows", {"producer": "p", "sequence": number, "rows": [row]})
            assert answer["accepted"] == 1


async def test_a_component_that_got_two_predictors_anew_takes_no_plain_row(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await numbered(live)
        one = {"producer": "p", "rows": [["c0", 3.0, 2.0, 0.5]]}
        assert (await peer.call("observe_rows", one | {"sequence": 2}))["accepted"] == 1
        await peer.call("forget", {"component": "c0"})
        vector = {"producer": "p", "rows": [["c0", [3.0, 4.0], 2.0, 0.5]]}
        taken = (await peer.call("observe_rows", vector | {"sequence": 3}))["accepted"]
        assert (await peer.call("observe_rows", one | {"sequence": 4}))["accepted"] == 1 - taken


async def test_numbers_are_as_exact_as_ever(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await numbered(live)
        row = {"producer": "p", "rows": rows_of(1)}
        await peer.call("observe_rows", row | {"sequence": 2})
        assert (await peer.call("observe_rows", row | {"sequence": 2}))["replayed"]
        assert (await refused("sequence_gap", peer.call("observe_rows", row | {"sequence": 4}))).bound == 3
        await refused("invalid", peer.call("observe_rows", row | {"sequence": True}))
        await refused("unknown_key", peer.call("observe_rows", row | {"sequence": 3, "nonsense": 1}))
        await refused("invalid", peer.call("observe_rows", row | {"sequence": 3, "incarnation": b"short"}))
        newer = await live.peer()
        assert (await newer.call("hello", {"producer": "p"}))["sequence"] == 2
        await refused("unavailable", peer.call("observe_rows", row | {"sequence": 3}))
        assert (await newer.call("observe_rows", row | {"sequence": 3}))["accepted"] == 1
        totals = await status(newer)
        assert (totals["rows_accepted"], totals["batches_replayed"], totals["gaps"]) == (32, 1, 1)


async def test_each_of_many_in_one_read_has_its_own_answer_and_all_are_durable(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await numbered(live)
        wanted = range(2, 200)
        rows = {number: 1 + number % 3 for number in wanted}
        batches = [{"producer": "p", "sequence": n, "rows": rows_of(rows[n], start=n)} for n in wanted]
        await peer.send(b"".join(msgpack.packb([0, 1000 + b["sequence"], "observe_rows", [b]]) for b in batches))
        for number in wanted:
            answer = await peer.answer(1000 + number)
            assert (answer["accepted"], answer["sequence"]) == (rows[number], number)
        with Store.open(tmp_path / "state", read_only=True) as reader:
            stored = reader.load()
    assert stored is not None
    again = Engine.restore(stored)
    one_by_one = Engine()
    for each in (FIRST, *batches):
        one_by_one.apply(("p", bytes(16)), each["sequence"], columns_of_rows(each["rows"]))
    assert again.applied("p", bytes(16)) == 199
    assert again.advisor.to_bytes() == one_by_one.advisor.to_bytes()


@pytest.mark.parametrize("rows", [1, 100])
def test_what_cannot_be_folded_is_never_acknowledged(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    engine.apply(("p", bytes(16)), 1, columns_of_rows(rows_of(30)))
    engine.commits.keep_journal()
    assert engine.take_rows(("p", bytes(16)), 2, [["c0", 1.0, 1.0, 1.0]] * rows)
    monkeypatch.setattr(engine.advisor, "fold_plain", lambda _: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            engine.commits.take_entry()
    with pytest.raises(ZeroDivisionError):
        engine.commits.image()
