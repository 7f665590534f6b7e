"""Copies of a shard in a folder and in a store: what a lost node had is there, to the byte; former processes change nothing."""

from __future__ import annotations

import random
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_store import object_store

from advisor.cluster import copying, keeping
from advisor.cluster.keeping import Keeping
from advisor.cluster.objects import beside, objects_at
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Engine
from advisor.engine.events import ComponentForgotten
from advisor.errors import InvalidValue, StateDamaged, StorageFailed
from advisor.storage import store

LIMITS: dict[str, Any] = {"components_max": 1000, "model_memory_bytes": 2**22, "producers_max": 100}
KEY = ("p", bytes(16))
NAMES = [f"c{i}" for i in range(7)]


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(params=["folder", "url of a folder", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    if request.param == "store":
        pytest.importorskip("pyarrow", reason="NO PYARROW HERE: install the extra `ray` to run this")
        with object_store() as (_, url):
            yield url
    else:
        yield str(tmp_path / "co py") if request.param == "folder" else (tmp_path / "co py").as_uri()


def batch(number: int) -> Columns:
    rng = np.random.default_rng(number)
    n = int(rng.integers(1, 12))
    return columns_of(
        ComponentNames(NAMES), rng.integers(0, 7, n), rng.uniform(1, 100, n), rng.choice([1.0, 2.0, 4.0], n),
        rng.uniform(0.1, 1.0, n),
    )  # fmt: skip


def happen(engine: Engine, number: int) -> None:
    """Let one of three kinds of event happen: rows, what is changed by hand, and what only an image holds."""
    name = NAMES[number % 7]
    if number % 5 == 0 and name in engine.advisor.components.slots.components:
        engine.apply(KEY, number, ComponentForgotten(name, 0.5))
        return
    engine.apply(KEY, number, batch(number))
    if number % 7 == 0:
        engine.put(Engine.from_bytes(engine.part([name])))


def alone(last: int) -> bytes:
    engine = Engine(**LIMITS)
    for number in range(1, last + 1):
        happen(engine, number)
    return learned(engine)


def learned(engine: Engine) -> bytes:
    return engine.extract(NAMES, ("totals",))


@pytest.mark.parametrize("seed", range(2))
def test_kills_and_lost_nodes_lose_and_double_nothing(
    place: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # bases and pages are written again and again, the latter in steps
    monkeypatch.setattr(copying, "COMMITS_MAX", 5)
    monkeypatch.setattr(store, "LOG_ENTRIES_MAX", 7)
    monkeypatch.setattr(store, "STEP_BYTES", 10_000)
    rng, write, node = random.Random(seed), keeping._write, 0
    kept = Keeping([str(tmp_path / "node-0"), place], LIMITS)
    mended: list[str] = []
    number = 0
    while number < 60:
        left = rng.choice([0, 1, *[9] * 6])

        def dies(*given: Any) -> None:
            nonlocal left
            if not left:
                raise Killed
            left -= 1
            write(*given)

        monkeypatch.setattr(keeping, "_write", dies)
        try:
            happen(kept.engine, number + 1)
            kept.commit()
            number += 1
        except Killed:
            kept.close()
            monkeypatch.setattr(keeping, "_write", write)
            node += rng.random() < 0.4  # another one, that has nothing
            kept = Keeping([str(tmp_path / f"node-{node}"), place], LIMITS)
            mended += kept.mended
            assert kept.engine.applied(*KEY) in (number, number + 1)
            number = kept.engine.applied(*KEY)
            assert learned(kept.engine) == alone(number)
    kept.close()
    assert any("one commit" in each for each in mended)
    assert any("whole state" in each for each in mended)
    for folder in (f"node-{node}", "new"):
        kept = Keeping([str(tmp_path / folder), place], LIMITS)
        assert learned(kept.engine) == alone(number)
        kept.close()


def test_what_a_process_writes_that_was_taken_for_lost_counts_for_nothing(place: str, tmp_path: Path) -> None:
    first = Keeping([str(tmp_path / "first"), place], LIMITS)
    for number in range(1, 4):
        happen(first.engine, number)
        first.commit()
    second = Keeping([str(tmp_path / "second"), place], LIMITS)
    assert second.mended == [f"{tmp_path / 'second'}: the whole state"]
    for number in range(1, 3):  # the first does not know
        first.engine.apply(("lost", bytes(16)), number, batch(number))
        first.commit()
    for number in range(4, 8):
        happen(second.engine, number)
        second.commit()
    first.close()
    second.close()
    for folder in ("third", "first"):
        kept = Keeping([str(tmp_path / folder), place], LIMITS)
        assert kept.engine.applied("lost", bytes(16)) == 0
        assert learned(kept.engine) == alone(7)
        kept.close()
    assert [each.name for each in tmp_path.iterdir() if "aside" in each.name], "what it had is kept"


def test_a_copy_that_is_gone_is_made_again_and_a_damaged_one_is_refused(place: str, tmp_path: Path) -> None:
    objects, near = objects_at(place), [str(tmp_path / "near"), place]

    def several(first: int, last: int) -> None:
        kept = Keeping(near, LIMITS)
        for number in range(first, last + 1):
            happen(kept.engine, number)
            kept.commit()
        kept.close()

    several(1, 4)
    objects.remove(objects.names())
    several(5, 10)
    kept = Keeping([str(tmp_path / "other"), place], LIMITS)
    assert learned(kept.engine) == alone(10)
    kept.close()
    assert any(name.startswith("base") for name in objects.names())
    *_, before, last = sorted(name for name in objects.names() if name.startswith("commit"))
    objects.put(last, b"")  # whole, and no commit
    objects.remove([before])
    kept = Keeping([str(tmp_path / "again"), place], LIMITS)
    assert kept.level == 8, "up to the gap"
    kept.close()
    kept = Keeping([str(tmp_path / "none"), place], LIMITS, anew=True)
    assert kept.level == 0
    assert len(objects.names()) == 1
    kept.close()


def test_objects_are_whole_or_refused(tmp_path: Path) -> None:
    objects = objects_at(str(tmp_path))
    assert objects.get("x") is None
    objects.put("x", b"data")
    assert objects.get("x") == b"data"
    (tmp_path / "x").write_bytes(b"dat")
    with pytest.raises(StateDamaged):
        objects.get("x")
    objects.remove(["x", "y"])
    assert objects.names() == []
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed):
        objects_at(str(tmp_path / "file")).put("x", b"")


def test_a_store_that_refuses_or_that_nobody_knows_is_told() -> None:
    pytest.importorskip("pyarrow", reason="NO PYARROW HERE: install the extra `ray` to run this")
    with pytest.raises(InvalidValue, match="s3://"):
        objects_at("nowhere://bucket/prefix")
    with object_store() as (server, url):
        objects = objects_at(beside(url, "shard-1"))
        objects.put("x", b"1" * 12_000_000)  # in parts
        assert objects.get("x") == b"1" * 12_000_000
        for number in range(1_100):  # more than a page of them
            server.objects[f"bucket/advisor/shard-1/o{number}"] = b""
        assert len(objects.names()) == 1_101
        server.refuses = True
        with pytest.raises(StorageFailed):
            objects.put("y", b"1")
        assert objects.get("y") is None
