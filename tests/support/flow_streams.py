"""Simulated streams of records through a network of which all is known, and an advisor that has learned from one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Advisor

NAMES = ["a", "b", "c", "d", "e", "f"]
SIGMAS = 4.5  # of a binomial: once in 150,000; every test is seeded


def box(name: str) -> dict[str, Any]:
    return {"kind": "box", "name": name}


# a .. (b | c .. d) .. e * {x} .. f \ {y}
NODES = [
    box("a"), box("b"), box("c"), box("d"), {"kind": "series", "children": [2, 3]}, {"kind": "choice", "children": [1, 4]},
    box("e"), {"kind": "replication", "children": [6], "patterns": ["{x}"]},
    box("f"), {"kind": "feedback", "children": [8], "patterns": ["{y}"]}, {"kind": "series", "children": [0, 5, 7, 9]},
]  # fmt: skip
SHARE, LEAVES, RETURNS = 0.3, 0.4, 0.25


class Row:
    """One row of a stream."""

    def __init__(self, name: str, record: int, entered: bool = False, **more: Any) -> None:
        self.name, self.record, self.entered = name, record, entered
        self.more: dict[str, Any] = more


def walk(rng: np.random.Generator, record: int) -> list[Row]:
    """Return the rows of one record, and what it did."""
    names = ["a", *(["b"] if rng.random() < SHARE else ["c", "d"])]
    names += ["e"] * (int(rng.geometric(LEAVES)) - 1) + ["f"] * int(rng.geometric(1 - RETURNS))
    return [Row(name, record, entered=i == 0) for i, name in enumerate(names)]


def stream(records: int, seed: int, in_flight: int = 20, *, first: int = 0) -> list[Row]:
    """Return the rows of records that overlap: at each step one of those in flight goes on."""
    rng = np.random.default_rng(seed)
    fresh = (walk(rng, first + i) for i in range(records))
    flying: list[list[Row]] = []
    rows: list[Row] = []
    while True:
        flying += itertools.islice(fresh, in_flight - len(flying))
        if not flying:
            return rows
        at = int(rng.random() * len(flying))
        rows.append(flying[at].pop(0))
        if not flying[at]:
            flying[at] = flying[-1]
            flying.pop()


def columns(rows: list[Row], network: str | None = "net", **fixed: Any) -> Columns:
    n = len(rows)
    more = {key: [row.more.get(key, default) for row in rows] for key, default in (("ok", True), ("count", 1))}
    given = {
        "network": None if network is None else [network] * n,
        "entered": [row.entered for row in rows], "ok": more["ok"] if n else None, "count": more["count"],
    } | fixed  # fmt: skip
    times = [row.more.get("elapsed_s", 1.0) for row in rows]
    index = [NAMES.index(row.name) for row in rows]
    return columns_of(ComponentNames(NAMES), index, None, np.ones(n), np.array(times, float), **given)


def learned(rows: list[Row], *, define: bool = True, batch: int = 1000, **fixed: Any) -> Advisor:
    advisor = Advisor()
    if define:
        advisor.define_network(NODES, id="net")
    for start in range(0, len(rows), batch):
        advisor.learn_batch(columns(rows[start : start + batch], **fixed))
    return advisor


def close(found: float, truth: float, n: float) -> bool:
    return abs(found - truth) <= SIGMAS * np.sqrt(truth * (1 - truth) / n) + 1e-9


def check(flow: Any, n: float) -> None:
    """Hold a flow to the truth of `stream`, n records strong."""
    ((b, cd),) = flow.shares
    assert close(b, SHARE, n), (b, n)
    assert b + cd == pytest.approx(1.0)
    assert flow.visits["a"] == pytest.approx(1.0, abs=SIGMAS * 25 / n)  # records in flight
    # Visits of geometric numbers: sd sqrt(1 - p) / p.
    for key, mean, p in (("e", (1 - LEAVES) / LEAVES, LEAVES), ("f", 1 / (1 - RETURNS), 1 - RETURNS)):
        assert abs(flow.visits[key] - mean) < SIGMAS * np.sqrt(1 - p) / p / np.sqrt(n) + 60 / n
    (depth,), (returns,) = flow.depths, flow.returns
    assert depth == pytest.approx(flow.visits["e"], rel=1e-6)
    assert abs(returns - RETURNS) < SIGMAS * np.sqrt(RETURNS * (1 - RETURNS) / n) + 0.005
