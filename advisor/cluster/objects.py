"""Objects in a folder, or in a store by URL: each is written whole or not at all, found by its name, read, removed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from advisor.errors import InvalidValue, StateDamaged, StorageFailed, Unavailable

NO_FOLDERS: Final = ("s3", "gcs", "abfs")  # Arrow's names of stores whose objects need none
SUM_BYTES: Final = 4


class Objects(Protocol):
    """A place for objects; all raise StorageFailed."""

    def put(self, name: str, *parts: bytes | memoryview) -> None:
        """Write an object of these parts, one behind the other; it is durable when this returns."""
        ...

    def get(self, name: str) -> bytes | None:
        """Return an object; None where it is not there. Raises StateDamaged where it is not whole."""
        ...

    def names(self) -> list[str]:
        """Return the names of all objects."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects, those that are there."""
        ...


class Folder:
    """Objects as files of a folder, which is made with the first of them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, name: str, *parts: bytes | memoryview) -> None:
        """As `Objects`."""
        with _failing(self.path / name):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = self.path / f"{name}.new"
            with new.open("wb") as file:
                file.writelines((*parts, _sum(*parts)))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path / name)
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def get(self, name: str) -> bytes | None:
        """As `Objects`."""
        with _failing(self.path / name):
            path = self.path / name
            return _whole(path, path.read_bytes()) if path.exists() else None

    def names(self) -> list[str]:
        """As `Objects`."""
        with _failing(self.path):
            there = self.path.iterdir() if self.path.exists() else ()
            return [each.name for each in there if each.suffix != ".new"]

    def remove(self, names: Iterable[str]) -> None:
        """As `Objects`."""
        for name in names:
            with _failing(self.path / name):
                (self.path / name).unlink(missing_ok=True)


class Remote:
    """Objects in a store that Arrow reads: ``s3://BUCKET/PREFIX``, ``gs://``, ``abfs://``, ``hdfs://``; raises Unavailable."""

    def __init__(self, url: str) -> None:
        try:
            self._fs: Any = import_module("pyarrow.fs")
        except ImportError as error:
            raise Unavailable(
                "pyarrow is not installed", field="copy", value=url, hint="pip install pyarrow"
            ) from error
        self.url = url
        try:
            self._system, self._base = self._fs.FileSystem.from_uri(url)
        except (ValueError, OSError) as error:
            raise InvalidValue("copy", url, "a URL of a store that Arrow reads: s3://BUCKET/PREFIX") from error

    def put(self, name: str, *parts: bytes | memoryview) -> None:
        """As `Objects`."""
        with _failing(self.url):
            if self._system.type_name not in NO_FOLDERS:
                self._system.create_dir(self._base, recursive=True)
            with self._system.open_output_stream(f"{self._base}/{name}") as stream:
                for part in (*parts, _sum(*parts)):
                    stream.write(part)

    def get(self, name: str) -> bytes | None:
        """As `Objects`."""
        with _failing(self.url):
            try:
                with self._system.open_input_stream(f"{self._base}/{name}") as stream:
                    return _whole(name, stream.read())
            except FileNotFoundError:
                return None

    def names(self) -> list[str]:
        """As `Objects`."""
        with _failing(self.url):
            found = self._system.get_file_info(self._fs.FileSelector(self._base, allow_not_found=True))
            return [each.base_name for each in found if each.type == self._fs.FileType.File]

    def remove(self, names: Iterable[str]) -> None:
        """As `Objects`."""
        with _failing(self.url):
            for name in names:
                with suppress(FileNotFoundError):
                    self._system.delete_file(f"{self._base}/{name}")


def objects_at(place: str) -> Objects:
    """Return the objects of a folder by its path or a ``file:`` URL, or of a store by its URL; raises as `Remote`."""
    parts = urlsplit(place)
    if "://" in place and parts.scheme != "file":
        return Remote(place)
    return Folder(Path(unquote(parts.path) if parts.scheme == "file" else place))


def beside(place: str, name: str) -> str:
    """Return a place below another one."""
    if "://" not in place:
        return str(Path(place) / name)
    parts = urlsplit(place)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))


def _sum(*parts: bytes | memoryview) -> bytes:
    found = 0
    for part in parts:
        found = zlib.crc32(part, found)
    return found.to_bytes(SUM_BYTES, "little")


def _whole(name: object, data: bytes) -> bytes:
    found = data[:-SUM_BYTES]
    if len(data) < SUM_BYTES or _sum(found) != data[-SUM_BYTES:]:
        raise StateDamaged(f"{name} is not as it was written", hint="put the one of another copy in its place")
    return found


@contextmanager
def _failing(place: object) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailed(
            f"a copy cannot be written or read: {error}", field="copy", value=str(place),
            hint="see that it has room, is reached, and may be written",
        ) from error  # fmt: skip
