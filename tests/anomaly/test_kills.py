"""Exactly once through kill -9: the short form of the harness, its long form, and the proof that it can fail; and the bits."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgpack
import pytest
from kill_harness import PROGRAM, Miscounted, batch_rows, harness
from live import PATIENCE_S

from advisor.engine import Engine
from advisor.protocol.rows import columns_of_rows
from advisor.storage import Store


async def test_every_acknowledged_row_is_counted_once_through_kills(tmp_path: Path) -> None:
    done = await harness(tmp_path, kills=4, seed=11)
    assert done["kills"] == 4
    assert done["acknowledgements"] > 20


async def test_the_harness_finds_a_service_without_sequence_checks_guilty(tmp_path: Path) -> None:
    with pytest.raises(Miscounted):
        await harness(tmp_path, kills=2, seed=11, numbered=False)


@pytest.mark.slow
async def test_a_hundred_kills(tmp_path: Path) -> None:
    done = await harness(tmp_path, kills=100, seed=12)
    assert done["kills"] == 100


def batches(rng: random.Random) -> list[list[list[object]]]:
    """Return batches of one row, of some and of many, some of them on the short way."""
    return [
        [list(row) for number in range(rng.choice((1, 1, 20))) for row in batch_rows(0, 1000 * k + number)][
            : rng.choice((1, 1, 7, 1000))
        ]
        for k in range(150)
    ]


@pytest.mark.parametrize("entries_max", [2**15, 4])
def test_what_a_killed_service_leaves_is_replayed_to_the_bit(tmp_path: Path, entries_max: int) -> None:
    """One producer, in its order: however batches were grouped, cut and committed, and pages written between."""
    rng = random.Random(entries_max)
    patched = f"store.JOURNAL_ENTRIES_MAX = {entries_max}; pages.SLICE_BYTES = 1"  # and each page has a turn of its own
    program = f"from advisor.engine import pages; from advisor.storage import store; {patched}; {PROGRAM}"
    options = {"socket": str(tmp_path / "s"), "state": str(tmp_path / "state")}
    given, first = batches(rng), 1
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", program, json.dumps(options)], stderr=subprocess.PIPE) as service:
            assert service.stderr is not None
            assert b'"serving"' in service.stderr.readline()
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(PATIENCE_S)
                peer.connect(options["socket"])
                frames = [
                    msgpack.packb([0, n, "observe_rows", [{"producer": "p", "sequence": n, "rows": given[n - 1]}]])
                    for n in range(first, len(given) + 1)
                ]
                peer.sendall(b"".join(frames[:50]))
                answers, acknowledged = msgpack.Unpacker(), first - 1
                while acknowledged < first + rng.randrange(30):
                    answers.feed(peer.recv(2**16))
                    acknowledged = max([acknowledged, *(message[1] for message in answers)])
            service.send_signal(signal.SIGKILL)
        with Store.open(tmp_path / "state", read_only=True) as store:
            loaded = store.load()
        assert loaded is not None
        survivor, fresh = Engine.restore(loaded), Engine()
        durable = survivor.applied("p", bytes(16))
        assert durable >= acknowledged
        for number in range(1, durable + 1):
            fresh.observe_batch("p", bytes(16), number, columns_of_rows(given[number - 1]))
        assert survivor.advisor.to_bytes() == fresh.advisor.to_bytes()
        first = durable + 1
