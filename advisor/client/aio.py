"""The asynchronous client: the session on anyio, with reconnection, batching by time and a bounded buffer."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc

from advisor.client import requests
from advisor.client.address import parse_address
from advisor.client.link import Link
from advisor.client.outcomes import Answered, Stats, Told
from advisor.client.policy import WhenFull, check_policy
from advisor.client.session import BATCH_ROWS, WINDOW_BATCHES, Session
from advisor.client.watching import AsyncWatch, Watches
from advisor.domain.advice import Advice
from advisor.domain.answers import Allocation, CoreChoice, Curves, Prediction, Suggestion
from advisor.domain.flows import Flow
from advisor.domain.limits import ROWS_BATCH_MAX
from advisor.domain.runs import RunPrediction
from advisor.domain.sharing import Together
from advisor.errors import AdvisorError, ConnectionFailed, Unavailable
from advisor.protocol.encoding import Body, bodies_of_columns, bodies_of_rows, body_of, body_of_events
from advisor.protocol.params import PROTOCOL_VERSION

BUFFER_ROWS = 100_000  # held for a service that does not answer: about 30 MB
LINGER_S = 0.02  # a row waits so long for others to fill its batch
TIMEOUT_S = 10.0  # of a question, its connection included
CLOSE_S = 5.0  # given to what is held when the client closes
COLUMN_ROWS = min(2**16, ROWS_BATCH_MAX)  # a larger batch of columns is cut: with every column it is still a message


def default_producer() -> str:
    """Return a producer's name for this process."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}"


