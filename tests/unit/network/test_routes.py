"""Which branch a record takes, on networks small enough to say by hand."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.domain.networks import choice, join, series
from advisor.network import parse, routes

HEAD = "box ab ((a, b) -> (x)); box a ((a) -> (x)); box c ((c) -> (x)); box t ((a, <t>) -> (x)); net ext; "


def branches(expression: str, *records: str, exact: bool = True) -> list[tuple[int, ...]]:
    network = parse(f"{HEAD} net m connect {expression};")
    found = routes(network, [record.split() for record in records], exact=exact)
    return [way.branches for way in found.choices[0]]


@pytest.mark.parametrize(
    ("expression", "record", "taken"),
    [
        ("a | ab", "a b", (1,)),  # the most labels in common
        ("a | ab", "a z", (0,)),
        ("a | t", "a <t>", (1,)),
        ("a | t", "a t", (0,)),  # a tag is not a field
        ("a | [{a} -> {x}]", "a", (0,)),  # a tie: the leftmost
        ("[{a} -> {x}] || a", "a", (0,)),
        ("[] | a", "a", (1,)),
        ("[] | a", "z", (0,)),
        ("a | c", "z", ()),  # no match
        ("a | ext", "a", (0,)),  # whatever ext takes, it is no better than all labels of the record, and further right
        ("ext | a", "a", (0, 1)),
        ("a | ext", "a b", (0, 1)),
        ("([{a} -> {y}] .. c) | a", "a c", (0,)),  # c is inherited past the filter: two labels in common
        ("([{a} -> {y}] .. c) | a", "a", (1,)),
        ("([{a} -> {y}] .. ext) | a", "a", (0, 1)),  # ext may need more
        ("c ! <n> | c", "c <n>", (0,)),  # a split takes its tag too
        ("[|{a},{c}|] * {a, c} | []", "a", (0,)),
        ("a \\ {y} | ab", "a b", (1,)),
        ("c @ 1 | a", "c", (0,)),
    ],
)
def test_the_best_match_wins_and_ties_go_left(expression: str, record: str, taken: tuple[int, ...]) -> None:
    assert branches(expression, record) == [taken]


def test_a_record_that_may_carry_more_may_go_elsewhere() -> None:
    assert branches("a | ab", "a", exact=False) == [(0, 1)]
    assert branches("a | ab", "a b", exact=False) == [(1,)]
    assert branches("[] | c", "z", exact=False) == [(0, 1)]


def shares(text: str, *records: str) -> Any:
    return routes(parse(text), [record.split() for record in records] or None).shares


def test_shares_are_known_where_types_decide_them_entirely() -> None:
    halves = "[{x} -> {a}; {b}] .. ([{a} -> {c}] | [{b} -> {c}])"
    assert shares(halves) == ((0.5, 0.5),)
    assert shares("[{x} -> {a}; {b}; {b, c}] .. ([{a} -> {c}] | [{b} -> {c}])") == (pytest.approx((1 / 3, 2 / 3)),)
    assert shares("box s ((x) -> (x)); net m connect s .. [{x} -> {a}; {b}] .. ([{a} -> {}] | [{b} -> {}]);") == (
        (0.5, 0.5),
    )
    assert shares("[{x} -> {a}] .. ([{a} -> {c}] | [{b} -> {c}])") == ((1.0, 0.0),)
    assert routes(parse(halves)).flow().shares == ((0.5, 0.5),)


def test_what_depends_on_values_stays_open() -> None:
    either = "box s ((x) -> (a) | (b)); net m connect s .. ([{a} -> {c}] | [{b} -> {c}]);"
    assert shares(either) == (None,)
    assert shares("[{x, <t>} -> if <t> then {a} else {b}] .. ([{a} -> {c}] | [{b} -> {c}])") == (None,)
    assert shares("net s; net m connect s .. ([{a} -> {c}] | [{b} -> {c}]);") == (None,)
    assert shares("[{a} -> {c}] | [{b} -> {c}]", "a", "b") == (None,)
    assert shares("[{a} -> {c}] | [{b} -> {c}]", "a") == ((1.0, 0.0),)


def test_each_round_of_a_loop_that_splits_alike_has_decided_shares() -> None:
    text = """box last ((n) -> (n) | (done));
    net m connect ([{n} -> {n}; {m}] .. (last | [{m} -> {done}])) * {done};"""
    assert shares(text) == ((0.5, 0.5),)


def test_the_input_type_is_the_declared_one_else_inferred() -> None:
    inferred = routes(parse("box f ((a) -> (b)); box g ((b, <k>) -> (c)); net m connect f .. (g | []);"))
    assert [record.text for record in inferred.records] == ["{a}"]  # `[]` takes what g does not
    needed = routes(parse("box f ((a) -> (b)); box g ((b, <k>) -> (c)); net m connect f .. g;"))
    assert [record.text for record in needed.records] == ["{<k>, a}"]
    declared = routes(parse("box f ((a) -> (b)); net m ({a, z} | {a} -> {b}) connect f .. [];"))
    assert [record.text for record in declared.records] == ["{a, z}", "{a}"]
    assert [record.text for record in routes(parse("f .. g")).records] == ["{…}"]


def test_problems_are_told_with_their_node() -> None:
    text = "box f ((a) -> (b)); box g ((c) -> (d)); net m ({a} -> ...) connect f .. (g | [{e} -> {}]) .. g ! <t>;"
    network = parse(text)
    found = routes(network)
    reported = [(network.nodes[problem.node].kind, problem.text) for problem in found.problems]
    assert reported == [
        ("choice", "no branch of the choice takes the record {b} that can come here"),
        ("choice", "no record that can come here takes branch 1 of the choice"),
        ("choice", "no record that can come here takes branch 2 of the choice"),
    ]
    lacking = routes(parse("box f ((a) -> (b)); box g ((c) -> (d)); net m ({a} -> ...) connect f .. g;")).problems
    assert [problem.text for problem in lacking] == ["box `g` does not take the record {b} that can come here"]
    tagless = routes(parse("box f ((a) -> (b)); net m ({a} -> ...) connect f ! <t>;")).problems
    assert [problem.text for problem in tagless] == ["the split needs <t>, which the record {a} does not have"]


def test_an_initialiser_takes_nothing_and_is_no_problem() -> None:
    found = routes(
        parse("box i (-> (s)); box w ((s, a) -> (b)); net m connect (i | []) .. [|{s},{a}|]*{s,a} .. w;"), [["a"]]
    )
    assert found.shares == ((0.0, 1.0),)
    assert found.problems == ()


def test_networks_without_types_leave_everything_open() -> None:
    network = series("a", choice("b", "c"), join("d", choice("e", "f")))
    found = routes(network)
    assert found.shares == (None, None)
    assert [way.branches for ways in found.choices for way in ways] == [(0, 1), (0, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "([{a} -> {b}] * {z})" + " * {z}" * 40,
        "(" + " | ".join(f"[{{a{i}}} -> {{a{i + 1}}}]" for i in range(400)) + ") * {a400}",
        " .. ".join(f"[{{<x>}} -> if <x> then {{<x>, a{i}}} else {{<x>, b{i}}}]" for i in range(200)) + " .. ([] | [])",
        "(" * 100 + "[]" + " .. ([{a} -> {a}] | []) * {z})" * 100,
    ],
    ids=["loops in loops", "a long way round", "too many types", "deep"],
)
def test_work_on_hostile_networks_is_bounded(text: str) -> None:
    network = parse(text)
    found = routes(network, [["a", "a0", "<x>"]])
    assert len(found.shares) == len(network.choices)
    assert found.complete or set(found.shares) <= {None}
