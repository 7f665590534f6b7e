"""Networks of components as a flat list of nodes: children by index, children before parents, the root last.

The same flat form is built by the S-Net reader, accepted on the wire and sent to worker processes. A new kind of node
is one more row of `KINDS`; the form does not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from msgspec import Meta

from advisor.domain import limits
from advisor.domain.fields import Further, Name, shape_of
from advisor.domain.shapes import plain
from advisor.errors import InvalidValue, TooLarge, UnknownKey, not_one_of

BOX, SERIES, CHOICE = "box", "series", "choice"
REPLICATION, SPLIT, FEEDBACK, PLACEMENT, JOIN = "replication", "split", "feedback", "placement", "join"
SYNC, FILTER = "sync", "filter"
POSITION_MAX = 2**31  # of a line or column: far above any text within the limit


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a network.

    Attributes
    ----------
    kind : str
        A key of `KINDS`.
    name : str
        Of a box; the component that it runs.
    children : tuple of int
        Indices of the parts, in text order.
    ordered : bool
        Of a choice, a replication or a split: the order of records is kept (``||``, ``**``, ``!!``).
    once : bool
        Of a box: it has no input and runs once, not once a record.
    tag : str
        Of a split: the tag by whose value records go to replicas.
    placed : bool
        Of a split: each replica has a node of its own (``!@``).
    place : int
        Of a placement: the node's number.
    patterns : tuple of str
        Where records leave a replication, return in a feedback, or are kept in a synchrocell: S-Net patterns.
    text : str
        Of a filter: its S-Net text.
    consumes : tuple of str, optional
        Of a box: the labels of its input, tags as ``<t>``, binding tags as ``<#b>``, ``a=`` one that also travels on;
        None where it is not declared.
    produces : tuple of tuple of str
        Of a box: the labels of each variant of its output; the one label ``...`` stands for any.
    mappings : tuple of tuple of tuple of str
        Declared type of the net that this node is the whole of: for each variant of its input, that variant and then
        the variants of output, as in `consumes` and `produces`. Of a box: where its input has several variants.
    line, column : int
        Where the text has it (of a choice: its first operator), counted from 1; 0 where there is no text. Networks are
        equal wherever their text has them.
    """

    kind: str
    name: str = ""
    children: tuple[int, ...] = ()
    ordered: bool = False
    once: bool = False
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)
    tag: str = ""
    placed: bool = False
    place: int = 0
    patterns: tuple[str, ...] = ()
    text: str = ""
    consumes: tuple[str, ...] | None = None
    produces: tuple[tuple[str, ...], ...] = ()
    mappings: tuple[tuple[tuple[str, ...], ...], ...] = ()

    @property
    def position(self) -> str:
        """Where the node stands, in words, or an empty string."""
        return f"line {self.line}, column {self.column}" if self.line else ""


@dataclass(frozen=True, slots=True)
class NodeKind:
    """What a kind of node may have: its own keys, and how many children."""

    keys: tuple[str, ...]
    children_min: int
    children_max: int


_MANY = limits.NETWORK_NODES_MAX
KINDS: Mapping[str, NodeKind] = {
    BOX: NodeKind(("name", "once", "consumes", "produces"), 0, 0),
    SERIES: NodeKind(("children",), 2, _MANY),
    CHOICE: NodeKind(("children", "ordered"), 2, _MANY),  # each record goes to one of the children
    JOIN: NodeKind(("children",), 2, _MANY),  # each record goes to all children; on when all are done
    REPLICATION: NodeKind(("children", "ordered", "patterns"), 1, 1),  # `*`: a chain of replicas
    SPLIT: NodeKind(("children", "ordered", "tag", "placed"), 1, 1),  # `!`: a replica for each value of a tag
    FEEDBACK: NodeKind(("children", "patterns"), 1, 1),  # `\\`: what matches a pattern returns
    PLACEMENT: NodeKind(("children", "place"), 1, 1),  # `@`
    SYNC: NodeKind(("patterns",), 0, 0),
    FILTER: NodeKind(("text",), 0, 0),
}
COMMON_KEYS = ("kind", "mappings", "line", "column")


