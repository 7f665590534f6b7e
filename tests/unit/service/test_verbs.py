"""The verbs over a real socket: what is asked, what is answered, what is durable when it is."""

from __future__ import annotations

from pathlib import Path

import msgpack
import numpy as np
import pytest
from live import Closed, refused, rows_of, running

from advisor.engine import Engine
from advisor.service import questions
from advisor.storage import Store

ZEROS = bytes(16)


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
            "record",
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


async def test_rows_are_learned_and_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        receipt = await peer.call("observe_rows", {"rows": [*rows_of(200), ["c0", -1.0, 1.0, 1.0]]})
        assert receipt["accepted"] == 200
        assert receipt["refused"] == {
            "count": 1,
            "by_code": {"invalid_predictor": 1},
            "first": [[200, "invalid_predictor", -1.0]],
        }
        answer = await peer.call("predict", "c1", 4.0, 2)
        assert abs(answer["elapsed_s"] / 0.02 - 1) < 1e-3
        curve = await peer.call("predict", {"component": "c1", "predictor": 4.0, "cores": [1, 2, 4]})
        assert np.allclose(curve["elapsed_s"], [0.04, 0.02, 0.01], rtol=1e-3)
        choice = await peer.call("choose_cores", {"component": "c1", "predictor": 4.0, "cores_max": 8})
        assert choice["cores"] == 8
        jobs = [{"id": "a", "component": "c1", "predictor": 4.0}, {"id": 2, "component": "c11", "cores_now": 2}]
        plan = await peer.call("choose_together", {"jobs": jobs, "cores": 8})
        assert [(job["id"], job["cores"]) for job in plan["jobs"]] == [("a", 6), (2, 2)]
        assert plan["assumed"] == {}
        status = await peer.call("status", {"components": ["c2"]})
        assert status["totals"]["rows_accepted"] == 200
        assert [entry["component"] for entry in status["components"]] == ["c2"]
        assert (await peer.call("status", {}))["components"] == []
        assert len((await peer.call("status", {"components": True}))["components"]) == 3


async def test_points_machines_and_measures_are_learned_and_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        rng = np.random.default_rng(5)
        n = 600
        x = rng.integers(10, 100, (n, 2)).astype(float)
        p = rng.choice([1.0, 2.0, 4.0], n)
        machine = np.arange(n) % 2
        batch = {
            "components": ["mm"], "index": bytes(4 * n), "dimensions": 2, "predictor": x.astype("<f8").tobytes(),
            "cores": p.tobytes(), "elapsed_s": (1e-3 * x.prod(axis=1) / p * (1 + machine)).tobytes(),
            "labels": ["fast", "slow"], "machine": machine.astype("<u4").tobytes(),
            "measures": {"peak_bytes": (1000.0 * x.prod(axis=1)).tobytes()},
        }  # fmt: skip
        assert (await peer.call("observe_columns", batch))["accepted"] == n
        point = {"component": "mm", "predictor": [50.0, 40.0], "dimensions": 2, "cores": 2}
        fast = (await peer.call("predict", point | {"machine": "fast"}))["elapsed_s"]
        slow = (await peer.call("predict", point | {"machine": "slow"}))["elapsed_s"]
        assert abs(fast / 1.0 - 1) < 0.1
        assert abs(slow / fast / 2.0 - 1) < 0.1
        memory = await peer.call("predict", point | {"measure": "peak_bytes", "predictor": [50.0, 40.0, 20.0, 20.0]})
        assert np.allclose(memory["elapsed_s"], [2e6, 4e5], rtol=0.1)
        curve = await peer.call("predict", point | {"machine": "fast", "cores": [1, 2, 4]})
        assert np.shape(curve["elapsed_s"]) == (3,)
        await refused("invalid", peer.call("predict", point | {"dimensions": 3, "predictor": [1.0, 2.0, 3.0]}))


