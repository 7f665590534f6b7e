"""Task events off the wire. The service's side: it imports numpy."""

from __future__ import annotations

from advisor.domain.task_events import EVENTS_BATCH_MAX, Clock, TaskEvents, decode
from advisor.errors import InvalidValue, TooLarge
from advisor.protocol import messages


def events_of_params(params: messages.TaskEvents) -> TaskEvents:
    """Return the batch of `task_events`. Cost O(strings): records are read in place.

    Raises
    ------
    InvalidValue, TooLarge
    """
    given = params.clock or {}
    anchors: list[tuple[int, int]] = []
    for pair in given.get("anchors", ()):
        if not isinstance(pair, list) or len(pair) != 2 or any(type(part) is not int for part in pair):
            raise InvalidValue("clock.anchors", pair, "pairs [ticks, ns] of whole numbers")
        anchors.append((pair[0], pair[1]))
    clock = Clock(float(given.get("ticks_per_s", 1e9)), tuple(anchors))
    events = decode(
        params.records, params.strings or (), clock=clock, further=tuple(params.fields or ()), dropped=params.dropped
    )
    if len(events) > EVENTS_BATCH_MAX:
        raise TooLarge("events", len(events), EVENTS_BATCH_MAX, "cut the batch")
    return events
