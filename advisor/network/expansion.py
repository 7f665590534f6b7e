"""Program -> Network: names looked up from the innermost net outwards, nets expanded where they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from advisor.domain import limits
from advisor.domain.networks import BOX, Network, Node
from advisor.errors import InvalidValue, NetworkSyntax, TooLarge

# In postfix order, the root last; `children` of a node say only how many there are. A box is the use of a name.
Expression = tuple[Node, ...]


class Box(NamedTuple):
    """What is declared of a box, as `Node` has it; of an external net whether it runs once."""

    once: bool
    consumes: tuple[str, ...] | None = None
    produces: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Net:
    """A net with what is defined in its braces."""

    name: str
    scope: Mapping[str, Meaning]
    expression: Expression


Meaning = Box | Net  # of a name


@dataclass(frozen=True, slots=True)
class SnetProgram:
    """A whole text: what it defines, in order, or a bare expression."""

    scope: Mapping[str, Meaning]
    expression: Expression | None = None


class _Scope(NamedTuple):
    """What names mean inside one use of a net: its definitions, those around it (`outer`), who uses it (`caller`)."""

    names: Mapping[str, Meaning]
    outer: _Scope | None
    net: Net | None = None
    caller: _Scope | None = None
    depth: int = 0


_EXPANDED = "nets are expanded where they are used"


def main_network(program: SnetProgram, net: str | None) -> Network:
    """Return the network of the program's main net: the one named, else the last top-level one.

    Raises InvalidValue when `net` names no net with an expression; NetworkSyntax when there is no such net, or a net contains
    itself; TooLarge beyond the limits on components or depth. Cost O(components of the expanded network).
    """
    top = _Scope(program.scope, None)
    if program.expression is not None:
        if net is not None:
            raise InvalidValue("net", net, "absent: the text is one expression, without nets")
        return _expanded(program.expression, top)
    nets = {name: item for name, item in program.scope.items() if isinstance(item, Net)}
    if net is not None and net not in nets:
        raise InvalidValue("net", net, f"one of: {', '.join(nets) or 'no net has a connect'}")
    if not nets:
        raise NetworkSyntax("no top-level net has a connect", line=1, column=1, hint="add: net main connect …;")
    main = nets[net if net is not None else next(reversed(nets))]
    return _expanded(main.expression, _Scope(main.scope, top, main))


def _expanded(expression: Expression, scope: _Scope) -> Network:
    """Return the network of an expression. Frames on an explicit stack: texts nest deeper than Python's recursion likes."""
    nodes: list[Node] = []
    ready: list[int] = []  # indices of finished nodes whose parent is not finished
    uses = boxes = 0
    frames: list[tuple[Iterator[Node], _Scope]] = [(iter(expression), scope)]
    while frames:
        items, here = frames[-1]
        for item in items:
            if item.kind == BOX:
                meant, home = _look_up(item.name, here)
                if isinstance(meant, Net):
                    uses += 1
                    if uses > limits.NETWORK_NODES_MAX:
                        raise TooLarge("network nets", uses, limits.NETWORK_NODES_MAX, _EXPANDED)
                    frames.append((iter(meant.expression), _inside(meant, home, item, here)))
                    break
                boxes += 1
                if boxes > limits.NETWORK_COMPONENTS_MAX:
                    raise TooLarge("network components", boxes, limits.NETWORK_COMPONENTS_MAX, _EXPANDED)
                nodes.append(item if meant is None else _box(item, meant))
            elif item.children:
                count = len(item.children)
                nodes.append(replace(item, children=tuple(ready[-count:])))
                del ready[-count:]
            else:
                nodes.append(item)
            ready.append(len(nodes) - 1)
        else:
            frames.pop()
    return Network(tuple(nodes))


def _box(use: Node, meant: Box) -> Node:
    return Node(BOX, use.name, (), False, meant.once, use.line, use.column,
                consumes=meant.consumes, produces=meant.produces)  # fmt: skip


def _look_up(name: str, scope: _Scope) -> tuple[Meaning | None, _Scope]:
    """Return what a name means and the scope that defines it; None is an external component."""
    here: _Scope | None = scope
    while here is not None:
        if name in here.names:
            return here.names[name], here
        here = here.outer
    return None, scope


def _inside(net: Net, home: _Scope, use: Node, caller: _Scope) -> _Scope:
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
