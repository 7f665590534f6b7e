"""The commands of plans: several networks that share one machine."""

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


def both(beside: Path, first: dict[str, Any] | None = None, **second: Any) -> Path:
    """Write a file of two networks: A, a pipeline, and B with a choice."""
    path = beside.with_name("both.json")
    networks = [{"network": "a .. b", "name": "A"} | (first or {}), {"network": "(a | b) .. c", "name": "B"} | second]
    path.write_text(json.dumps(networks))
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, str]:
    """A.snet, a pipeline, and a table of its components and others."""
    rows = [
        f"{name},{x},{p},{work * x * (0.1 + 0.9 / p)}"
        for name, work in (("a", 1.0), ("b", 2.0), ("c", 1.0))
        for x in (1, 2, 3, 4)
        for p in (1, 2, 4, 8, 16)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["component,x,p,t", *rows]) + "\n")
    (tmp_path / "A.snet").write_text("a .. b\n")
    return tmp_path / "A.snet", f"--table={tmp_path / 'rows.csv'}"


def test_two_networks_share_by_weight(files: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    pipeline, table = files
    of_two = ("allocate-together", table, "--cores", 24)
    weighed = both(pipeline, {"weight": 2}, shares=[[1, 3]])
    found = answer(capsys, *of_two, weighed)
    first, second = found["networks"]
    assert [first["name"], second["name"]] == ["A", "B"]
    assert first["guaranteed_per_s"] == pytest.approx(2 * second["guaranteed_per_s"])
    assert sum(sum(one["cores"].values()) for one in found["networks"]) + found["spare"] == found["cores"] == 24
    status, out, _ = run(capsys, *of_two, weighed)
    assert status == 0
    assert "records/s beside the others" in out
    assert f"{24 - found['spare']} of 24 cores used" in out


def test_each_network_has_options_of_its_own(files: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    pipeline, table = files

    def networks(*words: object, first: dict[str, Any], **second: Any) -> Any:
        path = both(pipeline, first | {"instances_max": 2}, shares=[[1, 3]], instances_max=2, **second)
        return answer(capsys, "allocate-together", path, table, "--cores", 30, *words)["networks"]

    one = networks(first={}, pinned={"b": 2}, minimum={"c": 5})
    assert one[1]["cores"]["b"] == 2 < one[0]["cores"]["b"] * one[0]["instances"]["b"]
    assert one[1]["cores"]["c"] >= 5
    rates = networks("--objective", "latency", first={"arrival_per_s": 0.2, "load": {"a": 1}}, arrival_per_s=0.1)
    assert all(network["latency_queued_s"] > network["latency_s"] for network in rates)
