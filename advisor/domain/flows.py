"""How records travel through a network: what its text leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.shapes import Answer


class Flow(Answer, frozen=True, omit_defaults=False):
    """What is known of the way of records through a network; absent parts are unknown."""

    # one entry a choice, in text order (`Network.choices`): the share of records that take each branch, or None
    shares: tuple[Sequence[float] | None, ...] = ()
    # one entry a replication: the mean number of replicas that a record passes, or None; where it was given, perhaps its
    # distribution, `depths[i][k]` being the share that passes k
    depths: tuple[float | Sequence[float] | None, ...] = ()
    # one entry a split: the share of records of each replica, heaviest first, of sum 1; equal shares say that no tag
    # value is preferred. Or None.
    fan_outs: tuple[Sequence[float] | None, ...] = ()
    # one entry a feedback: the probability that a record which leaves returns, in [0, 1), or None
    returns: tuple[float | None, ...] = ()
    # key to visits per record that enters; where given it overrides what structure and the others say
    visits: Mapping[str, float] = {}
    records: int = 0  # records that this was learned from; 0 where it was given
    notes: tuple[str, ...] = ()  # what a reader should know: what was assumed, what cannot be kept apart
