"""Reference vectors hold what C answers from a bundle: to the bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from c_curves import ASK_SERVICE, INVALID, Curves, library
from curve_vectors import BUNDLE, VECTORS, vectors_of

from advisor.domain.bundle import pack

GOLDEN: dict[str, Any] = json.loads(VECTORS.read_text())


@pytest.fixture(scope="module")
def curves() -> Curves:
    return Curves(BUNDLE.read_bytes())


def test_c_answers_them(curves: Curves) -> None:
    assert vectors_of(curves) == GOLDEN
    assert [name for name in curves.names if not curves.answers(name)] == [
        "form pairs", "form unfinished", "grid pairs", "grid unfinished",
    ]  # fmt: skip


def test_c_refuses_what_it_cannot_answer(curves: Curves) -> None:
    in_c = curves.in_c
    ask, known, nobody = in_c.find("grid pairs"), in_c.find("grid amdahl"), in_c.find("nobody")
    assert (nobody, in_c.held.components, in_c.held.version) == (-1, len(GOLDEN), 7)
    for component, x, p in (
        (ask, 1.0, 1.0),
        (known, -1.0, 1.0),
        (known, 1.0, 0.0),
        (known, np.nan, 1.0),
        (99, 1.0, 1.0),
    ):
        assert all(np.isnan(value) for value in in_c.predict(component, x, p))
    assert in_c.choose_cores(ask, 1.0, 4, 0.0) == ASK_SERVICE
    for x, most, tolerance in ((np.nan, 4, 0.0), (1.0, 0, 0.0), (1.0, 2**21, 0.0), (1.0, 4, np.nan), (1.0, 4, -1.0)):
        assert in_c.choose_cores(known, x, most, tolerance) == INVALID


def test_what_is_merged_answers_as_its_parts(curves: Curves) -> None:
    parts = [pack(curves.records[::2], 1, 0.9), pack(curves.records[::3], 2, 0.9), pack([], 3, 0.9)]
    into = library().read(parts[0])
    for part in parts[1:]:
        news = library().read(part)
        assert into.merge(news) == 0
        news.close()
    names = sorted({record.name for step in (2, 3) for record in curves.records[::step]})
    assert [into.find(name) for name in names] == list(range(len(names)))
    assert into.held.version == 3
    for name in names:
        if curves.answers(name):
            assert into.predict(into.find(name), 77.0, 5.0) == tuple(curves.predict(name, 77.0, 5.0))
    into.close()
