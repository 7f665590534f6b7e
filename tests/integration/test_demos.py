"""The demo runtime executes a network with real processes, tells a real service what it measured, and follows it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from built_networks import series

from advisor.domain.allocations import Allocation
from advisor.network import parse

DEMOS = Path(__file__).resolve().parents[2] / "demos"


@pytest.fixture
def demos(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The modules of the demos, whose folder workers find on the path as well."""
    monkeypatch.setattr(sys, "path", [str(DEMOS), *sys.path])
    return {name: importlib.import_module(name) for name in ("boxes", "runtime", "runtime_workers", "adapt")}


def test_the_demo_runs_measures_and_follows_the_advice(
    demos: dict[str, ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    found = demos["adapt"].demonstrate(None, rounds=1, seconds=0.1, learned=6, side=24, patience_s=0.2)
    keys = {"decode", "sharpen", "denoise", "pack"}
    assert set(found["first"].cores) == keys
    assert found["first"].throughput_per_s > 0
    assert all(run.records > 0 for runs in found["calm"].values() for run in runs)
    assert "the service advises" in capsys.readouterr().out


class Rows:
    """A client that keeps what it is sent."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, float, float, dict[str, object]]] = []

    def observe(self, *row: object, **optional: object) -> bool:
        self.rows.append((*row, optional))  # type: ignore[arg-type]
        return True


def test_records_go_where_their_types_send_them_and_each_run_is_told_once(demos: dict[str, ModuleType]) -> None:
    runtime, client, n = demos["runtime"], Rows(), 12
    network = parse(demos["adapt"].NETWORK)
    settings = {
        key: demos["runtime_workers"].Setting(1, (frozenset({min(demos["adapt"].usable_processors())}),))
        for key in network.keys
    }
    with runtime.Runtime(network, demos["boxes"].BOXES, client) as running:
        running.apply(settings)
        measured = running.run({"raw": seed, "side": 16, "levels": (0.5, 2.0, 8.0)} for seed in range(n))
    assert measured.records == running.records == n
    noise = [float(np.random.default_rng(seed).choice((0.5, 2.0, 8.0))) for seed in range(n)]
    passes = {0.5: 0, 2.0: 1, 8.0: 3}
    runs = {key: [row for row in client.rows if row[0] == key] for key in network.keys}
    assert len(runs["decode"]) == len(runs["pack"]) == n
    assert len(runs["sharpen"]) == noise.count(0.5)
    assert len(runs["denoise"]) == sum(passes[level] for level in noise)
    assert [row[0] for row in client.rows if row[4]["entered"]] == ["decode"] * n
    assert all(row[3] > 0 and row[4]["active_cores"] >= row[2] == 1 for row in client.rows)


def test_an_allocation_becomes_processors(demos: dict[str, ModuleType]) -> None:
    settings_of = demos["runtime_workers"].settings_of
    own = Allocation({"a": 2, "b": 1}, {"a": 1, "b": 2}, 0, 1.0, 1.0, ("a",))
    found = settings_of(own, range(4))
    assert found["a"].processors == (frozenset({0, 1}),)
    assert found["b"].processors == (frozenset({2}), frozenset({3}))
    shared = Allocation({"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}, 0, 1.0, 1.0, ("a",),
                        groups=((1, ("a", "c")), (1, ("b",))))  # fmt: skip
    found = settings_of(shared, range(2))
    assert found["a"] == found["c"] != found["b"]
    assert found["a"].group != found["b"].group
    equal = demos["runtime_workers"].equal_shares(series("a", "b", "c"), range(2))
    assert [min(equal[key].processors[0]) for key in "abc"] == [0, 0, 1]
