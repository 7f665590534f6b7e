"""The state file's tables, its format number and the steps from older ones; opening it; SQLite's errors in our words.

A table's page or slot is keyed by one integer, ``table id * 2**32 + second place * 2**31 + number``: SQLite's fastest key.
Blobs are little-endian whatever the machine.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from advisor.errors import AdvisorError, StateDamaged, StateTooNew, StorageFailed
from advisor.storage.ledger import ABSENT, checksum

FORMAT = 5  # raised with each change of the tables below; MIGRATIONS then gains the step to it
APPLICATION_ID = 0x41445652  # "ADVR": tells a state file from any other database
READS = (4, FORMAT)  # without a step between: in 4 all pages and slots stand in their first places, with the stamp 0
NUMBER_BITS = 32  # of a key, for the page or slot and its place
PLACE_BIT = 31
# 4 KiB pages: a changed slot of 1 KiB dirties one of them; larger ones make random slots dearer (16 KiB: 3x).
PAGE_BYTES = 4096
# Where commits are of many rows: a third less of the processor; few rows take four times as much of the disk.
WIDE_PAGE_BYTES = 16_384
# SQLite copies the log into the file when it has this many pages (4 MiB), and then writes over it from its beginning: a small
# commit costs 55 microseconds where the log's blocks are there, 120 to 250 where the file grows (64 MiB before it wraps).
CHECKPOINT_PAGES = 1_024
LOG_BYTES_KEPT = 2**24  # of a log that a large commit has made longer
CACHE_KIB = 32_768  # of SQLite pages in memory: random slots run twice as fast as with the default 2 MiB
BUSY_TIMEOUT_S = 5.0  # for a reader that holds a lock while it opens; nobody else writes

DOCUMENTS = "CREATE TABLE documents (id BLOB PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;"
JOURNAL = "CREATE TABLE journal (id INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);"
TABLES = f"""
PRAGMA application_id = {APPLICATION_ID};
CREATE TABLE root (id INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE ledgers (id INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE pages (id INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE slots (id INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE names (id INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE producers (
    name BLOB NOT NULL, incarnation BLOB NOT NULL, sequence INTEGER NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (name, incarnation)
) WITHOUT ROWID;
{DOCUMENTS}
{JOURNAL}
CREATE TABLE quarantine (origin TEXT NOT NULL, id, data, checksum);
PRAGMA user_version = {FORMAT};
"""


def _add_documents(connection: sqlite3.Connection) -> None:
    """Format 1 had no documents; the root tells how many there are."""
    connection.execute(DOCUMENTS)
    _change_root(connection, lambda _: {"format": 2, "documents": [0, 0]})


def _add_journal(connection: sqlite3.Connection) -> None:
    """Format 2 had pages alone; the root tells the first entry of the journal, how many there are, and their sum."""
    connection.execute(JOURNAL)
    _change_root(connection, lambda _: {"format": 3, "journal": [1, 0, 0]})


def _add_commits(connection: sqlite3.Connection) -> None:
    """Format 3 had no number a commit, and no checksum of each ledger in the root; who opens it gives it its witness."""
    sums = dict(connection.execute("SELECT id, checksum FROM ledgers"))

    def change(root: Mapping[str, Any]) -> dict[str, Any]:
        tables = {name: [*own, sums.get(own[0], ABSENT)] for name, own in root["tables"].items()}
        return {"format": 4, "tables": tables, "commit": None}

    _change_root(connection, change)


def _add_stamps(connection: sqlite3.Connection) -> None:
    """Format 4 had one place a page; only what comes from 3 takes this step, for the digest of a root must not change."""
    _change_root(connection, lambda _: {"format": 5, "pages": 0})


def _change_root(connection: sqlite3.Connection, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    for key, data, summed in connection.execute("SELECT id, data, checksum FROM root").fetchall():
        if not isinstance(data, bytes) or checksum(data, key) != summed:
            continue  # damaged: reading says so
        root: dict[str, Any] = json.loads(data)
        changed = root | change(root)
        if root["format"] != changed["format"] - 1:
            raise StateDamaged("the format number of the state file is damaged", hint="restore a backup")
        now = json.dumps(changed, sort_keys=True).encode()
        connection.execute("UPDATE root SET data = ?, checksum = ? WHERE id = ?", (now, checksum(now, key), key))


# Format n -> the step that makes it n + 1, run inside one transaction that also raises user_version.
MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = {
    1: _add_documents,
    2: _add_journal,
    3: _add_commits,
    4: _add_stamps,
}

# What SQLite calls the file's fault; everything else is the disk's, and may pass.
FILE_AT_FAULT = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


def worded(error: sqlite3.Error, doing: str) -> AdvisorError:
    """Return SQLite's error as one of ours: StateDamaged when the file is at fault, else StorageFailed."""
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    text = f"{doing}: {error} ({name})"
    if name.startswith(FILE_AT_FAULT) or name == "DatabaseError":
        return StateDamaged(
            f"the state file is damaged in its structure: {text}",
            hint="restore a backup, or start with what can be read by --accept-damage",
        )
    return StorageFailed(text, field="state", value=name, hint="see that the disk has room and may be written")


def connect(path: Path, *, read_only: bool, page_bytes: int = PAGE_BYTES) -> sqlite3.Connection:
    """Open a file that is there; calls from one thread at a time.

    A connection that only reads changes nothing: it leaves a log as it is, which the last one that may write copies into the
    file and removes. Raises StorageFailed when it cannot be opened or read; StateDamaged when it is no database.
    """
    mode = "ro" if read_only else "rw"
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_TIMEOUT_S,
        )
    except sqlite3.Error as error:
        raise worded(error, "the state file cannot be opened") from error
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not read_only:
            _prepare(connection, path, page_bytes)
    except sqlite3.Error as error:
        connection.close()
        raise worded(error, "the state file cannot be read") from error
    except UnicodeDecodeError as error:  # of SQLite's own message, which repeats what is damaged
        connection.close()
        raise StateDamaged("the state file is damaged in its structure", hint="restore a backup") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path, page_bytes: int) -> None:
    connection.execute(f"PRAGMA page_size = {page_bytes}")  # of a file that is empty still
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise StorageFailed(
            "the state file's log needs shared memory", field="state", value=str(path), hint="keep it on a local disk"
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")


def format_of(connection: sqlite3.Connection, path: Path) -> int:
    """Return the format of a state file, 0 where it is empty.

    Raises StateDamaged when it is no state file; StateTooNew when a later version wrote it.
    """
    if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        return 0
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StateDamaged(f"{path} is no state file of Advisor", hint="name another file")
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if not 1 <= found <= FORMAT:
        raise StateTooNew(
            f"the state file has format {found}, this version reads up to {FORMAT}",
            field="state",
            value=found,
            bound=FORMAT,
            hint="run the version that wrote it, or a later one",
        )
    return found


def upgrade(connection: sqlite3.Connection, found: int) -> None:
    """Bring a file of this format to the present one, step by step, each step whole or not at all; 0 makes the tables."""
    if found == 0:
        connection.executescript(f"BEGIN IMMEDIATE; {TABLES} COMMIT;")
        return
    for step in range(found, FORMAT):
        connection.execute("BEGIN IMMEDIATE")
        try:
            MIGRATIONS[step](connection)
            connection.execute(f"PRAGMA user_version = {step + 1}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
