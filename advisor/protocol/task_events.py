"""Task events off the wire. The service's side: it imports numpy."""

from __future__ import annotations

from advisor.domain.task_events import EVENTS_BATCH_MAX, Clock, TaskEvents, decode
from advisor.errors import TooLarge
from advisor.protocol import verbs


def events_of_params(params: verbs.TaskEventsSent) -> TaskEvents:
    """Return the batch of `task_events`. Cost O(strings): records are read in place; raises InvalidValue, TooLarge."""
    given = params.clock or {}
    clock = Clock(float(given.get("ticks_per_s", 1e9)), tuple(given.get("anchors", ())))
    events = decode(
        params.records, params.strings or (), clock=clock, dropped=params.dropped,
        sums=params.sums, ended=params.ended, cpu_s=params.cpu_s or 0.0,
    )  # fmt: skip
    if len(events) > EVENTS_BATCH_MAX:
        raise TooLarge("events", len(events), EVENTS_BATCH_MAX, "cut the batch")
    return events
