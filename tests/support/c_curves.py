"""The C client, compiled, and its curves asked through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from advisor.domain.allowed_cores import AllowedCores
from advisor.domain.bundle import ALLOWED_LEAST, AT, HEADER, PLACE, BundleRecord

SOURCE = Path(__file__).parents[2] / "adapters" / "c"
STRICT = ("-Wall", "-Wextra", "-Werror", "-std=c99", "-O2")


def compiled(output: Path, *options: str) -> Path:
    """Compile the C client, with more sources and options, to `output`; without a compiler the test is skipped, and says so."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("NO C COMPILER: the C client is not tested here")
    command = [compiler, *STRICT, "-I", str(SOURCE), str(SOURCE / "advisor.c"), *options, "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return output


class _Bundle(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint64), ("level", ctypes.c_double), ("components", ctypes.c_uint32),
        ("words", ctypes.c_void_p), ("size", ctypes.c_size_t), ("starts", ctypes.c_void_p), ("names", ctypes.c_void_p),
        ("name_ends", ctypes.c_void_p),
    )  # fmt: skip


class Library:
    """The shared library."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        number, pointer = ctypes.c_double, ctypes.c_void_p
        self.c.advisor_predict.restype = self.c.advisor_extrapolates.restype = number
        self.c.advisor_predict.argtypes = (pointer, ctypes.c_uint32, number, number, pointer, pointer)
        self.c.advisor_extrapolates.argtypes = (pointer, ctypes.c_uint32, number, number)
        self.c.advisor_choose_cores.argtypes = (pointer, ctypes.c_uint32, number, ctypes.c_uint32, number, pointer)
        self.c.advisor_choose_allowed.argtypes = (
            pointer, ctypes.c_uint32, number, pointer, ctypes.c_size_t, number, pointer,
        )  # fmt: skip
        self.c.advisor_find.restype = ctypes.c_long
        self.c.advisor_find.argtypes = (pointer, ctypes.c_char_p, ctypes.c_size_t)
        self.c.advisor_bundle_read.argtypes = (pointer, ctypes.c_char_p, ctypes.c_size_t)

    def read(self, data: bytes) -> CBundle:
        return CBundle(self, data)


class CBundle:
    """A bundle that C has read; `error` is not 0 where it would not."""

    def __init__(self, library: Library, data: bytes) -> None:
        self.c = library.c
        self.held = _Bundle()
        self.at = ctypes.addressof(self.held)
        self.error = self.c.advisor_bundle_read(self.at, data, len(data))

    def find(self, name: str) -> int:
        return self.c.advisor_find(self.at, name.encode(), len(name.encode()))

    def predict(self, component: int, x: float, p: float) -> tuple[float, float, float, float]:
        low, high = ctypes.c_double(), ctypes.c_double()
        value = self.c.advisor_predict(self.at, component, x, p, ctypes.addressof(low), ctypes.addressof(high))
        return value, low.value, high.value, self.c.advisor_extrapolates(self.at, component, x, p)

    def choose_cores(self, component: int, x: float, most: int, tolerance: float) -> int:
        return self.c.advisor_choose_cores(self.at, component, x, most, tolerance, None)

    def choose_allowed(self, component: int, x: float, listed: list[int], tolerance: float) -> int:
        counts = (ctypes.c_uint32 * len(listed))(*listed)
        return self.c.advisor_choose_allowed(self.at, component, x, counts, len(listed), tolerance, None)

    def merge(self, other: CBundle) -> int:
        return self.c.advisor_bundle_merge(ctypes.c_void_p(self.at), ctypes.c_void_p(other.at))

    def close(self) -> None:
        self.c.advisor_bundle_free(ctypes.c_void_p(self.at))


class CurvePoint(NamedTuple):
    """Seconds of one run, the interval that holds the bundle's level of all runs, and the octaves outside what was seen."""

    elapsed_s: float
    low_s: float
    high_s: float
    extrapolates: float


INVALID, ASK_SERVICE = -5, -4  # what C answers in place of a count


@cache
def library() -> Library:
    return Library(compiled(Path(tempfile.mkdtemp()) / "advisor.so", "-shared", "-fPIC"))


class Curves:
    """A bundle by the names of its components, answered by C."""

    def __init__(self, data: bytes) -> None:
        self.in_c = library().read(data)
        assert not self.in_c.error
        _, _, count, self.version, _, self.level, names_at = HEADER.unpack_from(data)
        places = [PLACE.unpack_from(data, HEADER.size + PLACE.size * i) for i in range(count)]
        names = [data[names_at + at : names_at + at + length].decode() for at, length, _ in places]
        ends = [*(at for _, _, at in places), len(data)][1:]
        self.records = [
            BundleRecord(name, np.frombuffer(data[at:end], "<f8"))
            for name, (_, _, at), end in zip(names, places, ends, strict=True)
        ]
        self.names = tuple(names)
        self._words = {record.name: record.words for record in self.records}

    def head(self, name: str, field: str) -> float:
        return float(self._words[name][AT[field]])

    def answers(self, name: str) -> bool:
        return self.head(name, "kind") != 0.0

    def allowed(self, name: str) -> AllowedCores:
        words = self._words[name]
        least, most, step, listed = (int(word) for word in words[ALLOWED_LEAST : ALLOWED_LEAST + 4])
        end = len(words) - 2 * int(words[AT["seen"]])
        return AllowedCores(least, most, step, listed=tuple(int(word) for word in words[end - listed : end]))

    def predict(self, name: str, x: float, p: float) -> CurvePoint:
        return CurvePoint(*self.in_c.predict(self.in_c.find(name), x, p))

    def choose_cores(self, name: str, x: float, tolerance: float = 0.05, **counts: Any) -> int:
        """Return the count for `cores_max` or a list `allowed`; INVALID, ASK_SERVICE where there is none."""
        at = self.in_c.find(name)
        if "allowed" in counts:
            return self.in_c.choose_allowed(at, x, counts["allowed"], tolerance)
        return self.in_c.choose_cores(at, x, counts["cores_max"], tolerance)
