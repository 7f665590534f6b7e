"""The journal in the state file: entries come back in their order, whole or with words, and pages begin it anew."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Engine
from advisor.errors import StateDamaged, StateTooNew, StorageFailed
from advisor.storage import Store, schema, store

KEY = ("producer", bytes(16))


def batch(seed: int) -> Columns:
    rng = np.random.default_rng(seed)
    names = ComponentNames([f"c{i}" for i in range(5 + seed)])  # each brings a new one
    return columns_of(names, rng.integers(0, len(names), 40), rng.uniform(1, 9, 40), np.ones(40), rng.uniform(1, 2, 40))


def journalled(path: Path, entries: int = 5) -> list[bytes]:
    """Write pages and so many entries; return what the state was after each commit."""
    engine = Engine()
    engine.commits.keep_journal()
    engine.apply(KEY, 1, batch(1))
    states = [engine.advisor.to_bytes()]
    with Store.open(path) as file:
        file.commit(engine.commits.snapshot())
        for number in range(2, entries + 2):
            engine.apply(KEY, number, batch(number))
            entry = engine.commits.take_entry()
            assert entry is not None
            file.append(entry)
            states.append(engine.advisor.to_bytes())
        assert file.journal_entries == entries
    return states


def state_of(path: Path, **options: Any) -> tuple[bytes, int]:
    """Return the state that a file holds, and its producer's number."""
    with Store.open(path, **options) as file:
        loaded = file.load()
    assert loaded is not None
    engine = Engine.restore(loaded)
    return engine.advisor.to_bytes(), engine.applied(*KEY)


def change(path: Path, query: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(query, values).fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


def test_pages_and_entries_are_the_state_for_services_and_readers(path: Path) -> None:
    states = journalled(path)
    assert state_of(path) == (states[-1], 6)
    assert state_of(path, read_only=True) == (states[-1], 6)


def test_entries_may_be_all_there_is(path: Path) -> None:
    engine = Engine()
    engine.commits.keep_journal()
    engine.apply(KEY, 1, batch(1))
    entry = engine.commits.take_entry()
    assert entry is not None
    with Store.open(path) as file:
        file.append(entry)
    assert state_of(path) == (engine.advisor.to_bytes(), 1)


def test_pages_begin_the_journal_anew(path: Path) -> None:
    states = journalled(path)
    with Store.open(path) as file:
        loaded = file.load()
        assert loaded is not None
        engine = Engine.restore(loaded)
        engine.commits.keep_journal()
        file.commit(engine.commits.snapshot())
        assert file.journal_entries == 0
        engine.apply(KEY, 7, batch(7))
        entry = engine.commits.take_entry()
        assert entry is not None
        file.append(entry)
    assert change(path, "SELECT id FROM journal") == [(6,)]  # numbers are given once
    assert state_of(path) == (engine.advisor.to_bytes(), 7)
    assert engine.advisor.to_bytes() != states[-1]


def test_an_entry_that_is_not_written_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = journalled(path)
    engine = Engine()
    engine.commits.keep_journal()
    engine.apply(None, None, batch(9))
    entry = engine.commits.take_entry()
    assert entry is not None
    with Store.open(path) as file:
        with monkeypatch.context() as full:
            full.setattr(file, "_put_root", lambda _: (_ for _ in ()).throw(sqlite3.OperationalError("disk is full")))
            with pytest.raises(StorageFailed):
                file.append(entry)
        assert file.journal_entries == 5
    assert state_of(path) == (states[-1], 6)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("UPDATE journal SET data = zeroblob(length(data)) WHERE id = 3", 2),
        ("UPDATE journal SET checksum = checksum + 1 WHERE id = 1", 0),
        ("DELETE FROM journal WHERE id = 4", 3),
        ("DELETE FROM journal WHERE id = 5", 4),
        ("DELETE FROM journal", 0),
    ],
)
def test_what_is_damaged_or_gone_is_told_and_what_comes_before_it_is_kept(path: Path, query: str, kept: int) -> None:
    states = journalled(path)
    change(path, query)
    with pytest.raises(StateDamaged, match=rf"entry {kept + 1} of the journal: .* {5 - kept} of 5, are lost"):
        Store.open(path)
    assert state_of(path, accept_damage=True) == (states[kept], kept + 1)
    assert state_of(path) == (states[kept], kept + 1)  # mended: the next start needs no flag
    aside = [origin for (origin,) in change(path, "SELECT origin FROM quarantine")]
    assert set(aside) <= {"journal"}


def test_any_flipped_bit_is_found_or_harmless(path: Path) -> None:
    state = journalled(path)[-1]
    clean = path.read_bytes()
    found = 0
    for bit in np.random.default_rng(3).integers(0, len(clean) * 8, 150).tolist():
        damaged = bytearray(clean)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert state_of(path, read_only=True)[0] == state, f"bit {bit} went unseen"
        except (StateDamaged, StateTooNew, StorageFailed):
            found += 1
    assert found > 30


def test_a_journal_is_full_by_its_bytes_or_its_entries(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journalled(path)
    with Store.open(path) as file:
        assert not file.journal_full
        for name, value in (("JOURNAL_BYTES_MAX", 1000), ("JOURNAL_ENTRIES_MAX", 5)):
            with monkeypatch.context() as small:
                small.setattr(store, name, value)
                assert file.journal_full


class Ill:
    """A connection on an ill disk."""

    def execute(self, *_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")


def test_the_log_is_copied_when_it_has_grown_and_begins_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    engine.commits.keep_journal()
    with Store.open(path) as file:
        file.commit(engine.commits.snapshot())
        file.copy_log()  # the tables, made in it, are many pages: they are no part of what follows
        for number in range(1, 60):
            engine.apply(KEY, number, batch(number))
            entry = engine.commits.take_entry()
            assert entry is not None
            file.append(entry)
            monkeypatch.setattr(store, "LOG_BYTES", 4 * store.COMMIT_BYTES)
            well, file._connection = file._connection, cast("Any", Ill() if number == 30 else file._connection)
            file.copy_log()
            file._connection = well
        assert path.with_name("s-wal").stat().st_size < 2 * store.LOG_BYTES + 40 * schema.PAGE_BYTES
        assert state_of(path, read_only=True) == (engine.advisor.to_bytes(), 59)
