"""The compiled rounds of the extra ``fast`` give the same bytes as numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.engine import Advisor
from advisor.models import fold
from advisor.models.fold import use_compiled

pytest.importorskip("numba", reason="the extra `fast` is not installed: compiled and plain folds are not compared")


def stream(seed: int, rows: int, components: int, order: str) -> dict[str, np.ndarray]:
    """Return columns whose predictors, cores and counts make every kind of event happen."""
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(-3, 20, rows)) * rng.choice([0.0, 1.0, 1.0, 1.0], rows)
    x = {"random": x, "rising": np.sort(x), "falling": np.sort(x)[::-1].copy()}[order]
    p = rng.choice([0.5, 1.0, 2.0, 3.0, 8.0, 48.0], rows)
    t = np.clip((1e-4 + 1e-6 * x) * (0.9 / p + 0.1) * rng.lognormal(0, 0.5, rows), 1e-9, 1e9)
    return {
        "index": rng.integers(0, components, rows),
        "predictor": x,
        "cores": p,
        "elapsed_s": t,
        "count": rng.integers(1, 5, rows),
    }


def learned(columns: dict[str, np.ndarray], components: int, cuts: list[int]) -> bytes:
    adv = Advisor()
    names = [f"c{i}" for i in range(components)]
    for part in np.split(np.arange(len(columns["index"])), cuts):
        adv.observe_columns(components=names, **{key: value[part] for key, value in columns.items()})
    return adv.to_bytes()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 3000),
    components=st.sampled_from([1, 2, 30, 1000, 5000]),
    order=st.sampled_from(["random", "rising", "falling"]),
    cuts=st.lists(st.integers(0, 3000), max_size=4).map(sorted),
)
def test_same_bytes(seed: int, rows: int, components: int, order: str, cuts: list[int]) -> None:
    columns = stream(seed, rows, components, order)
    fold.COMPILED.clear()
    plain = learned(columns, components, [])
    assert use_compiled()
    assert learned(columns, components, cuts) == plain


def test_kernels_that_compute_something_else_are_found_out() -> None:
    """A stale cache of compiled code must never reach a state: `use_compiled` compares before it switches."""
    assert not fold.agrees(lambda *_: None)
    assert use_compiled()
    assert fold.agrees(fold.COMPILED[0])
