"""The solved models of the base tier: solved when they are asked for, and kept until rows come."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.engine.components import Components
from advisor.engine.kept import Kept
from advisor.errors import NotEnoughData, not_one_of
from advisor.models import counts
from advisor.models.forms import NAMES
from advisor.models.prediction import Model, model_of

MODELS_KEPT = 4_096  # about 3 KB each


class SolvedModels:
    """The models of one engine's components, by slot and form (None: the form that the evidence supports)."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._models = Kept[Model](MODELS_KEPT)

    def drop(self) -> None:
        """Forget all models: their components changed otherwise than by new rows."""
        self._models.drop()

    def at(self, slot: int, form: str | None = None) -> Model:
        """Return the model of a slot that has learned something; solved again only when rows came since.

        Raises InvalidValue when the form is none.
        """
        if form is not None and form not in NAMES:
            raise not_one_of("model", form, NAMES)
        table = self._components.table
        rows = int(table.integers("rows")[slot])
        found = self._models.get((slot, form), rows)
        if found is None:
            solved = model_of(table.records[slot], form)
            found = self._models.put((slot, form), solved, rows)
        return found

    def of(self, component: str, form: str | None = None) -> Model:
        """Return the model of a component by its name; raises UnknownComponent, NotEnoughData, InvalidValue."""
        slot = self._components.slot(component)
        self.require_rows([slot])
        return self.at(slot, form)

    def learned(self, slot: int) -> bool:
        """Return True when the component's sums stand for some rows."""
        return bool(counts.evidence(self._components.table, slot) > 0)

    def require_rows(self, slots: Sequence[int]) -> None:
        """Raise NotEnoughData for the first of the slots that has learned nothing."""
        for slot in slots:
            if not self.learned(slot):
                name = self._components.names[slot]
                raise NotEnoughData(
                    f"component {name!r} has no learned run", field="component", value=name,
                    hint="failed and running rows are counted only; observe a finished run",
                )  # fmt: skip
