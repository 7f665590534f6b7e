"""The boxes of the demos: Python and numpy, each runnable on p cores.

A box takes a record's fields and the cores that it may use, and returns the fields that it adds. What is parallel in it
is cut into p parts that run on p threads: numpy lets go of the interpreter lock within each.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Record = dict[str, Any]
Part = Callable[[], None]

SIDE = 256  # of a picture: a box takes milliseconds, and a pipe to a worker a tenth of one
CLEAN = 1.0  # noise that is left in a picture: below, it is done
NOISES = (0.5, 2.0, 4.0)
SWEEPS, SPINS = (
    30,
    4000,
)  # repetitions in one run: tens of milliseconds, so that the way through the runtime does not count

_pool = ThreadPoolExecutor(64, thread_name_prefix="box")  # starts a thread when it needs one


def _together(parts: Sequence[Part]) -> None:
    others = [_pool.submit(part) for part in parts[1:]]
    parts[0]()
    for other in others:
        other.result()


def _rows(height: int, parts: int) -> list[slice]:
    edges = np.linspace(0, height, parts + 1).astype(int)
    return [slice(low, high) for low, high in pairwise(edges.tolist()) if high > low]


def _smoothed(picture: Floats, cores: int, times: int) -> Floats:
    for _ in range(times):
        padded, out = np.pad(picture, 1, mode="edge"), np.empty_like(picture)

        def part(rows: slice, padded: Floats = padded, out: Floats = out) -> Part:
            wide = slice(rows.start, rows.stop + 2)
            return lambda: _stencil(padded[wide], out[rows])

        _together([part(rows) for rows in _rows(len(picture), cores)])
        picture = out
    return picture


def _stencil(padded: Floats, out: Floats) -> None:
    np.multiply(padded[1:-1, 1:-1], np.float32(0.5), out=out)
    for rows, columns in ((slice(2, None), slice(1, -1)), (slice(None, -2), slice(1, -1)),
                          (slice(1, -1), slice(2, None)), (slice(1, -1), slice(None, -2))):  # fmt: skip
        out += padded[rows, columns] * np.float32(0.125)


def decode(fields: Record, cores: int) -> Record:
    """Make a picture of a seed; it is noisy or not. In part parallel."""
    rng = np.random.default_rng(fields["raw"])
    noise = float(rng.choice(fields.get("levels", NOISES)))
    side = int(fields.get("side", SIDE))
    picture = _smoothed(rng.normal(0, noise, (side, side)).astype(np.float32), cores, 12)
    return {"noisy": picture, "noise": noise} if noise > CLEAN else {"plain": picture}


def sharpen(fields: Record, cores: int) -> Record:
    """Bring edges out. Parallel."""
    plain = fields["plain"]
    return {"picture": 2 * plain - _smoothed(plain, cores, 24)}


def denoise(fields: Record, cores: int) -> Record:
    """Halve the noise; a picture leaves when it is clean. Parallel."""
    picture, noise = _smoothed(fields["noisy"], cores, 48 * fields.get("effort", 1)), fields["noise"] / 2
    return {"picture": picture} if noise <= CLEAN else {"noisy": picture, "noise": noise}


def pack(fields: Record, _cores: int) -> Record:
    """Compress. Not parallel."""
    cells = np.clip(fields["picture"] * 16 + 128, 0, 255).astype(np.uint8)
    return {"done": len(zlib.compress(cells.tobytes(), 6))}


def sweep(fields: Record, cores: int) -> Record:
    """Compute a = b + 3 c on arrays that the shared cache may hold, or not: bound by memory. Parallel."""
    a, b, c = _arrays_of(fields["raw"])

    def part(rows: slice) -> Part:
        def run() -> None:
            np.multiply(c[rows], np.float32(3), out=a[rows])
            np.add(a[rows], b[rows], out=a[rows])

        return run

    for _ in range(SWEEPS):
        _together([part(rows) for rows in _rows(len(a), cores)])
    return {"raw": fields["raw"], "streamed": float(a[0])}


def spin(fields: Record, cores: int) -> Record:
    """Compute within the first-level cache: bound by the cores alone. Parallel."""
    values = np.linspace(0.1, 1.0, 2048, dtype=np.float32)

    def part(times: int) -> Part:
        def run() -> None:
            mine = values.copy()
            for _ in range(times):
                np.sqrt(mine, out=mine)
                np.multiply(mine, np.float32(0.999), out=mine)

        return run

    each, rest = divmod(SPINS, cores)
    _together([part(each + (row < rest)) for row in range(cores)])
    return {"raw": fields["raw"], "spun": 1.0}


_arrays: dict[float, list[Floats]] = {}


def _arrays_of(megabytes: float) -> list[Floats]:
    """Return three arrays of so many megabytes each, this process's own."""
    if megabytes not in _arrays:
        _arrays[megabytes] = [np.ones(int(megabytes * 2**20 / 4), np.float32) for _ in range(3)]
    return _arrays[megabytes]


BOXES: dict[str, Callable[[Record, int], Record]] = {
    "decode": decode, "sharpen": sharpen, "denoise": denoise, "pack": pack,
    "sweep": sweep, "fold": sweep, "spin": spin, "whirl": spin,
}  # fmt: skip
