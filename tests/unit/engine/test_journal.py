"""The journal: pages and then its entries are the state, to the bit, whatever the rows held and whoever was allowed what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stored import Stored
from task_program import Program, recursive

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.domain.task_events import TaskEvents
from advisor.engine import Engine
from advisor.engine.events import (
    ComponentForgotten,
    ComponentPinned,
    NetworkDefined,
    ProfileForgotten,
    ProgramForgotten,
    RunObserved,
)
from advisor.engine.journal import Entry
from advisor.errors import StateDamaged
from advisor.profile.view import profile_of
from advisor.protocol.rows import columns_of_rows

KEY = ("producer", bytes(16))
NAMES = [f"c{i}" for i in range(12)]


def rows_of(seed: int, n: int = 60, **more: Any) -> Columns:
    rng = np.random.default_rng(seed)
    x, p = rng.uniform(1, 100, n), rng.choice([0.5, 1.0, 4.0], n)
    t = 1e-4 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.2, n)
    return columns_of(ComponentNames(NAMES), rng.integers(0, len(NAMES), n), x, p, t, **more)


def everything(seed: int) -> Columns:
    """Return rows with each optional column, and some that are refused for each reason."""
    rng, n = np.random.default_rng(seed), 80
    x = rng.uniform(1, 100, (n, 2))
    x[::2, 1] = np.nan
    x[5, 0], t = -1.0, rng.uniform(1e-3, 1.0, n)
    t[7] = np.nan
    peaks = rng.uniform(1e6, 1e9, n)
    peaks[::3] = np.nan
    return columns_of(
        ComponentNames([*NAMES[:6], "", "v0", "v1"]), rng.integers(0, 9, n), x, rng.choice([1.0, 2.0], n), t,
        count=rng.integers(1, 4, n), ok=rng.random(n) > 0.2, running=rng.random(n) > 0.9,
        machine=[None if i % 4 == 0 else ("", "a", "b")[i % 3] for i in range(n)],
        network=[f"n{i % 2}" for i in range(n)], record=np.arange(n) // 3, entered=np.arange(n) % 3 == 0,
        replica=np.arange(n) % 2, active_cores=np.where(np.arange(n) % 5 == 0, np.nan, 9.0),
        measures={"peak_bytes": peaks},
    )  # fmt: skip


def misread(_: int) -> Columns:
    return columns_of_rows(
        [["c1", 1.0, 1.0, 0.5], ["no row"], ["c1", 1.0, 1.0, 0.5, {"network": "n1", "nonsense": 1}], [7, 1, 1, 1]]
    )


def mixed(seed: int) -> Columns:
    """Return rows with and without predictor, of components that have both sooner or later."""
    rng = np.random.default_rng(seed)
    return columns_of_rows([
        [str(rng.choice(NAMES[:6])), None if rng.random() < 0.5 else float(rng.integers(1, 99)), 1.0, float(rng.lognormal())]
        for _ in range(40)
    ])  # fmt: skip


@pytest.fixture
def kept() -> tuple[Engine, Stored]:
    engine, storage = Engine(components_max=20), Stored()
    engine.commits.keep_journal()
    storage.commit(engine.commits.image())
    return engine, storage


def append(engine: Engine, storage: Stored) -> Entry:
    entry = engine.commits.take_entry()
    assert entry is not None
    storage.append(entry)
    return entry


def assert_replayed(engine: Engine, storage: Stored, **limits: Any) -> Engine:
    restored = Engine.restore(storage.stored(), **{"components_max": 20} | limits)
    assert restored.advisor.to_bytes() == engine.advisor.to_bytes()
    assert dict(restored.totals) == dict(engine.totals)
    assert restored.producers == engine.producers
    return restored


@pytest.mark.parametrize("rows", [rows_of, everything, misread, mixed])
def test_rows_are_replayed_to_the_bit(rows: Callable[[int], Columns], kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    for number in range(1, 6):
        engine.apply(KEY, number, rows(number))
        engine.apply(None, None, rows(100 + number))
        if number % 2:
            append(engine, storage)
        if number == 3:
            storage.commit(engine.commits.image())
    append(engine, storage)
    restored = assert_replayed(engine, storage)
    for each in (engine, restored):
        each.apply(None, None, rows_of(7))
    assert restored.advisor.to_bytes() == engine.advisor.to_bytes()


def test_plain_rows_leave_the_same_bytes_as_batches(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    twin = Engine(components_max=20)
    for each in (engine, twin):
        each.apply(KEY, 1, rows_of(1))
        each.apply(KEY, 2, ComponentForgotten("c3", 0.5))
    rng, told = np.random.default_rng(3), list[int]()
    engine.told = lambda columns: told.append(len(columns))
    waves = [1, 9, 9, 40, 200, 2]
    for number, wave in enumerate(waves, 3):
        rows = [
            [NAMES[int(rng.integers(4))], int(rng.integers(1, 100)), 2, float(rng.uniform(0.1, 1.0))]
            for _ in range(wave)
        ]
        assert engine.take_rows(KEY, number, rows)
        twin.apply(KEY, number, columns_of_rows(rows))
        append(engine, storage)
        assert engine.advisor.to_bytes() == twin.advisor.to_bytes()
    assert told == waves
    assert_replayed(engine, storage)


def test_forgets_pins_and_numbers_are_replayed_in_their_places(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    engine.apply(None, None, rows_of(1))
    engine.apply(KEY, 1, ComponentForgotten("c1", 0.25))
    engine.apply(None, None, rows_of(2))
    engine.apply(KEY, 2, ComponentPinned("c2", "two_step"))
    engine.apply(None, None, ComponentPinned("c2", None))
    engine.apply(None, None, ComponentForgotten("c3", 0.0))
    engine.apply(KEY, 2, rows_of(3))  # replayed: counted, not folded
    append(engine, storage)
    engine.apply(("other", bytes(16)), 1, rows_of(4))
    engine.evict_producers([KEY])
    append(engine, storage)
    restored = assert_replayed(engine, storage)
    assert not restored.advisor.components.events  # they were told when they happened
    storage.commit(restored.commits.image())
    assert_replayed(engine, storage)


RUN = {"workers": 4, "elapsed_s": 1.0, "work_s": 3.1, "delay_s": 0.5, "no_work_s": 0.4, "creates": 9, "waits": 2}


def test_runs_and_networks_are_replayed_in_their_places(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    for number, event in enumerate([
        *(RunObserved({"program": f"p{size % 2}", "size": size, "span_s": 0.1 / size} | RUN) for size in range(1, 9)),
        ProgramForgotten("p1"), NetworkDefined("c0 .. (c1 | c2)"), NetworkDefined([{"kind": "box", "name": "c0"}], "n1"),
        everything(3), NetworkDefined("c0 .. c1", 1), RunObserved({"program": "p0", "size": 99} | RUN),
    ], 1):  # fmt: skip
        assert engine.apply(KEY, number, event)["sequence"] == number
        assert engine.apply(KEY, number, event)["replayed"]
        append(engine, storage)
    assert_replayed(engine, storage)
    engine.apply(None, None, NetworkDefined("c2", 1))
    storage.commit(engine.commits.image())
    assert_replayed(engine, storage)


def test_rows_are_replayed_under_the_limits_of_then(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    engine.apply(
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


def test_a_profile_is_in_the_log_and_a_merge_asks_for_an_image(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    engine.apply(None, None, rows_of(1))
    append(engine, storage)
    for number, kind in enumerate((0, 1, 0)):
        run = Program(2, recursive(2, 2, 500 + 200 * kind)).run()
        events = TaskEvents(run.records, tuple(run.strings), ended=True)
        engine.apply((f"run {kind}", bytes([number]) * 16), 1, events)
        entry = append(engine, storage)
        assert entry.patches
        assert len(entry.encode()) < 60_000
        restored = assert_replayed(engine, storage)
        assert {k: profile_of(r).as_dict() for k, r in restored.profiles.runs.items()} == {
            k: profile_of(r).as_dict() for k, r in engine.profiles.runs.items()
        }
    engine.apply(None, None, ProfileForgotten("run 1"))
    append(engine, storage)
    assert set(assert_replayed(engine, storage).profiles.runs) == set(engine.profiles.runs)
    engine.merge(Engine())
    assert engine.commits.take_entry() is None
    engine.commits.image()
    engine.commits.image_lost()
    assert engine.commits.take_entry() is None
    storage.commit(engine.commits.image())
    engine.apply(None, None, rows_of(2))
    append(engine, storage)
    assert_replayed(engine, storage)


def test_an_entry_that_was_not_written_comes_with_the_next(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    for number in range(1, 4):
        engine.apply(KEY, number, rows_of(number))
        entry = engine.commits.take_entry()
        assert entry is not None
        engine.commits.journal.put_back(entry)
    engine.evict_producers([KEY])
    assert append(engine, storage).producers == {}
    assert_replayed(engine, storage)


def test_counts_alone_are_no_entry_and_come_with_the_next(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    engine.apply(KEY, 1, rows_of(1))
    append(engine, storage)
    engine.apply(KEY, 1, rows_of(1))
    entry = engine.commits.take_entry()
    assert entry is not None
    assert entry.empty
    engine.apply(KEY, 2, rows_of(2))
    append(engine, storage)
    assert assert_replayed(engine, storage).totals["batches_replayed"] == 1


def test_an_entry_that_does_not_read_is_damage(kept: tuple[Engine, Stored]) -> None:
    engine, storage = kept
    engine.apply(None, None, rows_of(1))
    append(engine, storage)
    whole = storage.journal[0]
    for bad in (whole + b"more", whole[:-1], whole[:9], whole.replace(b'"Columns"', b'"Engine" ')):
        storage.journal[0] = bad
        with pytest.raises(StateDamaged, match="log"):
            Engine.restore(storage.stored())


def test_a_defect_in_a_fold_asks_for_an_image(kept: tuple[Engine, Stored], monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = kept
    with monkeypatch.context() as broken:
        broken.setattr(engine.advisor, "fold", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.apply(None, None, rows_of(1))
    assert engine.commits.take_entry() is None


def test_an_engine_without_a_journal_keeps_nothing() -> None:
    engine = Engine()
    engine.apply(None, None, rows_of(1))
    assert engine.commits.take_entry() is None
