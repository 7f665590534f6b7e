"""Images written beside the commits: at each of them the files give the state of then, whatever becomes of the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from task_program import Program, recursive

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.domain.task_events import TaskEvents
from advisor.engine import Engine
from advisor.engine.events import ComponentForgotten
from advisor.errors import StorageFailed
from advisor.profile.view import profile_of
from advisor.storage import Store, log, read_state

KEY = ("producer", bytes(16))
COMPONENTS = 192  # three blocks
NAMES = ComponentNames([f"c{i}" for i in range(COMPONENTS)])
TASKS = [Program(2, recursive(2, 2, 500 + 200 * kind)).run() for kind in range(2)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an image have several blocks."""
    monkeypatch.setattr("advisor.engine.state_bytes.SLOTS_A_BLOCK", 64)


def batch(rng: np.random.Generator) -> Columns:
    n = int(rng.choice([1, 4, 150]))
    known = int(rng.integers(1, COMPONENTS))
    return columns_of(
        NAMES, rng.integers(0, known, n), rng.uniform(1, 9, n), rng.choice([1.0, 2.0], n), rng.uniform(1, 2, n)
    )


class Service:
    """An engine and its store, driven as a committer does."""

    def __init__(self, path: Path) -> None:
        self.engine = Engine()
        self.engine.journal.keep()
        self.path = path
        self.store = Store.open(path)

    def teach(self, rng: np.random.Generator) -> None:
        number = self.engine.applied(*KEY) + 1
        if number % 9 == 0:
            name = rng.choice([*self.engine.advisor.components.slots.components][:2])
            self.engine.apply_event(KEY, number, ComponentForgotten(str(name)))
        elif number % 11 == 0:
            tasks = TASKS[number % 2]
            self.engine.apply_event((f"run {number % 3}", bytes([number]) * 16), 1,
                              TaskEvents(tasks.records, tuple(tasks.strings), ended=True))  # fmt: skip
            self.engine.ledger.set_record(KEY, number)
        else:
            self.engine.apply_event(KEY, number, batch(rng))

    def save(self) -> None:
        self.store.save(self.engine.take_image())

    def append(self, *, checkpoint: bool = False) -> None:
        entry = self.engine.take_entry()
        assert entry is not None
        data = entry.encode()
        if checkpoint and self.store.image is None:
            self.store.begin_image(data, self.engine.journal.begin_image())
        try:
            self.store.append(data)
        except StorageFailed:
            self.engine.journal.put_back(entry)
            raise

    def take_image(self) -> None:
        """Wait for the image on its way, and take it."""
        if self.store.image is not None:
            self.store.image.ended(wait=True)
        self.store.take_image()

    def restored(self) -> Engine:
        loaded = read_state(self.path).stored()
        assert loaded is not None
        return Engine.restore(loaded)

    def check(self) -> None:
        """See that the files give the engine, to the bit; of profiles what is open at a restart is lost."""
        again = self.restored()
        assert again.advisor.to_bytes() == self.engine.advisor.to_bytes()
        assert again.producers == self.engine.producers
        assert again.totals == self.engine.totals
        pictures = [
            {key: profile_of(run).as_dict() for key, run in each.profiles.runs.items()} for each in (again, self.engine)
        ]
        assert pictures[0] == pictures[1]

    def restart(self) -> None:
        """End in the middle, and begin with what the files say."""
        self.store.close()
        self.store = Store.open(self.path)
        loaded = self.store.load()
        assert loaded is not None
        self.engine = Engine.restore(loaded)
        self.engine.journal.keep()


@pytest.mark.parametrize("seed", range(2))
def test_each_commit_gives_the_state_of_then(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    service = Service(tmp_path / "state")
    finished, cut_off = 0, 0
    for _ in range(120):
        what = rng.choice(
            ["append", "checkpoint", "take", "save", "fail", "restart"], p=[0.4, 0.3, 0.2, 0.03, 0.03, 0.04]
        )
        was = service.store.image is not None
        service.teach(rng)
        if what == "fail":
            with monkeypatch.context() as broken:
                broken.setattr(log.os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
                with pytest.raises(StorageFailed):
                    service.append(checkpoint=True)
            service.teach(rng)
        if what == "save":
            service.save()
        else:
            service.append(checkpoint=what == "checkpoint")
        service.check()
        cut_off += was and what in ("save", "restart")
        if what == "take":
            service.take_image()
            finished += was and service.store.image is None
            service.check()
        if what == "restart":
            service.restart()
            service.check()
    assert finished > 0
    assert cut_off > 0
    service.store.close()
    service.check()


def test_parts_that_are_lost_leave_the_others(tmp_path: Path) -> None:
    """Without a block of components the others keep their slots; the lost ones begin anew with their next rows."""
    rng = np.random.default_rng(4)
    service = Service(tmp_path / "state")
    service.engine.apply_event(KEY, 1, columns_of(NAMES, np.arange(COMPONENTS), np.ones(COMPONENTS) + rng.random(COMPONENTS),
                                            np.ones(COMPONENTS), np.ones(COMPONENTS)))  # fmt: skip
    service.save()
    service.store.close()
    data = bytearray(service.path.read_bytes())
    data[data.index(b"\xa3c64") + 2] ^= 1
    service.path.write_bytes(data)
    with pytest.raises(Exception, match="components at slots 64 to 127: c64, c65") as caught:
        Store.open(service.path)
    assert "c128" not in str(caught.value)
    with Store.open(service.path, accept_damage=True) as store:
        loaded = store.load()
    assert loaded is not None
    engine = Engine.restore(loaded)
    kept = [f"c{i}" for i in range(COMPONENTS) if not 64 <= i < 128]
    assert list(engine.advisor.components.slots.components) == kept
    whole = Engine.from_bytes(service.engine.extract(kept))
    assert engine.extract() == whole.extract(parts=()) or engine.advisor.extract(kept, ()) == whole.advisor.extract(
        kept, ()
    )
    engine.apply_event(KEY, 2, batch(rng))
