"""The front of a fleet: the service as it is, whose rows go to shards and whose questions are answered from copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, cast

import anyio

from advisor.cluster.copies import Copies
from advisor.cluster.demands import Gathered
from advisor.cluster.fleet import Fleet
from advisor.cluster.learning import ClusterLearning
from advisor.engine import Engine
from advisor.engine.exactly_once import Producer, ProducerLedger
from advisor.engine.report import fate
from advisor.errors import AdvisorError, InvalidValue, TooLarge, Unavailable
from advisor.protocol import verbs as m
from advisor.protocol.connection import RpcRequest
from advisor.service import questions
from advisor.service.background import LATER
from advisor.service.change_gate import ChangeGate
from advisor.service.config import Config
from advisor.service.connection import Connection
from advisor.service.heavy import Heavy
from advisor.service.hub import Hub, StateSize
from advisor.service.measures import ServiceMeasures
from advisor.service.producers import Producers

GATHERED_AT_ONCE = 1_000  # components, some 5 MB


class Acknowledging:
    """What the service asks its committer: here shards commit, and answers come when they have."""

    durable_storage = True

    def __init__(self, fleet: Fleet, every_s: float) -> None:
        self._fleet = fleet
        self._every_s = every_s
        self.gate = ChangeGate()  # always open: the front copies no image
        self.work: Callable[[], Any] | None = None  # what is due every so often, besides

    @property
    def failure(self) -> AdvisorError | None:
        """Why some shard cannot be opened, or written."""
        return next((lane.failure for lane in self._fleet.lanes if lane.failure is not None), None)

    @property
    def unsaved(self) -> bool:
        """True while something is not acknowledged."""
        return any(not lane.idle.is_set() for lane in self._fleet.lanes)

    @property
    def answers_waiting(self) -> int:
        """Answers wait with their rows."""
        return 0

    @property
    def rows_waiting(self) -> int:
        """Rows that are not acknowledged."""
        return self._fleet.rows_waiting

    @property
    def age_s(self) -> float:
        """Seconds that the oldest of them has waited."""
        return self._fleet.age_s

    def sequence(self, key: Producer) -> int:
        """Return the number that all shards have committed."""
        return self._fleet.durable.get(key, 0)

    def look(self) -> AdvisorError | None:
        """As `failure`."""
        return self.failure

    async def run(self) -> None:
        """Do what is due every so often, as long as the service lives."""
        while True:
            await anyio.sleep(self._every_s)
            if self.work is not None:
                await self.work()

    def changed(self, rows: int = 0) -> None:
        """Do nothing: shards commit by themselves."""

    drop = forget = changed  # type: ignore[assignment]

    def want_image(self) -> None:
        """Do nothing: shards keep their journals."""

    def close(self) -> None:
        """Do nothing: the fleet is stopped by whoever started it."""


class ClusterHub(Hub):
    """The verbs of a service, done by shards.

    `fleet`: it has been started.
    """

    learns = ClusterLearning
    learning: ClusterLearning

    def __init__(
        self,
        config: Config,
        engine: Engine,
        producers: Producers,
        heavy: Heavy,
        measures: ServiceMeasures,
        fleet: Fleet,
    ) -> None:
        committer = Acknowledging(fleet, config.stale_s / 2)
        engine.state.ledger = ProducerLedger(config.producers_max, lambda name: self.learning.counted.update((name,)))
        engine.state.ledger.put(fleet.durable)
        super().__init__(config, engine, cast("Any", committer), producers, heavy, measures)
        self.fleet = fleet
        self.copies = Copies(
            engine, fleet, rows_max=config.stale_rows, age_s=config.stale_s, copies_max=config.components_max
        )  # fmt: skip
        self.copies.watched = lambda: self.watching.components
        self.gathered = Gathered(fleet, self.copies)
        self.planner.tables_of = self.gathered.tables_of
        self.learning.begin(fleet, self.copies)
        self._runs: list[dict[str, Any]] = []
        committer.work = self._refresh
        self._verbs |= {
            "profile": lambda c, params, msgid: self.background.later("profile", c, msgid, self._profiled, params),
            "export": self._export,
        }

    async def begin(self) -> None:
        """Learn the networks, before anybody is served."""
        for part in await self.fleet.each("networks"):
            self.engine.put(Engine.from_bytes(part))
        self.learning.follow()
        self.learning.count()

    def _resume(self, key: Producer, at: int) -> None:
        before = self.engine.applied(*key)
        super()._resume(key, at)
        if at > before:
            self.fleet.tell("resume", key, at)

    # -- questions --------------------------------------------------------------------------------------------------------

    def handle(self, connection: Connection, request: RpcRequest) -> bytes | None:
        """As `Hub.handle`; a question waits until what it is about is there, and fresh enough."""
        msgid, method, given = request
        if msgid is None or connection.grant is None or method not in ASKED_ABOUT:
            return super().handle(connection, request)
        try:
            params = m.check_params(method, given)
            wait = ASKED_ABOUT[method](self, params)
        except AdvisorError:
            return super().handle(connection, request)  # which says it
        if wait is None:
            return super().handle(connection, request)
        self.background.start(self._ask, connection, request, wait)
        return LATER

    async def _ask(self, connection: Connection, request: RpcRequest, wait: Callable[[], Any]) -> None:
        try:
            await wait()
        except TooLarge as error:
            connection.answer(request.msgid, error)
            return
        except AdvisorError:
            pass  # the question itself says what is missing
        except Exception as error:
            connection.answer(request.msgid, self.background.defect(request.method, connection, error))
            return
        if connection.number in self.connections:
            answer = super().handle(connection, request)
            if answer is not None:
                connection.release([answer])

    def about_components(self, params: Any) -> Callable[[], Any] | None:
        """Return what a question about components waits for; None: nothing."""
        given = getattr(params, "component", None) or getattr(params, "components", None)
        if given is None:
            return self._gather_all
        names = self.copies.due([given] if isinstance(given, str) else given, fresh=getattr(params, "fresh", False))
        return partial(self.copies.gather, names) if names else None

    def about_jobs(self, params: Any) -> Callable[[], Any] | None:
        """As `about_components`, of the jobs of a pool."""
        names = [job["component"] for job in params.jobs if isinstance(job.get("component"), str)]
        due = self.copies.due(list(dict.fromkeys(names)), fresh=params.fresh)
        return partial(self.copies.gather, due) if due else None

    def about_program(self, params: Any) -> Callable[[], Any] | None:
        """As `about_components`, of a program."""
        return partial(self.copies.gather, (), (params.program,))

    def about_networks(self, params: Any) -> Callable[[], Any] | None:
        """As `about_components`, of plans: of their networks, and for a watch of all components of these."""
        return partial(self._gather_networks, params)

    async def _gather_networks(self, params: Any) -> None:
        await self.copies.gather(())
        if getattr(params, "fresh", False):
            self.gathered.drop()
        if not isinstance(params, m.Watch) or params.watch is not None:
            return  # curves are enough, and the planner asks for them
        advisor = self.engine.advisor
        if params.networks is None:
            network, request = questions.allocation_asked(advisor, params)
            asked = [(network, request.get("components", {}))]
        else:
            asked = [(one.network, one.components) for one in questions.together_asked(advisor, params)]
        names: list[str] = []
        for network, called in asked:
            boxes = (await self.planner.read(network)).components
            names += [(called or {}).get(box, box) for box in boxes]
        due = self.copies.due(names, fresh=getattr(params, "fresh", False))
        if due:
            await self.copies.gather(due)

    async def _profiled(self, params: m.ProfileAsked) -> dict[str, Any]:
        asked, producer = params.given(), params.producer
        if producer is not None:
            try:
                return await self.fleet.lane_of_producer(producer).ask("profile", asked)
            except InvalidValue:
                if params.incarnation is not None:
                    raise
        runs = [run for told in await self.fleet.each("profile", asked | {"producer": None}) for run in told["runs"]]
        if producer is not None:
            known = ", ".join(sorted({run["producer"] for run in runs}))
            raise InvalidValue("producer", producer, f"one that sent task events: {known or 'none did yet'}")
        return {"runs": runs}

    def profiles_held(self) -> Mapping[str, int]:
        """As `Hub.profiles_held`, of all shards together."""
        found = Counter(super().profiles_held())
        for lane in self.fleet.lanes:
            found.update(lane.told.get("profiles", {}))
        return found

    def profiles_told(self) -> list[dict[str, Any]]:
        """As `Hub.profiles_told`, shard by shard; as of the last time that copies were brought up to date."""
        return self._runs

    async def profile(self, producer: str, incarnation: bytes | None) -> tuple[dict[str, Any], bytes]:
        """As `Hub.profile`, of the shard of its producer."""
        return await self.fleet.lane_of_producer(producer).ask("profiler", producer, incarnation)

    async def _gather_all(self) -> None:
        """Have a copy of every component; raises TooLarge where these are more than a front holds."""
        names = [name for told in await self.fleet.each("names") for name in told]
        if len(names) > self.config.components_max:
            raise TooLarge("components", len(names), self.config.components_max, "name them, or raise components_max")
        due = self.copies.due(names)
        for start in range(0, len(due), GATHERED_AT_ONCE):
            await self.copies.gather(due[start : start + GATHERED_AT_ONCE])

    async def _refresh(self) -> None:
        """Bring copies up to date, and those who follow them."""
        if await self.copies.refresh():
            self.watching.notify()
        if self.learning.profiled:
            self.learning.profiled = False
            asked = {"producer": None, "incarnation": None, "nodes": False, "diagnosis": False}
            self._runs = [run for told in await self.fleet.each("profile", asked) for run in told["runs"]]
        self.learning.count()

    def _export(self, connection: Connection, params: m.Export, msgid: int | None) -> dict[str, Any] | None:
        return self.background.later("export", connection, msgid, self._page, params.after)

    async def _page(self, after: str | None) -> dict[str, Any]:
        """Return the next page, shard by shard; `next` has the layout and the shard before what the shard says."""
        version = f"{self.fleet.layout.version}"
        of, lane, at = (*(after or f"{version}/0/").split("/", 2), "", "")[:3]
        lanes = dict(enumerate(self.fleet.lanes))
        if not lane.isdigit() or int(lane) not in lanes:
            raise InvalidValue("after", after, "what `next` of an answer said", "leave it out to begin")
        if of != version:
            raise Unavailable("the shards were changed meanwhile", field="after", value=after, hint="export anew")
        state, following = await lanes[int(lane)].ask("exported", at or None)
        if following is None and int(lane) + 1 in lanes:
            lane, following = f"{int(lane) + 1}", ""
        return {"state": state, "next": None if following is None else f"{version}/{lane}/{following}"}

    # -- status -----------------------------------------------------------------------------------------------------------

    def _status(self, connection: Connection, params: m.StatusAsked, msgid: int | None) -> dict[str, Any] | None:
        return self.background.later("status", connection, msgid, self._status_of_all, params)

    async def _status_of_all(self, params: m.StatusAsked) -> dict[str, Any]:
        """Return the status of all shards together; components in the order of their shards, and there as `status` has them."""
        offset, limit, known = params.offset, params.limit, 0
        told: list[dict[str, Any]] = []
        named = None if isinstance(params.components, bool) else list(params.components)
        for lane in list(self.fleet.lanes):
            if named is not None:
                own = [name for name in named if self.fleet.lane_of(name) is lane]
                told.append(await lane.ask("status", own, 0, limit))
            else:
                there = sum(len(each["components"]) for each in told)
                told.append(await lane.ask("status", bool(params.components), max(offset - known, 0), limit - there))
            known += told[-1]["components_known"]
        every = [entry for each in told for entry in each["components"]]
        self.learning.count()
        held = self.held()
        scored = sum(each["predictions_scored"] for each in told)
        error = sum(each["predictions_scored"] * (each["prediction_error"] or 0.0) for each in told)
        kinds = {"programs": "program", "task_types": "task_type"}
        return {
            **told[0], "totals": dict(self.engine.totals), "components_known": known,
            "components_max": held.components_max, "state_bytes": held.state_bytes,
            "model_memory_bytes": held.model_bytes_max, "model_memory_used_bytes": held.model_bytes,
            **fate(**cast("Any", held.ledger)),
            "prediction_error": error / scored if scored else None, "predictions_scored": scored,
            **{
                kind: sorted((entry for each in told for entry in each[kind]), key=itemgetter(key))
                for kind, key in kinds.items()
            },
            "offset": offset, "components": every if named is None else every[offset : offset + limit],
            "service": self.health(),
        }  # fmt: skip

    def held(self) -> StateSize:
        """As `Hub.held`, of all shards together: what the front has are copies."""
        fleet = self.fleet
        ledger: dict[str, float] = dict.fromkeys(super().held().ledger, 0)
        for lane in fleet.lanes:
            for name, value in lane.told.get("ledger", {}).items():
                ledger[name] += value
        return StateSize(
            fleet.of_all("components"), self.config.components_max * len(fleet.lanes), fleet.of_all("bytes"),
            fleet.of_all("model_bytes"), fleet.of_all("model_bytes_max"), ledger,
        )  # fmt: skip

    def health(self) -> dict[str, Any]:
        """As `Hub.health`, with the shards."""
        return super().health() | {"shards": self.shards(), "moves": self._moves_told()}

    def shards(self) -> list[dict[str, Any]]:
        owned = Counter(self.fleet.layout.owner)
        return [
            {
                "shard": lane.number, "components": lane.told.get("components", 0), "buckets": owned[lane.number],
                "rows": lane.told.get("totals", {}).get("rows_accepted", 0), "bytes": lane.told.get("bytes", 0),
                "commits": lane.level, "rows_waiting": lane.rows, "lag_s": lane.age_s,
                "recoveries": max(len(lane.recoveries), 0),
                "failure": None if lane.failure is None else str(lane.failure),
            }
            for lane in self.fleet.lanes
        ]  # fmt: skip

    def _moves_told(self) -> dict[str, Any]:
        fleet, worst = self.fleet, self.copies.worst()
        return {
            "version": fleet.layout.version, "done": fleet.moves_done, "left": fleet.moves_left, "bytes": fleet.moved_bytes,
            "waiting_for": sorted({name for name, _ in fleet.uneven}), "copies": len(self.copies),
            "copies_behind_rows": worst.rows, "copies_behind_s": worst.seconds,
        }  # fmt: skip

    def _shards(self, connection: Connection, params: m.Shards, msgid: int | None) -> dict[str, Any] | None:
        if params.shards is None:
            return {"shards": self.shards(), "moves": self._moves_told()}
        self.background.later("shards", connection, msgid, self._scale, params.shards)
        return LATER

    async def _scale(self, shards: int) -> dict[str, Any]:
        moved = await self.fleet.scale(shards)
        self.learning.count()
        return {"shards": self.shards(), "moves": self._moves_told(), "moved": moved}


ASKED_ABOUT: Mapping[str, Callable[[ClusterHub, Any], Callable[[], Any] | None]] = {
    "predict": ClusterHub.about_components, "choose_cores": ClusterHub.about_components,
    "choose_together": ClusterHub.about_jobs, "suggest": ClusterHub.about_components, "curves": ClusterHub.about_components,
    "allocate": ClusterHub.about_networks, "allocate_together": ClusterHub.about_networks,
    "watch": ClusterHub.about_networks, "flow": ClusterHub.about_networks, "predict_run": ClusterHub.about_program,
}  # fmt: skip
