"""`/advice` over HTTP follows the load that a Prometheus reports over HTTP: of one service, and of a front with shards."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import httpx
import pytest
from live import PATIENCE_S, running
from shards_here import Processes

from advisor import AsyncClient
from advisor.cluster.serving import serve
from advisor.service import advice, http, load_config
from advisor.service.load import ARRIVED, LOOK_S, UNFINISHED

BOXES = ("blur", "write")
WAIT_S, CHANGE_S = 60.0, 30.0


class Applications:
    """What applications export, as a Prometheus adds it up, at a time that the test moves: from one look to the next."""

    def __init__(self) -> None:
        self.now = self.arrived = self.unfinished = 0.0

    def pass_time(self, rate_per_s: float, unfinished: float) -> None:
        self.arrived += LOOK_S * rate_per_s
        self.unfinished = unfinished
        self.now += LOOK_S

    def answer(self) -> dict[str, Any]:
        values = {ARRIVED: self.arrived, UNFINISHED: self.unfinished}
        series = [
            {"metric": {"__name__": name, "network": "film"}, "value": [self.now, str(value)]}
            for name, value in values.items()
        ]
        return {"status": "success", "data": {"resultType": "vector", "result": series}}

    @functools.cached_property
    def server(self) -> ThreadingHTTPServer:
        applications = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = json.dumps(applications.answer()).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        return ThreadingHTTPServer(("127.0.0.1", 0), Answers)


@pytest.fixture
def applications(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Applications whose time is that of the service's looks, too."""
    found = Applications()
    monkeypatch.setenv(
        "ADVISOR_KERNELS", "auto"
    )  # of worker processes: a plan of milliseconds takes a minute interpreted
    monkeypatch.setattr(advice, "REFRESH_S", 0.01)
    monkeypatch.setattr(http, "AdviceFace", functools.partial(advice.AdviceFace, clock=lambda: found.now))
    serving = Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    serving.join()


@asynccontextmanager
async def serving(kind: str, place: Path, options: dict[str, Any]) -> AsyncIterator[Any]:
    """Run a service, or a front with two shards."""
    if kind == "one":
        async with running(place, **options) as live:
            yield live.bound
        return
    processes, stop = Processes(), anyio.Event()
    config = load_config(socket=place / "s", state=place / "state", engine="ray", compiled=False, **options)
    async with anyio.create_task_group() as group:

        async def run(*, task_status: Any) -> None:
            await serve(config, runtime_of=lambda _: processes, stop=stop, task_status=task_status)

        try:
            yield await group.start(run)
        finally:
            stop.set()


@pytest.mark.parametrize("kind", ["one", "shards"])
async def test_cores_follow_arrivals_their_trend_and_what_is_unfinished(
    kind: str, tmp_path: Path, applications: Applications
) -> None:
    source = f"http://127.0.0.1:{applications.server.server_port}"
    film = f"film=follow:{source},wait_s:{WAIT_S},change_s:{CHANGE_S},instances_max:64"
    async with (
        serving(kind, tmp_path, {"http": "127.0.0.1:0", "advise": [film]}) as bound,
        AsyncClient(str(tmp_path / "s"), producer="film", timeout_s=PATIENCE_S) as rows,
        httpx.AsyncClient(base_url=f"http://{bound.http}", timeout=PATIENCE_S) as poller,
    ):
        await rows.define_network("blur .. write", id="film")
        for p in (1, 2, 4, 1, 2, 4, 1, 2, 4, 1):
            for box in BOXES:
                rows.observe(box, predictor=1.0, cores=p, elapsed_s=0.1 / p + 0.02)
        await rows.flush()

        async def advised(looks: int, rate_per_s: float, unfinished: float = 0.0, rising_per_s: float = 0.0) -> Any:
            """Let some looks see this load; return the advice that follows from the last."""
            for look in range(looks):
                applications.pass_time(rate_per_s + look * rising_per_s, unfinished)
                async with asyncio.timeout(PATIENCE_S):
                    while True:
                        answer = await poller.get("/advice/film")
                        found = answer.json()
                        load = found.get("load", {})
                        planned = found.get("asked", {}).get("target", {}).get("throughput_per_s")
                        if load.get("age_s") == 0.0 and planned == load["planned_per_s"]:
                            break
                        await asyncio.sleep(0.01)
            assert answer.status_code == 200
            assert load["reached"]
            assert found["promised"]["throughput_per_s"] >= planned
            return found

        quiet = await advised(10, 1.0)
        assert 1.0 <= quiet["load"]["planned_per_s"] <= 1.1
        busy = await advised(10, 20.0)
        assert 20.0 <= busy["load"]["planned_per_s"] <= 22.0
        assert busy["cores_used"] > quiet["cores_used"]
        rising = await advised(9, 20.0, rising_per_s=4.0)
        assert rising["load"]["arrivals_per_s"] > 52.0  # more than came in the last look: the change takes two
        waits = await advised(10, 20.0, unfinished=900.0)
        assert waits["load"]["unfinished"] == 900.0
        assert waits["load"]["planned_per_s"] > 2 * waits["load"]["arrivals_per_s"]
        assert waits["cores_used"] > busy["cores_used"]
        rested = await advised(10, 1.0)
        assert rested["cores_used"] == quiet["cores_used"]
