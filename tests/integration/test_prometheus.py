"""A real Prometheus server scrapes the service; skipped loudly where there is none."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from live import PATIENCE_S, rows_of, running

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
"""
PROMTOOL = shutil.which("promtool") or ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def prometheus(tmp_path: Path, target: str) -> AsyncIterator[str]:
    """Run a Prometheus server that scrapes `target`; yield its address."""
    (tmp_path / "prometheus.yml").write_text(CONFIGURATION.format(target=target))
    address = f"127.0.0.1:{free_port()}"
    assert PROMETHEUS is not None
    server = await asyncio.create_subprocess_exec(
        PROMETHEUS,
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address={address}",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://{address}"
    finally:
        server.terminate()
        await server.wait()


async def ask(server: str, query: str) -> list[Any]:
    """Return the result of a query, once there is one."""
    async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient() as client:
        while True:
            try:
                answer = await client.get(f"{server}/api/v1/query", params={"query": query})
            except httpx.ConnectError:
                continue  # it is starting
            result = answer.json()["data"]["result"] if answer.status_code == 200 else []
            if result:
                return list(result)


async def test_prometheus_scrapes_the_service(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state", http="127.0.0.1:0") as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": [*rows_of(75), ["c", 1.0, 0.0, 1.0]]})
        await peer.call("predict", "c0", 1, 1)
        async with prometheus(tmp_path, str(live.bound.http)) as server:
            (up,) = await ask(server, 'up{job="advisor"} == 1')
            assert up["value"][1] == "1"
            (rows,) = await ask(server, "advisor_rows_accepted_total")
            assert rows["value"][1] == "75"
            (refused,) = await ask(server, 'advisor_rows_refused_total{reason="invalid_cores"}')
            assert refused["value"][1] == "1"
            (quantile,) = await ask(server, 'histogram_quantile(1, advisor_request_seconds_bucket{verb="predict"})')
            assert 0 < float(quantile["value"][1]) < 30
            (healthy,) = await ask(server, "advisor_storage_healthy")
            assert healthy["value"][1] == "1"


async def test_promtool_has_nothing_to_say_against_the_metrics(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state", http="127.0.0.1:0", snet_resources="0") as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(75)})
        await peer.call("predict", "c0", 1, 1)
        async with httpx.AsyncClient() as client:
            told = (await client.get(f"http://{live.bound.http}/metrics")).text
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=told, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert "advisor_build_info{" in told
    assert "process_resident_memory_bytes" in told
