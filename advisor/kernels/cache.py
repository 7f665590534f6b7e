"""Where compiled kernels lie on disk, and who may make them: one folder a source, fingerprint and machine."""

from __future__ import annotations

import fcntl
import os
import platform
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

COMPLETE, FAILED, LOCK = "complete", "failed", "lock"
HOW = "lanes as vectors"  # options of `compiling`, in words: others make other code
STATES_KEPT = 4  # of a source on a machine: a user may have several versions of this package
CPU_BYTES = 8192  # of /proc/cpuinfo: the first processor, whose flags are those of all


def folder_name(name: str, text: bytes) -> str:
    """Return the name of a source's folder: what compiles it and for which processor, then a fingerprint of its text."""
    machine = "\0".join((sys.version, HOW, *_versions(), *_processor()))
    return f"{name}-{blake2b(machine.encode(), digest_size=5).hexdigest()}-{blake2b(text, digest_size=10).hexdigest()}"


def _versions() -> Iterator[str]:
    for name in ("numba", "llvmlite", "numpy"):
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            yield f"no {name}"
            continue
        for file in ("_version.py", "version.py"):  # told without importing the package, which takes half a second
            path = Path(spec.origin).with_name(file)
            if path.is_file():
                yield path.read_text()


def _processor() -> Iterator[str]:
    yield platform.machine()
    try:
        with open("/proc/cpuinfo", "rb") as file:
            lines = file.read(CPU_BYTES).decode(errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        yield platform.processor()
        return
    for line in lines:
        if line.startswith(("vendor_id", "cpu family", "model", "flags", "Features", "CPU ")):
            yield line


def roots() -> list[Path]:
    """Return the folders in which caches may lie, the first preferred."""
    told = os.environ.get("ADVISOR_KERNELS_DIR")
    if told:
        return [Path(told)]
    found = [Path(__file__).parent / "__pycache__"]
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # no home at all
        return found
    return [*found, Path(home) / "advisor"]


def complete_folder(name: str) -> Path | None:
    """Return the folder of that name that is filled; None where there is none."""
    return next((root / name for root in roots() if (root / name / COMPLETE).is_file()), None)


def writable_folder(name: str) -> Path | None:
    """Return the folder of that name, made where it can be; None where nothing can be written."""
    for root in roots():
        folder = root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f"probe.{os.getpid()}"
            probe.write_bytes(b"x")
            probe.unlink()
        except OSError:
            continue
        return folder
    return None


def failure(folder: Path) -> str:
    """Return why these kernels cannot be compiled here; empty where that is not known."""
    try:
        return (folder / FAILED).read_text()
    except OSError:
        return ""


@contextmanager
def only_one(folder: Path) -> Generator[None]:
    """Wait until no other process compiles into this root, and keep others out. A process that dies lets go."""
    with open(folder.parent / LOCK, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def await_others(folder: Path) -> None:
    """Wait while another process compiles into this root."""
    with open(folder.parent / LOCK, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def put(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)


def reopen(folder: Path) -> None:
    """Say that a folder is not complete after all, so that the next process has it filled again; not where it is read-only."""
    with suppress(OSError):
        (folder / COMPLETE).unlink(missing_ok=True)


def remove_others(folder: Path) -> None:
    """Remove the oldest folders of the same source and machine, which hold other states of it."""
    stem = folder.name.rpartition("-")[0]
    others = [
        other for other in folder.parent.glob(f"{stem}-*") if other.name.rpartition("-")[0] == stem and other != folder
    ]
    for other in sorted(others, key=lambda each: each.stat().st_mtime)[: max(0, len(others) + 1 - STATES_KEPT)]:
        for file in other.iterdir():
            file.unlink(missing_ok=True)
        other.rmdir()
