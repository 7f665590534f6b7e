"""How records travel through a network: what its text leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Flow:
    """What is known of the way of records through a network; absent parts are unknown.

    Attributes
    ----------
    shares : tuple
        One entry a choice, in text order (`Network.choices`): the share of records that take each branch, or None.
    depths : tuple
        One entry a replication: the distribution of the number of replicas that a record passes, ``depths[i][k]`` being
        the share that passes k, or None.
    fan_outs : tuple
        One entry a split: the share of records of each replica, heaviest first, of sum 1; equal shares say that no tag
        value is preferred. Or None.
    returns : tuple
        One entry a feedback: the probability that a record which leaves returns, in [0, 1), or None.
    visits : mapping
        Key to visits per record that enters; where given it overrides what structure and the others say.
    records : int
        Records that this was learned from; 0 where it was given.
    """

    shares: tuple[Sequence[float] | None, ...] = ()
    depths: tuple[Sequence[float] | None, ...] = ()
    fan_outs: tuple[Sequence[float] | None, ...] = ()
    returns: tuple[float | None, ...] = ()
    visits: Mapping[str, float] = field(default_factory=dict[str, float])
    records: int = 0
