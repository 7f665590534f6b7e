"""What records each part of a network accepts, and what it makes of them: rules, inferred bottom-up from declared types.

A box says its own rule. A pipeline needs, beside its first part's input, what later parts need and flow inheritance must
bring past the earlier ones. Where an output is not known (an undeclared box, what leaves a loop), a rule is `partial`: the
part may need more labels than it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from advisor.domain import networks as kinds
from advisor.domain.networks import Network, Node
from advisor.network.reader import read_filter, read_pattern
from advisor.network.records import Pattern

Labels = frozenset[str]
RULES_MAX = 64  # of one part, and outputs of one rule: beyond, the part counts as undeclared
ANYTHING = "..."


class Rule(NamedTuple):
    """One variant of a part's input: the labels it `takes`, those that travel on besides (`keeps`), what it `gives`.

    `gives` None: unknown. `partial`: it may need more labels than it takes, or refuse a record that has them all.
    """

    takes: Labels
    gives: tuple[Labels, ...] | None
    partial: bool = False
    keeps: Labels = frozenset()

    def outputs(self, labels: Labels) -> tuple[Labels, ...] | None:
        """Return what becomes of a record: labels that are not consumed are inherited."""
        inherited = (labels - self.takes) | (labels & self.keeps)
        return None if self.gives is None else tuple(given | inherited for given in self.gives)


Rules = tuple[Rule, ...] | None  # None: undeclared; empty: takes no record


def rules_of(network: Network) -> list[Rules]:
    """Return the rules of each node. Cost O(nodes · RULES_MAX²) at most; nothing recurses."""
    found: list[Rules] = []
    for node in network.nodes:
        rules = _declared(node)
        if rules is None:
            rules = _inferred(node, [found[child] for child in node.children])
        if rules is not None and (len(rules) > RULES_MAX or any(len(rule.gives or ()) > RULES_MAX for rule in rules)):
            rules = None
        found.append(rules)
    return found


def labels_of(labels: Iterable[str]) -> Labels:
    """Return labels without the sign of those that pass on."""
    return frozenset(label.removesuffix("=") for label in labels)


def _declared(node: Node) -> Rules:
    if node.mappings:
        return tuple(_rule(takes, gives) for takes, *gives in node.mappings)
    if node.kind != kinds.BOX:
        return None
    if node.once:
        return ()
    return None if node.consumes is None else (_rule(node.consumes, node.produces),)


def _rule(takes: Sequence[str], gives: Sequence[Sequence[str]]) -> Rule:
    known = not any(ANYTHING in variant for variant in gives)
    keeps = labels_of(label for label in takes if label.endswith("="))
    return Rule(labels_of(takes), tuple(labels_of(each) for each in gives) if known else None, keeps=keeps)


def _inferred(node: Node, parts: list[Rules]) -> Rules:
    if node.kind == kinds.FILTER:
        return (_filter_rule(node.text),)
    if node.kind == kinds.SYNC:
        return _sync_rules(node.patterns)
    if node.kind == kinds.SERIES:
        rules = parts[0]
        for part in parts[1:]:
            rules = _composed(rules, part)
        return rules
    if not parts or any(part is None for part in parts):
        return None
    return _of_operator(node, cast("list[tuple[Rule, ...]]", parts))


def _of_operator(node: Node, known: list[tuple[Rule, ...]]) -> Rules:
    if node.kind == kinds.CHOICE:
        return tuple(dict.fromkeys(rule for part in known for rule in part))
    body = known[0]
    if node.kind == kinds.PLACEMENT:
        return body
    if node.kind == kinds.SPLIT:
        tag = frozenset((f"<{node.tag}>",))
        return tuple(rule._replace(takes=rule.takes | tag, keeps=rule.keeps | (tag - rule.takes)) for rule in body)
    if node.kind not in (kinds.REPLICATION, kinds.FEEDBACK):
        return None  # a join
    patterns = [read_pattern(each) for each in node.patterns]
    round_and_out = [_looped(rule, body, patterns, leave=node.kind == kinds.REPLICATION) for rule in body]
    if node.kind == kinds.REPLICATION:
        exits = (frozenset(label.plain for label in pattern.labels) for pattern in patterns)
        round_and_out += [Rule(labels, (labels,)) for labels in exits]
    return tuple(dict.fromkeys(round_and_out))


def _looped(rule: Rule, body: Sequence[Rule], patterns: Sequence[Pattern], *, leave: bool) -> Rule:
    """Return the rule of a loop for what enters by a rule of its body; what matches a pattern leaves, or returns."""
    outs: dict[Labels, None] = {}
    seen: set[Labels] = set()
    todo = [given | rule.keeps for given in rule.gives or ()]
    closed = rule.gives is not None and not rule.partial
    while todo and closed:
        labels = todo.pop()
        if labels in seen:
            continue
        seen.add(labels)
        meets = [pattern for pattern in patterns if labels.issuperset(label.plain for label in pattern.labels)]
        sure = any(pattern.guard is None for pattern in meets)
        if bool(meets) if leave else not sure:
            outs[labels] = None
        if not sure if leave else bool(meets):
            ways = [each for each in body if each.takes <= labels]
            best = max(ways, key=lambda each: len(each.takes), default=None)
            on = None if best is None or best.partial else best.outputs(labels)
            closed = on is not None and len(seen) <= RULES_MAX
            todo += on or ()
    if not closed:
        return Rule(rule.takes, None, partial=True)
    return Rule(rule.takes, tuple(outs), keeps=rule.keeps)


def _filter_rule(text: str) -> Rule:
    rule = read_filter(text)
    if rule.pattern is None:
        return Rule(frozenset(), (frozenset(),))
    outs = (out for branch in rule.branches for out in branch.action)
    gives = tuple(dict.fromkeys(frozenset(item.label.plain for item in out) for out in outs))
    takes = frozenset(label.plain for label in rule.pattern)
    return Rule(takes, gives, partial=rule.branches[-1].guard is not None)


def _sync_rules(patterns: Sequence[str]) -> tuple[Rule, ...]:
    read = [read_pattern(each) for each in patterns]
    each = [frozenset(label.plain for label in pattern.labels) for pattern in read]
    joined = frozenset[str]().union(*each)
    return tuple(dict.fromkeys(Rule(labels, (labels, joined), partial=pattern.guard is not None)
                               for labels, pattern in zip(each, read, strict=True)))  # fmt: skip


def _composed(first: Rules, second: Rules) -> Rules:
    """Return the rules of a pipeline of two parts."""
    if first is None or not first:
        return first
    if second is None:
        return tuple(rule._replace(gives=None, partial=True) for rule in first)
    return tuple(dict.fromkeys(_followed(rule, second) for rule in first))


def _followed(rule: Rule, second: tuple[Rule, ...]) -> Rule:
    if rule.gives is None or len(rule.gives) * len(second) > RULES_MAX * RULES_MAX:
        return rule._replace(gives=None, partial=True)
    need: Labels = frozenset()
    outs: list[Labels] | None = []
    partial = rule.partial
    for given in rule.gives:
        have = given | rule.keeps
        # A label that the first part takes and does not give cannot be inherited past it.
        ways = [(len(each.takes - have), -len(each.takes), place) for place, each in enumerate(second)
                if not (each.takes - have) & rule.takes]  # fmt: skip
        if not ways:
            continue  # no way on for this output: reported when a record is followed
        missing, _, place = min(ways)
        taken = second[place]
        need |= taken.takes - have
        partial = partial or taken.partial or (missing > 0 and len(ways) > 1)
        on = taken.outputs(have | taken.takes)
        outs = None if on is None or outs is None else [*outs, *on]
    gives = None if outs is None else tuple(dict.fromkeys(outs))
    return Rule(rule.takes | need, gives, partial or gives is None, rule.keeps)
