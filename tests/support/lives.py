"""One harness for what may befall a service: kills, power cuts, damage, truncations, full disks. It uses public faces only.

A service is the command `advisor serve`, forked from a process that has loaded it, with a small library preloaded that
records what becomes of its files (`disk_shim.c`). It is taught a stream of numbered events of every verb that changes what is
known, by a peer that speaks bytes. A twin, which nothing befalls, is taught the same. After each life the service starts
again and is compared with its twin: its export to the bit, its status, its profiles, its networks.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lives_disk import DAMAGES, Files, journal, power_cut
from lives_events import COMPONENTS, EVENTS_A_LIFE, NETWORK, Stream
from lives_nursery import Life, Nursery
from served import Closed, Refused, Wire

RESENT = 3  # events that a life sends although they are known


class Broken(AssertionError):
    """The service lost, doubled or changed something, and did not say so."""


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
        self.twin_wire.call("define_network", {"id": "images", "text": NETWORK})

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
        if wire.call("define_network", {"id": "images", "text": NETWORK})["id"] != "images":
            raise Broken(f"{self.where()}: the network has another id")
        while self.taught < self.durable:
            self.taught += 1
            verb, params = self.stream.event(self.taught)
            try:
                self.twin_wire.call(verb, params)
            except Refused as refused:
                raise Broken(f"{self.where()}: event {self.taught}: {refused}") from refused
        self.count_repeats(wire)
        ours, theirs = faces(wire), faces(self.twin_wire)
        for name, value in theirs.items():
            if ours[name] != value:
                raise Broken(f"{self.where()}: {name} is not its twin's behind event {self.durable}")

    def count_repeats(self, wire: Wire) -> None:
        """Send the twin as many repeated batches and gaps as the service has counted, which are part of what it keeps."""
        ours, theirs = (each.call("status", {})["totals"] for each in (wire, self.twin_wire))
        verb, params = self.stream.event(1)
        for key, sequence in (("batches_replayed", 1), ("gaps", 10**9)):
            for _ in range(ours.get(key, 0) - theirs.get(key, 0)):
                with suppress(Refused):
                    self.twin_wire.call(verb, params | {"sequence": sequence})

    def remembers(self, wire: Wire, number: int) -> bool:
        """Return whether the service has an event; what it knows of the producers else is the events' place in the stream."""
        params = self.stream.event(number)[1] if number else {"producer": "p", "sequence": 0}
        return wire.call("hello", {"producer": params["producer"]})["sequence"] >= params["sequence"]

    def teach(self, wire: Wire, enough: int) -> None:
        """Send the events of a life in one go; read so many acknowledgements, or all until the service is gone.

        The last few that it has come once more, as from a client that lost its notes; one has a number far ahead.
        """
        first = self.durable + 1
        try:
            numbers = {
                wire.post(*self.stream.event(n)): n for n in range(max(1, first - RESENT), first + EVENTS_A_LIFE)
            }
            verb, params = self.stream.event(first)
            ahead = wire.post(verb, params | {"sequence": params["sequence"] + 2 * EVENTS_A_LIFE})
            while self.acknowledged < first + enough - 1:
                _, msgid, error, result = wire.message()
                if msgid == ahead and error is not None and error["code"] == "sequence_gap":
                    continue
                number = numbers[msgid]
                if error is not None:
                    raise Broken(f"{self.where()}: event {number} was refused: {error}")
                if bool(result.get("replayed")) != (number < first):
                    raise Broken(f"{self.where()}: event {number}, with {first - 1} durable, is answered {result}")
                rows = self.stream.event(number)[1].get("rows")
                if (
                    rows is not None
                    and number >= first
                    and result["accepted"] + result["refused"]["count"] != len(rows)
                ):
                    raise Broken(f"{self.where()}: event {number} of {len(rows)} rows is answered {result}")
                self.acknowledged = max(self.acknowledged, number)
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
