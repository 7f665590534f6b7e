"""The components that an engine knows: names, slots and the table of what they have learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.domain.answers import Receipt, Refusals
from advisor.domain.names import checked_name
from advisor.domain.observations import (
    UNRESOLVED,
    Bools,
    Columns,
    Ints,
    bad_rows,
    refusals_of,
)
from advisor.errors import InvalidValue, Mismatch, TooLarge, UnknownComponent
from advisor.models import combine, counts
from advisor.models.fold import fold
from advisor.models.table import Table


class Components:
    """Names to slots, and the base table. Slots are given once, in the order of first accepted rows.

    Attributes
    ----------
    totals : Counter
        Exact counts over all components: ``rows_accepted``, ``rows_refused``, ``refused.CODE``, ``rows_failed``,
        ``rows_unfinished``, ``carried.FIELD``, ``forgets``; and what the engine counts of its producers: ``batches_replayed``,
        ``gaps``, ``producers_resumed``. They never go back.
    """

    def __init__(self, timer_noise_s: float, components_max: int) -> None:
        self.timer_noise_s = timer_noise_s
        self.components_max = components_max
        self.names: list[str] = []
        self.slot_of: dict[str, int] = {}
        self.table = Table()
        self.totals: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.names)

    def slot(self, component: str) -> int:
        """Return the slot of a known component.

        Raises
        ------
        UnknownComponent, InvalidValue
        """
        found = self.slot_of.get(component) if isinstance(component, str) else None
        if found is None:
            found = self.slot_of.get(checked_name("component", component))
        if found is None:
            raise UnknownComponent(component)
        return found

    def fold(self, columns: Columns) -> Receipt:
        """Learn the good rows of a batch, count the others. Cost O(rows); constant space a component."""
        bad = bad_rows(columns)
        if bad:
            good = ~np.logical_or.reduce(list(bad.values()))
            slots, full = self._resolve(columns, good)
        else:
            good = None
            slots, full = self._resolve(columns, None)
        if full is not None:
            bad["too_many_components"] = full
            good = ~full if good is None else good & ~full
        refused = refusals_of(bad, columns) if bad else Refusals()
        accepted = len(columns) - refused.count
        self._learn(columns, slots, good)
        self.totals["rows_accepted"] += accepted
        if refused.count:
            self.totals["rows_refused"] += refused.count
            self.totals.update({f"refused.{code}": n for code, n in refused.by_code.items()})
        if columns.carried:
            self.totals.update({f"carried.{name}": n for name, n in columns.carried.items()})
        return Receipt(accepted, refused)

    def _learn(self, columns: Columns, slots: Ints, good: Bools | None) -> None:
        learned = good
        for field, counted, mark in (("failed", columns.ok, False), ("unfinished", columns.running, True)):
            if counted is None:
                continue
            rows = counted == mark if learned is None else (counted == mark) & learned
            if rows.any():
                np.add.at(self.table.integers(field), slots[rows], 1)
                self.table.changed[slots[rows]] = True
                self.totals[f"rows_{field}"] += int(np.count_nonzero(rows))
                learned = ~rows if learned is None else learned & ~rows
        vectors = (slots, columns.predictor, columns.cores, columns.elapsed_s, columns.count)
        if learned is not None:
            vectors = tuple(None if v is None else v[learned] for v in vectors)
        if len(vectors[0]):  # type: ignore[arg-type]
            fold(self.table, *vectors, self.timer_noise_s)  # type: ignore[arg-type]

    def _resolve(self, columns: Columns, good: Bools | None) -> tuple[Ints, Bools | None]:
        """Return the slot of each row, and the mask of rows whose component finds no room (None when all do)."""
        known = columns.components
        cache = known.slots_of(self)
        slots = cache[columns.index]
        missing = slots == UNRESOLVED
        if good is not None:
            missing &= good
        if not missing.any():
            return slots, None
        # In the order of first rows, so that a cut batch gives the same slots.
        numbers, first = np.unique(columns.index[missing], return_index=True)
        ordered: list[int] = numbers[np.argsort(first)].tolist()
        for number in ordered:
            cache[number] = self._give_slot(known.names[number])
        self.table.grow(len(self.names), self.components_max)
        slots = cache[columns.index]
        full = slots == UNRESOLVED
        if good is not None:
            full &= good
        return slots, full if full.any() else None

    def _give_slot(self, name: str) -> int:
        found = self.slot_of.get(name)
        if found is None:
            found = len(self.names)
            if found >= self.components_max:
                return UNRESOLVED
            self.slot_of[name] = found
            self.names.append(name)
        return found

    def add_names(self, names: Sequence[str]) -> Ints:
        """Return the slots of names, giving new ones where needed.

        Raises
        ------
        TooLarge
            When there is no room for all of them; nothing is changed then.
        """
        new = {name for name in names if name not in self.slot_of}
        if len(self.names) + len(new) > self.components_max:
            raise TooLarge(
                "components", len(self.names) + len(new), self.components_max, "raise components_max, or merge fewer"
            )
        slots = np.array([self._give_slot(name) for name in names], np.int64)
        self.table.grow(len(self.names), self.components_max)
        return slots

    def forget(self, component: str, keep: float) -> int:
        """Forget all but the share `keep` of what a component learned; return its slot.

        Raises
        ------
        UnknownComponent, InvalidValue
        """
        if isinstance(keep, bool) or not isinstance(keep, (int, float)) or not 0.0 <= keep < 1.0:
            raise InvalidValue("keep", keep, "a share from 0 (forget all) to below 1")
        slot = self.slot(component)
        combine.forget(self.table, slot, float(keep))
        self.totals["forgets"] += 1
        return slot

    def merge(self, other: Components) -> None:
        """Add another's learned state to this one's.

        Raises
        ------
        Mismatch
            When the timer noise differs: the weights of the sums would not be comparable.
        TooLarge
            When the components do not fit together.
        """
        if other.timer_noise_s != self.timer_noise_s:
            raise Mismatch(
                f"timer noise is {other.timer_noise_s:g} s there and {self.timer_noise_s:g} s here",
                field="timer_noise_s", value=other.timer_noise_s, bound=self.timer_noise_s,
                hint="learn again with one timer noise",
            )  # fmt: skip
        slots = self.add_names(other.names)
        if len(slots):
            combine.merge(self.table, slots, other.table.gather(np.arange(len(other.names))), self.timer_noise_s)
        self.totals.update(other.totals)

    def restore(self, names: Mapping[int, str], totals: Mapping[str, int]) -> None:
        """Set names and totals of an empty instance from a stored state whose slots are 0 .. n - 1 without gaps.

        Raises
        ------
        InvalidValue
            When slots are missing or doubled.
        """
        if sorted(names) != list(range(len(names))) or len(set(names.values())) != len(names):
            raise InvalidValue("names", len(names), "slots from 0 without gaps, each with a name of its own")
        self.components_max = max(self.components_max, len(names))
        self.names = [names[slot] for slot in range(len(names))]
        self.slot_of = {name: slot for slot, name in enumerate(self.names)}
        self.table.grow(len(self.names), self.components_max)
        self.totals = Counter(dict(totals))

    def error(self) -> tuple[float, int]:
        """Return the mean of |t - m| / t over all scored rows and their number, m being the weighting model's prediction."""
        rows = int(counts.scored(self.table).sum())
        return (float(self.table["error"].sum()) / rows if rows else float("nan"), rows)

    def worst(self, k: int) -> list[tuple[str, float, int]]:
        """Return the k components with the largest mean error among the scored: (name, error, rows). Cost O(components)."""
        scored = counts.scored(self.table, slice(len(self.names)))
        mean = np.where(scored > 0, self.table["error"][: len(self.names)] / np.maximum(scored, 1), -1.0)
        count = min(k, int(np.count_nonzero(scored)))
        if count <= 0:
            return []
        top: NDArray[np.int64] = np.argpartition(-mean, count - 1)[:count]
        ordered = top[np.argsort(-mean[top], kind="stable")]
        return [(self.names[slot], float(mean[slot]), int(scored[slot])) for slot in ordered.tolist()]
