"""What a watch tells of a network's allocation: frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.domain.allocations import Allocation

# What a change must gain, of `allocate`, of a watch and of cores that are lent: 20 rows with 15 % noise leave so much open.
GAIN_LEAST = 0.05
CHANCE = 0.99  # that a change gains anything: of a hundred watches one may advise a change that gains nothing
HORIZON_S = 600.0  # a change that takes longer to repay itself may well be superseded by the next


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that a watch tells."""

    # `first` (enough is known for a first allocation), `advice` (a better one is worth the change), `failed` (no
    # allocation can be found; `why` says what forbids it)
    kind: str
    allocation: Allocation | None = None
    # of the objective, as a share: 0.2 is 20 % more throughput, a latency 20 % lower, or 20 % of the cores saved
    gain: float | None = None
    probability: float | None = None  # that it is a gain at all
    # cost_s, break_even_s: expected seconds of the change, and after how many seconds it is repaid
    cost_s: float | None = None
    break_even_s: float | None = None
    changed: tuple[str, ...] = ()  # the keys whose cores or instances change
    # `best` and `present`, where there is one: each throughput_per_s, latency_s and cores
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    why: str = ""
    watch: int = 0