@dataclass(frozen=True, slots=True)
class Network:
    """A network of boxes, as a tree in a flat list.

    Attributes
    ----------
    nodes : tuple of Node
        Children before parents, the root last, every node but the root the child of exactly one.
    keys : tuple of str
        One a box, in text order: its name, or ``name#k``, k from 1, where the name recurs.
    components : tuple of str
        The box name of each key.
    boxes : tuple of int
        The node of each key.
    choices : tuple of int
        The choices' nodes in text order, an outer one before those inside it: the numbering of `shares`.
    replications, splits, feedbacks : tuple of int
        As `choices`: the numbering of `depths`, `fan_outs` and `returns`.
    once : tuple of int
        The positions in `keys` of the boxes that run once.

    Raises
    ------
    InvalidValue, TooLarge
        When the list is no such tree, or beyond a limit.
    """

    nodes: tuple[Node, ...]
    keys: tuple[str, ...] = field(init=False, compare=False, repr=False)
    components: tuple[str, ...] = field(init=False, compare=False, repr=False)
    boxes: tuple[int, ...] = field(init=False, compare=False, repr=False)
    choices: tuple[int, ...] = field(init=False, compare=False, repr=False)
    replications: tuple[int, ...] = field(init=False, compare=False, repr=False)
    splits: tuple[int, ...] = field(init=False, compare=False, repr=False)
    feedbacks: tuple[int, ...] = field(init=False, compare=False, repr=False)
    once: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_tree(self.nodes)
        found = _text_order(self.nodes)
        boxes = found[BOX]
        components = tuple(self.nodes[index].name for index in boxes)
        once = tuple(row for row, index in enumerate(boxes) if self.nodes[index].once)
        derived = {
            "keys": _keys(components), "components": components, "boxes": boxes, "once": once, "choices": found[CHOICE],
            "replications": found[REPLICATION], "splits": found[SPLIT], "feedbacks": found[FEEDBACK],
        }  # fmt: skip
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def as_nodes(self) -> list[dict[str, Any]]:
        """Return the flat list as plain maps, the shape on the wire; `network_from_nodes` reads it back. Cost O(n)."""
        return [_as_map(node) for node in self.nodes]


