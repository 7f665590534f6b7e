"""Networks as flat lists: what is accepted, what is refused and by which name."""

from __future__ import annotations

from typing import Any

import pytest
from built_networks import choice, series

from advisor.domain import limits
from advisor.domain.networks import Network, Node, network_from_nodes
from advisor.errors import TooLarge

A, B = {"kind": "box", "name": "a"}, {"kind": "box", "name": "b"}


def test_keys_number_a_name_that_recurs_in_text_order() -> None:
    network = series("a", choice("b", series("a", "c")), "a")
    assert network.keys == ("a#1", "b", "a#2", "c", "a#3")
    assert network.components == ("a", "b", "a", "c", "a")
    assert [network.nodes[index].name for index in network.boxes] == list(network.components)


def test_choices_are_numbered_in_text_order_outer_before_inner() -> None:
    network = series(choice("a", choice("b", "c", ordered=True)), choice("d", "e"))
    assert [network.nodes[index].ordered for index in network.choices] == [False, True, False]
    assert network.choices == tuple(sorted(network.choices, key=lambda index: (index > 4, -index)))


def test_children_need_not_stand_in_text_order() -> None:
    assert network_from_nodes([B, A, {"kind": "series", "children": [1, 0]}]).keys == ("a", "b")


def nested(depth: int) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = [A]
    for _ in range(depth - 1):
        nodes += [B, {"kind": "series", "children": [len(nodes) - 1, len(nodes)]}]
    return nodes


def test_depth_is_bounded_without_recursion() -> None:
    assert len(network_from_nodes(nested(limits.NETWORK_DEPTH_MAX)).keys) == limits.NETWORK_DEPTH_MAX
    for depth in (limits.NETWORK_DEPTH_MAX + 1, 60_000):
        with pytest.raises(TooLarge) as raised:
            network_from_nodes(nested(depth))
        assert (raised.value.field, raised.value.bound) == ("network depth", limits.NETWORK_DEPTH_MAX)


def test_size_is_bounded() -> None:
    with pytest.raises(TooLarge, match="network nodes"):
        network_from_nodes([A] * (limits.NETWORK_NODES_MAX + 1))
    wide = (Node("box", "a"),) * (limits.NETWORK_COMPONENTS_MAX + 1)
    with pytest.raises(TooLarge, match="network components"):
        Network((*wide, Node("series", children=tuple(range(len(wide))))))
