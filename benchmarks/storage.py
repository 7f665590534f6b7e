"""Commits to a state on disk, images and entries of its log, against writing and syncing the same bytes to a plain file.

    python benchmarks/storage.py [--components 100000] [--repeats 15]

Each line commits, and in turn appends as many bytes to a plain file with one write and one fdatasync: what no storage can beat
by much. Repeats are interleaved.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from advisor.domain.observations import ComponentNames, columns_of
from advisor.engine import Engine
from advisor.storage import Store

FILL_ROWS = 100_000  # a batch of the filling
KEY = ("benchmark", bytes(16))


def spread(times: list[float]) -> str:
    low, _, high = statistics.quantiles(times, n=4)
    return f"{statistics.median(times) * 1e3:9.2f} ms  [{low * 1e3:8.2f} – {high * 1e3:8.2f}]"


def filled(components: int) -> tuple[Engine, ComponentNames]:
    engine, names = Engine(components_max=components), ComponentNames([f"component-{i}" for i in range(components)])
    for start in range(0, components, FILL_ROWS):
        index = np.arange(start, min(start + FILL_ROWS, components))
        ones = np.ones(len(index))
        engine.apply_event(None, None, columns_of(names, index, ones, ones, ones))
    return engine, names


def logged(engine: Engine, names: ComponentNames, store: Store, plain: Path, rows: int, repeats: int) -> None:
    """Time entries of so many rows, their encoding included."""
    rng = np.random.default_rng(4)
    appends: list[float] = []
    writes: list[float] = []
    with plain.open("wb", buffering=0) as file:
        for _ in range(repeats):
            index = rng.integers(0, len(names), rows)
            engine.apply_event(KEY, engine.applied(*KEY) + 1, columns_of(
                names, index, rng.uniform(1, 100, rows), np.ones(rows), rng.uniform(0.1, 1.0, rows)
            ))  # fmt: skip
            entry = engine.take_entry()
            assert entry is not None
            begun = time.perf_counter()
            data = entry.encode()
            store.append(data)
            appends.append(time.perf_counter() - begun)
            written = time.perf_counter()
            file.write(data)
            os.fdatasync(file.fileno())
            writes.append(time.perf_counter() - written)
    ratio = statistics.median(appends) / statistics.median(writes)
    print(f"{f'log: {rows} rows':<20} commit {spread(appends)}   plain file {spread(writes)}   {ratio:6.1f} x")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--components", type=int, default=100_000)
    arguments.add_argument("--repeats", type=int, default=15)
    arguments.add_argument("--directory", type=Path, help="where to write; a temporary directory by default")
    given = arguments.parse_args()
    n = given.components
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}")
    engine, names = filled(n)
    engine.journal.keep()
    with tempfile.TemporaryDirectory(dir=given.directory) as place:
        path = Path(place) / "state"
        with Store.open(path) as store:
            begun = time.perf_counter()
            blocks = engine.take_image()
            encoded = time.perf_counter()
            store.save(blocks)
            print(
                f"an image of {n} components: {encoded - begun:.2f} s on the loop, {time.perf_counter() - encoded:.2f} s in "
                f"the writer's thread, {path.stat().st_size / n:.0f} bytes each"
            )
            for rows in (1, 9, 1000, 10_000):
                logged(engine, names, store, Path(place) / "plain", rows, 20 * given.repeats)
        begun = time.perf_counter()
        with Store.open(path) as store:
            stored, entries = store.load(), store.log_entries
            assert stored is not None
            restored = Engine.restore(stored, components_max=n)
            took = time.perf_counter() - begun
            rows = restored.totals["rows_accepted"]
            print(f"opened, every byte checked, {entries} entries replayed, in {took:.2f} s ({rows} rows in all)")


if __name__ == "__main__":
    main()
