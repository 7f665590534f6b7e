"""Choices that are kept, and versions of what changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor import Advisor


def taught(rows: int = 64, names: tuple[str, ...] = ("a", "b", "c")) -> Advisor:
    advisor = Advisor()
    for name in names:
        teach(advisor, name, rows)
    return advisor


def teach(advisor: Advisor, name: str, rows: int, factor: float = 1.0, **more: Any) -> None:
    for k in range(rows):
        p = 1 << k % 4
        advisor.observe(name, predictor=float(k % 7 + 1), cores=p, elapsed_s=factor * 0.01 * (k % 7 + 1) / p, **more)
    advisor.flush()


def test_versions_rise_with_changes_and_only_then_and_are_their_runs_own() -> None:
    advisor = taught()
    advisor.bundles.origin = 5
    first = advisor.bundles.version
    assert advisor.bundles.version == first
    assert advisor.bundles.changed(first) == []
    teach(advisor, "b", 1)
    assert advisor.bundles.changed(first) == [1]
    assert advisor.bundles.version > first
    again = Advisor.from_bytes(advisor.to_bytes())
    again.bundles.origin = 6
    assert again.bundles.changed(advisor.bundles.version) == [0, 1, 2]


def test_a_choice_is_kept_until_rows_come_and_serves_every_tolerance() -> None:
    advisor = taught()
    first = advisor.choose_cores("a", predictor=3.0, cores_max=8)
    assert advisor.choose_cores("a", predictor=3.0, cores_max=8) == first
    for most in (1, 3, 8, 15, 16, 300):
        for tolerance in (0.0, 0.1, 1.0):
            kept = advisor.choose_cores("a", predictor=3.0, cores_max=most, tolerance=tolerance)
            fresh = Advisor.from_bytes(advisor.to_bytes()).choose_cores(
                "a", predictor=3.0, cores_max=most, tolerance=tolerance
            )
            assert kept == fresh
            assert kept.cores <= most
    teach(advisor, "a", 200, factor=4.0)
    assert advisor.choose_cores("a", predictor=3.0, cores_max=8).elapsed_s > 1.2 * first.elapsed_s
    advisor.pin("a", "proportional")
    assert advisor.choose_cores("a", predictor=3.0, cores_max=8).model == "proportional"
    advisor.forget("a")
    assert advisor.choose_cores("a", predictor=3.0, cores_max=8).model == "prior"


def test_levels_machines_and_points_have_choices_of_their_own() -> None:
    advisor = Advisor()
    rng = np.random.default_rng(1)
    for k in range(80):
        p, machine = 1 << k % 4, "fast" if k % 2 else "slow"
        seconds = (1.0 if machine == "fast" else 3.0) * 0.1 / p
        advisor.observe("m", cores=p, elapsed_s=seconds * float(np.exp(rng.normal(0, 0.1))), machine=machine)
        pair = [float(k % 5 + 1), float(k % 3 + 1)]
        advisor.observe("v", predictor=pair, cores=p, elapsed_s=0.01 * pair[0] * pair[1] / p)
    slow, fast = (advisor.choose_cores("m", cores_max=8, machine=name) for name in ("slow", "fast"))
    assert slow.elapsed_s > 2 * fast.elapsed_s
    wide = advisor.choose_cores("m", cores_max=8, machine="fast", level=0.99)
    assert wide.high_s > fast.high_s
    one, two = (advisor.choose_cores("v", predictor=[5.0, y], cores_max=8) for y in (1.0, 3.0))
    assert two.elapsed_s == pytest.approx(3 * one.elapsed_s, rel=0.2)
