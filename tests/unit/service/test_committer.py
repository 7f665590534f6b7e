"""The committer: every answer it holds is released, or whoever waits is cut off, or the service ends; none waits for ever."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from live import PATIENCE_S, rows_of

from advisor.engine import Engine
from advisor.errors import StorageFailed
from advisor.protocol.rows import columns_of_rows
from advisor.service.committer import Committer
from advisor.service.measures import ServiceMeasures
from advisor.storage import Store


@dataclass(eq=False)
class Waits:
    """Somebody who waits for answers."""

    broken: bool = False
    dropped: str = ""
    reported: asyncio.Future[list[bytes]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def release(self, answers: list[bytes]) -> None:
        if self.broken:
            raise ZeroDivisionError
        self.reported.set_result(answers)

    def close_now(self, reason: str) -> None:
        self.dropped = reason


def committer_of(store: Store) -> tuple[Engine, Committer]:
    engine = Engine()
    committer = Committer(engine, store, ServiceMeasures())
    return engine, committer


def defect(*_: Any) -> Any:
    raise ZeroDivisionError


def full(*_: Any) -> Any:
    raise StorageFailed("the disk is full")


@pytest.mark.parametrize(
    "broken",
    [("engine.take_entry", defect), ("store.append", defect), ("store.append", full)],
)
async def test_a_defect_while_committing_ends_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: tuple[str, Any]
) -> None:
    with Store.open(tmp_path / "state") as store:
        engine, committer = committer_of(store)
        runs = asyncio.create_task(committer.commit_changes())
        await asyncio.sleep(0)
        engine.apply_event(None, None, columns_of_rows(rows_of(3)))
        first = Waits()
        committer.defer_reply(first, [b"one"])
        await first.reported
        where, name = broken[0].split(".")
        monkeypatch.setattr({"engine": engine, "store": store}[where], name, broken[1])
        monkeypatch.setattr(engine.journal, "put_back", defect)
        engine.apply_event(None, None, columns_of_rows(rows_of(3)))
        waits = Waits()
        committer.defer_reply(waits, [b"two"])
        with pytest.raises(ZeroDivisionError):
            async with asyncio.timeout(PATIENCE_S):
                await runs
        assert not waits.reported.done()
        committer.close()
