"""A real Prometheus server scrapes the service; skipped loudly where there is none."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from live import PATIENCE_S, refused, rows_of, running

from advisor.service.load import ARRIVED, UNFINISHED, read_load

PROMETHEUS = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(
    PROMETHEUS is None, reason="NO PROMETHEUS HERE: install the Debian package `prometheus` to run this"
)

CONFIGURATION = """
global:
  scrape_interval: 200ms
scrape_configs:
  - job_name: advisor
    static_configs:
      - targets: ["{target}"]
rule_files: ["{rules}"]
"""
KIT = Path(__file__).parents[2] / "docs" / "operations"
DASHBOARD = json.loads((KIT / "grafana.json").read_text())
PROMTOOL = shutil.which("promtool") or ""


@asynccontextmanager
async def prometheus(tmp_path: Path, target: str) -> AsyncIterator[str]:
    """Run a Prometheus server that scrapes `target`; yield its address."""
    (tmp_path / "prometheus.yml").write_text(CONFIGURATION.format(target=target, rules=KIT / "alerts.yml"))
    assert PROMETHEUS is not None
    server = await asyncio.create_subprocess_exec(
        PROMETHEUS,
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        "--web.listen-address=127.0.0.1:0",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert server.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (
                listens := re.search(rb'"Listening on".* address=(\S+)', line := await server.stderr.readline())
            ):
                assert line, "it ended"
        yield f"http://{listens[1].decode()}"
    finally:
        server.terminate()
        await server.communicate()


async def ask(server: str, query: str) -> list[Any]:
    """Return the result of a query, once there is one."""
    async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(timeout=PATIENCE_S) as client:
        while True:
            try:
                answer = await client.get(f"{server}/api/v1/query", params={"query": query})
            except httpx.TransportError:
                continue  # it is starting
            result = answer.json()["data"]["result"] if answer.status_code == 200 else []
            if result:
                return list(result)


async def test_promtool_has_nothing_to_say_against_the_metrics(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state", http="127.0.0.1:0", snet_resources="0") as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(75)})
        await peer.call("predict", "c0", 1, 1)
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
            reported = (await client.get(f"http://{live.bound.http}/metrics")).text
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=reported, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert "advisor_build_info{" in reported
    assert "process_resident_memory_bytes" in reported


def queries() -> list[str]:
    """Return every query of the dashboard, as Grafana would fill in its variables."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [each.replace("$instance", ".*").replace("$__rate_interval", "1m") for each in found]


async def reported(client: httpx.AsyncClient, server: str, query: str) -> bool:
    """Return whether a query has an answer now, and numbers in it."""
    try:
        found = await client.get(f"{server}/api/v1/query", params={"query": query})
    except httpx.TransportError:
        return False  # it is starting
    if found.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        return False  # so it is
    answer = found.json()
    assert answer["status"] == "success", (query, answer)
    return any(math.isfinite(float(each["value"][1])) for each in answer["data"]["result"])


async def test_prometheus_scrapes_answers_the_dashboard_and_works_out_each_alert(tmp_path: Path) -> None:
    """Of one server, for it looks for its targets 5 s after it has begun."""
    async with running(tmp_path, state=tmp_path / "state", http="127.0.0.1:0") as live:
        peer = await live.peer()
        numbers = itertools.count(1)

        async def work() -> None:
            """Let everything happen that the dashboard shows."""
            rows = [*rows_of(75), ["c", 1.0, 0.0, 1.0]]
            await peer.call("observe_rows", {"producer": "p", "sequence": next(numbers), "rows": rows})
            await peer.call("predict", "c0", 1, 1)
            await refused("unknown_component", peer.call("predict", "nobody", 1, 1))

        await work()
        await peer.call("watch", {"network": "c0 .. c1", "cores": 4})
        async with (
            prometheus(tmp_path, str(live.bound.http)) as server,
            httpx.AsyncClient(timeout=PATIENCE_S) as client,
        ):
            (up,) = await ask(server, 'up{job="advisor"} == 1')
            assert up["value"][1] == "1"
            (rows,) = await ask(server, "advisor_rows_accepted_total")
            assert rows["value"][1] == "75"
            (bad,) = await ask(server, 'advisor_rows_refused_total{reason="invalid_cores"}')
            assert bad["value"][1] == "1"
            (quantile,) = await ask(server, 'histogram_quantile(1, advisor_request_seconds_bucket{verb="predict"})')
            assert 0 < float(quantile["value"][1]) < 30
            (healthy,) = await ask(server, "advisor_storage_healthy")
            assert healthy["value"][1] == "1"
            async with asyncio.timeout(PATIENCE_S):
                left = set(queries())
                assert len(left) > 30
                while left:
                    await work()
                    left -= {query for query in sorted(left) if await reported(client, server, query)}
            groups = (await client.get(f"{server}/api/v1/rules")).json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == (KIT / "alerts.yml").read_text().count("- alert:")
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}  # unknown: not its turn yet
    assert not [rule for rule in rules if rule["state"] == "firing"]


def test_every_metric_of_the_kit_is_exported(tmp_path: Path) -> None:
    source = "".join(file.read_text() for file in (KIT.parents[1] / "advisor" / "service").glob("*.py"))
    text = (KIT / "alerts.yml").read_text() + (KIT / "grafana.json").read_text()
    for name in set(re.findall(r"advisor_\w+", text)):
        plain = re.sub(r"_(total|bucket|sum|count|info)$", "", name)
        assert f'"{plain}"' in source or f'"{name}"' in source, name


LOAD = b"""HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n\
# TYPE advisor_arrived_total counter
advisor_arrived_total{network="film",instance_of="a"} 7
advisor_arrived_total{network="film",instance_of="b"} 5
# TYPE advisor_unfinished gauge
advisor_unfinished{network="film"} 3
"""


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """Serve one answer to everybody; yield the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield "127.0.0.1:{1}".format(*server.sockets[0].getsockname())


async def test_the_load_that_applications_export_is_read_from_prometheus(tmp_path: Path) -> None:
    async with answering(LOAD) as target, prometheus(tmp_path, target) as server:
        await ask(server, UNFINISHED)
        assert await asyncio.to_thread(read_load, server) == {ARRIVED: {"film": 12.0}, UNFINISHED: {"film": 3.0}}


@pytest.mark.parametrize(
    "answer", [b"", b"no HTTP\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n{}", b"HTTP/1.0 500 No\r\n\r\n"]
)
async def test_what_is_no_answer_of_prometheus_is_no_load(answer: bytes) -> None:
    async with answering(answer) as server:
        with pytest.raises((OSError, ValueError)):
            await asyncio.to_thread(read_load, f"http://{server}")
