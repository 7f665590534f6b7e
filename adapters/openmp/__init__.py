"""The adapter for OpenMP: a tool in C that its runtime loads, see README.md beside it; here only how it is built and found."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from advisor.errors import InvalidValue

SOURCES: Final = Path(__file__).parent
LIBRARY: Final = "libadvisor_openmp.so"
PARTS: Final = ("*.c", "*.h", "Makefile")
BUILD_S: Final = 120.0  # a compiler that takes longer hangs


def tool_library() -> Path:
    """Return the tool's library, built once for these sources into the user's cache.

    Raises
    ------
    InvalidValue
        Where there is no compiler, or it fails.
    """
    built = SOURCES / LIBRARY
    parts = sorted(path for part in PARTS for path in SOURCES.glob(part))
    if built.exists() and all(built.stat().st_mtime >= part.stat().st_mtime for part in parts):
        return built
    digest = hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "advisor" / f"openmp-{digest}"
    if not (cache / LIBRARY).exists():
        build_tool(cache)
    return cache / LIBRARY


def build_tool(folder: Path) -> Path:
    """Build the tool's library in a folder, which is made; return the library.

    Raises
    ------
    InvalidValue
    """
    compiler = os.environ.get("CC") or shutil.which("clang") or shutil.which("clang-14")
    if compiler is None or shutil.which("make") is None:
        raise InvalidValue(
            "compiler", "none", "clang and make, with the headers of libomp", "install clang and libomp-dev"
        )
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{LIBRARY}.{os.getpid()}"  # beside it, then in its place: others may build it, too
    command = ["make", "-s", "-C", str(SOURCES), f"CC={compiler}", f"LIBRARY={made}", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)  # noqa: S603
    if done.returncode:
        said = " ".join(done.stderr.split())[-400:]
        raise InvalidValue(
            "compiler", compiler, f"one that builds the tool; it said: {said}", "install clang and libomp-dev"
        )
    made.replace(folder / LIBRARY)
    return folder / LIBRARY
