"""Which version of the state each thing changed in last: what changed since a version is read off, for any number of readers.

Tables flag what changes; before anybody reads, `sweep` turns flags into versions. So a fold pays for one flag, and a reader
takes nothing from another.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from advisor.domain.vectors import Bools, Ints

ORIGIN_BITS = 32  # of a version that is reported: where its count began; below them the count
COUNT_MASK = (1 << ORIGIN_BITS) - 1
# KEYS_KEPT: of a kind, those that are no more among them; beyond, a reader that is far behind reads the whole state
KEYS_KEPT = 65_536


class Versions:
    """The version of each slot of each table, and of each keyed thing, with those that are no more."""

    def __init__(self) -> None:
        self.now: int = 0  # the version of the state as it was swept last
        # what went before this version is not known any more: a reader that stands below it must read the whole state
        self.floor: int = 0
        self._slots: dict[str, Ints] = {}
        self._keyed: dict[str, dict[Hashable, int]] = {}

    def sweep(self, flags: Mapping[str, Bools], keyed: Mapping[str, Iterable[Hashable]]) -> int:
        """Give what is flagged, by table, and the keys that changed, by kind, the next version; return it. Cost O(slots)."""
        later = self.now + 1
        for table, changed in flags.items():
            versions = self._of(table, len(changed))
            if changed.any():
                versions[: len(changed)][changed] = self.now = later
                changed[:] = False
        for kind, keys in keyed.items():
            found = dict.fromkeys(keys, later)
            if found:
                known = self._keyed[kind] = {
                    k: v for k, v in self._keyed.get(kind, {}).items() if k not in found
                } | found
                self.now = later
                while len(known) > KEYS_KEPT:
                    self.floor = max(self.floor, known.pop(next(iter(known))))
        return self.now

    def public_version(self, origin: int) -> int:
        """Return the version as readers have it; `origin` tells those of this run from another's, whose state may be older."""
        return origin << ORIGIN_BITS | self.now

    def after(self, origin: int, reported: int | None) -> int:
        """Return the version that a reader has; -1, before all of them, where it is none of ours, or too long ago."""
        ours = reported is not None and reported >> ORIGIN_BITS == origin and reported <= self.public_version(origin)
        return reported & COUNT_MASK if reported is not None and ours and reported & COUNT_MASK >= self.floor else -1

    def changed(self, table: str, since: int, size: int) -> Bools:
        """Return which of the first slots (size,) of a table changed after a version."""
        return self._of(table, size)[:size] > since

    def keys(self, kind: str, since: int) -> list[Hashable]:
        """Return the keys of a kind that changed, or went, after a version."""
        return [key for key, version in self._keyed.get(kind, {}).items() if version > since]

    def _of(self, table: str, size: int) -> Ints:
        known = self._slots.get(table, np.zeros(0, np.int64))
        if size > len(known):
            known = self._slots[table] = np.concatenate([known, np.zeros(size - len(known), np.int64)])
        return known
