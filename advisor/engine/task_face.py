"""The verbs of an advisor that are about instances of task types (paper 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from advisor.domain import limits, vectors
from advisor.domain.answers import Prediction, Receipt
from advisor.domain.observations import ComponentNames, bad_rows, columns_of
from advisor.domain.rows import bound_text
from advisor.engine.alone import alone
from advisor.engine.components import TIME, Components
from advisor.engine.task_types import TaskTypeModels, is_model
from advisor.errors import InvalidValue
from advisor.models.type_verdict import MODELS, TypeReport

BEYOND = "instances_beyond"  # of the totals: instances of more task types than are learned


class TaskFace:
    """What an `Advisor` says of task types."""

    components: Components
    task_types: TaskTypeModels

    @alone
    def observe_instances(
        self,
        *,
        types: Sequence[str],
        index: ArrayLike,
        elapsed_s: ArrayLike,
        size: ArrayLike | None = None,
        active_cores: ArrayLike | None = None,
        count: ArrayLike | None = None,
    ) -> Receipt:
        """Learn n instances of task types that ended, in order; row i is of type ``types[index[i]]``. Cost O(n).

        Each is a row of the component of its type's name, size as predictor, one core; and it teaches the models of paper 2
        that `predict` answers by name.

        Parameters
        ----------
        size : (n,), optional
            As the runtime gives it; what is no finite number above 0 is none, 1 to the component.
        active_cores : (n,), optional
            Workers that ran a task when the instance ended, its own among them; absent: 1.
        count : (n,), optional
            For so many instances each stands; absent: 1.

        Raises
        ------
        InvalidValue, TooLarge
            As `observe_columns`; rows outside of their domains are refused one by one and teach nothing.
        """
        n = np.size(elapsed_s)
        sizes = np.zeros(n) if size is None else vectors.vector("size", size, np.float64, n)
        sizes = np.where(np.isfinite(sizes) & (sizes > 0.0), sizes, 0.0)
        workers = np.ones(n) if active_cores is None else vectors.vector("active_cores", active_cores, np.float64, n)
        if not (np.isfinite(workers) & (workers >= 0.0) & (workers <= limits.CORES_MAX)).all():
            raise InvalidValue("active_cores", "a column with a bad value", bound_text("invalid_active_cores"))
        names = ComponentNames(types)
        x = np.where(sizes > 0.0, sizes, 1.0)
        columns = columns_of(names, index, x, np.ones(n), elapsed_s, count=count)
        good = ~np.logical_or.reduce([np.zeros(n, np.bool_), *bad_rows(columns).values()])
        stands = np.ones(n) if columns.count is None else columns.count.astype(np.float64)
        running = np.maximum(np.rint(workers), 1.0).astype(np.int64)
        beyond = self.task_types.fold(
            names.names, columns.index[good], sizes[good], columns.elapsed_s[good], running[good], stands[good]
        )
        if beyond:
            self.components.totals[BEYOND] += beyond
        return self.components.fold(columns)

    def _predict_instances(
        self,
        component: str,
        predictor: Any,
        cores: Any,
        level: float,
        model: str | None,
        machine: str | None,
        measure: str,
        active_cores: float | None,
    ) -> Prediction:
        """Answer `predict` by a model of task types; the arguments are those of `Advisor.predict`.

        Raises
        ------
        UnknownComponent, NotEnoughData, InvalidValue
        """
        if model is None or not is_model(model):
            raise InvalidValue(
                "active_cores", active_cores, f"absent, or with model one of {', '.join(MODELS)}",
                "contention(component) tells how a component slows down",
            )  # fmt: skip
        for field, value, absent in (("machine", machine, None), ("measure", measure, TIME)):
            if value != absent:
                raise InvalidValue(
                    field, value, f"absent with model {model!r}: instances tell neither machine nor measures"
                )
        if component not in self.task_types:
            self.components.slot(component)  # one that nobody knows is told so
        return self.task_types.predict(component, predictor, cores, active_cores, level, model)

    @alone
    def task_type(self, name: str) -> TypeReport:
        """Return what is known of a task type over all runs: its verdict, which model `predict` is to be asked for, and why.

        Raises
        ------
        InvalidValue
            When no instances of it were learned.
        """
        if name not in self.task_types:
            known = ", ".join(sorted(self.task_types.numbers)[:8])
            raise InvalidValue("task_type", name, f"one with instances: {known or 'none was observed'}")
        return self.task_types.report(name)
