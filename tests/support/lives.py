"""One harness for what may befall a service: kills, power cuts, damage, truncations, full disks. It uses public faces only.

A service is the command `advisor serve`, forked from a process that has loaded it, with a small library preloaded that
records what becomes of its files (`disk_shim.c`). It is taught a stream of numbered events of every verb that changes what is
known, by a peer that speaks bytes. A twin, which nothing befalls, is taught the same. After each life the service starts
again and is compared with its twin: its export to the bit, its status, its profiles, its networks.

Run by itself: ``PYTHONPATH=.:tests/support python tests/support/lives.py kills|cuts|damages|truncations|full N [first seed]``.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from served import PATIENCE_S, Closed, Refused, Wire

SECTOR = 512  # what a disk writes whole
EVENTS_A_LIFE = 40
COMPONENTS = [f"c{number}" for number in range(12)]
KINDS = ("row", "row", "rows", "rows", "rows", "strange", "many", "columns", "columns", "pin", "forget", "run", "run", "tasks",
         "flow", "forget program")  # fmt: skip
TASK_EVENTS = bytes.fromhex(  # of the page on the protocol: a task begins and ends
    "0000000000000000010000000000000000000000000000000000000000000100"
    "dc0500000000000001000000000000000000000000000000ffffffff00000300"
)
READY = b"ready"
Event = tuple[str, dict[str, Any]]
Files = dict[str, bytes]


class Broken(AssertionError):
    """The service lost, doubled or changed something, and did not say so."""


def _rows(rng: random.Random, n: int) -> list[list[Any]]:
    found: list[list[Any]] = []
    for _ in range(n):
        x, p = float(rng.randint(1, 100)), float(rng.choice((1, 2, 4, 8)))
        found.append([rng.choice(COMPONENTS), x, p, 1e-3 * x / p * rng.uniform(0.9, 1.1)])
    return found


def _event(kind: str, rng: random.Random, programs: set[str]) -> Event:
    name = rng.choice(COMPONENTS)
    if kind == "columns":
        rows = _rows(rng, rng.randint(1, 900))
        columns = {key: struct.pack(f"<{len(rows)}d", *(row[at] for row in rows))
                   for at, key in ((1, "predictor"), (2, "cores"), (3, "elapsed_s"))}  # fmt: skip
        index = struct.pack(f"<{len(rows)}I", *(COMPONENTS.index(row[0]) for row in rows))
        return "observe_columns", {"components": COMPONENTS, "index": index} | columns
    if kind == "pin":
        return "pin", {"component": name, "model": rng.choice(("two_step", None))}
    if kind == "forget":
        return "forget", {"component": name, "keep": rng.choice((0.0, 0.5, 0.9))}
    if kind == "run":
        size, program = rng.randint(1, 9), f"program-{rng.randrange(3)}"
        programs.add(program)
        return "observe_run", {
            "program": program, "size": size, "workers": rng.choice((1, 2, 4)), "elapsed_s": 0.1 * size,
            "work_s": 0.1 * size, "delay_s": 0.0, "no_work_s": 0.0, "creates": 8, "waits": 4,
        }  # fmt: skip
    if kind == "tasks":
        return "task_events", {"records": TASK_EVENTS, "strings": ["fib"], "ended": True}
    if kind == "forget program" and programs:
        program = rng.choice(sorted(programs))
        programs.discard(program)
        return "forget", {"program": program}
    rows = _rows(rng, {"row": 1, "many": 1200, "strange": 5}.get(kind, rng.randint(2, 30)))
    if kind == "strange":  # rows that are refused, and counted, beside one with optional fields
        rows[2][3], rows[3][1] = -1.0, float("inf")
        rows[4].append({"count": 3, "machine": f"m{rng.randrange(5)}", "active_cores": rows[4][2] + 1})
    if kind == "flow":
        for number, row in enumerate(rows):
            row.append({"network": "images", "record": rng.randrange(1000), "entered": number == 0})
    return "observe_rows", {"rows": rows}


class Stream:
    """Numbered events, made again from the seed at any time; event 1 brings all components.

    All are of one producer, but for a run of tasks, which is a producer of its own.
    """

    def __init__(self, seed: int) -> None:
        self.rng, self.programs = random.Random(f"events {seed}"), set[str]()
        rows = [[name, 10.0, 2.0, 0.01] for name in COMPONENTS]
        self.events: list[Event] = [("observe_rows", {"producer": "p", "sequence": 1, "rows": rows})]
        self.sequence = 1

    def event(self, number: int) -> Event:
        while len(self.events) < number:
            first = len(self.events) == 1  # one component is known to every `pin` and `forget`
            verb, params = _event("rows" if first else self.rng.choice(KINDS), self.rng, self.programs)
            if verb == "task_events":
                numbered = {"producer": f"run-{len(self.events)}", "sequence": 1}
            else:
                self.sequence += 1
                numbered = {"producer": "p", "sequence": self.sequence}
            self.events.append((verb, numbered | params))
        return self.events[number - 1]


@dataclass
class Life:
    """A service from its fork to its end."""

    nursery: Nursery
    pid: int
    log: Any
    said: list[str] = field(default_factory=list)
    alive: bool = True

    def serves(self) -> bool:
        """Wait until it serves; False where it ends before."""
        for line in self.log:
            self.said.append(line.decode(errors="replace"))
            if b'"serving"' in line:
                return True
        return False

    def end(self, number: int = signal.SIGKILL) -> int:
        """Signal it, wait for its end, and return its status as `os.waitpid` has it."""
        if not self.alive:
            return 0
        os.kill(self.pid, number)  # nobody else has its number until the nursery is asked to wait for it
        return self.wait()

    def wait(self) -> int:
        """Wait for its end, whatever ends it."""
        self.alive = False
        with self.log:
            self.said += [line.decode(errors="replace") for line in self.log]
        return int(self.nursery.ask({"wait": self.pid})["status"])

    def words(self) -> str:
        return "".join(self.said)


class Nursery:
    """A process that services are forked from: they begin without a second of imports each."""

    def __init__(self, shim: Path | None) -> None:
        self.link, theirs = socket.socketpair()
        self.link.settimeout(PATIENCE_S)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
        environment["ADVISOR_KERNELS"] = os.environ.get("TESTED_KERNELS", "compiled")  # loaded once for all
        if shim is not None:
            environment["LD_PRELOAD"] = str(shim)
        self.process = subprocess.Popen(
            [sys.executable, __file__, "nursery", str(theirs.fileno())], env=environment, pass_fds=[theirs.fileno()]
        )
        theirs.close()

    def __enter__(self) -> Self:
        assert self.link.recv(len(READY)) == READY
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()
        self.process.wait(PATIENCE_S)

    def ask(self, question: dict[str, Any], descriptors: list[int] | None = None) -> dict[str, Any]:
        socket.send_fds(self.link, [json.dumps(question).encode()], descriptors or [])
        return json.loads(self.link.recv(2**12))

    def begin(self, words: list[str], environment: dict[str, str]) -> Life:
        ours, theirs = os.pipe()
        pid = self.ask({"serve": words, "environment": environment}, [theirs])["pid"]
        os.close(theirs)
        return Life(self, pid, os.fdopen(ours, "rb"))


def _nursery(link: socket.socket) -> None:
    """Fork services as asked. What they load is loaded first: the package's public names, and what serving itself loads."""
    command = importlib.import_module("advisor.cli").main
    for name in ("advisor.service", "advisor.client"):
        package = importlib.import_module(name)
        for public in getattr(package, "__all__", ()):
            getattr(package, public)
    advisor = importlib.import_module("advisor").Advisor()
    for cores in range(1, 9):
        advisor.observe("warm", predictor=1.0, cores=cores, elapsed_s=1.0)
    link.sendall(READY)
    while True:
        data, descriptors, _, _ = socket.recv_fds(link, 2**16, 1)
        if not data:
            return
        question = json.loads(data)
        if "wait" in question:
            link.sendall(json.dumps({"status": os.waitpid(question["wait"], 0)[1]}).encode())
            continue
        pid = os.fork()
        if pid == 0:
            link.close()
            os.environ.update(question["environment"])
            os.dup2(descriptors[0], 2)
            status = 1
            try:
                sys.argv = ["advisor", "serve", *question["serve"]]
                command()
                status = 0
            except SystemExit as ended:
                status = int(ended.code or 0)
            except BaseException as error:
                print(error, file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        os.close(descriptors[0])
        link.sendall(json.dumps({"pid": pid}).encode())


def shim(folder: Path) -> Path | None:
    """Build the library that records what becomes of files; None where there is no C compiler."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc"))), None)
    if compiler is None or sys.platform != "linux":
        return None
    library = folder / "disk_shim.so"
    source = Path(__file__).with_name("disk_shim.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", source, "-o", library, "-ldl", "-lpthread"], check=True)
    return library


def journal(path: Path) -> list[tuple[str, str, int, bytes]]:
    """Return the steps of a life: (kind, name, offset, data); a step that was cut by the kill is left out."""
    data, at, found = path.read_bytes() if path.exists() else b"", 0, []
    while (end := data.find(b"\n", at)) >= 0:
        kind, name, offset, length = data[at:end].split(b" ")
        at = end + 1 + int(length)
        if at <= len(data):
            found.append((kind.decode(), name.decode(), int(offset), data[end + 1 : at]))
    return found


class Inode:
    """A file: what is surely on the disk, and the writes since its last sync."""

    def __init__(self, data: bytes = b"") -> None:
        self.synced, self.pending = bytearray(data), list[tuple[int, bytes | None]]()

    def after(self, rng: random.Random) -> bytes:
        """Return what a power cut leaves: of the writes since the last sync any, whole or in torn sectors."""
        found, share = bytearray(self.synced), rng.choice((0.0, 0.5, 0.9, 1.0))
        for offset, data in self.pending:
            if data is None:
                if rng.random() < share:
                    _cut(found, offset)
                continue
            for at in range(offset // SECTOR * SECTOR, offset + len(data), SECTOR):
                first = max(at, offset)
                if rng.random() < share:
                    _put(found, first, data[first - offset : at + SECTOR - offset])
        return bytes(found)

    def sync(self) -> None:
        for offset, data in self.pending:
            if data is None:
                _cut(self.synced, offset)
            else:
                _put(self.synced, offset, data)
        self.pending.clear()


def _put(file: bytearray, offset: int, data: bytes) -> None:
    file.extend(bytes(max(0, offset + len(data) - len(file))))
    file[offset : offset + len(data)] = data


def _cut(file: bytearray, length: int) -> None:
    del file[length:]
    file.extend(bytes(length - len(file)))


def power_cut(before: Files, steps: list[tuple[str, str, int, bytes]], rng: random.Random) -> Files:
    """Return the files after a power cut behind the last of these steps; `before` was on the disk when they began.

    Names that were made, moved or removed since their folder was synced are kept up to a random one of these changes.
    """
    now = {name: Inode(data) for name, data in before.items()}
    sure, since = dict(now), list[dict[str, Inode]]()
    for kind, name, offset, data in steps:
        if kind == "sync" and name == ".":
            sure, since = dict(now), []
        elif kind == "make":
            now[name] = Inode()
        elif kind == "move" and name in now:
            now[data.decode()] = now.pop(name)
        elif kind == "remove":
            now.pop(name, None)
        elif name in now:  # a file that was removed while it was open is nobody's
            if kind == "sync":
                now[name].sync()
            else:
                now[name].pending.append((offset, None if kind == "cut" else data))
        if kind in ("make", "move", "remove"):
            since.append(dict(now))
    return {name: inode.after(rng) for name, inode in rng.choice([sure, *since]).items()}


@dataclass
class Harness:
    """A service on one state, its twin, and what befell it so far."""

    nursery: Nursery
    folder: Path
    seed: int

    def __post_init__(self) -> None:
        self.rng, self.stream = random.Random(f"harness {self.seed}"), Stream(self.seed)
        self.files, self.full = self.folder / "files", self.folder / "full"
        self.files.mkdir()
        self.acknowledged = self.durable = self.taught = self.lives = 0
        self.life: Life | None = None
        self.twin = self.nursery.begin(["--socket", str(self.folder / "twin")], {})
        assert self.twin.serves(), self.twin.words()
        self.twin_wire = Wire(self.folder / "twin")
        self.twin_wire.call("define_network", {"id": "images", "text": "c0 .. c1 .. c2"})

    def close(self) -> None:
        self.twin_wire.close()
        self.twin.end()
        if self.life is not None:
            self.life.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def where(self) -> str:
        return f"seed {self.seed}, life {self.lives}, {self.acknowledged} acknowledged"

    def contents(self) -> Files:
        return {path.name: path.read_bytes() for path in self.files.iterdir() if not path.name.endswith("-shm")}

    def put(self, files: Files) -> None:
        shutil.rmtree(self.files)
        self.files.mkdir()
        for name, data in files.items():
            (self.files / name).write_bytes(data)
            (self.files / name).chmod(0o600)

    def begin(self, *options: str, steps: int = 0) -> Life:
        """Start the service on its state; with `steps` it is killed before so many changes of its files."""
        self.lives += 1
        (self.folder / "journal").unlink(missing_ok=True)
        (self.folder / "socket").unlink(missing_ok=True)
        disk = {"DISK_FOLDER": str(self.files), "DISK_JOURNAL": str(self.folder / "journal"), "DISK_STEPS": str(steps),
                "DISK_FULL": str(self.full)}  # fmt: skip
        words = [
            "--socket",
            str(self.folder / "socket"),
            "--state",
            str(self.files / "state"),
            *options,
        ]
        self.life = self.nursery.begin(words, disk)
        return self.life

    def begin_well(self) -> Wire:
        """Start the service; what it knows must be all that was acknowledged, and what its twin knows."""
        life = self.begin()
        if not life.serves():
            raise Broken(f"{self.where()}: it does not start\n{life.words()}")
        wire = Wire(self.folder / "socket")
        self.compare(wire)
        return wire

    def compare(self, wire: Wire) -> None:
        while self.remembers(wire, self.durable + 1):
            self.durable += 1
        if self.durable < self.acknowledged or not self.remembers(wire, self.durable):
            raise Broken(f"{self.where()}: less than {max(self.durable, self.acknowledged)} is remembered")
        self.acknowledged = self.durable
        if wire.call("define_network", {"id": "images", "text": "c0 .. c1 .. c2"})["id"] != "images":
            raise Broken(f"{self.where()}: the network has another id")
        while self.taught < self.durable:
            self.taught += 1
            verb, params = self.stream.event(self.taught)
            try:
                self.twin_wire.call(verb, params)
            except Refused as refused:
                raise Broken(f"{self.where()}: event {self.taught}: {refused}") from refused
        ours, theirs = faces(wire), faces(self.twin_wire)
        for name, value in theirs.items():
            if ours[name] != value:
                raise Broken(f"{self.where()}: {name} is not its twin's behind event {self.durable}")

    def remembers(self, wire: Wire, number: int) -> bool:
        """Return whether the service has an event; what it knows of the producers else is the events' place in the stream."""
        params = self.stream.event(number)[1] if number else {"producer": "p", "sequence": 0}
        return wire.call("hello", {"producer": params["producer"]})["sequence"] >= params["sequence"]

    def teach(self, wire: Wire, enough: int) -> None:
        """Send the events of a life in one go; read so many acknowledgements, or all until the service is gone."""
        first = self.durable + 1
        try:
            numbers = {wire.post(*self.stream.event(n)): n for n in range(first, first + EVENTS_A_LIFE)}
            while self.acknowledged < first + enough - 1:
                _, msgid, error, _ = wire.message()
                if error is not None:
                    raise Broken(f"{self.where()}: event {numbers[msgid]} was refused: {error}")
                self.acknowledged = max(self.acknowledged, numbers[msgid])
        except Closed:
            pass
        wire.close()


def faces(wire: Wire) -> dict[str, Any]:
    """Return all that a user can see of what was learned."""
    pages, after = [], None
    while True:
        page = wire.call("export", {"after": after})
        pages.append(page["state"])
        after = page["next"]
        if after is None:
            break
    status = wire.call("status", {"components": True, "limit": 1000})
    profiles = []
    for run in wire.call("profile", {})["runs"]:
        measures = wire.call("profile", {"producer": run["producer"], "nodes": False})["measures"]
        # A thread that was open when a service ended is closed by the next start, as the page says: `workers` then differ.
        profiles.append((run["producer"], run["events"], [measures[key] for key in ("work_s", "begins", "ends")]))
    return {
        "export": pages,
        "status": {key: status[key] for key in ("totals", "components", "programs", "components_known")},
        "profiles": profiles,
        "flow": wire.call("flow", {"network": "images"}),
    }


def kills(harness: Harness, lives: int) -> Counter[str]:
    """Kill the service at random moments: after an acknowledgement, in the middle of its writing, while it stops or starts."""
    ends = Counter[str]()
    for _ in range(lives):
        end = harness.rng.choice(("answered", "answered", "writing", "writing", "stopping", "stopped", "starting"))
        ends[end] += 1
        if end == "starting":
            harness.begin(steps=harness.rng.randint(1, 20)).serves()
            assert harness.life is not None
            harness.life.end()
            continue
        wire = harness.begin_well()
        if end == "writing":
            wire.close()
            assert harness.life is not None
            harness.life.end()
            assert harness.begin(steps=harness.rng.randint(10, 150)).serves()
            wire = Wire(harness.folder / "socket")
        harness.teach(wire, EVENTS_A_LIFE if end == "writing" else harness.rng.randint(1, EVENTS_A_LIFE))
        assert harness.life is not None
        if end == "stopped":
            harness.life.end(signal.SIGTERM)
        elif end == "stopping":
            os.kill(harness.life.pid, signal.SIGTERM)
        harness.life.end()
    harness.begin_well().close()
    return ends


def cuts(harness: Harness, lives: int) -> Counter[str]:
    """Cut the power at random steps of the disk: what is left in the files is what was synced, and any part of the rest."""
    ends = Counter[str]()
    harness.begin_well().close()  # the network is there before its rows, as its twin has it
    assert harness.life is not None
    harness.life.end()
    for _ in range(lives):
        before = harness.contents()
        served = harness.begin(steps=harness.rng.randint(1, 200)).serves()
        assert harness.life is not None
        if served:
            try:
                wire = Wire(harness.folder / "socket")
                harness.teach(wire, EVENTS_A_LIFE)
            except (Closed, ConnectionError):
                pass  # the power was cut before the first word
        harness.life.end()
        ends["serving" if served else "starting"] += 1
        steps = journal(harness.folder / "journal")
        harness.put(power_cut(before, steps, harness.rng))
        harness.begin_well().close()
        harness.life.end()
    return ends


def _flip(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) * 8)
    data[at // 8] ^= 1 << at % 8


def _zero(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data)) // SECTOR * SECTOR
    data[at : at + SECTOR] = bytes(len(data[at : at + SECTOR]))


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _exchange(data: bytearray, rng: random.Random) -> None:
    one, other = (rng.randrange(len(data)) // 4096 * 4096 for _ in range(2))
    a, b = bytes(data[one : one + 4096]), bytes(data[other : other + 4096])
    if len(a) == len(b):
        data[one : one + 4096], data[other : other + 4096] = b, a


DAMAGES = {"flip": _flip, "zero": _zero, "truncate": _truncate, "exchange": _exchange}


def damages(
    harness: Harness, lives: int, kinds: tuple[str, ...] = ("flip", "zero", "exchange", "older")
) -> Counter[str]:
    """Damage one file of a killed or stopped service: it is refused in words, or nothing is missing and all is as before.

    All files of one earlier moment are a state; so are none: no program can know that there was a later one.
    """
    ends, rng, refused = Counter[str](), harness.rng, 0
    older: list[Files] = []
    while len(older) < 4:
        harness.teach(harness.begin_well(), EVENTS_A_LIFE)
        assert harness.life is not None
        harness.life.end(signal.SIGTERM if len(older) % 2 else signal.SIGKILL)
        harness.begin_well().close()  # the twin has what is to be found
        harness.life.end(signal.SIGKILL if len(older) % 2 else signal.SIGTERM)
        older.append(harness.contents())
    good = older.pop()
    for _ in range(lives):
        kind, files = rng.choice(kinds), dict(good)
        name = rng.choice([name for name in files if files[name]])
        if kind == "older":
            files[name] = rng.choice(older).get(name, b"")
        else:
            data = bytearray(files[name])
            DAMAGES[kind](data, rng)
            files[name] = bytes(data)
        if files == good:
            continue
        harness.put(files)
        try:
            harness.begin_well().close()
        except Broken as error:
            assert harness.life is not None
            if harness.life.serves() or "remembered" in str(error) or "not its twin" in str(error):
                raise Broken(f"{kind} of {name}: {error}") from error
            if "Traceback" in str(error) or not harness.life.words().strip():
                raise Broken(f"{kind} of {name} is refused without words: {error}") from error
            refused += 1
        ends[kind] += 1
        assert harness.life is not None
        harness.life.end()
    harness.put(good)
    harness.begin_well().close()
    ends["refused"] = refused
    return ends


def truncations(harness: Harness, lives: int) -> Counter[str]:
    """Truncate one file of a service that was stopped or killed."""
    return damages(harness, lives, ("truncate",))


def full_disks(harness: Harness, lives: int) -> Counter[str]:
    """Let the disk be full while rows come: nothing is acknowledged that is not kept; with room again all goes on."""
    ends, wire = Counter[str](), harness.begin_well()
    for _ in range(lives):
        harness.teach(wire, EVENTS_A_LIFE)
        wire = Wire(harness.folder / "socket")
        harness.compare(wire)
        harness.full.touch()
        number = harness.durable + 1
        waiting = Wire(harness.folder / "socket")
        waiting.post(*harness.stream.event(number))
        while wire.call("status", {})["service"]["storage"] == "ok":
            pass  # until the commit has failed
        asker = Wire(harness.folder / "socket")  # a new connection takes over from the one that waits
        if harness.remembers(asker, number):
            raise Broken(f"{harness.where()}: {number} is said to be durable on a full disk")
        asker.close()
        wire.call("predict", {"component": COMPONENTS[0], "predictor": 10.0, "cores": 2, "prior": True})
        if harness.rng.random() < 0.5:  # killed on a full disk
            waiting.close()
            wire.close()
            assert harness.life is not None
            harness.life.end()
            harness.full.unlink()
            wire = harness.begin_well()
            ends["killed"] += 1
        else:
            harness.full.unlink()
            error = waiting.message()[2]
            if error is not None and not error["retry"]:
                raise Broken(f"{harness.where()}: refused for ever on a full disk: {error}")
            harness.acknowledged = max(harness.acknowledged, number if error is None else 0)
            waiting.close()
            harness.compare(wire)
            ends["healed"] += 1
    wire.close()
    return ends


TROUBLES = {"kills": kills, "cuts": cuts, "damages": damages, "truncations": truncations, "full": full_disks}


if __name__ == "__main__":
    if sys.argv[1] == "nursery":
        _nursery(socket.socket(fileno=int(sys.argv[2])))
    else:
        trouble, lives, seed = sys.argv[1], int(sys.argv[2]), int((sys.argv[3:] or ["0"])[0])
        with tempfile.TemporaryDirectory() as root, Nursery(shim(Path(root))) as nursery:
            while lives > 0:
                with tempfile.TemporaryDirectory() as folder, Harness(nursery, Path(folder), seed) as harness:
                    print(f"seed {seed}: {dict(TROUBLES[trouble](harness, min(lives, 20)))}", flush=True)
                lives, seed = lives - 20, seed + 1
