"""The parser's callbacks: one method a rule of snet.lark, called at its reduction, bottom-up and without recursion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple, cast

from lark import Token, Transformer, v_args  # pyright: ignore[reportUnknownVariableType]

from advisor.domain.networks import CHOICE, SERIES
from advisor.errors import NetworkSyntax
from advisor.network.program import Box, Chain, Definition, Expression, Label, Net, Program, Reference


class _Consumed(NamedTuple):
    labels: tuple[Label, ...]


class _Produced(NamedTuple):
    labels: tuple[Label, ...]


class _Body(NamedTuple):
    definitions: tuple[Definition, ...]


class _Head(NamedTuple):
    name: Token
    definitions: tuple[Definition, ...]


def _scope(definitions: Iterable[Definition]) -> dict[str, Definition]:
    """Return the definitions by name; boxes and nets share a name space."""
    scope: dict[str, Definition] = {}
    for item in definitions:
        first = scope.setdefault(item.name, item)
        if first is not item:
            raise NetworkSyntax(
                f"`{item.name}` is defined again, first at line {first.line}, column {first.column}",
                line=item.line, column=item.column, hint="boxes and nets of one scope share a name space",
            )  # fmt: skip
    return scope


def _named(items: Iterable[object]) -> tuple[Definition, ...]:
    return tuple(item for item in items if isinstance(item, (Box, Net)))


def _chain(kind: str, items: tuple[Expression | Token, ...]) -> Chain:
    operators = [item for item in items if isinstance(item, Token)]
    parts = tuple(item for item in items if not isinstance(item, Token))
    first = operators[0]
    return Chain(kind, parts, first.type == "DOUBLE_BAR", first.line or 1, first.column or 1)


def callbacks() -> Transformer[Token, Program]:
    """Return the callbacks that build a Program."""
    return cast("type[_Building]", v_args(inline=True)(_Building))()


class _Building(Transformer[Token, Program]):
    def program(self, *items: object) -> Program:
        return Program(_scope(_named(items)), metadata=tuple(item for item in items if isinstance(item, str)))

    def bare(self, expression: Expression) -> Program:
        return Program({}, expression)

    def metadata(self, text: Token) -> str:
        return str(text)

    def declared(self, *_: object) -> None:
        """Types and signatures are checked for form only: an allocation does not need them."""

    net_signature = type = record = declared

    def box_definition(self, name: Token, signature: tuple[Any, Any], *_: Token) -> Box:
        return Box(str(name), name.line or 1, name.column or 1, *signature)

    def box_signature(self, *parts: object) -> tuple[tuple[Label, ...] | None, tuple[tuple[Label, ...], ...]]:
        consumed = next((part.labels for part in parts if isinstance(part, _Consumed)), None)
        return consumed, tuple(part.labels for part in parts if isinstance(part, _Produced))

    def consumed(self, *labels: Label) -> _Consumed:
        return _Consumed(labels)

    def produced(self, *labels: Label) -> _Produced:
        return _Produced(labels)

    def consumed_label(self, label: Label) -> Label:
        return label

    def passing_label(self, label: Label) -> Label:
        return replace(label, passes=True)

    def field(self, name: Token) -> Label:
        return Label("field", str(name))

    def tag(self, name: Token) -> Label:
        return Label("tag", str(name))

    def binding_tag(self, name: Token) -> Label:
        return Label("binding tag", str(name))

    def net_definition(self, head: _Head, expression: Expression) -> Net:
        name = head.name
        return Net(str(name), name.line or 1, name.column or 1, _scope(head.definitions), expression)

    unfinished_net = net_definition

    def external_net(self, name: Token, *_: object) -> Net:
        return Net(str(name), name.line or 1, name.column or 1, {}, None)

    def net_head(self, name: Token, *parts: object) -> _Head:
        return _Head(name, next((part.definitions for part in parts if isinstance(part, _Body)), ()))

    def net_body(self, *items: object) -> _Body:
        return _Body(_named(items))

    def reference(self, name: Token) -> Reference:
        return Reference(str(name), name.line or 1, name.column or 1)

    def series(self, *items: Expression | Token) -> Chain:
        return _chain(SERIES, items)

    def choice(self, *items: Expression | Token) -> Chain:
        return _chain(CHOICE, items)
