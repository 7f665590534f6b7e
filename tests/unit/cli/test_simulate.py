"""`advisor simulate`: its table, its JSON, its pictures, its advice, its refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from advisor.cli import advisor
from advisor.domain.task_events import EventWriter, Kind, SyncKind
from advisor.files.events import write_events
from advisor.simulation import METRICS

GRAPH = {
    "unit": "ms",
    "tasks": [{"id": "load", "time": 4.0}]
    + [{"id": f"part{k}", "time": 1.0 + k, "after": ["load"], "type": "part"} for k in range(6)]
    + [{"id": "join", "time": 2.0, "after": [f"part{k}" for k in range(6)]}],
}


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(advisor, ["simulate", *map(str, arguments)])


def answer(*arguments: str | Path) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH))
    return path


def test_json_has_a_result_for_each_policy_and_number_of_cores(graph: Path) -> None:
    found = answer(graph, "--cores", "1..3,8", "--policy", "fifo,lpt,bottom_level")
    assert [(row["policy"], row["cores"]) for row in found["results"]] == [
        (policy, cores) for policy in ("fifo", "lpt", "bottom_level") for cores in (1, 2, 3, 8)
    ]
    on_one = found["results"][0]
    assert on_one["makespan"] == 27.0  # in the graph's unit
    assert on_one["speedup"] == on_one["efficiency"] == 1.0
    assert {row["makespan"] for row in found["results"] if row["cores"] == 8} == {12.0}
    assert on_one["bounds"]["work"] == 27.0
    assert (found["unit"], found["tasks"], found["work"], found["span"]) == ("ms", 8, 27.0, 12.0)


def test_policies_and_metrics_are_told(graph: Path) -> None:
    found = answer(
        graph,
        "--cores",
        "2",
        "--policy",
        "FIFO, bottom-level,,fifo,bottom_level",
        "--contention",
        "bandwidth:demand=1e-1",
    )
    assert [row["policy"] for row in found["results"]] == ["fifo", "bottom_level", "fifo", "bottom_level"]
    reported = invoke(graph, "--cores", "2", "--metric", "critical_path,utilization").stdout
    assert "critical path, fifo on 2: load 0 s (start) → part1 4 ms (dependency)" in reported
    assert "utilization, fifo on 2: 75" in reported


def test_advice_rests_on_analyses(graph: Path) -> None:
    found = answer(graph, "--cores", "1..8", "--advise")
    by_code = {entry["code"]: entry for entry in reversed(found["advice"])}
    best = min(row["makespan"] for row in found["results"])
    enough = by_code["cores"]
    fewer = [row["makespan"] for row in found["results"] if row["cores"] < enough["cores"]]
    assert enough["makespan"] <= 1.05 * best < min(fewer)
    assert (by_code["limit"]["limit"] == "span") == (found["span"] >= 0.95 * enough["makespan"])


def test_traces_are_written(graph: Path, tmp_path: Path) -> None:
    found = answer(graph, "--cores", "1,2", "--chrome", tmp_path / "t.json")
    events = json.loads(Path(found["chrome"]).read_text())["traceEvents"]
    path = answer(graph, "--cores", "2", "--metric", "critical_path")["results"][0]["critical_path"]
    marked = {
        event["name"]: event["args"]["critical path"] for event in events if "critical path" in event.get("args", {})
    }
    assert marked == {step["task"]: step["why"] for step in path}


def test_times_come_from_a_table_that_is_learned_on_the_spot(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    rows = [
        f"{name},{size},1,{scale * size}\n" for name, scale in (("cut", 0.01), ("paste", 0.03)) for size in range(1, 41)
    ]
    table.write_text("component,x,p,t\n" + "".join(rows))
    tasks = [{"id": str(k), "time": 0, "type": "cut", "size": 10} for k in range(4)]
    tasks.append({"id": "end", "time": 0, "type": "glue", "size": 20, "after": ["0", "1", "2", "3"]})
    path = tmp_path / "typed.json"
    path.write_text(json.dumps({"unit": "ms", "tasks": tasks}))
    row = answer(path, "--cores", "2", "--table", table, "--component", "glue=paste")["results"][0]
    assert row["makespan"] == pytest.approx(2 * 100 + 600, rel=0.02)
    assert "glue" in invoke(path, "--cores", "2", "--table", table).stderr


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_told(graph: Path, metric: str) -> None:
    row = answer(graph, "--cores", "4", "--policy", "semi_static", "--metric", metric)["results"][0]
    assert metric in row


def test_contention_and_a_lock(graph: Path) -> None:
    plain, slowed, locked = (
        answer(graph, "--cores", "4", *more)["results"][0]["makespan"]
        for more in ((), ("--contention", "bandwidth:demand=0.5"), ("--contention", "lock:hold=0.5"))
    )
    assert slowed > plain
    assert locked > plain
    network = "queueing:rate=1,queue=0.1,delay=0.05"
    assert answer(graph, "--cores", "1", "--contention", network)["results"][0]["makespan"] == pytest.approx(27 * 1.15)
    alone = answer(graph, "--cores", "1", "--contention", network, "--measured-alone")
    assert alone["results"][0]["makespan"] == pytest.approx(27.0, rel=1e-6)


def test_a_recording_is_a_graph(tmp_path: Path) -> None:
    out = EventWriter()
    for number in (1, 2):
        out.add_event(number * 1000, Kind.CREATE, instance=number, type="f")
    out.add_event(3000, Kind.SYNC_BEGIN, other=SyncKind.TASKWAIT, type="wait")
    for number in (1, 2):
        out.add_event(3000 + 20_000 * (number - 1), Kind.BEGIN, instance=number)
        out.add_event(3000 + 20_000 * number, Kind.END, instance=number)
    out.add_event(43_000, Kind.SYNC_END, other=SyncKind.TASKWAIT, type="wait")
    path = tmp_path / "run.events"
    write_events(path, [out.batch()])
    found = answer(path, "--cores", "1,2", "--policy", "work_stealing,fifo", "--advise")
    assert [row["makespan"] for row in found["results"]] == [42_000, 22_000] * 2  # from the first event on, in ns
    assert (found["unit"], found["graph"]) == ("ns", "run")
    assert "42 µs" in invoke(path, "--cores", "1").stdout
    assert (
        answer(path.rename(tmp_path / "run"), "--cores", "1")["results"][0]["makespan"] == 42_000
    )  # known by its beginning
    path.write_bytes((tmp_path / "run").read_bytes()[:-5])
    assert "cut short" in invoke(path).stderr
    path.write_bytes(b"nothing")
    assert "ADVTASK1" in invoke(path).stderr
    assert "No such file" in invoke(tmp_path / "none.events").stderr