class AsyncClient:
    """A client of the service, for anyio and asyncio programs; use it as an asynchronous context manager.

    Rows are taken at once and sent in numbered batches behind the program's back: through cuts, restarts and crashes of
    the service each acknowledged row is counted once. Questions wait for their answer, at most `timeout_s`.

    Parameters
    ----------
    address : str
        ``unix:/path`` or a path, ``tcp://host:port`` or ``host:port``.
    producer : str, optional
        Name of this client at the service; host and process by default.
    token : str, optional
        What a service beyond this machine asks for.
    tls : ssl.SSLContext or True, optional
        Encrypts TCP; True is the system's default context.
    when_full : {"drop_newest", "drop_oldest", "block", "raise"}
        What happens to rows beyond `buffer_rows`. The default drops and counts: a scheduler never waits.
    buffer_rows, batch_rows, window : int
        Rows held; rows a batch; batches in flight.
    linger_s : float
        How long a row waits for others to fill its batch.
    """

    def __init__(
        self,
        address: str,
        *,
        producer: str | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | bool | None = None,
        when_full: WhenFull = "drop_newest",
        buffer_rows: int = BUFFER_ROWS,
        batch_rows: int = BATCH_ROWS,
        window: int = WINDOW_BATCHES,
        linger_s: float = LINGER_S,
        timeout_s: float = TIMEOUT_S,
        close_s: float = CLOSE_S,
    ) -> None:
        self._address = parse_address(address)
        context = ssl.create_default_context() if tls is True else (tls or None)
        self._token = token
        self._when_full = check_policy(when_full)
        self._buffer_rows = buffer_rows
        self.timeout_s = timeout_s
        self._close_s = close_s
        self._session = Session(
            producer or default_producer(), lambda: os.urandom(16), token=token, batch_rows=batch_rows, window=window
        )
        self._outbox = self._session.outbox
        self._answers: dict[int, tuple[anyio.Event, list[Answered]]] = {}
        self._watches = Watches()
        self._listeners: dict[str, Callable[[Any], None]] = {}  # by the method of what the service tells by itself
        self._group: anyio.abc.TaskGroup | None = None
        self._link = Link(
            self._address, context, self._session, linger_s=linger_s, tell=self._tell, told=self._told,
            failed=self._failed,
        )  # fmt: skip
        self._closed = False

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._link.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if kind is None:
            await self.close()
        self._closed = True
        self._link.stop()
        group, self._group = self._group, None
        if group is None:
            return None
        if isinstance(error, Exception):  # the program's own: not to be wrapped in a group
            await group.__aexit__(None, None, None)
            return None
        return await group.__aexit__(kind, error, trace)

    async def close(self, within_s: float | None = None) -> None:
        """Send what is held, for at most `close_s` seconds, and end. What is held still is counted in `stats`."""
        if self._closed:
            return
        with anyio.move_on_after(self._close_s if within_s is None else within_s):
            await self._drained()
        self._closed = True
        self._link.stop()

    # -- rows ------------------------------------------------------------------------------------------------------

    async def observe(
        self, component: str, predictor: Any = None, cores: Any = 1, elapsed_s: Any = None, **optional: Any
    ) -> bool:
        """Take one row, of which `elapsed_s` must be given; return whether it was taken.

        Does not wait, unless `when_full` is "block". `predictor` absent is 1.

        Raises
        ------
        InvalidValue
            When a number is none.
        Unavailable
            When the buffer is full and `when_full` is "raise".
        """
        row = requests.row_of(component, predictor, cores, elapsed_s, optional)
        if not self._room(1) and not await self._make_room(1):
            return False
        self.take(row)
        return True

    async def observe_rows(self, rows: Sequence[Sequence[Any]]) -> int:
        """Take rows `[component, predictor, cores, elapsed_s, {optional}]`; return how many were taken.

        Raises
        ------
        InvalidValue, TooLarge
            When a row has no form on the wire.
        Unavailable
            As `observe`.
        """
        return await self._submit(bodies_of_rows([requests.plain(row) for row in rows], BATCH_ROWS))

    async def observe_columns(self, **columns: Any) -> int:
        """Take a batch of columns (see `docs/protocol.md`); return how many rows were taken.

        Columns are numpy arrays, array.array, lists, or little-endian bytes: `index`, `predictor`, `cores`,
        `elapsed_s` and the optional ones. `components` are the names that `index` counts in; without it, those that
        `names` numbered.

        Raises
        ------
        InvalidValue, TooLarge
            When a column is none, or of another length than `index`.
        Unavailable
            As `observe`.
        """
        return await self._submit(bodies_of_columns(columns, COLUMN_ROWS))

    async def names(self, names: Sequence[str]) -> int:
        """Number names for `index` columns, on every connection of this client; return the first's number."""
        return self._session.declare(list(names))

    async def flush(self, timeout_s: float | None = None) -> Stats:
        """Wait until every row taken is acknowledged or refused; return the counts.

        Raises
        ------
        ConnectionFailed, Unavailable
            When that takes longer than `timeout_s` (the client's by default). The rows are held and sent on.
        """
        with anyio.move_on_after(self.timeout_s if timeout_s is None else timeout_s):
            await self._drained()
            return self.stats()
        raise self._why_silent(f"{self.stats().rows_held} rows are not acknowledged")

    def stats(self) -> Stats:
        """Return what became of the rows so far."""
        stats = self._session.stats
        return replace(
            stats, refused_by_code=stats.refused_by_code.copy(), last_refused=stats.last_refused.copy()
        )  # fmt: skip

    # -- questions -------------------------------------------------------------------------------------------------

    async def hello(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the service's version, limits and features."""
        params = requests.given(protocol=PROTOCOL_VERSION, token=self._token)
        return await self._ask("hello", params, dict, timeout_s)

    async def predict(
        self, component: str, predictor: Any = None, cores: Any = 1, *,
        level: float | None = None, model: str | None = None, dimensions: int | None = None,
        machine: str | None = None, measure: str | None = None, timeout_s: float | None = None,
    ) -> Prediction:  # fmt: skip
        """Return the elapsed time to expect, or the `measure`, on `machine`; `predictor` and `cores` may be arrays.

        Predictors of d values are the rows of an array (n, d), or flat with `dimensions` d: one point goes with each of
        the `cores`.
        """
        params = requests.predict_params(
            predictor, dimensions, component=component, cores=cores, level=level, model=model, machine=machine,
            measure=measure,
        )  # fmt: skip
        return await self._ask("predict", params, requests.read_prediction, timeout_s)

    async def choose_cores(
        self, component: str, predictor: Any = None, *,
        cores_max: int, tolerance: float | None = None, level: float | None = None, machine: str | None = None,
        free_now: int | None = None, wait_s: float | None = None, timeout_s: float | None = None,
    ) -> CoreChoice:  # fmt: skip
        """Return the cores for one invocation: the fastest, or the fewest within `tolerance` of it.

        `predictor` is a number, or the values of one that has several; `level` is that of the interval. With `free_now` and
        `wait_s` it also says whether to take the cores free now, or to wait so long for `cores_max`.
        """
        params = requests.given(
            component=component, predictor=predictor, cores_max=cores_max, tolerance=tolerance, level=level,
            machine=machine, free_now=free_now, wait_s=wait_s,
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
        `components`, `level`, `work_max`, `deadline_s`: see `docs/protocol.md`.
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

    # -- inside: rows ----------------------------------------------------------------------------------------------

    def take(self, item: Sequence[Any] | Body) -> None:
        """Take a row or a batch, room or not."""
        if isinstance(item, Body):
            self._outbox.submit(item)
            self._link.wake()
            return
        filling = self._outbox.filling
        self._outbox.observe(item)
        if filling != self._outbox.filling:  # a batch begins, whose time must be kept, or is full
            self._link.wake()

    async def wait_for_room(self) -> None:
        """Wait until the buffer takes another row."""
        while not self._room(1):
            await self._link.progress.wait()

    def fileno(self) -> int | None:
        """Return the file descriptor of the connection that stands."""
        return self._link.fileno()

    def _room(self, rows: int) -> bool:
        """True when the buffer takes so many rows more. An empty buffer takes any one batch."""
        held = self._session.stats.rows_held
        return not self._closed and (held + rows <= self._buffer_rows or not held)

    async def _submit(self, bodies: Sequence[Body]) -> int:
        taken = 0
        for body in bodies:
            if not self._room(body.rows) and not await self._make_room(body.rows):
                continue
            self.take(body)
            taken += body.rows
        return taken

    async def _make_room(self, rows: int) -> bool:
        """Do what `when_full` says; return whether there is room now."""
        while self._when_full == "block" and not self._closed:
            progress = self._link.progress
            if self._room(rows):
                return True
            await progress.wait()
        while self._when_full == "drop_oldest" and not self._room(rows) and self._outbox.drop_oldest():
            pass
        if self._room(rows):
            return True
        self._outbox.drop_new(rows)
        if self._when_full == "raise":
            raise Unavailable(
                "the client's buffer is full", field="buffer_rows", value=self._session.stats.rows_held,
                bound=self._buffer_rows, hint="the service does not keep up, or does not answer",
            )  # fmt: skip
        return False

    async def _drained(self) -> None:
        self._outbox.seal()
        self._link.wake()
        while not self._outbox.idle:
            await self._link.progress.wait()
            self._outbox.seal()
            self._link.wake()

    # -- inside: questions -----------------------------------------------------------------------------------------

    async def _change(self, method: str, params: Mapping[str, Any], timeout_s: float | None) -> dict[str, Any]:
        """Make a numbered call in its place among the rows."""
        call = self._session.call_numbered(body_of(method, params))
        return await self._answer(call, method, lambda result: dict(result or {}), timeout_s)

    async def _ask(
        self, method: str, params: Mapping[str, Any], read: Callable[[Any], requests.Answer], timeout_s: float | None
    ) -> requests.Answer:
        return await self._answer(self._session.call(method, [params]), method, read, timeout_s)

    async def _answer(
        self, call: int, method: str, read: Callable[[Any], requests.Answer], timeout_s: float | None
    ) -> requests.Answer:
        if self._closed or self._group is None:
            self._session.abandon(call)
            raise ConnectionFailed("the client is closed, or not entered", field="address", value=str(self._address))
        arrived: list[Answered] = []
        event = anyio.Event()
        self._answers[call] = event, arrived
        self._link.wake()
        try:
            with anyio.move_on_after(self.timeout_s if timeout_s is None else timeout_s):
                await event.wait()
        finally:
            del self._answers[call]
            self._session.abandon(call)
        if not arrived:
            raise self._why_silent(f"{method} was not answered in time")
        if arrived[0].error is not None:
            raise arrived[0].error
        return read(arrived[0].result)

    def _why_silent(self, what: str) -> AdvisorError:
        failure = self._session.failure
        why = f"{what}: {failure.message}" if failure else what
        hint = failure.hint if failure else ""
        return ConnectionFailed(why, field="address", value=str(self._address), hint=hint)

    def _tell(self, answer: Answered) -> None:
        waiting = self._answers.get(answer.call)
        if waiting is not None and not waiting[1]:
            waiting[1].append(answer)
            waiting[0].set()

    def _told(self, told: Told) -> None:
        listener = self._listeners.get(told.method)
        if listener is not None and told.params:
            listener(told.params[0])

    def _failed(self, error: AdvisorError) -> None:
        for call in list(self._answers):
            self._tell(Answered(call, error, None))
