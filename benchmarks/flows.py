"""What it costs that rows tell of the flow of records and of contention, and what the answers cost.

    python benchmarks/flows.py [--fast] [--rounds 15]

Columns of 10,000 rows in process. Each kind of row goes to an advisor of its own, all in turn, fed the same times; ratios are
of median processor times to rows without those fields, in the same run. `network` has `network` and `entered`. Last: the time
of `flow` and of defining, by size.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from advisor import Advisor, kernels
from advisor.domain.observations import Columns, ComponentNames, columns_of

ROWS = 10_000
BOXES = 20
RECORDS = ROWS // BOXES
TEXT = " .. ".join(f"box_{number}" for number in range(BOXES))


def clocked(call: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return the seconds a call takes."""
    start = clock()
    call()
    return clock() - start


def batch(names: ComponentNames, number: int, fields: tuple[str, ...]) -> Columns:
    """Return the rows of 500 records that each run 20 boxes, some 25 records in flight."""
    rng = np.random.default_rng(number)
    order = np.argsort(np.arange(ROWS) + rng.uniform(0, 500, ROWS), kind="stable")
    index = np.tile(np.arange(BOXES), RECORDS)[order]
    x, p = rng.uniform(1, 1000, ROWS), rng.choice([1.0, 2.0, 4.0, 8.0], ROWS)
    elapsed = 1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.1, ROWS)
    reported: dict[str, Any] = {
        "network": np.zeros(ROWS, np.int64), "entered": index == 0,
        "active_cores": p + rng.integers(0, 8, ROWS),
    }  # fmt: skip
    some = {key: reported[key] for key in fields} | ({"labels": ["net"]} if "network" in fields else {})
    return columns_of(names, index, x, p, elapsed, **some)


KINDS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "network": ("network", "entered"),
    "active_cores": ("active_cores",),
}


def folds(rounds: int) -> None:
    """Print the cost of a row of each kind."""
    texts = [f"box_{number}" for number in range(BOXES)]
    sides = {kind: (Advisor(), ComponentNames(texts)) for kind in KINDS}
    for advisor, _ in sides.values():
        advisor.define_network(TEXT, id="net")
    taken: dict[str, list[float]] = {kind: [] for kind in sides}
    for number in range(rounds):
        for kind, (advisor, names) in sides.items():
            rows = batch(names, number, KINDS[kind])
            if number < 2:
                advisor.learn_batch(rows)  # first meetings
                continue
            taken[kind].append(clocked(lambda advisor=advisor, rows=rows: advisor.learn_batch(rows)))
    plain = median(taken["plain"])
    for kind, times in taken.items():
        print(f"{kind:13} {median(times) / ROWS * 1e9:6.0f} ns a row, {median(times) / plain:.2f} of plain")


def answers() -> None:
    """Print the time of defining a network and of asking for its flow."""
    for boxes in (20, 200, 1000, 4000):
        text = " .. ".join(f"(a_{number} | b_{number})" for number in range(boxes // 2))
        advisor = Advisor()
        network = advisor.network(text)
        define = clocked(lambda: advisor.define_network(text, id=1, read=network), time.perf_counter)  # noqa: B023
        names = ComponentNames(list(network.components))
        n = len(network.components)
        advisor.learn_batch(
            columns_of(names, np.arange(n), None, np.ones(n), np.ones(n), network=["1"] * n, entered=np.arange(n) == 0)
        )
        first = clocked(lambda: advisor.flow(1), time.perf_counter)  # noqa: B023
        again = clocked(lambda: advisor.flow(1), time.perf_counter)  # noqa: B023
        print(
            f"{boxes} boxes: defined {define * 1e3:.1f} ms, flow {first * 1e3:.1f} ms, without new rows {again * 1e6:.0f} us"
        )


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="compiled folds (extra fast)")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, numpy {np.__version__}")
    if options.fast:
        print("compiled kernels" if kernels.load_filled() else "kernels interpreted")
    folds(options.rounds)
    answers()


if __name__ == "__main__":
    main()
