"""The service, its clients, disk and network in worlds drawn from seeds: every promise is kept; what would break one is found.

A world that fails names its seed: ``PYTHONPATH=.:tests/support python tests/support/sim_world.py 1 SEED`` plays it again.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator

import pytest
from sim_disk import DiskOs
from sim_world import Broken, played

from advisor.engine import exactly_once
from advisor.errors import StateDamaged
from advisor.service import access, learning
from advisor.service.connection import Connection
from advisor.storage import store

WORLDS, AT_A_TIME = 100, 25
SEARCHED = 60  # worlds in which a missing cure must be found


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Services tell of their troubles, thousands of times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, WORLDS, AT_A_TIME))
def test_every_promise_is_kept(first: int) -> None:
    for seed in range(first, first + AT_A_TIME):
        played(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 20_000, 500))
def test_every_promise_is_kept_in_ten_thousand_worlds(first: int) -> None:
    for seed in range(first, first + 500):
        played(seed)


@pytest.mark.parametrize("damage", [False, True])
def test_one_seed_is_one_world(damage: bool) -> None:
    worlds = [played(8, damage=damage) for _ in range(2)]
    assert len(worlds[0].trace) > 100
    assert worlds[0].trace == worlds[1].trace


def test_what_a_disk_has_lost_is_refused() -> None:
    assert sum(played(seed, damage=True).refused for seed in range(10)) > 2


def no_marker(cure: pytest.MonkeyPatch) -> None:
    cure.setattr(store, "missing_commits", lambda *_, **__: "")


def no_scopes(cure: pytest.MonkeyPatch) -> None:
    cure.setattr(access.Grant, "check", lambda *_: None)


def no_numbers(cure: pytest.MonkeyPatch) -> None:
    cure.setattr(exactly_once.ProducerLedger, "replays", lambda *_: False)


def no_commits(cure: pytest.MonkeyPatch) -> None:
    """Answers come before what they promise is durable."""
    cure.setattr(learning.Learning, "_durably", lambda _, __, ___, answer, *____: answer)


def no_answers(cure: pytest.MonkeyPatch) -> None:
    """One answer in forty is forgotten."""
    told, release = itertools.count(1), Connection.release
    cure.setattr(Connection, "release", lambda to, answers: release(to, answers if next(told) % 40 else []))


def no_syncs(cure: pytest.MonkeyPatch) -> None:
    """The log trusts the system to write some time."""
    sync = DiskOs.fsync

    def careless(disk: DiskOs, descriptor: int) -> None:
        if "-log-" not in disk._names[descriptor]:
            sync(disk, descriptor)

    cure.setattr(DiskOs, "fdatasync", careless)


MISSING = [
    (no_marker, "is remembered"), (no_scopes, "nobody has sent|totals"), (no_numbers, "are remembered"),
    (no_commits, "is remembered"), (no_answers, "connected again"), (no_syncs, "were acknowledged|belongs to|cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("cure", "words"), MISSING, ids=[cure.__name__ for cure, _ in MISSING])
def test_a_cure_that_is_taken_out_is_missed(
    monkeypatch: pytest.MonkeyPatch, cure: Callable[[pytest.MonkeyPatch], None], words: str
) -> None:
    cure(monkeypatch)
    with pytest.raises((Broken, StateDamaged), match=words):
        all(played(seed, damage=cure is no_marker) for seed in range(SEARCHED))
