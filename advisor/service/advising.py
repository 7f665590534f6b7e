"""Advice that is there before it is asked for: defined networks are planned in the background for whoever polls.

An autoscaler asks every few seconds and does what it reads. So nothing is planned while it waits, and what it reads changes
only where a change is worth it: each look is judged as that of a watch is (`advisor.planning.stability`), taking what was
reported before as done.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel

from advisor.domain.allocations import Allocation
from advisor.domain.networks import Network
from advisor.engine import Engine
from advisor.errors import (
    AdvisorError,
    ImpossibleTarget,
    NotEnoughData,
    TargetNotReached,
    Unavailable,
    UnknownComponent,
    WorkFailed,
)
from advisor.planning.estimates import Setting
from advisor.planning.stability import Schedule, WatchQuestion
from advisor.service import questions
from advisor.service.key_kinds import EVERY_NETWORK, Advise
from advisor.service.logs import event
from advisor.service.planner import Planner
from advisor.service.snet_machine import usable_processors

REFRESH_S = 0.5  # between looks at which networks have new rows: advice follows them within a second or two
PLAN_SHARE = 0.25  # of the time that plans may take: others' questions come between
PLAN_COUNTED_S = 0.5  # of a plan: a longer one has waited for others, or for a worker process to start
SLICE = 32  # networks looked through at a time, a few microseconds each
SERIES_MAX = 4_096  # of the gauge of cores: some 15 ms of a scrape, in which nothing else is answered
ADVISED, IMPOSSIBLE, WAITING, FAILED = STATES = ("advised", "impossible", "waiting", "failed")
ASKED = ("cores", "objective", "target", "arrival_per_s", "instances_max", "turns", "level")  # said in the answer
# What an error says of an advice; every other one is a failure.
STATE_OF: tuple[tuple[tuple[type[AdvisorError], ...], str], ...] = (
    ((ImpossibleTarget, TargetNotReached), IMPOSSIBLE),
    ((UnknownComponent, NotEnoughData), WAITING),
)


@dataclass(slots=True)
class NetworkAdvice:
    """What is advised of one network."""

    network: Network  # the definition that was looked at
    schedule: Schedule = field(default_factory=Schedule)
    state: str = WAITING
    allocation: Allocation | None = None  # what was told last; None where nothing can be
    text: str = ""  # all of the answer that does not age, as JSON without its last bracket
    looked: tuple[float, float] | None = None  # (monotonic, wall) or None: when it was looked at


@dataclass(eq=False)
class Advising:
    """The advice of one service. One event loop, no locks."""

    engine: Engine  # whose networks and curves are asked for
    planner: Planner  # plans in worker processes
    # what to plan for, by network. Others are planned from when they are first asked about, for this machine's
    # processors.
    asked: tuple[Advise, ...]
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._asked = {each.network: each for each in self.asked}
        self._wanted: set[str] = set()
        self._advice: dict[str, NetworkAdvice] = {}

    async def run(self) -> None:
        """Follow what is learned until cancelled."""
        while True:
            await anyio.sleep(REFRESH_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Look again at each network that has rows enough since it was looked at, those that waited longest first."""
        self.engine.flush()
        for name in await self._due():
            began = self.clock()
            try:
                await self._look(name)
            except Exception as error:  # a defect of ours must not cost the others their advice
                event(logging.ERROR, "defect in advice", error=error, network=name)
            await anyio.sleep(min(self.clock() - began, PLAN_COUNTED_S) * (1.0 / PLAN_SHARE - 1.0))

    def of(self, name: str) -> tuple[str, str] | None:
        """Return the state of a network's advice and its JSON, None where it is not defined; from now on it is planned."""
        if not self.engine.advisor.components.flows.keeps(name):
            return None
        self._wanted.add(name)
        found = self._advice.get(name)
        if found is None or found.looked is None:
            return WAITING, _json({"network": name, "state": WAITING, "why": ["it is not planned yet"]})
        rows, _ = self.planner.learned_of(name)
        since, wall = found.looked
        fresh = {"planned_at": wall, "age_s": self.clock() - since, "rows": found.schedule.rows,
                 "rows_since": rows - found.schedule.rows}  # fmt: skip
        return found.state, f'{found.text}, "fresh": {_json(fresh)}}}'

    def states(self) -> dict[str, int]:
        """Return how many networks are planned for, by the state of their advice."""
        found = Counter(each.state for each in self._advice.values())
        return {state: found[state] for state in STATES}

    def series(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield network, component, cores of all its instances, and instances; components that share cores are one."""
        left = SERIES_MAX
        for name, advice in sorted(self._advice.items()):
            told = advice.allocation
            if told is None:
                continue
            left -= len(told.groups or told.cores)
            if left < 0:
                return
            for cores, keys in told.groups:
                yield name, "+".join(keys), cores, 1
            for key, cores in () if told.groups else told.cores.items():
                yield name, key, cores * told.instances[key], told.instances[key]

    # -- inside

    async def _due(self) -> list[str]:
        flows = self.engine.advisor.components.flows
        every = EVERY_NETWORK in self._asked
        names = [
            name for name in flows.kept if (every or name in self._asked or name in self._wanted) and flows.keeps(name)
        ]
        self._advice = {name: self._advice[name] for name in names if name in self._advice}
        due: list[str] = []
        for at, name in enumerate(names):
            if at % SLICE == 0:
                await anyio.lowlevel.checkpoint()
            network = flows.defined(name)
            found = self._advice.get(name)
            if found is None or found.network is not network:
                found = self._advice[name] = NetworkAdvice(network)
            rows, changes = self.planner.learned_of(name)
            if found.looked is None or found.schedule.due(rows, changes, len(network.keys)):
                due.append(name)
        return sorted(due, key=lambda name: (self._advice[name].looked or (0.0,))[0])

    def _request(self, name: str) -> tuple[Any, dict[str, Any]]:
        asked = self._asked.get(name) or self._asked.get(EVERY_NETWORK) or Advise(name, {})
        options = dict(asked.options)
        if "cores" not in options and options.get("objective") != "fewest_cores":
            options["cores"] = len(usable_processors())
        return questions.of_kept(self.engine.advisor, name, options)

    async def _look(self, name: str) -> None:
        advice = self._advice.get(name)
        if advice is None:
            return
        rows, changes = self.planner.learned_of(name)
        schedule = advice.schedule.looked(rows, changes)
        told: dict[str, Any] = {"network": name}
        try:
            network, request = self._request(name)
            told["asked"] = {key: value for key, value in request.items() if key in ASKED}
            present = None if advice.allocation is None else Setting.of(advice.allocation)
            question = WatchQuestion(present, look=schedule.looks)
            look = await self.planner.reconsider(network, request, question)
        except AdvisorError as error:
            told |= self._failed(advice, error)
            if isinstance(error, (Unavailable, WorkFailed)):
                schedule = advice.schedule  # it is looked at again soon
        else:
            advice.state, advice.allocation = ADVISED, look.allocation if look.pays else advice.allocation
            told |= _told(advice.allocation, look.values["best" if look.pays else "present"])
            told["why"] += [] if look.verdict is None else [look.verdict.text]
        advice.schedule, advice.looked = schedule, (self.clock(), time.time())
        told["state"] = advice.state
        advice.text = _json(told)[:-1]

    def _failed(self, advice: NetworkAdvice, error: AdvisorError) -> dict[str, Any]:
        """Say why there is no new advice; what was advised stays unless it is known to be wrong."""
        state = next((state for kinds, state in STATE_OF if isinstance(error, kinds)), FAILED)
        if state == FAILED and advice.allocation is not None:
            return _told(advice.allocation, None) | {"error": error.as_dict()}
        advice.state, advice.allocation = state, None
        return {"error": error.as_dict(), "why": [str(error)]}


def _told(allocation: Any, values: Any) -> dict[str, Any]:
    """Return what is advised, what it promises, what is expected of it since it was last looked at, and why."""
    promised = {"throughput_per_s": allocation.throughput_per_s, "latency_s": allocation.latency_s}
    return {
        "cores": dict(allocation.cores),
        "instances": dict(allocation.instances),
        "groups": [{"cores": cores, "components": list(keys)} for cores, keys in allocation.groups],
        "cores_used": allocation.cores_used,
        "promised": _finite(promised),
        "expected": None if values is None else _finite({key: values[key] for key in promised}),
        "bottleneck": list(allocation.bottleneck),
        "why": [reason.text for reason in allocation.why],
    }


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    return {key: value if math.isfinite(value) else None for key, value in values.items()}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
