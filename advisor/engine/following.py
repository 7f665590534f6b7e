"""Curves of components: records of bundles kept until their component changes, and what changed since a version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from advisor.domain.bundle import BundleRecord
from advisor.domain.vectors import Ints
from advisor.engine.asking import Asking
from advisor.engine.bundles import record_of
from advisor.engine.components import Components
from advisor.engine.kept import Kept
from advisor.engine.versions import Versions
from advisor.models.bundle import CurveAnswers, carried
from advisor.models.layout import AT

RECORDS_KEPT = 4_096  # records kept for reuse, about 8 KB each
GROWN = 8  # a live curve is made again when its rows grew by one part in so many
CURVES = "curves"  # their name among versions
ROWS, CHANGES = AT["rows"].start, AT["changes"].start


class Bundles:
    """The records of one engine's components."""

    def __init__(self, components: Components, asking: Asking) -> None:
        # below 2**31; tells versions of one run of a service from those of another, whose state may have been older
        self.origin = 0
        self.touches = 0  # times that something changed otherwise than by rows
        self._components = components
        self._asking = asking
        self._records = Kept[tuple[int, BundleRecord]](RECORDS_KEPT)  # with their rows
        self._versions = Versions()
        self._rows: Ints = np.zeros(0, np.int64)  # of each slot, when last looked at

    def touch(self, slot: int | None) -> None:
        """A component, or None for all, changed otherwise than by new rows."""
        self._grow()
        self.touches += 1
        self._rows[slice(None) if slot is None else slot] = -1
        self._records.drop(None if slot is None else lambda key: key[0] == slot)

    @property
    def version(self) -> int:
        """The version of all curves as they are now. Cost O(components)."""
        self._sweep()
        return self._versions.public_version(self.origin)

    def _sweep(self) -> None:
        self._grow()
        rows = self._components.table.count("rows")[: len(self._rows)]
        changed = rows != self._rows
        self._rows[:] = rows
        self._versions.sweep({CURVES: changed}, {})

    def _grow(self) -> None:
        more = len(self._components) - len(self._rows)
        if more > 0:
            self._rows = np.concatenate([self._rows, np.full(more, -1, np.int64)])

    def changed(self, since: int | None) -> list[int]:
        """Return the slots of components that changed after a version, all where it is none of ours. Cost O(components)."""
        self._sweep()
        changed = self._versions.changed(CURVES, self._versions.after(self.origin, since), len(self._rows))
        slots = self.slots(None)
        return slots[changed[slots]].tolist()

    def record(self, slot: int, level: float, cores_max: int) -> BundleRecord:
        """Return the record of a component; made again only when rows came since. Cost: milliseconds, then O(1)."""
        rows = int(self._components.table.count("rows")[slot])
        key = (slot, level, cores_max)
        kept = self._records.get(key)
        if kept is not None and kept[0] == rows:
            return kept[1]
        name, dimensions = self._components.slots.owner(slot), self._components.dimensions(slot)
        record = record_of(self._asking, slot, name, rows, dimensions, level, cores_max)
        return self._records.put(key, (rows, record))[1]

    def slots(self, names: Sequence[str] | None) -> Ints:
        """Return the slots of the known ones of some names, or of all components."""
        known = self._components.slots.components
        return np.array([known[name] for name in (known if names is None else names) if name in known], np.int64)


class _Live(NamedTuple):
    """A component's words, and until when they hold: as long as it has fewer rows, and nothing else has changed."""

    slot: int
    rows_below: int
    changes: int
    touches: int
    words: list[float]


class LiveCurves(CurveAnswers):
    """Curves of an advisor in this process, kept from one question to the next.

    A component's curve is made again (milliseconds) when its rows grew by an eighth since, and when its speed changed, or it
    was pinned, forgotten or merged; between, a choice takes some microseconds.

    `names`: whose curves are made at once; the others' with their first question. `level`: of the intervals. `cores_max`:
    last count of the tables; beyond, curves go on as they end.
    """

    def __init__(
        self, bundles: Bundles, components: Components, names: Sequence[str], level: float, cores_max: int
    ) -> None:
        self._bundles, self._components = bundles, components
        self._level, self._cores_max = level, cores_max
        self._live: dict[str, _Live] = {}
        for name in names:
            self._made(name)

    def _answering(self, component: str) -> tuple[Sequence[float], int]:
        live = self._live.get(component)
        if live is not None:
            whole = self._components.table.records_whole[live.slot]
            known = whole[ROWS] < live.rows_below and whole[CHANGES] == live.changes
            live = live if known and live.touches == self._bundles.touches else None
        words = self._made(component).words if live is None else live.words
        return carried(words, 0, component), 0

    def _made(self, component: str) -> _Live:
        slot = self._components.slots.of(component)
        whole, touches = self._components.table.records_whole[slot], self._bundles.touches
        rows, changes = int(whole[ROWS]), int(whole[CHANGES])
        words = self._bundles.record(slot, self._level, self._cores_max).words.tolist()
        if len(self._live) >= RECORDS_KEPT:
            self._live.clear()
        found = self._live[component] = _Live(slot, rows + max(rows // GROWN, 1), changes, touches, words)
        return found
