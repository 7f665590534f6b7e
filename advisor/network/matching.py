"""Record types, and which of several inputs they match."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from advisor.network.accepting import Labels, Rule, Rules
from advisor.network.records import Pattern


class Record(NamedTuple):
    """A record type: its labels (``a``, ``<t>``, ``<#b>``); `open`: it may carry others too."""

    labels: Labels
    open: bool = False

    @property
    def text(self) -> str:
        """The record as S-Net writes it, with ``…`` where it is open."""
        return "{" + ", ".join([*sorted(self.labels), *(["…"] if self.open else [])]) + "}"


def pattern_labels(pattern: Pattern) -> Labels:
    return frozenset(label.plain for label in pattern.labels)


def may_match(pattern: Pattern, record: Record) -> bool:
    return record.open or pattern_labels(pattern) <= record.labels


def matched(rules: Rules, record: Record) -> list[Rule | None]:
    """Return the rules of a box that a record can meet; [None] where nothing is known."""
    if rules is None:
        return [None]
    if record.open and len(rules) > 1:
        return list(rules)
    fitting = [rule for rule in rules if rule.takes <= record.labels or record.open]
    return [max(fitting, key=lambda rule: len(rule.takes))] if fitting else []


def branches(rules: Sequence[Rules], record: Record) -> tuple[int, ...]:
    """Return the branches that a record can take: the best match that is certain, and all that may be better."""
    certain: list[int] = []  # the most labels that a branch is sure to match, -1 for none
    possible: list[float] = []  # the most that it may match
    most = math.inf if record.open else float(len(record.labels))
    for branch in rules:
        if branch is None:
            certain.append(-1)
            possible.append(most)
            continue
        fitting = [rule for rule in branch if rule.takes <= record.labels]
        certain.append(max((len(rule.takes) for rule in fitting if not rule.partial), default=-1))
        best = max((most if rule.partial else float(len(rule.takes)) for rule in fitting), default=-1.0)
        others = (most if rule.partial else float(len(rule.takes)) for rule in branch) if record.open else ()
        possible.append(max(best, *others, -1.0) if record.open else best)
    score = max(certain, default=-1)
    if score < 0:
        return tuple(place for place, may in enumerate(possible) if may >= 0)
    sure = certain.index(score)
    return tuple(place for place, may in enumerate(possible)
                 if place == sure or may > score or (may == score and place < sure))  # fmt: skip
