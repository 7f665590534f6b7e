"""Networks as plain JSON: nested parts, clear errors, bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from advisor.domain import limits
from advisor.domain.networks import (
    box,
    choice,
    feedback,
    join,
    placement,
    replication,
    series,
    snet_filter,
    split,
    synchrocell,
)
from advisor.errors import AdvisorError, InvalidValue, NetworkSyntax, TooLarge, UnknownKey, Unsupported
from advisor.network import as_plain, from_plain, parse, parse_any, parse_json, write

PLAIN = {
    "network": {"series": [
        "decode",
        {"choice": ["small", {"join": ["left", "right"]}], "ordered": True},
        {"replication": {"split": "refine", "tag": "t", "placed": True}, "patterns": ["{done} if <t > 3>"]},
        {"feedback": {"placement": "far", "place": 0}, "patterns": ["{again}"]},
        {"sync": ["{a}", "{b, <t>}"]},
        {"filter": "[{a} -> {b = a}]"},
    ]},
    "boxes": {"decode": {"consumes": ["a", "<t>"], "produces": [["b"], []]}, "far": {"once": True}},
}  # fmt: skip
BUILT = series(
    box("decode", consumes=["a", "<t>"], produces=[["b"], []]),
    choice("small", join("left", "right"), ordered=True),
    replication(split("refine", "t", placed=True), "{done} if <t > 3>"),
    feedback(placement(box("far", once=True), 0), "{again}"),
    synchrocell("{a}", "{b, <t>}"),
    snet_filter("[{a} -> {b = a}]"),
)


def test_json_python_and_the_flat_form_say_the_same_network() -> None:
    assert from_plain(PLAIN) == BUILT
    assert as_plain(BUILT) == PLAIN
    assert parse_any(json.dumps(PLAIN)) == BUILT
    assert parse_any("  " + json.dumps(BUILT.as_nodes())) == BUILT
    assert parse_json('"decode"') == box("decode")


def test_boxes_of_one_name_may_differ_in_type() -> None:
    network = series(box("a", consumes=["x"]), box("a"), box("a", once=True), box("a", consumes=[], produces=[["y"]]))
    assert from_plain(as_plain(network)) == network
    assert parse(write(network)) == network


def test_patterns_are_kept_as_s_net_writes_them() -> None:
    loose = {"replication": "a", "patterns": ["{x,<t>}if<(t)>3 >"]}
    assert from_plain(loose).nodes[-1].patterns == ("{x, <t>} if <t > 3>",)
    assert from_plain(loose) == parse("a * {x, <t>} if <t > 3>")


@pytest.mark.parametrize(
    ("value", "error", "field"),
    [
        (None, InvalidValue, "network"),
        (7, InvalidValue, "network"),
        ({}, InvalidValue, "network"),
        ("", InvalidValue, "network"),
        ({"series": ["a"]}, InvalidValue, "network.series"),
        ({"series": "ab"}, InvalidValue, "network.series"),
        ({"series": ["a", 3]}, InvalidValue, "network.series[1]"),
        ({"series": ["a", "b"], "choice": ["a", "b"]}, InvalidValue, "network"),
        ({"series": ["a", "b"], "ordered": True}, UnknownKey, "network.series"),
        ({"choice": ["a", {"split": "b"}]}, InvalidValue, "network.choice[1].split.tag"),
        ({"choice": ["a", "b"], "ordered": 1}, InvalidValue, "network.choice.ordered"),
        ({"placement": "a"}, InvalidValue, "network.placement.place"),
        ({"placement": "a", "place": -1}, InvalidValue, "network.placement.place"),
        ({"box": "a", "cores": 3}, UnknownKey, "network.box"),
        ({"box": "a", "consumes": "x"}, InvalidValue, "network.box.consumes"),
        ({"sync": ["{a}"]}, InvalidValue, "network[0].patterns"),
        ({"sync": ["{a}", "{b"]}, InvalidValue, "network[0].patterns[1]"),
        ({"filter": "[{a} ->"}, InvalidValue, "network[0].text"),
        ({"replication": "a", "patterns": "{x}"}, InvalidValue, "network.replication.patterns"),
        ({"network": "a", "boxes": {"b": {}}}, InvalidValue, "network.boxes"),
        ({"network": "a", "boxes": {"a": 3}}, InvalidValue, "network.boxes.a"),
        ({"network": "a", "boxes": {"a": {"cores": 3}}}, UnknownKey, "network.boxes.a"),
        ({"network": "a", "more": 1}, UnknownKey, "network"),
    ],
)
def test_what_is_no_network_is_refused_by_its_place(value: Any, error: type[AdvisorError], field: str) -> None:
    with pytest.raises(error) as raised:
        from_plain(value)
    assert raised.value.field == field
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", NetworkSyntax),
        ('{"series": ["a", "b",]}', NetworkSyntax),
        ('{"series": ["a", "b"], "series": ["c", "d"]}', InvalidValue),
        ('{"placement": "a", "place": NaN}', InvalidValue),
        ('{"placement": "a", "place": ' + "9" * 10_000 + "}", InvalidValue),
        ('{"feedback": ' * 100_000, AdvisorError),
        ('{"feedback": ' * 300 + '"a"' + "}" * 300, TooLarge),
        ('"' + "x" * 2**20 + '"', TooLarge),
        ('{"series": [' + '"a", ' * 50_000 + "7]}", InvalidValue),
        ('[{"kind": "box"}]', InvalidValue),
    ],
    ids=range(10),
)
def test_hostile_json_is_an_error_of_the_caller(text: str, error: type[AdvisorError]) -> None:
    with pytest.raises(error) as raised:
        parse_any(text)
    assert len(str(raised.value)) < 1000


def test_json_is_told_from_s_net_by_its_first_signs() -> None:
    assert parse_any("[]") == snet_filter("[]")
    assert parse_any("[{a} -> {b = a}]") == snet_filter("[{a} -> {b = a}]")
    with pytest.raises(InvalidValue):
        parse_any('"a"', net="m")


def test_a_part_may_nest_up_to_the_limit() -> None:
    deep: Any = "a"
    for _ in range(limits.NETWORK_DEPTH_MAX - 1):
        deep = {"feedback": deep}
    assert from_plain(deep).keys == ("a",)
    with pytest.raises(TooLarge):
        from_plain({"feedback": deep})


@pytest.mark.parametrize(
    ("network", "error"),
    [
        (join("a", "b"), Unsupported),
        (box("two words"), InvalidValue),
        (box("net"), InvalidValue),
        (box("\u00e9"), InvalidValue),
        (box("a", consumes=["x y"]), InvalidValue),
        (box("a", produces=[["x"]]), InvalidValue),
        (box("a", consumes=["x"], once=True), InvalidValue),
        (split("a", "7"), InvalidValue),
        (replication("a"), InvalidValue),
        (replication("a", "x"), InvalidValue),
    ],
)
def test_what_s_net_cannot_say_is_refused_and_json_says_it(network: Any, error: type[AdvisorError]) -> None:
    with pytest.raises(error):
        write(network)
    if not any(node.patterns for node in network.nodes):
        assert from_plain(as_plain(network)) == network
