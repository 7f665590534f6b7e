"""Promises against known curves: the counts of a plan are judged by the curves, and the table is that of its seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import promises

HALVES = promises.Curve(lambda p: 1.0 / p, lambda p, _: 1.0 / p)
FLAT = promises.Curve(lambda _: 2.0, lambda _, __: 2.0, (1, 2, 4))


def test_plans_of_exact_curves_state_and_keep_their_promises() -> None:
    found = list(promises.plans([HALVES, HALVES], 2, (1, 2, 4), np.random.default_rng(1)))
    assert any(one.free for one in found)
    assert any(one.within for one in found)
    group = promises.Group(found)
    assert all(one.stated == (one.promised,) for one in found)
    assert " | 1.00 | 1.000 | " in group.row()


def test_measured_inputs_are_those_that_ran_on_the_counts_taught_and_on_more(tmp_path: Path) -> None:
    rows = [("a", x, p, 8.0 / p) for x, most in ((1, 8), (2, 4)) for p in (1, 2, 4, 8) if p <= most for _ in range(3)]
    text = "component,x,p,t\n" + "".join(f"{c},{x},{p},{t}\n" for c, x, p, t in rows)
    (tmp_path / "tiny.csv").write_text(text)
    (draw,) = promises.measured(tmp_path).values()
    one, two = draw(np.random.default_rng(1), 2)
    assert one.counts == two.counts == (1, 2, 4, 8)
    assert [one.seconds(p) for p in one.counts] == [8.0, 4.0, 2.0, 1.0]
    assert promises.measured(tmp_path / "none") == {}


def test_what_was_never_seen_is_no_reason_to_call_a_target_impossible() -> None:
    rows = promises.outcomes(1, 2, 0.0, beyond=True)
    assert len(rows) == 2 + len(promises.REACHES)
    counts = [[int(cell) for cell in row.strip("| ").split(" | ")[1:]] for row in rows[2:]]
    assert all(answered + refused + impossible == 2 for answered, _, refused, impossible, _, _ in counts)
    assert all(kept == answered and not impossible for answered, kept, _, impossible, _, _ in counts)
