"""The advisor: observations in, state and answers out. No input or output, no clock, no threads.

Thread contract: one thread at a time. Calls from several threads need a lock around each call; nothing is kept between calls
that a lock would have to protect longer. A call that comes while another thread is inside raises `ConcurrentUse`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from advisor.domain import limits
from advisor.domain.answers import CoreChoice, Prediction, Receipt, Suggestion
from advisor.domain.names import checked_name
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.domain.rows import ColumnFields, Point, Travel, check_kinds, check_numbers, is_number, point_of, whole
from advisor.domain.task_graphs import TaskGraph
from advisor.domain.told import MeasureWord, Simulated, Status
from advisor.engine import batches, state_bytes, widths
from advisor.engine.alone import alone, verb
from advisor.engine.asking import Asking
from advisor.engine.checks import checked_cores, checked_level
from advisor.engine.choice import take_or_wait
from advisor.engine.components import Components
from advisor.engine.curve_tables import CurveTables
from advisor.engine.following import Bundles
from advisor.engine.learners import ABSENT, MODEL_MEMORY_BYTES, Solved
from advisor.engine.networks import Networks
from advisor.engine.programs import Programs
from advisor.engine.report import component_status, fate
from advisor.engine.rows import columns_of_row
from advisor.engine.slots import TIME
from advisor.engine.suggestion import suggest
from advisor.engine.task_times import TaskTimes, predicting
from advisor.engine.task_types import TaskTypeModels, is_model
from advisor.errors import InvalidValue, TooLarge
from advisor.models.contention import Contention
from advisor.models.layout import AT
from advisor.models.prediction import LEVEL, Model

DIMENSIONS = AT["dimensions"].start
PARTS = ("flows", "programs", "totals")  # of a state, beside what is of one component


class Advisor:
    """Learns in constant space how long each component takes, and answers how many cores to give to what.

    Parameters
    ----------
    components_max : int
        Components learned; rows of further ones are refused and counted. About 1300 bytes each.
    model_memory_bytes : int
        Budget for the learners of components, about 4.5 KB each; those that come later are answered by the base tier's
        form alone.

    Examples
    --------
    >>> adv = Advisor()
    >>> for cores in (1, 2, 4, 8):
    ...     for size in (100, 200, 300, 400):
    ...         adv.observe("blur", predictor=size, cores=cores, elapsed_s=1e-3 * size * (0.1 + 0.9 / cores))
    >>> round(adv.predict("blur", predictor=250, cores=2).elapsed_s, 4)
    0.1371
    >>> adv.choose_cores("blur", predictor=400, cores_max=8).cores
    8
    """

    def __init__(
        self,
        components_max: int = limits.COMPONENTS_MAX,
        model_memory_bytes: int = MODEL_MEMORY_BYTES,
    ) -> None:
        components_max = whole("components_max", components_max, 1)
        model_memory_bytes = whole("model_memory_bytes", model_memory_bytes, 0)
        self.turn: list[None] = [None]  # of `alone`
        self._adopt(Components(components_max, model_memory_bytes))
        self.programs = Programs()

    def __repr__(self) -> str:
        known, rows = len(self.components.slots.components), self.components.totals["rows_accepted"]
        return f"<Advisor: {known} component{'s' * (known != 1)}, {rows} rows, {self.components.bytes} bytes>"

    def _adopt(self, components: Components) -> None:
        self.components = components
        self._asking = Asking(components)
        self.bundles = Bundles(components, self._asking)
        self._tables = CurveTables(components, self._asking)
        self.networks = Networks(components, self.bundles, self._tables)
        self.task_types = TaskTypeModels(components)

    def _drop(self, slot: int | None = None) -> None:
        """Forget what was solved: a component, or all, changed otherwise than by new rows."""
        self._asking.drop()
        self.bundles.touch(slot)
        self._tables.drop()

    # -- learning ---------------------------------------------------------------------------------------------------------

    @alone
    def observe(
        self,
        component: str,
        *,
        predictor: Point = None,
        cores: float = 1,
        elapsed_s: float,
        count: int = 1,
        ok: bool = True,
        running: bool = False,
        dimensions: int | None = None,
        machine: str | None = None,
        measures: Mapping[str, float] | None = None,
        **travel: Unpack[Travel],
    ) -> None:
        """Learn one run: `component` took `elapsed_s` seconds on `cores` for an input of value `predictor` (absent: 1).

        A predictor may have up to four values (`dimensions`, where given, must agree); `machine` names where it ran;
        `measures` holds ``peak_bytes`` and ``energy_j``, as far as they were measured. `travel` says where it ran among
        others: `network`, `record`, `entered` and `replica` teach the flow of records (see `flow`), `active_cores`, the
        cores busy on the machine meanwhile, its own among them, contention (see `contention`).

        Raises
        ------
        InvalidValue
            Naming field, value and bound; nothing is learned then.
        TooLarge
            When the component is new and there is no room for it.
        """
        components = self.components
        slot = components.slots.by_name.get(component) if isinstance(component, str) else None
        if slot is None:
            component = checked_name("component", component)
            slot = components.slots.by_name.get(component)
            if slot is None and components.slots.full:
                raise TooLarge(
                    "components",
                    len(components) + 1,
                    components.slots.components_max,
                    "forget is no cure: raise components_max",
                )
        x: Any = 1.0 if predictor is None else predictor
        further: Sequence[float] = ()
        if dimensions is not None or hasattr(x, "__len__"):
            x, *further = point_of(x, dimensions)
        check_numbers(x, cores, elapsed_s, count)
        check_kinds(count, ok=ok, running=running)
        plain = ok and not (further or travel or running) and machine is None and measures is None
        if plain and slot is not None and components.table.records_whole[slot, DIMENSIONS] & widths.WIDTH == 1:
            batches.fold_one(components, slot, (float(x), float(cores)), float(elapsed_s), int(count), ABSENT)
            return
        batches.fold(
            components,
            columns_of_row(
                component, (float(x), *further), float(cores), float(elapsed_s), int(count), bool(ok), bool(running),
                machine, measures, travel,
            )
        )  # fmt: skip

    def observe_columns(
        self,
        *,
        components: Sequence[str],
        index: ArrayLike,
        cores: ArrayLike,
        elapsed_s: ArrayLike,
        predictor: ArrayLike | None = None,
        **optional: Unpack[ColumnFields],
    ) -> Receipt:
        """Learn n runs given as columns; row i is of component ``components[index[i]]``. Cost O(n).

        Bad rows are refused one by one and counted in the receipt; a column of the wrong shape refuses the batch.

        Raises
        ------
        InvalidValue, TooLarge, Unsupported
        """
        return self.fold(columns_of(ComponentNames(components), index, predictor, cores, elapsed_s, **optional))

    @alone
    def fold(self, columns: Columns) -> Receipt:
        """Learn a batch of checked shape; its rows are refused one by one."""
        return batches.fold(self.components, columns)

    @alone
    def fold_plain(self, columns: Columns) -> None:
        """Learn rows that are known to be good, see `advisor.engine.plain`."""
        batches.fold_plain(self.components, columns)

    def flush(self) -> None:
        """Do nothing: rows are learned when they are observed. A client's `flush` waits; code may have either."""

    @alone
    def forget(self, component: str, keep: float = 0.0) -> dict[str, Any]:
        """Keep only the share `keep` of what was learned of a component; at 0 it begins anew. Exact counts never go back.

        Raises
        ------
        UnknownComponent, InvalidValue
        """
        slot = self.components.forget(component, keep)
        self.task_types.forget(component, keep)
        self._drop(slot)
        return {"component": component, "keep": keep, "rows": int(self.components.table.count("rows")[slot])}

    @alone
    def pin(self, component: str, model: str | None) -> dict[str, Any]:
        """Hold a component to one model from now on, whatever the evidence says; None lets the evidence choose again.

        Parameters
        ----------
        model : str or None
            As for `predict`: ``two_step``, a form of the base tier, ``smooth``, the name of a shape, ``mixture``.

        Raises
        ------
        UnknownComponent, InvalidValue
        TooLarge
            When the component has no learner and the budget allows none: the pin has nowhere to stand.
        """
        self._asking.pin(component, model)
        self._drop(self.components.slots.of(component))
        return {"component": component, "model": model}

    @alone
    def suggest(
        self,
        component: str,
        *,
        predictor: Any = None,
        cores: Any = None,
        cores_max: int = 64,
        candidates: Sequence[tuple[float, float]] | None = None,
        limit: int = 3,
    ) -> list[Suggestion]:
        """Suggest which (predictor, cores) to run next: those that narrow the answers most for what they cost.

        Parameters
        ----------
        predictor, cores : optional
            The point whose answer should narrow; absent: all of the component's observed load on 1 to `cores_max` cores.
        candidates : sequence of (predictor, cores), optional
            What can be run; absent: predictors of the observed load on powers of two of cores up to `cores_max`.

        Raises
        ------
        UnknownComponent, InvalidValue
        """
        return suggest(self._asking, self.components, component, predictor, cores, cores_max, candidates, limit)

    @alone
    def merge(self, other: Advisor) -> None:
        """Add what another advisor has learned; `other` is only flushed.

        Counts are exact, unweighted sums exact to rounding, weighted sums approximate (`advisor.models.combine`).

        Raises
        ------
        Mismatch, TooLarge, InvalidValue
        """
        if not isinstance(other, Advisor):
            raise InvalidValue("other", other, "an Advisor")
        self.programs.check_merge(other.programs)
        self.components.merge(other.components)
        self.programs.merge(other.programs)
        self.task_types.merge(other.task_types)
        self._drop()

    # -- questions --------------------------------------------------------------------------------------------------------

    @alone
    def predict(
        self,
        component: str | Sequence[str],
        *,
        predictor: Any = None,
        cores: Any = 1,
        level: float = LEVEL,
        model: str | None = None,
        machine: str | None = None,
        measure: MeasureWord = TIME,
        active_cores: float | None = None,
        prior: bool = False,
    ) -> Prediction:
        """Predict the elapsed time of one run, or what else is measured of it; scalars, or arrays that broadcast together.

        Parameters
        ----------
        component
            A name; or a list of n names, the answer then being arrays (n,), each at its own of n predictors and cores, or all
            at one. `model` then names all that answered, and `observations` is an array.
        predictor
            A value, or an array of them; for a component with d > 1 predictors d values, or an array (.., d). Absent: a
            run of the observed load, E[T] over it.
        level : float
            Share of runs that the interval should hold, 0.01 to 0.9999.
        model : str, optional
            ``two_step`` or ``two_step degree K``, K up to 6, for paper 1's model; ``joint degree K``, ``proportional`` or
            ``free degree K`` for a form of the base tier; ``smooth`` or the name of a shape (`advisor.models.shapes`);
            ``mixture``; of a task type, learned from ends of its instances, `predictor` being their size: ``one_time``,
            ``support_points``, ``support_points refined``, ``clusters``, ``clusters refined``, ``rate_by_workers`` (paper 2);
            None for the pinned one, or the one that the evidence supports.
        machine : str, optional
            Where it runs; absent: on any of those seen.
        measure : str
            ``elapsed_s``, or ``peak_bytes`` or ``energy_j``, which are then what the answer's `_s` fields hold.
        active_cores : float, optional
            Workers that run tasks meanwhile, its own among them: for the models of task types.
        prior : bool
            A component that was never observed is answered by a guess from the others, `nearest` naming those most like it.

        Raises
        ------
        UnknownComponent, NotEnoughData, InvalidValue
        """
        level = checked_level(level)
        if model is not None and not isinstance(model, str):
            raise InvalidValue("model", model, "the name of a model")
        if active_cores is not None or (model is not None and is_model(model)):
            if not isinstance(component, str):
                raise InvalidValue("component", component, "one task type", "ask for each")
            x = 1.0 if predictor is None else predictor
            return self.task_types.predict(component, x, cores, level, model, machine, measure, active_cores)
        if machine is not None:
            machine = checked_name("machine", machine)
        asked = predictor, cores, level, model, machine, measure, prior
        if isinstance(component, (list, tuple)):
            return self._asking.several(component, *asked)
        return self._asking.predict(component, *asked)  # type: ignore[arg-type] - what is no name either is told so

    def simulate(
        self,
        graph: TaskGraph,
        *,
        predict_times: bool = False,
        components: Mapping[str, str] | None = None,
        level: float = LEVEL,
        machine: str | None = None,
        **request: Any,
    ) -> Simulated:
        """Compute what executing a task graph would take, without running it; see `advisor.simulation.answer` for the answer.

        Parameters
        ----------
        predict_times : bool
            Take the tasks' times from what was learned, by task type and size, and give each makespan its interval.
        components : mapping, optional
            The component that stands for a task type, where it has another name.
        level : float
            Of the intervals, of one run and of the makespan.
        request
            Fields of `advisor.simulation.Request`: ``cores``, ``policies``, ``contention``, ``metrics``, ``advise``, …

        Raises
        ------
        InvalidValue, UnknownKey, TooLarge
            For a request that cannot be, or a graph without what a policy, a contention model or a prediction needs.
        UnknownComponent, NotEnoughData
            For a task type that nothing was learned of.
        """
        from advisor.simulation import answer  # noqa: PLC0415 - few advisors analyse graphs
        from advisor.simulation.ensembles import uncertain  # noqa: PLC0415
        from advisor.simulation.requests import request_of  # noqa: PLC0415

        if predict_times:
            level = checked_level(level)
            found = self._task_times(graph, components or {}, level, machine)
            graph = graph.timed(found.times)
            request["uncertain"] = uncertain(found.times, found.low, found.high, level)
        return cast("Simulated", answer(graph, request_of(request)))

    @alone
    def _task_times(
        self, graph: TaskGraph, components: Mapping[str, str], level: float, machine: str | None
    ) -> TaskTimes:
        found = TaskTimes(graph.times, graph.times, graph.times)
        kinds, sizes = (graph.columns.get(name, np.ones(len(graph))) for name in ("type", "size"))
        inside = partial(cast("Any", Advisor.predict).__wrapped__, self)  # the turn is ours
        for _ in predicting(
            inside, found, unit=graph.unit, types=graph.types, kinds=kinds, sizes=sizes, components=components, level=level,
            machine=machine, parts=graph.columns.get("part"),
        ):  # fmt: skip
            pass
        return found

    @alone
    def choose_cores(
        self,
        component: str,
        *,
        predictor: Any = None,
        cores_max: int,
        tolerance: float = 0.05,
        level: float = LEVEL,
        risk: float = 0.0,
        explore: float = 0.0,
        machine: str | None = None,
        free_now: int | None = None,
        wait_s: float | None = None,
        prior: bool = False,
    ) -> CoreChoice:
        """Choose the whole cores for one invocation: the fastest, or the fewest within `tolerance` of the fastest.

        Parameters
        ----------
        tolerance : float
            0.05 takes the fewest cores whose predicted time is at most 5 % above the fastest.
        risk : float
            0 to 1: how far from the expected time towards the interval's upper end counts are compared: more cores, or counts
            that nobody tried, are then taken only where the gain is sure.
        explore : float
            Seconds that this component's runs may lose, all in all, for what they teach. Where something is left of them, and
            another count may well be faster, the choice is that count, `exploring` is true and `at_risk_s` what the run may
            lose, a quarter of what is left at most. The row that reports the run is given ``at_risk_s=choice.at_risk_s``, and
            charges it; other rows may be given it, too, for it is 0. Nothing is charged by a question: so many answers that are
            out at once may together put more at risk than is left.
        free_now, wait_s : int and float, optional
            So many cores are free now, all `cores_max` in so many seconds: the choice is what ends earlier, and
            ``take_or_wait`` says why.
        prior : bool
            As for `predict`.

        Raises
        ------
        UnknownComponent, NotEnoughData, InvalidValue
        """
        cores_max = checked_cores("cores_max", cores_max)
        if not is_number(tolerance) or not 0.0 <= tolerance <= 1e6:
            raise InvalidValue("tolerance", tolerance, "a number from 0 (fastest) to 1e6")
        if not is_number(risk) or not 0.0 <= risk <= 1.0:
            raise InvalidValue("risk", risk, "a number from 0 (the expected time) to 1 (the interval's upper end)")
        if not is_number(explore) or not 0.0 <= explore <= limits.ELAPSED_MAX_S:
            raise InvalidValue("explore", explore, f"a number of seconds from 0 to {limits.ELAPSED_MAX_S:g}")
        level = checked_level(level)
        if machine is not None:
            machine = checked_name("machine", machine)
        asked = float(tolerance), level, machine, float(risk), prior, float(explore)
        later = self._asking.choose_cores(component, predictor, cores_max, *asked)
        if free_now is None and wait_s is None:
            return later
        free_now = whole("free_now", free_now, 0, cores_max, "cores_max at most")
        if wait_s is None or not is_number(wait_s) or not 0.0 <= wait_s <= limits.ELAPSED_MAX_S:
            raise InvalidValue("wait_s", wait_s, f"a number of seconds from 0 to {limits.ELAPSED_MAX_S:g}")
        now = self._asking.choose_cores(component, predictor, free_now, *asked) if free_now else None
        return take_or_wait(now, later, float(wait_s), level)

    @alone
    def status(self, *, components: bool | Iterable[str] | None = None, offset: int = 0, limit: int = 100) -> Status:
        """Return totals and a page of components (these; all by default, none if False): counts, ranges, model, errors.

        Raises
        ------
        InvalidValue, TooLarge, UnknownComponent
        """
        offset, limit = whole("offset", offset, 0), whole("limit", limit, 0)
        if limit > limits.STATUS_PAGE_MAX:
            raise TooLarge("limit", limit, limits.STATUS_PAGE_MAX, "page with offset")
        if components is None or components is True:
            chosen = self.components.slots.components
        elif isinstance(components, (str, bytes)) or not (components is False or isinstance(components, Iterable)):
            raise InvalidValue("components", components, "a list of names")
        else:
            chosen = [checked_name("components", name) for name in components or ()]
        slots = [self.components.slots.of(name) for name in chosen[offset : offset + limit]]
        error, scored = self.components.error()
        return cast("Status", {
            "totals": dict(self.components.totals),
            "components_known": len(self.components) - self.components.slots.measures,
            "components_max": self.components.slots.components_max,
            "state_bytes": self.components.bytes,
            "model_memory_bytes": self.components.learners.memory_bytes,
            "model_memory_used_bytes": self.components.learners.used_bytes,
            **fate(**self.ledger()),
            "prediction_error": error if scored else None,
            "predictions_scored": scored,
            "programs": self.programs.status(),
            "task_types": self.task_types.status(),
            "offset": offset,
            "components": component_status(self.components, slots, self._asking),
        })  # fmt: skip

    def contention(self, component: str) -> Contention:
        """Return by how much a component slows down while other cores of its machine are busy: its factor `kappa`.

        A run beside `others` busy cores takes ``1 + kappa * others`` times what `predict` says, which is of an idle machine as
        far as rows told `active_cores`.

        Raises
        ------
        UnknownComponent, InvalidValue
        """
        return self.components.contention(self.components.slots.of(component))

    def model(self, component: str, form: str | None = None) -> Model:
        """Return the solved model of a component: its form, coefficients and parallel fraction, for who wants to look inside.

        Raises
        ------
        UnknownComponent, NotEnoughData, InvalidValue
        """
        slot = self.components.slots.of(component)
        self._asking.require_rows([slot])
        return self._asking.model(slot, form)

    def learner(self, component: str) -> Solved | None:
        """Return the solved learner of a component, for who wants to look inside; None where it has none.

        Raises
        ------
        UnknownComponent, InvalidValue
        """
        return self._asking.solved(self.components.slots.of(component))

    def ledger(self) -> dict[str, Any]:
        """Return how predictions of elapsed times made before their rows were learned have fared, in sums.

        `scores` of them were made, `covered` lay within their 90 % interval; `error` is the sum of
        |t - prediction| / max(t, prediction), `bias` that of (prediction - t) / max(t, prediction).
        """
        return self.components.learners.ledger()

    def models(self, components: Sequence[str]) -> list[Model]:
        """Return the solved models of several components; the errors of `model`."""
        return [self.model(component) for component in components]

    # -- networks, whole programs (paper 3), instances of task types (paper 2) ----------------------------------------------

    network = verb("networks", Networks.network)
    tables_of = verb("networks", Networks.tables_of)
    tables_missing = verb("networks", Networks.tables_missing)
    allocate = alone(verb("networks", Networks.allocate))
    allocate_together = alone(verb("networks", Networks.allocate_together))
    define_network = alone(verb("networks", Networks.define_network))
    flow = alone(verb("networks", Networks.flow))
    curves = alone(verb("networks", Networks.curves))
    demands = alone(verb("networks", Networks.demands))
    bundle = alone(verb("networks", Networks.bundle))
    observe_run = alone(verb("programs", Programs.observe_run))
    predict_run = alone(verb("programs", Programs.predict_run))
    forget_program = alone(verb("programs", Programs.forget_program))
    observe_instances = alone(verb("task_types", TaskTypeModels.observe_instances))
    task_type = alone(verb("task_types", TaskTypeModels.task_type))

    # -- state ------------------------------------------------------------------------------------------------------------

    @alone
    def to_bytes(self) -> bytes:
        """Return the whole state; `from_bytes` gives an equal advisor. Size about 1 KB a component."""
        return state_bytes.dump(self.components, self.parts())

    def parts(self, names: Collection[str] | None = None, parts: Collection[str] = PARTS) -> state_bytes.Parts:
        """Return what the state has beside components: all of it; or task types by name, and the other parts that are named."""
        flows = self.components.flows
        return state_bytes.Parts(
            self.components.totals if "totals" in parts else {}, flows.documents() if "flows" in parts else {},
            self.programs.paged.records() if "programs" in parts else (), self.task_types.paged.records(names),
        )  # fmt: skip

    @alone
    def extract(self, names: Iterable[str] | None = None, parts: Collection[str] = PARTS) -> bytes:
        """Return a part of the state, as bytes that `from_bytes` opens and another state merges.

        Parameters
        ----------
        names : iterable of str, optional
            Components, with their measures, contention, exploration budget and task types; names that nobody knows are left
            out. Absent: all of them.
        parts : collection of str
            What spans components: ``flows`` (networks and what was learned of their ways), ``programs`` and ``totals``.

        Notes
        -----
        Components stand in the order of their names, so equal states give equal bytes, however they came about: parts of a
        state that have each name, and each part that spans components, once, merge to a state whose ``extract()`` is that of
        the whole, to the byte. What a component that learned nothing is told from the others, the prior, is no state: it
        follows from the components that are there.
        """
        names = [*self.components.slots.components, *self.task_types.numbers] if names is None else list(names)
        return state_bytes.dump(self.components.part(names), self.parts(frozenset(names), parts))

    @alone
    def put(self, other: Advisor) -> None:
        """Let another's components and task types stand in the place of ours of the same names; the rest as `merge`."""
        here = self.components.slots.by_name
        theirs = other.components.slots.by_name
        self.components.drop([name for name in other.task_types.numbers if name in here and name not in theirs])
        for name in (*theirs, *other.task_types.numbers):
            self.task_types.forget(name, 0.0)
        self.components.merge(other.components, replacing=True)
        self.components.flows.merge(other.components.flows)
        self.programs.merge(other.programs)
        self.task_types.merge(other.task_types)
        self._drop()

    @alone
    def drop(self, names: Iterable[str]) -> int:
        """Take components away, with all that was learned of them; return how many there were. Totals never go back."""
        names = list(names)
        dropped = self.components.drop(names)
        for name in names:
            self.task_types.forget(name, 0.0)
        if dropped:
            self._drop()
        return len(dropped)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    @classmethod
    def from_bytes(cls, data: bytes) -> Advisor:
        """Return the advisor whose `to_bytes` gave `data`.

        Raises
        ------
        StateDamaged, StateTooNew, InvalidValue
        """
        components, parts = state_bytes.load(data)
        return cls.of(components, parts)

    @classmethod
    def of(cls, components: Components, parts: state_bytes.Parts) -> Advisor:
        """Return the advisor of a state that was read.

        Raises
        ------
        StateDamaged
        """
        restored = cls()
        restored._adopt(components)
        for record in parts.programs:
            restored.programs.paged.put_record(record)
        for record in parts.task_types:
            restored.task_types.paged.put_record(record)
        return restored
