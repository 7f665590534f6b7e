"""Opening a state file: it is read, checked and held against its witness before anything of it is changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.errors import StateDamaged, StateTooNew
from advisor.storage import reading, salvage, schema
from advisor.storage.damage import Damage
from advisor.storage.lock import StateLock, file_of
from advisor.storage.reading import Contents
from advisor.storage.witness import Testimony, lacking, testimony


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection, and what it found."""

    connection: sqlite3.Connection
    contents: Contents


def read(path: Path) -> Opened:
    """Open a state only to read it; raises StateDamaged, StateTooNew, StorageFailed as `Store.open`."""
    said = testimony(path)  # before the state: a service that commits meanwhile is ahead of what was read
    if not _bytes(path):
        _refuse_unless(mend=False, damage=_unseen(path, said))
    connection = schema.connect(path, read_only=True)
    try:
        found, contents = _contents(connection, path, said, check_structure=False)
        return Opened(connection, _readable(path, said, found, contents))
    except BaseException:
        connection.close()
        raise


def _readable(path: Path, said: Testimony | None, found: int, contents: Contents | None) -> Contents:
    """Return contents that are whole, or raise what says why not."""
    if contents is None or found != schema.FORMAT:
        _refuse_unless(mend=False, damage=_unseen(path, said))
        if found == 0:
            raise StateDamaged(f"{path} is empty: no state was written yet", hint="name a file that a service writes")
        raise StateTooNew(
            f"the state file has the older format {found}: only a service upgrades it to {schema.FORMAT}",
            field="state", value=found, bound=schema.FORMAT, hint="start a service of this version on it once",
        )  # fmt: skip
    if contents.damage:
        raise contents.damage.error()
    return contents


def read_to_write(lock: StateLock, *, mend: bool, page_bytes: int) -> Opened:
    """Open a state that is locked; an older one is upgraded, a new one made, both without a witness still.

    Raises StateDamaged when something is damaged or missing, and it is not to be mended: nothing is changed then, the log
    stays; StateTooNew, StorageFailed as `Store.open`.
    """
    path, said = lock.path, testimony(lock.path)
    rescued: tuple[str, ...] = ()
    try:
        found, contents = _looked_at(path, said)
    except StateDamaged:
        if not mend:
            raise
        rescued = salvage.rebuild(lock)
        found, contents = _looked_at(path, said)
    damage = contents.damage if contents else _unseen(path, said)
    _refuse_unless(mend=mend, damage=damage)
    connection = schema.connect(path, read_only=False, page_bytes=page_bytes)
    try:
        if contents is None:
            contents = _upgraded(connection, found)
            damage = replace(contents.damage, parts=damage.parts + contents.damage.parts)
            _refuse_unless(mend=mend, damage=damage)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, replace(contents, damage=replace(damage, parts=rescued + damage.parts)))


def _refuse_unless(*, mend: bool, damage: Damage) -> None:
    if damage and not mend:
        raise damage.error()


def _unseen(path: Path, said: Testimony | None) -> Damage:
    """Return what a state lacks that was never committed to under a witness, or that is not there."""
    lost = lacking(said, None, b"", copied=False)
    if not lost and not _bytes(path) and _bytes(path.with_name(path.name + "-wal")):
        lost = f"it is empty or gone, and beside it lies the log of one that was not: {path.name}-wal"
    return Damage(parts=(lost,) if lost else ())


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _looked_at(path: Path, said: Testimony | None) -> tuple[int, Contents | None]:
    """Return the format, and the contents where it is the present one."""
    if not path.stat().st_size:
        return 0, None  # SQLite would remove the log of an empty file
    with closing(schema.connect(path, read_only=True)) as connection:
        return _contents(connection, path, said, check_structure=True)


def _contents(
    connection: sqlite3.Connection, path: Path, said: Testimony | None, *, check_structure: bool
) -> tuple[int, Contents | None]:
    try:
        found = schema.format_of(connection, path)
        if found not in schema.READS:
            return found, None
        contents = reading.read(connection, check_structure=check_structure)
    except sqlite3.Error as error:
        raise schema.worded(error, "the state file cannot be read") from error
    copied = contents.commit is not None and contents.file != file_of(path)
    if lost := lacking(said, contents.commit, contents.before, copied=copied):
        contents = replace(contents, damage=replace(contents.damage, parts=(lost, *contents.damage.parts)))
    return found, replace(contents, copied=copied and (said is None or said.silent))


def _upgraded(connection: sqlite3.Connection, found: int) -> Contents:
    try:
        schema.upgrade(connection, found)
        return reading.read(connection, check_structure=True)
    except sqlite3.Error as error:
        raise schema.worded(error, "the state file cannot be read") from error
