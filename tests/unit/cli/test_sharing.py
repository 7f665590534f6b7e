"""The command `allocate`: the front, costs, and several networks that share one machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    status, out, err = run(capsys, *arguments, "--json")
    assert status == 0, err
    return json.loads(out)


def each(beside: Path, **options: dict[str, Any]) -> Path:
    """Write a file for --each."""
    path = beside.with_name("each.json")
    path.write_text(json.dumps(options))
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, str]:
    """A.snet, a pipeline; B.snet with a choice; and a table of their components."""
    rows = [
        f"{name},{x},{p},{work * x * (0.1 + 0.9 / p)}"
        for name, work in (("a", 1.0), ("b", 2.0), ("c", 1.0))
        for x in (1, 2, 3, 4)
        for p in (1, 2, 4, 8, 16)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["component,x,p,t", *rows]) + "\n")
    (tmp_path / "A.snet").write_text("a .. b\n")
    (tmp_path / "B.snet").write_text("(a | b) .. c\n")
    return tmp_path / "A.snet", tmp_path / "B.snet", f"--table={tmp_path / 'rows.csv'}"


def test_the_front_is_shown_point_by_point(files: tuple[Path, Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    pipeline, _, table = files
    found = answer(capsys, "allocate", pipeline, table, "--cores", 9, "--objective", "pareto")
    points = found["front"]
    for one in points:
        better = [
            other for other in points
            if other["used"] <= one["used"] and other["throughput_per_s"] >= one["throughput_per_s"]
            and other["latency_s"] <= one["latency_s"]
        ]  # fmt: skip
        assert better == [one]
    best = max(points, key=lambda point: point["throughput_per_s"])
    assert best["throughput_per_s"] == found["throughput_per_s"]
    status, out, _ = run(capsys, "allocate", pipeline, table, "--cores", 9, "--objective", "pareto")
    lines = out.splitlines()
    assert status == 0
    assert lines[0].split() == ["cores", "records/s", "latency", "allocation"]
    assert len([line for line in lines if ", b " in line]) == len(points)
    assert f"{len(points)} points" in out
    _, out, _ = run(capsys, "allocate", pipeline, table, "--cores", 9, "--objective", "pareto", "--arrival", 0.1)
    assert "latency with queueing" in out


def test_two_networks_share_by_weight_and_priority(
    files: tuple[Path, Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline, choice, table = files
    both = ("allocate", pipeline, choice, table, "--cores", 24, "--each", each(pipeline, B={"shares": [[1, 3]]}))
    found = answer(capsys, *both, "--weight", "A=2")
    first, second = found["networks"]
    assert [first["name"], second["name"]] == ["A", "B"]
    assert first["guaranteed_per_s"] == pytest.approx(2 * second["guaranteed_per_s"])
    assert sum(sum(one["cores"].values()) for one in found["networks"]) + found["spare"] == found["cores"] == 24
    ranked = answer(capsys, *both, "--priority", "A=1")["networks"]
    alone = answer(capsys, "allocate", pipeline, table, "--cores", 21)
    assert ranked[0]["cores"] == alone["cores"]  # B keeps a core for each of its three boxes
    status, out, _ = run(capsys, *both, "--weight", "A=2")
    assert status == 0
    assert "records/s beside the others" in out
    assert f"{24 - found['spare']} of 24 cores used" in out


def test_options_go_where_they_belong(files: tuple[Path, Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    pipeline, choice, table = files

    def networks(*words: object, **more: Any) -> Any:
        own = {"A": {}, "B": {"shares": [[1, 3]]}}
        path = each(pipeline, **{name: options | more.get(name, {}) for name, options in own.items()})
        asked = ("allocate", pipeline, choice, table, "--cores", 30, "--instances-max", 2, "--each", path)
        return answer(capsys, *asked, *words)["networks"]

    assert [one["cores"]["b"] for one in networks("--pin", "b=2")] == [2, 2]
    one = networks(B={"pinned": {"b": 2}, "minimum": {"c": 5}})
    assert one[1]["cores"]["b"] == 2 < one[0]["cores"]["b"] * one[0]["instances"]["b"]
    assert one[1]["cores"]["c"] >= 5
    arrivals = {"A": {"arrival_per_s": 0.2, "load": {"a": 1}}, "B": {"arrival_per_s": 0.1}}
    rates = networks("--objective", "latency", **arrivals)
    assert all(network["latency_queued_s"] > network["latency_s"] for network in rates)


def test_several_networks_have_a_front_and_a_cost(
    files: tuple[Path, Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline, choice, table = files
    both = (
        "allocate",
        pipeline,
        choice,
        table,
        "--cores",
        12,
        "--each",
        each(pipeline, B={"shares": [[1, 1]]}),
        "--objective",
    )
    found = answer(capsys, *both, "pareto")
    fastest = max(point["throughput_per_s"] for point in found["front"])
    assert fastest == pytest.approx(sum(one["guaranteed_per_s"] for one in found["networks"]))
    assert set(found["front"][0]["cores"]) == {
        f"{one['name']}:{key}" for one in found["networks"] for key in one["cores"]
    }
    dear = answer(capsys, *both, "cost", "--weight", "core_s=1", "--weight", "record=10", "--weight", "A=2")
    cheap = answer(capsys, *both, "cost", "--weight", "core_s=1", "--weight", "record=0.01", "--weight", "A=2")
    assert dear["spare"] < cheap["spare"]
    assert [one["weight"] for one in dear["networks"]] == [2.0, 1.0]
    assert [reason["value"] > 0 for found in (dear, cheap) for reason in found["why"] if reason["code"] == "cost"] == [
        False,
        True,
    ]
