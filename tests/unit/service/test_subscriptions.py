"""Pushes at their own pace, under a clock of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import pytest

from advisor.errors import Unavailable
from advisor.service.subscriptions import SUBSCRIPTIONS_CONNECTION_MAX, Subscriptions


@dataclass(eq=False)
class Peer:
    reads: bool = True
    ended: bool = False
    got: list[bytes] = field(default_factory=list)

    def push(self, data: bytes) -> None:
        self.got.append(data)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def counting() -> tuple[list[int], object]:
    asked = [0]

    async def news() -> bytes | None:
        asked[0] += 1
        return b"%d" % asked[0]

    return asked, news


async def test_a_subscription_is_asked_at_most_once_in_its_time() -> None:
    clock, peer = Clock(), Peer()
    held = Subscriptions(clock)
    asked, news = counting()
    held.add(peer, "k", news, 2.0)
    assert await held.push_due() == 2.0  # the answer to its request has just told everything
    assert not asked[0]
    clock.now += 2.0
    assert await held.push_due() == inf
    assert await held.push_due() == 2.0
    clock.now += 1.5
    assert await held.push_due() == 1.0  # never less than half its time: no busy loop
    assert peer.got == [b"1"]
    clock.now += 0.5
    await held.push_due()
    assert peer.got == [b"1", b"2"]


async def test_a_peer_that_does_not_read_is_not_asked_for_and_gets_what_is_new_later() -> None:
    clock, peer = Clock(), Peer(reads=False)
    held = Subscriptions(clock)
    asked, news = counting()
    held.add(peer, "k", news, 1.0)
    for _ in range(5):
        clock.now += 1.0
        assert 0 < await held.push_due() < inf
    assert not asked[0]
    peer.reads = True
    await held.push_due()
    assert peer.got == [b"1"]


async def test_who_left_while_news_were_made_gets_none_and_a_defect_ends_one_subscription_only() -> None:
    clock, leaver, other = Clock(), Peer(), Peer()
    held = Subscriptions(clock)

    async def leaving() -> bytes | None:
        held.leave(leaver)
        return b"late"

    async def broken() -> bytes | None:
        raise ZeroDivisionError

    _, news = counting()
    held.add(leaver, "k", leaving, 1.0)
    held.add(other, "broken", broken, 1.0)
    held.add(other, "k", news, 1.0)
    clock.now += 1.0
    await held.push_due()
    assert (leaver.got, other.got, len(held)) == ([], [b"1"], 1)
    assert held.remove(other, "k")
    assert not held.remove(other, "k")
    assert not len(held)


async def test_a_connection_has_so_many_and_may_replace_its_own() -> None:
    held, peer = Subscriptions(Clock()), Peer()
    _, news = counting()
    for key in range(SUBSCRIPTIONS_CONNECTION_MAX):
        held.add(peer, key, news, 1.0)
    held.add(peer, 0, news, 1.0)
    assert len(held) == SUBSCRIPTIONS_CONNECTION_MAX
    with pytest.raises(Unavailable):
        held.add(peer, "more", news, 1.0)
