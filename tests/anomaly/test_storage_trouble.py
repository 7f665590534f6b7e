"""A state file that cannot be written, is damaged or locked: acknowledgements stop, queries go on, words say why."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from live import Live, refused, rows_of, running

from advisor.engine import Engine
from advisor.errors import StateDamaged
from advisor.storage import Store, log, read_state

LOG_BYTES = 600  # less than a log of two commits


@pytest.fixture
def file_bytes_max() -> Iterator[Callable[[int | None], None]]:
    """Let no file of this process grow beyond so many bytes, as on a full disk; None: as before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes then fail, instead of killing the process
    yield lambda most: resource.setrlimit(resource.RLIMIT_FSIZE, (soft if most is None else most, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


RUN = {"program": "fib", "size": 9, "workers": 1, "elapsed_s": 1.0, "work_s": 1.0, "delay_s": 0.0, "no_work_s": 0.0,
       "creates": 8, "waits": 4}  # fmt: skip
CHANGES = [
    ("define_network", {"id": "net", "text": "c0 .. c1"}), ("observe_run", RUN), ("forget", {"component": "c0"}),
    ("task_events", {"producer": "t", "sequence": 1, "records": b""}),
]  # fmt: skip


async def ready(live: Live) -> tuple[int, str]:
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"http://{live.bound.http}/readyz")
    return answer.status_code, answer.text


def applied(state: Path) -> tuple[int, int]:
    """Return the number of the last batch in a state file, and the rows of all."""
    loaded = read_state(state).stored()
    assert loaded is not None
    engine = Engine.restore(loaded)
    return engine.applied("p", bytes(16)), engine.totals["rows_accepted"]


async def test_a_full_disk_stops_acknowledgements_only_and_heals_by_itself(
    tmp_path: Path, file_bytes_max: Callable[[int | None], None]
) -> None:
    state = tmp_path / "state"
    async with running(tmp_path, state=state, http="127.0.0.1:0") as live:
        peer = await live.peer()
        batch = {"producer": "p", "rows": rows_of(20)}
        await peer.call("observe_rows", batch | {"sequence": 1})
        assert await ready(live) == (200, "ready\n")

        file_bytes_max(LOG_BYTES)
        second = await peer.post("observe_rows", batch | {"sequence": 2})
        while (await ready(live))[0] == 200:  # until the commit has failed
            pass
        status, words = await ready(live)
        assert status == 503
        assert "storage failed" in words

        assert (await peer.call("predict", "c0", 4.0, 2))["observations"] > 0  # queries go on
        for verb, params in [("observe_rows", batch | {"sequence": 3}), *CHANGES]:
            assert (await refused("storage_failed", peer.call(verb, params))).retry
        assert second not in peer.early  # nothing is acknowledged
        assert (await peer.call("hello", {"producer": "p"}))["sequence"] == 1
        health = (await peer.call("status", {}))["service"]
        assert health["storage"] == "failed"
        assert (await peer.call("observe_rows", batch | {"sequence": 1}))["replayed"] is True  # durable before

        file_bytes_max(None)
        assert (await peer.answer(second))["accepted"] == 20  # by itself
        assert await ready(live) == (200, "ready\n")
        assert (await peer.call("observe_rows", batch | {"sequence": 3}))["accepted"] == 20
    assert applied(state) == (3, 60)


async def test_a_service_that_stops_on_a_full_disk_says_what_is_lost_in_time(
    tmp_path: Path, file_bytes_max: Callable[[int | None], None]
) -> None:
    async with running(tmp_path, state=tmp_path / "state", shutdown_s=0.3) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(20)})
        file_bytes_max(LOG_BYTES)
        await peer.post("observe_rows", {"producer": "p", "sequence": 2, "rows": rows_of(20)})
        live.stop.set()
        said = await peer.closed()
        assert not [message for message in said if message[2] is None]  # no acknowledgement of batch 2
    file_bytes_max(None)
    async with running(tmp_path, state=tmp_path / "state") as live:
        peer = await live.peer()
        assert (await peer.call("hello", {"producer": "p"}))["sequence"] == 1


