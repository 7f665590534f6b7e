"""One state file: opened by one service at a time, committed whole or not at all, read back bit for bit."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from advisor.engine.journal import Entry
from advisor.engine.snapshot import Snapshot
from advisor.errors import StorageFailed
from advisor.storage import opening, salvage, schema
from advisor.storage.books import Books, put_root, root_of, write_documents, write_names, write_producers
from advisor.storage.ledger import ABSENT, JournalBooks, Ledger, checksum
from advisor.storage.lock import StateLock, file_of
from advisor.storage.pages import STEP_BYTES, of_one_layout, put_ledger, write_table
from advisor.storage.reading import Contents
from advisor.storage.witness import DIGEST_BYTES, Commit, Witness, sync_directory

# When pages should be written again, for a start replays the journal: a plain row takes 19 to 28 bytes and about a microsecond,
# so 48 MiB some three seconds, and an entry of one row 50 microseconds and a page of SQLite's.
JOURNAL_BYTES_MAX = 3 * 2**24
JOURNAL_ENTRIES_MAX = 2**15
NAMES_A_STEP = 4_096  # some five milliseconds, as `pages.STEP_BYTES`
# SQLite's log is copied into the file when it has about this much, 2 ms on a disk of 1 ms a commit; 4 MiB at once take 9.
LOG_BYTES = 2**20
COMMIT_BYTES = 2**14  # of the log that a commit takes beside what it carries


_Written = tuple[dict[str, Ledger], NDArray[np.int64]]  # what the books say of tables, and of names, that are written


@dataclass(slots=True)
class _Checkpoint:
    """Pages on their way into the file, commit by commit, beside those that the state stands on."""

    snapshot: Snapshot
    before: JournalBooks  # the entries that the pages have in them
    stamp: int
    # writes the next of them, and says how many bytes; at the end the books' tables and names
    steps: Generator[int, None, _Written]


class Store:
    """The state file of one service, or a reader of it.

    Calls come from one thread at a time, whichever. Opened by `Store.open`, closed by `close` or a ``with`` block.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, contents: Contents) -> None:
        self.path = path
        self.damage = contents.damage  # what was lost, where a start was told to do without it
        # the file is a copy without a witness: what was committed after the copy was made is not in it
        self.copied = contents.copied
        self._connection = connection
        self._lock: StateLock | None = None
        self._witness: Witness | None = None
        self._file = contents.file
        self._contents: Contents | None = contents
        books = Books(
            contents.commit or Commit(bytes(DIGEST_BYTES)),
            contents.ledgers,
            contents.name_sums,
            contents.producer_sums,
            contents.document_sums,
            contents.journal,
            contents.stamp,
        )
        self._checkpoint: _Checkpoint | None = None
        self._cut_off: Snapshot | None = None  # of a checkpoint that will not be finished
        self._stamp = contents.stamp  # the greatest that any row has
        self._dead = 0  # entries below this number are of pages that are written, and may be there still
        self._logged = 0  # about as many bytes were written since the log was copied
        self._books = replace(books, root=root_of(books, contents.totals))
        self._sealed = books.commit.number

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        read_only: bool = False,
        accept_damage: bool = False,
        page_bytes: int = schema.PAGE_BYTES,
    ) -> Store:
        """Open the file, made with its folder where there is none, and check every bit ever committed. Cost O(bytes).

        Raises StateLocked when another service has the file open, by whatever name; StateDamaged when a checksum does not
        match: it names the components; when commits are missing: it says how many; StateTooNew when a later version wrote it;
        StorageFailed when it cannot be opened, made or read.

        Parameters
        ----------
        path
            The file; its log, index and witness lie beside it.
        read_only
            Read a consistent state, also beside a running service; nothing is locked, upgraded or mended.
        accept_damage
            Put what is damaged aside, in the file's table ``quarantine``, and go on without it, and without what
            the witness has seen and the file lacks; `damage` says what was lost.
        """
        path = Path(path)
        if read_only:
            found = opening.read(path.resolve())
            return cls._with(path, found)
        with contextlib.suppress(OSError):  # the lock says what is wrong
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = StateLock(path)
        try:
            found = opening.read_to_write(lock, mend=accept_damage, page_bytes=page_bytes)
            store = cls._with(lock.path, found)
        except BaseException:
            lock.close()
            raise
        store._lock = lock
        try:
            store._own(found.contents)
        except sqlite3.Error as error:
            store.close()
            raise _as_storage_failed(error) from error
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def _with(cls, path: Path, found: opening.Opened) -> Store:
        try:
            return cls(path, found.connection, found.contents)
        except BaseException:
            found.connection.close()
            raise

    def _own(self, contents: Contents) -> None:
        """Go on with the file as its only writer: mend what was accepted as lost; give it a witness where it has none.

        A state that was mended, or copied, is another one from here on: what the former wrote is none of its own.
        """
        lock, file = cast("StateLock", self._lock), file_of(self.path)
        if contents.commit is not None and contents.file == file and not contents.damage:
            self._witness = Witness.open(self.path)
            if contents.unfinished or contents.needless or contents.format != schema.FORMAT:
                self._transaction(lambda: self._tidy(contents))
        else:
            self._file = file
            commit = replace(self._books.commit, identity=os.urandom(DIGEST_BYTES))
            self._books = replace(self._books, commit=commit)
            self._witness = Witness.make(self.path, Commit(commit.identity))
            self._transaction(lambda: self._mend(contents))
            # A log that is lost as soon as it is there must leave a file that knows of its witness.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            sync_directory(self.path)
        self._witness.fill(self._books.commit)
        for path in (self.path.with_name(self.path.name + "-wal"), self._witness.path):
            lock.watch(path)

    def _tidy(self, contents: Contents) -> Books:
        """Remove what a checkpoint that was cut off has left, and what pages of an earlier one have in them."""
        for row in contents.unfinished:
            self._connection.execute(f"DELETE FROM {row.origin} WHERE id = ?", (row.key,))  # noqa: S608 (two fixed names)
        self._connection.execute("DELETE FROM names WHERE id >= ?", (len(self._books.name_sums),))
        self._connection.execute("DELETE FROM journal WHERE id < ?", (self._books.journal.first,))
        self._connection.execute(f"PRAGMA user_version = {schema.FORMAT}")
        return self._put_root(self._books)

    def _mend(self, contents: Contents) -> Books:
        self._tidy(contents)
        books = self._books
        if contents.damage:
            salvage.set_aside(self._connection, contents.quarantined)
            for ledger in contents.ledgers.values():
                put_ledger(self._connection, ledger)
            if contents.snapshot:
                sums = contents.name_sums
                unnamed = [(s, name) for s, name in contents.snapshot.names if s >= len(sums) or sums[s] == ABSENT]
                books = replace(books, name_sums=write_names(self._connection, books.name_sums, unnamed))
        return self._put_root(replace(books, root=root_of(books, contents.totals)))

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
        return contents.snapshot if contents else None

    def commit(self, snapshot: Snapshot) -> None:
        """Write what changed, durably, in one transaction; the journal begins anew. Cost O(changed).

        Not while a checkpoint is under way, see `give_up`. Raises StorageFailed when it cannot be written; the file then
        holds what it held, and the same snapshot may be tried again. Or, `commits` having grown, when it was written and must
        not be acknowledged, see `seal`; Mismatch when the snapshot has another layout of a table without all its pages.
        """
        assert self._checkpoint is None
        self._transaction(lambda: self._write(snapshot))

    def append(self, entry: Entry, checkpoint: Snapshot | None = None) -> None:
        """Write what has happened, durably, in one transaction. Cost O(rows of the entry), and a step of a checkpoint.

        Raises StorageFailed as `commit`; the checkpoint is given up then.

        `entry`: what has happened. `checkpoint`: all that changed since the last snapshot, taken right behind the entry: its
        pages are written from now on, a step with each entry, beside those that the state stands on. With the last of them
        the state stands on the new ones, and the journal begins behind them.
        """
        data = b"" if entry.empty else entry.encode()
        self._transaction(lambda: self._append(data, checkpoint))

    def takes_beside(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot's pages may be written as a checkpoint; otherwise `commit` writes them at once."""
        return all(of_one_layout(table, self._books.ledgers) for table in snapshot.tables)

    @property
    def writes_on(self) -> bool:
        """True while a checkpoint needs further commits."""
        return self._checkpoint is not None or self._dead > 0

    def give_up(self) -> Snapshot | None:
        """Return what a checkpoint should have written that will not be finished, once; the next has to hold it again."""
        if self._checkpoint is not None:
            self._cut_off, self._checkpoint = self._checkpoint.snapshot, None
        found, self._cut_off = self._cut_off, None
        return found

    @property
    def journal_full(self) -> bool:
        """True when the next commit should write pages: a start would take long to replay the journal."""
        journal = self._books.journal
        return not self.writes_on and (journal.bytes >= JOURNAL_BYTES_MAX or journal.count >= JOURNAL_ENTRIES_MAX)

    @property
    def journal_entries(self) -> int:
        """Entries of the journal: commits since pages were written."""
        return self._books.journal.count

    @property
    def commits(self) -> int:
        """Commits so far: one more when what was to be written is in the file, sealed or not."""
        return self._books.commit.number

    @property
    def sealed(self) -> bool:
        """True when all that was committed may be acknowledged."""
        return self._sealed == self._books.commit.number

    def seal(self) -> None:
        """Let the witness see the last commit, and see that its files are what a restart would find; see `witness`, `lock`.

        Raises StorageFailed when one of them fails: nothing may be acknowledged until this succeeds.
        """
        cast("Witness", self._witness).put(self._books.commit)
        self.look()
        self._sealed = self._books.commit.number

    def look(self) -> None:
        """See that the file, its log and its witness are those that their names stand for; raises as `seal`."""
        if self._lock:
            self._lock.look()

    def copy_log(self) -> None:
        """Copy SQLite's log into the file where it has grown: behind an acknowledgement, which then need not wait for that.

        What fails is tried again; a disk that is full, or ill, is told by the next commit.
        """
        if self._logged >= LOG_BYTES:
            self._logged = 0
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _transaction(self, write: Callable[[], Books]) -> None:
        dead = self._dead
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            books = write()
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._rollback()
            self._dead = dead
            if self._checkpoint is not None:
                self._cut_off, self._checkpoint = self._checkpoint.snapshot, None
            if isinstance(error, sqlite3.Error):
                raise _as_storage_failed(error) from error
            raise
        self._books = books
        self._logged += COMMIT_BYTES
        if self._checkpoint is not None and books.stamp == self._checkpoint.stamp:
            self._checkpoint = None
        self.seal()

    @property
    def identity(self) -> bytes:
        """What tells this state from copies that go on by themselves."""
        return self._books.commit.identity

    def image(self) -> bytes:
        """Return the file as the last commit has left it, to be opened elsewhere as a copy. Cost O(bytes)."""
        return self._connection.serialize()

    def close(self) -> None:
        """Copy the log into the file, close it and give the lock back. Nothing committed depends on it."""
        try:
            self._connection.close()
        finally:
            if self._witness:
                self._witness.close()
            if self._lock:
                self._lock.close()

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:  # SQLite has rolled back by itself: a disk full does that
                return

    def _write(self, snapshot: Snapshot) -> Books:
        # Rows of a checkpoint that was given up may have a later stamp than those that the state stands on.
        self._stamp += self._stamp > self._books.stamp
        steps = self._in_steps(snapshot, self._stamp, beside=False)
        while True:
            try:
                next(steps)
            except StopIteration as whole:
                ledgers, names = whole.value
                break
        if self._books.journal.count or self._dead:
            self._connection.execute("DELETE FROM journal")
            self._dead = 0
        return self._put_root(self._on(snapshot, self._stamp, ledgers, names, JournalBooks(self._books.journal.next)))

    def _in_steps(self, snapshot: Snapshot, stamp: int, *, beside: bool) -> Generator[int, None, _Written]:
        """Write a snapshot's names and tables step by step; return what the state's books then say of them."""
        sums = self._books.name_sums
        for start in range(0, len(snapshot.names), NAMES_A_STEP):
            sums = write_names(self._connection, sums, snapshot.names[start : start + NAMES_A_STEP])
            yield STEP_BYTES
        ledgers = dict(self._books.ledgers)
        for table in snapshot.tables:
            ledgers[table.table] = yield from write_table(self._connection, table, ledgers, stamp, beside=beside)
        return ledgers, sums

    def _on(
        self,
        snapshot: Snapshot,
        stamp: int,
        ledgers: dict[str, Ledger],
        names: NDArray[np.int64],
        journal: JournalBooks,
    ) -> Books:
        """Let the state stand on pages that are all written; return its books."""
        for table in snapshot.tables:
            put_ledger(self._connection, ledgers[table.table])
        producers = write_producers(self._connection, self._books.producer_sums, snapshot)
        documents = write_documents(self._connection, self._books.document_sums, snapshot)
        books = Books(self._books.commit, ledgers, names, producers, documents, journal, stamp)
        return replace(books, root=root_of(books, snapshot.totals))

    def _append(self, data: bytes, checkpoint: Snapshot | None) -> Books:
        books = self._books
        if data:
            number = books.journal.next
            summed = checksum(data, number)
            self._connection.execute("INSERT INTO journal VALUES (?, ?, ?)", (number, data, summed))
            books = replace(books, journal=books.journal.grown(summed, len(data)))
            self._logged += len(data)
        if checkpoint is not None:
            self._stamp += 1
            steps = self._in_steps(checkpoint, self._stamp, beside=True)
            self._checkpoint = _Checkpoint(checkpoint, books.journal, self._stamp, steps)
        return self._put_root(self._go_on(books, max(STEP_BYTES, len(data))))

    def _go_on(self, books: Books, room: int) -> Books:
        """Write as much of a checkpoint as there is room for, or remove as much of what it has made needless."""
        if (under := self._checkpoint) is None:
            self._bury(room)
            return books
        while room > 0:
            try:
                wrote = next(under.steps)
                room -= wrote
                self._logged += wrote
            except StopIteration as whole:
                ledgers, names = cast("_Written", whole.value)
                self._dead = under.before.next
                return self._on(under.snapshot, under.stamp, ledgers, names, books.journal.after(under.before))
        return books

    def _bury(self, room: int) -> None:
        """Remove entries of the journal that pages have in them."""
        if not self._dead:
            return
        query = "SELECT id, length(data) FROM journal WHERE id < ? ORDER BY id"
        last = 0
        for number, size in self._connection.execute(query, (self._dead,)):
            last = number
            room -= size
            if room <= 0:
                break
        self._connection.execute("DELETE FROM journal WHERE id <= ?", (last,))
        self._dead = self._dead if room <= 0 else 0

    def _put_root(self, books: Books) -> Books:
        return put_root(self._connection, books, self._file)


def _as_storage_failed(error: sqlite3.Error) -> StorageFailed:
    worded = schema.worded(error, "the state file cannot be written")
    if isinstance(worded, StorageFailed):
        return worded
    return StorageFailed(worded.message, field="state", hint="stop the service and start it again: it checks the file")
