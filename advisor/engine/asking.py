"""What a component is predicted to take: by its learner, without one by the exact sums' form, or by a prior."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from advisor.domain import elementary, limits
from advisor.domain.allowed_cores import AllowedCores
from advisor.domain.answers import CoreChoice, Prediction
from advisor.domain.core_requests import CORE_SECONDS, CoreRequest
from advisor.domain.vectors import Floats
from advisor.engine.cache import Cache
from advisor.engine.choice import (
    Chosen,
    answer_of,
    choose,
    counts_within,
    first_answer,
    first_counts,
    trial_place,
)  # fmt: skip
from advisor.engine.components import Components
from advisor.engine.guards import check_together, checked
from advisor.engine.learners import ANY_MACHINE, OTHER_MACHINE, Learners, Solved
from advisor.engine.load import Load, load_of, over_load
from advisor.engine.prior import prior_of
from advisor.engine.slots import MEASURE_SCALES, TIME
from advisor.errors import InvalidValue, NotEnoughData, TooLarge, not_one_of
from advisor.models import prediction
from advisor.models.cores_seen import CoresSeen, seen_of
from advisor.models.fold import KERNELS
from advisor.models.forms import AMDAHL, JOINTS, NAMES, TWO_STEP, TWO_STEPS
from advisor.models.prediction import Model

MODELS_CACHED = 4_096  # of the exact sums, about 3 KB each
LEARNER = "learner"
# What `pin` can hold a component to. The state keeps places in this list: new names are appended, none is removed.
PINS = (LEARNER, TWO_STEP, *JOINTS, AMDAHL, *TWO_STEPS)


class Asking:
    """Answers about single components."""

    def __init__(self, components: Components) -> None:
        self._components = components
        # rows and model by slot and form (None: `amdahl`)
        self._models = Cache[tuple[int, Model]](MODELS_CACHED)
        self.learners: Learners = components.learners

    def clear_solutions(self) -> None:
        """Forget what was solved: components changed otherwise than by new rows."""
        self._models.discard_where()
        self.learners.clear_solutions()

    def model(self, slot: int, form: str | None = None) -> Model:
        """Return the model of the exact sums of a slot that has learned something; solved again only when rows came since.

        Raises InvalidValue where the form is none.
        """
        if form is not None and form not in NAMES:
            raise not_one_of("model", form, NAMES)
        table = self._components.table
        rows = int(table.int_field("rows")[slot])
        found = self._models.get((slot, form))
        if found is None or found[0] != rows:
            found = self._models.store_value((slot, form), (rows, prediction.model_of(table.records[slot], form)))
        return found[1]

    def learned(self, slot: int) -> bool:
        """Return True when the component's sums stand for some rows."""
        return bool(self._components.table.evidence(slot) > 0)

    def no_rows(self, slot: int) -> NotEnoughData:
        """Return the error of a slot that has learned nothing."""
        name = self._components.slots.owner(slot)
        return NotEnoughData(
            f"component {name!r} has no learned run", field="component", value=name,
            hint="failed and running rows are counted only; observe a finished run",
        )  # fmt: skip

    def answering(self, slot: int, form: str | None) -> Solved | Model | None:
        """Return what answers for a slot: the form asked for, else the pinned one, else the learner; None: nothing learned.

        Raises InvalidValue when the form is none, or needs cells that the component has not; NotEnoughData when a form is
        asked for and nothing is learned.
        """
        solved = self.learners.solved(slot, self._components.table)
        if solved is not None and not solved.pin and form is None:
            return solved
        asked = form is not None and form != LEARNER  # a prior is no form
        form = form if form is not None else self.pinned(slot)
        if form is None or form == LEARNER:
            if solved is not None:
                return solved
            if form is not None and form != self.pinned(slot) and self.learned(slot):
                name = self._components.slots.owner(slot)
                raise InvalidValue(
                    "model", form, f"a form of the exact sums: {name!r} has no learner", "raise model_memory"
                )
            form = None
        if asked and not self.learned(slot):
            raise self.no_rows(slot)
        return self.model(slot, form) if self.learned(slot) else None

    def pinned(self, slot: int) -> str | None:
        """Return the form that a component is pinned to, or None."""
        record = self.learners.find_record(slot)
        number = 0 if record is None else int(record[0].int_field("pin")[record[1]])
        return PINS[number - 1] if 0 < number <= len(PINS) else None

    def pin(self, component: str, form: str | None) -> None:
        """Hold a component to a form, or to none; raises UnknownComponent, InvalidValue, TooLarge."""
        if form is not None and form not in PINS:
            raise not_one_of("model", form, PINS, ", or none")
        slot = self._components.slots.slot_of(component)
        learners = self.learners
        if learners.find_record(slot) is None and not learners.promote(slot, 1 + self._components.dimensions(slot), ""):
            raise TooLarge("model_memory", learners.used_bytes, learners.memory_bytes, "raise model_memory")
        record = learners.find_record(slot)
        assert record is not None
        table, place = record
        table.int_field("pin")[place] = 0 if form is None else 1 + PINS.index(form)
        self._components.totals["pins"] += 1

    def seen(self, slot: int) -> CoresSeen:
        """Return which core counts the runs of a slot were on."""
        return seen_of(self._components.table, slot)

    def set_allowed(self, component: str, allowed: AllowedCores | None) -> None:
        """Set the core counts that a component itself allows; None: every count. Raises UnknownComponent."""
        name, kept = self._components.slots.owner(self._components.slots.slot_of(component)), self._components.allowed
        if allowed is None:
            kept.remove_record(name)
        else:
            kept.set_record(name, allowed)

    def predict(
        self,
        component: str,
        predictor: Any,
        cores: Any,
        level: float,
        form: str | None,
        machine: str | None,
        measure: str,
        prior: bool = False,
    ) -> Prediction:
        """Return the prediction for one point, or elementwise for arrays that broadcast together.

        Raises UnknownComponent, NotEnoughData, InvalidValue, TooLarge.
        """
        if prior and self._components.slots.find_slot(component) is None:
            return self._unseen(component, predictor, cores, level, measure)
        own = slot = self._components.slots.slot_of(component, measure)
        if predictor is None:
            slot = self._components.answers_without(slot)
        dimensions = self._components.dimensions(slot) if self._components.vectors else 1
        p = checked("cores", cores, "invalid_cores")
        if predictor is None:
            given = load_of(self._components, slot, self.answering(slot, form))
            if len(given.share) > 1:
                return self._over_load(given, component, p, level, form, machine, measure)
            points = given.predictors[0] if len(given.share) else np.ones(dimensions)  # nothing learned
            predictor = float(points[0]) if dimensions == 1 else points
        if dimensions > 1:
            x = _vectors(predictor, dimensions)
            check_together(x[..., 0], p)
        else:
            x = checked("predictor", predictor, "invalid_predictor")
            if {type(x), type(p)} != {float}:
                check_together(x, p)
        found = self.answering(slot, form)
        if found is None:
            kind = self._components.slots.kind(slot)
            answer = prior_of(self._components, slot, kind, x if dimensions == 1 else x[..., 0], p, level)
        elif isinstance(found, Model):
            x = x if dimensions == 1 else np.minimum(x.prod(axis=-1), limits.PREDICTOR_MAX)
            answer = prediction.predict(found, float(x) if np.ndim(x) == 0 else x, p, level)
        else:
            answer = self._by_learner(found, x, p, level, machine, dimensions)
        if slot != own:
            answer = replace(answer, notes=(*answer.notes, "no predictor given: over the runs without one"))
        return answer if measure == TIME else _rescaled(answer, 1.0 / MEASURE_SCALES[measure])

    def _over_load(
        self, given: Load, component: str, p: Any, level: float, form: str | None, machine: str | None, measure: str
    ) -> Prediction:
        """Return the prediction for a run of the observed load, on one count of cores or elementwise on many."""
        shape, flat, n = np.shape(p), np.reshape(p, -1), len(given.share)
        points = given.predictors if given.predictors.shape[1] > 1 else given.predictors[:, 0]
        answer = self.predict(
            component, np.repeat(points, len(flat), axis=0), np.tile(flat, n), level, form, machine, measure
        )
        columns: list[Floats] = [
            np.broadcast_to(each, n * len(flat)).reshape(n, -1)
            for each in (answer.elapsed_s, answer.low_s, answer.high_s, answer.extrapolates)
        ]
        found = (*over_load(given.share, columns[0], columns[1], columns[2], level), columns[3].max(axis=0))
        value, low, high, outside = (each.reshape(shape) if shape else float(each[0]) for each in found)
        notes = (*answer.notes, f"no predictor given: over the observed load, at {n} points")
        return replace(answer, elapsed_s=value, low_s=low, high_s=high, extrapolates=outside, notes=notes)

    def _unseen(self, component: str, predictor: Any, cores: Any, level: float, measure: str) -> Prediction:
        """Return what is said of a component that was never observed; points of several values count as they stand."""
        x = 1.0 if predictor is None else checked("predictor", predictor, "invalid_predictor")
        p = checked("cores", cores, "invalid_cores")
        check_together(x, p)
        answer = prior_of(self._components, None, "" if measure == TIME else measure, x, p, level)
        near = self._components.slots.nearest(component)
        like = f"; known names like it: {', '.join(map(repr, near))}" if near else ""
        answer = replace(answer, notes=(f"{component!r} was never observed{like}", *answer.notes), nearest=near)
        return answer if measure == TIME else _rescaled(answer, 1.0 / MEASURE_SCALES[measure])

    def _by_learner(
        self, found: Solved, x: Any, p: Any, level: float, machine: str | None, dimensions: int
    ) -> Prediction:
        room, table, notes = found.room, found.table, found.notes
        place = ANY_MACHINE if machine is None else found.machine(machine)
        reach, beyond = found.reach_at(level)
        if isinstance(p, float) and (isinstance(x, float) if dimensions == 1 else x.ndim == 1):
            if dimensions == 1:
                room.point[0] = x
            else:
                room.point[:dimensions] = x
            room.point[dimensions] = p
            KERNELS.answer_one(
                table.words, found.place, table.axes, room.point, place, reach, beyond, found.longest, found.solution,
                room.scratch, room.out,
            )  # fmt: skip
            value, low, high, outside = room.out.tolist()
        else:
            vectors = np.asarray(x)[..., None] if dimensions == 1 else x
            shape = np.broadcast_shapes(vectors.shape[:-1], np.shape(p))
            points = np.broadcast_to(vectors, (*shape, dimensions)).reshape(-1, dimensions)
            flat = np.broadcast_to(p, shape).reshape(-1)
            columns = found.answers(points, flat, level, place)
            value, low, high, outside = (column.reshape(shape) for column in columns)
        if machine is not None and place == OTHER_MACHINE:
            notes = (*notes, f"machine {machine!r} was not seen: its factor is open")
        return Prediction(value, low, high, LEARNER, notes, found.runs, outside)

    def runs(self, slot: int) -> int:
        """Return the exact number of learned runs."""
        whole = self._components.table.records_whole[slot]
        return int(whole[0] + whole[1])

    def assumed_of(self, slot: int) -> tuple[str, ...]:
        """Return what first rows take from siblings, in words: of a component that answers by its learner."""
        leaning = self._components.siblings.leaning(slot)
        return () if leaning is None else (leaning.note,)

    def allowed_of(self, component: str) -> AllowedCores | None:
        """Return the core counts that a component itself allows; None: every count."""
        components = self._components
        slot = components.slots.find_slot(component) if components.allowed.known else None
        return None if slot is None else components.allowed.known.get(components.slots.owner(slot))

    def choose_cores(
        self, component: str, predictor: Any, request: CoreRequest, level: float, machine: str | None
    ) -> CoreChoice:
        """Return what the rule of `advisor.engine.choice` gives; raises InvalidValue."""
        x: Any = predictor if predictor is None else checked("predictor", predictor, "invalid_predictor")
        slot = self._components.slots.find_slot(component)
        if slot is None:
            return self._first_choice(component, x, request, level, self._unseen(component, 1.0, 1.0, level, TIME))
        dimensions = self._components.dimensions(slot)
        if x is not None and np.shape(x) != ((dimensions,) if dimensions > 1 else ()):
            raise InvalidValue("predictor", predictor, f"one point: {dimensions} number{'s' * (dimensions > 1)}")
        slot = self._components.answers_without(slot) if x is None else slot
        if not self.learned(slot):
            return self._first_choice(component, x, request, level, None)
        seen, found = self.seen(slot), self.answering(slot, None)
        counts = counts_within(request, seen)
        if isinstance(found, Solved) and x is not None:
            chosen = self._chosen_by_learner(found, slot, x, request, counts, level, machine)
        else:
            noise = found.noise if isinstance(found, Solved) and request.explore is not True else 0.0
            points: Any = x if dimensions == 1 or x is None else np.broadcast_to(x, (len(counts), dimensions))
            answer = self.predict(component, points, counts, level, None, machine, TIME)
            chosen = choose(self._components.table, slot, request, counts, answer, noise)
        trial = None
        if request.explore is True and len(counts) > 1 and isinstance(found, Solved):
            point = x
            if point is None:
                given = load_of(self._components, slot, found)
                point = elementary.weighted(given.share, given.predictors)
            place = trial_place(found, request, seen, chosen, point)
            if place is not None:
                cores = float(counts[place])
                trial = int(cores), self.predict(component, x, cores, level, None, machine, TIME)
        assumed = chosen.answer.notes if predictor is None else self.assumed_of(slot)
        return answer_of(request, seen, chosen, trial, assumed)

    def _chosen_by_learner(
        self, found: Solved, slot: int, x: Any, request: CoreRequest, counts: Floats, level: float, machine: str | None
    ) -> Chosen:
        room, table = found.room, found.table
        columns, of_cores = np.empty((3, len(counts))), request.objective == CORE_SECONDS
        excused = request.explore is not True  # trials find out what runs leave open
        room.point[: table.axes - 1] = x
        place, fewest, best = KERNELS.choose_at(
            self._components.table.records, slot, table.words, found.place, table.axes, counts, found.machine(machine),
            *found.reach_at(level), found.longest, request.tolerance, request.risk, of_cores, excused,
            found.solution, room.scratch, room.point, columns, room.out,
        )  # fmt: skip
        value, low, high, outside = room.out.tolist()
        answer = Prediction(value, low, high, LEARNER, found.notes, found.runs, outside)
        return Chosen(place, fewest, best, counts, columns, answer)

    def _first_choice(
        self, component: str, x: Any, request: CoreRequest, level: float, unseen: Prediction | None
    ) -> CoreChoice:
        """Return the choice for a component that has learned nothing."""
        counts = first_counts(request, request.count + sum(request.under_way.values()))
        if unseen is None:
            answer = self.predict(component, x, float(counts[0]), level, None, None, TIME)
            return first_answer(request, counts, answer, (f"no run of {component!r} was learned",))
        near = (
            f"did you mean {' or '.join(map(repr, unseen.nearest))}?" if unseen.nearest else "no known name is like it"
        )
        return first_answer(request, counts, unseen, (f"component {component!r} was never observed: {near}",))


def _vectors(predictor: Any, dimensions: int) -> Floats:
    values = checked("predictor", predictor, "invalid_predictor")
    array = np.atleast_1d(np.asarray(values, np.float64))
    if array.shape[-1] != dimensions:
        raise InvalidValue(
            "predictor", array.shape[-1], f"{dimensions} values a point, as the component's first row had"
        )
    return array


def _rescaled(answer: Prediction, scale: float) -> Prediction:
    return replace(answer, elapsed_s=answer.elapsed_s * scale, low_s=answer.low_s * scale, high_s=answer.high_s * scale)
