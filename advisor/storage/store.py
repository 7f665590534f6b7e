"""One state: an image, a log of what was applied since, and a marker of the last commit; opened by one service at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from advisor.engine.frames import Block
from advisor.engine.state_bytes import Stored
from advisor.errors import StateDamaged, StateTooNew, StorageFailed
from advisor.storage.image import ImageProcess, write_image
from advisor.storage.lock import FileChanged, StateLock
from advisor.storage.log import DIGEST_BYTES, Commit, Log, Marker, log_files, sync_directory
from advisor.storage.reading import StateFiles, keep_aside, read_files

# An image should be written when the log has so many bytes or entries, for a start replays them: a plain row takes 19 to 28
# bytes and about a microsecond, so 48 MiB some three seconds; an entry of one row 50 microseconds. Of a larger state the log
# may have a quarter, so that images write at most four times as many bytes as the log.
LOG_BYTES_MAX = 3 * 2**24
LOG_SHARE = 4
LOG_ENTRIES_MAX = 2**15
FRESH = ".new"  # behind the state's name: an image on its way


class Store:
    """The state of one service; others read it by `reading.read_state`.

    Calls come from one thread at a time, but for `compare_files` and `sync_marker`. Opened by `Store.open`, closed by `close`
    or a ``with`` block.
    """

    def __init__(self, path: Path, contents: StateFiles, lock: StateLock) -> None:
        self.path = path
        self.damaged = contents.damaged  # what was lost, in words, where a start was allowed to do without it
        self.image_failure = ""  # why the last image beside commits was given up; "" where it was not
        self.log_entries = len(contents.log.entries)  # since the image
        self._log_bytes = sum(map(len, contents.log.entries))
        self._image_at = 0  # bytes of the log before which no image is begun
        self._log_bytes_max = max(LOG_BYTES_MAX, contents.image.bytes // LOG_SHARE)
        self._stored = contents.stored()
        # the last commit on disk, acknowledged or not, and the digest of the one before
        self.last, self._before = contents.log.commit, contents.log.before
        self._acknowledged = self.last.number
        self._lock = lock
        self._marker: Marker | None = None
        self._log: Log | None = None
        self.image: ImageProcess | None = None  # on its way: `take_image` takes it
        self._in_image = 0, 0  # entries and bytes of the log that it has
        self._freeing: threading.Thread | None = None  # gives the room of what an image replaced back

    @classmethod
    def open(cls, path: str | Path, *, accept_damage: bool = False) -> Store:
        """Open a state, and check every byte ever committed; its files are made with the first commit. Cost O(bytes).

        Raises StateLocked when another service has the file open, by whatever name; StateDamaged when a checksum does not
        match: it names the blocks; when commits are missing: it says how many; StateTooNew when it has another format;
        StorageFailed when it cannot be opened, made or read.

        Parameters
        ----------
        path
            The image; its log and marker lie beside it.
        accept_damage
            Go on with what is whole; the damaged files are kept beside the state; `damaged` names what was lost.
        """
        lock = StateLock(Path(path))
        try:
            contents = read_files(lock.path, accept_damage=accept_damage)
            store = cls(lock.path, contents, lock)
            try:
                store._own(contents)
            except OSError as error:
                raise store._failed(error) from error
        except BaseException:
            lock.remove_if_empty()
            lock.close()
            raise
        return store

    def _own(self, contents: StateFiles) -> None:
        """Go on as the only writer. A state that is mended is another one from here on."""
        if contents.damaged:
            kept = keep_aside(self.path)
            self.damaged = (*self.damaged, f"what was damaged is kept as {kept.name}")
            self._begin_state(contents.image.blocks, contents.image.commit.number)
            self._write_log(contents.log.entries)
            self.acknowledge()
        elif self.last.number:  # of a new one the files are made with its first commit
            self._marker = marker = Marker(self.path)
            for file, end in contents.log.ends.items():  # a write that was cut was never acknowledged
                if file.stat().st_size > end:
                    os.truncate(file, end)
            self._begin_log(self.last.number + 1)
            marker.fill(self.last)
            for path in (self.path, marker.path, *contents.log.ends):
                self._lock.watch(path)

    def _begin_state(self, blocks: Iterable[Block], number: int = 0) -> None:
        """Make the files of a state of its own; nothing is acknowledged before its marker is written."""
        self.last = Commit(os.urandom(DIGEST_BYTES), number)
        self._marker = Marker(self.path, new=Commit(self.last.identity))
        self._lock.watch(self._marker.path)
        self._write_image(blocks)
        self._marker.fill(self.last)
        self._lock.watch(self._marker.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self) -> Stored | None:
        """Return the whole state, None where nothing was committed yet; once, its memory is then the caller's."""
        found, self._stored = self._stored, None
        return found

    def append(self, entry: bytes) -> None:
        """Write an entry of the log, durably, and acknowledge it. Cost O(bytes), one sync, see `sync_marker`.

        Raises StorageFailed when the entry cannot be written: the state is then as it was, the entry may be tried again.
        Or, `commits` having grown, when it was written and must not be acknowledged, see `acknowledge`.
        """
        lock = self._lock
        try:
            with lock.busy:
                if self._marker is None:  # nothing was committed yet
                    self._begin_state(())
                self._compare()
                if entry:
                    self._write_log((entry,))
        except OSError as error:
            raise self._failed(error) from error
        finally:
            if (
                self.image is not None and self.image.commit.number > self.last.number
            ):  # of a state that was not reached
                self._give_up_image()
        self.acknowledge()

    def save(self, blocks: Iterable[Block]) -> None:
        """Write an image of the whole state as a commit; the log begins anew. Raises as `append`. Cost O(state)."""
        lock = self._lock
        self._give_up_image()
        try:
            with lock.busy:
                if self._marker is None:
                    self._begin_state(())
                self._compare()
                self._write_image(blocks)
        except OSError as error:
            raise self._failed(error) from error
        self.acknowledge()

    def begin_image(self, entry: bytes, blocks: Iterable[Block]) -> None:
        """Have a process write an image of the state as it is now: what the next `append` appends, `entry`, is in it.

        Cost: that of a fork, O(memory): some 10 ms a GB. An image that cannot be written is given up, see `image_failure`.
        """
        if self._marker is None:  # of a state that has no files yet
            return
        if self._freeing is not None:
            self._freeing.join()
        commit, before = (self.last.after(entry), self.last.digest) if entry else (self.last, self._before)
        try:
            self._begin_log(self.last.number + 1)
            self._in_image = self.log_entries + bool(entry), self._log_bytes + len(entry)
            self.image = ImageProcess(self.path.with_name(self.path.name + FRESH), commit, before, blocks)
        except OSError as error:
            self._give_up_image(str(error))

    def take_image(self) -> None:
        """Let the image on its way take its place where it is whole. One that fails is given up, and the log goes on."""
        image = self.image
        try:
            if image is None or not image.ended():
                return
            with self._lock.busy:
                self._take_image(image.path)
            self.log_entries -= self._in_image[0]
            self._log_bytes -= self._in_image[1]
            self.image_failure = ""
            self.image = None  # at last: another thread may begin the next image from here on
        except (OSError, StorageFailed) as error:
            self._give_up_image(str(error))

    def _give_up_image(self, why: str = "") -> None:
        """Forget an image on its way; the next is begun when the log has grown by as much again."""
        self.image_failure = why
        self._image_at = self._log_bytes + self._log_bytes_max // LOG_SHARE
        if self.image is not None:
            self.image.give_up()
            self.image = None

    @property
    def image_due(self) -> bool:
        """True when an image should be written: a start would take long to replay the log."""
        if self.image is not None or self._marker is None or self._log_bytes < self._image_at:
            return False
        return self._log_bytes >= self._log_bytes_max or self.log_entries >= LOG_ENTRIES_MAX

    @property
    def acknowledged(self) -> bool:
        """True when all that was committed may be acknowledged."""
        return self._acknowledged == self.last.number

    def acknowledge(self) -> None:
        """Write the last commit to the marker, and compare the files with what a restart would find.

        Raises StorageFailed when one of both fails: no reply may go out until this succeeds.
        """
        lock, marker = self._lock, self._marker
        try:
            with lock.busy:
                if marker is not None:
                    marker.write_commit(self.last)
                    lock.watch(marker.path, marker.descriptor)
                self._compare()
        except OSError as error:
            raise self._failed(error) from error
        self._acknowledged = self.last.number

    def sync_marker(self) -> None:
        """Have the disk keep what `acknowledge` wrote to the marker, behind the replies; the next one tries again."""
        with self._lock.busy, suppress(OSError):
            if self._marker is not None:
                self._marker.sync()

    def compare_files(self) -> None:
        """Compare the files with what their names stand for, unless they are written just now; raises as `acknowledge`.

        From any thread.
        """
        if self._lock.busy.acquire(blocking=False):
            try:
                self._lock.compare()
            finally:
                self._lock.busy.release()

    def close(self) -> None:
        """Close the files and give the lock back. Nothing committed depends on it."""
        self._give_up_image()
        self.sync_marker()
        if self._freeing is not None:
            self._freeing.join()
        for each in (self._log, self._marker):
            if each is not None:
                each.close()
        self._lock.remove_if_empty()
        self._lock.close()
        self._log = self._marker = None

    # -- inside

    def _compare(self) -> None:
        """Compare the files; one that only has another size or time is read again, and taken where it is whole."""
        try:
            self._lock.compare()
        except FileChanged:
            with suppress(StateDamaged, StateTooNew):
                found = read_files(self.path, accept_damage=False)
                if found.log.commit.digest == self.last.digest:
                    self._lock.watch_again()
                    return
            raise

    def _begin_log(self, first: int) -> None:
        former, self._log = self._log, Log(self.path, first)
        if former is not None:
            former.close()
        self._lock.watch(self._log.path)

    def _write_log(self, entries: Sequence[bytes]) -> None:
        log, lock = self._log, self._lock
        assert log is not None
        try:
            self.last, self._before = log.append(self.last, entries)
        finally:
            lock.watch(log.path, log.descriptor)
        self.log_entries += len(entries)
        self._log_bytes += sum(map(len, entries))

    def _write_image(self, blocks: Iterable[Block]) -> None:
        """Write an image at once, a commit of its own that no entry of the log tells."""
        commit, before = self.last.after(os.urandom(DIGEST_BYTES)), self.last.digest
        fresh = self.path.with_name(self.path.name + FRESH)
        write_image(fresh, commit, before, blocks)
        self._take_image(fresh, commit.number + 1)
        self.last, self._before, self.log_entries, self._log_bytes = commit, before, 0, 0

    def _take_image(self, fresh: Path, log_from: int | None = None) -> None:
        """Let the state stand on an image that is whole, and on the log behind it."""
        lock = self._lock
        former = lock.replace_by(fresh)
        sync_directory(self.path)
        self._log_bytes_max, self._image_at = max(LOG_BYTES_MAX, os.stat(self.path).st_size // LOG_SHARE), 0
        lock.watch(self.path)
        if log_from is not None:
            self._begin_log(log_from)
        gone = [file for file in log_files(self.path) if self._log is None or file != self._log.path]
        for file in gone:
            lock.forget(file)

        def free() -> None:  # what the file system takes some 50 ms a GB for
            os.close(former)
            for file in gone:
                file.unlink(missing_ok=True)

        self._freeing = threading.Thread(target=free, name="state freed")
        self._freeing.start()

    def _failed(self, error: OSError) -> StorageFailed:
        """Return the words of what failed."""
        return StorageFailed(
            f"the state cannot be written: {error.strerror}", field="state", value=str(error.filename or self.path),
            hint="see that the disk has room and may be written",
        )  # fmt: skip
