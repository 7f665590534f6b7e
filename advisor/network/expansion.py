"""Program -> Network: names looked up from the innermost net outwards, nets expanded where they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from advisor.domain import limits
from advisor.domain.networks import BOX, Network, Node
from advisor.errors import InvalidValue, NetworkSyntax, TooLarge
from advisor.network.program import Box, Chain, Definition, Expression, Net, Program, Reference


class _Scope(NamedTuple):
    """What names mean inside one use of a net: its definitions, those around it (`outer`), who uses it (`caller`)."""

    names: Mapping[str, Definition]
    outer: _Scope | None
    net: Net | None = None
    caller: _Scope | None = None
    depth: int = 0


class _Join(NamedTuple):
    """Says that the parts of a chain stand on the stack, ready to become its children."""

    chain: Chain


def main_network(program: Program, net: str | None) -> Network:
    """Return the network of the program's main net: the one named, else the last top-level one with an expression.

    Raises
    ------
    InvalidValue
        When `net` names no net with an expression.
    NetworkSyntax
        When there is no such net, or a net contains itself.
    TooLarge
        Beyond the limits on components or depth. Cost O(components of the expanded network).
    """
    top = _Scope(program.scope, None)
    if program.expression is not None:
        if net is not None:
            raise InvalidValue("net", net, "absent: the text is one expression, without nets")
        return _expanded(program.expression, top)
    planned = {
        name: (item, item.expression)
        for name, item in program.scope.items()
        if isinstance(item, Net) and item.expression is not None
    }
    if net is not None and net not in planned:
        raise InvalidValue("net", net, f"one of: {', '.join(planned) or 'no net has a connect'}")
    if not planned:
        raise NetworkSyntax("no top-level net has a connect", line=1, column=1, hint="add: net main connect …;")
    main, expression = planned[net if net is not None else next(reversed(planned))]
    return _expanded(expression, _Scope(main.scope, top, main))


def _expanded(expression: Expression, scope: _Scope) -> Network:
    """Return the network of an expression. An explicit stack: texts nest deeper than Python's recursion likes."""
    nodes: list[Node] = []
    ready: list[int] = []  # indices of finished nodes whose parent is not finished
    boxes = uses = 0
    todo: list[tuple[Expression | _Join, _Scope]] = [(expression, scope)]
    while todo:
        item, here = todo.pop()
        if isinstance(item, Chain):
            todo.append((_Join(item), here))
            todo.extend((part, here) for part in reversed(item.parts))
            continue
        if isinstance(item, _Join):
            chain = item.chain
            children = tuple(ready[-len(chain.parts) :])
            del ready[-len(chain.parts) :]
            nodes.append(Node(chain.kind, "", children, chain.ordered, False, chain.line, chain.column))
        else:
            meant, home = _look_up(item.name, here)
            if isinstance(meant, Net) and meant.expression is not None:
                uses += 1
                if uses > limits.NETWORK_NODES_MAX:
                    raise TooLarge(
                        "network nets", uses, limits.NETWORK_NODES_MAX, "nets are expanded where they are used"
                    )
                todo.append((meant.expression, _inside(meant, home, item, here)))
                continue
            boxes += 1
            if boxes > limits.NETWORK_COMPONENTS_MAX:
                raise TooLarge("network components", boxes, limits.NETWORK_COMPONENTS_MAX,
                               "nets are expanded where they are used")  # fmt: skip
            once = isinstance(meant, Box) and meant.consumes is None
            nodes.append(Node(BOX, item.name, (), False, once, item.line, item.column))
        ready.append(len(nodes) - 1)
    return Network(tuple(nodes))


def _look_up(name: str, scope: _Scope) -> tuple[Definition | None, _Scope]:
    """Return what a name means and the scope that defines it; None is an external component."""
    here: _Scope | None = scope
    while here is not None:
        if name in here.names:
            return here.names[name], here
        here = here.outer
    return None, scope


def _inside(net: Net, home: _Scope, use: Reference, caller: _Scope) -> _Scope:
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
    return _Scope(net.scope, home, net, caller, depth)
