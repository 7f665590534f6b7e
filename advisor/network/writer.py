"""Networks as S-Net text that reads back equal: `write`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from advisor.domain import networks as kinds
from advisor.domain.networks import BOX, CHOICE, FILTER, JOIN, SERIES, SPLIT, SYNC, Network, Node
from advisor.errors import InvalidValue, NetworkSyntax, Unsupported
from advisor.network.expansion import main_network
from advisor.network.reader import read

_BLANKS = re.compile(r"\s+")
_NO_SNET = "write it as JSON"
# How tightly a thing binds: a part of a chain is bracketed unless it binds tighter than the chain.
_CHOICE, _ORDERED, _SERIES, _POSTFIX, _PRIMARY = range(5)


def write(network: Network) -> str:
    """Return S-Net text that `parse` reads back equal.

    A network is written as its boxes and a net ``main``; as a bare expression where nothing is declared. Types of nets
    (`Node.mappings`) are left out. Raises Unsupported for a join, which S-Net does not have; InvalidValue for what S-Net cannot
    write: a name, a label, a pattern; TooLarge where the text is longer than `parse` reads.

    Notes
    -----
    Cost O(text): it is read back. Nothing recurses.
    """
    names = _Names(network)
    nodes, done = network.nodes, cast("list[_Text | None]", [None] * len(network.nodes))
    for index, node in enumerate(nodes):
        parts: list[_Text] = []
        for child in node.children:
            parts.append(cast("_Text", done[child]))
            done[child] = None
        done[index] = _node(index, node, parts, names)
    main = "".join(cast("_Text", done[-1]).pieces)
    text = main + "\n"
    if names.definitions:
        text = "\n".join([*names.definitions, f"net {names.fresh('main')} connect {main};"]) + "\n"
    try:
        same = _compared(main_network(read(text), None)) == _compared(network)
    except NetworkSyntax as error:
        raise InvalidValue("network", error.message, "what S-Net can write", _NO_SNET) from None
    if not same:
        raise InvalidValue("network", "names, labels or patterns that read as something else", "S-Net's own", _NO_SNET)
    return text


def _compared(network: Network) -> list[Node]:
    """Return the nodes without what is not written: types of nets, and blanks within patterns."""
    return [
        replace(
            node, mappings=(), text=_BLANKS.sub("", node.text),
            patterns=tuple(_BLANKS.sub("", each) for each in node.patterns),
        )
        for node in network.nodes
    ]  # fmt: skip


class _Text(NamedTuple):
    """A written part: its pieces, how tightly it binds, whether it ends in a guard.

    A `!` behind the `>` of a guard would read as the sign of an operand.
    """

    pieces: list[str]
    tightness: int
    guarded: bool = False

    def within(self, tightness: int) -> list[str]:
        """Return the pieces, bracketed where they bind less than `tightness`."""
        if self.tightness >= tightness:
            return self.pieces
        return ["(", *self.pieces, ")"]


def sign_of(node: Node) -> str:
    """Return what S-Net writes for an operator, a synchrocell or a filter, without its parts; a join is called by its name."""
    patterns = ", ".join(node.patterns)
    return {
        SERIES: "..", CHOICE: "||" if node.ordered else "|", JOIN: JOIN,
        kinds.REPLICATION: f"{'**' if node.ordered else '*'} {patterns}",
        SPLIT: f"{'!!' if node.ordered else '!'}{'@' if node.placed else ''} <{node.tag}>",
        kinds.FEEDBACK: f"\\ {patterns}", kinds.PLACEMENT: f"@ {node.place}", SYNC: f"[| {patterns} |]", FILTER: node.text,
    }[node.kind]  # fmt: skip


def _chained(node: Node, parts: Sequence[_Text]) -> _Text:
    tightness = _SERIES if node.kind == SERIES else _ORDERED if node.ordered else _CHOICE
    pieces = parts[0].within(tightness + 1)
    for part in parts[1:]:
        pieces.append(f" {sign_of(node)} ")
        pieces += part.within(tightness + 1)
    return _Text(pieces, tightness)


def _tuple(labels: Iterable[str]) -> str:
    return f"({', '.join(labels)})"


def _node(index: int, node: Node, parts: Sequence[_Text], names: _Names) -> _Text:
    if node.kind == BOX:
        return _Text([names.name_of(index)], _PRIMARY)
    if node.kind in (SERIES, CHOICE):
        return _chained(node, parts)
    if node.kind == JOIN:
        raise Unsupported(f"S-Net has no join (network[{index}])", field=f"network[{index}].kind", value=JOIN,
                          hint=_NO_SNET)  # fmt: skip
    if node.kind in (FILTER, SYNC):
        return _Text([sign_of(node)], _PRIMARY)
    body = parts[0].within(_PRIMARY + 1 if node.kind == SPLIT and parts[0].guarded else _POSTFIX)
    return _Text([*body, f" {sign_of(node)}"], _POSTFIX, bool(node.patterns) and node.patterns[-1].endswith(">"))


class _Names:
    """The definitions that a network's boxes need. A name whose boxes differ in type gets a net for each further type."""

    def __init__(self, network: Network) -> None:
        self._nodes = network.nodes
        self._taken = set(network.components)
        self._names: dict[tuple[object, ...], str] = {}
        self._first: dict[str, tuple[object, ...]] = {}
        self.definitions: list[str] = []
        for index in network.boxes:
            self._declare(index)

    def name_of(self, index: int) -> str:
        """Return what to write for a box."""
        return self._names[_box_type(self._nodes[index])]

    def fresh(self, wanted: str) -> str:
        """Return a name that no box has."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def _declare(self, index: int) -> None:
        node = self._nodes[index]
        key = _box_type(node)
        if key in self._names:
            return
        declared = _declaration(node)
        if self._first.setdefault(node.name, key) is key:
            self._names[key] = node.name
            if declared:
                self.definitions.append(declared)
            return
        self._names[key] = self.fresh(node.name)
        inner = declared or f"net {node.name};"
        self.definitions.append(f"net {self._names[key]} {{ {inner} }} connect {node.name};")


def _box_type(node: Node) -> tuple[object, ...]:
    return node.name, node.once, node.consumes, node.produces


def _declaration(node: Node) -> str:
    """Return the definition of a box; empty where nothing is declared of it."""
    if node.consumes is None and not node.once:
        return ""
    consumed = () if node.consumes is None else (_tuple(node.consumes),)
    outs = " | ".join(map(_tuple, node.produces))
    return f"box {node.name} ({' '.join((*consumed, '->', *((outs,) if outs else ())))});"
