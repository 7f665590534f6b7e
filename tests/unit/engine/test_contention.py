"""The contention factor, and the curve beneath it, held to the truth of simulated runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Advisor
from advisor.errors import UnknownComponent

SERIAL, MACHINE = 0.1, 16
POINTS = [(x, p) for x in (10.0, 50.0, 90.0) for p in (1.0, 2.0, 4.0, 8.0)]


def truth(x: Any, p: Any) -> Any:
    return 1e-3 * x * (SERIAL + (1 - SERIAL) / p)


def runs(n: int, kappa: float, seed: int, *, others: str = "free", names: int = 1, noise: float = 0.1) -> Columns:
    rng = np.random.default_rng(seed)
    x, p = rng.uniform(1, 100, n), rng.choice([1.0, 2.0, 4.0, 8.0], n)
    busy = {
        "free": rng.integers(0, 9, n).astype(float),  # whatever the cores
        "filled": rng.binomial((MACHINE - p).astype(int), 0.6).astype(float),  # fewer beside a larger run
        "full": MACHINE - p,  # a machine that is always full
        "none": np.zeros(n),
    }[others]
    t = truth(x, p) * (1 + kappa * busy) * rng.lognormal(0, noise, n)
    index = rng.integers(0, names, n)
    return columns_of(ComponentNames([f"c{i}" for i in range(names)]), index, x, p, t, active_cores=p + busy)


def learned(columns: Columns, batch: int = 100_000) -> Advisor:
    advisor = Advisor()
    for start in range(0, len(columns), batch):
        advisor.learn_batch(columns.select_rows(slice(start, start + batch)))
    return advisor


def off(advisor: Advisor) -> float:
    """Return the mean error of the curve of an idle machine."""
    return float(
        np.mean([abs(advisor.predict("c0", predictor=x, cores=p).elapsed_s / truth(x, p) - 1) for x, p in POINTS])
    )


@pytest.mark.parametrize("others", ["free", "filled"])
@pytest.mark.parametrize("kappa", [0.03, 0.2])
def test_the_factor_and_the_curve_are_found(others: str, kappa: float) -> None:
    columns = runs(3000, kappa, 1, others=others)
    advisor = learned(columns)
    found = advisor.contention("c0")
    assert abs(found.kappa - kappa) < 4 * found.error
    assert found.error < kappa / 5
    assert (found.rows, found.contended) == (3000, int(np.count_nonzero(columns.active_cores > columns.cores)))
    blind = learned(replace(columns, active_cores=None))
    assert off(advisor) < 0.04
    assert off(blind) > 3 * off(advisor)
    assert found.factor(2.0) == 1 + 2 * found.kappa


def test_the_error_is_the_scatter() -> None:
    z = []
    for seed in range(16):
        advisor = learned(runs(256, 0.1, seed, others="free"))
        table = advisor.components.records["contention"]
        kappa = table.words[0, table.at["kappa"].start]
        z.append((kappa - 0.1) / advisor.contention("c0").error)
    assert 0.6 < np.std(z) < 1.8
    assert abs(np.mean(z)) < 1.2  # early rows were judged by a young model


@pytest.mark.parametrize("others", ["free", "filled", "full", "none"])
def test_without_contention_there_is_next_to_none(others: str) -> None:
    found = [learned(runs(500, 0.0, seed, others=others)).contention("c0").kappa for seed in range(6)]
    assert np.median(found) == 0.0
    assert max(found) < 0.02


def test_where_others_are_a_function_of_cores_the_curve_keeps_it() -> None:
    """A machine always full: what nothing can tell apart is not split at a guess, and says so by its error."""
    for seed in range(4):
        advisor = learned(runs(1000, 0.03, seed, others="full"))
        assert advisor.contention("c0").kappa < 0.03
        x, p = 50.0, 4.0
        full = advisor.predict("c0", predictor=x, cores=p).elapsed_s * advisor.contention("c0").factor(MACHINE - p)
        assert full == pytest.approx(truth(x, p) * (1 + 0.03 * (MACHINE - p)), rel=0.1)


def test_little_evidence_gives_nothing() -> None:
    advisor = learned(runs(31, 0.2, 1))
    assert (advisor.contention("c0").kappa, advisor.contention("c0").error) == (0.0, float("inf"))
    assert advisor.contention("c0").rows == 31
    (entry,) = advisor.status()["components"]
    assert entry["contention"] == {
        "kappa": 0.0,
        "error": None,
        "rows": 31,
        "contended": entry["contention"]["contended"],
    }


def test_who_tells_nothing_has_none() -> None:
    advisor = Advisor()
    advisor.observe("c0", elapsed_s=1.0)
    assert advisor.contention("c0").rows == 0
    assert "contention" not in advisor.status()["components"][0]
    with pytest.raises(UnknownComponent):
        advisor.contention("nobody")
    plain = learned(replace(runs(50, 0.1, 1), active_cores=None))
    reported = learned(replace(runs(50, 0.1, 1), active_cores=np.full(50, np.nan)))
    assert reported.to_bytes() == plain.to_bytes()


def test_outliers_do_not_decide() -> None:
    columns = runs(2000, 0.1, 3)
    rng = np.random.default_rng(3)
    t = columns.elapsed_s.copy()
    hit = rng.random(len(t)) < 0.02
    t[hit] *= 50.0
    found = learned(replace(columns, elapsed_s=t)).contention("c0")
    assert found.kappa == pytest.approx(0.1, rel=0.35)


def test_shards_merge() -> None:
    one, other = (learned(runs(1500, 0.1, seed)) for seed in (7, 8))
    errors = one.contention("c0").error, other.contention("c0").error
    one.merge(other)
    found = one.contention("c0")
    assert found.error == pytest.approx((errors[0] ** -2 + errors[1] ** -2) ** -0.5)
    assert abs(found.kappa - 0.1) < 4 * found.error
    assert found.rows == 3000
    fresh = Advisor()
    fresh.merge(other)
    assert fresh.contention("c0").kappa == pytest.approx(other.contention("c0").kappa)
    one.learn_batch(runs(500, 0.1, 9))
    assert abs(one.contention("c0").kappa - 0.1) < 5 * one.contention("c0").error


def test_forgetting() -> None:
    advisor = learned(runs(1000, 0.1, 1))
    advisor.forget("c0")
    assert (advisor.contention("c0").kappa, advisor.contention("c0").rows) == (0.0, 1000)
    advisor.learn_batch(runs(1000, 0.2, 2))
    assert advisor.contention("c0").kappa == pytest.approx(0.2, rel=0.2)


def test_tables_carry_the_learned_contention_factor() -> None:
    rng, adv = np.random.default_rng(1), Advisor()
    for _ in range(300):
        active = float(rng.integers(1, 5))
        elapsed = 0.02 * (1 + 0.5 * (active - 1)) * float(rng.lognormal(0, 0.05))
        adv.observe("bound", predictor=1, cores=1, elapsed_s=elapsed, active_cores=active)
        adv.observe("free", predictor=1, cores=1, elapsed_s=0.02, active_cores=active)
    table = adv.curve_tables.curves(["bound", "free"], cores_max=2)
    assert table.contention[0] == pytest.approx(0.5, rel=0.1)
    assert table.contention[1] == pytest.approx(0.0, abs=0.01)
    assert table.elapsed_s[:, 0] == pytest.approx(0.02, rel=0.1)
