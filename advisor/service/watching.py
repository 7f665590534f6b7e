"""Watches: networks whose allocation is looked at again as rows come, and advice when a better one is worth it.

A look costs a plan. It is taken at counts of the network's rows that are spaced (`advisor.planning.stability.Schedule`),
at once when a component's speed was found to have changed, and never for more than a share of the time; the plan is made
in a worker process. Between looks a batch of rows costs a few array operations, whatever the number of watches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import anyio
import numpy as np

from advisor.domain.allocations import Allocation
from advisor.domain.observations import Columns
from advisor.engine import Engine
from advisor.errors import (
    AdvisorError,
    InvalidValue,
    NotEnoughData,
    TooLarge,
    Unavailable,
    UnknownComponent,
)
from advisor.planning.estimates import Setting
from advisor.planning.outcomes import Outcome
from advisor.planning.stability import Look, WatchQuestion
from advisor.protocol.connection import encode_notification
from advisor.service import questions
from advisor.service.logs import event
from advisor.service.measures import ServiceMeasures
from advisor.service.observed_cores import ObservedCores
from advisor.service.planner import Planner
from advisor.service.subscriptions import Subscriptions
from advisor.service.watch import WatchedNetwork, cost_of, judgement, policy_of, values_told

WATCHES_MAX = 1_000  # of the service: one a connection at its default limit
WATCHES_CONNECTION_MAX = 16  # of one connection: as many as it may have subscriptions
LOOK_COUNTED_S = 1.0  # of a look: a longer one has waited for others, or for a worker process to start
LOOK_SHARE = 0.1  # of the time that looks of one watch may take: after one of a second the next comes 9 seconds later
PUSH_EVERY_S = 0.01  # between two pushes of one watch


@dataclass(eq=False)
class Watching:
    """All watches of a service. One event loop, no locks."""

    # engine, subscriptions, measures: whose rows, who is told, what is counted
    engine: Engine
    planner: Planner  # reads networks, makes curves and plans, here or in a worker process
    subscriptions: Subscriptions
    measures: ServiceMeasures
    spawn: Callable[..., object]  # starts a coroutine in the background
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._advisor = self.engine.advisor
        self._components = self.engine.advisor.components
        self._turn = anyio.Lock()  # one look at a time: watches must not crowd out who waits for an answer
        self._numbered = 0
        self._watches: dict[int, WatchedNetwork] = {}
        self._observed = ObservedCores(self._components)
        self._by_place: dict[int, list[WatchedNetwork]] = {}

    def __len__(self) -> int:
        return len(self._watches)

    @property
    def components(self) -> set[str]:
        """The components of all watches."""
        return {name for watch in self._watches.values() for name in watch.components}

    # -- verbs

    async def open(self, owner: Any, params: Any) -> dict[str, Any]:
        """Begin to watch a network; return the first allocation, as far as enough is known for one.

        Raises NetworkSyntax, InvalidValue, TooLarge, Unsupported, ImpossibleTarget, MissingShares, Unavailable, WorkFailed.
        """
        keys, components = await self._read(params)
        self._refuse_too_many(owner)
        self._numbered += 1
        watch = WatchedNetwork(
            number=self._numbered,
            owner=owner,
            params=params,
            keys=keys,
            components=components,
            objective=params.objective or "throughput",
            policy=policy_of(params),
            cost=cost_of(params.change_cost_s, keys),
            shadow=params.shadow,
            present=None if params.current is None else Setting.given("current", params.current, keys),
        )
        watch.places = self._observed.add(watch.components)
        for place in set(watch.places.tolist()):
            self._by_place.setdefault(place, []).append(watch)
        self._watches[watch.number] = watch
        try:
            self.subscriptions.add(owner, ("watch", watch.number), lambda: self._news(watch), PUSH_EVERY_S)
            look = await self._look(watch)
            watch.again_at = watch.rest_until = 0.0  # the first has waited for a worker process, perhaps
        except BaseException:
            self._end(watch)
            raise
        if watch.present is None and look is not None and not watch.shadow:
            watch.present = Setting.of(look.allocation)  # what was asked for is taken as done
        watch.told.clear()  # the answer says it
        return self._state(watch, first=True)

    async def _read(self, params: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the keys of what is to be watched, of several networks ``name:key``, and the component of each."""
        if params.networks is None:
            network, request = questions.allocation_asked(self._advisor, params)
            read, names = await self.planner.read(network), request.get("components", {})
            return read.keys, tuple(names.get(box, box) for box in read.components)
        keys, components = list[str](), list[str]()
        for one in questions.together_asked(self._advisor, params):
            read = await self.planner.read(one.network)
            keys += [f"{one.name}:{key}" for key in read.keys]
            components += [one.components.get(box, box) for box in read.components]
        return tuple(keys), tuple(components)

    def tell(self, owner: Any, params: Any) -> dict[str, Any]:
        """Take in what the runtime did about an advice; return where the watch stands.

        Raises InvalidValue when the connection has no such watch, or nothing was advised that could be applied.
        """
        watch = self._find(owner, params.watch)
        if params.applied is True:
            applied = watch.advised or watch.best
            if applied is None:
                raise InvalidValue("applied", True, "a map by key: nothing was advised yet")
            self._apply(watch, Setting.of(applied), params.took_s)
        elif isinstance(params.applied, dict):
            self._apply(
                watch, Setting.given("applied", cast("dict[str, Any]", params.applied), watch.keys), params.took_s
            )
        elif params.took_s is not None:
            raise InvalidValue("took_s", params.took_s, "given with applied: of which change it is the cost")
        return self._state(watch)

    def close(self, owner: Any, number: int) -> dict[str, Any]:
        """Watch no more; raises InvalidValue."""
        self._end(self._find(owner, number))
        return {"watch": number}

    def leave(self, owner: Any) -> None:
        """Forget the watches of a connection that is gone."""
        for watch in [each for each in self._watches.values() if each.owner is owner]:
            self._end(watch)

    # -- rows

    def observed(self, columns: Columns) -> None:
        """Take in a batch that the engine has folded; look again where that is due. Cost O(rows + watched components hit)."""
        found = self._observed.fold(columns)
        if found is None:
            return
        places, cores, elapsed_s = found
        n = np.bincount(places)
        touched: dict[WatchedNetwork, None] = {}
        for place in np.flatnonzero(n).tolist():
            for watch in self._by_place.get(place, ()):
                watch.rows += int(n[place])
                touched[watch] = None
        for watch in touched:
            if watch.tally is not None:
                watch.tally.add(places, cores, elapsed_s)
            self._consider(watch)

    def sweep(self) -> None:
        """Look again at what was due when it was too soon after the last look: called every few seconds."""
        for watch in list(self._watches.values()):
            self._consider(watch)

    def _consider(self, watch: WatchedNetwork) -> None:
        now = self.clock()
        if watch.looking or now < watch.rest_until:
            return
        changes = self._changes(watch)
        # A change of speed is looked into at once: it cannot wait until the last look has been paid for.
        if now < watch.again_at and changes == watch.schedule.changes:
            return
        if watch.schedule.due(watch.rows, changes, len(watch.keys)):
            watch.looking = True
            self.spawn(self._look_again, watch)

    def _changes(self, watch: WatchedNetwork) -> int:
        """Return how often the speed of the network's components was found to have changed."""
        total = self._components.totals["changes"]
        if total != watch.changes_seen:
            slots = [
                slot for name in set(watch.components) if (slot := self._components.slots.by_name.get(name)) is not None
            ]
            watch.changes = int(self._components.table.count("changes")[slots].sum()) if slots else 0
            watch.changes_seen = total
        return watch.changes

    # -- looks

    async def _look_again(self, watch: WatchedNetwork) -> None:
        try:
            if watch.number in self._watches:
                await self._look(watch)
        except AdvisorError as error:
            self._failed(watch, error)
        except Exception as error:  # a defect of ours must not cost the others their advice
            event(logging.ERROR, "defect in a watch", error=error, watch=watch.number)
        finally:
            watch.looking = False

    async def _look(self, watch: WatchedNetwork) -> Look | None:
        """Plan again and find what to report. Raises as `open`."""
        began = self.clock()
        watch.schedule = watch.schedule.looked(watch.rows, self._changes(watch))
        try:
            actual = self._observed.present(
                watch.keys, watch.places, {} if watch.present is None else watch.present.instances
            )
            if watch.shows_advice(actual):
                self._apply(watch, Setting.of(cast("Allocation", watch.advised)), None)
            present = actual if watch.shadow else watch.present
            question = WatchQuestion(
                present, None if watch.advised is None else Setting.of(watch.advised), watch.cost, watch.policy,
                watch.schedule.looks, actual, None if watch.promise is None else watch.promise[2],
            )  # fmt: skip
            look = await self._in_turn(watch, question)
        except (UnknownComponent, NotEnoughData, Unavailable) as error:
            watch.waiting = str(error)
            self.measures.replans["waiting"] += 1
            return None
        finally:
            now = self.clock()
            took = min(now - began, LOOK_COUNTED_S)
            watch.rest_until = now + took
            watch.again_at = now + took * (1.0 / LOOK_SHARE - 1.0)
        self.measures.replans[look.kind or "nothing"] += 1
        self._found(watch, look)
        return look

    async def _in_turn(self, watch: WatchedNetwork, question: WatchQuestion) -> Look:
        """Reconsider a plan when it is the watch's turn; a watch that ends meanwhile waits no longer."""
        with anyio.CancelScope() as watch.queued:
            await self._turn.acquire()
        if watch.queued.cancelled_caught:
            raise Unavailable("the watch has ended")
        try:
            if watch.params.networks is not None:
                asked, of_all = (
                    questions.together_asked(self._advisor, watch.params),
                    questions.of_all_asked(watch.params),
                )
                return await self.planner.reconsider_together(asked, of_all, watch.objective, question)
            network, request = questions.allocation_asked(self._advisor, watch.params)
            watch.asked = network, request
            return await self.planner.reconsider(network, request, question)
        finally:
            self._turn.release()

    def _found(self, watch: WatchedNetwork, look: Look) -> None:
        """Say what a look found, and keep account of what the runtime did meanwhile."""
        first = watch.best is None
        watch.waiting, watch.failure = "", ""
        watch.best, watch.figures = look.allocation, look.values
        watch.verdict = look.verdict
        span, lost_s = watch.account(self.clock())
        self.measures.watched_s += span
        self.measures.regret_s += lost_s
        changed = watch.judged(look)
        if changed is not None:
            self._say_outcome(watch, changed)
        if watch.shadow:
            return
        if look.kind == "first":
            watch.present = Setting.of(look.allocation)
            if first:
                self._say(watch, "first", look)
        elif look.kind == "advice":
            watch.advised = look.allocation
            watch.advised_values = look.values
            self._say(watch, "advice", look)
        elif look.kind == "withdrawn":
            watch.advised = None
            self._say(watch, "withdrawn", look)

    def _say(self, watch: WatchedNetwork, kind: str, look: Look) -> None:
        allocation = self._kept(watch, look.allocation)
        item: dict[str, Any] = {"watch": watch.number, "kind": kind, "allocation": allocation} | values_told(
            look.values
        )
        if look.verdict is not None:
            item |= judgement(look.verdict)
        self._push(watch, item)

    def _kept(self, watch: WatchedNetwork, allocation: Allocation) -> dict[str, Any]:
        """Return an allocation as it is sent; the page shows it among the last answers."""
        sent = allocation.as_dict()
        if watch.params.networks is None:
            self.planner.answers.append(*watch.asked, sent)
        return sent

    def _push(self, watch: WatchedNetwork, item: dict[str, Any]) -> None:
        """Tell it with the next push; an unsent one of its kind is replaced."""
        watch.told = [each for each in watch.told if each["kind"] != item["kind"]] + [item]
        self.measures.notifications[item["kind"]] += 1
        self.subscriptions.stir()

    def _say_outcome(self, watch: WatchedNetwork, found: Outcome) -> None:
        self.measures.outcomes["paid" if found.paid else "not_paid"] += 1
        self._push(
            watch,
            {
                "watch": watch.number, "kind": "outcome", "paid": found.paid, "before_s": found.before,
                "promised_s": found.promised, "measured_s": found.measured, "why": found.text,
            },
        )  # fmt: skip

    def _apply(self, watch: WatchedNetwork, present: Setting, took_s: float | None) -> None:
        watch.apply(present, took_s)
        self.measures.applied += 1

    async def _news(self, watch: WatchedNetwork) -> bytes | None:
        if not watch.told:
            return None
        told, watch.told = watch.told, []
        return encode_notification("advice", [told])

    def _failed(self, watch: WatchedNetwork, error: AdvisorError) -> None:
        """A look failed: said once, until one succeeds again."""
        self.measures.replans["failed"] += 1
        watch.verdict = None
        watch.waiting = str(error)
        if watch.failure != error.code:
            watch.failure = error.code
            self._push(watch, {"watch": watch.number, "kind": "failed", "error": error.as_dict()})

    # -- what is told of watches

    def status(self, limit: int) -> dict[str, Any]:
        """Return how many there are, and of the first how they fare."""
        measures = self.measures
        return {
            "watches": len(self._watches),
            "notifications": dict(measures.notifications),
            "replans": dict(measures.replans),
            "outcomes": dict(measures.outcomes),
            "regret": measures.regret_s / measures.watched_s if measures.watched_s else None,
            "first": [watch.brief() for watch in list(self._watches.values())[:limit]],
        }

    def regrets(self) -> list[float]:
        """Return the regret of each watch at its last look."""
        return [watch.regret for watch in self._watches.values() if "actual" in watch.figures]

    def _state(self, watch: WatchedNetwork, *, first: bool = False) -> dict[str, Any]:
        verdict = watch.verdict
        allocation = None
        if watch.best is not None:
            allocation = self._kept(watch, watch.best) if first else watch.best.as_dict()
        state = watch.brief() | {"allocation": allocation} | values_told(watch.figures)
        return state | (judgement(verdict) if verdict is not None else {})

    # -- inside

    def _find(self, owner: Any, number: int) -> WatchedNetwork:
        watch = self._watches.get(number)
        if watch is None or watch.owner is not owner:
            raise InvalidValue("watch", number, "a watch of this connection", "watches end with their connection")
        return watch

    def _refuse_too_many(self, owner: Any) -> None:
        if len(self._watches) >= WATCHES_MAX:
            raise Unavailable("too many watches", field="watch", bound=WATCHES_MAX, hint="unwatch what nobody needs")
        own = sum(watch.owner is owner for watch in self._watches.values())
        if own >= WATCHES_CONNECTION_MAX:
            raise TooLarge("watches of a connection", own + 1, WATCHES_CONNECTION_MAX, "unwatch what is not needed")

    def _end(self, watch: WatchedNetwork) -> None:
        if self._watches.pop(watch.number, None) is None:
            return
        if watch.queued is not None:
            watch.queued.cancel()
        self.subscriptions.remove(watch.owner, ("watch", watch.number))
        self._observed.drop(watch.components)
        for place in set(watch.places.tolist()):
            self._by_place[place].remove(watch)
            if not self._by_place[place]:
                del self._by_place[place]
