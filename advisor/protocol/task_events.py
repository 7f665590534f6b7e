"""Task events off the wire. The service's side: it imports numpy."""

from __future__ import annotations

from typing import Any, cast

from advisor.domain.task_events import EVENTS_BATCH_MAX, Clock, TaskEvents, decode
from advisor.errors import InvalidValue, TooLarge
from advisor.protocol import verbs


def events_of_params(params: verbs.TaskEventsSent) -> TaskEvents:
    """Return the batch of `task_events`. Cost O(strings): records are read in place; raises InvalidValue, TooLarge."""
    given = params.clock or {}
    anchors = [_anchor(pair) for pair in given.get("anchors", ())]
    clock = Clock(float(given.get("ticks_per_s", 1e9)), tuple(anchors))
    events = decode(
        params.records, params.strings or (), clock=clock, further=tuple(params.fields or ()), dropped=params.dropped,
        sums=params.sums, ended=params.ended, cpu_s=params.cpu_s or 0.0,
    )  # fmt: skip
    if len(events) > EVENTS_BATCH_MAX:
        raise TooLarge("events", len(events), EVENTS_BATCH_MAX, "cut the batch")
    return events


def _anchor(pair: Any) -> tuple[int, int]:
    parts: list[Any] = cast("list[Any]", pair) if isinstance(pair, list) else []
    if len(parts) != 2 or any(type(part) is not int for part in parts):
        raise InvalidValue("clock.anchors", cast("object", pair), "pairs [ticks, ns] of whole numbers")
    return parts[0], parts[1]
