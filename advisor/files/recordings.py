"""Task graphs of recorded runs: files of task events, as `advisor profile` reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from advisor.domain.task_graphs import TaskGraph
from advisor.files.events import read_events
from advisor.profile.recorded import graph_of_events

EVENTS_SUFFIX: Final = ".events"


def recorded_graph(path: Path) -> TaskGraph:
    """Return the graph of a file of task events; raises InvalidValue where it is none, or events are missing."""
    return graph_of_events(read_events(path))
