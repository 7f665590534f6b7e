"""What can happen to an engine, as frozen values; rows and task events are their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.domain.networks import Network
from advisor.domain.observations import Columns
from advisor.domain.runs import ProgramRun
from advisor.domain.task_events import TaskEvents


@dataclass(frozen=True, slots=True)
class Forget:
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
class Pin:
    """Hold a component to a model; None: let the evidence choose."""

    component: str
    model: str | None


@dataclass(frozen=True, slots=True)
class ForgetProgram:
    """Forget a program as a whole."""

    program: str


@dataclass(frozen=True, slots=True)
class ForgetProfile:
    """Forget the profiles of a producer's runs, or that of one incarnation."""

    producer: str
    incarnation: bytes | None = None

    @property
    def profile(self) -> Mapping[str, str]:
        """Whose profiles."""
        return {"producer": self.producer}


@dataclass(frozen=True, slots=True)
class ObserveRun:
    """Learn a run of a program: its numbers, or `profile`, the producer whose task events say what is not given."""

    run: Mapping[str, Any]

    @property
    def program(self) -> str:
        """The program's name."""
        return self.run["program"]


@dataclass(frozen=True, slots=True)
class DefineNetwork:
    """Keep a network by id, see `Advisor.define_network`."""

    network: Any  # its text, or its nodes
    id: int | str | None = None
    read: Network | None = field(default=None, compare=False)  # what it reads as, where somebody has read it


Event = (
    Columns
    | Travels
    | TaskEvents
    | ProgramRun
    | Forget
    | Drop
    | Pin
    | ForgetProgram
    | ForgetProfile
    | ObserveRun
    | DefineNetwork
)
