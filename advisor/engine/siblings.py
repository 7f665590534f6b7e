"""What first rows borrow from siblings: components whose names begin alike, up to a separator, and learn the same thing.

Nothing of it is state. A component's part is a function of its own record, its group's mean one of the parts of the members:
so merges, copies, removals and renames need no law of their own. A component leans on its siblings up to its fifth row.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import chain
from math import ceil, isnan, nan, sqrt
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

from advisor.domain import elementary
from advisor.domain.curves import DOUBLINGS_MAX, PROMISED, Growth
from advisor.domain.vectors import Floats, Ints
from advisor.engine.learners import ANY_MACHINE, Learners
from advisor.engine.rows import SEPARATOR
from advisor.engine.slots import Slots
from advisor.models.covariance import MIDDLES
from advisor.models.fold import KERNELS
from advisor.models.layout import AT
from advisor.models.learner_layout import LearnerTable
from advisor.models.logarithm import log2_of
from advisor.models.siblings import YIELDED, Leaning, slopes_of
from advisor.models.student import quantile
from advisor.models.table import Table

MEMBERS_MAX: Final = 64  # of a group that are asked: a mean is well known from so many
LEVELS_MAX: Final = 8  # prefixes of a name that are groups, the longest ones
SEPARATORS: Final = re.compile(r"[/:.|]")
MEMBERS_LEAST: Final = 20  # of a promise: fewer have no quantile near its level
SHARE_LEAST: Final = 0.5  # of a group: if few ran on more cores, it is those that gain from them
COUNTS: Final = np.ldexp(1.0, np.arange(21))  # of cores at which members' times are compared: up to CORES_MAX
ROWS, MOST = AT["rows"].start, AT["p_high"].start
NUMBER_BITS: Final = 32  # of a slot, below the hash by which members are ordered


class Borrowed(NamedTuple):
    """What a table takes from siblings: equal ones give equal tables."""

    leaning: Leaning | None
    growth: Growth


UNKNOWN: Final[Growth] = (nan,) * DOUBLINGS_MAX
NOTHING: Final = Borrowed(None, UNKNOWN)


class _Part(NamedTuple):
    """What a component tells its siblings, and how many rows it had then."""

    rows: int
    slopes: Floats  # float64 array (axes + 2,): see `slopes_of`
    known: Floats
    times: Floats  # float64 array (m,): ln t by `COUNTS` of cores, in the middle of its predictors


def bound_of(values: Floats) -> float:
    """Return what the next of such values exceeds with a probability of 1 - `PROMISED`: their quantile.

    Fewer than 39 have none so high: then the greatest, or, if greater, the bound of a normal distribution of their mean and
    variance (Student's).
    """
    n = len(values)
    place = ceil(PROMISED * (n + 1)) - 1
    if place < n:
        return float(np.sort(values)[place])
    mean = elementary.weighted(np.full(n, 1.0 / n), values)
    variance = elementary.weighted(np.full(n, 1.0 / (n - 1)), np.square(values - mean))
    student = mean + quantile(2.0 * PROMISED - 1.0, n - 1.0) * sqrt(variance * (1.0 + 1.0 / n))
    return max(float(values.max()), student)


def _at(times: Floats, doublings: float) -> Floats:
    """Return the times (n,) at 2**doublings cores, of times (n, m) by `COUNTS`: between these linear in logarithms."""
    place = min(int(doublings), len(COUNTS) - 2)
    share = doublings - place
    return times[:, place] * (1.0 - share) + times[:, place + 1] * share


def groups_of(name: str) -> list[str]:
    """Return the groups of a slot's name, the widest first: its prefixes that end at a separator, with what it learns."""
    own, mark, kind = name.partition(SEPARATOR)
    ends = [found.end() for found in SEPARATORS.finditer(own)]
    return [own[:end] + mark + kind for end in (0, *ends[-LEVELS_MAX:])]


class Siblings:
    """The groups of an engine's components."""

    def __init__(self, slots: Slots, learners: Learners, base: Table) -> None:
        self._slots, self._learners, self._base = slots, learners, base
        self._names: list[str] = []  # by slot, as the groups below have them
        self._groups: dict[str, list[int]] = {}  # members by group: hash of the name, then slot, ascending
        self._parts: dict[int, _Part] = {}  # by slot
        # By slot, and by group, axes and most cores seen, as of a state: rows accepted, and how often all was forgotten
        self._leanings: dict[int, Leaning | None] = {}
        self._growths: dict[tuple[str, int, float], Growth] = {}
        self._state = -1, -1

    def leaning(self, slot: int) -> Leaning | None:
        """Return what the first rows of a component lean on; None where no sibling is known, or it stands alone by now.

        Each group's mean begins at that of the group around it, which counts as one member; the widest begins at what is
        believed of every component. Cost O(members).
        """
        record = self._learners.find_record(slot)
        if record is None or not 0 < int(record[0].int_field("seen")[record[1]]) < YIELDED:
            return None
        self._bring_up_to_date()
        if slot not in self._leanings:
            self._leanings[slot] = self._mean_of_groups(slot, record[0])
        return self._leanings[slot]

    def _mean_of_groups(self, slot: int, table: LearnerTable) -> Leaning | None:
        mean, note = np.zeros(table.axes + 2), ""
        for group in groups_of(self._slots.names[slot]):
            members = self._members(group, table.axes)
            if not members:
                break
            total, known = mean.copy(), np.ones(table.axes + 2)
            for part in map(self._part, members):
                total, known = total + part.slopes, known + part.known
            mean = total / known
            prefix = group.partition(SEPARATOR)[0]
            note = f"how time depends on predictor and cores: as of {len(members)} other component"
            note += f"{'' if len(members) == 1 else 's'}{prefix and f' named {prefix}…'}"
        return Leaning(tuple(mean.tolist()), note) if note else None

    def groups_asked(self, name: str, cores: float) -> list[tuple[str, int]]:
        """Return the groups, each with a number of axes, that answers about a component on so many cores may rest on."""
        found = list[tuple[str, int]]()
        for slot in self._slots.group(name):
            record = self._learners.find_record(slot)
            if record is not None and self.may_borrow(slot, cores):
                found += [(group, record[0].axes) for group in groups_of(self._slots.names[slot])]
        return found

    def lenders(self, name: str, cores: float) -> list[str]:
        """Return the components that answers about one on so many cores may rest on, too."""
        return [*chain.from_iterable(self.members(self.groups_asked(name, cores)))]

    def members(self, groups: Iterable[tuple[str, int]]) -> list[list[str]]:
        """Return the components of each group that lend, as far as they are here, in the order in which they are asked."""
        self._bring_up_to_date()
        return [[self._slots.owner(slot) for slot in self._members(*each)] for each in groups]

    def _members(self, group: str, axes: int) -> list[int]:
        """Return the slots of the members that stand alone, over as many axes: the first by hash of their names."""
        numbers = self._groups.get(group, [])
        slots: Ints = np.array(numbers, np.int64) & ((1 << NUMBER_BITS) - 1)
        whole = self._base.int_field("rows")[slots] >= YIELDED
        found = list[int]()
        for slot in slots[whole].tolist():
            record = self._learners.find_record(slot)
            if record is not None and record[0].axes == axes and record[0].int_field("seen")[record[1]] >= YIELDED:
                found.append(slot)
                if len(found) == MEMBERS_MAX:
                    break
        return found

    def may_borrow(self, slot: int, cores: float) -> bool:
        """Return whether a component's times on so many cores may rest on its siblings."""
        if self._base.records_whole[slot, ROWS] < YIELDED:
            return True
        return len(self._slots.names) > MEMBERS_LEAST and bool(self._base.records[slot, MOST] < cores)

    def borrowed(self, slot: int, cores: float) -> Borrowed:
        """Return what a component's times on up to so many cores take from its siblings."""
        if not self.may_borrow(slot, cores):
            return NOTHING
        return Borrowed(self.leaning(slot), self.growth(slot) if self._base["p_high"][slot] < cores else UNKNOWN)

    def growth(self, slot: int) -> Growth:
        """Return what a promise allows for beyond the most cores seen m: ln T(2 m) / T(m), ln T(4 m) / T(m), ..

        It is exceeded by a sibling with a probability of 1 - `PROMISED`, of those that ran on both counts: of the narrowest
        group in which `MEMBERS_LEAST` did, and `SHARE_LEAST`. NaN where there is none. Cost O(members).
        """
        record = self._learners.find_record(slot)
        found = UNKNOWN
        if record is not None and len(self._slots.names) > MEMBERS_LEAST:
            self._bring_up_to_date()
            most = float(self._base["p_high"][slot])
            for group in groups_of(self._slots.names[slot]):
                key = group, record[0].axes, most
                if key not in self._growths:
                    self._growths[key] = self._growth_of_group(*key)
                found = tuple(wide if isnan(own) else own for wide, own in zip(found, self._growths[key], strict=True))
        return found

    def _growth_of_group(self, group: str, axes: int, most: float) -> Growth:
        found, base = list(UNKNOWN), self._base
        if len(self._groups[group]) <= MEMBERS_LEAST:
            return UNKNOWN
        members = np.array(self._members(group, axes), np.int64)
        members = members[base["p_low"][members] <= most]
        for doubling in range(1, DOUBLINGS_MAX + 1):
            on_both = members[base["p_high"][members] >= most * 2.0**doubling].tolist()
            if len(on_both) < max(MEMBERS_LEAST, SHARE_LEAST * len(members)):
                break
            times = np.array([self._part(one).times for one in on_both])
            found[doubling - 1] = bound_of(_at(times, log2_of(most) + doubling) - _at(times, log2_of(most)))
        return tuple(found)

    def _part(self, slot: int) -> _Part:
        rows = int(self._base.int_field("rows")[slot])
        part = self._parts.get(slot)
        if part is None or part.rows != rows:
            record: Any = self._learners.find_record(slot)
            table, place = record
            room, axes = self._learners.room(table.axes), table.axes
            KERNELS.refresh_one(table.words, place, axes, room.solution, room.scratch)
            slopes, known = slopes_of(room.solution[0], axes)
            middle = elementary.exp(room.solution[0][MIDDLES : MIDDLES + axes - 1])
            out = np.empty((len(COUNTS), 2))
            KERNELS.predict_points(
                table.words, place, axes, np.repeat(middle[None, :], len(COUNTS), axis=0), COUNTS, ANY_MACHINE, False,
                room.solution, room.scratch, room.point, out,
            )  # fmt: skip
            part = self._parts[slot] = _Part(rows, slopes, known, out[:, 0].copy())
        return part

    def _bring_up_to_date(self) -> None:
        """Forget what was found before the latest changes, and index the names of new slots. Cost O(changed names)."""
        slots, learners = self._slots, self._learners
        state = learners.totals["rows_accepted"], learners.forgotten
        if state != self._state:
            if state[1] != self._state[1]:
                self._parts.clear()
            self._leanings.clear()
            self._growths.clear()
            self._state = state
        known = len(self._names)
        changed = [slot for slot in slots.renamed if slot < known]
        slots.renamed.clear()
        for slot in changed:
            for group in groups_of(self._names[slot]):
                numbers = self._groups[group]
                del numbers[bisect_left(numbers, _number(self._names[slot], slot))]
                if not numbers:
                    del self._groups[group]
        self._names += slots.names[known:]
        for slot in changed:
            self._names[slot] = slots.names[slot]
        for slot in (*changed, *range(known, len(self._names))):
            for group in groups_of(self._names[slot]):
                insort(self._groups.setdefault(group, []), _number(self._names[slot], slot))


def first_members(names: Iterable[str]) -> list[str]:
    """Return the components that a group asks, of those that lend at one place or another."""
    return sorted(dict.fromkeys(names), key=_hash_of)[:MEMBERS_MAX]


def _hash_of(name: str) -> int:
    return crc32(name.partition(SEPARATOR)[0].encode()) >> 1  # with the slot below it within 63 bits


def _number(name: str, slot: int) -> int:
    return _hash_of(name) << NUMBER_BITS | slot
