"""What of a state is to be committed: an entry of the log, or an image."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from advisor.engine.journal import Entry, Journal, Limits
from advisor.engine.state import State
from advisor.engine.state_bytes import Block
from advisor.engine.versions import Versions


class Commits:
    """What was taken of a state, to be written by whoever drives its engine, and what comes next.

    `settle`: called before anything is taken: folds rows that were put aside, raises what an earlier fold of them has raised.
    """

    def __init__(self, state: State, versions: Versions, settle: Callable[[], None]) -> None:
        self.journal = Journal()
        self._state, self._versions, self._settle = state, versions, settle

    def keep_journal(self) -> None:
        """From now on note what is applied, for `take_entry`: somebody keeps it. What was before needs an image."""
        self.journal.kept = True
        self.journal.restart()

    def take_entry(self) -> Entry | None:
        """Return what was applied since the last entry or image, and count it as taken; None where that takes an image.

        Cost O(1), and O(record) for a profile that changed: the rows are not copied. Not while a batch is under way. An entry
        whose commit failed is given to `journal.put_back`, and the next one holds what it held.
        """
        self._settle()
        if self.journal.beyond or not self.journal.kept:
            return None
        components = self._state.advisor.components
        limits = Limits(components.slots.components_max, components.learners.memory_bytes)
        return self.journal.pop_changes(limits, self._state.profiles.take_patches())

    def image(self) -> list[Block]:
        """Return all of the state, and count it as taken. Cost O(state)."""
        self._settle()
        blocks = list(self._state.blocks())
        self.blocks()
        return blocks

    def blocks(self) -> Iterator[Block]:
        """Count all of the state as taken; return what yields it, as it then is: for a copy of this process's memory."""
        self._state.sweep(self._versions)
        self._state.profiles.take_patches()
        self.journal.restart()
        return self._state.blocks()

    def image_lost(self) -> None:
        """Count an image as not taken: it could not be written, and the next commit must be one."""
        self.journal.beyond = True

    def limit(self, to: Limits) -> None:
        """Allow so many components, or as many as there are, and so much memory."""
        components = self._state.advisor.components
        components.slots.components_max = max(to.components_max, len(components))
        components.learners.memory_bytes = to.model_memory_bytes
