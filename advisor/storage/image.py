"""One image of a state: a frame that names its commit, then a frame a block, then an end.

An image is written beside the present one and takes its name when it is whole and synced, so a cut changes nothing.
"""

from __future__ import annotations

import errno
import os
import signal
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NoReturn

import msgspec

from advisor.engine.frames import Block, framed, read_frames
from advisor.engine.state_bytes import END, FORMAT
from advisor.errors import StateDamaged, StateTooNew
from advisor.storage.log import NO_DIGEST, Commit

HEAD = "commit"  # the label of the first frame: format, commit, the digest before it
SYNC_BYTES = 2**22  # of an image between two syncs: a commit beside it waits for so much at most
NICENESS = 10  # of the process that writes an image
DESCRIPTORS_MAX = 2**20  # the most that a process of ours has open, see `listeners.raise_descriptors`


@dataclass(frozen=True, slots=True)
class Image:
    """Contents of an image."""

    commit: Commit = field(default_factory=Commit)  # the last one that is in it
    before: bytes = NO_DIGEST  # the digest of the commit before
    bytes: int = 0
    damaged: tuple[str, ...] = ()  # what is not whole, in words
    blocks: tuple[Block, ...] = ()  # those that are whole


def write_image(path: Path, commit: Commit, before: bytes, blocks: Iterable[Block]) -> None:
    """Write an image and sync it. Raises OSError."""
    head, end = Block(HEAD, msgspec.msgpack.encode((FORMAT, commit, before))), Block(END, b"")
    path.unlink(missing_ok=True)
    unsynced = 0
    with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
        for block in chain((head,), blocks, (end,)):
            unsynced += file.write(framed(*block))
            if unsynced > SYNC_BYTES:
                file.flush()
                os.fdatasync(file.fileno())
                unsynced = 0
        file.flush()
        os.fsync(file.fileno())


class ImageProcess:
    """An image written by a process of its own, from the memory of this one as it is now.

    `commit`: the last one that the blocks hold, `before` the digest of the one before. Raises OSError where none is made.
    """

    def __init__(self, path: Path, commit: Commit, before: bytes, blocks: Iterable[Block]) -> None:
        self.path, self.commit = path, commit
        # A signal to both must not reach the handlers that the child has from its parent.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child takes none of their locks
                self._process = os.fork()
            if self._process == 0:
                _write_and_exit(path, commit, before, blocks)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)

    def ended(self, *, wait: bool = False) -> bool:
        """Return whether the image is whole and synced, False while it is written; raises OSError when it cannot be written."""
        if self._process:
            found, status = os.waitpid(self._process, 0 if wait else os.WNOHANG)
            if not found:
                return False
            self._process = 0
            if code := os.waitstatus_to_exitcode(status):
                raise OSError(None, os.strerror(code) if code > 0 else f"its process was ended by signal {-code}")
        return True

    def give_up(self) -> None:
        """End the process, and remove what it has written."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            with suppress(OSError):
                self.ended(wait=True)
        with suppress(OSError):
            os.unlink(self.path)


def _write_and_exit(path: Path, commit: Commit, before: bytes, blocks: Iterable[Block]) -> NoReturn:
    """Write an image in a process that was just made, and end it with an error's number: nothing open of its parent stays."""
    code = errno.EIO
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        os.closerange(3, DESCRIPTORS_MAX)
        os.nice(NICENESS)
        write_image(path, commit, before, blocks)
        code = 0
    except OSError as error:
        code = error.errno or code
    finally:
        os._exit(code)


def read_image(path: Path) -> tuple[Image, int]:
    """Return an image with its blocks, and the file's inode; an empty one where there is no file or nothing in it.

    Raises StateDamaged when it is no image; StateTooNew when it has another format; OSError. Cost O(bytes).
    """
    try:
        with path.open("rb") as file:
            data, inode = file.read(), os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return Image(), 0
    return (_decoded(data, path) if data else Image()), inode


def _decoded(data: bytes, path: Path) -> Image:
    head, *frames = read_frames(data)
    blocks = tuple(Block(frame.label, frame.data) for frame in frames if frame.data is not None and frame.label != END)
    damaged = [frame.label for frame in frames if frame.data is None]
    commit, before = Commit(), NO_DIGEST
    if head.label != HEAD and (head.data is not None or not blocks):
        raise StateDamaged(f"{path} is no state file of Advisor", hint="name another file, or restore a backup")
    if head.data is None:
        damaged.insert(0, "its head")
    else:
        found, *named = msgspec.msgpack.decode(head.data)
        if found != FORMAT:
            raise StateTooNew(
                f"the state file has format {found}, this version reads {FORMAT}", field="state", value=found,
                bound=FORMAT, hint="run the version that wrote it",
            )  # fmt: skip
        commit, before = msgspec.convert(named, tuple[Commit, bytes])
    if not frames or frames[-1].label != END:
        damaged.append("its end, which is lost")
    return Image(commit, before, len(data), tuple(damaged), blocks)
