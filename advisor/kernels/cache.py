"""Where libraries of kernels lie on disk, and who may write them.

The name of a library has the fingerprint of its source; those of a wheel have none, for its sources do not change.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

FAILED, LOCK = "failed", "lock"
BUILT = Path(__file__).parent / "built"
BINDING = Path(__file__).with_name("binding.c")  # calls from Python into a library
SUFFIX = ".abi3.so"  # of Python's stable ABI: one library for all versions
OTHERS_WRITE = 0o022
STATES_RETAINED = 4  # of a source on a machine: a user may have several versions of this package


def linker() -> list[str]:
    """Return the command of a C compiler: ``$CC``, ``cc``, or that of the package `ziglang`; empty where there is none."""
    named = shlex.split(os.environ.get("CC", "cc"))
    if named and shutil.which(named[0]):
        return named
    zig = find_spec("ziglang") if "CC" not in os.environ else None
    return [sys.executable, "-m", "ziglang", "cc"] if zig else []


def roots() -> list[Path]:
    """Return the folders in which compiled kernels may be written, the first preferred."""
    named = os.environ.get("ADVISOR_KERNELS_DIR")
    if named:
        return [Path(named)]
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # no home at all
        return [BUILT]
    return [BUILT, Path(home) / "advisor"]


def is_safe(path: Path) -> bool:
    """Return whether a file or folder is there and nobody but its owner writes it: the user, root, or who owns this package.

    What lies in it is run. The package's own folder is as safe as the package.
    """
    try:
        found = path.stat()
    except OSError:
        return False
    if path.is_relative_to(BUILT):
        return True
    return found.st_uid in {0, os.geteuid(), BUILT.parent.stat().st_uid} and not found.st_mode & OTHERS_WRITE


def shipped_library(module: str) -> Path | None:
    """Return the library of a source that came with a wheel; None where there is none."""
    shipped = BUILT / f"{module}{SUFFIX}"
    return shipped if shipped.is_file() else None


def find_library(name: str) -> Path | None:
    """Return the library of this name that was built here; None where there is none."""
    return next((root / name for root in roots() if is_safe(root) and is_safe(root / name)), None)


def library_name(module: str, text: bytes) -> str:
    """Return the name of the library of a source with this text on machines like this one."""
    built = b"\0".join((EXTENSION_SUFFIXES[0].encode(), *_builders(), text))
    return f"{module}-{platform.machine()}-{blake2b(built, digest_size=10).hexdigest()}{SUFFIX}"


@cache
def _builders() -> tuple[bytes, ...]:
    """Return the text of what makes libraries: an edit of it makes others."""
    here = Path(__file__).parent
    return tuple((here / name).read_bytes() for name in (BINDING.name, "emitting.py", "reading.py"))


def writable_root() -> Path | None:
    """Return the first folder for compiled kernels that can be written, made where it can be; None where there is none."""
    for root in roots():
        try:
            root.mkdir(mode=0o755, parents=True, exist_ok=True)
            probe = root / f"probe.{os.getpid()}"
            probe.write_bytes(b"x")
            probe.unlink()
        except OSError:
            continue
        if is_safe(root):
            return root
    return None


def failure(path: Path) -> str:
    """Return why the library at a path cannot be built here; empty where that is not known."""
    try:
        return path.with_suffix(f".{FAILED}").read_text()
    except OSError:
        return ""


@contextmanager
def only_one(root: Path, module: str) -> Generator[None]:
    """Wait until no other process compiles a source into this root, and keep others out. A process that dies lets go."""
    with open(root / f"{module}.{LOCK}", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def discard(path: Path) -> None:
    """Remove a library that cannot be loaded, so that another is built; not one that came with a wheel."""
    if path.name.count("-"):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def remove_others(path: Path) -> None:
    """Remove the oldest libraries of the same source and machine, which hold other states of it."""
    stem = path.name.rpartition("-")[0]
    others = [
        other for other in path.parent.glob(f"{stem}-*") if other.name.rpartition("-")[0] == stem and other != path
    ]
    for other in sorted(others, key=lambda each: each.stat().st_mtime)[: max(0, len(others) + 1 - STATES_RETAINED)]:
        other.unlink(missing_ok=True)
