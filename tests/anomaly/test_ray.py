"""A service on a real Ray: shards, the front and a node are killed while rows come; all rows are there after, once.

One of them runs wherever Ray is installed, half a minute; the others are slow. The rest of what shards promise is shown without
Ray in `tests/unit/cluster`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor import Advisor, SyncClient
from advisor.errors import Unavailable

pytest.importorskip("ray", reason="NO RAY HERE: install the extra `ray` to run this")

PATIENCE_S = 300.0  # nothing here depends on how busy the machine is
KILLS = 20  # of shards and of the front together
BOXES = [f"c{i}" for i in range(6)]
SERVE = """
import json, sys
from pathlib import Path
from advisor.cluster.serving import serve
from advisor.service import load_config, run
run(load_config(**json.loads(sys.argv[1])), serve)
"""
# As `program` reads it; a busy machine keeps a node from answering for long, and that alone is no failure.
PATIENT = {
    "RAY_health_check_failure_threshold": "100", "RAY_health_check_timeout_ms": "60000",
    "RAY_worker_register_timeout_seconds": "300", "RAY_raylet_start_wait_time_s": "300",
}  # fmt: skip
NODE = ["--block", "--num-cpus=4", "--object-store-memory=80000000", "--disable-usage-stats"]
HEAD = ["start", "--head", "--port=0", "--include-dashboard=false", *NODE]
RAY = "from ray.scripts.scripts import main; main()"


@pytest.fixture
def place() -> Generator[Path]:
    place = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # short: paths of sockets are 107 bytes at most
    yield place
    shutil.rmtree(place, ignore_errors=True)


def environment(place: Path) -> dict[str, str]:
    ours = PATIENT | {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(place)}
    return {**os.environ, **ours, "PYTHONPATH": str(Path(advisor.__file__).parents[1])}


@contextmanager
def program(place: Path, *argv: str, until: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Run a program in a session of its own, from when it has said a word; all of the session is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", *argv], env=environment(place), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if until in line:
                break
        else:
            pytest.fail("it ended: " + "".join(said[-50:]))
        yield process, said[-1]
    finally:
        for pid in session(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def session(leader: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found: list[int] = []
    for each in Path("/proc").iterdir():
        try:
            state, _, _, own = (each / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):  # it has ended meanwhile, or it is no process
            continue
        if int(own) == leader and state != "Z":
            found.append(int(each.name))
    return found


def process_of(shard: Path) -> int:
    """Return which process has the state of a shard open."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == str(shard / "state"):
                return int(link.parts[2])
        except OSError:
            continue
    raise AssertionError(f"nobody has {shard} open")


def front(place: Path, engine: str, **more: str) -> AbstractContextManager[tuple[subprocess.Popen[str], str]]:
    config = {"socket": "s", "state": "state"}
    reported = {key: str(place / name) for key, name in config.items()} | {"engine": engine, "compiled": False} | more
    return program(place, SERVE, json.dumps(reported), until='"serving"')


class Stream:
    """Rows to a service and to one advisor, which knows what the service must answer."""

    def __init__(self, client: SyncClient) -> None:
        self.client, self.one, self.sent = client, Advisor(), 0

    def send(self, n: int = 60) -> None:
        for i in range(self.sent, self.sent + n):
            name, x, p = BOXES[i % 6], 1.0 + i % 17, 1.0 + i % 4
            t = 0.01 * (1 + i % 6) * x / p**0.7
            self.one.observe(name, predictor=x, cores=p, elapsed_s=t)
            self.client.observe(name, predictor=x, cores=p, elapsed_s=t)
        self.sent += n

    def check(self) -> Counter[str]:
        """See that all that was sent is there once, to the bit; return how often the shards were opened anew."""
        self.client.flush()
        status: Any = self.client.status(True)
        assert status["totals"]["rows_accepted"] == self.sent
        assert {each["component"]: each["rows"] for each in status["components"]} == dict.fromkeys(
            BOXES, self.sent // 6
        )
        found, page = Advisor(), self.client.export()
        found.merge(Advisor.from_bytes(page["state"]))
        while page["next"] is not None:
            page = self.client.export(page["next"])
            found.merge(Advisor.from_bytes(page["state"]))
        assert found.extract(BOXES, ()) == self.one.extract(BOXES, ()), "to the byte"
        for name in BOXES:
            assert self.client.predict(name, 5.0, 2, fresh=True) == self.one.predict(name, predictor=5.0, cores=2)
        return Counter({str(each["shard"]): each["recoveries"] for each in status["service"]["shards"]})


