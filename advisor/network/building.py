"""The parser's callbacks: one method a rule of snet.lark, called at its reduction, bottom-up and without recursion.

An expression or a tag expression under construction is a list in postfix order; a chain appends its parts to its first
one's list, so that building costs O(tokens), times the depth of brackets at worst.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from lark import Token, Transformer, v_args  # pyright: ignore[reportUnknownVariableType]

from advisor.domain import limits
from advisor.domain.networks import CHOICE, FEEDBACK, PLACEMENT, POSITION_MAX, REPLICATION, SERIES, SPLIT
from advisor.errors import NetworkSyntax, TooLarge
from advisor.network import program as syntax
from advisor.network.records import BINDING_TAG, FIELD, TAG, Action, Branch, FilterItem, FilterRule, Label, Pattern

TAG_ITEMS_MAX = 1_000  # of one tag expression: hand-written ones have a dozen; writing one costs its square
INTEGER_MAX = 2**63 - 1  # of a literal: what fits the widest C integer of any runtime
INTEGER_DIGITS_MAX = 32  # leading zeros included: no literal costs more than its value

TUPLES_KEPT = 1_024  # of boxes, kept read: the boxes of a program share few,
TUPLE_KEPT_CHARACTERS_MAX = 1_000  # and they are short
_NAME = re.compile(r"[A-Za-z0-9_:]+")

Part = syntax.Reference | syntax.Chain | syntax.Postfix | syntax.Sync | syntax.Filter
Tags = list[int | str]


class _Role(NamedTuple):
    """What a part of a rule is there for, and what it says."""

    role: str
    said: tuple[Any, ...]


def _said(parts: Iterable[object], role: str) -> tuple[Any, ...] | None:
    """Return what the part of a role says; None where there is none."""
    return next((part.said for part in parts if isinstance(part, _Role) and part.role == role), None)


_SHARED = "boxes and nets of one scope share a name space"
_SPACES = {syntax.Box: _SHARED, syntax.Net: _SHARED, syntax.TypeDefinition: "", syntax.SignatureDefinition: ""}


def _defined(items: Iterable[syntax.Definition]) -> tuple[syntax.Definition, ...]:
    """Return the definitions of one scope, none of them twice."""
    definitions = tuple(item for item in items if cast("object", item) is not None)  # None: an XML comment
    first: dict[tuple[str, str], syntax.Definition] = {}
    for item in definitions:
        if isinstance(item, syntax.Metadata):
            continue
        space = _SPACES[type(item)]
        known = first.setdefault((space or type(item).__name__, item.name), item)
        if known is not item:
            raise NetworkSyntax(
                f"`{item.name}` is defined again, first at line {known.line}, column {known.column}",
                line=item.line, column=item.column, hint=space or "rename one of them",
            )  # fmt: skip
    return definitions


def _place(token: Token) -> tuple[int, int]:
    return token.line or 1, token.column or 1


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


def callbacks() -> Transformer[Token, syntax.SnetProgram]:
    """Return the callbacks that build a Program."""
    return cast("type[_Building]", v_args(inline=True)(_Building))()


class _Building(Transformer[Token, syntax.SnetProgram]):
    # Definitions

    def program(self, *items: syntax.Definition) -> syntax.SnetProgram:
        return syntax.SnetProgram(_defined(items))

    def bare(self, expression: list[Part]) -> syntax.SnetProgram:
        return syntax.SnetProgram((), tuple(expression))

    def metadata(self, text: Token) -> syntax.Metadata:
        return syntax.Metadata(str(text), *_place(text))

    def aside(self, _: Token) -> None:
        """An XML prologue or comment says nothing."""

    def type_definition(self, name: Token, variants: tuple[syntax.Variant, ...]) -> syntax.TypeDefinition:
        return syntax.TypeDefinition(str(name), *_place(name), variants)

    def signature_definition(self, name: Token, *mappings: syntax.TypeMapping | Token) -> syntax.SignatureDefinition:
        return syntax.SignatureDefinition(str(name), *_place(name), _signature(mappings))

    def box_definition(self, name: Token, signature: tuple[Any, Any], code: Token | None = None) -> syntax.Box:
        return syntax.Box(str(name), *_place(name), *signature, None if code is None else str(code))

    def whole_box(self, text: Token) -> syntax.Box:
        return _whole_box(text)

    def box_signature(self, *parts: object) -> tuple[tuple[Label, ...] | None, tuple[tuple[Label, ...], ...]]:
        produced = (part for part in parts if isinstance(part, _Role) and part.role == "produced")
        return _said(parts, "consumed"), tuple(part.said for part in produced)

    def consumed(self, *labels: Label) -> _Role:
        return _Role("consumed", labels)

    def produced(self, *labels: Label) -> _Role:
        return _Role("produced", labels)

    def passing_label(self, label: Label) -> Label:
        return label._replace(passes=True)

    def net_definition(self, head: tuple[Token, *tuple[_Role, ...]], expression: list[Part]) -> syntax.Net:
        name, *parts = head
        definitions, signature = _said(parts, "body") or (), _said(parts, "signature")
        return syntax.Net(str(name), *_place(name), definitions, tuple(expression), signature)

    unfinished_net = net_definition

    def external_net(self, name: Token, *parts: _Role) -> syntax.Net:
        return syntax.Net(str(name), *_place(name), (), None, _said(parts, "signature"))

    def net_head(self, name: Token, *parts: _Role) -> tuple[Token, *tuple[_Role, ...]]:
        return name, *parts

    def net_signature(self, *mappings: syntax.TypeMapping | Token) -> _Role:
        return _Role("signature", _signature(mappings))

    def net_body(self, *items: syntax.Definition) -> _Role:
        return _Role("body", _defined(items))

    # Types and labels

    def mapping(self, *parts: object) -> syntax.TypeMapping:
        gives = syntax.ANYTHING if any(isinstance(part, Token) for part in parts) else _said(parts, "gives")
        return syntax.TypeMapping(_said(parts, "takes"), gives)

    def takes(self, variants: tuple[syntax.Variant, ...]) -> _Role:
        return _Role("takes", variants)

    def gives(self, variants: tuple[syntax.Variant, ...]) -> _Role:
        return _Role("gives", variants)

    def type(self, *items: Any) -> tuple[syntax.Variant, ...]:
        return tuple(str(item) if isinstance(item, Token) else item for item in items
                     if not isinstance(item, Token) or item.type != "BAR")  # fmt: skip

    def record(self, *labels: Label) -> tuple[Label, ...]:
        return labels

    tuple = record

    def whole_record(self, text: Token) -> tuple[Label, ...]:
        return _whole_record(text)

    def whole_out(self, text: Token) -> Any:
        return tuple(map(FilterItem, _whole_record(text)))

    def field(self, name: Token) -> Label:
        return Label(FIELD, str(name))

    def tag(self, name: Token) -> Label:
        return Label(TAG, str(name))

    def binding_tag(self, name: Token) -> Label:
        return Label(BINDING_TAG, str(name))

    def pattern(self, labels: Sequence[Label], guard: Tags | None = None) -> Pattern:
        return Pattern(labels, None if guard is None else tuple(guard))  # pyright: ignore[reportArgumentType]

    def guard(self, tags: Tags) -> Tags:
        return tags

    # Expressions

    def reference(self, name: Token) -> list[Part]:
        return [syntax.Reference(str(name), *_place(name))]

    def bracketed(self, expression: list[Part]) -> list[Part]:
        return expression

    def series(self, *items: list[Part] | Token) -> list[Part]:
        return _chain(SERIES, items, ordered=False)

    def choice(self, *items: list[Part] | Token) -> list[Part]:
        return _chain(CHOICE, items, ordered=False)

    def ordered_choice(self, *items: list[Part] | Token) -> list[Part]:
        return _chain(CHOICE, items, ordered=True)

    def replication(self, body: list[Part], sign: Token, *patterns: Pattern) -> list[Part]:
        body.append(syntax.Postfix(REPLICATION, patterns, ordered=sign.type == "DOUBLE_STAR", **_at(sign)))
        return body

    ordered_replication = replication

    def split(self, body: list[Part], sign: Token, tag: Label) -> list[Part]:
        return _split(body, sign, tag, placed=False)

    ordered_split = split

    def placed_split(self, body: list[Part], sign: Token, tag: Label) -> list[Part]:
        return _split(body, sign, tag, placed=True)

    ordered_placed_split = placed_split

    def range(self, *parts: Token) -> Label:
        *sign, name = parts
        return Label(BINDING_TAG if sign else TAG, str(name))

    def feedback(self, body: list[Part], sign: Token, *patterns: Pattern) -> list[Part]:
        body.append(syntax.Postfix(FEEDBACK, patterns, **_at(sign)))
        return body

    def placement(self, body: list[Part], sign: Token, place: Token) -> list[Part]:
        number = _integer(place)
        if number > POSITION_MAX:
            line, column = _place(place)
            raise NetworkSyntax(f"place {number}, at most {POSITION_MAX} allowed", line=line, column=column)
        body.append(syntax.Postfix(PLACEMENT, place=number, **_at(sign)))
        return body

    def sync(self, sign: Token, *patterns: Pattern) -> list[Part]:
        return [syntax.Sync(patterns, *_place(sign))]

    # Filters

    def identity_filter(self, sign: Token) -> list[Part]:
        return [syntax.Filter(FilterRule(), *_place(sign))]

    def ruled_filter(self, sign: Token, labels: Any, *rules: Any) -> list[Part]:
        branches = tuple(rule if isinstance(rule, Branch) else Branch(None, rule) for rule in rules)
        return [syntax.Filter(FilterRule(labels, branches), *_place(sign))]

    def condition(self, guard: Tags, action: Action) -> Branch:
        return Branch(tuple(guard), action)

    guarded = condition

    def action(self, *outs: Any) -> Action:
        return outs

    def out(self, *items: Label | FilterItem | list[Label | FilterItem]) -> Any:
        each = (one for item in items for one in (item if isinstance(item, list) else (item,)))
        return tuple(one if isinstance(one, FilterItem) else FilterItem(one) for one in each)

    def set_tags(self, *items: Label | FilterItem) -> list[Label | FilterItem]:
        return list(items)

    def renamed(self, name: Token, source: Token) -> FilterItem:
        return FilterItem(Label(FIELD, str(name)), str(source))

    def set_tag(self, name: Token, tags: Tags) -> FilterItem:
        return FilterItem(Label(TAG, str(name)), tuple(tags))

    def set_binding_tag(self, name: Token, tags: Tags) -> FilterItem:
        return FilterItem(Label(BINDING_TAG, str(name)), tuple(tags))

    # Tag expressions

    def tag_value(self, name: Token) -> Tags:
        return [f"<{name}>"]

    def binding_tag_value(self, name: Token) -> Tags:
        return [f"<#{name}>"]

    def number(self, digits: Token) -> Tags:
        return [_integer(digits)]

    def bracketed_tags(self, tags: Tags) -> Tags:
        return tags

    def binary(self, left: Tags, sign: Token, right: Tags) -> Tags:
        return _applied(left, right, sign=str(sign))

    def conditional(self, *parts: Tags) -> Tags:
        return _applied(*parts, sign="?:")

    def prefixed(self, sign: Token, operand: Tags) -> Tags:
        return _applied(operand, sign={"!": "not", "-": "negative", "abs": "abs"}[sign])


def _whole_box(text: Token) -> syntax.Box:
    """Return the box of a definition that is one token; the terminal has checked its form."""
    head, _, signature = text.partition("(")
    name = head[3:].strip()
    line, column = _inside(text, text.index(name, 3))
    _check_names(text)
    left, _, right = signature.partition("->")
    tuples = right[: right.rindex(")")].split("|")
    consumed = _tuple(left.strip()) if "(" in left else None
    produced = tuple(_tuple(each.strip()) for each in tuples) if "(" in right else ()
    return syntax.Box(name, line, column, consumed, produced)


def _whole_record(text: Token) -> tuple[Label, ...]:
    """Return the labels of a record that is one token."""
    _check_names(text)
    return _tuple(str(text))


def _check_names(text: Token) -> None:
    if len(text) > limits.NAME_BYTES_MAX:
        for found in _NAME.finditer(text):
            check_name(found[0], *_inside(text, found.start()))


def _tuple(text: str) -> tuple[Label, ...]:
    """Return the labels of ``(a, <t>, <#b>=)``."""
    return _short_tuple(text) if len(text) <= TUPLE_KEPT_CHARACTERS_MAX else _long_tuple(text)


def _long_tuple(text: str) -> tuple[Label, ...]:
    return tuple(_label(each.strip()) for each in text[1:-1].split(",")) if len(text) > 2 and text[1:-1].strip() else ()


_short_tuple = lru_cache(maxsize=TUPLES_KEPT)(_long_tuple)


def _label(text: str) -> Label:
    passes = text[-1] == "="
    name = text[:-1].rstrip() if passes else text
    if name[0] != "<":
        return Label(FIELD, name, passes)
    return Label(BINDING_TAG, name[2:-1], passes) if name[1] == "#" else Label(TAG, name[1:-1], passes)


def _inside(token: Token, offset: int) -> tuple[int, int]:
    """Return the line and column of a place inside a token."""
    line, column = _place(token)
    lines = token.count("\n", 0, offset)
    return line + lines, offset - token.rindex("\n", 0, offset) if lines else column + offset


def check_name(name: str, line: int, column: int) -> None:
    """Raise where a name is too long."""
    if len(name) > limits.NAME_BYTES_MAX:
        raise NetworkSyntax(f"a name of {len(name)} bytes, at most {limits.NAME_BYTES_MAX} allowed",
                            line=line, column=column)  # fmt: skip


def _at(token: Token) -> Any:
    line, column = _place(token)
    return {"line": line, "column": column}


def _split(body: list[Part], sign: Token, tag: Label, *, placed: bool) -> list[Part]:
    body.append(syntax.Postfix(SPLIT, tag=tag, ordered=sign.type == "DOUBLE_SPLIT", placed=placed, **_at(sign)))
    return body


def _signature(mappings: Iterable[syntax.TypeMapping | Token]) -> syntax.Signature:
    return tuple(str(item) if isinstance(item, Token) else item for item in mappings)


def _chain(kind: str, items: Sequence[list[Part] | Token], *, ordered: bool) -> list[Part]:
    parts = cast("list[Part]", items[0])
    for part in items[2::2]:
        parts += cast("list[Part]", part)
    parts.append(syntax.Chain(kind, (len(items) + 1) // 2, ordered, *_place(cast("Token", items[1]))))
    return parts


def _applied(*parts: Tags, sign: str) -> Tags:
    tags = parts[0]
    for part in parts[1:]:
        tags += part
    tags.append(sign)
    if len(tags) > TAG_ITEMS_MAX:
        raise TooLarge("network tag expression", len(tags), TAG_ITEMS_MAX, "compute it in a box")
    return tags
