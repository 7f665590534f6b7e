"""What several networks get of one machine: frozen values."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from advisor.domain.allocations import Allocation, Reason, without_groups
from advisor.domain.shapes import Answer, converted, on_wire


class Part(Answer, frozen=True):
    """One network's part of the machine.

    Attributes
    ----------
    name : str
        As the caller called it; else the id that it is kept by, else its place, from 1.
    weight : float
        How its throughput (or latency) counts against others; its share of the records where arrival rates are given.
    guaranteed_per_s : float
        Its records per second while all networks run in proportion to their weights.
    allocation : Allocation
        What it could do alone on the cores that it has.
    """

    name: str
    weight: float
    guaranteed_per_s: float
    allocation: Allocation

    @property
    def cores_used(self) -> int:
        """Cores that it has."""
        return self.allocation.cores_used

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire: that of its allocation, with name, weight and what is guaranteed."""
        own = asdict(self)
        return own | own.pop("allocation").as_dict()


class Together(Answer, frozen=True):
    """What each network gets.

    Attributes
    ----------
    networks : tuple of Part
        In the order given.
    spare : int
        Cores that no network gains from.
    gap : float or None
        0 where it is proved best, else None.
    bottleneck : tuple of (str, str)
        Which network and which of its keys bound what all reach.
    why : tuple of Reason
        Components are written ``network:key``.
    """

    networks: tuple[Part, ...]
    spare: int
    gap: float | None
    bottleneck: tuple[tuple[str, str], ...] = ()
    why: tuple[Reason, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire; what does not apply is left out."""
        found = asdict(self) | {"networks": [part.as_dict() for part in self.networks]}
        return on_wire({key: value for key, value in found.items() if key != "gap" or value is not None})

    @classmethod
    def of_wire(cls, given: Any) -> Together:
        """Return it from its shape on the wire. Raises MalformedMessage."""
        found = {"gap": None} | without_groups(given)
        parts: list[dict[str, Any]] = []
        for each in converted(list[dict[str, Any]], found.get("networks")):
            own = {"name": "", "weight": 1.0, "guaranteed_per_s": each.get("throughput_per_s")}
            parts.append(own | each | {"allocation": Allocation.of_wire(each)})
        return converted(cls, found | {"networks": parts})
