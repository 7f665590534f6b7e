"""The live page with many components: how soon a browser shows them, what it holds, and how long the service's loop is held.

    python benchmarks/live_page.py [--components 10000] [--runs 5] [--readers 8] [--json FILE]

A service in this process, a real Chromium without a window. `first_ms` is what the browser takes from the command to open the
table of components to 24 drawn rows, `ratio` that beside the page of a service with 24 components, by turns; `find_ms` from a
search to its one row. `page_MB` is what the page's program holds, `process_MB` what the browser's process for it does beyond
that of an empty page. `turn_ms` is the longest turn of the loop, in CPU time, while so many readers follow, pages are turned,
components opened, and rows come; `idle_ms` the same without readers. Medians but for the turns. Needs chromium and
chromedriver, and the extra `test`.
"""

# ruff: noqa: E402 -- the path is set before anything else is imported
from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent), str(HERE.parent / "tests" / "support")]

import anyio
import numpy as np
from anyio.from_thread import start_blocking_portal
from browser import Browser

from advisor import SyncClient
from advisor.service import load_config, serve

CORES = (1.0, 2.0, 4.0, 8.0)
FEW = 24
SHOWN = "return document.querySelectorAll('#rows tbody tr').length"
RENDERERS = "--type=renderer"


class Turns:
    """The longest turn of a loop, in CPU time of its thread: what others do on the machine is not in it."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        """Look, as long as the loop runs."""
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.thread_time() - before)


@contextmanager
def serving(components: int) -> Iterator[tuple[str, Path, Turns]]:
    """Yield address, socket and loop of a service that knows so many components."""
    turns = Turns()

    async def run(stop: anyio.Event, *, task_status: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(turns.watch)
            await serve(load_config(socket=folder / "s", http="127.0.0.1:0"), stop=stop, task_status=task_status)
            group.cancel_scope.cancel()

    with tempfile.TemporaryDirectory() as name, start_blocking_portal() as portal:
        folder = Path(name)
        stop = portal.call(anyio.Event)
        future, bound = portal.start_task(run, stop)
        with SyncClient(str(folder / "s"), timeout_s=600) as client:
            index = np.tile(np.arange(components), len(CORES))
            client.observe_columns(
                components=[f"stage_{n:06}" for n in range(components)], index=index, predictor=np.full(len(index), 64.0),
                cores=np.repeat(CORES, components), elapsed_s=np.repeat([0.1 + 0.9 / p for p in CORES], components),
            )  # fmt: skip
            client.flush(600)
        yield f"http://{bound.http}", folder / "s", turns
        portal.call(stop.set)
        future.result()


def resident_mb(flag: str) -> float:
    """Return the most that a process with this flag on its command line holds."""
    held = [0.0]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if flag in (process / "cmdline").read_text():
                held.append(int((process / "statm").read_text().split()[1]) * 4096 / 1e6)
        except OSError:
            continue
    return max(held)


def opened(browser: Browser, url: str) -> float:
    """Return the milliseconds until the first page of components is drawn."""
    browser.driver.get("about:blank")
    began = time.perf_counter()
    browser.driver.get(f"{url}/#/components")
    while browser.run(SHOWN) < FEW:
        pass
    return 1e3 * (time.perf_counter() - began)


def searched(browser: Browser, text: str) -> float:
    """Return the milliseconds until the one row of a search is drawn."""
    began = time.perf_counter()
    browser.run(
        "const f = document.getElementById('find'); f.value = arguments[0]; f.dispatchEvent(new Event('input'))", text
    )
    while browser.run(SHOWN) != 1:
        pass
    return 1e3 * (time.perf_counter() - began)


def held_up(url: str, socket: Path, turns: Turns, components: int, readers: int, seconds: float) -> float:
    """Return the longest turn in milliseconds while rows come, and so many readers follow and turn pages."""
    over = threading.Event()

    def follow() -> None:
        while not over.is_set():
            urlopen(f"{url}/page/news", timeout=60).read()
            time.sleep(1.0)

    def ask() -> None:
        rng = np.random.default_rng(1)
        while not over.is_set():
            page, one = int(rng.integers(components // FEW)), int(rng.integers(components))
            for path in (
                f"components?page={page}",
                f"components?find={one}",
                f"component?name=stage_{one:06}",
            ):
                urlopen(f"{url}/page/{path}", timeout=60).read()

    threads = [threading.Thread(target=follow) for _ in range(readers)] + [threading.Thread(target=ask)] * bool(readers)
    for thread in threads:
        thread.start()
    with SyncClient(str(socket), timeout_s=600) as client:
        until = time.monotonic() + seconds
        turns.longest = 0.0
        while time.monotonic() < until:
            for n in range(100):
                client.observe(f"stage_{n:06}", predictor=64.0, cores=4, elapsed_s=0.3)
            time.sleep(0.02)
        longest = turns.longest
        client.flush(600)
    over.set()
    for thread in threads:
        thread.join()
    return 1e3 * longest


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--components", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    browser = Browser()
    first: list[float] = []
    least: list[float] = []
    find: list[float] = []
    browser.driver.get("about:blank")
    empty = resident_mb(RENDERERS)
    with serving(FEW) as (small, _, _), serving(given.components) as (url, socket, turns):
        for n in range(given.runs):
            least.append(opened(browser, small))
            first.append(opened(browser, url))
            find.append(searched(browser, f"stage_{n * 7 + 101:06}"))
        page, process = browser.memory() / 1e6, resident_mb(RENDERERS) - empty
        browser.close()
        idle = held_up(url, socket, turns, given.components, 0, given.seconds)
        busy = held_up(url, socket, turns, given.components, given.readers, given.seconds)
    row = {
        "components": given.components, "first_ms": statistics.median(first),
        "ratio": statistics.median(first) / statistics.median(least), "find_ms": statistics.median(find), "page_MB": page,
        "process_MB": process, "idle_ms": idle, "turn_ms": busy,
    }  # fmt: skip
    for name, value in row.items():
        print(f"{name:>12} {value:,.1f}")
    if given.json:
        given.json.write_text(json.dumps(row))


if __name__ == "__main__":
    main()
