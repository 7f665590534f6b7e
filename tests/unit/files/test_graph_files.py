"""Task graphs from files: each form, its errors with the place, and what is written reads back equal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from graphs import graphs
from hypothesis import HealthCheck, given, settings
from paper4_programs import locusroute, psim

from advisor.domain.task_graphs import Task, TaskGraph, graph_as_flat, graph_from_flat, graph_of_tasks, task_graph
from advisor.errors import InvalidValue
from advisor.files.graphs import graph_from_json, read_graph

DIAMOND = {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}


def edges_of(graph: TaskGraph) -> set[tuple[str, str]]:
    return {
        (graph.name(task), graph.name(child))
        for task in range(len(graph))
        for child in graph.children[graph.first[task] : graph.first[task + 1]].tolist()
    }


def check_diamond(graph: TaskGraph, unit: str) -> None:
    assert graph.unit == unit
    assert dict(zip(graph.names, graph.times.tolist(), strict=True)) == {"a": 1.0, "b": 2.5, "c": 3.0, "d": 0.0}
    assert edges_of(graph) == DIAMOND


FORMS = {
    "after.json": {"tasks": [
        {"id": "a", "time": 1}, {"id": "b", "time": 2.5, "after": ["a"]}, {"id": "c", "time": 3, "after": ["a"]},
        {"id": "d", "time": 0, "after": ["b", "c"]},
    ]},
    "links.json": {
        "directed": True,
        "nodes": [{"id": name, "duration": time} for name, time in (("a", 1), ("b", 2.5), ("c", 3), ("d", 0))],
        "links": [{"source": a, "target": b} for a, b in DIAMOND],
    },
    "children.json": {"tasks": [
        {"name": "a", "runtime": 1, "children": ["b", "c"]}, {"name": "b", "runtime": 2.5, "children": ["d"]},
        {"name": "c", "runtime": 3, "children": ["d"]}, {"name": "d", "runtime": 0},
    ]},
    "workflow.json": {"name": "w", "schemaVersion": "1.5", "workflow": {
        "specification": {"tasks": [
            {"id": "a", "parents": [], "inputFiles": ["f"]}, {"id": "b", "parents": ["a"]}, {"id": "c", "parents": ["a"]},
            {"id": "d", "parents": ["b", "c"]},
        ], "files": [{"id": "f", "sizeInBytes": 512}]},
        "execution": {"makespanInSeconds": 5.5, "tasks": [
            {"id": "a", "runtimeInSeconds": 1, "command": {"program": "split"}, "coreCount": 2},
            {"id": "b", "runtimeInSeconds": 2.5}, {"id": "c", "runtimeInSeconds": 3}, {"id": "d", "runtimeInSeconds": 0},
        ], "machines": [{"nodeName": "m", "cpu": {"coreCount": 4}}, {"nodeName": "n"}]},
    }},
    # As 1.4 and before have it: one list of tasks, which call each other by name though they have ids.
    "workflow14.json": {"name": "w", "schemaVersion": "1.4", "workflow": {
        "makespanInSeconds": 5.5,
        "machines": [{"nodeName": "m", "cpu": {"coreCount": 4, "speedInMHz": 2400}}, {"nodeName": "n", "cpu": {"count": 1}}],
        "tasks": [
            {"name": "split_ID1", "id": "a", "category": "split", "runtimeInSeconds": 1, "cores": 2, "parents": [],
             "children": ["mid_ID2", "mid_ID3"], "files": [
                 {"link": "input", "name": "f", "sizeInBytes": 512}, {"link": "output", "name": "g", "sizeInBytes": 9}]},
            {"name": "mid_ID2", "id": "b", "runtimeInSeconds": 2.5, "parents": ["split_ID1"], "children": ["join_ID4"]},
            {"name": "mid_ID3", "id": "c", "runtimeInSeconds": 3, "parents": ["split_ID1"], "children": ["join_ID4"]},
            {"name": "join_ID4", "id": "d", "runtimeInSeconds": 0, "parents": ["b", "c"], "children": []},
        ],
    }},
    # 1.0 and 1.1 call tasks jobs; only the children are told here, and no machines.
    "workflow10.json": {"workflow": {"makespan": 5.5, "jobs": [
        {"name": "a", "type": "compute", "runtime": 1, "children": ["b", "c"], "files": []},
        {"name": "b", "runtime": 2.5, "children": ["d"]}, {"name": "c", "runtime": 3, "children": ["d"]},
        {"name": "d", "runtime": 0.0},
    ]}},
    "list.json": [{"name": "a", "weight": 1}, {"id": "b", "time": 2.5, "weight": 9, "parents": ["a"]},
                  {"name": "c", "duration": 3, "after": ["a"]}, {"id": "d", "time": 0, "parents": ["b", "c"]}],
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_json_form_reads(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(json.dumps(FORMS[name]))
    found = read_graph(path)
    check_diamond(found.graph, "s")
    if name == "workflow10.json":
        assert found.name == "workflow10"
    if name in ("workflow.json", "workflow14.json"):
        assert found.name == "w"
        assert found.graph.types[found.graph.columns["type"][0]] == "split"
        assert found.graph.columns["size"][0] == 512
        assert found.graph.columns["cores"][0] == 2


def test_numbers_are_names(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(
        '{"unit": "ms", "tasks": [{"id": 7, "time": 2}, {"id": "x", "time": 1, "after": [7]}]}', "utf-8-sig"
    )
    graph = read_graph(path).graph
    assert (graph.unit, graph.names, edges_of(graph)) == ("ms", ("7", "x"), {("7", "x")})


def test_times_that_will_be_predicted_need_not_be_there(tmp_path: Path) -> None:
    texts = {
        "g.json": json.dumps({"tasks": [{"id": "a", "type": "t", "size": 3}, {"id": "b", "time": 2}]}),
        "w.json": json.dumps(
            {"workflow": {"specification": {"tasks": [{"id": "a"}, {"id": "b", "runtimeInSeconds": 2}]}}}
        ),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert read_graph(tmp_path / name, timed=False).graph.times.tolist() == [0.0, 2.0]
        with pytest.raises(InvalidValue):
            read_graph(tmp_path / name)
    with pytest.raises(InvalidValue, match="time is None"):
        graph_from_json([{"id": "a"}], timed=False)  # of no type: nothing can predict it


WRONG = Path(__file__).with_name("wrong_graphs.jsonl")  # a line each: suffix, text, what is said of it


@pytest.mark.parametrize(("suffix", "text", "says"), [*map(json.loads, WRONG.read_text().splitlines())])
def test_a_graph_that_does_not_read_is_refused_with_its_place(
    tmp_path: Path, suffix: str, text: str, says: str
) -> None:
    path = tmp_path / f"g.{suffix}"
    path.write_text(text)
    with pytest.raises(InvalidValue) as caught:
        read_graph(path)
    assert says in f"{caught.value} {caught.value.field}"


def test_files_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    for name, content in (("x.json", b"{"), ("x.txt", b""), ("deep.json", b"[" * 100_000)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidValue):
            read_graph(tmp_path / name)
    with pytest.raises(InvalidValue, match="No such file"):
        read_graph(tmp_path / "none.json")


@given(graph=graphs())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_flattened_reads_back_equal(graph: TaskGraph) -> None:
    found = graph_from_flat(graph_as_flat(graph))
    assert found.unit == graph.unit
    assert (found.ticks == graph.ticks).all()
    assert (found.first == graph.first).all()
    assert (found.children == graph.children).all()


def test_columns_types_and_names_are_kept() -> None:
    typed = graph_of_tasks(
        [Task("a", 1.0, (), "read", 5.0, {"queue": 1.0}), Task("b", 2.0, ("a",), "", 2.0, {"rate": 0.5})], unit="ms"
    )
    for graph in (psim(), locusroute(), typed):
        found = graph_from_flat(graph_as_flat(graph))
        assert (found.ticks == graph.ticks).all()
        assert found.types == graph.types
        for name, values in graph.columns.items():
            assert found.columns[name].dtype == values.dtype
            assert found.columns[name].tolist() == values.tolist()
    assert typed.columns["queue"].tolist() == [1, -1]
    assert typed.columns["rate"].tolist() == [0.0, 0.5]


def test_a_million_edges_in_any_order_are_one_graph() -> None:
    rng = np.random.default_rng(3)
    pairs = np.sort(rng.integers(0, 50_000, (200_000, 2)), axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    one = task_graph(np.ones(50_000), pairs)
    other = task_graph(np.ones(50_000), np.concatenate([pairs, pairs])[rng.permutation(2 * len(pairs))])
    assert (one.children == other.children).all()
    assert (one.first == other.first).all()
