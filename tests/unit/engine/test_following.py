"""Choices that are kept, and versions of what changed."""

from __future__ import annotations

from typing import Any

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
