"""What an S-Net text says, before nets are expanded: definitions and expressions with their positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a record: `kind` is field, tag or binding tag; `passes` marks a consumed label that travels on."""

    kind: str
    name: str
    passes: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """The use of a name in an expression."""

    name: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Chain:
    """An n-ary chain of one operator: `kind` is series or choice; the position is that of its first operator."""

    kind: str
    parts: tuple[Expression, ...]
    ordered: bool
    line: int
    column: int


Expression = Reference | Chain


@dataclass(frozen=True, slots=True)
class Box:
    """A declared box; `consumes` is None for an initialiser, which has no input and runs once."""

    name: str
    line: int
    column: int
    consumes: tuple[Label, ...] | None
    produces: tuple[tuple[Label, ...], ...]


@dataclass(frozen=True, slots=True)
class Net:
    """A net with what is defined in its braces; `expression` is None for an external net."""

    name: str
    line: int
    column: int
    scope: Mapping[str, Definition]
    expression: Expression | None


Definition = Box | Net


@dataclass(frozen=True, slots=True)
class Program:
    """A whole text: its top-level definitions in order, or a bare expression, and its metadata blocks."""

    scope: Mapping[str, Definition]
    expression: Expression | None = None
    metadata: tuple[str, ...] = ()