async def test_columns_with_numbered_names(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        n = 1000
        columns = {
            "index": np.arange(n, dtype="<u4") % 4,
            "predictor": np.full(n, 2.0),
            "cores": np.ones(n),
            "elapsed_s": np.full(n, 0.5),
        }
        batch = {key: column.tobytes() for key, column in columns.items()}
        error = await refused("unknown_name_id", peer.call("observe_columns", batch))
        assert error.retry
        assert await peer.call("names", 0, ["a", "b", "c", "d"]) == {"known": 4}
        assert (await peer.call("observe_columns", batch))["accepted"] == n
        other = await live.peer()  # numbers belong to a connection
        await refused("unknown_name_id", other.call("observe_columns", batch))


async def test_notifications_are_learned_without_an_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        for row in [*rows_of(50), ["c0", 1.0, 0.0, 1.0]]:
            await peer.send(msgpack.packb([2, "observe", row]))
        await peer.send(msgpack.packb([2, "predict", ["c0", 1, 1]]))
        totals = (await peer.call("status", {}))["totals"]
        assert totals["rows_accepted"] == 50
        assert totals["rows_refused"] == 1


async def test_a_replayed_batch_is_not_counted_twice_and_a_gap_names_what_is_expected(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        batch = {"producer": "p", "incarnation": b"i" * 16, "sequence": 1, "rows": rows_of(10)}
        assert (await peer.call("observe_rows", batch))["accepted"] == 10
        assert (await peer.call("observe_rows", batch))["replayed"] is True
        error = await refused("sequence_gap", peer.call("observe_rows", batch | {"sequence": 3}))
        assert error.bound == 2
        assert not error.retry
        assert (await peer.call("status", {}))["totals"]["rows_accepted"] == 10


async def test_what_is_answered_is_in_the_state_file(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        for sequence in range(1, 20):
            batch = {"producer": "p", "sequence": sequence, "rows": rows_of(10, start=sequence)}
            assert (await peer.call("observe_rows", batch))["sequence"] == sequence
            with Store.open(tmp_path / "state", read_only=True) as reader:
                state = reader.load()
            assert state is not None
            restored = Engine.restore(state)  # from pages and journal
            assert restored.producers["p", ZEROS] == sequence
            assert restored.totals["rows_accepted"] == 10 * sequence


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


async def test_forget_is_a_numbered_event(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(30)})
        gone = {"producer": "p", "sequence": 2, "component": "c0"}
        assert (await peer.call("forget", gone))["sequence"] == 2
        assert (await peer.call("forget", gone))["replayed"] is True
        assert (await peer.call("predict", "c0", 1, 1))["model"] == "prior"
        await refused("unknown_component", peer.call("forget", {"component": "nobody"}))
        several = {"component": ["c0", "c1"] * 200, "predictor": [2.0] * 400, "prior": True}
        many = await peer.call("predict", several)
        few = await peer.call("predict", several | {"component": ["c0", "c1"], "predictor": [2.0, 2.0]})
        assert (many["elapsed_s"], many["observations"]) == (few["elapsed_s"] * 200, few["observations"] * 200)
        await refused("invalid", peer.call("predict", several | {"cores": [1]}))
        guess = await peer.call("predict", {"component": "c00", "predictor": [1, 2], "dimensions": 2, "prior": True})
        assert (guess["model"], guess["nearest"]) == ("prior", ["c0"])
        guess = await peer.call(
            "choose_cores", {"component": "c00", "predictor": [1, 2], "cores_max": 4, "count": 4, "under_way": [[3, 1]]}
        )
        assert (guess["model"], guess["nearest"], guess["trial"], guess["seen"]) == ("prior", ["c0"], False, [])
        assert guess["assumed"][0] == "component 'c00' was never observed: did you mean 'c0'?"
        assert guess["counts"] == [3, 2, 4, 1]
        await refused("unknown_key", peer.call("choose_cores", {"component": "c00", "cores_max": 4, "prior": False}))
        await refused("invalid", peer.call("choose_cores", {"component": "c0", "cores_max": 4, "explore": 60}))
        held = {"component": "c1", "allowed": {"min": 2, "max": 8, "power_of": 2}, "producer": "p", "sequence": 3}
        assert (await peer.call("set_allowed", held))["allowed"] == held["allowed"]
        assert (await peer.call("set_allowed", held))["replayed"] is True
        assert (await peer.call("choose_cores", {"component": "c1"}))["cores"] in (2, 4, 8)
        await refused("invalid", peer.call("choose_cores", {"component": "c1", "allowed": [3, 5]}))


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


async def test_a_pin_is_a_numbered_event_and_survives(tmp_path: Path) -> None:
    pinned = {"producer": "p", "sequence": 2, "component": "c1", "model": "two_step"}
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(60)})
        before = (await peer.call("predict", "c1", 3.0, 2))["model"]
        assert not before.startswith("two_step")
        assert await peer.call("pin", pinned) == {"component": "c1", "model": "two_step", "sequence": 2}
        assert (await peer.call("pin", pinned | {"model": None}))["replayed"] is True
        await refused("sequence_gap", peer.call("pin", pinned | {"sequence": 4}))
        assert (await peer.call("status", {}))["totals"]["pins"] == 1
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        assert (await peer.call("hello", {"producer": "p"}))["sequence"] == 2
        assert (await peer.call("predict", "c1", 3.0, 2))["model"].startswith("two_step")
        (entry,) = (await peer.call("status", {"components": ["c1"]}))["components"]
        assert (entry["pinned"], entry["tier"]) == ("two_step", "rich")
        assert await peer.call("pin", {"component": "c1", "model": None}) == {"component": "c1", "model": None}
        assert (await peer.call("predict", "c1", 3.0, 2))["model"] == before


