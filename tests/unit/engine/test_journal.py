"""The journal: pages and then its entries are the state, to the bit, whatever the rows held and whoever was allowed what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stored import Stored

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Engine
from advisor.engine.events import (
    ComponentForgotten,
)
from advisor.engine.journal import Entry
from advisor.errors import StateDamaged
from advisor.protocol.rows import columns_of_rows

KEY = ("producer", bytes(16))
NAMES = [f"c{i}" for i in range(12)]


def rows_of(seed: int, n: int = 60, **more: Any) -> Columns:
    rng = np.random.default_rng(seed)
    x, p = rng.uniform(1, 100, n), rng.choice([0.5, 1.0, 4.0], n)
    t = 1e-4 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.2, n)
    return columns_of(ComponentNames(NAMES), rng.integers(0, len(NAMES), n), x, p, t, **more)


@pytest.fixture
def kept() -> tuple[Engine, Stored]:
    engine, storage = Engine(components_max=20), Stored()
    engine.journal.keep()
    storage.commit(engine.take_image())
    return engine, storage


def append(engine: Engine, storage: Stored) -> Entry:
    entry = engine.take_entry()
    assert entry is not None
    storage.append(entry)
    return entry


def assert_replayed(engine: Engine, storage: Stored, **limits: Any) -> Engine:
    restored = Engine.restore(storage.stored(), **{"components_max": 20} | limits)
    assert restored.advisor.to_bytes() == engine.advisor.to_bytes()
    assert dict(restored.totals) == dict(engine.totals)
    assert restored.producers == engine.producers
    return restored


def test_plain_rows_leave_the_same_bytes_as_batches(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    twin = Engine(components_max=20)
    for each in (engine, twin):
        each.apply_event(KEY, 1, rows_of(1))
        each.apply_event(KEY, 2, ComponentForgotten("c3"))
    rng = np.random.default_rng(3)
    for number, wave in enumerate([1, 9, 9, 40, 200, 2], 3):
        rows = [
            [NAMES[int(rng.integers(4))], int(rng.integers(1, 100)), 2, float(rng.uniform(0.1, 1.0))]
            for _ in range(wave)
        ]
        assert engine.take_plain_batch(KEY, number, rows)
        twin.apply_event(KEY, number, columns_of_rows(rows))
        append(engine, storage)
        assert engine.advisor.to_bytes() == twin.advisor.to_bytes()
    assert_replayed(engine, storage)


def test_rows_are_replayed_under_the_limits_of_then(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    engine.apply_event(
        None, None, columns_of(ComponentNames([f"x{i}" for i in range(30)]), range(30), None, [1.0] * 30, [0.5] * 30)
    )
    assert engine.totals["refused.too_many_components"] == 10
    append(engine, storage)
    for limits in ({"components_max": 5}, {"components_max": 1000}, {"model_memory_bytes": 0}):
        restored = Engine.restore(storage.stored(), **{"components_max": 20} | limits)
        components, was = restored.advisor.components, engine.advisor.components
        assert components.slots.components_max == max(20, limits.get("components_max", 20))
        assert (components.learners.memory_bytes == 0) == ("model_memory_bytes" in limits)
        components.slots.components_max, components.learners.memory_bytes = 20, was.learners.memory_bytes
        assert restored.advisor.to_bytes() == engine.advisor.to_bytes()


def test_an_entry_that_does_not_read_is_damage(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    engine.apply_event(None, None, rows_of(1))
    append(engine, storage)
    whole = storage.journal[0]
    for bad in (whole + b"more", whole[:-1], whole[:9], whole.replace(b"LoggedRows", b"LoggedCows")):
        storage.journal[0] = bad
        with pytest.raises(StateDamaged, match="log"):
            Engine.restore(storage.stored())


def test_a_defect_in_a_fold_asks_for_an_image(kept: tuple[Engine, Stored], monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = kept
    with monkeypatch.context() as broken:
        broken.setattr(engine.advisor, "learn_batch", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.apply_event(None, None, rows_of(1))
    assert engine.take_entry() is None


def test_an_engine_without_a_journal_keeps_nothing() -> None:
    engine = Engine()
    engine.apply_event(None, None, rows_of(1))
    assert engine.take_entry() is None
