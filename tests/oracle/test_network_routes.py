"""Routes that types decide, against records that are sent through the network one by one."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from advisor.network import parse, routes

LABELS = "abcdef"
DEPTH = 8  # rounds of a loop that a record may take before the run gives it up


def declared(rng: random.Random, boxes: dict[str, Any], *, filters_only: bool) -> Any:
    """A leaf as (text, input labels, alternatives of outputs): a box gives one variant, a filter all of its action."""
    takes = frozenset(rng.sample(LABELS, rng.randint(0, 2)))
    gives = [frozenset(rng.sample(LABELS, rng.randint(1, 2))) for _ in range(rng.randint(1, 2))]
    if filters_only or rng.random() < 0.4:
        outs = "; ".join("{" + ", ".join(f"<{x} = 1>" for x in sorted(each)) + "}" for each in gives)
        return "leaf", f"[{{{', '.join(f'<{x}>' for x in sorted(takes))}}} -> {outs}]", takes, [gives]
    name = f"box{len(boxes)}"
    pair = [f"({', '.join(f'<{x}>' for x in sorted(each))})" for each in (takes, *gives)]
    boxes[name] = f"box {name} ({pair[0]} -> {' | '.join(pair[1:])});"
    return "leaf", name, takes, [[each] for each in gives]


def drawn(rng: random.Random, depth: int, boxes: dict[str, Any], *, filters_only: bool) -> Any:
    kind = rng.choice(["leaf", "series", "choice", "choice", "star"]) if depth else "leaf"
    if kind == "leaf" or (kind == "star" and filters_only):
        return declared(rng, boxes, filters_only=filters_only)
    if kind == "choice":  # of leaves: their input types need no inference
        return ("choice", [declared(rng, boxes, filters_only=filters_only) for _ in range(rng.randint(2, 4))])
    if kind == "star":
        return ("star", drawn(rng, depth - 1, boxes, filters_only=filters_only), frozenset(rng.sample(LABELS, 1)))
    return ("series", [drawn(rng, depth - 1, boxes, filters_only=filters_only) for _ in range(rng.randint(2, 3))])


def text_of(tree: Any) -> str:
    if tree[0] == "leaf":
        return tree[1]
    if tree[0] == "star":
        return f"({text_of(tree[1])}) * {{{', '.join(f'<{x}>' for x in tree[2])}}}"
    return "(" + (" .. " if tree[0] == "series" else " | ").join(map(text_of, tree[1])) + ")"


def sent(tree: Any, records: list[frozenset[str]], rng: random.Random, taken: Counter[Any], rounds: int = 0) -> Any:
    """Send records through; count (choice, record, branch). What nothing takes is lost."""
    if tree[0] == "series":
        for part in tree[1]:
            records = sent(part, records, rng, taken)
        return records
    out: list[frozenset[str]] = []
    for record in records:
        if tree[0] == "leaf":
            if tree[2] <= record:
                out += [given | (record - tree[2]) for given in rng.choice(tree[3])]
        elif tree[0] == "choice":
            fitting = [(len(leaf[2]), -place) for place, leaf in enumerate(tree[1]) if leaf[2] <= record]
            if fitting:
                place = -max(fitting)[1]
                taken[id(tree), record, place] += 1
                out += sent(tree[1][place], [record], rng, taken)
        elif tree[2] <= record:
            out.append(record)
        elif rounds < DEPTH:
            out += sent(tree, sent(tree[1], [record], rng, taken)[:1], rng, taken, rounds + 1)
    return out


def choices_of(tree: Any) -> list[Any]:
    if tree[0] == "leaf":
        return []
    inner = [tree[1]] if tree[0] == "star" else tree[1]
    return [*([tree] if tree[0] == "choice" else []), *(found for part in inner for found in choices_of(part))]


@pytest.mark.parametrize("seed", range(150))
def test_no_record_goes_where_the_routes_do_not_send_it(seed: int) -> None:
    rng, boxes = random.Random(seed), {}
    tree = ("series", [drawn(rng, 3, boxes, filters_only=False), drawn(rng, 2, boxes, filters_only=False)])
    network = parse("\n".join(boxes.values()) + f"\nnet main connect {text_of(tree)};")
    enters = [frozenset(rng.sample(LABELS, rng.randint(1, 4))) for _ in range(3)]
    for exact in (True, False):
        found = routes(network, [[f"<{x}>" for x in each] for each in enters], exact=exact)
        taken: Counter[Any] = Counter()
        for _ in range(30):
            more = () if exact else rng.sample(LABELS, 2)
            sent(tree, [each | set(more) for each in enters], rng, taken)
        assert len(network.choices) == len(choices_of(tree))
        for choice, ways, shares in zip(choices_of(tree), found.choices, found.shares, strict=True):
            went = {(record, place): n for (which, record, place), n in taken.items() if which == id(choice)}
            for record, place in went:
                labels = frozenset(f"<{x}>" for x in record)
                if exact:
                    allowed = {way.record.labels: way.branches for way in ways if not way.record.open}
                    assert place in allowed[labels]
                else:
                    assert any(way.record.labels <= labels and place in way.branches for way in ways)
                assert shares is None or shares[place] > 0


@pytest.mark.parametrize("seed", range(100))
def test_shares_behind_filters_are_the_counts_of_a_run(seed: int) -> None:
    rng = random.Random(seed)
    tree = ("series", [drawn(rng, 2, {}, filters_only=True) for _ in range(3)])
    enters = frozenset(rng.sample(LABELS, 5))
    network = parse(text_of(tree))
    found = routes(network, [[f"<{x}>" for x in enters]])
    taken: Counter[Any] = Counter()
    sent(tree, [enters], rng, taken)
    for choice, shares in zip(choices_of(tree), found.shares, strict=True):
        went = [sum(n for (which, _, place), n in taken.items() if which == id(choice) and place == k)
                for k in range(len(choice[1]))]  # fmt: skip
        if shares is None:  # nothing comes here, or something that no branch takes
            continue
        assert shares == pytest.approx([float(Fraction(n, sum(went))) for n in went])


def test_some_shares_are_decided_so_that_the_law_above_says_something() -> None:
    decided = 0
    for seed in range(100):
        rng = random.Random(seed)
        tree = ("series", [drawn(rng, 2, {}, filters_only=True) for _ in range(3)])
        enters = frozenset(rng.sample(LABELS, 5))
        decided += sum(
            each is not None and 0 < each[0] < 1
            for each in routes(parse(text_of(tree)), [[f"<{x}>" for x in enters]]).shares
        )
    assert decided > 5
