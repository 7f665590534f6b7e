"""What the asynchronous client asks a service: one method a verb, whatever carries them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from advisor.client import requests
from advisor.client.session import Session
from advisor.client.watching import AsyncWatch, Watches
from advisor.domain.advice import Advice
from advisor.domain.answers import Allocation, CoreChoice, Curves, Prediction, Suggestion
from advisor.domain.flows import Flow
from advisor.domain.runs import RunPrediction
from advisor.domain.sharing import Together
from advisor.protocol.encoding import body_of, body_of_events
from advisor.protocol.params import PROTOCOL_VERSION


class AsyncQuestions(ABC):
    """The verbs of `AsyncClient` that wait for their answer; each takes `timeout_s`, else the client's own.

    Raises
    ------
    AdvisorError
        Of any of them: what the service refused, or why it did not answer (`ConnectionFailed`, `Unavailable`).
    """

    _session: Session
    _token: str | None
    _watches: Watches
    _listeners: dict[str, Callable[[Any], None]]

    async def hello(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the service's version, limits and features."""
        params = requests.given(protocol=PROTOCOL_VERSION, token=self._token)
        return await self._ask("hello", params, dict, timeout_s)

    async def predict(
        self, component: str, predictor: Any = None, cores: Any = 1, *,
        level: float | None = None, model: str | None = None, dimensions: int | None = None,
        machine: str | None = None, measure: str | None = None, active_cores: float | None = None,
        prior: bool | None = None, timeout_s: float | None = None,
    ) -> Prediction:  # fmt: skip
        """Return the elapsed time to expect, or the `measure`, on `machine`; `predictor` and `cores` may be arrays.

        Predictors of d values are the rows of an array (n, d), or flat with `dimensions` d: one point goes with each of
        the `cores`. `active_cores` is for the models of task types: how many workers run tasks meanwhile.
        With `prior` a component that was never observed is answered by a guess from the others.
        """
        params = requests.predict_params(
            predictor, dimensions, component=component, cores=cores, level=level, model=model, machine=machine,
            measure=measure, active_cores=active_cores, prior=prior,
        )  # fmt: skip
        return await self._ask("predict", params, requests.read_prediction, timeout_s)

    async def choose_cores(
        self, component: str, predictor: Any = None, *,
        cores_max: int, tolerance: float | None = None, level: float | None = None, risk: float | None = None,
        explore: float | None = None, machine: str | None = None, free_now: int | None = None,
        wait_s: float | None = None, prior: bool = True, timeout_s: float | None = None,
    ) -> CoreChoice:  # fmt: skip
        """Return the cores for one invocation: the fewest within `tolerance` (0.05) of the fastest.

        `predictor` is a number, or the values of one that has several; `level` is that of the interval. With `free_now` and
        `wait_s` it also says whether to take the cores free now, or to wait so long for `cores_max`.
        `risk`, 0 to 1, is how far towards the interval's upper end counts are compared. `explore` is how many
        seconds the component's runs may lose, all in all, for what they teach: pass the answer's `at_risk_s` on with the row.
        A component that was never observed is answered by a guess from the others, `nearest` naming those most like it,
        unless `prior` is False.
        """
        params = requests.given(
            component=component, predictor=predictor, cores_max=cores_max, tolerance=tolerance, level=level, risk=risk,
            explore=explore, machine=machine, free_now=free_now, wait_s=wait_s, prior=prior,
        )  # fmt: skip
        return await self._ask("choose_cores", params, requests.read_core_choice, timeout_s)

    async def suggest(
        self, component: str, predictor: Any = None, cores: float | None = None, *,
        cores_max: int | None = None, candidates: Sequence[tuple[Any, float]] | None = None, limit: int | None = None,
        timeout_s: float | None = None,
    ) -> list[Suggestion]:  # fmt: skip
        """Return which (predictor, cores) to run next, the one that narrows the answers most first.

        With `predictor`, and `cores`, the answers at that point; else those over all of the observed load. `candidates`
        are the pairs that can be run; else they are of the observed load, on up to `cores_max` cores.
        """
        params = requests.given(
            component=component, predictor=predictor, cores=cores, cores_max=cores_max, candidates=candidates,
            limit=limit,
        )  # fmt: skip
        return await self._ask("suggest", params, requests.read_suggestions, timeout_s)

    async def allocate(
        self, network: Any, cores: int | None = None, *, objective: str | None = None, target: Any = None,
        timeout_s: float | None = None, **more: Any,
    ) -> Allocation:  # fmt: skip
        """Return cores for each component of a network: S-Net text, a network, its list of nodes, or its id.

        `more` is `visits`, `shares`, `depths`, `fan_outs`, `returns`, `minimum`, `maximum`, `allowed`, `pinned`,
        `instances_max`, `nodes`, `memory_bytes`, `arrival_per_s`, `arrival_variation`, `quantile`, `weights`, `scale`, `load`,
        `components`, `level`, `turns`, `work_max`, `deadline_s`: see `docs/protocol.md`.
        """
        params = requests.given(network=network, cores=cores, objective=objective, target=target, **more)
        return await self._ask("allocate", params, requests.read_allocation, timeout_s)

    async def allocate_together(
        self, networks: Sequence[Mapping[str, Any]], cores: int, *, objective: str | None = None,
        timeout_s: float | None = None, **more: Any,
    ) -> Together:  # fmt: skip
        """Return what each of several networks gets of one machine's cores.

        Each of `networks` is a map with ``network`` (as of `allocate`) and, all optional, ``name``, ``weight`` and
        ``priority``, and what `allocate` takes about one network. `more` is of the machine: `nodes`, `memory_bytes`,
        `level`, `quantile`, `work_max`, `deadline_s`: see `docs/protocol.md`.
        """
        params = requests.given(networks=networks, cores=cores, objective=objective, **more)
        return await self._ask("allocate_together", params, requests.read_together, timeout_s)

    async def watch(
        self, network: Any, cores: int | None = None, *, objective: str | None = None, target: Any = None,
        current: Mapping[str, Any] | None = None, change_cost_s: float | Mapping[str, float] | None = None,
        horizon_s: float | None = None, gain_min: float | None = None, shadow: bool | None = None,
        told: Callable[[Advice], None] | None = None, timeout_s: float | None = None, **more: Any,
    ) -> AsyncWatch:  # fmt: skip
        """Watch a network: be told when a better allocation than the present one is worth the change.

        The allocation in the answer is taken as applied, unless `current` says what the runtime has. After a cut the watch is
        begun anew by itself.

        Parameters
        ----------
        network, cores, objective, target, **more :
            As for `allocate`.
        current : mapping, optional
            Key to cores, or to a map of cores and instances.
        change_cost_s : float or mapping, optional
            Seconds that the network stands still for a change, or by key where its allocation changes.
        horizon_s : float, optional
            A change must be repaid within so long (600).
        gain_min : float, optional
            Gains below are not told (0.1).
        shadow : bool, optional
            Tell nothing; compare what rows show that the runtime does with the best.
        told : callable, optional
            Takes each `Advice` as it comes, beside the iteration. It must return soon.
        """
        params = requests.given(
            network=network, cores=cores, objective=objective, target=target, current=current,
            change_cost_s=change_cost_s, horizon_s=horizon_s, gain_min=gain_min, shadow=shadow, **more,
        )  # fmt: skip
        self._watches.begun += 1
        topic = f"watch {self._watches.begun}"
        watch = AsyncWatch(self, topic, params, told)
        self._listeners["advice"] = self._watches.told
        watch.began(await self._ask("watch", params, dict, timeout_s))
        self._watches.add(watch, topic)
        self._session.stand(topic, watch.renewal, "watch")
        self._listeners[topic] = watch.began
        return watch

    def forget_watch(self, topic: str) -> None:
        """Begin a watch no more after a cut."""
        self._session.unstand(topic)
        self._watches.drop(topic)
        self._listeners.pop(topic, None)

    async def explain(self, id: str, *, replay: bool = False, timeout_s: float | None = None) -> dict[str, Any]:  # noqa: A002
        """Return why an answer of `allocate`, or an advice, was as it was; `sentences` can be read one after the other.

        With `replay` the service works it out again from the slice of state that it kept; ``replayed["same"]`` says whether
        that gave the same.
        """
        params = requests.given(id=id, replay=replay or None)
        return await self._ask("explain", params, dict, timeout_s)

    async def ask(
        self, method: str, params: Mapping[str, Any], read: Callable[[Any], requests.Answer], timeout_s: float | None
    ) -> requests.Answer:
        """Ask the service and return what `read` makes of its answer."""
        return await self._ask(method, params, read, timeout_s)

    async def curves(
        self, components: Sequence[str] | None = None, *,
        since: int | None = None, watch: Callable[[Curves], None] | None = None, level: float | None = None,
        cores_max: int | None = None, timeout_s: float | None = None,
    ) -> Curves:  # fmt: skip
        """Return the curves of components, or of all, as a bundle: those that changed after the version `since`.

        Parameters
        ----------
        watch : callable, optional
            Takes every later `Curves`, with the components that changed, as long as this client lives: after a cut they are
            asked for anew. It must return soon.
        """
        params = requests.given(components=components, since=since, level=level, cores_max=cores_max)
        if watch is None:
            return await self._ask("curves", params, requests.read_curves, timeout_s)
        params["watch"] = True
        first = await self._ask("curves", params, requests.read_curves, timeout_s)
        self._listeners["curves"] = lambda result: watch(requests.read_curves(result))
        # Pushes leave out what grew by little, so that no version stands for all: after a cut all is asked for.
        again = {key: value for key, value in params.items() if key != "since"}
        self._session.stand("curves", lambda: [again])
        return first

    async def unwatch_curves(self, *, timeout_s: float | None = None) -> None:
        """Take no more pushes of curves."""
        self._session.unstand("curves")
        self._listeners.pop("curves", None)
        await self._ask("curves", {"components": [], "watch": False}, requests.read_curves, timeout_s)

    async def define_network(
        self,
        network: Any,
        *,
        id: int | str | None = None,  # noqa: A002
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Keep a network (S-Net text, a network, or its nodes) by id, for rows (``network=id``), `allocate` and `flow`.

        The answer, `{id, keys, components, choices, …}`, comes when it is durable. The same again changes nothing.
        """
        params = requests.network_params(network, id)
        return await self._ask("define_network", params, dict, timeout_s)

    async def flow(self, network: int | str, *, timeout_s: float | None = None) -> Flow:
        """Return what rows have told of the flow of records through a network that is kept by id."""
        return await self._ask("flow", {"network": network}, requests.read_flow, timeout_s)

    async def simulate(
        self, graph: Any, cores: int | Sequence[int] = 1, *, policies: str | Sequence[str] | None = None,
        timeout_s: float | None = None, **more: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Return what executing a task graph would take: a `TaskGraph`, or its flat form; the answer of `Advisor.simulate`.

        `more` is `contention`, `measured_alone`, `speeds`, `metrics`, `seed`, `burden_ns`, `advise`, `predict_times`,
        `components`, `level`, `machine`, `draws`, `shared`.
        """
        params = requests.simulate_params(graph, {"cores": cores, "policies": policies, **more})
        return await self._ask("simulate", params, dict, timeout_s)

    async def status(
        self, components: bool | Sequence[str] = False, *, offset: int = 0, limit: int | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return totals, producers and, page by page, components."""
        params = requests.given(components=components, offset=offset, limit=limit)
        return await self._ask("status", params, dict, timeout_s)

    async def forget(self, component: str, *, keep: float = 0.0, timeout_s: float | None = None) -> dict[str, Any]:
        """Weaken what was learned of a component, in its place among the rows, exactly once.

        The answer is empty when it was lost with its connection; the component was weakened all the same.
        """
        return await self._change("forget", {"component": component, "keep": float(keep)}, timeout_s)

    async def forget_program(self, program: str, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Forget a whole program, its runs and its transformation, in its place among the rows, exactly once."""
        return await self._change("forget", {"program": program}, timeout_s)

    async def forget_profile(
        self, producer: str, *, incarnation: bytes | None = None, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Forget the profiles of a producer's runs, or of the one that `incarnation` names, exactly once.

        A run that goes on has a new profile from its next events on.
        """
        profile = requests.given(producer=producer, incarnation=incarnation)
        return await self._change("forget", {"profile": profile}, timeout_s)

    async def pin(self, component: str, model: str | None, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Hold a component to a model, whatever the evidence says, exactly once; None lets the evidence choose again.

        The answer is empty when it was lost with its connection; the component was pinned all the same.
        """
        return await self._change("pin", {"component": component, "model": model}, timeout_s)

    async def task_events(self, records: Any, *, timeout_s: float | None = None, **header: Any) -> dict[str, Any]:
        """Send task events, in their place among the rows, exactly once; return what became of them.

        `records` are bytes or an array of the records of `domain.task_events`; `header` is `strings` (new ones), `clock`,
        `fields`, `dropped`, `sums` (as bytes) and `ended`: the run is over.
        The answer is empty when it was lost with its connection; the events were folded all the same.
        """
        call = self._session.call_numbered(body_of_events(records, **header))
        return await self._answer(call, "task_events", lambda result: dict(result or {}), timeout_s)

    async def profile(
        self, producer: str | None = None, *, timeout_s: float | None = None, **asked: Any
    ) -> dict[str, Any]:
        """Return the profile of a producer's newest run, or without producer which runs there are.

        `asked` is `incarnation`, `nodes`, `diagnosis` and `ended`: as if the run had ended.
        """
        return await self._ask("profile", requests.given(producer=producer, **asked), dict, timeout_s)

    async def observe_run(
        self, program: str, *, size: float, timeout_s: float | None = None, **run: Any
    ) -> dict[str, Any]:
        """Teach one run of a whole program, in its place among the rows, exactly once.

        `run` is `workers`, `elapsed_s`, `work_s`, `delay_s`, `no_work_s`, `creates`, `waits` and, where known,
        `serial_work_s` and `span_s`; what is left out comes from the profile named by `profile`, ``{"producer": name}``.
        `transform` says what work grows with; a program's first run fixes it.
        """
        return await self._change("observe_run", requests.given(program=program, size=size, **run), timeout_s)

    async def predict_run(
        self, program: str, *, size: Any, workers: Any, level: float | None = None, model: str | None = None,
        timeout_s: float | None = None,
    ) -> RunPrediction:  # fmt: skip
        """Predict runs of a whole program: larger inputs, more workers; scalars, or lists."""
        params = requests.given(program=program, size=size, workers=workers, level=level, model=model)
        return await self._ask("predict_run", params, requests.read_run_prediction, timeout_s)

    async def _change(self, method: str, params: Mapping[str, Any], timeout_s: float | None) -> dict[str, Any]:
        """Make a numbered call in its place among the rows."""
        call = self._session.call_numbered(body_of(method, params))
        return await self._answer(call, method, lambda result: dict(result or {}), timeout_s)

    async def _ask(
        self, method: str, params: Mapping[str, Any], read: Callable[[Any], requests.Answer], timeout_s: float | None
    ) -> requests.Answer:
        return await self._answer(self._session.call(method, [params]), method, read, timeout_s)

    @abstractmethod
    async def _answer(
        self, call: int, method: str, read: Callable[[Any], requests.Answer], timeout_s: float | None
    ) -> requests.Answer:
        """Wait for the answer to a call of the session."""
