"""Two boxes that are bound by the same memory, side by side: what the contention factor is worth to a plan.

    python demos/contention.py [--seconds 2] [--rounds 3] [--megabytes 6]

`sweep` and `fold` compute a = b + 3 c on arrays of their own, which one of them alone may find in the shared cache and
both together do not. They run in turns first, then each on its core at the same time, and every run is streamed with the
cores that were active. The service is asked twice what throughput a core each will give: for components that learned with
`active_cores`, and for twins that were sent the same rows without. Both are held against what is then measured.

`spin` and `whirl`, which stay in the first-level cache, do the same as a control: no contention is to be seen.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from adapt import first, usable_processors
from boxes import BOXES
from runtime import Runtime
from runtime_workers import Setting
from service_process import served

from advisor.client import SyncClient
from advisor.network import parse

PAIRS = {
    "bound by memory": """
net memory
{
  box sweep ((raw) -> (raw));
  box fold ((raw) -> (streamed));
}
connect sweep .. fold;
""",
    "bound by cores": """
net cores
{
  box spin ((raw) -> (raw));
  box whirl ((raw) -> (spun));
}
connect spin .. whirl;
""",
}
BLIND = " blind"  # the twin of a component, whose rows do not say who else was active
LEARN_RECORDS = 100


class Twice:
    """Sends each row for its component, and without `active_cores` for the component's twin."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client

    def observe(self, component: str, predictor: Any, cores: Any, elapsed_s: Any, **optional: Any) -> bool:
        """Take one row."""
        self._client.observe(component + BLIND, predictor, cores, elapsed_s)
        return self._client.observe(component, predictor, cores, elapsed_s, **optional)


def inputs(megabytes: float) -> Iterator[dict[str, Any]]:
    """Return records that never end."""
    while True:
        yield {"raw": megabytes}


def judge(client: SyncClient, text: str, processors: list[int], arguments: argparse.Namespace) -> dict[str, float]:
    """Return the throughputs promised with and without the factor, and the one measured."""
    network = parse(text)
    with Runtime(network, BOXES, Twice(client), name=network.keys[0]) as runtime:
        records = inputs(arguments.megabytes)
        in_turns = {key: Setting(1, (frozenset({processors[row]}),), 0) for row, key in enumerate(network.keys)}
        together = {key: Setting(1, (frozenset({processors[row]}),)) for row, key in enumerate(network.keys)}
        for _ in range(2):  # the machine may be busier in one half of the time
            for setting in (in_turns, together):
                runtime.apply(setting)
                runtime.run(first(records, arguments.records))
        client.flush()
        ones = dict.fromkeys(network.keys, 1.0)
        asked = {"cores": 2, "visits": ones, "maximum": dict.fromkeys(network.keys, 1)}
        twins = {key: key + BLIND for key in network.keys}
        promised = {
            "with the factor": client.allocate(text, **asked).throughput_per_s,
            "without": client.allocate(text, **asked, components=twins).throughput_per_s,
        }
        runtime.apply(together)
        rates = [runtime.run(records, seconds=arguments.seconds).throughput_per_s for _ in range(arguments.rounds)]
    return promised | {"measured": statistics.median(rates)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=LEARN_RECORDS, help="that are learned in turns, and together")
    parser.add_argument("--megabytes", type=float, default=6.0, help="of each of a box's three arrays")
    arguments = parser.parse_args()
    processors = usable_processors()
    print(f"{platform.machine()}, {len(processors)} of {os.cpu_count()} processors, "
          f"load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")  # fmt: skip
    if len(processors) < 2:
        print("one processor: nothing runs side by side here")
        return
    with served("demo-contention") as client:
        for what, text in PAIRS.items():
            found = judge(client, text, processors, arguments)
            print(what)
            for name, rate in found.items():
                error = f"  ({rate / found['measured'] - 1:+.0%})" if name != "measured" else ""
                print(f"    {name:<16} {rate:8.1f} records/s{error}")


if __name__ == "__main__":
    main()
