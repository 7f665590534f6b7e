"""A network of Python and numpy boxes on this machine's cores, before and after it follows the service's advice.

    python demos/adapt.py [--cores N] [--seconds 2] [--rounds 3]

1. A service starts, and a small runtime (`demos/runtime.py`) executes the network below in worker processes.
2. It learns: records run with each number of threads. Every run is streamed to the service: how long it took, on how many
   cores, and on behalf of which record, from which the service learns how records travel.
3. It asks the service to `allocate` this machine's cores, and measures the throughput under equal shares and under the
   advice, in turns, several times: a busy machine slows both.
4. It begins a `watch`. Then `denoise` becomes three times as slow. The runtime goes on, and its rows with it, until the
   service says that another allocation repays the change; that is applied, and measured against the one before.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from boxes import BOXES, SIDE
from runtime import Measured, Runtime
from runtime_workers import Setting, equal_shares, settings_of
from service_process import served

from advisor.client.watching import SyncWatch
from advisor.domain.allocations import Allocation
from advisor.network import parse

NETWORK = """
net demo
{
  box decode ((raw) -> (plain) | (noisy, noise));
  box sharpen ((plain) -> (picture));
  box denoise ((noisy, noise) -> (noisy, noise) | (picture));
  box pack ((picture) -> (done));
}
connect decode .. (sharpen | denoise*{picture}) .. pack;
"""
NAME = "demo"
SLOWER = 3
CHANGE_COST_S = (
    0.5  # what a change is said to cost: processes are moved between runs, and started where there are too few
)
PATIENCE_S = 30.0  # waited for what the service tells
LEARN_RECORDS = 40  # with each number of threads
LEARN_COUNTS_MAX = 6  # numbers of threads that are learned: 1, 2, 4, … and all


def usable_processors() -> list[int]:
    """Return the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pictures(side: int, effort: int = 1) -> Iterator[dict[str, Any]]:
    """Return the records that enter: seeds of pictures of a side, and what `denoise` takes for them."""
    number = 0
    while True:
        number += 1
        yield {"raw": number, "side": side, "effort": effort}


def first(records: Iterator[dict[str, Any]], count: int) -> Iterator[dict[str, Any]]:
    """Return so many of them."""
    return (record for _, record in zip(range(count), records, strict=False))


def learn(runtime: Runtime, records: Iterator[dict[str, Any]], processors: Sequence[int], count: int) -> None:
    """Run records with each number of threads, on all processors, one box at a time: nothing else disturbs a run."""
    counts = sorted({min(2**k, len(processors)) for k in range(LEARN_COUNTS_MAX)} | {len(processors)})
    for threads in counts:
        runtime.apply({key: Setting(threads, (frozenset(processors),), 0) for key in runtime.stations})
        runtime.run(first(records, count))


def compare(
    runtime: Runtime, records: Iterator[dict[str, Any]], settings: Mapping[str, Mapping[str, Setting]], rounds: int,
    seconds: float,
) -> dict[str, list[Measured]]:  # fmt: skip
    """Measure each setting in turns."""
    found: dict[str, list[Measured]] = {name: [] for name in settings}
    for _ in range(rounds):
        for name, setting in settings.items():
            runtime.apply(setting)
            found[name].append(runtime.run(records, seconds=seconds))
    return found


def print_measured(found: Mapping[str, Sequence[Measured]]) -> None:
    """Print throughputs and their ratios, by round."""
    names = list(found)
    for name, runs in found.items():
        rates = [run.throughput_per_s for run in runs]
        print(f"    {name:<16} {statistics.median(rates):7.1f} records/s   "
              f"[{', '.join(f'{rate:.1f}' for rate in rates)}]")  # fmt: skip
    before, after = (found[name] for name in names)
    ratios = [b.throughput_per_s / a.throughput_per_s for a, b in zip(before, after, strict=True)]
    print(f"    {names[1]} / {names[0]}: {statistics.median(ratios):.2f} x, by round {[f'{r:.2f}' for r in ratios]}")


def show(allocation: Allocation) -> None:
    """Print an allocation."""
    for cores, keys in allocation.groups:
        print(f"    {cores} core{'s' * (cores > 1)}: {', '.join(keys)}, in turn")
    shared = {key for _, keys in allocation.groups for key in keys}
    for key, cores in allocation.cores.items():
        if key not in shared:
            print(f"    {key}: {allocation.instances[key]} x {cores} cores")
    print(f"    expected {allocation.throughput_per_s:.1f} records/s; bottleneck {', '.join(allocation.bottleneck)}")


def demonstrate(
    cores: int | None, rounds: int, seconds: float, learned: int, side: int, patience_s: float
) -> dict[str, Any]:
    """Run the demo; print and return what was measured."""
    processors = usable_processors()[:cores]
    print(f"{platform.machine()}, {len(processors)} of {os.cpu_count()} processors, "
          f"load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")  # fmt: skip
    network = parse(NETWORK)
    with served("demo-adapt") as client, Runtime(network, BOXES, client, NAME) as runtime:
        client.define_network(NETWORK, id=NAME)
        records = pictures(side)
        print(f"learning: {learned} records with each number of threads")
        learn(runtime, records, processors, learned)
        client.flush()
        flow = client.flow(NAME)
        print(f"of {flow.records} records the shares were {[round(share, 2) for share in flow.shares[0] or ()]},"
              f" the mean depths {flow.depths}")  # fmt: skip
        advice = client.allocate(NAME, len(processors))
        print("the service advises")
        show(advice)
        settings = {"equal shares": equal_shares(network, processors), "advised": settings_of(advice, processors)}
        calm = compare(runtime, records, settings, rounds, seconds)
        print_measured(calm)
        runtime.apply(settings["advised"])
        watch = client.watch(NAME, len(processors), change_cost_s=CHANGE_COST_S)
        print(f"denoise becomes {SLOWER} times as slow")
        slower = pictures(side, SLOWER)
        again = follow(runtime, slower, watch, patience_s)
        slow: dict[str, list[Measured]] = {}
        if again is not None:
            show(again)
            now = settings_of(again, processors)
            slow = compare(
                runtime, slower, {"advised before": settings["advised"], "advised now": now}, rounds, seconds
            )
            print_measured(slow)
        watch.close()
    return {"first": advice, "then": again, "calm": calm, "slow": slow}


def follow(
    runtime: Runtime, records: Iterator[dict[str, Any]], watch: SyncWatch, patience_s: float
) -> Allocation | None:
    """Go on until the service tells of a better allocation; None when it sent nothing in so many seconds."""
    news: list[Allocation] = []

    def heard() -> bool:
        advice = watch.next(0.0)
        if advice is not None and advice.allocation is not None:
            print(f"the service tells: {advice.why}")
            news.append(advice.allocation)
        return bool(news)

    before = runtime.records
    runtime.run(records, seconds=patience_s, between=heard)
    if not news:
        print(f"the service sent nothing in {patience_s:g} s: no change repays itself")
        return None
    print(f"    after {runtime.records - before} records")
    return news[0]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cores", type=int, help="use no more processors than this")
    arguments.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--side", type=int, default=SIDE, help="of a picture")
    given = arguments.parse_args()
    demonstrate(given.cores, given.rounds, given.seconds, LEARN_RECORDS, given.side, PATIENCE_S)


if __name__ == "__main__":
    main()
