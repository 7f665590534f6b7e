"""A state as a killed service leaves it, and what its files were at an earlier commit. Run by itself it writes one.

python stored_history.py STATE SEED      (prints a line a commit, waits for a line back, and is killed)
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Engine
from advisor.storage import Store, pages, schema
from advisor.storage import store as store_module

KEY = ("producer", bytes(16))
SUFFIXES = ("", "-wal", "-witness")
COMMITS = 24
PAGES_AT = (0, 9)  # commits of pages; the others are entries of the journal
BESIDE_AT = (11, 20)  # entries from which on pages are written beside those that follow; the last are not all there
Files = dict[str, bytes]


def batch(seed: int, number: int) -> Columns:
    """Return rows; each batch brings a new component."""
    rng = np.random.default_rng([seed, number])
    names = ComponentNames([f"c{i}" for i in range(3 + number)])
    n = int(rng.integers(1, 60))
    return columns_of(names, rng.integers(0, len(names), n), rng.uniform(1, 9, n), np.ones(n), rng.uniform(1, 2, n))


def engine_at(seed: int, number: int) -> Engine:
    """Return an engine that was taught so many batches and never killed."""
    engine = Engine()
    for each in range(1, number + 1):
        engine.apply(KEY, each, batch(seed, each))
    return engine


def write(path: Path, seed: int) -> None:
    """Commit batch after batch, a line of output for each, as an acknowledgement."""
    schema.CHECKPOINT_PAGES = 24  # the log goes round, and older frames lie behind its end
    pages.STEP_BYTES = store_module.STEP_BYTES = 1
    engine = Engine()
    engine.commits.keep_journal()
    with Store.open(path) as store:
        for number in range(1, COMMITS + 1):
            engine.apply(KEY, number, batch(seed, number))
            entry = None if number - 1 in PAGES_AT else engine.commits.take_entry()
            if entry is None:
                store.commit(engine.commits.snapshot())
            else:
                store.append(entry, engine.commits.snapshot() if number - 1 in BESIDE_AT else None)
            print(number, flush=True)
            sys.stdin.readline()


@dataclass(frozen=True)
class History:
    """What a killed writer left.

    Attributes
    ----------
    states
        By number of the last batch acknowledged: the files' bytes.
    """

    path: Path
    seed: int
    states: dict[int, Files]

    def put(self, files: Files) -> None:
        """Let the files have these bytes, in place: they stay the files that they are."""
        kept = self.path.with_name("kept")
        if not kept.exists():
            kept.hardlink_to(self.path)
        self.path.unlink(missing_ok=True)
        self.path.hardlink_to(kept)
        for suffix in ("-shm", *SUFFIXES):
            file = self.path.with_name(self.path.name + suffix)
            if suffix in files:
                file.write_bytes(files[suffix])
            else:
                file.unlink(missing_ok=True)


def files_of(path: Path) -> Files:
    """Return the bytes of a state's files."""
    named = {suffix: path.with_name(path.name + suffix) for suffix in SUFFIXES}
    return {suffix: file.read_bytes() for suffix, file in named.items() if file.exists()}


def killed(path: Path, seed: int) -> History:
    """Let a process write a state, and kill it behind the last commit."""
    states: dict[int, Files] = {}
    command = [sys.executable, __file__, str(path), str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        while (line := writer.stdout.readline()) and (number := int(line)):
            states[number] = files_of(path)
            if number == COMMITS:
                writer.kill()
                break
            print(file=writer.stdin, flush=True)
    return History(path, seed, states)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
