"""One state file: opened by one service at a time, committed whole or not at all, read back bit for bit."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from advisor.engine.journal import Entry
from advisor.engine.snapshot import Snapshot
from advisor.errors import Mismatch, StateDamaged, StorageFailed
from advisor.storage import reading, salvage, schema
from advisor.storage.damage import Damage
from advisor.storage.ledger import ABSENT, JournalBooks, Ledger, checksum
from advisor.storage.lock import StateLock
from advisor.storage.pages import put_ledger, write_table
from advisor.storage.reading import ROOT_KEY, Contents, document_checksum, producer_checksum

# When pages should be written again, for a start replays the journal: a plain row takes 28 bytes and about a microsecond, so
# 64 MiB some three seconds, and an entry of one row 50 microseconds and a page of SQLite's.
JOURNAL_BYTES_MAX = 2**26
JOURNAL_ENTRIES_MAX = 2**15


@dataclass(slots=True)
class _Books:
    """What the file holds after the last commit, as far as the next one must know."""

    ledgers: dict[str, Ledger] = field(default_factory=dict[str, Ledger])
    name_sums: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # by slot, ABSENT where unnamed
    producer_sums: dict[tuple[str, bytes], int] = field(default_factory=dict[tuple[str, bytes], int])
    document_sums: dict[str, int] = field(default_factory=dict[str, int])
    journal: JournalBooks = field(default_factory=JournalBooks)
    root: bytes = b""  # but for the journal and the brace behind it


class Store:
    """The state file of one service, or a reader of it.

    Calls come from one thread at a time, whichever. Opened by `Store.open`, closed by `close` or a ``with`` block.
    """

    def __init__(
        self, path: Path, timer_noise_s: float, connection: sqlite3.Connection, lock: StateLock | None
    ) -> None:
        self.path = path
        self.timer_noise_s = timer_noise_s
        self._connection = connection
        self._lock = lock
        self._contents: Contents | None = None
        self._books = _Books()
        self.damage = Damage()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        timer_noise_s: float | None = None,
        read_only: bool = False,
        accept_damage: bool = False,
    ) -> Store:
        """Open the file, making it where there is none, and check every bit that was ever committed. Cost O(bytes).

        Parameters
        ----------
        path
            The file; its log, index and lock lie beside it.
        timer_noise_s : float, seconds
            Must equal what the file was made with; None takes what the file says (and needs one that says it).
        read_only
            Read a consistent state, also beside a running service; nothing is locked, upgraded or mended.
        accept_damage
            Put what is damaged aside, in the file's table ``quarantine``, and go on without it; `damage` says what
            was lost.

        Raises
        ------
        StateLocked
            When another service has the file open.
        StateDamaged
            When a checksum does not match; names the components.
        StateTooNew
            When a later version wrote it.
        StorageFailed
            When it cannot be opened, made or read.
        Mismatch
            When its timer noise is another one.
        """
        path = Path(path)
        lock = None if read_only else StateLock(path)
        try:
            return cls._opened(path, timer_noise_s, lock, accept_damage=accept_damage)
        except BaseException:
            if lock:
                lock.close()
            raise

    @classmethod
    def _opened(cls, path: Path, timer_noise_s: float | None, lock: StateLock | None, *, accept_damage: bool) -> Store:
        rescued: tuple[str, ...] = ()
        mend = accept_damage and lock is not None
        try:
            connection = schema.connect(path, read_only=lock is None)
            contents = _read(connection, check_structure=lock is not None)
        except StateDamaged:
            if not mend:
                raise
            rescued = salvage.rebuild(path)
            connection = schema.connect(path, read_only=False)
            contents = _read(connection, check_structure=True)
        try:
            contents = replace(contents, damage=replace(contents.damage, parts=rescued + contents.damage.parts))
            noise = _agreed_noise(contents.timer_noise_s, timer_noise_s)
            store = cls(path, noise, connection, lock)
            store._adopt(contents, mend=mend)
        except BaseException:
            connection.close()
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self) -> Snapshot | None:
        """Return the whole state, or None where nothing was committed yet; once, its memory is then the caller's.

        In each table's pages `changed` has a bit for each slot that the file holds; slots without it start anew
        (lost by damage, or never written).
        """
        contents, self._contents = self._contents, None
        return None if contents is None or contents.snapshot is None else contents.snapshot

    def commit(self, snapshot: Snapshot) -> None:
        """Write what changed, durably, in one transaction; the journal begins anew. Cost O(changed).

        Raises
        ------
        StorageFailed
            When it cannot be written; the file then holds what it held, and the same snapshot may be tried again.
        Mismatch
            When the snapshot has another timer noise, or another layout of a table without all its pages.
        """
        if snapshot.timer_noise_s != self.timer_noise_s:
            raise Mismatch(f"the state's timer noise is {snapshot.timer_noise_s}, the file's {self.timer_noise_s}")
        self._books = self._transaction(lambda: self._write(snapshot))

    def append(self, entry: Entry) -> None:
        """Write what has happened, durably, in one transaction; the pages stay as they are. Cost O(rows of the entry).

        Raises
        ------
        StorageFailed
            When it cannot be written; the file then holds what it held, and the same entry may be tried again.
        """
        data = entry.encode()
        self._books = self._transaction(lambda: self._append(data))

    @property
    def journal_full(self) -> bool:
        """True when the next commit should write pages: a start would take long to replay the journal."""
        journal = self._books.journal
        return journal.bytes >= JOURNAL_BYTES_MAX or journal.count >= JOURNAL_ENTRIES_MAX

    @property
    def journal_entries(self) -> int:
        """Entries of the journal: commits since pages were written."""
        return self._books.journal.count

    def _transaction(self, write: Callable[[], _Books]) -> _Books:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            books = write()
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._rollback()
            raise _as_storage_failed(error) from error
        except BaseException:
            self._rollback()
            raise
        return books

    def close(self) -> None:
        """Copy the log into the file, close it and give the lock back. Nothing committed depends on it."""
        try:
            self._connection.close()
        finally:
            if self._lock:
                self._lock.close()

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:  # SQLite has rolled back by itself: a disk full does that
                return

    def _adopt(self, contents: Contents, *, mend: bool) -> None:
        self.damage = contents.damage
        if contents.damage and not mend:
            raise contents.damage.error()
        self._contents = contents
        self._books = _Books(
            contents.ledgers, contents.name_sums, contents.producer_sums, contents.document_sums, contents.journal
        )
        if contents.snapshot:
            self._books.root = self._root_of(self._books, contents.snapshot.totals)
        if not contents.damage:
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            salvage.set_aside(self._connection, contents.quarantined)
            for ledger in contents.ledgers.values():
                put_ledger(self._connection, ledger)
            if contents.snapshot:
                sums = contents.name_sums
                unnamed = [(s, name) for s, name in contents.snapshot.names if s >= len(sums) or sums[s] == ABSENT]
                self._books.name_sums = self._write_names(unnamed)
                self._books.root = self._root_of(self._books, contents.snapshot.totals)
                self._put_root(self._books)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._rollback()
            raise _as_storage_failed(error) from error

    def _write(self, snapshot: Snapshot) -> _Books:
        ledgers = dict(self._books.ledgers)
        for table in snapshot.tables:
            ledgers[table.table] = write_table(self._connection, table, ledgers)
        names, producers = self._write_names(snapshot.names), self._write_producers(snapshot)
        journal = JournalBooks(self._books.journal.next)
        if self._books.journal.count:
            self._connection.execute("DELETE FROM journal")
        books = _Books(ledgers, names, producers, self._write_documents(snapshot), journal)
        books.root = self._root_of(books, snapshot.totals)
        self._put_root(books)
        return books

    def _append(self, data: bytes) -> _Books:
        journal = self._books.journal
        summed = checksum(data, journal.next)
        self._connection.execute("INSERT INTO journal VALUES (?, ?, ?)", (journal.next, data, summed))
        books = replace(
            self._books,
            journal=journal.grown(summed, len(data)),
            root=self._books.root or self._root_of(self._books, {}),
        )
        self._put_root(books)
        return books

    def _write_names(self, names: Sequence[tuple[int, str]]) -> NDArray[np.int64]:
        sums = self._books.name_sums
        if not names:
            return sums
        sums = np.concatenate([sums, np.full(max(0, max(s for s, _ in names) + 1 - len(sums)), ABSENT, np.int64)])
        rows = [(slot, data := name.encode(), checksum(data, slot)) for slot, name in names]
        self._connection.executemany("INSERT OR REPLACE INTO names VALUES (?, ?, ?)", rows)
        sums[[slot for slot, _, _ in rows]] = [summed for _, _, summed in rows]
        return sums

    def _write_producers(self, snapshot: Snapshot) -> dict[tuple[str, bytes], int]:
        if not (snapshot.producers or snapshot.producers_gone):
            return self._books.producer_sums
        sums = dict(self._books.producer_sums)
        gone = [(name.encode(), incarnation) for name, incarnation in snapshot.producers_gone]
        self._connection.executemany("DELETE FROM producers WHERE name = ? AND incarnation = ?", gone)
        for key in snapshot.producers_gone:
            sums.pop(key, None)
        rows: list[tuple[bytes, bytes, int, int]] = []
        for (name, incarnation), sequence in snapshot.producers.items():
            data = name.encode()
            sums[name, incarnation] = summed = producer_checksum(data, incarnation, sequence)
            rows.append((data, incarnation, sequence, summed))
        self._connection.executemany("INSERT OR REPLACE INTO producers VALUES (?, ?, ?, ?)", rows)
        return sums

    def _write_documents(self, snapshot: Snapshot) -> dict[str, int]:
        if not (snapshot.documents or snapshot.documents_gone):
            return self._books.document_sums
        sums = dict(self._books.document_sums)
        self._connection.executemany(
            "DELETE FROM documents WHERE id = ?", [(name.encode(),) for name in snapshot.documents_gone]
        )
        for name in snapshot.documents_gone:
            sums.pop(name, None)
        keyed = [(name.encode(), data) for name, data in snapshot.documents.items()]
        rows = [(key, data, document_checksum(key, data)) for key, data in keyed]
        self._connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", rows)
        return sums | {key.decode(): summed for key, _, summed in rows}

    def _root_of(self, books: _Books, totals: Mapping[str, int]) -> bytes:
        """Return the root row up to what it says of the journal, which changes with each commit."""
        named = books.name_sums[books.name_sums != ABSENT]
        root = {
            "format": schema.FORMAT,
            "timer_noise_s": self.timer_noise_s.hex(),
            "totals": dict(totals),
            "names": [len(named), int(named.sum())],
            "producers": [len(books.producer_sums), sum(books.producer_sums.values())],
            "documents": [len(books.document_sums), sum(books.document_sums.values())],
            "tables": {name: [own.number, own.layout, own.words] for name, own in books.ledgers.items()},
        }
        return json.dumps(root, sort_keys=True)[:-1].encode()

    def _put_root(self, books: _Books) -> None:
        journal = books.journal
        data = b'%b, "journal": [%d, %d, %d]}' % (books.root, journal.first, journal.count, journal.sum)
        self._connection.execute(
            "INSERT OR REPLACE INTO root VALUES (?, ?, ?)", (ROOT_KEY, data, checksum(data, ROOT_KEY))
        )


def _read(connection: sqlite3.Connection, *, check_structure: bool) -> Contents:
    try:
        return reading.read(connection, check_structure=check_structure)
    except sqlite3.Error as error:
        connection.close()
        raise schema.worded(error, "the state file cannot be read") from error
    except BaseException:
        connection.close()
        raise


def _agreed_noise(found: float | None, wanted: float | None) -> float:
    if found is None and wanted is None:
        raise StateDamaged(
            "the state file is empty: no state was written yet", hint="name a file that a service writes"
        )
    if found is None or wanted is None or found == wanted:
        return found if wanted is None else wanted  # type: ignore[return-value]
    raise Mismatch(
        f"the state file was made with timer_noise_s {found}, not {wanted}",
        field="timer_noise_s",
        value=wanted,
        bound=found,
        hint=f"start with timer_noise_s {found}, or on another state file",
    )


def _as_storage_failed(error: sqlite3.Error) -> StorageFailed:
    worded = schema.worded(error, "the state file cannot be written")
    if isinstance(worded, StorageFailed):
        return worded
    return StorageFailed(worded.message, field="state", hint="stop the service and start it again: it checks the file")
