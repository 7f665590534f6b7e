"""The parser's callbacks: one method a rule of snet.lark, called at its reduction, bottom-up and without recursion.

An expression under construction is a list of nodes in postfix order; a chain appends its parts to its first one's list, so
that building costs O(tokens), times the depth of brackets at worst. Patterns, guards and filters are lists of tokens, which
become the text that stands there. Types of nets are checked for their form only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from lark import Token, Transformer, v_args  # pyright: ignore[reportUnknownVariableType]

from advisor.domain import limits
from advisor.domain.networks import (
    BOX,
    CHOICE,
    FEEDBACK,
    FILTER,
    PLACEMENT,
    POSITION_MAX,
    REPLICATION,
    SERIES,
    SPLIT,
    SYNC,
    Node,
)
from advisor.errors import NetworkSyntax, TooLarge
from advisor.network.expansion import Box, Meaning, Net, SnetProgram

TAG_TOKENS_MAX = 1_000  # of one tag expression: hand-written ones have a dozen; a nested one costs its square
INTEGER_MAX = 2**63 - 1  # of a literal: what fits the widest C integer of any runtime
INTEGER_DIGITS_MAX = 32  # leading zeros included: no literal costs more than its value

TUPLES_CACHED = 1_024  # of boxes, kept read: the boxes of a program share few,
TUPLE_CACHED_CHARACTERS_MAX = 1_000  # and they are short
_NAME = re.compile(r"[A-Za-z0-9_:]+")
_BLANKS = re.compile(r"\s+")

_SHARED = "boxes and nets of one scope share a name space"
_RENAME = "rename one of them"
_TYPE, _SIGNATURE = "type", "typesig"


class _Definition(NamedTuple):
    """What a name is defined as, in a name space of its scope."""

    space: str
    name: str
    line: int
    column: int
    meaning: Meaning | None = None  # None: a type


def _define(space: str, name: Token, meaning: Meaning | None = None) -> _Definition:
    return _Definition(space, str(name), *_place(name), meaning)


def _scope(items: Iterable[object]) -> dict[str, Meaning]:
    """Return the boxes and nets that one scope defines, by name; none of its names is defined twice."""
    first: dict[tuple[str, str], _Definition] = {}
    for item in items:
        if not isinstance(item, _Definition):
            continue  # metadata, or an XML comment
        known = first.setdefault((item.space, item.name), item)
        if known is not item:
            raise NetworkSyntax(
                f"`{item.name}` is defined again, first at line {known.line}, column {known.column}",
                line=item.line, column=item.column, hint=_SHARED if item.space == _SHARED else _RENAME,
            )  # fmt: skip
    return {item.name: item.meaning for item in first.values() if item.meaning is not None}


def _place(token: Token) -> tuple[int, int]:
    return token.line or 1, token.column or 1


def _node_at(token: Token, kind: str, *, parts: int = 0, **fields: Any) -> Node:
    """Return a node whose `children` say only how many there are."""
    line, column = _place(token)
    return Node(kind, children=(0,) * parts, line=line, column=column, **fields)


def _integer(token: Token) -> int:
    """Return the value of an integer literal: decimal, 0x hexadecimal or 0 octal."""
    line, column = _place(token)
    base = 16 if token[:2] in {"0x", "0X"} else 8 if token[0] == "0" and len(token) > 1 else 10
    if base == 8 and not set(token) <= set("01234567"):
        raise NetworkSyntax(f"`{token[:INTEGER_DIGITS_MAX]}` is no octal number", line=line, column=column,
                            hint="an integer that starts with 0 is octal")  # fmt: skip
    value = int(token, base) if len(token) <= INTEGER_DIGITS_MAX else INTEGER_MAX + 1
    if value > INTEGER_MAX:
        raise NetworkSyntax(
            f"an integer of {len(token)} digits, at most {INTEGER_MAX} allowed", line=line, column=column
        )
    return value


def callbacks() -> Transformer[Token, SnetProgram]:
    """Return the callbacks that build a SnetProgram."""
    return cast("type[_Building]", v_args(inline=True)(_Building))()


class _Building(Transformer[Token, SnetProgram]):
    # Definitions

    def program(self, *items: object) -> SnetProgram:
        return SnetProgram(_scope(items))

    def bare(self, expression: list[Node]) -> SnetProgram:
        return SnetProgram({}, tuple(expression))

    def aside(self, _: Token) -> None:
        """Metadata, an XML prologue or comment say nothing."""

    def type_definition(self, name: Token, *_: object) -> _Definition:
        return _define(_TYPE, name)

    def signature_definition(self, name: Token, *_: object) -> _Definition:
        return _define(_SIGNATURE, name)

    def box_definition(self, name: Token, box: Box, code: Token | None = None) -> _Definition:
        return _define(_SHARED, name, box)

    def whole_box(self, text: Token) -> _Definition:
        return _whole_box(text)

    def box_signature(self, *parts: object) -> Box:
        consumes = next((cast("tuple[str, ...]", part) for part in parts if isinstance(part, tuple)), None)
        produces = tuple(tuple(cast("list[str]", part)) for part in parts if isinstance(part, list))
        return Box(consumes is None, consumes, produces)

    def consumed(self, *labels: str) -> tuple[str, ...]:
        return labels

    def produced(self, *labels: str) -> list[str]:
        return [*labels]

    def passing_label(self, label: str) -> str:
        return f"{label}="

    def net_definition(self, head: tuple[Token, Mapping[str, Meaning]], expression: list[Node]) -> _Definition:
        name, scope = head
        return _define(_SHARED, name, Net(str(name), scope, tuple(expression)))

    unfinished_net = net_definition

    def external_net(self, name: Token, once: bool = False) -> _Definition:
        return _define(_SHARED, name, Box(once))

    def net_head(self, name: Token, *parts: object) -> tuple[Token, Mapping[str, Meaning]]:
        scopes = [cast("dict[str, Meaning]", part) for part in parts if isinstance(part, dict)]
        return name, scopes[0] if scopes else {}

    def net_signature(self, *mappings: object) -> bool:
        """Return whether what has this type has no input: it runs once."""
        return all(mapping is False for mapping in mappings)

    def net_body(self, *items: object) -> dict[str, Meaning]:
        return _scope(items)

    # Types and labels

    def mapping(self, *parts: object) -> bool:
        """Return whether there is an input."""
        return True in parts

    def takes(self, *_: object) -> bool:
        return True

    def field(self, name: Token) -> str:
        return str(name)

    def tag(self, name: Token) -> str:
        return f"<{name}>"

    def binding_tag(self, name: Token) -> str:
        return f"<#{name}>"

    # Expressions

    def reference(self, name: Token) -> list[Node]:
        return [_node_at(name, BOX, name=str(name))]

    def bracketed(self, expression: list[Node]) -> list[Node]:
        return expression

    def series(self, *items: list[Node] | Token) -> list[Node]:
        return _chain(SERIES, items)

    def choice(self, *items: list[Node] | Token) -> list[Node]:
        return _chain(CHOICE, items)

    def ordered_choice(self, *items: list[Node] | Token) -> list[Node]:
        return _chain(CHOICE, items, ordered=True)

    def replication(self, body: list[Node], sign: Token, *patterns: str) -> list[Node]:
        ordered = sign.type == "DOUBLE_STAR"
        return _after(body, _node_at(sign, REPLICATION, parts=1, patterns=patterns, ordered=ordered))

    ordered_replication = replication

    def split(self, body: list[Node], sign: Token, tag: str) -> list[Node]:
        return _split(body, sign, tag)

    ordered_split = split

    def placed_split(self, body: list[Node], sign: Token, tag: str) -> list[Node]:
        return _split(body, sign, tag, placed=True)

    ordered_placed_split = placed_split

    def range(self, *parts: Token) -> str:
        return "".join(parts)

    def feedback(self, body: list[Node], sign: Token, *patterns: str) -> list[Node]:
        return _after(body, _node_at(sign, FEEDBACK, parts=1, patterns=patterns))

    def placement(self, body: list[Node], sign: Token, place: Token) -> list[Node]:
        number = _integer(place)
        if number > POSITION_MAX:
            line, column = _place(place)
            raise NetworkSyntax(f"place {number}, at most {POSITION_MAX} allowed", line=line, column=column)
        return _after(body, _node_at(sign, PLACEMENT, parts=1, place=number))

    def sync(self, sign: Token, *patterns: str) -> list[Node]:
        return [_node_at(sign, SYNC, patterns=patterns)]

    # What is kept as it is written

    def filter(self, sign: Token, *parts: Any) -> list[Node]:
        return [_node_at(sign, FILTER, text=_text([sign, *_tokens(parts)]))]

    def pattern(self, *parts: Any) -> str:
        return _text(_tokens(parts))

    def written(self, *parts: Any) -> list[Token]:
        return _tokens(parts)

    def number(self, digits: Token) -> Token:
        _integer(digits)
        return digits

    def tags(self, *parts: Any) -> list[Token]:
        found = _tokens(parts)
        if len(found) > TAG_TOKENS_MAX:
            raise TooLarge("network tag expression", len(found), TAG_TOKENS_MAX, "compute it in a box")
        return found


def _tokens(parts: Iterable[Any]) -> list[Token]:
    return [token for part in parts for token in ((part,) if isinstance(part, Token) else part)]


def _text(tokens: Sequence[Token]) -> str:
    """Return the text of tokens as it is written, a space where anything stands between two."""
    found: list[str] = []
    end = tokens[0].start_pos
    for token in tokens:
        found.append(token if token.start_pos == end else f" {token}")
        end = token.end_pos
    return _BLANKS.sub(" ", "".join(found))


def _whole_box(text: Token) -> _Definition:
    """Return the box of a definition that is one token; the terminal has checked its form."""
    head, _, signature = text.partition("(")
    name = head[3:].strip()
    left, _, right = signature.partition("->")
    tuples = right[: right.rindex(")")].split("|")
    consumes = _tuple(left.strip()) if "(" in left else None
    produces = tuple(_tuple(each.strip()) for each in tuples) if "(" in right else ()
    return _Definition(_SHARED, name, *_inside(text, text.index(name, 3)), Box(consumes is None, consumes, produces))


def _tuple(text: str) -> tuple[str, ...]:
    """Return the labels of ``(a, <t>, <#b>=)``."""
    return _short_tuple(text) if len(text) <= TUPLE_CACHED_CHARACTERS_MAX else _long_tuple(text)


def _long_tuple(text: str) -> tuple[str, ...]:
    return tuple(_BLANKS.sub("", each) for each in text[1:-1].split(",")) if text[1:-1].strip() else ()


_short_tuple = lru_cache(maxsize=TUPLES_CACHED)(_long_tuple)


def _inside(token: Token, offset: int) -> tuple[int, int]:
    """Return the line and column of a place inside a token."""
    line, column = _place(token)
    lines = token.count("\n", 0, offset)
    return line + lines, offset - token.rindex("\n", 0, offset) if lines else column + offset


def check_names(text: Token) -> None:
    """Raise where a name in a token is too long."""
    for found in _NAME.finditer(text):
        if len(found[0]) > limits.NAME_BYTES_MAX:
            line, column = _inside(text, found.start())
            raise NetworkSyntax(f"a name of {len(found[0])} bytes, at most {limits.NAME_BYTES_MAX} allowed",
                                line=line, column=column)  # fmt: skip


def _after(body: list[Node], operator: Node) -> list[Node]:
    body.append(operator)
    return body


def _split(body: list[Node], sign: Token, tag: str, *, placed: bool = False) -> list[Node]:
    return _after(body, _node_at(sign, SPLIT, parts=1, tag=tag, ordered=sign.type == "DOUBLE_SPLIT", placed=placed))


def _chain(kind: str, items: Sequence[list[Node] | Token], *, ordered: bool = False) -> list[Node]:
    nodes = cast("list[Node]", items[0])
    for part in items[2::2]:
        nodes += cast("list[Node]", part)
    nodes.append(_node_at(cast("Token", items[1]), kind, parts=(len(items) + 1) // 2, ordered=ordered))
    return nodes
