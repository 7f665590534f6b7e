"""The verb `curves`: bundles on request, and pushes of what changed to those who watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import anyio.lowlevel

from advisor.domain.bundle import BundleRecord
from advisor.engine import Advisor
from advisor.engine.following import Follower
from advisor.protocol.connection import encode_notification
from advisor.protocol.verbs import CurvesAsked
from advisor.service.subscriptions import Subscriber, Subscriptions

TOPIC = "curves"
BUNDLE_BYTES_MAX = 4 * 2**20  # of one answer or push: half a message; the rest comes with the next
PUSH_EVERY_S = 0.25  # between pushes to one connection: beyond what a person sees, and a thousand rows at a usual rate


class Watcher(Subscriber, Protocol):
    """A connection that may watch."""


def asked(advisor: Advisor, params: CurvesAsked) -> Follower:
    """Return a follower of what a request names.

    Raises UnknownComponent when it names a component that nobody knows, and does not watch: who watches may be early.
    """
    if not params.watch:
        for name in params.components or ():
            advisor.components.slots.of(name)
    return Follower(advisor.bundles, params.components, params.level, params.cores_max)


async def curves(
    advisor: Advisor, subscriptions: Subscriptions, watcher: Watcher, params: CurvesAsked, follower: Follower
) -> dict[str, Any]:
    """Answer `curves`: the bundle of what changed since `since`, and from then on pushes where it is asked for."""
    follower.due()
    if params.since is not None:
        changed = set(advisor.bundles.changed(params.since))
        follower.tell([slot for slot in follower.due() if slot not in changed])
    due = follower.due()
    version = advisor.bundles.version  # of before: what changes while records are made comes again, and is not missed
    records = await _gathered(follower, due)
    if params.watch is False:
        subscriptions.remove(watcher, TOPIC)
    if params.watch:
        subscriptions.add(watcher, TOPIC, lambda: _news(follower), PUSH_EVERY_S)
    return {"version": version, "bundle": follower.pack(records, version), "more": len(due) - len(records)}


async def _news(follower: Follower) -> bytes | None:
    due = follower.due()
    if not due:
        return None
    version = follower.version
    records = await _gathered(follower, due)
    news = {"version": version, "bundle": follower.pack(records, version), "more": len(due) - len(records)}
    return encode_notification(TOPIC, [news])


async def _gathered(follower: Follower, slots: Sequence[int]) -> list[BundleRecord]:
    """Return records, letting others have their turn after each."""
    records: list[BundleRecord] = []
    for record in follower.records(slots, BUNDLE_BYTES_MAX):
        records.append(record)
        await anyio.lowlevel.checkpoint()
    return records
