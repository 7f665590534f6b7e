"""Going on without what is damaged, when told to: bad rows set aside, a bad structure rebuilt from its rows."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from advisor.errors import StateDamaged, StorageFailed
from advisor.storage import reading, schema
from advisor.storage.lock import StateLock
from advisor.storage.reading import Quarantined
from advisor.storage.witness import sync_directory

SUFFIXES = ("", "-wal", "-shm")  # SQLite's file, its log and the log's index
KEYS = {  # table -> its key
    "root": "id",
    "ledgers": "id",
    "pages": "id",
    "slots": "id",
    "names": "id",
    "producers": "name, incarnation",
    "documents": "id",
    "journal": "id",
}


def set_aside(connection: sqlite3.Connection, rows: tuple[Quarantined, ...]) -> None:
    """Move rows that failed their checksum into the table ``quarantine``, within the caller's transaction."""
    for row in rows:
        if row.origin == "producers":
            name, incarnation = row.key
            connection.execute(
                "INSERT INTO quarantine SELECT 'producers', name, incarnation, sequence FROM producers "
                "WHERE name IS ? AND incarnation IS ?",
                (name, incarnation),
            )
            connection.execute("DELETE FROM producers WHERE name IS ? AND incarnation IS ?", (name, incarnation))
            continue
        connection.execute(
            f"INSERT INTO quarantine SELECT '{row.origin}', id, data, checksum FROM {row.origin} WHERE id IS ?",  # noqa: S608
            (row.key,),
        )
        connection.execute(f"DELETE FROM {row.origin} WHERE id IS ?", (row.key,))  # noqa: S608 (fixed names)


def rebuild(lock: StateLock) -> tuple[str, ...]:
    """Make a new state file of the rows that can still be read; the damaged one is kept beside it, whole.

    Rows move as they are, with their checksums: whether they are good, and what is missing, is for `reading` to say. Raises
    StateDamaged when the root row cannot be read: then nothing is known of what the file should hold, and it stays as it is;
    StorageFailed when the copy or the new file cannot be written.

    Returns
    -------
    tuple of str
        What was done, in words.
    """
    path = lock.path
    try:
        kept = _keep_aside(path)
        fresh = path.with_name(path.name + ".rebuilt")
        for suffix in SUFFIXES:
            fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
        fresh.touch(0o600)
        try:
            moved = _move_rows(kept, fresh)
        except StateDamaged:
            for suffix in SUFFIXES:
                kept.with_name(kept.name + suffix).unlink(missing_ok=True)
            raise
        # From here on the old log must not be taken for the new file's.
        for suffix in SUFFIXES[1:]:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        lock.replaced_by(fresh)
        sync_directory(path)
    except (OSError, sqlite3.Error) as error:
        raise StorageFailed(
            f"the damaged state file cannot be rebuilt: {error}", field="state", value=str(path)
        ) from error
    return (f"structure of the file (rebuilt from {moved} rows; the damaged file is kept as {kept.name})",)


def _keep_aside(path: Path) -> Path:
    """Copy file and log to a name that is free."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in SUFFIXES[:2]:
        source = path.with_name(path.name + suffix)
        if source.exists():
            target = kept.with_name(kept.name + suffix)
            shutil.copyfile(source, target)
            target.chmod(0o600)
    return kept


def _move_rows(damaged: Path, fresh: Path) -> int:
    """Copy every row that can be read into a new file; return how many."""
    source = sqlite3.connect(damaged, isolation_level=None)
    try:
        root = _rows_of(source, "root", "id")
        reading.root_of(root)
        with closing(schema.connect(fresh, read_only=False)) as target:
            schema.upgrade(target, 0)
            target.execute("BEGIN IMMEDIATE")
            moved = 0
            for table, key in KEYS.items():
                rows = root if table == "root" else _rows_of(source, table, key)
                moved += len(rows)
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    target.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)  # noqa: S608 - fixed names
            target.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        raise StateDamaged(f"nothing of the state file can be read: {error}", hint="restore a backup") from error
    finally:
        source.close()
    return moved


def _rows_of(source: sqlite3.Connection, table: str, key: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table that can be reached: from its beginning up to the damage, and from its end down to it."""
    found: dict[Any, tuple[Any, ...]] = {}
    width = len(key.split(", "))
    for order in ("ASC", "DESC"):
        by = ", ".join(f"{column} {order}" for column in key.split(", "))
        try:
            for row in source.execute(f"SELECT * FROM {table} ORDER BY {by}"):  # noqa: S608 - fixed names
                found[row[:width]] = row
        except sqlite3.DatabaseError:
            continue
    return list(found.values())
