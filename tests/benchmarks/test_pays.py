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


def test_inputs_are_those_with_two_counts_or_more(inputs: dict[str, list[pays.Input]]) -> None:
    assert [(job.x, dict(job.means)) for job in inputs["a"]] == [(1, {1: 8, 2: 4, 4: 2}), (2, {1: 8, 2: 8, 4: 8})]


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


def test_losses_of_core_seconds_are_over_the_least_and_changes_are_of_one_input(
    inputs: dict[str, list[pays.Input]],
) -> None:
    wide, narrow = ([job] for job in inputs["a"])
    most = pays.replayed(pays.Share(1.0), narrow, 40, 1, warm=False, of_cores=True)
    assert most.loss.tolist() == [4.0] * 40
    assert pays.replayed(pays.Share(1.0), wide, 40, 1, warm=False, of_cores=True).loss.tolist() == [1.0] * 40
    assert most.changes == 0.0

    class Either(pays.Share):
        def count(self, job: pays.Input) -> int:
            self.share = 1.0 - self.share
            return super().count(job)

    assert pays.replayed(Either(1.0), narrow, 40, 1, warm=False).changes == 100.0


def test_planted_curves_are_fastest_on_a_count_in_the_middle() -> None:
    found = pays.planted(1)
    assert len(found) == pays.PLANTED
    for one, two, four in found.values():
        best = [min(job.means, key=job.means.__getitem__) for job in (one, two, four)]
        assert one.counts[0] < best[0] < one.counts[-1]
        assert best == sorted(best)  # more work pays for more cores


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


def test_the_table_has_a_line_a_policy_and_the_picture_two_panels(tmp_path: Path) -> None:
    found = {"Advisor": {"time 11-": 1.25, "time after 10": 1.0, "pool 0.5": 0.5}, "P // waiting": {"pool 0.5": 1.0}}
    assert pays.as_table(found).splitlines()[2:] == [
        "| Advisor | 1.25 | 1.00 | 0.50 |", "| P // waiting | – | – | 1.00 |",
    ]  # fmt: skip
    pays.draw(found, tmp_path / "pays.svg")
    assert (tmp_path / "pays.svg").read_text(encoding="utf-8").count('id="axes_') == 2
