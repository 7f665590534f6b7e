"""Program -> Network: names looked up from the innermost net outwards, nets expanded where they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from advisor.domain import limits
from advisor.domain.networks import BOX, FILTER, SYNC, Network, Node
from advisor.errors import InvalidValue, NetworkSyntax, TooLarge
from advisor.network import program as syntax
from advisor.network.declared import Mappings, declared_type, outputs_of


class _Scope(NamedTuple):
    """What names mean inside one use of a net: its definitions, those around it (`outer`), who uses it (`caller`)."""

    names: Mapping[str, syntax.Box | syntax.Net]
    types: syntax.Types
    outer: _Scope | None
    net: syntax.Net | None = None
    caller: _Scope | None = None
    depth: int = 0


class _Frame(NamedTuple):
    """One use of a net: the rest of its expression, its scope, its declared type."""

    items: Iterator[syntax.Reference | syntax.Chain | syntax.Postfix | syntax.Sync | syntax.Filter]
    scope: _Scope
    mappings: Mappings = ()


_EXPANDED = "nets are expanded where they are used"


def main_network(program: syntax.SnetProgram, net: str | None) -> Network:
    """Return the network of the program's main net: the one named, else the last top-level one with an expression.

    Raises InvalidValue when `net` names no net with an expression; NetworkSyntax when there is no such net, or a net contains
    itself; TooLarge beyond the limits on components or depth. Cost O(components of the expanded network).
    """
    top = _Scope(program.scope, program.types, None)
    if program.expression is not None:
        if net is not None:
            raise InvalidValue("net", net, "absent: the text is one expression, without nets")
        return _expanded(program.expression, top)
    planned = {
        name: (item, item.expression)
        for name, item in program.scope.items()
        if isinstance(item, syntax.Net) and item.expression is not None
    }
    if net is not None and net not in planned:
        raise InvalidValue("net", net, f"one of: {', '.join(planned) or 'no net has a connect'}")
    if not planned:
        raise NetworkSyntax("no top-level net has a connect", line=1, column=1, hint="add: net main connect …;")
    main, expression = planned[net if net is not None else next(reversed(planned))]
    scope = _Scope(main.scope, main.types, top, main)
    return _expanded(expression, scope, declared_type(main, scope))


def _expanded(expression: syntax.Expression, scope: _Scope, mappings: Mappings = ()) -> Network:
    """Return the network of an expression. Frames on an explicit stack: texts nest deeper than Python's recursion likes."""
    nodes: list[Node] = []
    ready: list[int] = []  # indices of finished nodes whose parent is not finished
    types: dict[int, Mappings] = {}
    uses = boxes = 0
    frames = [_Frame(iter(expression), scope, mappings)]
    while frames:
        frame = frames[-1]
        for item in frame.items:
            if isinstance(item, syntax.Reference):
                meant, home = _look_up(item.name, frame.scope)
                if isinstance(meant, syntax.Net) and meant.expression is not None:
                    uses += 1
                    if uses > limits.NETWORK_NODES_MAX:
                        raise TooLarge("network nets", uses, limits.NETWORK_NODES_MAX, _EXPANDED)
                    inside = _inside(meant, home, item, frame.scope)
                    if id(meant) not in types:  # the same for each use: names are looked up where the net is defined
                        types[id(meant)] = declared_type(meant, inside)
                    frames.append(_Frame(iter(meant.expression), inside, types[id(meant)]))
                    break
                boxes += 1
                if boxes > limits.NETWORK_COMPONENTS_MAX:
                    raise TooLarge("network components", boxes, limits.NETWORK_COMPONENTS_MAX, _EXPANDED)
                nodes.append(_box(item, meant, home))
            elif isinstance(item, syntax.Chain):
                children = tuple(ready[-item.arity :])
                del ready[-item.arity :]
                nodes.append(Node(item.kind, "", children, item.ordered, line=item.line, column=item.column))
            else:
                nodes.append(_operator(item, ready))
            ready.append(len(nodes) - 1)
        else:
            frames.pop()
            if frame.mappings:
                nodes[-1] = _typed(nodes[-1], frame.mappings)
    return Network(tuple(nodes))


def _operator(item: syntax.Postfix | syntax.Sync | syntax.Filter, ready: list[int]) -> Node:
    if isinstance(item, syntax.Filter):
        return Node(FILTER, text=item.rule.text, line=item.line, column=item.column)
    patterns = tuple(pattern.text for pattern in item.patterns)
    if isinstance(item, syntax.Sync):
        return Node(SYNC, patterns=patterns, line=item.line, column=item.column)
    tag = "" if item.tag is None else item.tag.plain[1:-1]
    return Node(item.kind, "", (ready.pop(),), item.ordered, line=item.line, column=item.column, tag=tag,
                placed=item.placed, place=item.place, patterns=patterns)  # fmt: skip


def _box(use: syntax.Reference, meant: syntax.Box | syntax.Net | None, home: _Scope) -> Node:
    if isinstance(meant, syntax.Box):
        consumes = None if meant.consumes is None else tuple(label.text for label in meant.consumes)
        produces = tuple(tuple(label.plain for label in variant) for variant in meant.produces)
        return Node(BOX, use.name, (), False, consumes is None, use.line, use.column, consumes=consumes,
                    produces=produces)  # fmt: skip
    node = Node(BOX, use.name, line=use.line, column=use.column)
    if meant is None or not meant.signature:
        return node
    if all(isinstance(mapping, syntax.TypeMapping) and mapping.takes is None for mapping in meant.signature):
        return replace(node, once=True, produces=outputs_of(meant, home))
    return _typed(node, declared_type(meant, home))


def _typed(node: Node, mappings: Mappings) -> Node:
    """Return the node of a whole net with the net's declared type; what a box declares itself says more."""
    if node.kind != BOX:
        return replace(node, mappings=mappings)
    if node.once or node.consumes is not None or node.mappings:
        return node
    if len(mappings) == 1:
        return replace(node, consumes=mappings[0][0], produces=mappings[0][1:])
    return replace(node, mappings=mappings)


def _look_up(name: str, scope: _Scope) -> tuple[syntax.Box | syntax.Net | None, _Scope]:
    """Return what a name means and the scope that defines it; None is an external component."""
    here: _Scope | None = scope
    while here is not None:
        if name in here.names:
            return here.names[name], here
        here = here.outer
    return None, scope


def _inside(net: syntax.Net, home: _Scope, use: syntax.Reference, caller: _Scope) -> _Scope:
    """Return the scope inside a net at one use of it; a net that contains itself is found by its depth."""
    depth = caller.depth + 1
    if depth > limits.NETWORK_DEPTH_MAX:
        frame: _Scope | None = caller
        while frame is not None:
            if frame.net is net:
                raise NetworkSyntax(f"net `{net.name}` contains itself", line=use.line, column=use.column,
                                    hint="S-Net has no recursion")  # fmt: skip
            frame = frame.caller
        raise TooLarge(
            "network depth", depth, limits.NETWORK_DEPTH_MAX, f"nets at line {use.line}, column {use.column}"
        )
    return _Scope(net.scope, net.types, home, net, caller, depth)
