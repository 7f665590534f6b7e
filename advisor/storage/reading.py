"""What a state's files hold: read beside a running service, or by the service that is to go on with it."""

from __future__ import annotations

import os
import shutil
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from advisor.engine.state_bytes import Stored
from advisor.errors import StateDamaged, StorageFailed
from advisor.storage.image import Image, read_image
from advisor.storage.log import INFIX, LogContents, log_files, missing_commits, read_log, read_marker

READS_MAX = 8  # of a state whose service writes images meanwhile
PARTS_NAMED_MAX = 8  # damaged parts in an error


@dataclass(frozen=True, slots=True)
class StateFiles:
    """Contents of an image and the log behind it."""

    image: Image
    log: LogContents
    damaged: tuple[str, ...]  # what is lost, in words

    def stored(self) -> Stored | None:
        """Return the whole state, None where nothing was committed yet."""
        blocks = deque(block.data for block in self.image.blocks)
        return Stored(blocks, self.log.entries, self.image.bytes) if blocks or self.log.entries else None


def read_state(path: str | Path) -> StateFiles:
    """Return a consistent state, also beside a running service; nothing is locked or changed. Cost O(bytes).

    Raises StateDamaged when a checksum does not match, commits are missing, or nothing was written yet; StateTooNew when it has
    another format; StorageFailed when it cannot be read.
    """
    found = read_files(Path(path).resolve(), accept_damage=False)
    if not found.log.commit.number:
        raise StateDamaged(f"{path} is empty: no state was written yet", hint="name a file that a service writes")
    return found


def read_files(path: Path, *, accept_damage: bool) -> StateFiles:
    """Return what is there; its service may write meanwhile. Raises StateDamaged, StateTooNew, StorageFailed."""
    try:
        marked = read_marker(path)  # before the state: a service that commits meanwhile is ahead of it then
        for _ in range(READS_MAX):
            image, inode = read_image(path)
            with suppress(FileNotFoundError):  # another image was just finished, and its files were removed
                log = read_log(path, image.commit, image.before)
                if not inode or inode == path.stat().st_ino:
                    break
        else:
            raise StorageFailed("images are written faster than they are read", field="state", value=str(path))
        there = log.commit
    except OSError as error:
        raise StorageFailed(f"the state cannot be read: {error.strerror}", field="state", value=str(path)) from error
    lost = missing_commits(marked, there, log.before)
    if not lost and not there.number and any(file.stat().st_size for file in log.ends):
        lost = f"it is empty or gone, and beside it lies the log of one that was not: {path.name}{INFIX}…"
    damaged = (*((lost,) if lost else ()), *image.damaged)
    if damaged and not accept_damage:
        more = "; …" if len(damaged) > PARTS_NAMED_MAX else ""
        raise StateDamaged(
            f"the state is damaged: {'; '.join(damaged[:PARTS_NAMED_MAX])}{more}",
            hint="restore a backup, or start with what is whole by --accept-damage",
        )
    return StateFiles(image, log, damaged)


def keep_aside(path: Path) -> Path:
    """Copy the files of a damaged state to names that are free, and remove its log."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    shutil.copyfile(path, kept)
    for file in log_files(path):
        os.replace(file, kept.with_name(kept.name + file.name.removeprefix(path.name)))
    return kept