async def test_what_to_run_next_is_suggested(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": [row for row in rows_of(300) if row[2] <= 2]})
        found = await peer.call("suggest", {"component": "c0", "cores_max": 16, "limit": 2})
        assert len(found) == 2
        assert all(each["cost_core_s"] == each["cores"] * each["elapsed_s"] for each in found)
        assert found[0]["narrower"] >= found[1]["narrower"] > 0.0
        point = {"component": "c0", "predictor": 4.0, "cores": 16.0, "candidates": [[4.0, 1.0], [4.0, 16.0]]}
        ordered = await peer.call("suggest", point)
        assert [each["cores"] for each in ordered] == [16.0, 1.0]  # nothing tells more of a point than itself


HOSTILE = [
    ("predict", {"component": "c0", "model": "best"}, "model"),
    ("predict", {"component": "c0", "measure": "carats"}, "measure"),
    ("predict", {"component": "c0", "measure": "peak_bytes"}, "measure"),  # no run had it
    ("predict", {"component": "c0", "machine": "a\x00b"}, "machine"),
    ("predict", {"component": "c0", "predictor": [1.0, 2.0], "dimensions": 2}, "dimensions"),
    ("predict", {"component": "c0", "predictor": [1.0, 2.0, 3.0], "dimensions": 2}, "predictor"),
    ("predict", {"component": "c0", "level": 1.0}, "level"),
    ("choose_cores", {"component": "c0", "cores_max": 4, "predictor": [1.0, 2.0]}, "predictor"),
    ("choose_cores", {"component": "c0", "cores_max": 4, "predictor": float("nan")}, "predictor"),
    ("choose_cores", {"component": "c0", "cores_max": 4, "machine": 7}, "machine"),
    ("choose_cores", {"component": "c0", "cores_max": 4, "level": -1}, "level"),
    ("choose_together", {"jobs": [{"id": 1, "component": "c0", "weight": 0}], "cores": 4}, "jobs[0].weight"),
    ("choose_together", {"jobs": [{"id": [], "component": "c0"}], "cores": 4}, "jobs[0].id"),
    ("suggest", {"component": "c0", "predictor": -1.0}, "predictor"),
    ("suggest", {"component": "c0", "predictor": 1.0, "cores": 0.0}, "cores"),
    ("suggest", {"component": "c0", "candidates": []}, "candidates"),
    ("suggest", {"component": "c0", "candidates": [[1.0, float("inf")]]}, "cores"),
    ("suggest", {"component": "c0", "candidates": [[[1.0, 2.0], 1.0]]}, "predictor"),
    ("suggest", {"component": "c0", "cores_max": 2**30}, "cores_max"),
    ("pin", {"component": "c0", "model": "best"}, "model"),
    ("pin", {"component": "c0", "model": ""}, "model"),
    ("allocate", {"network": "c0", "cores": 2, "level": 5}, "level"),
]


async def test_what_is_wrong_with_a_question_is_named(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(30)})
        for method, params, field in HOSTILE:
            code = "not_enough_data" if params.get("measure") == "peak_bytes" else "invalid"
            error = await refused(code, peer.call(method, params))
            assert error.field == field, (method, params, error)
            assert error.bound or error.hint, (method, params, error)
        for method in ("suggest", "pin"):
            await refused(
                "unknown_component",
                peer.call(method, {"component": "nobody", **({"model": None} if method == "pin" else {})}),
            )
        assert (await peer.call("predict", "c0", 1, 1))["observations"] == 10  # and the service goes on


