"""What changed in a record of any length, for the log: a changed number costs 512 bytes and not the whole record."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

STEP: Final = 512  # bytes that are written together
GONE: Final = -1


class Patch(NamedTuple):
    """How the record of a key became another one."""

    key: tuple[str, bytes]
    size: int  # bytes of the record, GONE where there is none any more
    steps: Any  # int64 array: the numbers of those `STEP` bytes that changed
    data: bytes  # their contents

    @classmethod
    def between(cls, key: Any, before: bytes, after: bytes | None) -> Patch:
        """Return how `before` became `after`; None: nothing. Cost O(bytes)."""
        if after is None:
            return cls(key, GONE, np.zeros(0, np.int64), b"")
        old, new = _in_steps(before), _in_steps(after)
        common = min(len(old), len(new))
        changed = np.ones(len(new), np.bool_)
        changed[:common] = (old[:common] != new[:common]).any(axis=1)
        return cls(key, len(after), np.flatnonzero(changed), new[changed].tobytes())

    def applied(self, before: bytes) -> bytes | None:
        """Return what `before` became; raises ValueError, IndexError where it cannot."""
        if self.size == GONE:
            return None
        new = np.zeros((-(-self.size // STEP), STEP), np.uint8)
        old = _in_steps(before)[: len(new)]
        new[: len(old)] = old
        new[self.steps] = np.frombuffer(self.data, np.uint8).reshape(-1, STEP)
        return new.tobytes()[: self.size]


def _in_steps(data: bytes) -> Any:
    return np.frombuffer(data + bytes(-len(data) % STEP), np.uint8).reshape(-1, STEP)
