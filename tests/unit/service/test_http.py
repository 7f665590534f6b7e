"""The HTTP face: metrics that parse and count right, liveness, readiness; GET only, foreign hosts turned away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from live import Live, refused, rows_of, running
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from advisor.domain.task_events import EventWriter, Kind
from advisor.service.metrics import WORST_COMPONENTS


async def get(live: Live, path: str, **options: Any) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.request(options.pop("method", "GET"), f"http://{live.bound.http}{path}", **options)


def samples(text: str) -> dict[tuple[str, str], float]:
    """Return (name, label values) -> value."""
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


async def test_metrics_count_what_happened(tmp_path: Path) -> None:
    async with running(tmp_path, http="127.0.0.1:0", state=tmp_path / "state") as live:
        peer = await live.peer()
        bad = [["c0", 1.0, 0.0, 1.0], ["", 1.0, 1.0, 1.0], ["", 1.0, 1.0, 1.0]]
        batch = {"producer": "p", "sequence": 1, "rows": [*rows_of(50), *bad]}
        await peer.call("observe_rows", batch)
        await peer.call("observe_rows", batch)
        await refused("sequence_gap", peer.call("observe_rows", batch | {"sequence": 9}))
        await peer.call("predict", "c0", 1, 1)
        await refused("unknown_method", peer.call("nothing"))
        found = samples((await get(live, "/metrics")).text)
        expected = {
            ("advisor_rows_accepted_total", ""): 50,
            ("advisor_rows_refused_total", "invalid_cores"): 1,
            ("advisor_rows_refused_total", "invalid_name"): 2,
            ("advisor_batches_replayed_total", ""): 1,
            ("advisor_sequence_gaps_total", ""): 1,
            ("advisor_components", ""): 3,
            ("advisor_producers", ""): 1,
            ("advisor_producers_live", ""): 1,
            ("advisor_connections", ""): 1,
            ("advisor_storage_healthy", ""): 1,
            ("advisor_queue_depth", ""): 0,
            ("advisor_errors_total", "sequence_gap"): 1,
            ("advisor_errors_total", "unknown_method"): 1,
            ("advisor_commit_seconds_count", ""): 1,
            ("advisor_request_seconds_count", "predict"): 1,
            ("advisor_request_seconds_count", "observe_rows"): 3,
        }
        assert {key: found[key] for key in expected} == expected
        assert found["advisor_state_bytes", ""] > 0


async def test_metrics_tell_how_predictions_fare_and_what_happens_to_models(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)

    def batch(speed: float) -> dict[str, Any]:
        times = speed * np.exp(0.05 * rng.standard_normal(300))
        return {"rows": [["c", 4.0, 2.0, t, {"measures": {"peak_bytes": 1e6 * t}}] for t in times.tolist()]}

    async with running(tmp_path, http="127.0.0.1:0", model_memory=10_000, components_max=3) as live:
        peer = await live.peer()
        await peer.call("observe_rows", batch(1.0))
        await peer.call("observe_rows", batch(3.0))
        await peer.call("pin", {"component": "c", "model": "two_step"})
        await peer.call("observe_rows", {"rows": [["d", 1.0, 1.0, 1.0, {"measures": {"peak_bytes": 1.0}}]] * 2})
        found = samples((await get(live, "/metrics")).text)
        status = await peer.call("status", {"components": ["c", "d"]})
    totals = status["totals"]
    for metric, total, least in (
        ("advisor_model_changes_total", "changes", 2),  # of the time, and of the memory
        ("advisor_pins_total", "pins", 1),
        ("advisor_promotions_total", "promotions", 2),
        ("advisor_promotions_refused_total", "promotions_refused", 1),
        ("advisor_measures_dropped_total", "measures_dropped", 2),
    ):
        assert found[metric, ""] == totals[total] >= least, metric
    scores = found["advisor_scores_total", ""]
    assert scores == status["scores"] > 0
    assert found["advisor_scores_covered_total", ""] / scores == status["coverage"]
    assert found["advisor_score_error_total", ""] / scores == pytest.approx(status["score_error"])
    assert found["advisor_score_bias", ""] / scores == pytest.approx(status["score_bias"])
    assert found["advisor_model_memory_bytes", ""] == 10_000
    assert 0 < found["advisor_model_memory_used_bytes", ""] == status["model_memory_used_bytes"] <= 10_000
    assert found["advisor_components", ""] == 2
    worst = {label for name, label in found if name == "advisor_worst_prediction_error_ratio"}
    assert worst == {"c"}
    assert not [key for key in totals if key.startswith("scores.")]
    assert not [name for name, _ in found if "saved" in name or "spent" in name]
    assert [entry["tier"] for entry in status["components"]] == ["rich", "base"]


async def test_late_lost_and_illegal_events_are_counted_for_prometheus(tmp_path: Path) -> None:
    out = EventWriter()
    out.add_event(0, Kind.BEGIN, instance=5, type="A")
    out.add_event(50, Kind.END, instance=5)
    out.add_event(60, Kind.END, instance=5)
    out.add_event(10**9, Kind.BEGIN, instance=6, type="A")
    async with running(tmp_path, http="127.0.0.1:0") as live:
        peer = await live.peer()
        first = out.batch()
        request = {"records": first.records.tobytes(), "strings": list(first.strings), "producer": "p"}
        answer = await peer.call("task_events", request | {"sequence": 1})
        assert (answer["accepted"], answer["late"], answer["waiting"]) == (2, 0, 1)
        assert answer["refused"]["by_code"] == {"unknown_instance": 1}
        out.add_event(10, Kind.IDLE_BEGIN, thread=1)
        late = {"records": out.batch().records.tobytes(), "producer": "p", "sequence": 2, "dropped": 7}
        answer = await peer.call("task_events", late)
        assert (answer["accepted"], answer["late"], answer["waiting"]) == (0, 1, 1)
        found = samples((await get(live, "/metrics")).text)
        expected = {
            ("advisor_events_accepted_total", ""): 2,
            ("advisor_events_refused_total", "unknown_instance"): 1,
            ("advisor_events_late_total", ""): 1,
            ("advisor_events_dropped_total", ""): 7,
            ("advisor_tasks_ended_total", ""): 1,
            ("advisor_profiles", ""): 1,
            ("advisor_profiles_dropped_total", ""): 0,
        }
        assert {key: found[key] for key in expected} == expected


async def test_both_formats_of_metrics_parse(tmp_path: Path) -> None:
    async with running(tmp_path, http="127.0.0.1:0") as live:
        peer = await live.peer()
        names = ['a"b', "a\\b", "ü {x}", "a" * 200]
        await peer.call("observe_rows", {"rows": [[n, 1.0 + i, 1.0, 1.0 + i % 3] for n in names for i in range(40)]})
        plain = await get(live, "/metrics")
        worst = {label for (name, label) in samples(plain.text) if name == "advisor_worst_prediction_error_ratio"}
        assert worst == set(names)
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        modern = await get(live, "/metrics", headers=accept)
        assert modern.headers["content-type"].startswith("application/openmetrics-text")
        families = {family.name: family for family in parse_openmetrics(modern.text)}
        assert families["advisor_rows_accepted"].samples[0].value == 160


async def test_no_label_a_component_but_for_the_worst(tmp_path: Path) -> None:
    async with running(tmp_path, http="127.0.0.1:0") as live:
        peer = await live.peer()
        rows = [[f"c{i % 100}", 1.0 + i // 100, 1.0, 1.0 + (i * 7919 % 13)] for i in range(4_000)]
        for start in (0, 2_000):
            await peer.call("observe_rows", {"rows": rows[start : start + 2_000]})
        text = (await get(live, "/metrics")).text
        assert text.count('component="') == WORST_COMPONENTS
        assert len(text) < 20_000


async def test_liveness_and_readiness(tmp_path: Path) -> None:
    async with running(tmp_path, http="127.0.0.1:0") as live:
        assert (await get(live, "/healthz")).text == "alive\n"
        assert (await get(live, "/readyz")).text == "ready\n"


async def test_a_foreign_host_is_turned_away(tmp_path: Path) -> None:
    async with running(tmp_path, http="127.0.0.1:0", http_hosts=["Metrics.Example"]) as live:
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", ""):
            assert (await get(live, "/metrics", headers={"host": host})).status_code in (400, 421), host
        for host in ("localhost", "LOCALHOST:9", "127.0.0.1:1", "[::1]:5", "metrics.example", "10.0.0.7:80"):
            assert (await get(live, "/metrics", headers={"host": host})).status_code == 200, host
