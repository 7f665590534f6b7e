"""What several networks get of one machine: frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from advisor.domain.allocations import Allocation, FrontPoint, Reason


@dataclass(frozen=True, slots=True)
class Part:
    """One network's part of the machine.

    Attributes
    ----------
    name : str
        As the caller called it; else the id that it is kept by, else its place, from 1.
    weight : float
        How its throughput (or latency) counts against others of its priority; its share of the records where arrival
        rates are given.
    priority : int
        Networks of a higher one were planned first.
    guaranteed_per_s : float
        Its records per second while all networks of its priority run in proportion to their weights.
    allocation : Allocation
        What it could do alone on the cores that it has.
    """

    name: str
    weight: float
    priority: int
    guaranteed_per_s: float
    allocation: Allocation

    @property
    def used(self) -> int:
        """Cores that it has."""
        return self.allocation.cores_used

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire: that of its allocation, with name, weight, priority and what is guaranteed."""
        own = {key: getattr(self, key) for key in ("name", "weight", "priority", "guaranteed_per_s")}
        return own | self.allocation.as_dict()


@dataclass(frozen=True, slots=True)
class Together:
    """What each network gets.

    Attributes
    ----------
    networks : tuple of Part
        In the order given.
    spare : int
        Cores that no network gains from.
    gap : float or None
        How far from the best the plans of the priorities can be, the largest of theirs; None where no bound is known.
    bottleneck : tuple of (str, str)
        Which network and which of its keys bound what each priority reaches, the highest priority first.
    why : tuple of Reason
        Components are written ``network:key``.
    front : tuple of FrontPoint
        For the objective ``pareto`` what all can reach together on how many cores; components are written ``network:key``.
    """

    networks: tuple[Part, ...]
    spare: int
    gap: float | None
    bottleneck: tuple[tuple[str, str], ...] = ()
    why: tuple[Reason, ...] = ()
    front: tuple[FrontPoint, ...] = ()

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """The allocation of each network, in the order given."""
        return tuple(part.allocation for part in self.networks)

    @property
    def guaranteed_per_s(self) -> tuple[float, ...]:
        """What each network is guaranteed, in the order given."""
        return tuple(part.guaranteed_per_s for part in self.networks)

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire; what does not apply is left out."""
        found: dict[str, Any] = {
            "networks": [part.as_dict() for part in self.networks],
            "spare": self.spare,
            "bottleneck": [list(pair) for pair in self.bottleneck],
            "why": [reason.as_dict() for reason in self.why],
        }
        more = {"gap": self.gap, "front": [point.as_dict() for point in self.front] or None}
        return found | {key: value for key, value in more.items() if value is not None}
