"""The demo's arithmetic: what a policy costs, what the hindsight is, which core counts are tried."""

from __future__ import annotations

from json import dumps, loads
from pathlib import Path

import pytest

from advisor.cli import tables
from advisor.cli.demonstration import judged
from advisor.demo import real
from advisor.demo.real import Invocation, summary, usable_cores

JUDGED = (
    Invocation("sort", 2, {1: 4.0, 2: 2.0, 4: 1.0}, 1e-3),
    Invocation("sort", 1, {1: 1.0, 2: 2.0, 4: 2.0}, 1e-3),
    Invocation("reduce", 2, {1: 1.0, 2: 1.04, 4: 3.0}, 1e-3),
)


@pytest.mark.parametrize(
    ("quota", "most"), [("max 100000", 10**6), ("150000 100000", 1), ("50000 100000", 1), ("garbage", 10**6)]
)
def test_a_quota_of_the_control_group_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, most: int
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(real, "CGROUP_QUOTA", tmp_path / "cpu.max")
    assert 1 <= usable_cores() <= most
    monkeypatch.setattr(real, "CGROUP_QUOTA", tmp_path / "none")
    assert usable_cores() >= 1


def test_what_was_judged_is_printed_and_given_as_plain_values(capsys: pytest.CaptureFixture[str]) -> None:
    reported = loads(dumps(summary(JUDGED), allow_nan=False))
    assert reported["policies"]["advised"]["regret"] == pytest.approx(1.04 / 3)
    assert reported["policies"]["advised"]["right_share"] == pytest.approx(2 / 3)
    assert reported["policies"]["all cores"]["core_s"] == 24.0
    tables.print_parts(judged({"cores": 4, "runs_learned": 10, "load_average": 9.0, "seconds": 1.0, **reported}))
    shown = capsys.readouterr().out
    assert "+34.7%" in shown
    assert "busy with other work" in shown
