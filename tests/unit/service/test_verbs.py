"""The verbs over a real socket: what is asked, what is answered, what is durable when it is."""

from __future__ import annotations

from pathlib import Path

import msgpack
import numpy as np
from live import refused, rows_of, running


async def test_notifications_are_learned_without_an_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        for row in [*rows_of(50), ["c0", 1.0, 0.0, 1.0]]:
            await peer.send(msgpack.packb([2, "observe", row]))
        await peer.send(msgpack.packb([2, "predict", ["c0", 1, 1]]))
        totals = (await peer.call("status", {}))["totals"]
        assert totals["rows_accepted"] == 50
        assert totals["rows_refused"] == 1


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


async def test_a_client_without_incarnation_may_resume_ahead_of_a_lost_state(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        assert (await peer.call("hello", {"producer": "p", "resume_at": 41}))["sequence"] == 41
        receipt = await peer.call("observe_rows", {"producer": "p", "sequence": 42, "rows": rows_of(3)})
        assert receipt["accepted"] == 3
        assert (await peer.call("hello", {"producer": "p", "resume_at": 7}))["sequence"] == 42
        assert (await peer.call("status", {}))["totals"]["producers_resumed"] == 1


async def test_answers_of_many_requests_in_one_read_come_in_order_of_work(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(100)})
        many = b"".join(msgpack.packb([0, 1000 + i, "predict", ["c0", 1 + i % 7, 2]]) for i in range(3000))
        await peer.send(many)
        assert [(await peer.message())[1] for _ in range(3000)] == list(range(1000, 4000))


async def test_many_points_are_those_one_by_one_and_others_have_their_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer, other = await live.peer(), await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(300)})
        x = np.linspace(1.0, 8.0, 5000).tolist()
        many = await peer.post("predict", {"component": "c0", "predictor": x, "cores": 3, "level": 0.5})
        await other.call("predict", "c0", 1.0, 1)  # not behind them
        answer = await peer.answer(many)
        for i in (0, 127, 128, 4999):
            one = await other.call("predict", {"component": "c0", "predictor": x[i], "cores": 3, "level": 0.5})
            shown = [answer[key][i] for key in ("elapsed_s", "low_s", "high_s", "extrapolates")]
            assert np.allclose(shown, [one[key] for key in ("elapsed_s", "low_s", "high_s", "extrapolates")], rtol=1e-9)
        assert {key: len(answer[key]) for key in ("elapsed_s", "low_s", "high_s", "extrapolates")} == dict.fromkeys(
            ("elapsed_s", "low_s", "high_s", "extrapolates"), 5000
        )
        curve = await peer.call(
            "predict", {"component": "c0", "predictor": 2.0, "cores": [1.0 + i / 9 for i in range(900)]}
        )
        assert len(curve["elapsed_s"]) == 900
        both = await peer.call("predict", {"component": "c0", "predictor": x[:900], "cores": [2.0] * 900})
        assert both["observations"] == 100
        bad = await refused("invalid", peer.call("predict", {"component": "c0", "predictor": [*x, -1.0]}))
        assert (bad.field, bad.value) == ("predictor", -1.0)
        await refused("unknown_component", peer.call("predict", {"component": "nobody", "predictor": x}))
        rows = [["mm", [float(a), 4.0], 1.0, 1e-3 * a] for a in range(8, 40)]
        await peer.call("observe_rows", {"rows": rows})
        flat = [float(v) for a in range(300) for v in (8 + a % 20, 4)]
        vectors = await peer.call("predict", {"component": "mm", "predictor": flat, "dimensions": 2})
        assert len(vectors["elapsed_s"]) == 300
        assert vectors == await peer.call("predict", {"component": "mm", "predictor": flat})
        curve = await peer.call(
            "predict", {"component": "mm", "predictor": [8.0, 4.0], "dimensions": 2, "cores": [1.0] * 200}
        )
        assert len(curve["elapsed_s"]) == 200