@pytest.mark.parametrize("happens", ["deleted", "replaced"])
@pytest.mark.parametrize("suffix", ["", "-log", "-marker"])
async def test_a_state_that_is_taken_away_stops_acknowledgements_until_it_is_back(
    tmp_path: Path, happens: str, suffix: str
) -> None:
    aside = tmp_path / "aside"
    async with running(tmp_path, state=tmp_path / "state", http="127.0.0.1:0") as live:
        peer = await live.peer()
        batch = {"producer": "p", "rows": rows_of(20)}
        await peer.call("observe_rows", batch | {"sequence": 1})
        file = next(tmp_path.glob(f"state{suffix}*")) if suffix else tmp_path / "state"
        file.rename(aside)
        if happens == "replaced":
            file.write_bytes(aside.read_bytes())
        second = await peer.post("observe_rows", batch | {"sequence": 2})
        status, words = await ready(live)  # it looks by itself
        assert status == 503
        assert f"{file} was" in words
        await refused("storage_failed", peer.call("observe_rows", batch | {"sequence": 3}))
        assert second not in peer.early
        aside.replace(file)
        assert (await peer.answer(second))["accepted"] == 20
        assert (await ready(live))[0] == 200
        await peer.call("observe_rows", batch | {"sequence": 3})
    assert applied(tmp_path / "state") == (3, 60)


async def test_a_sync_that_fails_stops_acknowledgements_and_nothing_is_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, state=tmp_path / "state", http="127.0.0.1:0") as live:
        peer = await live.peer()
        batch = {"producer": "p", "rows": rows_of(20)}
        await peer.call("observe_rows", batch | {"sequence": 1})
        with monkeypatch.context() as broken:
            broken.setattr(log.os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
            second = await peer.post("observe_rows", batch | {"sequence": 2})
            while (await ready(live))[0] == 200:
                pass
            assert "state cannot be written" in (await ready(live))[1]
            assert (await peer.call("hello", {"producer": "p"}))["sequence"] == 1
            assert second not in peer.early
        assert (await peer.answer(second))["accepted"] == 20
        assert (await peer.call("hello", {"producer": "p"}))["sequence"] == 2
    assert applied(tmp_path / "state") == (2, 40)


async def start(tmp_path: Path, **options: object) -> None:
    async with running(tmp_path, **options):
        pass


async def test_a_damaged_state_names_its_components_and_starts_without_them_when_told(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with running(tmp_path, state=state) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(90)})
    with Store.open(state) as store:  # an image of what the log has
        stored = store.load()
        assert stored is not None
        store.save(Engine.restore(stored).take_image())
    data = bytearray(state.read_bytes())
    data[data.index(b"\xa2c1") + 2] ^= 1
    state.write_bytes(data)
    with pytest.RaisesGroup(StateDamaged, flatten_subgroups=True) as caught:
        await start(tmp_path, state=state)
    assert "components at slots 0 to 2: c0, c1, c2" in str(caught.value.exceptions[0])
    async with running(tmp_path, state=state, accept_damage=True) as live:
        peer = await live.peer()
        await refused("unknown_component", peer.call("predict", "c0", 4.0, 2))
        assert (await peer.call("hello", {"producer": "p"}))["sequence"] == 1
        await peer.call("observe_rows", {"producer": "p", "sequence": 2, "rows": rows_of(90)})
        answer = await peer.call("predict", "c0", 4.0, 2)
        assert abs(answer["elapsed_s"] / 0.02 - 1) < 0.01
        assert answer["observations"] == 30
    await start(tmp_path, state=state)


async def test_a_refused_start_leaves_no_state(tmp_path: Path) -> None:
    with pytest.RaisesGroup(Exception, flatten_subgroups=True):
        await start(tmp_path, state=tmp_path / "state", tcp="256.0.0.1:1")
    assert not list(tmp_path.glob("state*"))
