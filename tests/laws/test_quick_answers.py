"""Compiled answers (the extra ``fast``) are those of numpy but for their last digits, and never reach the state."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from advisor.engine import Advisor, use_compiled
from advisor.models import fold, posterior, quick

pytest.importorskip("numba", reason="the extra `fast` is not installed: there are no compiled answers")

# Columns that points cannot tell apart share what they explain; how they share it is rounding. Measured over 500 states of the
# kinds below: half the answers agree to 1e-13, nine in ten to 1e-11, 95 in 100 to 1e-8, the worst to 2e-7.
MOST, WORST = 1e-9, 1e-5


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    """Compiled code is of the whole process: what the other tests found is left to them."""
    kept = [*posterior.COMPILED], [*fold.COMPILED]
    assert use_compiled()
    assert posterior.COMPILED
    yield
    posterior.COMPILED[:], fold.COMPILED[:] = kept


def rows_of(seed: int) -> list[tuple[tuple[float, ...], float, float, str | None]]:
    """Return rows of one component: predictors, cores, elapsed time, machine."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([1, 2, 3, 6, 20, 60, 100, 400, 3000])), int(rng.choice([1, 1, 2, 4]))
    x = [
        lambda: rng.choice([0.0, 10.0, 100.0, 300.0, 1000.0], (n, d)),
        lambda: np.exp(rng.uniform(0, rng.choice([0.1, 1.0, 8.0]), (n, d))),
        lambda: np.full((n, d), 7.0),
    ][seed % 3]()
    p = rng.choice([0.5, 1.0, 2.0, 4.0, 8.0, 16.0], n)
    t = 1e-3 * (0.5 + x).prod(axis=1) ** rng.uniform(0.2, 1.2) * (0.1 + 0.9 / p)
    t *= rng.lognormal(0, rng.choice([0.01, 0.1, 0.5]), n)
    t[rng.integers(n)] *= rng.choice([1.0, 1000.0])
    t = np.minimum(t, 1e9)
    machine = rng.choice(["a", "b"], n) if seed % 5 == 0 else [None] * n
    return list(zip(map(tuple, x.tolist()), p.tolist(), t.tolist(), machine, strict=True))


def learned(rows: list[Any]) -> Advisor:
    advisor = Advisor()
    for x, p, t, machine in rows:
        advisor.observe("c", predictor=x if len(x) > 1 else x[0], cores=p, elapsed_s=t, machine=machine)
    return advisor


def answers(advisor: Advisor, rows: list[Any], seed: int) -> tuple[np.ndarray, str]:
    """Return logs (value, low, high) of questions one by one and together, and what the notes say."""
    rng = np.random.default_rng(seed)
    seen = [rows[i] for i in rng.integers(0, len(rows), 4)]
    points = [
        (tuple(value * f for value in x), p * g)
        for (x, p, _, _), f, g in zip(seen, (1, 1.3, 5, 0.2), (1, 1, 4, 0.7), strict=True)
    ]
    found = [advisor.predict("c", predictor=x if len(x) > 1 else x[0], cores=p, level=0.8) for x, p in points]
    single = [(a.elapsed_s, a.low_s, a.high_s) for a in found]
    xs = np.array([x if len(x) > 1 else x[0] for x, _ in points])
    many = advisor.predict("c", predictor=xs, cores=np.array([p for _, p in points]), level=0.8)
    np.testing.assert_allclose(np.log(np.array(single).T), np.log([many.elapsed_s, many.low_s, many.high_s]), atol=1e-8)
    return np.log(single), str(advisor.predict("c", predictor=xs[0], cores=2.0).observations)


def both(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows, found = rows_of(seed), []
    advisor = learned(rows)
    state = advisor.to_bytes()
    for kernels in ([], [*posterior.COMPILED]):
        kept, posterior.COMPILED[:] = [*posterior.COMPILED], kernels
        found.append(answers(Advisor.from_bytes(state), rows, seed))
        posterior.COMPILED[:] = kept
    assert found[0][1] == found[1][1]
    return found[0][0], found[1][0]


def test_compiled_answers_are_those_of_numpy() -> None:
    errors = [np.abs(plain - fast).max() for plain, fast in map(both, range(45))]
    assert np.mean(np.array(errors) <= MOST) > 0.85
    assert max(errors) < WORST


@pytest.mark.slow
def test_compiled_answers_are_those_of_numpy_in_many_states() -> None:
    errors = [np.abs(plain - fast).max() for plain, fast in map(both, range(1000, 1500))]
    assert np.mean(np.array(errors) <= MOST) > 0.85
    assert max(errors) < WORST


@pytest.mark.parametrize("seed", [4, 7, 30])
def test_forced_forms_and_the_measures_agree_too(seed: int) -> None:
    rows = rows_of(seed)
    advisor = learned(rows)
    state = advisor.to_bytes()
    x = rows[0][0]
    for model in ("smooth", "constant", "mixture"):
        fast = advisor.predict("c", predictor=x if len(x) > 1 else x[0], cores=3.0, model=model)
        kept, posterior.COMPILED[:] = [*posterior.COMPILED], []
        plain = Advisor.from_bytes(state).predict("c", predictor=x if len(x) > 1 else x[0], cores=3.0, model=model)
        posterior.COMPILED[:] = kept
        assert fast.model == plain.model
        assert np.log(fast.elapsed_s) == pytest.approx(np.log(plain.elapsed_s), abs=1e-7)


def test_questions_and_scores_leave_the_bytes_of_numpy() -> None:
    """Rows are predicted before they are learned, and the scores are state: they are numpy's, whoever answers."""
    rng = np.random.default_rng(6)
    x, p = np.exp(rng.uniform(0, 7, 200)), rng.choice([1.0, 2.0, 8.0], 200)
    t = 1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.1, 200)
    rows = [((x,), p, t, None) for x, p, t in zip(x.tolist(), p.tolist(), t.tolist(), strict=True)]
    advisor = Advisor()
    for i, row in enumerate(rows):
        advisor.observe("c", predictor=row[0][0], cores=row[1], elapsed_s=row[2])
        if i % 20 == 0:
            advisor.predict("c", predictor=row[0][0], cores=row[1])
    assert advisor.ledger()["scores"] > 50
    posterior.COMPILED.clear()
    fold.COMPILED.clear()
    assert learned(rows).to_bytes() == advisor.to_bytes()


@pytest.mark.parametrize("name", ["points", "curve", "solved", "shape_evidence", "fitted", "one_point", "evidence"])
def test_a_kernel_that_computes_something_else_is_found_out(name: str) -> None:
    kernels = posterior.COMPILED[0]
    assert quick.agrees(kernels)

    def wrong(*args: Any) -> Any:
        found = getattr(kernels, name)(*args)
        if isinstance(found, tuple):
            return (found[0] * 1.01, *found[1:])
        return found * 1.01

    spoilt = SimpleNamespace(**{key: getattr(kernels, key) for key in dir(kernels) if not key.startswith("__")})
    setattr(spoilt, name, wrong)
    assert not quick.agrees(spoilt)
    assert [kernels] == posterior.COMPILED


def test_other_threads_answer_with_numpy_while_kernels_are_tried() -> None:
    kernels = posterior.COMPILED[0]
    posterior.COMPILED.clear()
    elsewhere: list[Any] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            with ThreadPoolExecutor(1) as other:
                elsewhere.append(other.submit(posterior.compiled).result())
            return getattr(kernels, name)

    assert quick.agrees(Watched())
    assert elsewhere
    assert not any(elsewhere)
    assert posterior.compiled() is None
