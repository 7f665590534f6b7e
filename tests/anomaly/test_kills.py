"""Exactly once through kill -9: the short form of the harness, its long form, and the proof that it can fail; and the bits."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
from pathlib import Path

import msgpack
import pytest
from kill_harness import COMMAND, PROGRAM, Miscounted, harness
from live import PATIENCE_S
from mixed_events import Mixed, bits

from advisor.engine import Engine
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


EVENTS_A_LIFE = 45


def killed_and_compared(tmp_path: Path, lives: int, entries_max: int) -> int:
    """Kill a service again and again under a stream of all verbs; hold what it left, each time, against a twin.

    One producer, in its order: however its events were grouped, cut and committed, and pages written between.
    """
    rng = random.Random(entries_max)
    patched = f"store.JOURNAL_ENTRIES_MAX = {entries_max}; pages.SLICE_BYTES = 1"  # and each page has a turn of its own
    program = f"from advisor.engine import pages; from advisor.storage import store; {patched}; {PROGRAM}"
    options = {"socket": str(tmp_path / "s"), "state": str(tmp_path / "state")}
    given, twin, first = Mixed(entries_max, lives * EVENTS_A_LIFE), Engine(), 0
    for life in range(lives):
        with subprocess.Popen([*COMMAND, program, json.dumps(options)], stderr=subprocess.PIPE) as service:
            assert service.stderr is not None
            assert any(b'"serving"' in line for line in service.stderr)
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(PATIENCE_S)
                peer.connect(options["socket"])
                peer.sendall(b"".join(given.message(at) for at in range(first, first + EVENTS_A_LIFE)))
                answers, acknowledged, enough = msgpack.Unpacker(), first - 1, first + rng.randrange(EVENTS_A_LIFE - 5)
                while acknowledged < enough:
                    try:
                        answers.feed(peer.recv(2**16))
                    except TimeoutError:
                        service.send_signal(signal.SIGABRT)
                        pytest.fail(f"life {life}, event {acknowledged}: no answer\n{service.stderr.read().decode()}")
                    for _, at, error, _ in answers:
                        assert error is None, (life, given.events[at], error)
                        acknowledged = max(acknowledged, at)
            service.send_signal(signal.SIGKILL)
        with Store.open(tmp_path / "state", read_only=True) as store:
            loaded = store.load()
        assert loaded is not None
        survivor = Engine.restore(loaded)
        while given.happened(survivor, first):
            given.apply(twin, first)
            first += 1
        assert first > acknowledged
        for left, never in zip(bits(survivor), bits(twin), strict=True):
            assert left == never, f"life {life}, behind event {first}"
    return first


@pytest.mark.parametrize("entries_max", [2**15, 4])
def test_what_a_killed_service_leaves_equals_a_twin_that_was_never_killed(tmp_path: Path, entries_max: int) -> None:
    assert killed_and_compared(tmp_path, 4, entries_max) > 4


@pytest.mark.slow
@pytest.mark.parametrize("entries_max", [2**15, 4, 40, 400])
def test_a_thousand_kills_under_all_verbs(tmp_path: Path, entries_max: int) -> None:
    """Of four times 250 lives."""
    assert killed_and_compared(tmp_path, 250, entries_max) > 250
