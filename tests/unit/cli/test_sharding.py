"""`advisor shards` and the shards in `advisor status`, in words and as JSON."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from advisor.cli import advisor

SHARD = {
    "shard": 0, "components": 1200, "buckets": 2048, "rows": 34_000, "bytes": 2**20, "commits": 7, "rows_waiting": 5,
    "lag_s": 0.02,
    "recoveries": 1, "failure": None,
}  # fmt: skip
MOVES = {"version": 3, "left": 22, "waiting_for": ["node7"], "replicas_behind_s": 0.1}


class Service:
    def shards(self, shards: int | None = None, *, timeout_s: float) -> dict[str, Any]:
        found: dict[str, Any] = {"shards": [SHARD, SHARD | {"shard": 1, "failure": "no [disk]"}], "moves": MOVES}
        return found if shards is None else found | {"moved": {"shards": shards, "moves": 22}}


def said(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    @contextmanager
    def connected(_: Any) -> Any:
        yield Service()

    monkeypatch.setattr("advisor.cli.source.connected", connected)
    done = CliRunner().invoke(advisor, ["shards", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_shards_are_a_table_with_what_waits_and_what_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    words = said(monkeypatch).split()
    for word in ("1,200", "34,000", "recoveries", "[disk]", "22", "moves", "node7"):
        assert word in words
    assert "3 shards now: 22 moves" in said(monkeypatch, "3")
    assert json.loads(said(monkeypatch, "3", "--json"))["moved"]["moves"] == 22
    assert CliRunner().invoke(advisor, ["shards", "0"]).exit_code == 2
