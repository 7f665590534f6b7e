"""Advice that is there before it is asked for: defined networks are watched for whoever polls `/advice/NETWORK`.

An autoscaler asks every few seconds and does what it reads. So nothing is planned while it waits, and what it reads changes
only where a change is worth it: each network is watched by the verb `watch`, taking what was reported before as done.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from advisor.domain.json_bytes import as_json
from advisor.errors import AdvisorError, InvalidValue
from advisor.service.hub import Hub
from advisor.service.load import LOOK_S, NetworkLoad, Totals, read_load
from advisor.service.local_client import LocalClient
from advisor.service.logs import event
from advisor.service.metrics import family
from advisor.service.option_types import EVERY_NETWORK, Advise
from advisor.service.snet_machine import usable_processors
from advisor.service.watching import LOOK_SHARE

REFRESH_S = 0.5  # between looks at which networks are defined
SERIES_MAX = 4_096  # of the gauge of cores: some 15 ms of a scrape, in which nothing else is answered
ADVISED, IMPOSSIBLE, WAITING, FAILED = STATES = ("advised", "impossible", "waiting", "failed")
ASKED = ("cores", "objective", "target", "arrival_per_s", "instances_max", "turns", "level")  # said in the answer
# What the code of an error says of an advice; every other one is a failure.
STATE_OF = {
    "impossible": IMPOSSIBLE, "not_reached": IMPOSSIBLE, "unknown_component": WAITING, "not_enough_data": WAITING,
}  # fmt: skip
PROMISED = ("throughput_per_s", "latency_s")


@dataclass(slots=True)
class NetworkAdvice:
    """What is advised of one network."""

    network: Any  # the definition that is watched
    watch: int = 0  # its number; 0: it cannot be watched
    state: str = WAITING
    allocation: Mapping[str, Any] | None = None  # what was advised last; None where nothing can be
    error: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    again_at: float = math.inf  # when to try again, where the service failed to plan it

    def failed(self, error: Mapping[str, Any]) -> None:
        """Note why there is no new advice; what was advised stays unless it is known to be wrong."""
        self.error, state = error, STATE_OF.get(error["code"], FAILED)
        if state != FAILED or self.allocation is None:
            self.state, self.allocation = state, None

    def take_report(self, found: Mapping[str, Any], *, pushed: bool) -> None:
        """Note what a watch reports; what was advised changes by what it pushes."""
        if found.get("allocation") is None:
            self.failed(found["error"])
            return
        self.state, self.error = ADVISED, None
        if pushed or self.allocation is None:
            self.allocation = found["allocation"]


class AdviceFace:
    """The advice of one service. One event loop, no locks.

    asked: what to plan for, by network. Others are planned from when they are first asked about, for this machine's
    processors.
    defined: returns the definition of each network that is kept by id
    read: the load of all networks from an address, in a thread; clock: seconds of it
    """

    def __init__(
        self, hub: Hub, asked: Sequence[Advise], defined: Callable[[], Mapping[str, Any]],
        read: Callable[[str], Totals] = read_load, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._asked = {each.network: each for each in asked}
        self._read, self._clock = read, clock
        self._loads: dict[str, NetworkLoad] = {}
        self._read_at = -math.inf
        self._unread = False
        self._ask = LocalClient(hub, self._take_news).ask
        self._defined = defined
        self._wanted: set[str] = set()
        self._advice: dict[str, NetworkAdvice] = {}

    async def run(self) -> None:
        """Watch what is defined and wanted, until cancelled."""
        while True:
            await anyio.sleep(REFRESH_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Watch the networks that are wanted, and not watched as they are defined now, or for another load."""
        await self._read_loads()
        defined, every = self._defined(), EVERY_NETWORK in self._asked
        for name in [name for name in self._advice if name not in defined]:
            await self._end(self._advice.pop(name))
        for name, network in defined.items():
            if every or name in self._asked or name in self._wanted:
                found, options = self._advice.get(name), self._options(name)
                if options is None:  # no load was read yet
                    continue
                changed = found is not None and (found.network is not network or found.options != options)
                if found is not None and (changed or self._clock() >= found.again_at):
                    await self._end(found)
                    found = None
                if found is None:
                    found = self._advice[name] = NetworkAdvice(network, options=options)
                    await self._begin(name, found)

    async def _read_loads(self) -> None:
        """Read the loads that are followed, each `LOOK_S`; what cannot be read is logged once and leaves the last advice."""
        now = self._clock()
        followed = {name: each.follow for name in self._defined() if (each := self._asked_of(name)) and each.follow}
        if not followed or now - self._read_at < LOOK_S:
            return
        self._read_at = now
        for name in [name for name in self._loads if name not in followed]:
            del self._loads[name]
        for url in {follow.url for follow in followed.values()}:
            try:
                totals = await anyio.to_thread.run_sync(self._read, url, abandon_on_cancel=True)
            except (OSError, ValueError) as error:
                if not self._unread:
                    event(logging.WARNING, "no load", error=error, url=url)
                self._unread = True
                continue
            self._unread = False
            for name, follow in followed.items():
                if follow.url == url:
                    load = self._loads.setdefault(name, NetworkLoad(follow))
                    known = self._advice.get(name)
                    latency_s = known.allocation["latency_s"] if known and known.allocation else None
                    load.add_reading(now, totals, name, latency_s)

    async def advice_of(self, name: str) -> dict[str, Any] | None:
        """Return what is reported of a network's advice, None where it is not defined; from now on it is planned."""
        if name not in self._defined():
            return None
        self._wanted.add(name)
        report: dict[str, Any] = {"network": name}
        found = self._advice.get(name)
        if found is None or not (found.watch or found.error):
            return report | {"state": WAITING, "why": ["it is not planned yet"]}
        seen: dict[str, Any] = {}
        if found.watch:
            with suppress(InvalidValue):  # it ended meanwhile, for another load or definition
                seen = await self._ask("watch", watch=found.watch)
                found.take_report(seen, pushed=False)
        if (load := self._loads.get(name)) is not None:
            best = found.allocation["throughput_per_s"] if found.allocation else 0.0
            report["load"] = load.report(self._clock()) | {"reached": best >= (load.rate_per_s or 0.0)}
        report["asked"] = {key: value for key, value in found.options.items() if key in ASKED}
        if found.allocation is not None:
            report |= _advised(found, seen)
        else:
            report["why"] = [str((found.error or {}).get("message"))]
        if found.error is not None:
            report["error"] = found.error
        if "fresh" in seen:
            report["fresh"] = {"planned_at": time.time() - seen["fresh"]["age_s"], **seen["fresh"]}
        return report | {"state": found.state}

    async def answer(self, request: Request) -> Response:
        """Answer `/advice/NETWORK`."""
        report = await self.advice_of(request.path_params["network"])
        if report is None:
            return PlainTextResponse(
                "no network is defined by this id: a client defines it by define_network\n", status_code=404
            )
        known = report["state"] in (ADVISED, IMPOSSIBLE)
        headers = {"cache-control": "no-store"} | ({} if known else {"retry-after": "1"})
        return Response(as_json(report), 200 if known else 503, headers, "application/json")

    def collect(self) -> Iterator[Metric]:
        """Return what is advised, for Prometheus."""
        counts = Counter(each.state for each in self._advice.values())
        about = "Networks planned for, by what came of it"
        yield family(
            GaugeMetricFamily, "advisor_advised_networks", "state", about, {each: counts[each] for each in STATES}
        )
        labels = ["network", "component"]
        cores = GaugeMetricFamily("advisor_recommended_cores", "Cores advised, of all instances", labels=labels)
        instances = GaugeMetricFamily("advisor_recommended_instances", "Instances advised", labels=labels)
        for network, component, on, of in self.series():
            cores.add_metric([network, component], on)
            instances.add_metric([network, component], of)
        yield from (cores, instances)

    def series(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield network, component, cores of all its instances, and instances; components that share cores are one."""
        left = SERIES_MAX
        for name, advice in sorted(self._advice.items()):
            report = advice.allocation or {"cores": {}, "instances": {}}
            groups: Sequence[Mapping[str, Any]] = report.get("groups") or ()
            left -= len(groups or report["cores"])
            if left < 0:
                return
            for group in groups:
                yield name, "+".join(group["components"]), group["cores"], 1
            for key, cores in () if groups else report["cores"].items():
                yield name, key, cores * report["instances"][key], report["instances"][key]

    # -- inside

    def _asked_of(self, name: str) -> Advise | None:
        return self._asked.get(name) or self._asked.get(EVERY_NETWORK)

    def _options(self, name: str) -> dict[str, Any] | None:
        """Return the options of a network's plan, None before the load that it follows was read."""
        asked = self._asked_of(name)
        options = {} if asked is None else dict(asked.options)
        if asked is not None and asked.follow is not None:
            load = self._loads.get(name)
            if load is None or load.rate_per_s is None:
                return None
            options |= {"objective": "fewest_cores", "target": {"throughput_per_s": load.rate_per_s}}
        if "cores" not in options and options.get("objective") != "fewest_cores":
            options["cores"] = len(usable_processors())
        return options

    async def _begin(self, name: str, advice: NetworkAdvice) -> None:
        await self._watch(name, advice, advice.options)
        if advice.state == IMPOSSIBLE and name in self._loads:  # more comes than can be done: as much as can be
            await self._end(advice)
            most = {key: value for key, value in advice.options.items() if key not in ("objective", "target")}
            await self._watch(name, advice, {"cores": len(usable_processors())} | most)

    async def _watch(self, name: str, advice: NetworkAdvice, options: Mapping[str, Any]) -> None:
        began = self._clock()
        try:
            seen = await self._ask("watch", network=name, **options)
        except AdvisorError as error:
            advice.failed(error.as_dict())
            if error.retry:
                advice.again_at = self._clock() + (self._clock() - began) * (1.0 / LOOK_SHARE - 1.0)
        else:
            advice.watch = seen["watch"]
            advice.take_report(seen, pushed=False)

    async def _end(self, advice: NetworkAdvice) -> None:
        if advice.watch:
            await self._ask("unwatch", watch=advice.watch)

    def _take_news(self, item: Mapping[str, Any]) -> None:
        for advice in self._advice.values():
            if advice.watch == item["watch"]:
                advice.take_report(item, pushed=True)


def _advised(advice: NetworkAdvice, seen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is advised, what it promises, what is expected of it since it was last looked at, and why."""
    allocation: Mapping[str, Any] = advice.allocation or {}
    values = seen.get("best" if seen.get("verdict") in (None, "worth") else "present")
    return {
        **{key: allocation[key] for key in ("cores", "instances", "cores_used")},
        "groups": list(allocation.get("groups", ())),
        "promised": {key: allocation.get(key) for key in PROMISED},
        "expected": None if values is None else {key: values.get(key) for key in PROMISED},
        "bottleneck": list(allocation["bottleneck"]),
        "why": [reason["text"] for reason in allocation.get("why", ())] + ([seen["why"]] if seen.get("why") else []),
    }
