"""What a component is predicted to take: by its mixture, without support points by the base tier's form, or by a prior."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits
from advisor.domain.answers import CoreChoice, Prediction
from advisor.engine.checks import check_together, checked
from advisor.engine.choice import ChoiceCurve, choose, counts_kept, counts_to
from advisor.engine.components import MEASURE_SCALES, TIME, Components, Event
from advisor.engine.mixtures import FORMS, MIXTURE, Mixture, Mixtures
from advisor.engine.prior import prior_of
from advisor.engine.solved import TWO_STEP, SolvedModels
from advisor.engine.supports import machine_number
from advisor.errors import InvalidValue, TooLarge
from advisor.models import prediction
from advisor.models.prediction import Model
from advisor.models.support import MACHINES_MAX

Floats = NDArray[np.float64]

CURVES_KEPT = 1_024  # times by cores of single invocations, at most 9 KB each; the oldest is dropped

# What `pin` can hold a component to. The state keeps places in this list: new names are appended, none is removed.
PINS = (MIXTURE, TWO_STEP, *prediction.form_names(), *FORMS)


class Asking:
    """Answers about single components."""

    def __init__(self, components: Components, solved: SolvedModels) -> None:
        self._components = components
        self._solved = solved
        self.mixtures = Mixtures(components, solved.at)
        self._curves: OrderedDict[tuple[Any, ...], ChoiceCurve] = OrderedDict()

    def drop(self) -> None:
        """Forget what was solved."""
        self.mixtures.drop()
        self._curves.clear()

    def answering(self, slot: int, form: str | None) -> Mixture | Model | None:
        """Return what answers for a slot: the form asked for, else the pinned one, else the evidence's; None: nothing learned.

        Raises
        ------
        InvalidValue
            When the form is none, or needs support points that the component has not.
        NotEnoughData
            When a form is asked for and nothing is learned.
        """
        asked, pinned = form, self.pinned(slot)
        form = form if form is not None else pinned
        if form is None or form == MIXTURE or form in FORMS:
            mixture = self.mixtures.one(slot, None if form == MIXTURE else form)
            if mixture is not None:
                return mixture
            if form is not None and self._solved.learned(slot) and form != pinned:
                name = self._components.names[slot]
                raise InvalidValue(
                    "model", form, f"a form of the base tier: {name!r} has no support points", "raise model_memory"
                )
            form = None
        if asked is not None and asked != MIXTURE:
            self._solved.require_rows([slot])  # a prior is no form
        return self._solved.at(slot, form) if self._solved.learned(slot) else None

    def pinned(self, slot: int) -> str | None:
        """Return the form that a component is pinned to, or None."""
        record = self._components.supports.find(slot)
        number = 0 if record is None else int(record[0].count("pin")[record[1]])
        return PINS[number - 1] if number else None

    def pin(self, component: str, form: str | None) -> None:
        """Hold a component to a form, or to none.

        Raises
        ------
        UnknownComponent, InvalidValue, TooLarge
        """
        if form is not None and form not in PINS:
            raise InvalidValue("model", form, f"one of {', '.join(PINS)}, or none")
        slot = self._components.slot(component)
        supports = self._components.supports
        if supports.find(slot) is None and not supports.promote(slot, 1 + self.dimensions(slot), ""):
            raise TooLarge("model_memory", supports.used_bytes, supports.memory_bytes, "raise model_memory")
        record = supports.find(slot)
        assert record is not None
        table, place = record
        table.count("pin")[place] = 0 if form is None else 1 + PINS.index(form)
        table.changed[place] = True
        self._components.totals["pins"] += 1
        rows = int(self._components.table.integers("rows")[slot])
        self._components.events.append(Event("pin", component, rows, f"asked for {form or 'the evidence'}"))

    def predict(
        self,
        component: str,
        predictor: Any,
        cores: Any,
        level: float,
        form: str | None,
        machine: str | None,
        measure: str,
    ) -> Prediction:
        """Return the prediction for one point, or elementwise for arrays that broadcast together.

        Raises
        ------
        UnknownComponent, NotEnoughData, InvalidValue, TooLarge
        """
        slot = self._components.slot(component, measure)
        dimensions = self.dimensions(slot)
        p = checked("cores", cores, "invalid_cores")
        if dimensions > 1:
            x = _vectors(predictor, dimensions)
            check_together(x[..., 0] if x.ndim > 1 else float(x[0]), p)
        else:
            x = checked("predictor", predictor, "invalid_predictor")
            check_together(x, p)
        found = self.answering(slot, form)
        if found is None:
            answer = prior_of(self._components, slot, x if dimensions == 1 else x[..., 0], p, level)
        elif isinstance(found, Mixture):
            answer = self._by_mixture(found, x, p, level, machine, dimensions)
        else:
            x = x if dimensions == 1 else np.minimum(x.prod(axis=-1), limits.PREDICTOR_MAX)
            answer = prediction.predict(found, float(x) if np.ndim(x) == 0 else x, p, level)
        return answer if measure == TIME else _rescaled(answer, 1.0 / MEASURE_SCALES[measure])

    def _by_mixture(
        self, found: Mixture, x: Any, p: Any, level: float, machine: str | None, dimensions: int
    ) -> Prediction:
        if isinstance(p, float) and (isinstance(x, float) if dimensions == 1 else x.ndim == 1):
            place = 0
            if machine is not None:
                place = found.machines.get(machine_number(machine), MACHINES_MAX)
            values = found.predict_one((x,) if dimensions == 1 else tuple(x.tolist()), p, level, place)
        else:
            vectors = np.asarray(x)[..., None] if dimensions == 1 else x
            shape = np.broadcast_shapes(vectors.shape[:-1], np.shape(p))
            points = np.broadcast_to(vectors, (*shape, dimensions)).reshape(-1, dimensions)
            flat = np.ascontiguousarray(np.broadcast_to(p, shape).reshape(-1), np.float64)
            values = tuple(v.reshape(shape) for v in found.predict(np.ascontiguousarray(points), flat, level, machine))
        value, low, high, outside = values
        notes = found.notes
        if machine is not None and machine_number(machine) not in found.machines:
            notes = (*notes, f"machine {machine!r} was not seen: its factor is open")
        return Prediction(value, low, high, found.name, notes, found.runs, outside)

    def dimensions(self, slot: int) -> int:
        """Return how many predictors a component has: those of its first row."""
        return self._components.dimensions(slot)

    def choose_cores(
        self, component: str, predictor: Any, cores_max: int, tolerance: float, level: float, machine: str | None
    ) -> CoreChoice:
        """Return the fewest cores within `tolerance` of the fastest.

        Raises
        ------
        UnknownComponent, InvalidValue
        """
        slot = self._components.slot(component)
        dimensions = self.dimensions(slot)
        x = checked("predictor", predictor, "invalid_predictor")
        if np.shape(x) != ((dimensions,) if dimensions > 1 else ()):
            raise InvalidValue("predictor", predictor, f"one point: {dimensions} number{'s' * (dimensions > 1)}")
        last = counts_kept(cores_max)
        key = (slot, x if dimensions == 1 else x.tobytes(), last, level, machine)
        curve = self._curves.get(key)
        if curve is None or curve.rows != self._components.table.integers("rows")[slot]:
            curve = self._curve(slot, component, x, last, level, machine)
            # A guess from the others changes with them, so it is not kept; nor is a curve that nobody asks for any more.
            if self._solved.learned(slot):
                self._curves[key] = curve
                self._curves.move_to_end(key)
                if len(self._curves) > CURVES_KEPT:
                    self._curves.popitem(last=False)
        return choose(curve, cores_max, tolerance)

    def _curve(self, slot: int, component: str, x: Any, last: int, level: float, machine: str | None) -> ChoiceCurve:
        """Return the times by cores of one invocation. Cost: one batch of predictions, up to a few milliseconds."""
        counts = counts_to(last)
        points = np.broadcast_to(x, (len(counts), np.size(x))) if np.ndim(x) else x
        answer = self.predict(component, points, counts.astype(np.float64), level, None, machine, TIME)
        return ChoiceCurve.of(int(self._components.table.integers("rows")[slot]), counts, answer)


def _vectors(predictor: Any, dimensions: int) -> Floats:
    values = checked("predictor", predictor, "invalid_predictor")
    array = np.atleast_1d(np.asarray(values, np.float64))
    if array.shape[-1] != dimensions:
        raise InvalidValue(
            "predictor", array.shape[-1], f"{dimensions} values a point, as the component's first row had"
        )
    return array


def _rescaled(answer: Prediction, scale: float) -> Prediction:
    return Prediction(
        answer.elapsed_s * scale, answer.low_s * scale, answer.high_s * scale,
        answer.model, answer.notes, answer.observations, answer.extrapolates,
    )  # fmt: skip
