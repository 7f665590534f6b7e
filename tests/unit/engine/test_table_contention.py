"""The learned contention factor reaches the tables that plans are made from."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.engine import Advisor


def test_tables_carry_the_learned_contention_factor() -> None:
    rng, adv = np.random.default_rng(1), Advisor()
    for _ in range(300):
        active = float(rng.integers(1, 5))
        elapsed = 0.02 * (1 + 0.5 * (active - 1)) * float(rng.lognormal(0, 0.05))
        adv.observe("bound", predictor=1, cores=1, elapsed_s=elapsed, active_cores=active)
        adv.observe("free", predictor=1, cores=1, elapsed_s=0.02, active_cores=active)
    table = adv.tables_of(["bound", "free"], cores_max=2)
    assert table.contention[0] == pytest.approx(0.5, rel=0.1)
    assert table.contention[1] == pytest.approx(0.0, abs=0.01)
    assert table.elapsed_s[:, 0] == pytest.approx(0.02, rel=0.1)
