"""Pages written beside the commits: at each of them the file gives the state of then, whatever becomes of the rest."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Engine
from advisor.errors import StateDamaged, StorageFailed
from advisor.storage import Store, ledger, store

KEY = ("producer", bytes(16))
COMPONENTS = 300
NAMES = ComponentNames([f"c{i}" for i in range(COMPONENTS)])


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a checkpoint take many commits."""
    monkeypatch.setattr("advisor.storage.pages.STEP_BYTES", 1)
    monkeypatch.setattr("advisor.storage.store.STEP_BYTES", 1)
    monkeypatch.setattr(store, "NAMES_A_STEP", 50)


def batch(rng: np.random.Generator) -> Columns:
    """Return rows of a few components, or of many: pages are written whole, or slot by slot."""
    n = int(rng.choice([1, 4, 150]))
    known = int(rng.integers(1, COMPONENTS))
    return columns_of(
        NAMES, rng.integers(0, known, n), rng.uniform(1, 9, n), rng.choice([1.0, 2.0], n), rng.uniform(1, 2, n)
    )


class Service:
    """An engine and its store, driven as a committer does."""

    def __init__(self, path: Path) -> None:
        self.engine = Engine()
        self.engine.commits.keep_journal()
        self.path = path
        self.store = Store.open(path)

    def teach(self, rng: np.random.Generator) -> None:
        self.engine.apply(KEY, self.engine.applied(*KEY) + 1, batch(rng))

    def pages(self) -> None:
        """Write pages at once."""
        if (cut_off := self.store.give_up()) is not None:
            self.engine.commits.count_again(cut_off)
        self.store.commit(self.engine.commits.snapshot())

    def append(self, *, checkpoint: bool = False) -> None:
        entry = self.engine.commits.take_entry()
        if entry is None:
            self.pages()
            return
        snapshot = self.engine.commits.snapshot() if checkpoint and not self.store.writes_on else None
        assert snapshot is None or self.store.takes_beside(snapshot)
        try:
            self.store.append(entry, snapshot)
        except StorageFailed:
            self.engine.commits.journal.put_back(entry)
            if (cut_off := self.store.give_up()) is not None:
                self.engine.commits.count_again(cut_off)
            raise

    def check(self) -> None:
        """See that the file gives the engine, to the bit."""
        with Store.open(self.path, read_only=True) as reader:
            loaded = reader.load()
        assert loaded is not None
        again = Engine.restore(loaded)
        assert again.advisor.to_bytes() == self.engine.advisor.to_bytes()
        assert again.producers == self.engine.producers

    def restart(self) -> None:
        """End in the middle, and begin with what the file says."""
        self.store.close()
        self.store = Store.open(self.path)
        loaded = self.store.load()
        assert loaded is not None
        self.engine = Engine.restore(loaded)
        self.engine.commits.keep_journal()
        self.engine.commits.journal.beyond = False  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(3))
def test_each_commit_gives_the_state_of_then(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    service = Service(tmp_path / "state")
    service.teach(rng)
    service.pages()
    put_root, finished, cut_off = Store._put_root, 0, 0

    def failing(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    for _ in range(80):
        what = rng.choice(["append", "checkpoint", "pages", "fail", "restart"], p=[0.6, 0.3, 0.03, 0.03, 0.04])
        was = service.store.writes_on
        service.teach(rng)
        if what == "fail":
            monkeypatch.setattr(Store, "_put_root", failing)
            with pytest.raises(StorageFailed):
                service.append(checkpoint=True)
            monkeypatch.setattr(Store, "_put_root", put_root)
        if what == "pages":
            service.pages()
        else:
            service.append(checkpoint=what == "checkpoint")
        service.check()
        cut_off += was and what in ("fail", "pages", "restart")
        finished += was and not service.store.writes_on and what in ("append", "checkpoint")
        if what == "restart":
            service.restart()
            service.check()
    assert finished > 0
    assert cut_off > 0
    service.store.close()
    service.check()


def checkpointed(path: Path) -> Service:
    """Return a state that has pages in both places, and some of a checkpoint under way."""
    rng = np.random.default_rng(3)
    service = Service(path)
    service.teach(rng)
    service.pages()
    for _ in range(3):
        service.teach(rng)
        service.append(checkpoint=True)
        while service.store.writes_on:
            service.teach(rng)
            service.append()
    service.teach(rng)
    service.append(checkpoint=True)
    assert service.store.writes_on
    return service


def test_an_entry_begins_no_second_checkpoint_and_the_journal_becomes_short(tmp_path: Path) -> None:
    service = checkpointed(tmp_path / "state")
    before = service.store.journal_entries
    while service.store.writes_on:
        service.append()
    assert service.store.journal_entries < before
    with sqlite3.connect(tmp_path / "state") as connection:
        assert connection.execute("SELECT count(*) FROM journal").fetchone()[0] == service.store.journal_entries
    service.store.close()


def test_a_file_that_lost_its_ledger_goes_on_with_the_rows_it_stood_on(tmp_path: Path) -> None:
    """Of two places, and rows of a checkpoint that was cut off, those are taken that the ledger named."""
    service = checkpointed(tmp_path / "state")
    service.store.close()
    service.check()
    with sqlite3.connect(tmp_path / "state") as connection:
        assert connection.execute("SELECT count(*) FROM pages WHERE id >> 31 & 1").fetchone()[0] > 0
        assert connection.execute("SELECT max(checksum >> 32) FROM pages").fetchone()[0] > service.store._books.stamp
        connection.execute("UPDATE ledgers SET checksum = checksum + 1")
    with pytest.raises(StateDamaged, match="ledger"):
        Store.open(tmp_path / "state")
    with Store.open(tmp_path / "state", accept_damage=True) as opened:
        loaded = opened.load()
    assert loaded is not None
    assert Engine.restore(loaded).advisor.to_bytes() == service.engine.advisor.to_bytes()
    service.check()


@pytest.mark.parametrize("table", ["pages", "slots"])
def test_a_flipped_stamp_is_damage(tmp_path: Path, table: str) -> None:
    service = checkpointed(tmp_path / "state")
    service.store.close()
    stamp = service.store._books.stamp
    for change in (f"checksum + ({1 << 32})", f"checksum - ({1 << 32})"):
        with sqlite3.connect(tmp_path / "state") as connection:
            found = connection.execute(
                f"SELECT max(id) FROM {table} WHERE checksum >> 32 = (SELECT max(checksum >> 32) FROM {table} WHERE"
                " checksum >> 32 <= ?)", (stamp,),
            ).fetchone()[0]  # fmt: skip
            kept = connection.execute(f"SELECT checksum FROM {table} WHERE id = ?", (found,)).fetchone()[0]
            connection.execute(f"UPDATE {table} SET checksum = {change} WHERE id = ?", (found,))
        with pytest.raises(StateDamaged):
            Store.open(tmp_path / "state")
        with sqlite3.connect(tmp_path / "state") as connection:
            connection.execute(f"UPDATE {table} SET checksum = ? WHERE id = ?", (kept, found))
    service.check()


def test_a_stamp_belongs_to_the_checksum() -> None:
    assert ledger.stamped(b"words", 7, 0) == ledger.checksum(b"words", 7)
    for stamp in (1, 2, 2**30):
        summed = ledger.stamped(b"words", 7, stamp)
        assert ledger.intact(b"words", 7, summed)
        assert not ledger.intact(b"words", 7, summed + (1 << 32))
        assert not ledger.intact(b"words", 8, summed)
