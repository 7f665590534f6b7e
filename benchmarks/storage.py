"""Commits to the state file, of pages and to its journal, against writing and syncing the same bytes to a plain file.

    python benchmarks/storage.py [--components 100000] [--repeats 15]

Each line changes so many slots of so many components, as a batch of observations does, commits, and in turn appends the
changed words to a plain file with one write and one fdatasync: what no storage can beat by much. Repeats are interleaved.
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from advisor.domain.observations import ComponentNames, columns_of
from advisor.engine import Engine
from advisor.storage import Store

FILL_ROWS = 100_000  # a batch of the filling


def spread(times: list[float]) -> str:
    low, _, high = statistics.quantiles(times, n=4)
    return f"{statistics.median(times) * 1e3:9.2f} ms  [{low * 1e3:8.2f} – {high * 1e3:8.2f}]"


def filled(components: int) -> tuple[Engine, ComponentNames]:
    engine, names = Engine(components_max=components), ComponentNames([f"component-{i}" for i in range(components)])
    for start in range(0, components, FILL_ROWS):
        index = np.arange(start, min(start + FILL_ROWS, components))
        ones = np.ones(len(index))
        engine.apply(None, None, columns_of(names, index, ones, ones, ones))
    return engine, names


def compare(
    title: str,
    engine: Engine,
    names: ComponentNames,
    store: Store,
    plain: Path,
    pick: Callable[[np.random.Generator], np.ndarray],
    repeats: int,
) -> None:
    rng = np.random.default_rng(3)
    commits: list[float] = []
    copies: list[float] = []
    writes: list[float] = []
    with plain.open("wb", buffering=0) as file:
        for repeat in range(repeats):
            index = pick(rng)
            x, t = rng.uniform(1, 100, len(index)), rng.uniform(0.1, 1.0, len(index))
            engine.apply(("benchmark", bytes(16)), engine.applied("benchmark", bytes(16)) + 1, columns_of(
                names, index, x, np.full(len(index), 1.0 + repeat % 8), t
            ))  # fmt: skip
            begun = time.perf_counter()
            snapshot = engine.commits.snapshot()
            copied = time.perf_counter()
            store.commit(snapshot)
            committed = time.perf_counter()
            words = snapshot.tables[0].words.shape[1]
            data = rng.bytes(words * 8 * len(np.unique(index)))
            written = time.perf_counter()
            file.write(data)
            os.fdatasync(file.fileno())
            writes.append(time.perf_counter() - written)
            copies.append(copied - begun)
            commits.append(committed - copied)
    ratio = statistics.median(commits) / statistics.median(writes)
    print(
        f"{title:<34} commit {spread(commits)}   plain file {spread(writes)}   {ratio:6.1f} x   copy {spread(copies)}"
    )


def journalled(
    title: str, engine: Engine, names: ComponentNames, store: Store, plain: Path, rows: int, repeats: int
) -> None:
    """Time entries of so many rows, their encoding included, and what a start needs to replay one of them."""
    rng = np.random.default_rng(4)
    appends: list[float] = []
    writes: list[float] = []
    with plain.open("wb", buffering=0) as file:
        for _ in range(repeats):
            index = rng.integers(0, len(names), rows)
            engine.apply(("benchmark", bytes(16)), engine.applied("benchmark", bytes(16)) + 1, columns_of(
                names, index, rng.uniform(1, 100, rows), np.ones(rows), rng.uniform(0.1, 1.0, rows)
            ))  # fmt: skip
            entry = engine.commits.take_entry()
            assert entry is not None
            begun = time.perf_counter()
            store.append(entry)
            appends.append(time.perf_counter() - begun)
            data = entry.encode()
            written = time.perf_counter()
            file.write(data)
            os.fdatasync(file.fileno())
            writes.append(time.perf_counter() - written)
    ratio = statistics.median(appends) / statistics.median(writes)
    print(f"{title:<34} commit {spread(appends)}   plain file {spread(writes)}   {ratio:6.1f} x")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--components", type=int, default=100_000)
    arguments.add_argument("--repeats", type=int, default=15)
    arguments.add_argument("--directory", type=Path, help="where to write; a temporary directory by default")
    given = arguments.parse_args()
    n = given.components
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}, "
        f"SQLite {sqlite3.sqlite_version}"
    )
    print("median [quartiles]; the ratio is commit / plain file; copy is the engine's snapshot, on the loop")
    engine, names = filled(n)
    with tempfile.TemporaryDirectory(dir=given.directory) as place:
        path = Path(place) / "state"
        with Store.open(path) as store:
            begun = time.perf_counter()
            store.commit(engine.commits.snapshot())
            print(
                f"{n} components at once: {time.perf_counter() - begun:.2f} s, {path.stat().st_size / n:.0f} bytes each"
            )
            for title, pick in {
                "1 component": lambda rng: rng.integers(0, n, 1),
                "100 components at random": lambda rng: rng.choice(n, 100, replace=False),
                "1000 components at random": lambda rng: rng.choice(n, 1000, replace=False),
                "10,000 components side by side": lambda _: np.arange(min(10_000, n)),
                "10,000 components at random": lambda rng: rng.choice(n, 10_000, replace=False),
            }.items():
                compare(title, engine, names, store, Path(place) / "plain", pick, given.repeats)
        begun = time.perf_counter()
        with Store.open(path) as store:
            Engine.restore(store.load(), components_max=n)  # type: ignore[arg-type]
            print(f"opened, every bit checked, and restored in {time.perf_counter() - begun:.2f} s")
            engine.commits.snapshot()
            engine.commits.keep_journal()
            for rows in (1, 9, 1000, 10_000):
                title = f"journal: {rows} rows"
                journalled(title, engine, names, store, Path(place) / "plain", rows, 20 * given.repeats)
        begun = time.perf_counter()
        with Store.open(path) as store:
            entries, restored = store.journal_entries, Engine.restore(store.load(), components_max=n)  # type: ignore[arg-type]
            took = time.perf_counter() - begun
            print(
                f"opened, and {entries} entries replayed, in {took:.2f} s ({restored.totals['rows_accepted']} rows in all)"
            )


if __name__ == "__main__":
    main()
