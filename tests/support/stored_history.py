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
from advisor.engine import Engine, state_bytes
from advisor.storage import Store
from advisor.storage import store as store_module

KEY = ("producer", bytes(16))
COMMITS = 24
IMAGE_AT = (0, 9)  # commits of an image; the others are entries of the log
BESIDE_AT = (11, 20)  # entries behind which an image is written beside those that follow; the last is not whole
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
    store_module.STEP_BYTES = 1
    state_bytes.SLOTS_A_BLOCK = 4
    engine = Engine()
    engine.commits.keep_journal()
    with Store.open(path) as store:
        for number in range(1, COMMITS + 1):
            engine.apply(KEY, number, batch(seed, number))
            entry = None if number - 1 in IMAGE_AT else engine.commits.take_entry()
            if entry is None:
                store.save(engine.commits.image())
            else:
                store.append(entry.encode(), engine.commits.image() if number - 1 in BESIDE_AT else ())
                store.write_on()
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
        for suffix in {*files_of(self.path), *files}:
            file = self.path.with_name(self.path.name + suffix)
            if suffix in files:
                file.write_bytes(files[suffix])
            else:
                file.unlink(missing_ok=True)


def files_of(path: Path) -> Files:
    """Return the bytes of a state's files."""
    named = {file.name.removeprefix(path.name): file for file in path.parent.glob(f"{path.name}*")}
    kinds = ("-log", "-marker", ".new")
    return {suffix: file.read_bytes() for suffix, file in named.items() if not suffix or suffix.startswith(kinds)}


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
