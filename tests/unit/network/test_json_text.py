"""Networks as JSON: the flat list of nodes, clear errors, bounded; and what S-Net cannot say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from built_networks import around, box, choice, join, leaf, series

from advisor.errors import AdvisorError, InvalidValue, NetworkSyntax, TooLarge, Unsupported
from advisor.network import parse, parse_any, write

BUILT = series(
    box("decode", consumes=["a", "<t>"], produces=[["b"], []]),
    choice("small", join("left", "right"), ordered=True),
    around("replication", around("split", "refine", tag="t", placed=True), patterns=["{done} if <t > 3>"]),
    around("feedback", around("placement", box("far", once=True), place=0), patterns=["{again}"]),
    leaf("sync", patterns=["{a}", "{b, <t>}"]),
    leaf("filter", text="[{a} -> {b = a}]"),
)


def test_json_and_python_say_the_same_network() -> None:
    assert parse_any("  " + json.dumps(BUILT.as_nodes())) == BUILT


def test_boxes_of_one_name_may_differ_in_type() -> None:
    network = series(box("a", consumes=["x"]), box("a"), box("a", once=True), box("a", consumes=[], produces=[["y"]]))
    assert parse_any(json.dumps(network.as_nodes())) == network
    assert parse(write(network)) == network


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", NetworkSyntax),
        ('{"series": ["a", "b"]}', InvalidValue),
        ('"a"', InvalidValue),
        ('[{"kind": "box", "name": "a",}]', NetworkSyntax),
        ('[{"kind": "box", "name": "a", "name": "b"}]', InvalidValue),
        ('[{"kind": "box", "name": "a"}, {"kind": "placement", "children": [0], "place": NaN}]', InvalidValue),
        ('[{"kind": "placement", "place": ' + "9" * 10_000 + "}]", InvalidValue),
        ('[{"kind": ' * 100_000, AdvisorError),
        ('"' + "x" * 2**20 + '"', TooLarge),
        ('[{"kind": "box"}]', InvalidValue),
    ],
    ids=range(10),
)
def test_hostile_json_is_an_error_of_the_caller(text: str, error: type[AdvisorError]) -> None:
    with pytest.raises(error) as raised:
        parse_any(text)
    assert len(str(raised.value)) < 1000


def test_json_is_told_from_s_net_by_its_first_signs() -> None:
    assert parse_any("[]") == leaf("filter", text="[]")
    assert parse_any("[{a} -> {b = a}]") == leaf("filter", text="[{a} -> {b = a}]")
    with pytest.raises(InvalidValue):
        parse_any('"a"', net="m")


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
        (around("split", "a", tag="7"), InvalidValue),
        (around("replication", "a"), InvalidValue),
        (around("replication", "a", patterns=["x"]), InvalidValue),
        (leaf("sync", patterns=["{a}"]), InvalidValue),
        (leaf("sync", patterns=["{a}", "{b"]), InvalidValue),
        (leaf("filter", text="[{a} ->"), InvalidValue),
    ],
)
def test_what_s_net_cannot_say_is_refused_and_json_says_it(network: Any, error: type[AdvisorError]) -> None:
    with pytest.raises(error):
        write(network)
    assert parse_any(json.dumps(network.as_nodes())) == network
