"""What can happen to an engine, as frozen values; rows and task events are their columns. The log has them as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.domain.observations import Columns
from advisor.domain.task_events import TaskEvents


class ComponentForgotten(msgspec.Struct, frozen=True, tag=True):
    """Forget what was learned of a component."""

    component: str


class Travels(msgspec.Struct, frozen=True, tag=True):
    """Rows that say where records were, and are learned as runs elsewhere: of them only the flow of networks is learned."""

    rows: Columns

    def __len__(self) -> int:
        return len(self.rows)


class Ended(msgspec.Struct, frozen=True, tag=True):
    """Instances of task types that ended, columns as of `Advisor.observe_instances`; `index` counts `types`."""

    types: tuple[str, ...]
    index: Any
    elapsed_s: Any
    size: Any
    active_cores: Any
    count: Any

    def __len__(self) -> int:
        return len(self.index)


class ComponentPinned(msgspec.Struct, frozen=True, tag=True):
    """Hold a component to a model; None: let the evidence choose."""

    component: str
    model: str | None


class AllowedSet(msgspec.Struct, frozen=True, tag=True):
    """Set the core counts that a component itself allows, as `parse_allowed` takes them; None: every count."""

    component: str
    allowed: Any


class ProgramForgotten(msgspec.Struct, frozen=True, tag=True):
    """Forget a program as a whole."""

    program: str


class RunObserved(msgspec.Struct, frozen=True, tag=True):
    """Learn a run of a program: its numbers, or `profile`, the producer whose task events say what is not given."""

    run: Mapping[str, Any]

    @property
    def program(self) -> str:
        """The program's name."""
        return self.run["program"]


class NetworkDefined(msgspec.Struct, frozen=True, tag=True):
    """Keep a network by id, see `Advisor.define_network`."""

    network: Any  # its text, or its nodes
    id: int | str
    read: Any = None  # the `Network` that it reads as, where somebody has read it


Event = (
    Columns
    | Travels
    | TaskEvents
    | Ended
    | ComponentForgotten
    | ComponentPinned
    | AllowedSet
    | ProgramForgotten
    | RunObserved
    | NetworkDefined
)
