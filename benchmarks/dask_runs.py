"""Dask with and without advice: what the plugin costs, how near predictions are, and what the run takes.

    python benchmarks/dask_runs.py [--tasks 300] [--rounds 3]

Arrays of 10^3 to 10^6 numbers are made and sorted, in random order, on two workers of one thread. Errors are |t - said| of the
sorts, over t of all of them: said when they were sent to a worker, by the plugin and by Dask's moving average. The first round
teaches and is not judged. The plugin's time is that of the scheduler's thread on a processor, for transitions and for what is
handed over twice a second; the tasks' is what their workers tell.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from advisor.adapters.dask import AdvisorPlugin


class Judged(AdvisorPlugin):
    """The plugin, with a clock around it, and a moving average beside it."""

    def __init__(self, address: str, **options: Any) -> None:
        super().__init__(address, **options)
        self.own_s = self.compute_s = self.average = 0.0
        self.said: dict[Any, tuple[float | None, float]] = {}
        self.errors: list[tuple[float, float, float]] = []

    def transition(self, key: Any, start: str, finish: str, *args: Any, **reported: Any) -> None:
        began = time.thread_time()
        super().transition(key, start, finish, *args, **reported)
        self.own_s += time.thread_time() - began
        assert self._scheduler is not None
        ts = self._scheduler.tasks[key]
        if finish == "processing" and ts.prefix.name == "sort":
            self.said[key] = self.estimate(ts), self.average
        if start == "processing" and finish == "memory":
            took = sum(each["stop"] - each["start"] for each in reported["startstops"] if each["action"] == "compute")
            self.compute_s += took
            if ts.prefix.name == "sort":
                ours, theirs = self.said.pop(key)
                if ours is not None and theirs:
                    self.errors.append((abs(ours - took), abs(theirs - took), took))
                self.average = took if not self.average else 0.5 * self.average + 0.5 * took

    def send_rows(self) -> None:
        began = time.thread_time()
        super().send_rows()
        self.own_s += time.thread_time() - began


def made(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n)


def sort(values: np.ndarray) -> float:
    return float(sum(np.sort(values)[0] for _ in range(10)))


def run(client: Client, tasks: int, seed: int) -> float:
    sizes = (10 ** np.random.default_rng(seed).uniform(3, 6, tasks)).astype(int).tolist()
    began = time.perf_counter()
    client.gather(client.map(sort, client.map(made, sizes, range(seed * tasks, (seed + 1) * tasks))))
    return time.perf_counter() - began


def reported(kind: str, plugin: Judged) -> None:
    words = f"{kind}: {1e6 * plugin.own_s / plugin.rows_sent:.0f} us a task, {plugin.own_s / plugin.compute_s:.3%} of compute"
    if plugin.errors:
        ours, theirs, took = np.array(plugin.errors).sum(axis=0)
        words += f"; error {ours / took:.3f}, Dask's {theirs / took:.3f}"
    print(words, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "s")
        service = subprocess.Popen(
            [sys.executable, "-m", "advisor.cli", "serve", "--socket", address], stderr=subprocess.PIPE, text=True
        )
        assert service.stderr is not None
        service.stderr.readline()
        took: dict[str, list[float]] = {"without": [], "told only": [], "advised": []}
        try:
            cluster: Any = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
            with cluster, Client(cluster) as client:
                for round_ in range(asked.rounds + 1):
                    for kind, times in took.items():
                        plugin: Any = None
                        if kind != "without":
                            client.register_plugin(Judged(address, predict=kind == "advised"))
                            plugin = cluster.scheduler.plugins["advisor"]
                            if round_:  # what was learned in earlier rounds is asked for when tasks have run again
                                run(client, 40, 1_000 + round_)
                                time.sleep(1.0)
                                plugin.errors.clear()
                        seconds = run(client, asked.tasks, round_)
                        if plugin is not None:
                            reported(kind, plugin)
                            cluster.sync(plugin.close)
                            cluster.sync(cluster.scheduler.unregister_scheduler_plugin, name="advisor")
                        if round_:
                            times.append(seconds)
        finally:
            service.kill()
            service.wait()
    for kind, times in took.items():
        print(f"{kind:10s} {statistics.median(times):.2f} s   ({', '.join(f'{each:.2f}' for each in times)})")


if __name__ == "__main__":
    main()
