"""Which branch of each choice a record takes, as far as types decide it: `routes`.

Record types are followed through the network from its input on. A record is known by the labels it carries; `open` says
that it may carry others. A choice sends it to the branch whose input type has most labels in common with it, ties to the
leftmost; labels that a part does not consume are inherited. What is decided: a record type whose best branch no other
branch can beat, whatever is not known. What stays open: guards and values of tags, how many records a box gives and
which of its variants, what an undeclared box gives or takes, which records a synchrocell joins.

Shares are known where every record that can reach a choice takes one branch, or where the records of one filter go
different ways in numbers that its text fixes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from advisor.domain import networks as kinds
from advisor.domain.flows import Flow
from advisor.domain.networks import Network
from advisor.network.accepting import Rules, labels_of, rules_of
from advisor.network.matching import Record, branches, matched, may_match, pattern_labels
from advisor.network.reader import read_filter, read_pattern
from advisor.network.records import FilterRule, Pattern

TYPES_MAX = 64  # record types followed at one place: beyond, what comes there counts as unknown
STEPS_MAX = 200_000  # record types times nodes and branches looked at, loops repeated: a second's work at most
PROBLEMS_MAX = 100  # reported of one network


class Route(NamedTuple):
    """Where one record type can go at a choice: the numbers of the branches, from 0; one where types decide it."""

    record: Record
    branches: tuple[int, ...]


class Problem(NamedTuple):
    """Something that types show to be wrong, or at least suspicious, at a node."""

    node: int
    text: str


@dataclass(frozen=True, slots=True)
class Routes:
    """How types send records through a network."""

    records: tuple[Record, ...]  # the record types that enter
    # for each choice, in text order, where each record type that can reach it can go
    choices: tuple[tuple[Route, ...], ...]
    # for each choice the share of each branch where types decide it entirely, else None; as `Flow.shares`
    shares: tuple[tuple[float, ...] | None, ...]
    problems: tuple[Problem, ...]  # records that no branch, box or filter there takes; branches that no record takes
    complete: bool = True  # False when STEPS_MAX stopped the work: then nothing is decided

    def flow(self) -> Flow:
        """Return the shares that types decide, as a flow; None elsewhere."""
        return Flow(shares=self.shares)


def routes(network: Network, records: Iterable[Iterable[str]] | None = None, *, exact: bool = True) -> Routes:
    """Return how types send records through a network.

    Parameters
    ----------
    network : Network
        With declared types of boxes and nets; what is undeclared leaves routes open.
    records : iterable of iterables of labels, optional
        The record types that enter, such as ``[["a", "<t>"]]``. By default the network's own input type, declared or
        inferred.
    exact : bool
        Whether records that enter carry these labels only; otherwise they may carry any others besides.

    Returns
    -------
    Routes

    Notes
    -----
    Sound: a route that is reported as decided is taken by every record of that type. Record types may be reported that
    no run ever meets (guards are not evaluated). Cost O(record types · nodes · rounds of loops), at most STEPS_MAX steps.
    """
    rules = rules_of(network)
    enters = _entering(network, rules, records, exact=exact)
    walk = _Walk(network, rules)
    stream: Stream = {(record, "in", number): 1.0 for number, record in enumerate(enters)}
    try:
        walk.run(len(network.nodes) - 1, stream)
    except _TooFar:
        nothing: tuple[None, ...] = (None,) * len(network.choices)
        return Routes(enters, ((),) * len(network.choices), nothing, (), complete=False)
    seen = [walk.seen.get(choice, {}) for choice in network.choices]
    routes_seen = tuple(_routes_of(each) for each in seen)
    shares = tuple(_shares(len(network.nodes[choice].children), each)
                   for choice, each in zip(network.choices, seen, strict=True))  # fmt: skip
    problems = [*walk.problems, *_unused(network, rules, routes_seen)]
    return Routes(enters, routes_seen, shares, tuple(problems[:PROBLEMS_MAX]))


# A stream: record type and where it comes from -> how many of them a record from there stands for. Numbers of one source
# are in proportion to each other; those of different sources are not.
Source = Hashable
Stream = dict[tuple[Record, str, Hashable], float]
Seen = dict[tuple[Record, str, Hashable], tuple[float, tuple[int, ...]]]


class _TooFar(Exception):
    """STEPS_MAX is exceeded."""


def _entering(
    network: Network, rules: Sequence[Rules], records: Iterable[Iterable[str]] | None, *, exact: bool
) -> tuple[Record, ...]:
    if records is not None:
        return tuple(Record(labels_of(labels), not exact) for labels in records)
    root, found = network.nodes[-1], rules[-1]
    if found is None:
        return (Record(frozenset(), open=True),)
    # what matches an exit at once is no reason for a replication
    if root.kind == kinds.REPLICATION and not root.mappings:
        exits = {pattern_labels(read_pattern(text)) for text in root.patterns}
        found = tuple(rule for rule in found if rule.takes not in exits) or found
    return tuple(dict.fromkeys(Record(rule.takes, not exact) for rule in found))


class _Walk:
    """One walk of record types through a network; recursion as deep as the network, at most NETWORK_DEPTH_MAX."""

    def __init__(self, network: Network, rules: Sequence[Rules]) -> None:
        self._nodes = network.nodes
        self._rules = rules
        self._steps = 0
        self._reported: set[tuple[int, Record]] = set()
        self.seen: dict[int, Seen] = {}
        self.problems: list[Problem] = []

    def run(self, index: int, stream: Stream) -> Stream:
        """Return what comes out of a node when `stream` goes in."""
        node = self._nodes[index]
        self._count(1 + len(stream))
        out: Stream
        if node.kind == kinds.SERIES:
            out = stream
            for child in node.children:
                out = self.run(child, out)
            return out
        if node.kind == kinds.PLACEMENT:
            return self.run(node.children[0], stream)
        return _bounded(index, _STEPS[node.kind](self, index, stream))

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > STEPS_MAX:
            raise _TooFar

    def _problem(self, index: int, record: Record, text: str) -> None:
        if (index, record) not in self._reported and len(self.problems) < PROBLEMS_MAX:
            self._reported.add((index, record))
            self.problems.append(Problem(index, text))

    def box(self, index: int, stream: Stream) -> Stream:
        """A box gives each of its variants as often as it likes: each is a source of its own."""
        node, rules = self._nodes[index], self._rules[index]
        if node.once:
            return {(Record(labels_of(variant)), "box", (index, place)): 1.0
                    for place, variant in enumerate(node.produces) if "..." not in variant}  # fmt: skip
        out: Stream = {}
        for record, *source in stream:
            taken = matched(rules, record)
            if not taken:
                self._problem(
                    index, record, f"box `{node.name}` does not take the record {record.text} that can come here"
                )
            for rule in taken:
                variants = None if rule is None else rule.outputs(record.labels)
                if variants is None:
                    out[_UNKNOWN, "box", index] = 1.0
                for place, labels in enumerate(variants or ()):
                    out[Record(labels, record.open), "box", (index, record, *source, place)] = 1.0
        return out

    def filter(self, index: int, stream: Stream) -> Stream:
        """What one action puts out keeps its proportions; which of several guards holds is not known."""
        rule: FilterRule = read_filter(self._nodes[index].text)
        if rule.pattern is None:
            return stream
        takes = frozenset(label.plain for label in rule.pattern)
        out: Stream = {}
        for (record, *source), weight in stream.items():
            if not (takes <= record.labels or record.open):
                self._problem(index, record, f"the filter does not take the record {record.text} that can come here")
                continue
            rest = record.labels - takes
            for place, branch in enumerate(rule.branches):
                came = (
                    tuple(source)
                    if len(rule.branches) == 1 and branch.guard is None
                    else (index, record, *source, place)
                )
                kind, origin = (source[0], source[1]) if came == tuple(source) else ("filter", came)
                for items in branch.action:
                    key = (Record(rest | {item.label.plain for item in items}, record.open), str(kind), origin)
                    out[key] = out.get(key, 0.0) + (weight if kind != "filter" else 1.0)
        return out

    def sync(self, index: int, stream: Stream) -> Stream:
        """Records pass; one of each pattern may be joined."""
        out: Stream = {(record, "sync", (index, record, *source)): 1.0 for record, *source in stream}
        records = list(dict.fromkeys(key[0] for key in stream))
        each = [[record for record in records if may_match(pattern, record)] for pattern in self._patterns(index)]
        if math.prod(map(len, each)) > TYPES_MAX:
            out[_UNKNOWN, "sync", index] = 1.0
            return out
        for parts in itertools.product(*each):
            joined = Record(frozenset[str]().union(*(part.labels for part in parts)), any(part.open for part in parts))
            out[joined, "sync", (index, joined)] = 1.0
        return out

    def choice(self, index: int, stream: Stream) -> Stream:
        """Each record goes to the branch that its type decides, or to each that it can."""
        children = self._nodes[index].children
        rules = [self._rules[child] for child in children]
        self._count(len(stream) * len(children))
        into: list[Stream] = [{} for _ in children]
        seen: Seen = {}
        for key, weight in stream.items():
            record = key[0]
            possible = branches(rules, record)
            seen[key] = (weight, possible)
            if not possible:
                self._problem(
                    index, record, f"no branch of the choice takes the record {record.text} that can come here"
                )
            for branch in possible:
                if len(possible) == 1:
                    into[branch][key] = weight
                else:
                    into[branch][record, "choice", (index, record, key[1:], branch)] = 1.0
        self.seen[index] = seen
        out: Stream = {}
        for child, part in zip(children, into, strict=True):
            _merge(out, self.run(child, part))
        return out

    def join(self, index: int, stream: Stream) -> Stream:
        """Each record goes to every part; what they give is joined."""
        outs = [list(dict.fromkeys(key[0] for key in self.run(child, dict(stream))))
                for child in self._nodes[index].children]  # fmt: skip
        if math.prod(map(len, outs)) > TYPES_MAX:
            return {(_UNKNOWN, "join", index): 1.0}
        found: Stream = {}
        for parts in itertools.product(*outs):
            joined = Record(frozenset[str]().union(*(part.labels for part in parts)), any(part.open for part in parts))
            found[joined, "join", (index, joined)] = 1.0
        return found

    def split(self, index: int, stream: Stream) -> Stream:
        """Each record needs the tag."""
        tag = f"<{self._nodes[index].tag}>"
        inside: Stream = {}
        for key, weight in stream.items():
            if tag in key[0].labels or key[0].open:
                inside[key] = weight
            else:
                self._problem(index, key[0], f"the split needs {tag}, which the record {key[0].text} does not have")
        return self.run(self._nodes[index].children[0], inside)

    def replication(self, index: int, stream: Stream) -> Stream:
        """Before each replica a record that matches leaves; what a replica gives meets the next."""
        patterns = self._patterns(index)
        out: Stream = {}
        inside: Stream = {}
        self._sorted(index, stream, patterns, leaving=out, staying=inside)
        return self._looped(index, inside, out, patterns, matching_leave=True)

    def feedback(self, index: int, stream: Stream) -> Stream:
        """What matches returns, the rest leaves."""
        return self._looped(index, dict(stream), {}, self._patterns(index), matching_leave=False)

    def _looped(
        self, index: int, inside: Stream, out: Stream, patterns: Sequence[Pattern], *, matching_leave: bool
    ) -> Stream:
        """Run the body until no new record type goes round."""
        while True:
            came = self.run(self._nodes[index].children[0], inside)
            matching: Stream = {}
            others: Stream = {}
            self._sorted(index, came, patterns, leaving=matching, staying=others)
            leaving, going = (matching, others) if matching_leave else (others, matching)
            _merge(out, {(key[0], "left", (index, key[0])): 1.0 for key in leaving})
            again: Stream = {(key[0], "loop", (index, key[0])): 1.0 for key in going}
            if again.keys() <= inside.keys():
                return out
            _merge(inside, again)
            inside = _bounded(index, inside)

    def _sorted(
        self, index: int, stream: Stream, patterns: Sequence[Pattern], *, leaving: Stream, staying: Stream
    ) -> None:
        """Put what matches a pattern into `leaving`, the rest into `staying`, what may do either into both."""
        for key, weight in stream.items():
            if any(pattern.guard is None and pattern_labels(pattern) <= key[0].labels for pattern in patterns):
                leaving[key] = weight
            elif not patterns or any(may_match(pattern, key[0]) for pattern in patterns):
                leaving[key[0], "maybe", (index, key)] = staying[key[0], "maybe", (index, key)] = 1.0
            else:
                staying[key] = weight

    def _patterns(self, index: int) -> list[Pattern]:
        return [read_pattern(text) for text in self._nodes[index].patterns]


_STEPS = {
    kinds.BOX: _Walk.box, kinds.FILTER: _Walk.filter, kinds.SYNC: _Walk.sync, kinds.CHOICE: _Walk.choice,
    kinds.JOIN: _Walk.join, kinds.SPLIT: _Walk.split, kinds.REPLICATION: _Walk.replication, kinds.FEEDBACK: _Walk.feedback,
}  # fmt: skip
_UNKNOWN = Record(frozenset(), open=True)


def _merge(into: Stream, more: Mapping[tuple[Record, str, Hashable], float]) -> None:
    for key, weight in more.items():
        into[key] = into.get(key, 0.0) + weight


def _bounded(index: int, stream: Stream) -> Stream:
    """Return the stream, or one unknown record in its place when it has too many types; sources are let go first."""
    if len(stream) <= TYPES_MAX:
        return stream
    records = {key[0] for key in stream}
    if len(records) > TYPES_MAX:
        return {(_UNKNOWN, "many", index): 1.0}
    return {(record, "some", (index, record)): 1.0 for record in records}


def _routes_of(seen: Seen) -> tuple[Route, ...]:
    found: dict[Record, tuple[int, ...]] = {}
    for (record, *_), (_, possible) in seen.items():
        found[record] = possible
    return tuple(Route(record, possible) for record, possible in sorted(found.items(), key=lambda item: item[0].text))


def _shares(count: int, seen: Seen) -> tuple[float, ...] | None:
    """Return the shares when all sources agree on them."""
    sources: dict[Hashable, list[float]] = {}
    for (_, *source), (weight, possible) in seen.items():
        if len(possible) != 1:
            return None
        sources.setdefault(tuple(source), [0.0] * count)[possible[0]] += weight
    found = [tuple(each / sum(counts) for each in counts) for counts in sources.values()]
    if not found or any(abs(a - b) > 1e-12 for other in found[1:] for a, b in zip(found[0], other, strict=True)):
        return None
    return found[0]


def _unused(network: Network, rules: Sequence[Rules], routes_seen: Sequence[tuple[Route, ...]]) -> Iterable[Problem]:
    """Yield the branches that no record takes; a branch that begins with an initialiser needs none."""
    for choice, each in zip(network.choices, routes_seen, strict=True):
        used = {branch for route in each for branch in route.branches}
        for branch, child in enumerate(network.nodes[choice].children):
            if each and branch not in used and rules[child] != ():
                yield Problem(choice, f"no record that can come here takes branch {branch + 1} of the choice")
