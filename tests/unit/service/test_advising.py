"""Advice that is polled: planned in the background, steady, and honest where there is none."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from live import running
from prometheus_client.parser import text_string_to_metric_families as parse_text

from advisor.domain.json_bytes import as_json
from advisor.engine import Engine
from advisor.errors import InvalidValue, Unavailable, WorkFailed
from advisor.protocol.verbs import check_params
from advisor.service import load_config, worker
from advisor.service.advice import AdviceFace
from advisor.service.answers import RecentAnswers
from advisor.service.heavy import Heavy
from advisor.service.load import ARRIVED, UNFINISHED
from advisor.service.measures import ServiceMeasures
from advisor.service.planner import Planner
from advisor.service.watching import Watching

TEXT = "blur .. write"
PATIENCE_S = 120.0  # for a worker process to start on a machine that is very busy
ADAPTERS_PAGE = (Path(__file__).parents[3] / "docs" / "adapters.md").read_text()


def rows(n: int, seed: int = 0, slow: float = 1.0) -> list[list[Any]]:
    """Rows of two boxes with 5 % noise: 0.1 / p + 0.02 and twice that, in seconds."""
    noise = np.exp(0.05 * np.random.default_rng(seed).standard_normal(n)).tolist()
    found: list[list[Any]] = []
    for i in range(n):
        p = float(1 << i // 2 % 4)
        seconds = (0.1 / p + 0.02) * noise[i]
        found.append([("blur", "write")[i % 2], 1.0, p, seconds * (slow if i % 2 == 0 else 2.0)])
    return found


class Inline(Heavy):
    """Plans here, by what a worker process would run."""

    def __init__(self) -> None:
        super().__init__(60.0)

    async def _run(self, job: bytes) -> bytes:
        return worker.do_packed(job)


class Adviser:
    """The advice of one engine, whose watches look when they are told to, with a clock that stands still."""

    def __init__(self, *advise: str) -> None:
        self.engine, self.now = Engine(), 0.0
        self.planner = Planner(self.engine.advisor, Inline(), RecentAnswers())
        self.watching = Watching(self.engine, self.planner, ServiceMeasures(), clock=lambda: self.now)
        asked = load_config(socket="/s", advise=list(advise)).advise
        flows = self.engine.advisor.components.flows
        self.advice = AdviceFace(
            self, asked, lambda: {name: flows.defined(name) for name in flows.known}, clock=lambda: self.now
        )

    async def ask(self, client: Any, method: str, given: dict[str, Any]) -> Any:
        """Answer as a service does."""
        params = check_params(method, [given])
        if method == "unwatch":
            return self.watching.close(client, params.watch)
        if params.watch is not None:
            return self.watching.apply_current(client, params)
        return await self.watching.open(client, params)

    def learn(self, given: list[list[Any]]) -> None:
        for component, predictor, cores, elapsed_s in given:
            self.engine.advisor.observe(component, predictor=predictor, cores=cores, elapsed_s=elapsed_s)

    async def reported(self, name: str) -> dict[str, Any]:
        found = await self.advice.advice_of(name)
        assert found is not None
        return json.loads(as_json(found))

    async def looked(self, name: str) -> dict[str, Any]:
        await self.advice.refresh()
        self.now += 1e6  # looks may take all of the time
        await self.watching.round()
        return await self.reported(name)

    def states(self) -> dict[str, float]:
        (family,) = (each for each in self.advice.collect() if each.name == "advisor_advised_networks")
        return {sample.labels["state"]: sample.value for sample in family.samples}


async def test_what_is_told_is_what_allocate_answers() -> None:
    it = Adviser("film=throughput_per_s:20,instances_max:8", "other=cores:8")
    it.engine.advisor.define_network(TEXT, id="film")
    it.engine.advisor.define_network("write .. blur", id="other")
    assert (await it.looked("film"))["state"] == "waiting"
    it.learn(rows(80))
    reported = await it.looked("film")
    target = {"throughput_per_s": 20.0}
    plan = it.engine.advisor.allocate("film", objective="fewest_cores", target=target, instances_max=8)
    assert (reported["cores"], reported["instances"], reported["cores_used"]) == (
        plan.cores,
        plan.instances,
        plan.cores_used,
    )
    assert reported["promised"]["throughput_per_s"] >= 20
    assert reported["asked"] == {"objective": "fewest_cores", "target": target, "instances_max": 8}
    assert [reason.text for reason in plan.why] == reported["why"][: len(plan.why)]
    other = it.engine.advisor.allocate("other", cores=8)
    (expected,) = (reason.value for reason in other.why if reason.code == "level")
    reported = await it.reported("other")
    assert reported["promised"] == {"throughput_per_s": other.throughput_per_s, "latency_s": other.latency_s}
    assert reported["expected"]["throughput_per_s"] == pytest.approx(expected)
    assert reported["expected"]["throughput_per_s"] > other.throughput_per_s
    assert reported["expected"]["latency_s"] < other.latency_s
    looked = (await it.reported("film"))["fresh"]
    it.now += 7.5
    it.learn(rows(3))
    fresh = (await it.reported("film"))["fresh"]
    assert (fresh["age_s"], fresh["rows"], fresh["rows_since"]) == (looked["age_s"] + 7.5, 80, 3)


async def test_an_impossible_target_says_so_and_gives_no_cores() -> None:
    it = Adviser("film=latency_s:0.05,cores:64")
    it.engine.advisor.define_network(TEXT, id="film")
    it.learn(rows(80))
    reported = await it.looked("film")
    assert reported["state"] == "impossible"
    assert reported["error"]["code"] == "not_reached"
    assert reported["error"]["bound"] > 0.05
    assert reported["why"][0].startswith(reported["error"]["message"])
    assert "cores" not in reported
    assert not list(it.advice.series())
    assert it.states() == {"advised": 0, "impossible": 1, "waiting": 0, "failed": 0}


async def test_a_failure_keeps_what_was_advised_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Adviser("*=cores:4")
    it.engine.advisor.define_network(TEXT, id="film")
    it.learn(rows(80))
    first = await it.looked("film")

    async def busy(*_: Any) -> Any:
        raise Unavailable("too many large requests")

    it.learn(rows(80, 1))
    with monkeypatch.context() as patch:
        patch.setattr(it.planner, "reconsider", busy)
        failed = await it.looked("film")
    assert (failed["cores"], failed["error"]["code"], failed["state"]) == (first["cores"], "unavailable", "advised")
    it.learn(rows(80, 2))
    again = await it.looked("film")
    assert again["fresh"]["rows"] == 240
    assert "error" not in again


async def test_a_worker_that_dies_costs_no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Adviser("*=cores:4")
    it.engine.advisor.define_network(TEXT, id="film")
    it.learn(rows(80))

    async def dead(*_: Any) -> Any:
        raise WorkFailed("the worker process of the request died")

    with monkeypatch.context() as patch:
        patch.setattr(it.planner, "reconsider", dead)
        failed = await it.looked("film")
    assert (failed["state"], failed["error"]["code"]) == ("failed", "work_failed")
    first = await it.looked("film")  # not a row more
    assert (first["state"], first["fresh"]["rows"]) == ("advised", 80)
    it.learn(rows(80, 1))
    with monkeypatch.context() as patch:
        patch.setattr(it.planner, "reconsider", dead)
        assert (await it.looked("film"))["error"]["code"] == "work_failed"
    again = await it.looked("film")
    assert again["fresh"]["rows"] == 160
    assert "error" not in again


async def test_who_shares_cores_is_one_component() -> None:
    it = Adviser("film=cores:1")
    it.engine.advisor.define_network(TEXT, id="film")
    it.learn(rows(80))
    reported = await it.looked("film")
    assert reported["groups"] == [{"cores": 1, "components": ["blur", "write"]}]
    assert list(it.advice.series()) == [("film", "blur+write", 1, 1)]


async def planned(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while (found := await client.get(path)).status_code == 503:
            assert found.headers["retry-after"] == "1"
            await asyncio.sleep(0.1)
    assert found.status_code == 200, found.text
    return found.json()


async def test_autoscalers_read_what_the_page_tells_them_to(tmp_path: Path) -> None:
    """The two triggers of docs/adapters.md against a service: where their metadata point, there are instances."""
    url = re.search(r'url: "http://advisor:9117(.*)"', ADAPTERS_PAGE)
    place = re.search(r'valueLocation: "(.*)"', ADAPTERS_PAGE)
    query = re.search(r"query: '(\w+)\{network=\"(\w+)\",component=\"(\w+)\"\}'", ADAPTERS_PAGE)
    advise = re.search(r'"--advise", "(film=.*)"\]', ADAPTERS_PAGE)
    assert url is not None
    assert place is not None
    assert query is not None
    assert advise is not None
    async with (
        running(tmp_path, http="127.0.0.1:0", advise=[advise[1]], http_hosts=["advisor"]) as live,
        httpx.AsyncClient(base_url=f"http://{live.bound.http}") as client,
    ):
        peer = await live.peer()
        await peer.call("define_network", {"id": "film", "text": TEXT})
        await peer.call("observe_rows", {"rows": rows(80)})
        found: Any = await planned(client, url[1])
        for part in place[1].split("."):
            found = found[part]
        assert found >= 1
        metrics = (await client.get("/metrics", headers={"host": "advisor"})).text
        samples = [
            sample.value for family in parse_text(metrics) for sample in family.samples
            if (sample.name, *map(sample.labels.get, ("network", "component"))) == query.groups()
        ]  # fmt: skip
        assert samples == [found]
        assert (await client.get("/advice/unknown")).status_code == 404
        assert (await client.get(url[1], headers={"host": "evil.example"})).status_code == 421
        assert (await client.get(url[1], headers={"host": "advisor"})).status_code == 200


async def test_advice_follows_the_load_that_is_read() -> None:
    """Arrivals and what is unfinished become the throughput that is planned for; a failed query changes nothing."""
    it = Adviser()
    totals: dict[str, Any] = {ARRIVED: {}, UNFINISHED: {}}
    clock = [0.0]

    def read(url: str) -> Any:
        assert url == "http://prometheus:9090"
        if totals is None:
            raise OSError("away")
        return totals

    flows = it.engine.advisor.components.flows
    asked = load_config(
        socket="/s", advise=["film=follow:http://prometheus:9090,wait_s:10,change_s:30,instances_max:64"]
    )
    it.advice = AdviceFace(it, asked.advise, lambda: {n: flows.defined(n) for n in flows.known}, read, lambda: clock[0])
    it.engine.advisor.define_network(TEXT, id="film")
    it.learn(rows(80))
    assert (await it.looked("film"))["state"] == "waiting"  # nothing was read

    async def after(arrived: float, unfinished: float) -> dict[str, Any]:
        totals[ARRIVED]["film"], totals[UNFINISHED]["film"] = arrived, unfinished
        clock[0] += 15.0
        return await it.looked("film")

    for look in range(10):
        quiet = await after(15.0 * look, 0.0)
    assert quiet["load"]["arrivals_per_s"] == pytest.approx(1.0)
    assert 1.0 <= quiet["asked"]["target"]["throughput_per_s"] <= 1.1
    for look in range(1, 10):
        busy = await after(135.0 + 300.0 * look, 10.0)
    assert busy["promised"]["throughput_per_s"] >= busy["load"]["planned_per_s"] >= 20.0
    assert busy["cores_used"] > quiet["cores_used"]
    assert busy["load"]["reached"]
    beyond = await after(2835.0 + 1e6, 1e6)  # more than any cores could do: as much as can be done
    assert (beyond["state"], beyond["load"]["reached"]) == ("advised", False)
    assert beyond["load"]["unfinished"] == 1e6
    for look in range(1, 10):
        busy = await after(1002835.0 + 300.0 * look, 10.0)
    totals = None  # pyright: ignore[reportAssignmentType]
    clock[0] += 15.0
    assert (await it.looked("film"))["cores"] == busy["cores"]


@pytest.mark.parametrize(
    "given",
    ["f=follow:nowhere", "f=wait_s:3", "f=follow:http://p,wait_s:-1", "f=follow:http://p,throughput_per_s:3"],
)
def test_a_load_that_cannot_be_followed_is_refused(given: str) -> None:
    with pytest.raises(InvalidValue):
        load_config(socket="/s", advise=[given])
