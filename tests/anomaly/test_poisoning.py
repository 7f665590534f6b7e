"""Rows that lie, up to the legal bounds: no answer leaves the times that a run may have, and few of them move no prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor import Advisor
from advisor.domain import limits
from advisor.engine.learners import MODEL_MEMORY_BYTES

SEEN = {"predictor": np.array([20.0, 300.0, 900.0])[:, None], "cores": np.array([1.0, 2.0, 8.0])}
ANYWHERE = {
    "predictor": np.array([0.0, 1e-6, 50.0, 1e5, limits.PREDICTOR_MAX])[:, None],
    "cores": np.array([limits.CORES_MIN, 1.0, 4.0, 1024.0, limits.CORES_MAX]),
}


def teach(advisor: Advisor, seed: int, rows: int, **lies: Any) -> None:
    rng = np.random.default_rng(seed)
    x, p = rng.uniform(1, 1000, rows), rng.choice([1.0, 2.0, 4.0, 8.0], rows)
    reported: dict[str, Any] = {
        "predictor": x,
        "cores": p,
        "elapsed_s": 1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.1, rows),
    }
    advisor.observe_columns(components=["c"], index=np.zeros(rows, int), **(reported | lies))


@pytest.mark.parametrize("model", [None, "two_step"])
@pytest.mark.parametrize("memory", [0, MODEL_MEMORY_BYTES])
@pytest.mark.parametrize("lie", [limits.ELAPSED_MAX_S, limits.ELAPSED_MIN_S])
def test_no_answer_leaves_the_times_that_a_run_may_have(lie: float, memory: int, model: str | None) -> None:
    """Of 5 lies after 300 good rows, and of lies alone, at any level and point: interval ends were 10^150 times off."""
    for good, lies in ((300, 5), (0, 5), (3, 3)):
        advisor = Advisor(model_memory_bytes=memory)
        if good:
            teach(advisor, good, good)
        teach(advisor, lies, lies, elapsed_s=np.full(lies, lie))
        reported = [advisor.predict("c", level=level, model=model, **ANYWHERE) for level in (0.999, 0.9, 0.5)]
        chain = (
            [each.low_s for each in reported] + [reported[0].elapsed_s] + [each.high_s for each in reversed(reported)]
        )
        assert np.all(np.diff(np.stack(chain), axis=0) >= 0.0)  # a higher level is a wider interval
        assert np.all(chain[0] >= limits.ELAPSED_MIN_S)
        assert np.all(chain[-1] <= limits.ELAPSED_MAX_S)


@pytest.mark.parametrize("seed", range(4))
def test_five_rows_of_the_longest_time_carry_nothing_away(seed: int) -> None:
    """As issued: 300 good rows, 5 of 10^9 s anywhere, 400 good ones."""
    advisor = Advisor()
    teach(advisor, seed, 300)
    before = np.asarray(advisor.predict("c", **SEEN).elapsed_s)
    teach(advisor, 100 + seed, 5, elapsed_s=np.full(5, limits.ELAPSED_MAX_S))
    after = advisor.predict("c", **SEEN)
    assert np.abs(after.elapsed_s / before - 1.0).max() <= 0.15
    assert np.all(after.high_s < 10 * before)
    teach(advisor, 200 + seed, 400)
    assert np.abs(np.asarray(advisor.predict("c", **SEEN).elapsed_s) / before - 1.0).max() <= 0.15
