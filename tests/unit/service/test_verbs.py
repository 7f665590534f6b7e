"""The verbs over a real socket: what is asked, what is answered, what is durable when it is."""

from __future__ import annotations

from pathlib import Path

import msgpack
import numpy as np
import pytest
from live import Closed, refused, rows_of, running

from advisor.domain import limits
from advisor.service import questions


async def test_hello_tells_protocol_limits_features_and_the_durable_sequence(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        hello = await peer.call("hello", {"producer": "p"})
        assert hello["protocol"] == 2
        assert hello["limits"]["rows_batch_max"] == 2_048
        assert hello["features"]["learned"] == [
            "count",
            "dimensions",
            "machine",
            "measures",
            "network",
            "entered",
            "replica",
            "active_cores",
            "killed",
        ]
        assert hello["sequence"] == 0
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(5)})
        assert (await peer.call("hello", {"producer": "p"}))["sequence"] == 1
        assert (await peer.call("hello", {"producer": "p", "incarnation": b"x" * 16}))["sequence"] == 0
        for version in (1, 3):
            error = await refused("unsupported", peer.call("hello", {"protocol": version}))
            assert (error.value, error.bound) == (version, 2)
            assert f"version {version}" in str(error)
            assert "version 2" in str(error)


async def test_notifications_are_learned_without_an_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        for row in [*rows_of(50), ["c0", 1.0, 0.0, 1.0]]:
            await peer.send(msgpack.packb([2, "observe", row]))
        await peer.send(msgpack.packb([2, "predict", ["c0", 1, 1]]))
        totals = (await peer.call("status", {}))["totals"]
        assert totals["rows_accepted"] == 50
        assert totals["rows_refused"] == 1


async def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(100)})
        before = await peer.call("predict", "c0", 3, 2)
        await peer.call("observe", "single", 1, 1, 1)
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        assert (await peer.call("hello", {"producer": "p"}))["sequence"] == 1
        assert await peer.call("predict", "c0", 3, 2) == before
        totals = (await peer.call("status", {"components": ["single"]}))["totals"]
        assert totals["rows_accepted"] == 101  # an orderly stop loses not even what has no number


async def test_the_newer_connection_of_a_producer_wins(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        older, newer = await live.peer(), await live.peer()
        batch = {"producer": "p", "sequence": 1, "rows": rows_of(3)}
        await older.call("observe_rows", batch)
        assert (await newer.call("hello", {"producer": "p"}))["sequence"] == 1
        error = await refused("unavailable", older.call("observe_rows", batch | {"sequence": 2}))
        assert "newer connection" in str(error)
        assert (await older.call("observe_rows", {"producer": "q", "sequence": 1, "rows": []}))["accepted"] == 0
        assert (await newer.call("observe_rows", batch | {"sequence": 2}))["sequence"] == 2


async def test_answers_of_many_requests_in_one_read_come_in_order_of_work(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(100)})
        many = b"".join(msgpack.packb([0, 1000 + i, "predict", ["c0", 1 + i % 7, 2]]) for i in range(3000))
        await peer.send(many)
        assert [(await peer.message())[1] for _ in range(3000)] == list(range(1000, 4000))


async def test_a_peer_that_has_sent_all_still_gets_its_answers(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        numbers = [
            await peer.post("observe_rows", {"producer": "p", "sequence": n, "rows": rows_of(4)}) for n in range(1, 6)
        ]
        peer.writer.write_eof()
        for number in numbers:
            assert (await peer.answer(number))["accepted"] == 4
        try:
            await peer.message()
        except Closed:
            return
        raise AssertionError("the connection stays open")


async def test_many_points_are_those_one_by_one_within_a_bound(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(300)})
        x = np.linspace(1.0, 8.0, limits.POINTS_BATCH_MAX).tolist()
        answer = await peer.call("predict", {"component": "c0", "predictor": x, "cores": 3, "level": 0.5})
        keys = ("elapsed_s", "low_s", "high_s", "extrapolates")
        for i in (0, 127, 128, len(x) - 1):
            one = await peer.call("predict", {"component": "c0", "predictor": x[i], "cores": 3, "level": 0.5})
            assert np.allclose([answer[key][i] for key in keys], [one[key] for key in keys], rtol=1e-9)
        assert {len(answer[key]) for key in keys} == {len(x)}
        await refused("too_large", peer.call("predict", {"component": "c0", "predictor": [*x, 1.0]}))
        curve = await peer.call(
            "predict", {"component": "c0", "predictor": 2.0, "cores": [1.0 + i / 9 for i in range(900)]}
        )
        assert len(curve["elapsed_s"]) == 900
        both = await peer.call("predict", {"component": "c0", "predictor": x[:900], "cores": [2.0] * 900})
        assert both["observations"] == 100
        bad = await refused("invalid", peer.call("predict", {"component": "c0", "predictor": [1.0, -1.0]}))
        assert (bad.field, bad.value) == ("predictor", -1.0)
        wide = await refused("invalid", peer.call("predict", {"component": "c0", "predictor": [[1.0, 2.0]]}))
        assert (wide.field, wide.bound) == ("predictor", "1 a point, as the component's first row had")
        unseen = {"component": "nobody", "predictor": [[1.0, 2.0], [3.0]], "prior": True}
        assert len((await peer.call("predict", unseen))["elapsed_s"]) == 2
        rows = [["mm", [float(a), 4.0], 1.0, 1e-3 * a] for a in range(8, 40)]
        await peer.call("observe_rows", {"rows": rows})
        points = [[8.0 + a % 20, 4.0] for a in range(300)]
        vectors = await peer.call("predict", {"component": "mm", "predictor": points})
        assert len(vectors["elapsed_s"]) == 300
        curve = await peer.call("predict", {"component": "mm", "predictor": [8.0, 4.0], "cores": [1.0] * 200})
        assert set(curve["elapsed_s"]) == {vectors["elapsed_s"][0]}


async def test_the_status_of_many_components_is_told_in_turns_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices, reported = list[int](), questions.status
    monkeypatch.setattr(
        questions, "status", lambda advisor, asked: slices.append(asked.limit) or reported(advisor, asked)
    )
    async with running(tmp_path) as live:
        peer, other = await live.peer(), await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(2000, components=300)})
        answer = await peer.call("status", {"components": True, "offset": 5, "limit": 1000})
        assert slices == [questions.STATUS_SLICE] * (1 + 295 // questions.STATUS_SLICE)
        assert [each["component"] for each in answer["components"]] == [f"c{i}" for i in range(5, 300)]
        assert (answer["offset"], answer["components_known"]) == (5, 300)
        assert answer["service"]["connections"] == 2
        one = await other.call("status", {"components": ["c7"]})
        assert one["components"] == [answer["components"][2]]
        await refused("unknown_component", peer.call("status", {"components": ["c1"] * 40 + ["nobody"], "limit": 1000}))
