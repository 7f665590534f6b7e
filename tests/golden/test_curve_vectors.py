"""Reference vectors hold Python, numba and C to equal answers: to the bit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_curves import Library, compiled
from curve_vectors import BUNDLE, VECTORS, vectors_of

from advisor import Bundle
from advisor.domain.bundle import Directory

GOLDEN: dict[str, Any] = json.loads(VECTORS.read_text())
Predict = Callable[[str, float, float], tuple[float, ...]]
Choose = Callable[[str, float, Any, float], int]


@pytest.fixture(scope="module")
def directory() -> Directory:
    return Directory(BUNDLE.read_bytes())


def agree(predict: Predict, choose: Choose, choose_allowed: Choose) -> None:
    asked = 0
    for name, vectors in GOLDEN.items():
        if vectors is None:
            continue
        for x, p, *answer in vectors["predict"]:
            found = [value.hex() for value in predict(name, float.fromhex(x), float.fromhex(p))]
            assert found == answer, (name, float.fromhex(x), float.fromhex(p))
            asked += 1
        for x, most, tolerance, cores in vectors["choose_cores"]:
            assert choose(name, float.fromhex(x), most, tolerance) == cores, (name, float.fromhex(x), most, tolerance)
        for x, listed, tolerance, cores in vectors["choose_allowed"]:
            assert choose_allowed(name, float.fromhex(x), listed, tolerance) == cores, (name, float.fromhex(x), listed)
    assert asked > 1000


def test_python_answers_them() -> None:
    bundle = Bundle(BUNDLE.read_bytes())
    assert vectors_of(bundle) == GOLDEN
    assert [name for name in bundle.names if not bundle.answers(name)] == [
        "form pairs", "form unfinished", "grid pairs", "grid unfinished",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(compiled(tmp_path_factory.mktemp("c") / "advisor.so", "-shared", "-fPIC"))


@pytest.fixture
def in_c(library: Library) -> Iterator[Any]:
    bundle = library.read(BUNDLE.read_bytes())
    assert not bundle.error
    yield bundle
    bundle.close()


def test_c_answers_them(in_c: Any) -> None:
    agree(
        lambda name, x, p: in_c.predict(in_c.find(name), x, p),
        lambda name, x, most, tolerance: in_c.choose_cores(in_c.find(name), x, most, tolerance),
        lambda name, x, listed, tolerance: in_c.choose_allowed(in_c.find(name), x, listed, tolerance),
    )


def test_c_refuses_what_it_cannot_answer(in_c: Any) -> None:
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
    assert in_c.choose_cores(ask, 1.0, 4, 0.0) == -4
    for x, most, tolerance in ((np.nan, 4, 0.0), (1.0, 0, 0.0), (1.0, 2**21, 0.0), (1.0, 4, np.nan), (1.0, 4, -1.0)):
        assert in_c.choose_cores(known, x, most, tolerance) == -5


def test_c_merges_as_python_does(library: Library, tmp_path: Path) -> None:
    whole = Bundle(BUNDLE.read_bytes())
    from advisor.domain.bundle import pack  # noqa: PLC0415

    records = whole.records()
    parts = [pack(records[::2], 1, 0.9), pack(records[::3], 2, 0.9), pack([], 3, 0.9)]
    into = library.read(parts[0])
    python = Bundle(parts[0])
    for part in parts[1:]:
        news = library.read(part)
        assert into.merge(news) == 0
        news.close()
        python = python.merged(Bundle(part))
    assert [into.find(name) for name in python.names] == list(range(len(python)))
    assert into.held.version == python.version == 3
    for name in python.names:
        if python.answers(name):
            assert into.predict(into.find(name), 77.0, 5.0) == tuple(python.predict(name, 77.0, 5.0))
    into.close()