async def test_points_are_read_flat_where_the_component_has_several_values(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        rows = [
            ["mm", [float(a), float(b)], float(p), 1e-3 * a * b / p]
            for a in (8, 16, 32)
            for b in (4, 9)
            for p in (1, 2, 4)
        ]
        assert (await peer.call("observe_rows", {"rows": rows}))["accepted"] == len(rows)
        one = await peer.call("predict", {"component": "mm", "predictor": [16.0, 9.0], "cores": 2})
        assert one == await peer.call(
            "predict", {"component": "mm", "predictor": [16.0, 9.0], "dimensions": 2, "cores": 2}
        )
        both = await peer.call("predict", {"component": "mm", "predictor": [16.0, 9.0, 8.0, 4.0], "cores": 2})
        assert np.allclose(both["elapsed_s"], [0.072, 0.016], rtol=0.1)
        assert (await peer.call("choose_cores", {"component": "mm", "predictor": [16.0, 9.0], "cores_max": 4}))[
            "cores"
        ] == 4
        for wrong in (5.0, [1.0, 2.0, 3.0]):
            assert (
                await refused("invalid", peer.call("predict", {"component": "mm", "predictor": wrong}))
            ).field == "predictor"
        await refused("invalid", peer.call("choose_cores", {"component": "mm", "predictor": [1.0], "cores_max": 4}))
        found = await peer.call("suggest", {"component": "mm", "predictor": [64.0, 9.0], "cores_max": 4, "limit": 1})
        assert len(found[0]["predictor"]) == 2


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


async def test_the_status_of_many_components_is_told_in_turns_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices, told = list[int](), questions.status
    monkeypatch.setattr(questions, "status", lambda advisor, asked: slices.append(asked.limit) or told(advisor, asked))
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


async def test_many_components_are_predicted_in_turns_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices, told = list[int](), questions._predicted
    monkeypatch.setattr(
        questions, "_predicted",
        lambda advisor, asked, x, p: slices.append(len(asked.component)) or told(advisor, asked, x, p),
    )  # fmt: skip
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(600, components=50)})
        asked = {"component": [f"c{i % 50}" for i in range(70)], "cores": [float(1 + i % 4) for i in range(70)]}
        answer = await peer.call("predict", asked | {"predictor": 2.0})
        whole, rest = divmod(70, questions.NAMES_SLICE)
        assert slices == [questions.NAMES_SLICE] * whole + [rest]
        slices.clear()
        few = {key: values[10:20] for key, values in asked.items()}
        assert (await peer.call("predict", few | {"predictor": 2.0}))["elapsed_s"] == answer["elapsed_s"][10:20]
        assert slices == [10]
        unknown = {"component": [f"new{i}" for i in range(40)], "predictor": 2.0, "cores": 1, "prior": True}
        assert len((await peer.call("predict", unknown))["elapsed_s"]) == 40


async def test_what_was_observed_with_two_predictors_is_freed_by_forget(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        one, two = ["c", 1.0, 1.0, 1.0], ["c", [1.0, 2.0], 1.0, 1.0]
        taken = [(await peer.call("observe_rows", {"rows": [row]}))["accepted"] for row in (two, one, one, one, two)]
        assert taken == [1, 0, 0, 0, 1]
        await peer.call("forget", {"component": "c", "keep": 0.0})
        assert (await peer.call("observe_rows", {"rows": [two]}))["accepted"] == 1
        await peer.call("forget", {"component": "c", "keep": 0.0})
        assert (await peer.call("observe_rows", {"rows": [one] * 20}))["accepted"] == 20
        assert (await peer.call("predict", "c", 1.0, 1))["elapsed_s"] > 0.9
