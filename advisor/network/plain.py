"""Networks as plain JSON, for runtimes that have no S-Net: nested, so that a person can write it.

A part is a string, which is a box, or a map of one operator::

    {"series": ["decode", {"choice": ["small", "large"]}, {"replication": "refine", "patterns": ["{done}"]}]}

The whole may be ``{"network": PART, "boxes": {NAME: {"consumes": […], "produces": [[…], …], "once": true}}}``, where the
boxes' types are declared once; a flat list of nodes (`network_from_nodes`) is read too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from advisor.domain import limits
from advisor.domain import networks as kinds
from advisor.domain.networks import Network, Node, network_from_nodes
from advisor.errors import InvalidValue, NetworkSyntax, TooLarge, UnknownKey
from advisor.network.reader import read_filter, read_pattern

SEVERAL = (kinds.SERIES, kinds.CHOICE, kinds.JOIN)  # operators whose value is a list of parts
AROUND = (kinds.REPLICATION, kinds.SPLIT, kinds.FEEDBACK, kinds.PLACEMENT)  # operators whose value is one part
# Where the value of a leaf's key goes.
LEAVES = {kinds.BOX: "name", kinds.SYNC: "patterns", kinds.FILTER: "text"}
BOX_KEYS = ("consumes", "produces", "mappings", "once")
_JSON = re.compile(r'\s*(?:\{|"|\[\s*(?:\{\s*)?")')
_PATTERNS_MIN = {kinds.SYNC: 2}


def is_json(text: str) -> bool:
    """Say whether a text is meant as JSON: no S-Net text begins as a JSON map, string or list of nodes does."""
    return _JSON.match(text) is not None


def parse_json(text: str) -> Network:
    """Return the network of a JSON text: nested, or a flat list of nodes.

    Raises NetworkSyntax where it is no JSON, with line and column; InvalidValue, UnknownKey, TooLarge as `from_plain`; also
    for a key given twice.
    """
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    if size > limits.NETWORK_TEXT_BYTES_MAX:
        raise TooLarge("network text bytes", size, limits.NETWORK_TEXT_BYTES_MAX)
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise NetworkSyntax(f"no JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except RecursionError:
        bound = limits.NETWORK_DEPTH_MAX
        raise TooLarge("network depth", "more than the JSON reader takes", bound, "brackets of the text") from None
    return from_plain(value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidValue("network", twice, "a key that is given once")
    return found


def _no_number(word: str) -> float:
    raise InvalidValue("network", word, "JSON, which has no such number")


def _integer(digits: str) -> int:
    if len(digits) > len(str(2**64)):
        raise InvalidValue("network", digits, "an integer of 64 bits")
    return int(digits)


class _Task(NamedTuple):
    where: str
    value: object
    depth: int


def from_plain(value: object) -> Network:
    """Return the network of a plain value, as JSON gives it: nested, or a flat list of nodes.

    Raises UnknownKey for a key that the operator does not have; InvalidValue for what is no part, with its place such as
    ``network.series[1].split``; for a pattern that does not read; TooLarge beyond the limits on depth, nodes or components.
    Cost O(nodes); nothing recurses.
    """
    if isinstance(value, (list, tuple)):
        return checked(network_from_nodes(cast("object", value)))
    boxes: Mapping[str, Node] = {}
    root = value
    if isinstance(value, Mapping) and "network" in value:
        whole = cast("Mapping[Any, Any]", value)
        for key in whole:
            if key not in ("network", "boxes"):
                raise UnknownKey("the whole has no such key", field="network", value=key, bound="network, boxes")
        root, boxes = whole["network"], _declared(whole.get("boxes", {}))
    network = _tree(root, boxes)
    unused = boxes.keys() - set(network.components)
    if unused:
        raise InvalidValue("network.boxes", min(unused), "boxes of the network")
    return checked(network)


def _declared(value: object) -> dict[str, Node]:
    if not isinstance(value, Mapping):
        raise InvalidValue("network.boxes", value, "a map from box names to what they consume and produce")
    found: dict[str, Node] = {}
    for name, given in cast("Mapping[Any, Any]", value).items():
        where = f"network.boxes.{name}"
        if not isinstance(given, Mapping):
            raise InvalidValue(where, given, f"a map with {', '.join(BOX_KEYS)}")
        found[str(name)] = Node(kinds.BOX, **_attributes(where, kinds.BOX, cast("Mapping[Any, Any]", given), BOX_KEYS))
    return found


def _attributes(where: str, kind: str, given: Mapping[Any, Any], keys: Sequence[str]) -> dict[str, Any]:
    for key in given:
        if key not in keys:
            raise UnknownKey(f"{where}: a {kind} has no such key", field=where, value=key, bound=", ".join(keys))
    return {key: None if key == "consumes" and item is None else kinds.READERS[key](f"{where}.{key}", item)
            for key, item in given.items()}  # fmt: skip


def _tree(root: object, boxes: Mapping[str, Node]) -> Network:
    """Build the nodes bottom-up. A task is a value to read, or a node whose parts stand ready."""
    nodes: list[Node] = []
    ready: list[int] = []
    todo: list[_Task | tuple[Node, int]] = [_Task("network", root, 1)]
    while todo:
        task = todo.pop()
        if isinstance(task, _Task):
            node, parts = _part(task, boxes)
            if len(parts) > limits.NETWORK_NODES_MAX or len(nodes) > limits.NETWORK_NODES_MAX:
                raise TooLarge("network nodes", max(len(parts), len(nodes)), limits.NETWORK_NODES_MAX)
            todo.append((node, len(parts)))
            todo += reversed(parts)
        else:
            node, count = task
            children = tuple(ready[len(ready) - count :])
            del ready[len(ready) - count :]
            nodes.append(replace(node, children=children) if count else node)
            ready.append(len(nodes) - 1)
    return Network(tuple(nodes))


def _part(task: _Task, boxes: Mapping[str, Node]) -> tuple[Node, list[_Task]]:
    where, value, depth = task
    if depth > limits.NETWORK_DEPTH_MAX:
        raise TooLarge("network depth", depth, limits.NETWORK_DEPTH_MAX, where[:80])
    if isinstance(value, str):
        return _box(where, value, boxes), []
    if not isinstance(value, Mapping):
        raise InvalidValue(where, value, f"the name of a box, or a map with one of: {', '.join(kinds.KINDS)}")
    given = cast("Mapping[Any, Any]", value)
    named = [key for key in given if key in kinds.KINDS]
    if len(named) != 1:
        raise InvalidValue(where, sorted(map(str, given)), f"a map with one of: {', '.join(kinds.KINDS)}")
    kind: str = named[0]
    here = f"{where}.{kind}"
    rest = {key: item for key, item in given.items() if key != kind}
    main = LEAVES.get(kind, "children")
    found = _attributes(here, kind, rest, tuple(key for key in (*kinds.KINDS[kind].keys, "mappings") if key != main))
    for key in kinds.REQUIRED.get(kind, ()):
        if key not in found and key != main:
            raise InvalidValue(f"{here}.{key}", None, f"given: a {kind} needs it")
    if kind == kinds.BOX:
        node = _box(here, given[kind], boxes)
        return (replace(node, **found) if found else node), []
    if kind in LEAVES:
        return Node(kind, **found, **{main: kinds.READERS[main](here, given[kind])}), []
    return Node(kind, **found), [_Task(*each, depth + 1) for each in _parts(here, kind, given[kind])]


def _parts(where: str, kind: str, value: object) -> list[tuple[str, object]]:
    if kind in AROUND:
        return [(where, value)]
    parts = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else ()
    if len(parts) < kinds.KINDS[kind].children_min:
        raise InvalidValue(where, cast("object", value), "a list of at least two parts")
    return [(f"{where}[{number}]", part) for number, part in enumerate(parts)]


def _box(where: str, name: object, boxes: Mapping[str, Node]) -> Node:
    checked_box = kinds.READERS["name"](where, name)
    return replace(boxes[checked_box], name=checked_box) if checked_box in boxes else Node(kinds.BOX, checked_box)


def checked(network: Network) -> Network:
    """Return the network with its patterns and filters as S-Net writes them.

    Raises InvalidValue for one that does not read, or too few patterns of a synchrocell.
    """
    nodes = tuple(_written(index, node) for index, node in enumerate(network.nodes))
    return Network(nodes)


def _written(index: int, node: Node) -> Node:
    if node.kind == kinds.FILTER:
        return replace(node, text=read_filter(node.text or "[]", f"network[{index}].text").text)
    least = _PATTERNS_MIN.get(node.kind, 0)
    if len(node.patterns) < least:
        raise InvalidValue(f"network[{index}].patterns", len(node.patterns), f"at least {least} patterns")
    if node.patterns:
        read = tuple(read_pattern(each, f"network[{index}].patterns[{i}]").text for i, each in enumerate(node.patterns))
        return replace(node, patterns=read)
    return node


def as_plain(network: Network) -> Any:
    """Return the network as a nested plain value; `from_plain` reads it back equal. Cost O(nodes); nothing recurses."""
    types: dict[str, dict[str, Any]] = {}
    done: list[Any] = []
    for node in network.nodes:
        parts = [done[child] for child in node.children]
        for child in node.children:
            done[child] = None
        done.append(_plain(node, parts, types))
    boxes = {name: declared for name, declared in types.items() if declared}
    return {"network": done[-1], "boxes": boxes} if boxes else done[-1]


def _plain(node: Node, parts: list[Any], types: dict[str, dict[str, Any]]) -> Any:
    main = LEAVES.get(node.kind, "children")
    keys = [key for key in (*kinds.KINDS[node.kind].keys, "mappings") if key != main]
    found = {key: _listed(getattr(node, key)) for key in keys
             if getattr(node, key) or (key == "consumes" and node.consumes is not None)
             or key in kinds.REQUIRED.get(node.kind, ())}  # fmt: skip
    if node.kind == kinds.BOX:
        if types.setdefault(node.name, found) == found:
            return node.name
        # A part says what differs from the declared type of its name.
        return {"box": node.name} | {key: _UNSAID[key] for key in types[node.name]} | found
    value = parts if node.kind in SEVERAL else parts[0] if node.kind in AROUND else _listed(getattr(node, main))
    return {node.kind: value} | found


_UNSAID: Mapping[str, Any] = {"consumes": None, "produces": [], "mappings": [], "once": False}


def _listed(value: Any) -> Any:
    return [_listed(item) for item in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value
