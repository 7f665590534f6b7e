"""Twice what a service can take, for a moment: nothing is lost, questions are answered. How fast is the benchmark's."""

from __future__ import annotations

from pathlib import Path

import overload
import pytest
from latency import service


def test_beyond_the_peak_nothing_is_lost_and_questions_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, small in (("ROWS", 20), ("NEW_ROWS", 2), ("KNOWN", 20), ("WINDOW", 8)):
        monkeypatch.setattr(overload, name, small)
    with service(tmp_path, state=True) as (path, pid):
        load = overload.Load(path, pid)
        rows = [["asked", float(x), float(p), 1e-4 * x / p] for x in range(1, 20) for p in (1, 2, 4, 8)]
        load.wire.call("observe_rows", {"rows": rows})
        peak = load.phase(None, 1.0).rate
        assert load.phase(2.0 * peak, 1.0).asked
        sent = sum(last - 1 for last in load.next.values())
        totals = load.wire.call("status", {})["totals"]
        refused = sum(count for key, count in totals.items() if key.startswith("refused."))
        load.wire.socket.close()
        assert totals["rows_accepted"] + refused == sent * overload.ROWS + len(rows)
