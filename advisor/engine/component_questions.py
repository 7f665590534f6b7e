"""What an advisor answers about components: predictions, cores, times of task graphs, and what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from advisor.domain.allowed_cores import AllowedForm, allowed_in_all
from advisor.domain.answer_types import ChoiceObjectiveWord, MeasureWord, Simulated
from advisor.domain.answers import CoreChoice, Prediction, Suggestions
from advisor.domain.core_requests import core_request, plain_request
from advisor.domain.job_pools import OrderWord, PoolPlan
from advisor.domain.names import checked_name
from advisor.domain.rows import truth
from advisor.domain.task_graphs import TaskGraph, checked_graph
from advisor.engine.asking import Asking
from advisor.engine.components import Components
from advisor.engine.guards import checked_level
from advisor.engine.slots import TIME
from advisor.engine.suggestion import suggest
from advisor.engine.task_types import TaskTypeModels
from advisor.errors import InvalidValue
from advisor.models.contention import Contention
from advisor.models.prediction import LEVEL, Model
from advisor.models.type_verdict import MODELS


class ComponentQuestions:
    """The verbs of an `Advisor` that ask about components."""

    def __init__(self, components: Components, asking: Asking, task_types: TaskTypeModels) -> None:
        self._components, self._asking, self._task_types = components, asking, task_types

    def predict(
        self,
        component: str,
        predictor: Any = None,
        cores: Any = 1,
        *,
        level: float = LEVEL,
        model: str | None = None,
        machine: str | None = None,
        measure: MeasureWord = TIME,
        prior: bool = False,
        evidence: bool = False,
    ) -> Prediction:
        """Predict the elapsed time of one run, or what else is measured of it; scalars, or arrays that broadcast together.

        Parameters
        ----------
        component
            Its name.
        predictor
            A value, or an array of them; for a component with d > 1 predictors d values, or an array (.., d). Absent: a
            run that tells none: as such runs were, where six were learned apart, else of the observed load, E[T] over it.
        level : float
            Share of runs that the interval should hold, 0.01 to 0.9999.
        model : str, optional
            ``two_step`` or ``two_step degree K``, K up to 3, for paper 1's model, ``joint degree K`` for its law in one fit;
            ``amdahl`` for what answers without a learner; ``learner`` for the learner, whatever is pinned;
            of a task type, learned from ends of its instances, `predictor` being their size: ``one_time``,
            ``support_points``, ``clusters``, ``rate_by_workers`` (paper 2);
            None for the pinned one, or what answers.
        machine : str, optional
            Where it runs; absent: on any of those seen.
        measure : str
            ``elapsed_s``, or ``peak_bytes`` or ``energy_j``, which are then what the answer's `_s` fields hold.
        prior : bool
            A component that was never observed is answered by a guess from the others, `nearest` naming those most like it.
        evidence : bool
            The answer carries what it rests on as `basis`, for `advisor.replay_answer`; so it does of `choose_cores`,
            `choose_together`, `suggest` and `allocate`.

        Raises
        ------
        UnknownComponent, NotEnoughData, InvalidValue
        """
        level = checked_level(level)
        if model is not None and not isinstance(model, str):
            raise InvalidValue("model", model, "the name of a model")
        if model in MODELS:
            x = 1.0 if predictor is None else predictor
            return self._task_types.predict(component, x, cores, level, model, machine, measure)
        if machine is not None:
            machine = checked_name("machine", machine)
        if prior is not False:
            prior = truth("prior", prior)
        return self._asking.predict(component, predictor, cores, level, model, machine, measure, prior)

    def choose_cores(
        self,
        component: str,
        predictor: Any = None,
        *,
        cores_max: int | None = None,
        allowed: AllowedForm | None = None,
        usual: int | None = None,
        tolerance: float = 0.05,
        objective: ChoiceObjectiveWord = "time",
        explore: bool | Literal["freeze"] = False,
        count: int = 1,
        under_way: Mapping[int, int] | None = None,
        risk: float = 0.0,
        level: float = LEVEL,
        machine: str | None = None,
        evidence: bool = False,
    ) -> CoreChoice:
        """Choose the cores for one run: a function of what was learned alone; a question changes nothing.

        The first run is on `usual`, else on the allowed count nearest to min (max / min)**(3/4). Later runs are on the
        fewest counts within `tolerance` of the fastest, of those from half the least to twice the largest seen, while
        exploring with the next ones within a factor of four, or on fewer that runs have not shown to be slower. The last
        count stays while it is within 1.5 tolerances of the best and is not a third too many. An unknown component is
        answered, too: `assumed` says so.

        Parameters
        ----------
        cores_max, allowed : int, and a list of counts, ``{min, max, multiple_of}`` or ``{min, max, power_of}``
            Which counts may be chosen: one of the two at least, unless the component has its own (`set_allowed`), which hold
            in any case.
        usual : int, optional
            The count that runs have had so far: where the first one begins.
        tolerance : float
            0 to 1: 0.05 takes the fewest cores whose predicted time is at most 5 % above the fastest.
        objective : str
            ``time``, or ``core_seconds``: cores times time is minimised; the first run is then nearest to (min max)**(1/2).
        explore : bool or "freeze"
            True: a count is tried where it may well be better, and the runs seen make up for what a trial may lose. ``trial``
            is then true. ``"freeze"``: only counts that were seen.
        count : int
            So many runs begin at once: ``counts`` has one for each. While nothing is known some are on neighbouring counts;
            later at most 2 % are trials.
        under_way : mapping of int to int, optional
            Runs of the component that have not ended, by their cores: no trial is proposed beside another.
        risk : float
            0 to 1: 0 compares expected times; 1 gives more cores only where even the interval's upper end gains. A larger
            risk never gives more cores.
        Raises
        ------
        InvalidValue, TooLarge, UnknownKey
        """
        own = self._asking.allowed_of(checked_name("component", component))
        asked = usual, tolerance, objective, explore, count, risk
        if own is None and allowed is None and under_way is None:
            request = plain_request(cores_max, *asked)
        else:
            request = core_request(allowed_in_all(component, cores_max, allowed, own), *asked, under_way)
        level = checked_level(level)
        if machine is not None:
            machine = checked_name("machine", machine)
        return self._asking.choose_cores(component, predictor, request, level, machine)

    def choose_together(
        self,
        jobs: Sequence[Mapping[str, Any]],
        cores: int,
        *,
        order: OrderWord = "given",
        wait_max_s: float | None = None,
        evidence: bool = False,
    ) -> PoolPlan:
        """Choose the cores of jobs that share one pool: of those that wait and of those that run.

        A job that is not resizable keeps the count on which it starts. It gets the allowed count p with the least
        ``E[T(p)] (1 + w p / cores)``, with w the weight of the other jobs that wait, and half of that of those that run, over
        its own; or fewer cores that are free at up to 1.5 times that price; or it waits, and jobs behind it may start.
        Resizable jobs share the rest so that the total weighted response time falls fastest. Counts outside of what was seen
        are tried down to a quarter of the fewest, up to twice the most. Cost: a curve for each component and predictor of the
        jobs that may start, and some microseconds a job.

        Parameters
        ----------
        jobs
            Maps, in the order of arrival. Keys: `id`, any hashable value; `component`, which may have no rows; `predictor`;
            `machine`; `allowed`, the counts that it may use (absent: 1 to `cores`); `cores_now` (absent, None or 0: it waits);
            `weight` of its response time (1); `due_s`, seconds from now by which it should end: of the counts that keep it, at
            the upper end of their 90 % interval, the cheapest, and where none does, the fastest; `resizable` (False);
            `restart_s`, seconds that a running job loses by another count (0); `done`, the share of its work that is done (0);
            `waited_s` (0).
        cores : int
            Of the pool, with those of the running jobs.
        order : str
            ``given``: the jobs' own. ``work``: the least expected core-seconds by weight first.
        wait_max_s : float, optional
            A job whose `waited_s` reaches it comes first, and no other job starts before it. ``work`` requires it.

        Returns
        -------
        PoolPlan
            `cores` by job, 0 to wait; `why` by job; `assumed` by component without rows.

        Raises
        ------
        InvalidValue, TooLarge, UnknownKey
        """
        from advisor.engine.pool_questions import choose_together  # noqa: PLC0415 - it imports the planner

        return choose_together(self._asking, self._components, jobs, cores, order, wait_max_s)

    def suggest(
        self,
        component: str,
        *,
        cores_max: int | None = None,
        allowed: AllowedForm | None = None,
        limit: int = 3,
        evidence: bool = False,
    ) -> Suggestions:
        """Suggest which (predictor, cores) to run next: those of the observed load that narrow its answers most.

        Parameters
        ----------
        cores_max, allowed : int, and a list of counts, ``{min, max, multiple_of}`` or ``{min, max, power_of}``, optional
            The counts that can be run: those nearest to powers of two are tried. Absent: the component's own (`set_allowed`),
            else 1 to 64.

        Raises
        ------
        UnknownComponent, InvalidValue, TooLarge, UnknownKey
        """
        return Suggestions(suggest(self._asking, self._components, component, cores_max, allowed, limit))

    def simulate(
        self,
        graph: TaskGraph,
        *,
        predict_times: bool = False,
        components: Mapping[str, str] | None = None,
        machine: str | None = None,
        **request: Any,
    ) -> Simulated:
        """Compute what executing a task graph would take, without running it; see `advisor.simulation.answer` for the answer.

        Parameters
        ----------
        predict_times : bool
            Take the tasks' times from what was learned, by task type and size.
        components : mapping, optional
            The component that stands for a task type, where it has another name.
        request
            As `advisor.simulation.Analyses`: ``cores``, ``policies``, ``contention``, ``metrics``, ``advise``, …

        Raises
        ------
        InvalidValue, UnknownKey, TooLarge
            For a request that cannot be, or a graph without what a policy, a contention model or a prediction needs.
        UnknownComponent, NotEnoughData
            For a task type that nothing was learned of.
        """
        from advisor.simulation import answer  # noqa: PLC0415 - few advisors analyse graphs

        if predict_times:
            from advisor.simulation.task_times import predicted_times  # noqa: PLC0415 - as above

            graph = checked_graph(graph)
            graph = graph.timed(predicted_times(self.predict, graph, components or {}, machine))
        return cast("Simulated", answer(graph, **request))

    def contention(self, component: str) -> Contention:
        """Return by how much a component slows down while other cores of its machine are busy: its factor `kappa`.

        A run beside `others` busy cores takes ``1 + kappa * others`` times what `predict` says, which is of an idle machine as
        far as rows have `active_cores`.

        Raises
        ------
        UnknownComponent, InvalidValue
        """
        return self._components.contention(self._components.slots.slot_of(component))

    def model(self, component: str, form: str | None = None) -> Model:
        """Return the solved model of a component: its form, coefficients and parallel fraction, for who wants to look inside.

        Raises
        ------
        UnknownComponent, NotEnoughData, InvalidValue
        """
        slot = self._components.slots.slot_of(component)
        if not self._asking.learned(slot):
            raise self._asking.no_rows(slot)
        return self._asking.model(slot, form)
