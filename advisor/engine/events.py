"""What can happen to an engine, as frozen values; rows and task events are their columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from advisor.domain.networks import Network
from advisor.domain.observations import Columns
from advisor.domain.runs import ProgramRun
from advisor.domain.task_events import TaskEvents
from advisor.domain.vectors import Floats, Ints


@dataclass(frozen=True, slots=True)
class ComponentForgotten:
    """Forget a component, but for the share `keep`."""

    component: str
    keep: float = 0.0


@dataclass(frozen=True, slots=True)
class Drop:
    """Take components away, as if they had never been; what counts over all of them stays."""

    components: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Travels:
    """Rows that say where records were, and are learned as runs elsewhere: of them only the flow of networks is learned."""

    rows: Columns

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Profiled:
    """Task events of which only the profile of their run is learned: what ended in them is learned elsewhere, as `Ended`."""

    events: TaskEvents

    def __len__(self) -> int:
        return len(self.events)


@dataclass(frozen=True, slots=True)
class Ended:
    """Instances of task types that ended, columns as of `Advisor.observe_instances`; `index` counts `types`."""

    types: tuple[str, ...]
    index: Ints
    elapsed_s: Floats
    size: Floats
    active_cores: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.index)

    def of_types(self, wanted: Collection[str]) -> Ended:
        """Return those of some types, in their order."""
        rows = np.array([name in wanted for name in self.types], np.bool_)[self.index]
        columns = (getattr(self, each.name)[rows] for each in fields(self)[1:])
        return Ended(self.types, *columns)


@dataclass(frozen=True, slots=True)
class ComponentPinned:
    """Hold a component to a model; None: let the evidence choose."""

    component: str
    model: str | None


@dataclass(frozen=True, slots=True)
class AllowedSet:
    """Set the core counts that a component itself allows, as `parse_allowed` takes them; None: every count."""

    component: str
    allowed: Any


@dataclass(frozen=True, slots=True)
class ProgramForgotten:
    """Forget a program as a whole."""

    program: str


@dataclass(frozen=True, slots=True)
class ProfileForgotten:
    """Forget the profiles of a producer's runs, or that of one incarnation."""

    producer: str
    incarnation: bytes | None = None

    @property
    def profile(self) -> Mapping[str, str]:
        """Whose profiles."""
        return {"producer": self.producer}


@dataclass(frozen=True, slots=True)
class RunObserved:
    """Learn a run of a program: its numbers, or `profile`, the producer whose task events say what is not given."""

    run: Mapping[str, Any]

    @property
    def program(self) -> str:
        """The program's name."""
        return self.run["program"]


@dataclass(frozen=True, slots=True)
class NetworkDefined:
    """Keep a network by id, see `Advisor.define_network`."""

    network: Any  # its text, or its nodes
    id: int | str | None = None
    read: Network | None = field(default=None, compare=False)  # what it reads as, where somebody has read it


@dataclass(frozen=True, slots=True)
class Counted:
    """What the totals count beside what other events tell: for the log."""

    counts: Mapping[str, int]


Event = (
    Columns
    | Travels
    | TaskEvents
    | Profiled
    | Ended
    | ProgramRun
    | ComponentForgotten
    | Drop
    | ComponentPinned
    | AllowedSet
    | ProgramForgotten
    | ProfileForgotten
    | RunObserved
    | NetworkDefined
    | Counted
)