def _as_map(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": node.kind}
    for key in (*KINDS[node.kind].keys, *COMMON_KEYS[1:]):
        value = getattr(node, key)
        if value or key in REQUIRED.get(node.kind, ()) or (key == "consumes" and value is not None):
            found[key] = plain(value)
    return found


def _check_tree(nodes: Sequence[Node]) -> None:
    if not nodes:
        raise InvalidValue("network", 0, "a list of at least one node")
    if len(nodes) > limits.NETWORK_NODES_MAX:
        raise TooLarge("network nodes", len(nodes), limits.NETWORK_NODES_MAX)
    boxes = sum(1 for node in nodes if node.kind == BOX)
    if boxes > limits.NETWORK_COMPONENTS_MAX:
        raise TooLarge("network components", boxes, limits.NETWORK_COMPONENTS_MAX)
    depth = [1] * len(nodes)
    has_parent = bytearray(len(nodes))
    for index, node in enumerate(nodes):
        kind = KINDS.get(node.kind)
        if kind is None:
            raise not_one_of(f"network[{index}].kind", node.kind, KINDS)
        if not kind.children_min <= len(node.children) <= kind.children_max:
            wanted = ("absent", "one node", f"at least {kind.children_min} nodes")[min(kind.children_max, 2)]
            raise InvalidValue(f"network[{index}].children", len(node.children), wanted)
        for child in node.children:
            if not 0 <= child < index:
                bound = f"indices from 0 to {index - 1}: children stand before parents" if index else "of earlier nodes"
                hint = "a list in that order has no cycles; the root is its last node"
                raise InvalidValue(f"network[{index}].children", child, bound, hint)
            if has_parent[child]:
                raise InvalidValue(f"network[{index}].children", child, "a node that is nobody else's child", "copy it")
            has_parent[child] = 1
        if node.children:
            depth[index] = 1 + max(depth[child] for child in node.children)
    if depth[-1] > limits.NETWORK_DEPTH_MAX:
        raise TooLarge("network depth", depth[-1], limits.NETWORK_DEPTH_MAX)
    stray = has_parent.find(0, 0, len(nodes) - 1)
    if stray >= 0:
        raise InvalidValue(f"network[{stray}]", stray, "a child of a later node: only the last node, the root, is none")


def _text_order(nodes: Sequence[Node]) -> dict[str, tuple[int, ...]]:
    """Return the nodes of each kind in text order, outer ones before those inside them."""
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    todo = [len(nodes) - 1]
    while todo:
        index = todo.pop()
        node = nodes[index]
        found[node.kind].append(index)
        todo.extend(reversed(node.children))
    return {kind: tuple(indices) for kind, indices in found.items()}


def _keys(components: Sequence[str]) -> tuple[str, ...]:
    times = Counter(components)
    if len(times) == len(components):
        return tuple(components)
    seen: Counter[str] = Counter()
    keys: list[str] = []
    for name in components:
        seen[name] += 1
        keys.append(name if times[name] == 1 else f"{name}#{seen[name]}")
    if len(set(keys)) < len(keys):
        twice = next(key for key, n in Counter(keys).items() if n > 1)
        raise InvalidValue("network", twice, "without a box named like the k-th use of another", "rename the box")
    return tuple(keys)


def network_from_nodes(nodes: object) -> Network:
    """Return the network of a flat list of maps, as it comes on the wire. Cost O(n).

    Each map has ``kind``, what its row of `KINDS` lists (a box its ``name``, a split its ``tag``, a placement its
    ``place``, an operator its ``children``, indices of earlier nodes; the others may be left out), and optionally
    ``mappings``, ``line`` and ``column``. The last node is the root.

    Raises
    ------
    UnknownKey
        When a map has a key that its kind does not have.
    InvalidValue
        When a kind is not known, a value has the wrong type, an index is no earlier node, or the list is no tree.
    TooLarge
        Beyond the limits on nodes, components or depth.
    """
    if not isinstance(nodes, (list, tuple)):
        raise InvalidValue("network", nodes, "a list of nodes")
    items = cast("Sequence[object]", nodes)
    if len(items) > limits.NETWORK_NODES_MAX:
        raise TooLarge("network nodes", len(items), limits.NETWORK_NODES_MAX)
    return Network(tuple(_node(index, item) for index, item in enumerate(items)))


def _node(index: int, item: object) -> Node:
    where = f"network[{index}]"
    if not isinstance(item, Mapping):
        raise InvalidValue(where, item, "a map with a kind")
    given = cast("Mapping[Any, Any]", item)
    kind = given.get("kind")
    rule = KINDS.get(kind) if isinstance(kind, str) else None
    if rule is None:
        raise not_one_of(f"{where}.kind", kind, KINDS)
    for key in given:
        if key not in rule.keys and key not in COMMON_KEYS:
            raise UnknownKey(f"{where}: a {kind} has no such key", field=where, value=key,
                             bound=", ".join((*COMMON_KEYS, *rule.keys)))  # fmt: skip
    checked = {key: READERS[key](f"{where}.{key}", plain(given[key])) for key in given if key != "kind"}
    for key in REQUIRED.get(str(kind), ()):
        if key not in checked:
            raise InvalidValue(f"{where}.{key}", None, f"given: a {kind} needs it")
    return Node(str(kind), **checked)


def _label(field_name: str, value: str) -> str:
    if not value or len(value.encode()) > limits.STRING_BYTES_MAX:
        raise InvalidValue(field_name, value, TEXT_BOUND)
    return value


TEXT_BOUND = f"text of 1 to {limits.STRING_BYTES_MAX} bytes"
Label = Annotated[str, Meta(description=TEXT_BOUND), Further(_label)]
Labels = Annotated[tuple[Label, ...], Meta(description="a list of texts")]
Variants = Annotated[tuple[Labels, ...], Meta(description="a list of lists of labels")]
Routes = Annotated[
    tuple[Labels, ...], Meta(min_length=1, description="the labels of an input, then those of each output")
]
Mappings = Annotated[tuple[Routes, ...], Meta(description="a list of lists of lists of labels")]
Children = Annotated[tuple[int, ...], Meta(description="a list of node indices")]
Position = Annotated[int, Meta(ge=0, le=POSITION_MAX)]
READERS: Mapping[str, Callable[[str, Any], Any]] = {
    key: shape_of(said).check_value
    for key, said in {
        "name": Name, "children": Children, "ordered": bool, "once": bool, "placed": bool, "tag": Name, "place": Position,
        "patterns": Labels, "text": Label, "consumes": Labels, "produces": Variants, "mappings": Mappings, "line": Position,
        "column": Position,
    }.items()
}  # fmt: skip
REQUIRED: Mapping[str, tuple[str, ...]] = {BOX: ("name",), SPLIT: ("tag",), PLACEMENT: ("place",)}
