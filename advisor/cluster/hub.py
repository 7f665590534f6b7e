"""The state in shards: the service is as it is, its rows go to shards, and its questions are answered from replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from operator import itemgetter
from typing import Any, cast

import anyio

from advisor.cluster.learning import RoutedLearning, refuse_profiles
from advisor.cluster.replicas import ComponentReplicas
from advisor.cluster.shard_set import ShardSet
from advisor.domain.limits import PRODUCERS_MAX
from advisor.engine import Engine
from advisor.engine.exactly_once import Producer, ProducerLedger
from advisor.engine.report import fate
from advisor.errors import AdvisorError, InvalidValue, TooLarge, Unavailable
from advisor.protocol import verbs as m
from advisor.service import questions
from advisor.service.backend import Gather, StateSize
from advisor.service.background import Handler
from advisor.service.connection import Connection
from advisor.service.hub import Hub
from advisor.service.producers import Producers

STALE_S = 0.5  # that an answer may lack rows: decisions of seconds do not need the last ones; `fresh` has them all
FETCHED_AT_ONCE = 1_000  # components, some 5 MB


class ShardCommits:
    """What the service asks its committer: here shards commit, and answers come when they have."""

    durable_storage = True
    answers_waiting = 0  # answers wait with their rows

    def __init__(self, shards: ShardSet, refresh: Callable[[], Any], every_s: float) -> None:
        self._shards, self._refresh, self._every_s = shards, refresh, every_s

    @property
    def failure(self) -> AdvisorError | None:
        """Why some shard cannot be opened, or written."""
        return next((shard.failure for shard in self._shards.shards if shard.failure is not None), None)

    @property
    def unsaved(self) -> bool:
        """True while something is not acknowledged."""
        return self._shards.busy

    @property
    def rows_waiting(self) -> int:
        """Rows that are not acknowledged."""
        return sum(shard.rows for shard in self._shards.shards)

    @property
    def age_s(self) -> float:
        """Seconds that the oldest of them has waited."""
        return max((shard.age_s for shard in self._shards.shards), default=0.0)

    def sequence(self, key: Producer) -> int:
        """Return the number that all shards have committed."""
        return self._shards.durable.get(key, 0)

    def check_storage(self) -> AdvisorError | None:
        """As `failure`."""
        return self.failure

    async def commit_changes(self) -> None:
        """Bring up to date what is followed, as long as the service lives."""
        while True:
            await anyio.sleep(self._every_s)
            await self._refresh()

    def discard_replies(self, who: object) -> None:
        """No answer is held."""

    def forget_evicted(self, keys: list[Producer]) -> None:
        """Have every shard forget producers."""
        for key in keys:
            self._shards.evict(key)

    def close(self) -> None:
        """Whoever has started the shards stops them."""


class RoutedBackend:
    """The state in shards, which have been started; as `advisor.service.local_backend.LocalBackend`."""

    def __init__(self, shards: ShardSet, hub: Hub) -> None:
        engine, config = hub.engine, hub.config
        self._hub, self._shards = hub, shards
        hub.producers = Producers(shards.durable)
        self._replicas = ComponentReplicas(engine, shards, age_s=STALE_S, most=config.components_max)
        self._replicas.watched = lambda: hub.watching.components
        self.committer = ShardCommits(shards, self._refresh, STALE_S / 2)
        self.learning = RoutedLearning(hub, self.committer, shards, self._replicas)
        counted = self.learning.counted
        engine.ledger = ProducerLedger(PRODUCERS_MAX, lambda name: counted.update((name,)))
        engine.ledger.applied.update(shards.durable)
        self.verbs: Mapping[str, Handler] = {
            "status": lambda _, params, __: partial(self._status, params),
            "export": lambda _, params, __: partial(self._export, params), "shards": self._scale_or_show,
            "task_events": refuse_profiles, "profile": refuse_profiles,
        }  # fmt: skip

    async def fetch_networks(self) -> None:
        """Fetch the networks, before anybody is served."""
        for part in await self._shards.each("networks"):
            self._hub.engine.replace_part(Engine.from_bytes(part))
        self.learning.sum_counters()

    async def _refresh(self) -> None:
        """Bring up to date what is followed, and those who follow it."""
        if await self._replicas.refresh():
            self._hub.watching.notify()
        self.learning.sum_counters()

    # -- questions --------------------------------------------------------------------------------------------------------

    def fetch_needed(self, method: str, params: Any) -> Gather | None:
        """Return what fetches the replicas that a question needs; None: they are here, and fresh enough."""
        if method in self.verbs or m.METHODS[method].scope != "read":
            return None
        if isinstance(params, m.PredictRun):
            return partial(self._replicas.fetch, (), (params.program,))
        if isinstance(params, (m.Allocate, m.AllocateTogether, m.FlowAsked)):  # a watch is an allocate
            return partial(self._fetch_networks, params)
        names = params.components_asked()
        if names is None:
            return self._fetch_all
        due = self._replicas.due(list(names), fresh=getattr(params, "fresh", False))
        return partial(self._replicas.fetch_with_siblings, due) if due else None

    async def _fetch_networks(self, params: Any) -> None:
        """Fetch the networks of a plan or watch, and the components of these."""
        await self._replicas.fetch(())
        if isinstance(params, m.FlowAsked) or getattr(params, "watch", None) is not None:
            return
        hub, advisor, names = self._hub, self._hub.engine.advisor, list[str]()
        try:
            if getattr(params, "networks", None) is None:
                network, request = questions.allocation_asked(advisor, params)
                asked = [(network, request.get("components", {}))]
            else:
                asked = [(one.network, one.components) for one in questions.together_asked(advisor, params)]
            for network, components in asked:
                boxes = (await hub.planner.read(network)).components
                names += [(components or {}).get(box, box) for box in boxes]
        except AdvisorError:
            return  # the question itself words it
        await self._fetch(self._replicas.due(names, fresh=getattr(params, "fresh", False)))

    async def _fetch_all(self) -> None:
        """Have a replica of every component; raises TooLarge where these are more than a front holds."""
        names = [name for each in await self._shards.each("names") for name in each]
        most = self._hub.config.components_max
        if len(names) > most:
            raise TooLarge("components", len(names), most, "name them, or raise components_max")
        await self._fetch(self._replicas.due(names))

    async def _fetch(self, due: list[str]) -> None:
        for start in range(0, len(due), FETCHED_AT_ONCE):
            await self._replicas.fetch_with_siblings(due[start : start + FETCHED_AT_ONCE], inf)

    async def _export(self, params: m.Export) -> dict[str, Any]:
        """Return the next page, shard by shard; `next` has the layout and the shard before what the shard says."""
        version = f"{self._shards.layout.version}"
        of, number, at = (*(params.after or f"{version}/0/").split("/", 2), "", "")[:3]
        shards = {f"{shard.number}": shard for shard in self._shards.shards}
        if number not in shards:
            raise InvalidValue("after", params.after, "what `next` of an answer said", "leave it out to begin")
        if of != version:
            raise Unavailable(
                "the shards were changed meanwhile", field="after", value=params.after, hint="export anew"
            )
        state, following = await shards[number].ask("exported", at or None)
        if following is None and f"{int(number) + 1}" in shards:
            number, following = f"{int(number) + 1}", ""
        return {"state": state, "next": None if following is None else f"{version}/{number}/{following}"}

    # -- status -----------------------------------------------------------------------------------------------------------

    async def _status(self, params: m.StatusAsked) -> dict[str, Any]:
        """Return the status of all shards together; components in the order of their shards, and there as `status` has them."""
        offset, limit, known = params.offset, params.limit, 0
        found: list[dict[str, Any]] = []
        entries: list[dict[str, Any]] = []
        named = None if isinstance(params.components, bool) else list(params.components)
        for shard in list(self._shards.shards):
            if named is not None:
                own = [name for name in named if self._shards.shard_of(name) is shard]
                found.append(await shard.ask("status", own, 0, limit))
            else:
                page = max(offset - known, 0), limit - len(entries)
                found.append(await shard.ask("status", None if params.components else (), *page))
            known += found[-1]["components_known"]
            entries += found[-1]["components"]
        self.learning.sum_counters()
        held = self.held()
        return {
            **found[0], "totals": dict(self._hub.engine.totals), "components_known": known,
            "components_max": held.components_max, "state_bytes": held.state_bytes,
            "model_memory_bytes": held.model_bytes_max, "model_memory_used_bytes": held.model_bytes,
            **fate(**cast("Any", held.ledger)),
            "programs": sorted((program for each in found for program in each["programs"]), key=itemgetter("program")),
            "offset": offset, "components": entries if named is None else entries[offset : offset + limit],
            "service": self._hub.health(),
        }  # fmt: skip

    def held(self) -> StateSize:
        """Return what all shards hold together: what the front has are replicas."""
        reports = [shard.report for shard in self._shards.shards]
        ledger = dict.fromkeys(self._hub.engine.advisor.ledger(), 0) | self._shards.summed("ledger")
        components, state_bytes, model_bytes, model_bytes_max = (
            sum(report.get(key, 0) for report in reports)
            for key in ("components", "bytes", "model_bytes", "model_bytes_max")
        )
        most = self._hub.config.components_max * len(reports)
        return StateSize(components, most, state_bytes, model_bytes, model_bytes_max, ledger)

    def health(self) -> dict[str, Any]:
        """Return what `status` adds about the shards."""
        shards = self._shards
        moves = {
            "version": shards.layout.version, "left": shards.moves_left, "replicas_behind_s": self._replicas.age_s,
            "waiting_for": sorted({name for name, _ in shards.uneven}),
        }  # fmt: skip
        return {"shards": self.shards(), "moves": moves}

    def shards(self) -> list[dict[str, Any]]:
        """Return how each shard stands."""
        owned = Counter(self._shards.layout.owner)
        return [
            {
                "shard": shard.number, "components": shard.report.get("components", 0), "buckets": owned[shard.number],
                "rows": shard.report.get("totals", {}).get("rows_accepted", 0), "bytes": shard.report.get("bytes", 0),
                "commits": shard.report.get("commits", 0), "rows_waiting": shard.rows, "lag_s": shard.age_s,
                "recoveries": shard.recoveries, "failure": None if shard.failure is None else str(shard.failure),
            }
            for shard in self._shards.shards
        ]  # fmt: skip

    def _scale_or_show(self, _: Connection, params: m.Shards, __: int | None) -> Any:
        if params.shards is None:
            return self.health()

        async def scale() -> dict[str, Any]:
            moved = await self._shards.scale(cast("int", params.shards))
            return self.health() | {"moved": moved}

        return scale