@contextmanager
def stream(place: Path) -> Generator[Stream]:
    with SyncClient(str(place / "s"), producer="p", timeout_s=PATIENCE_S, close_s=PATIENCE_S) as client:
        yield Stream(client)


@contextmanager
def two_nodes(place: Path) -> Generator[tuple[str, int]]:
    """Start a Ray of two nodes; yield its address and the second node's session. Nothing of both is left at the end."""
    leaders: list[int] = []
    with ExitStack() as nodes:
        head, said = nodes.enter_context(program(place, RAY, *HEAD, until="ray start --address"))
        address = said.split("'")[1]
        join = ["start", f"--address={address}", *NODE]
        other, _ = nodes.enter_context(program(place, RAY, *join, until="Ray runtime started"))
        leaders += [head.pid, other.pid]
        yield address, other.pid
    while any(session(leader) for leader in leaders):  # killed, and not yet gone
        os.sched_yield()


def test_a_shard_and_the_front_of_two_nodes_are_killed_and_rows_are_exact(place: Path) -> None:
    with two_nodes(place) as (address, other), ExitStack() as fronts, stream(place) as rows:
        service, _ = fronts.enter_context(front(place, f"ray://{address}"))
        rows.send()
        rows.check()
        shards = [process_of(place / "state" / f"shard-{number}") for number in (0, 1)]
        assert sum(pid in session(other) for pid in shards) <= 1, "Ray spreads them"
        rows.send()
        os.kill(shards[0], signal.SIGKILL)
        rows.send()
        rows.client.flush()
        rows.send()
        service.kill()
        service.wait()
        rows.send()
        service, _ = fronts.enter_context(front(place, f"ray://{address}"))
        rows.check()
        now = [process_of(place / "state" / f"shard-{number}") for number in (0, 1)]
        assert not {*now} & {*shards}, "the shards of a front end with it"
        with pytest.raises(Unavailable, match="not every shard has a place: there are cores for 8"):
            rows.client.shards(9)
        rows.send()
        rows.check()
        service.terminate()
        service.wait()
        with pytest.raises(AssertionError, match="nobody"):
            process_of(place / "state" / "shard-0")


@pytest.mark.slow
def test_kills_of_shards_and_of_the_front_lose_and_double_nothing(place: Path) -> None:
    with ExitStack() as fronts, stream(place) as rows:
        for _ in range(KILLS // 10):
            service, _ = fronts.enter_context(front(place, "ray"))
            rows.send()
            rows.check()
            for number in (0, 1) * 4 + (0,):
                rows.send()
                os.kill(process_of(place / "state" / f"shard-{number}"), signal.SIGKILL)
                rows.send()
                rows.client.flush()
            assert rows.check() == {"0": 5, "1": 4}  # the kills were of shards, and each was noticed
            rows.send()
            service.kill()
            service.wait()
            rows.send()
        service, _ = fronts.enter_context(front(place, "ray"))
        rows.check()
        service.terminate()
        service.wait()
        assert not session(service.pid), "nothing of Ray is left over"


@pytest.mark.slow
def test_shards_of_a_ray_of_two_nodes_outlive_a_node(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*PATIENT]:
        monkeypatch.delitem(PATIENT, name)  # a node that is gone is to be noticed
    with two_nodes(place) as (address, other), ExitStack() as nodes, stream(place) as rows:
        service, _ = nodes.enter_context(front(place, f"ray://{address}"))
        rows.send()
        rows.check()
        rows.client.shards(3)
        rows.send()
        there = session(other)
        lost = [number for number in range(3) if process_of(place / "state" / f"shard-{number}") in there]
        rows.send()
        for pid in there:
            os.kill(pid, signal.SIGKILL)
        rows.send()
        found = rows.check()
        assert all(found[str(number)] for number in lost)
        rows.client.shards(2)
        rows.send()
        rows.check()
        service.terminate()
        service.wait()
