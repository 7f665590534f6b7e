"""Record flow learned from rows, held to the truth of simulated streams."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flow_streams import (
    LEAVES,
    NODES,
    SHARE,
    Row,
    box,
    check,
    close,
    columns,
    learned,
    stream,
)

from advisor.domain.networks import network_from_nodes
from advisor.engine import Advisor
from advisor.models import flow as learner

# -- shares, visits, depths ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_gives_its_truth(seed: int) -> None:
    flow = learned(stream(4000, seed)).flow("net")
    check(flow, 4000)
    assert flow.records == 4000
    assert close(SHARE, SHARE, 4000)


def test_refused_rows_still_tell_where_their_record_was() -> None:
    """A clock too coarse for b alone: half of its rows are refused, its share is not halved."""
    rng = np.random.default_rng(5)
    rows = stream(3000, 5)
    for row in rows:
        if row.name == "b" and rng.random() < 0.5:
            row.more["elapsed_s"] = 0.0
    advisor = learned(rows)
    assert advisor.status()["totals"]["refused.invalid_elapsed_s"] > 300
    check(advisor.flow("net"), 3000)


def failing(rows: list[Row], name: str, share: float, seed: int) -> list[Row]:
    """Let runs of a box fail, and be repeated until they end well."""
    rng = np.random.default_rng(seed)
    found: list[Row] = []
    for row in rows:
        while row.name == name and rng.random() < share:
            found.append(Row(row.name, row.record, row.entered, ok=False))
            row = Row(row.name, row.record)  # noqa: PLW2901 - the repetition does not enter again
        found.append(row)
    return found


def test_retries_are_one_visit() -> None:
    rows = failing(stream(3000, 7), "b", 0.4, 7)
    check(learned(rows).flow("net"), 3000)


def test_running_rows_count_once_they_have_ended() -> None:
    rows = stream(1000, 9)
    advisor = Advisor()
    advisor.define_network(NODES, id="net")
    for start in range(0, len(rows), 500):
        part = columns(rows[start : start + 500])
        advisor.learn_batch(replace(part, running=np.ones(len(part), np.bool_)))
        advisor.learn_batch(part)
    check(advisor.flow("net"), 1000)


@pytest.mark.parametrize("by", ["rows", "records"])
def test_sampling_by_the_producer_does_not_bias(by: str) -> None:
    """One row, or one record, in ten is sent, and stands for ten."""
    rng = np.random.default_rng(11)
    rows = stream(30_000, 11)
    if by == "rows":
        some = [row for row in rows if rng.random() < 0.1]
    else:
        chosen = set(np.flatnonzero(rng.random(30_000) < 0.1).tolist())
        some = [row for row in rows if row.record in chosen]
    for row in some:
        row.more["count"] = 10
    flow = learned(some).flow("net")
    assert close(flow.shares[0][0], SHARE, 2700)
    assert flow.records == pytest.approx(30_000, rel=0.1)
    assert flow.visits["e"] == pytest.approx((1 - LEAVES) / LEAVES, rel=0.12)
    if by == "records":
        check(flow, 2900)


def test_rows_of_a_record_may_come_out_of_order() -> None:
    """Workers report through connections of their own: the entry comes after the record's second row."""
    rows = stream(3000, 14)
    rng = np.random.default_rng(14)
    order = np.argsort(np.arange(len(rows)) + rng.uniform(0, 50, len(rows)), kind="stable")
    check(learned([rows[i] for i in order]).flow("net"), 3000)


def test_a_stream_that_begins_in_the_middle_learns_as_well() -> None:
    """300 records are in flight: their runs count for those that entered."""
    flow = learned(stream(6000, 15, 300)[4000:]).flow("net")
    assert close(flow.shares[0][0], SHARE, 5000)
    assert flow.visits["e"] == pytest.approx((1 - LEAVES) / LEAVES, abs=0.15)


