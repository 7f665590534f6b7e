"""Kills a service again and again under a stream of all verbs; holds what it left, each time, against a twin that never was.

Run by itself: ``PYTHONPATH=.:tests/support python tests/support/killed_lives.py 1000 [first seed]``.
"""

from __future__ import annotations

import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgpack
from live import PATIENCE_S
from mixed_events import Mixed, bits
from nursery import Life, Nursery

from advisor.engine import Engine
from advisor.storage import Store

EVENTS_A_LIFE = 45
LIVES_A_STATE = 20
START_S = 0.05  # about as long as a start takes
# Entries of the journal behind which pages are written, bytes of tables a turn, bytes of SQLite's log, rows of a commit.
MODES = {
    "advisor.storage.store.JOURNAL_ENTRIES_MAX": (2**15, 4, 40, 400), "advisor.engine.pages.SLICE_BYTES": (1, 2**20),
    "advisor.storage.store.LOG_BYTES": (2**14, 2**20), "commit_rows": (1, 100, 200_000),
}  # fmt: skip
ENDS = ("busy", "busy", "busy", "stopping", "stopped", "starting")


def killed_and_compared(
    nursery: Nursery, folder: Path, seed: int, lives: int = LIVES_A_STATE, **given: int
) -> Counter[str]:
    """Return how often a service on one state died how; a mode is drawn where none is given.

    One producer, in its order: however its events were grouped, cut and committed, and pages written between.

    Raises
    ------
    AssertionError
        When it left anything else than its twin has.
    """
    rng, ends = random.Random(seed), Counter[str]()
    mode = {name: rng.choice(values) for name, values in MODES.items()} | {
        name: given[name.rpartition(".")[2]] for name in MODES if name.rpartition(".")[2] in given
    }
    options = {"socket": str(folder / "s"), "state": str(folder / "state"), "commit_rows": mode.pop("commit_rows")}
    told, twin, first = Mixed(seed, lives * EVENTS_A_LIFE), Engine(), 0
    for life in range(lives):
        where = f"seed {seed}, {mode}, {options['commit_rows']} rows a commit, life {life}"
        end = rng.choice(ENDS) if life else "busy"
        ends[end] += 1
        enough = first + rng.randrange(EVENTS_A_LIFE - 5)
        service, acknowledged = nursery.begin(options, mode), first - 1
        if end == "starting":
            time.sleep(rng.uniform(0.0, START_S))  # the random moment
        else:
            assert service.serves(), f"{where}: it does not start\n{service.end()}"
            acknowledged = _told(told, first, enough, service, end, options["socket"], where)
        service.end()
        with Store.open(folder / "state", read_only=True) as store:
            loaded = store.load()
        assert loaded is not None
        survivor = Engine.restore(loaded)
        while first < len(told.events) and told.happened(survivor, first):
            told.apply(twin, first)
            first += 1
        assert first > acknowledged, f"{where}: {acknowledged} was acknowledged, {first - 1} is there"
        for left, never in zip(bits(survivor), bits(twin), strict=True):
            assert left == never, f"{where}: not its twin behind event {first}"
    return ends


def _told(told: Mixed, first: int, enough: int, service: Life, end: str, address: str, where: str) -> int:
    """Send events, have so many answered, and more where it is told to stop; return the last."""
    acknowledged, answers = first - 1, msgpack.Unpacker()
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE_S)
        peer.connect(address)
        peer.sendall(b"".join(told.message(at) for at in range(first, min(first + EVENTS_A_LIFE, len(told.events)))))
        asked_to_stop = False
        while acknowledged < enough or (asked_to_stop and end == "stopped"):
            try:
                data = peer.recv(2**16)
            except TimeoutError:
                raise AssertionError(f"{where}: no answer\n{service.end(signal.SIGABRT)}") from None
            if not data:
                break
            answers.feed(data)
            for _, at, error, _ in answers:
                if at is not None and error is None:
                    acknowledged = max(acknowledged, at)
                elif not asked_to_stop:
                    raise AssertionError((where, told.events[acknowledged + 1], error))
            if acknowledged >= enough and end in ("stopping", "stopped") and not asked_to_stop:
                service.signal(signal.SIGTERM)
                asked_to_stop = True
    return acknowledged


if __name__ == "__main__":
    lives, seed, ends = int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0]), Counter[str]()
    with Nursery() as nursery:
        while ends.total() < lives:
            with tempfile.TemporaryDirectory() as folder:
                ends += killed_and_compared(nursery, Path(folder), seed)
            seed += 1
            print(f"{ends.total()} lives: {dict(ends)}, next seed {seed}", flush=True)
