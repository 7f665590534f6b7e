"""Runs that a limit ended: their times and measures are lower bounds, in one row and in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor import Advisor, InvalidValue
from advisor.protocol.rows import columns_of_rows

LIMIT = 1.2  # of the mean, at 30 % noise: one run in four is longer


def learned(killed: bool) -> float:
    """Return the bias of the mean, in a component whose longer runs are killed; they are reported or not."""
    rng = np.random.default_rng(5)
    advisor = Advisor()
    for x, noise in zip(rng.uniform(1.0, 10.0, 300), rng.lognormal(-0.045, 0.3, 300), strict=True):
        if noise < LIMIT:
            advisor.observe("m", predictor=x, cores=4, elapsed_s=x * noise)
        elif killed:
            advisor.observe("m", predictor=x, cores=4, elapsed_s=x * LIMIT, killed="time", ok=False)
    x = np.linspace(1.0, 10.0, 50)
    return float((advisor.predict("m", predictor=x, cores=np.full(50, 4.0)).elapsed_s / x).mean()) - 1.0


def test_killed_runs_keep_the_mean_from_sinking() -> None:
    """Measured on another seed: -13.7 % without them, +0.7 % with them."""
    assert learned(killed=False) < -0.1
    assert abs(learned(killed=True)) < 0.05


def status(advisor: Advisor) -> Any:
    return advisor.status(components=True)["components"][0]


def test_a_bound_below_what_a_run_takes_anyway_is_counted_only() -> None:
    advisor = Advisor()
    for _ in range(20):
        advisor.observe("m", cores=4, elapsed_s=10.0)
    before = advisor.predict("m", cores=4).elapsed_s
    advisor.observe("m", cores=4, elapsed_s=1.0, killed="time")
    assert advisor.predict("m", cores=4).elapsed_s == before
    assert (status(advisor)["rows"], status(advisor)["unfinished"]) == (20, 1)


def test_memory_learned_rises_after_a_kill() -> None:
    advisor = Advisor()
    for _ in range(20):
        advisor.observe("m", cores=4, elapsed_s=10.0, measures={"peak_bytes": 3e9})
    for _ in range(3):
        advisor.observe("m", cores=4, elapsed_s=8.0, measures={"peak_bytes": 4e9}, killed="memory", ok=False)
    answer = advisor.predict("m", cores=4, measure="peak_bytes")
    assert answer.high_s >= 4e9
    assert answer.notes[-1] == "a killed run had used more than any that ended"  # a time would be wrong here
    assert status(advisor)["peak_killed_bytes"] == pytest.approx(4e9)


def test_the_largest_time_and_memory_are_kept_exactly() -> None:
    rng = np.random.default_rng(11)
    runs = [
        (float(t), float(peak))
        for t, peak in zip(rng.lognormal(0, 2, 300), 2e9 * rng.lognormal(0, 1, 300), strict=True)
    ]
    whole, parts = Advisor(), (Advisor(), Advisor())
    for k, (t, peak) in enumerate(runs):
        for advisor in (whole, parts[k % 2]):
            advisor.observe(
                "m", predictor=1 + k % 90, cores=1 + k % 3, elapsed_s=t, measures={"peak_bytes": peak}, active_cores=9
            )
    parts[0].merge(Advisor.from_bytes(parts[1].to_bytes()))
    for advisor in (whole, parts[0]):
        found = status(advisor)
        assert (found["elapsed_most_s"], found["peak_most_bytes"]) == tuple(
            max(each) for each in zip(*runs, strict=True)
        )


def test_rows_columns_and_codes_are_one() -> None:
    one, words, codes, wire = (Advisor() for _ in range(4))
    killed = [None, "memory", None, "time"]
    seconds, peaks = [3.0, 5.0, 3.5, 9.0], [1e9, 2e9, np.nan, np.nan]
    for t, peak, why in zip(seconds, peaks, killed, strict=True):
        one.observe("m", predictor=2.0, cores=4, elapsed_s=t, measures={"peak_bytes": peak}, killed=why)
    given: dict[str, Any] = {
        "components": ["m"], "index": [0] * 4, "predictor": [2.0] * 4, "cores": [4.0] * 4, "elapsed_s": seconds,
        "measures": {"peak_bytes": np.array(peaks)},
    }  # fmt: skip
    words.observe_columns(**given, killed=killed)
    codes.observe_columns(**given, killed=np.array([0, 1, 0, 2]))
    rows = [
        [
            "m",
            2.0,
            4.0,
            t,
            {"measures": {} if peak != peak else {"peak_bytes": peak}} | ({"killed": why} if why else {}),
        ]
        for t, peak, why in zip(seconds, peaks, killed, strict=True)
    ]
    wire.learn_batch(columns_of_rows(rows))
    assert one.to_bytes() == words.to_bytes() == codes.to_bytes() == wire.to_bytes()


@pytest.mark.parametrize("bad", ["hunger", 3])
def test_another_word_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidValue, match="killed"):
        Advisor().observe("m", cores=1, elapsed_s=1.0, killed=bad)
    with pytest.raises(InvalidValue, match="killed"):
        Advisor().observe_columns(components=["m"], index=[0], cores=[1.0], elapsed_s=[1.0], killed=[bad])