def test_the_recent_past_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "WINDOW_RECORDS", 1000)
    rows = stream(6000, 16)
    for row in rows[: len(rows) // 2]:  # all go through b at first
        row.name = {"c": "b", "d": "b"}.get(row.name, row.name)
    flow = learned(rows).flow("net")
    assert abs(flow.shares[0][0] - SHARE) < 0.12
    assert flow.records == 6000


# -- structure ----------------------------------------------------------------------------------------------------------------


def sent(nodes: list[dict[str, Any]], runs: dict[str, int], entered: int) -> Any:
    """Return the flow of a network whose boxes ran so often."""
    advisor = Advisor()
    advisor.define_network(nodes, id=1)
    first = next(iter(runs))
    for name, n in runs.items():
        if n:
            advisor.observe(name, elapsed_s=1.0, network="1", count=n, entered=False)
    advisor.observe(first, elapsed_s=1.0, network="1", count=entered, entered=True, ok=False)  # enters without a visit
    return advisor.flow(1)


def test_a_branch_without_boxes_has_what_the_others_leave() -> None:
    """a .. (b | []) .. c"""
    nodes = [box("a"), box("b"), {"kind": "filter", "text": "[]"}, {"kind": "choice", "children": [1, 2]}, box("c"),
             {"kind": "series", "children": [0, 3, 4]}]  # fmt: skip
    flow = sent(nodes, {"a": 100, "b": 30, "c": 100}, 100)
    assert flow.shares[0] == pytest.approx([0.3, 0.7])


def test_uses_that_share_a_name_are_told_apart_where_structure_does() -> None:
    """a .. (b | a .. c): both uses of a make 1.6 runs a record; the branch of c has 0.6."""
    nodes = [box("a"), box("b"), box("a"), box("c"), {"kind": "series", "children": [2, 3]},
             {"kind": "choice", "children": [1, 4]}, {"kind": "series", "children": [0, 5]}]  # fmt: skip
    flow = sent(nodes, {"a": 160, "b": 40, "c": 60}, 100)
    assert flow.shares[0] == pytest.approx([0.4, 0.6], abs=1e-3)
    assert (flow.visits["a#1"], flow.visits["a#2"]) == pytest.approx((1.0, 0.6), abs=1e-2)
    assert any("share a name" in note for note in flow.notes)


def test_uses_that_nothing_tells_apart_stay_unknown_unless_rows_name_their_key() -> None:
    """(a | a): the sum is known, no share."""
    nodes = [box("a"), box("a"), {"kind": "choice", "children": [0, 1]}]
    assert sent(nodes, {"a": 100}, 100).shares == (None,)
    flow = sent(nodes, {"a#1": 25, "a#2": 75}, 100)
    assert flow.shares[0] == pytest.approx([0.25, 0.75])
    assert flow.visits == pytest.approx({"a#1": 0.25, "a#2": 0.75})


def test_a_box_that_makes_many_records_shows_in_visits() -> None:
    """a .. b .. (c | d): a makes three records of each; shares are of what comes to the choice."""
    nodes = [box("a"), box("b"), box("c"), box("d"), {"kind": "choice", "children": [2, 3]},
             {"kind": "series", "children": [0, 1, 4]}]  # fmt: skip
    flow = sent(nodes, {"a": 100, "b": 300, "c": 60, "d": 240}, 100)
    assert flow.shares[0] == pytest.approx([0.2, 0.8])
    assert flow.visits["b"] == pytest.approx(3.0)


@pytest.mark.parametrize("seed", range(60))
def test_shares_of_random_networks_are_those_of_exact_counts(seed: int) -> None:
    """Structure alone: counts without noise give back every share that a record can take, nested choices and all."""
    rng = np.random.default_rng(seed)
    nodes: list[dict[str, Any]] = []
    runs: Counter[str] = Counter()
    shares: dict[int, list[float]] = {}

    def build(depth: int, flow: float) -> int:
        kind = rng.choice(["box", "series", "choice"]) if depth < 4 else "box"
        if kind == "box":
            name = f"box{len(nodes)}"
            runs[name] = round(flow * 1e9)
            nodes.append(box(name))
        elif kind == "series":
            nodes.append({"kind": "series", "children": [build(depth + 1, flow) for _ in range(rng.integers(2, 4))]})
        else:
            of = rng.dirichlet(np.full(rng.integers(2, 4), 5.0))
            children = [build(depth + 1, flow * share) for share in of]
            nodes.append({"kind": "choice", "children": children})
            shares[len(nodes) - 1] = of.tolist()
        return len(nodes) - 1

    build(0, 1.0)
    network = network_from_nodes(nodes)
    flow = sent(nodes, dict(runs), 10**9)
    for choice, found in zip(network.choices, flow.shares, strict=True):
        assert found == pytest.approx(shares[choice], abs=1e-5)  # a run in 1e9
    assert flow.visits == pytest.approx({name: n / 1e9 for name, n in runs.items()}, abs=1e-8)


def test_fan_out_is_that_of_replicas() -> None:
    """a ! <t>: 3 replicas, one with half of the records; then 1000."""
    nodes = [box("a"), {"kind": "split", "children": [0], "tag": "t"}]
    rng = np.random.default_rng(3)
    for shares, tolerance in (([0.5, 0.3, 0.2], 0.05), (np.full(1000, 1e-3), 2e-3)):
        advisor = Advisor()
        advisor.define_network(nodes, id=1)
        n = 20_000
        replica = rng.choice(len(shares), n, p=shares).astype(np.uint64)
        one = {"network": ["1"] * n, "entered": np.ones(n, np.bool_)}
        advisor.observe_columns(
            components=["a"], index=np.zeros(n, int), cores=np.ones(n), elapsed_s=np.ones(n), replica=replica, **one
        )
        (fan_out,) = advisor.flow(1).fan_outs
        assert sum(fan_out) == pytest.approx(1.0)
        assert fan_out == pytest.approx(list(shares), abs=tolerance)


# -- laws ---------------------------------------------------------------------------------------------------------------------


def test_cuts_do_not_show_through_halvings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "WINDOW_RECORDS", 300)
    rows = stream(700, 21, 60)
    states = {learned(rows, batch=batch).to_bytes() for batch in (3, 50, 100_000)}
    assert len(states) == 1


def test_states_merge() -> None:
    rows = stream(4000, 22)
    halves = [[row for row in rows if row.record % 2 == k] for k in range(2)]
    one, other = (learned(half) for half in halves)
    before = other.to_bytes()
    one.merge(other)
    assert other.to_bytes() == before
    check(one.flow("net"), 4000)
    whole = learned(rows).components.flows.known["net"].counts
    merged = one.components.flows.known["net"].counts
    assert merged.runs == whole.runs
    assert merged.n["entered"] == whole.n["entered"] == 4000
    into = Advisor()
    into.merge(learned(rows))
    assert into.flow("net") == learned(rows).flow("net")


def test_the_state_stays_of_constant_size() -> None:
    rows = stream(20_000, 23)
    small, large = learned(rows[: len(rows) // 10]), learned(rows)
    assert len(large.to_bytes()) < 1.2 * len(small.to_bytes())
