"""Allocation through the service: small networks at once, large ones in a worker process that may be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live import PATIENCE_S, Live, Peer, refused, running

from advisor.errors import AdvisorError, WorkFailed
from advisor.service import heavy


async def taught(live: Live, components: int) -> Peer:
    """A peer whose service knows `component_i`, i below the given number."""
    peer = await live.peer()
    rows = [
        [f"component_{i}", 1.0, float(p), 1e-3 * (i % 7 + 1) * (0.1 + 0.9 / p)]
        for i in range(components)
        for p in (1, 2, 4, 8, 16)
    ]
    await peer.call("observe_rows", {"rows": rows})
    return peer


def pipeline(components: int) -> str:
    return " .. ".join(f"component_{i}" for i in range(components))


def workers() -> list[int]:
    """The worker processes of this process."""
    found: list[int] = []
    for children in Path("/proc/self/task").glob("*/children"):
        pids = map(int, children.read_text().split())
        found += [pid for pid in pids if b"anyio.to_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


async def test_a_small_network_is_planned(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await taught(live, 4)
        plan = await peer.call("allocate", {"network": pipeline(4), "cores": 20})
        assert set(plan["cores"]) == {f"component_{i}" for i in range(4)}
        assert sum(plan["cores"].values()) + plan["spare"] == 20
        nodes = [{"kind": "box", "name": f"component_{i}"} for i in range(4)] + [
            {"kind": "series", "children": [0, 1, 2, 3]}
        ]
        assert await peer.call("allocate", {"network": nodes, "cores": 20}) == plan
        await refused("unknown_network", peer.call("allocate", {"network": 7, "cores": 20}))
        error = await refused("network_syntax", peer.call("allocate", {"network": "a .. .. b", "cores": 20}))
        assert (error.line, error.column) == (1, 6)  # type: ignore[attr-defined]
        surely = await peer.call("allocate", {"network": pipeline(4), "cores": 20, "level": 0.99})
        assert surely["throughput_per_s"] < plan["throughput_per_s"]  # planned for the upper bound of each curve
        for current, text in (
            (plan, "is kept: no better"),
            (dict.fromkeys(plan["cores"], 5), "changed from the current"),
        ):
            again = await peer.call("allocate", {"network": pipeline(4), "cores": 20, "current": current})
            assert again["cores"] == plan["cores"]
            assert text in again["why"][0]["text"]


async def test_a_large_network_gives_what_a_small_one_does(tmp_path: Path) -> None:
    """The same network as short text and behind a long comment: planned here and in a worker."""
    async with running(tmp_path) as live:
        peer = await taught(live, 10)
        request = {"cores": 60, "components": {"x": "component_3"}, "load": {"component_1": 1.0}, "maximum": {"x": 2}}
        text = pipeline(10) + " .. x"
        here = await peer.call("allocate", request | {"network": text})
        apart = await peer.call("allocate", request | {"network": text + " // " + "-" * 2000})
        assert apart == here
        assert here["cores"]["x"] <= 2


async def test_errors_of_a_worker_are_those_of_the_service(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await taught(live, 3)
        far = "/*" + "-" * 2000 + "*/\n"
        error = await refused("network_syntax", peer.call("allocate", {"network": far + "a .. .. b", "cores": 20}))
        assert (error.line, error.column) == (2, 6)  # type: ignore[attr-defined]
        await refused("unknown_component", peer.call("allocate", {"network": far + "nobody", "cores": 20}))
        error = await refused(
            "invalid", peer.call("allocate", {"network": far + "component_0", "cores": 2, "load": {"b": 1.0}})
        )
        assert error.value == "b"
        await refused(
            "invalid", peer.call("allocate", {"network": far + "component_0", "cores": 2, "maximum": {"b": 1}})
        )


async def test_a_request_at_its_deadline_is_killed_and_others_go_on(tmp_path: Path) -> None:
    async with running(tmp_path, heavy_deadline_s=0.2) as live:
        peer = await taught(live, 3)
        endless = await peer.post("allocate", {"network": pipeline(50_000), "cores": 100_000})
        assert (await peer.call("predict", "component_0", 1, 1))["observations"] == 5  # meanwhile
        error = await refused("work_failed", peer.answer(endless))
        assert error.retry
        async with asyncio.timeout(PATIENCE_S):
            while True:  # on a machine that is very busy even a small one may take so long
                with contextlib.suppress(WorkFailed):
                    assert (await peer.call("allocate", {"network": pipeline(3), "cores": 9}))["cores"]
                    break


async def test_a_worker_that_dies_is_an_error_with_retry(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await taught(live, 3)
        await peer.call("allocate", {"network": pipeline(3) + " // " + "-" * 2000, "cores": 9})
        before = workers()
        assert before
        number = await peer.post("allocate", {"network": pipeline(50_000), "cores": 100_000})
        await peer.call("status", {})
        for worker in before:
            os.kill(worker, signal.SIGKILL)
        error = await refused("work_failed", peer.answer(number))
        assert error.retry
        assert (await peer.call("allocate", {"network": pipeline(3) + " // " + "-" * 2000, "cores": 9}))["cores"]


async def test_too_many_large_requests_are_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy, "WAITING_MAX", 2)
    monkeypatch.setattr(heavy, "JOBS", 1)
    async with running(tmp_path, heavy_deadline_s=1.0) as live:
        peer = await taught(live, 3)
        numbers = [await peer.post("allocate", {"network": pipeline(50_000), "cores": 100_000}) for _ in range(8)]
        codes = [(await refused_any(peer, number)) for number in numbers]
        assert codes.count("unavailable") >= 4
        assert set(codes) <= {"unavailable", "work_failed", "unknown_component"}


async def refused_any(peer: Peer, number: int) -> str:
    try:
        await peer.answer(number)
    except AdvisorError as error:
        return error.code
    return "answered"


HOLDS_A_WORKER = """
import os, sys
from pathlib import Path
import anyio
from advisor.service.heavy import Heavy

async def main():
    heavy = Heavy(3600.0)
    await heavy.run(Path.read_bytes, Path(sys.argv[1]))

if __name__ == "__main__":
    anyio.run(main)
"""


def test_a_worker_at_work_ends_with_its_service(tmp_path: Path) -> None:
    program, fifo = tmp_path / "service.py", tmp_path / "fifo"
    program.write_text(HOLDS_A_WORKER)
    os.mkfifo(fifo)
    service = subprocess.Popen([sys.executable, program, fifo])
    try:
        with fifo.open("wb", buffering=0) as end:  # opens when the worker reads: it is at work
            service.kill()
            service.wait(PATIENCE_S)
            readers = select.poll()
            readers.register(end, 0)  # POLLERR: nobody reads any more
            assert readers.poll(PATIENCE_S * 1000)
    finally:
        service.kill()
        service.wait(PATIENCE_S)
