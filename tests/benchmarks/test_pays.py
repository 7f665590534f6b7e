"""What a scheduler gains by asking: on a table of two inputs the figures are those worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pays
import pytest
from accuracy_protocol import read_table

# T = 8, 4, 2 on 1, 2, 4 cores for x = 1, and the same on any for x = 2; x = 3 ran on one count only
ROWS = [("a", x, p, 8.0 / p if x == 1 else 8.0) for x in (1, 2) for p in (1, 2, 4) for _ in range(3)] + [
    ("a", 3, 1, 1.0)
]


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, list[pays.Input]]:
    path = tmp_path / "tiny.csv"
    path.write_text("component,x,p,t\n" + "".join(f"{c},{x},{p},{t}\n" for c, x, p, t in ROWS))
    table = read_table(path)
    assert not isinstance(table, str)
    return pays.inputs_of(table)


def test_a_replay_counts_the_loss_against_the_best_count(inputs: dict[str, list[pays.Input]]) -> None:
    wide, narrow = ([job] for job in inputs["a"])
    runs = {name: pays.replayed(make(), wide, 20, 1, warm=False) for name, make in pays.POLICIES.items()}
    loss = {name: each.figures["time"] for name, each in runs.items()}
    assert loss["always the largest"] == loss["true curves"] == 0.0
    assert loss["one core"] == pytest.approx(math.log(4.0))
    assert 0.0 <= loss["Advisor"] < loss["one core"]
    assert runs["one core"].figures["regret"] == pytest.approx(20 * 3.0)
    spent = {
        name: pays.replayed(make(), narrow, 20, 1, warm=True).figures["core-s"] for name, make in pays.POLICIES.items()
    }
    assert spent["one core"] == spent["true curves"] == pytest.approx(math.log(0.25))
    assert spent["always the largest"] == 0.0


def test_the_fixed_count_in_hindsight_is_no_worse_than_any_other(inputs: dict[str, list[pays.Input]]) -> None:
    found = pays.replay_table(inputs, 10, 1, warm=True)
    fixed = found["always the largest"]["time"], found["one core"]["time"]
    assert found[pays.HINDSIGHT]["time"] <= min(fixed)
    assert "P // waiting" not in found


def test_all_jobs_of_a_pool_end_and_none_begins_before_it_comes(inputs: dict[str, list[pays.Input]]) -> None:
    stream = pays.stream_of(inputs, ["a"], 0.5, 3)
    assert stream.cores == 8
    assert len(stream.jobs) == pays.POOL_JOBS
    for make in pays.POLICIES.values():
        mean = pays.pooled(make(), stream, 1)
        assert min(min(times.values()) for _, _, times in stream.jobs) < mean < math.inf
    (logs,) = pays.pool_table(inputs, 0.9, 1, 1)
    assert logs["P // waiting"] == 0.0
    assert logs["Advisor"] < logs["one core"]
