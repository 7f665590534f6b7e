"""The solved models of components: solved lazily, in batches, and kept until rows come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np

from advisor.domain import limits
from advisor.domain.curves import AmdahlCurves
from advisor.engine.checks import checked
from advisor.engine.components import Components
from advisor.errors import InvalidValue, NotEnoughData
from advisor.models import counts, prediction
from advisor.models.prediction import LEVEL, Model
from advisor.models.table import Table

MODELS_KEPT = (
    4_096  # solved models kept for reuse, about 3 KB each; the oldest is dropped and solved again when asked for
)
TWO_STEP = "two_step"


class SolvedModels:
    """The models of one engine's components, by slot and form (None: the form that the evidence supports)."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._models: OrderedDict[tuple[int, str | None], Model] = OrderedDict()

    def drop(self) -> None:
        """Forget all models: their components changed otherwise than by new rows."""
        self._models.clear()

    def one(self, component: str, form: str | None = None) -> Model:
        """Return the model of a component; solved again only when rows came since. Cost O(1).

        Raises
        ------
        UnknownComponent, NotEnoughData, InvalidValue
        """
        slot = self._components.slot(component)
        self.require_rows([slot])
        return self.at(slot, form)

    def at(self, slot: int, form: str | None = None) -> Model:
        """Return the model of a slot that has learned something."""
        found = self._models.get((slot, form))
        if found is not None and found.rows == self._components.table.integers("rows")[slot]:
            return found
        return self._solve([slot], form)[slot]

    def many(self, names: Sequence[str]) -> list[Model]:
        """Return the models of several components, their demand under the observed load filled in. Cost O(n), batched.

        Raises
        ------
        UnknownComponent, NotEnoughData
        """
        slots = [self._components.slot(name) for name in names]
        self.require_rows(slots)
        solved = self._solve(slots, None)
        bare = [slot for slot, model in solved.items() if model.load is None]
        if bare:
            part = self._components.table.gather(np.array(bare, np.int64))
            prediction.add_loads(part, [solved[slot] for slot in bare])
        return [solved[slot] for slot in slots]

    def of_slots(self, slots: Sequence[int]) -> dict[int, Model]:
        """Return the models of those slots that have learned something."""
        return self._solve([slot for slot in slots if self.learned(slot)], None)

    def curves(self, boxes: Sequence[str], components: Mapping[str, str], load: Mapping[str, float]) -> AmdahlCurves:
        """Return the demand curve of each box: at its component's observed load, or at the predictor that `load` gives.

        Raises
        ------
        UnknownComponent, NotEnoughData, InvalidValue
        """
        unknown = sorted((set(components) | set(load)) - set(boxes))
        if unknown:
            raise InvalidValue("components" if unknown[0] in components else "load", unknown[0], "a box of the network")
        demands: list[tuple[float, float]] = []
        for box, model in zip(boxes, self.many([components.get(box, box) for box in boxes]), strict=True):
            if box in load:
                x = checked(f"load[{box}]", load[box], "invalid_predictor")
                single, _, _, _ = prediction.predict_one(model, x, 1.0, LEVEL)
                serial, _, _, _ = prediction.predict_one(model, x, limits.CORES_MAX, LEVEL)
                demands.append((min(serial, single), max(single - serial, 0.0)))
            else:
                demands.append(model.load or (0.0, 0.0))
        pairs = np.array(demands, np.float64).reshape(-1, 2)
        return AmdahlCurves(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))

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

    def _solve(self, slots: Sequence[int], form: str | None) -> dict[int, Model]:
        rows = self._components.table.integers("rows")
        found: dict[int, Model] = {}
        stale: dict[int, None] = {}
        for slot in slots:
            model = self._models.get((slot, form))
            if model is not None and model.rows == rows[slot]:
                found[slot] = model
            else:
                stale[slot] = None
        if stale:
            part = self._components.table.gather(np.array(list(stale), np.int64))
            for slot, model in zip(stale, _solved(part, form, self._components.timer_noise_s), strict=True):
                found[slot] = self._models[slot, form] = model
        while len(self._models) > MODELS_KEPT:
            self._models.popitem(last=False)
        return found


def _solved(part: Table, form: str | None, timer_noise_s: float) -> list[Model]:
    if form is None:
        return prediction.models_of(part, timer_noise_s)
    if form == TWO_STEP:
        return prediction.two_step_models(part, timer_noise_s, None)
    if form.startswith(f"{TWO_STEP} degree ") and form[-1] in "0123" and len(form) == len(TWO_STEP) + 9:
        return prediction.two_step_models(part, timer_noise_s, int(form[-1]))
    names = prediction.form_names()
    if form not in names:
        raise InvalidValue("model", form, f"one of {TWO_STEP}, {TWO_STEP} degree 0 to 3, {', '.join(names)}")
    return prediction.models_of(part, timer_noise_s, form)
